from collections.abc import Iterator

import pytest
from rest_framework.test import APIClient

from people.models import Role
from tests.factories import make_user
from tests.vendor import Vendor, serving, tools


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with serving(Vendor(tools(25))) as vendor:
        yield vendor


def signed_in(role: str) -> APIClient:
    client = APIClient()
    client.force_login(make_user(role))
    return client


@pytest.fixture
def admin_api(db: None) -> APIClient:
    return signed_in(Role.ADMIN)


@pytest.fixture
def designer_api(db: None) -> APIClient:
    return signed_in(Role.DESIGNER)
