"""Any person who finds a leaked key can end it."""

import pytest
from rest_framework.test import APIClient

from catalog.notifications import dispatch, subscriptions, webhooks
from catalog.notifications.models import Delivery, Event, Mail, MailAddress, Notice
from core import rate_limits
from people import api_keys
from people.models import ApiKey, AuditEntry, Role
from people.throttling import REPORTS_PER_MINUTE
from tests.catalog.notifications.conftest import reader
from tests.clients import client_of
from tests.factories import make_user
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_limits")]
URL = "/api/v1/key-report/"


def issued(owner=None, **fields) -> tuple[ApiKey, str]:
    return api_keys.issue(owner or make_user(), actor=None, name="Leaky", scopes=["read"], **fields)


def report(key: str, **more):
    return APIClient().post(URL, {"key": key, **more})


def test_whoever_sends_a_key_ends_it():
    key, plain = issued()
    assert report(f" {plain} ", place=f"https://paste.example/{plain}").status_code == 202
    program = APIClient(headers={"authorization": f"Bearer {plain}"})
    assert program.get("/api/v1/keys/").json()["code"] == "revoked_key"
    entry = AuditEntry.objects.get(action="revoke key")
    assert (entry.actor, entry.object_id) == (None, str(key.pk))
    assert entry.why == (
        "Reported as leaked, by a caller who had the key itself. It was found at https://paste.example/pgb_…"
    )
    key.refresh_from_db()
    assert key.reported_at is not None


def test_answer_is_the_same_whatever_there_is():
    _, known_key = issued()
    ended_key, revoked = issued()
    api_keys.revoke(ended_key, actor=None)
    keys = (known_key, known_key, revoked, api_keys.generate(), "pgb_no", "x" * 200)
    answers = [report(key) for key in keys]
    assert {(answer.status_code, answer.content) for answer in answers} == {(202, answers[0].content)}
    assert {frozenset(answer.headers) for answer in answers} == {frozenset(answers[0].headers)}
    assert AuditEntry.objects.filter(action="revoke key", why__startswith="Reported").count() == 1


def test_half_a_key_or_its_prefix_ends_nothing():
    key, plain = issued()
    for part in (plain[:-1], key.prefix, plain[:26], key.digest, plain[:-1] + "0"):
        if part != plain:
            report(part)
    key.refresh_from_db()
    assert key.state == "active"


@pytest.mark.parametrize("body", [{}, {"key": ""}, {"key": "x" * 201}, {"key": 7}, [], {"key": None}])
def test_odd_report_is_refused(body):
    assert APIClient().post(URL, body, format="json").status_code == 400


def test_session_and_key_of_others_make_no_difference():
    key, plain = issued()
    stranger = APIClient(headers={"authorization": "Bearer nonsense"})
    assert stranger.post(URL, {"key": plain}).status_code == 202
    key.refresh_from_db()
    assert key.state == "revoked"
    assert stranger.get(URL).status_code == 405


def test_one_address_reports_so_often_and_no_more(monkeypatch):
    monkeypatch.setattr(rate_limits, "_KEY", "test:report")
    monkeypatch.setattr("people.throttling.REPORTS_PER_MINUTE", 3)
    monkeypatch.setattr("people.throttling.time.time", lambda: 1_800_000_000.0)
    client = APIClient()
    spoofed = [
        client.post(URL, {"key": "x"}, headers={"X-Forwarded-For": f"10.0.0.{number}"}).status_code
        for number in range(5)
    ]
    assert spoofed == [202, 202, 202, 429, 429]
    assert client.post(URL, {"key": "x"}, REMOTE_ADDR="198.51.100.7").status_code == 202
    assert REPORTS_PER_MINUTE == 30


def test_owner_is_told_unasked_and_of_others_only_administrators(settings):
    settings.MAIL_IS_SET_UP = True
    owner, admin, other, deaf = (
        reader(make_user(role)).user for role in (Role.VIEWER, Role.ADMIN, Role.DESIGNER, Role.ADMIN)
    )
    for user in (admin, other):
        subscriptions.choose(user, [Event.KEY_REPORTED])
    hook, _ = webhooks.create(
        actor=admin, name="On call", url="https://hooks.example/in", events=[Event.KEY_REPORTED]
    )
    key, plain = issued(owner)
    report(plain)
    dispatch.settle_due()
    notice = Notice.objects.get()
    assert notice.title == "The API key “Leaky” was reported as leaked"
    assert notice.facts["key"] == {
        "id": key.pk, "name": "Leaky", "prefix": key.prefix, "owner": owner.username,
    }  # fmt: skip
    assert plain not in str(notice.facts) + notice.says + notice.title
    assert set(Mail.objects.values_list("user", flat=True)) == {owner.pk, admin.pk}
    assert Delivery.objects.get().webhook == hook
    assert MailAddress.objects.filter(user=deaf).exists()


def test_page_and_list_say_that_it_was_reported():
    owner = make_user(Role.VIEWER)
    _, plain = issued(owner)
    report(plain)
    client = client_of(owner)
    assert "reported as leaked" in text_of(client.get("/keys/"))
    assert client.get("/api/v1/keys/").json()["results"][0]["reported_at"] is not None
