import pytest
from rest_framework.test import APIClient

from people import api_keys
from people.models import User


def bearer(user: User, *scopes: str, **fields) -> APIClient:
    """A program with a fresh token of `user`."""
    _, plain = api_keys.issue(user, actor=user, name="test", scopes=scopes or ["admin"], **fields)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")
    return client


@pytest.fixture
def program(db):
    return bearer
