from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone

from pegboard.celery import app
from people.tasks import forget_sessions

pytestmark = pytest.mark.django_db


def make_session(key: str, lives: timedelta) -> None:
    Session.objects.create(session_key=key, session_data="", expire_date=timezone.now() + lives)


def test_sessions_that_have_ended_are_deleted_and_others_stay():
    make_session("ended", timedelta(seconds=-1))
    make_session("lives", timedelta(days=1))
    forget_sessions()
    forget_sessions()
    assert list(Session.objects.values_list("session_key", flat=True)) == ["lives"]


def test_ended_sessions_are_looked_for_by_the_scheduler():
    entries = [each["task"] for each in settings.CELERY_BEAT_SCHEDULE.values()]
    assert forget_sessions.name in entries
    assert forget_sessions.name in app.tasks
