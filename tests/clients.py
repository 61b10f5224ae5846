"""API clients of users and of programs."""

from rest_framework.test import APIClient

from people import api_keys
from people.models import User
from tests.factories import make_user


def client_of(user: User) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


def signed_in(role: str) -> APIClient:
    """A new user of `role`."""
    return client_of(make_user(role))


def bearer(user: User, *scopes: str, **fields) -> APIClient:
    """A program with a new API key of `user`."""
    _, plain = api_keys.issue(user, actor=user, name="test", scopes=scopes or ["admin"], **fields)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")
    return client
