from celery import shared_task
from django.contrib.sessions.backends.db import SessionStore


@shared_task
def forget_sessions() -> None:
    """Rows of sessions that have ended; nobody can use them any more."""
    SessionStore.clear_expired()
