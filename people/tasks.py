from celery import shared_task
from django.contrib.sessions.models import Session
from django.utils import timezone

from core import portions, wakes
from people import idempotent_writes


@shared_task(soft_time_limit=portions.TASK_LIMIT)
def forget_sessions() -> None:
    if portions.delete(Session.objects.filter(expire_date__lt=timezone.now())):
        wakes.wake_worker(forget_sessions.name)


@shared_task(soft_time_limit=portions.TASK_LIMIT)
def forget_idempotent_writes() -> None:
    if idempotent_writes.forget_old_writes():
        wakes.wake_worker(forget_idempotent_writes.name)
