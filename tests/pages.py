"""A signed-in browser without a screen, for tests of pages."""

import html
import re

from django.http import HttpResponse
from django.test import Client

from people.models import Role, User
from tests.factories import make_user


def signed_in(role: str = Role.VIEWER) -> Client:
    return signed_in_as(make_user(role))


def signed_in_as(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text_of(response: HttpResponse) -> str:
    """Return the text that a person reads: no tags, no runs of white space."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", response.content.decode(), flags=re.DOTALL)
    body = body.replace("<wbr>", "")
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())
