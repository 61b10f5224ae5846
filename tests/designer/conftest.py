import pytest
from rest_framework.test import APIClient

from people import api_keys
from people.models import Role, Scope
from tests.factories import make_user


def client_of(user):
    client = APIClient()
    client.force_login(user)
    return client


@pytest.fixture
def alice(db):
    """A designer."""
    return make_user(Role.DESIGNER, username="alice")


@pytest.fixture
def bob(db):
    """A second designer."""
    return make_user(Role.DESIGNER, username="bob")


@pytest.fixture
def api(alice):
    return client_of(alice)


@pytest.fixture
def bobs_api(bob):
    return client_of(bob)


@pytest.fixture
def runtime_api(alice):
    """An agent's runtime: a token that reads releases and nothing else."""
    _, token = api_keys.issue(alice, actor=alice, name="runtime", scopes=[Scope.RUNTIME])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client
