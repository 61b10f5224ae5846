from celery import shared_task
from django.contrib.sessions.backends.db import SessionStore


@shared_task
def forget_sessions() -> None:
    SessionStore.clear_expired()
