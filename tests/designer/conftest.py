import pytest

from people.models import KeyScope, Role
from tests.clients import bearer, client_of
from tests.factories import make_user
from tests.module_data import module_data


@module_data
def alice():
    """A designer."""
    return make_user(Role.DESIGNER, username="alice")


@module_data
def bob():
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
    return bearer(alice, KeyScope.RUNTIME)
