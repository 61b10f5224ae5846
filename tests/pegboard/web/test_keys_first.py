"""The requests that the web server's loop looks up before it reads their bodies."""

import pytest

from pegboard.web import keys_first
from pegboard.web.request_buffer import RequestHead
from people import api_keys
from people.models import ApiKey, KeyScope
from tests.factories import make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_is_believed(monkeypatch):
    monkeypatch.setattr(keys_first, "_found_at", {})


def new_key() -> str:
    user = make_user()
    return api_keys.issue(user, actor=user, name="script", scopes=[KeyScope.READ])[1]


def head(key: str, path: str = "/api/v1/agents/") -> RequestHead:
    return RequestHead(f"POST {path} HTTP/1.1\r\nAuthorization: Bearer {key}".encode())


def test_a_key_that_was_found_is_believed_for_a_minute(monkeypatch):
    request = head(new_key())
    assert keys_first.has_key_to_check(request)
    assert keys_first.is_key_known(request)
    assert not keys_first.has_key_to_check(request)
    monkeypatch.setattr(keys_first.time, "monotonic", lambda: min(keys_first._found_at.values()) + 61)
    assert keys_first.has_key_to_check(request)


def test_a_key_that_is_unknown_is_looked_up_each_time():
    request = head("pgb_unknown")
    assert not keys_first.is_key_known(request)
    assert keys_first.has_key_to_check(request)


def test_so_many_keys_are_believed_at_most(monkeypatch):
    monkeypatch.setattr(keys_first, "MAX_BELIEVED_KEYS", 2)
    for _ in range(5):
        assert keys_first.is_key_known(head(new_key()))
        assert len(keys_first._found_at) <= 2
    assert ApiKey.objects.count() == 5


def test_no_key_is_looked_up_where_pages_are():
    assert not keys_first.has_key_to_check(head("pgb_unknown", "/agents/"))
