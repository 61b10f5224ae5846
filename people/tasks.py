from celery import shared_task
from django.contrib.sessions.backends.db import SessionStore

from people import idempotent_writes


@shared_task
def forget_sessions() -> None:
    SessionStore.clear_expired()


@shared_task
def forget_idempotent_writes() -> None:
    idempotent_writes.forget_old_writes()
