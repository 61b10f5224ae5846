from urllib.parse import urlsplit

import pytest

from catalog.notifications.models import MailAddress
from people.models import User
from tests.catalog.notifications.receivers import mail_server, receiver


@pytest.fixture
def post_office(settings):
    """The mail server of the settings; it replaces pytest-django's stand-in."""
    with mail_server() as server:
        settings.EMAIL_BACKEND = "core.mail_backend.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", urlsplit(server.url).port
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
        settings.MAIL_IS_SET_UP, settings.PUBLIC_URL = True, "https://pegboard.example"
        yield server


@pytest.fixture
def listener():
    with receiver() as state:
        yield state


def reader(user: User, address: str = "ada@example.com", pause_minutes: int = 5) -> MailAddress:
    """A user with a confirmed address."""
    from django.utils import timezone

    return MailAddress.objects.create(
        user=user, address=address, confirmed_at=timezone.now(), pause_minutes=pause_minutes
    )
