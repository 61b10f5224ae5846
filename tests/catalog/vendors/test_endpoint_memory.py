"""Facts that a protocol finds out about an endpoint are stored, unless its address has changed meanwhile."""

import pytest

from catalog.credentials import sessions
from catalog.models import Endpoint
from catalog.vendors import operations as vendor_operations
from people.models import Role
from tests.factories import make_endpoint, make_user

pytestmark = pytest.mark.django_db


def remembered(endpoint):
    return Endpoint.objects.get(pk=endpoint.pk).memory


def test_what_a_conversation_found_out_is_there_for_the_next():
    endpoint = make_endpoint(url="http://127.0.0.1:9/")
    with sessions.open_session(endpoint) as session:
        session.memory["era"] = "modern"
    assert remembered(endpoint) == {"era": "modern"}


@pytest.mark.parametrize(
    "change",
    [{"url": "http://127.0.0.1:10/"}, {"settings": {"page_size": 7}}, {"url": "http://127.0.0.1:9/b"}],
)
def test_what_was_found_out_about_another_address_is_not_written_back(change):
    endpoint = make_endpoint(url="http://127.0.0.1:9/")
    with sessions.open_session(endpoint) as session:
        session.memory["era"] = "handshake"
        vendor_operations.update_endpoint(
            Endpoint.objects.get(pk=endpoint.pk), actor=make_user(Role.ADMIN), **change
        )
    assert remembered(endpoint) == {}
