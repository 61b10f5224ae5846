"""The pages and calls with which users choose their notifications."""

import re
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from catalog.notifications import mail, subscriptions, webhooks
from catalog.notifications.models import Delivery, Event, Mail, MailAddress, Notice, Subscription, Webhook
from people import api_keys
from people.models import AuditEntry, Role
from tests.catalog.notifications.conftest import listener, post_office, reader
from tests.factories import make_user
from tests.pages import text_of

__all__ = ["listener", "post_office"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    return make_user(Role.VIEWER)


@pytest.fixture
def browser(ada):
    client = Client()
    client.force_login(ada)
    return client


@pytest.fixture
def admin():
    client = Client()
    client.user = make_user(Role.ADMIN)
    client.force_login(client.user)
    return client


@pytest.fixture
def api():
    user = make_user(Role.ADMIN)
    _, plain = api_keys.issue(user, actor=user, name="test", scopes=["admin"])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")
    return client


def test_people_choose_for_themselves(browser, ada):
    other = make_user(Role.VIEWER)
    subscriptions.choose(other, [Event.HELD])
    browser.post("/notifications/", {"events": [Event.BROKEN, Event.REVIEW]})
    assert set(ada.subscriptions.values_list("event", flat=True)) == {"endpoint.broken", "review.waiting"}
    browser.post("/notifications/", {"events": [Event.REVIEW]})
    assert set(ada.subscriptions.values_list("event", flat=True)) == {"review.waiting"}
    assert other.subscriptions.count() == 1
    actions = AuditEntry.objects.filter(actor=ada).order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["subscribe", "subscribe", "unsubscribe"]
    page = browser.get("/notifications/").content.decode()
    assert len(re.findall(r"checked>", page)) == 1
    assert "New webhook" not in page


def test_an_address_counts_once_its_link_was_opened_and_confirmed(browser, ada, post_office):
    page = browser.post(
        "/notifications/address/", {"address": "ada@example.com", "pause_minutes": "60"}, follow=True
    )
    assert "A mail with a link was sent to ada@example.com" in text_of(page)
    mail.send(str(Mail.objects.get().pk))
    (confirmation,) = post_office.mails
    link = re.search(r"https://pegboard\.example(/\S+)", confirmation.get_content())[1]
    assert MailAddress.objects.get().confirmed_at is None

    answer = browser.get(link)
    assert answer.status_code == 200
    assert MailAddress.objects.get().confirmed_at is None, "who looks into mail follows links"
    token = re.search(r'name="token" value="([^"]+)"', answer.content.decode())[1]
    stranger = Client()
    stranger.force_login(make_user(Role.VIEWER))
    assert "too old, or was sent to another user" in text_of(
        stranger.post("/notifications/confirm/", {"token": token}, follow=True)
    )
    page = browser.post("/notifications/confirm/", {"token": token}, follow=True)
    assert "Confirmed. Mail goes to ada@example.com" in text_of(page)
    assert MailAddress.objects.get().confirmed_at
    assert "ada@example.com" not in str(AuditEntry.objects.values())
    assert urlsplit(link).path == "/notifications/confirm/"


def test_another_address_is_asked_again_and_an_old_link_says_nothing_of_it(ada, browser):
    reader(ada)
    old = mail.token_for(ada.pk, "ada@example.com")
    browser.post("/notifications/address/", {"address": "eve@example.com", "pause_minutes": "5"})
    assert MailAddress.objects.get().confirmed_at is None
    browser.post("/notifications/confirm/", {"token": old})
    assert MailAddress.objects.get().confirmed_at is None


def test_nobody_is_flooded_with_questions(browser):
    for number in range(7):
        page = browser.post(
            "/notifications/address/", {"address": f"victim{number}@example.com", "pause_minutes": "5"}
        )
    assert Mail.objects.count() == subscriptions.MAX_QUESTIONS
    assert "such mails were sent within an hour" in text_of(page)


@pytest.mark.parametrize("address", ["", "nobody", "a@b@c", "x@example.com\nBcc: y@example.com"])
def test_what_is_no_address_is_refused(browser, address):
    page = browser.post("/notifications/address/", {"address": address, "pause_minutes": "5"})
    assert page.status_code == 200
    assert not MailAddress.objects.exists()


def test_an_address_can_be_forgotten(browser, ada):
    reader(ada)
    browser.post("/notifications/address/forget/")
    assert not MailAddress.objects.exists()


def test_page_says_when_no_mail_can_leave(browser, settings):
    settings.MAIL_IS_SET_UP = False
    assert "This Pegboard cannot send mail" in text_of(browser.get("/notifications/"))


def test_secret_of_a_webhook_is_shown_once(admin, listener):
    answer = admin.post(
        "/notifications/webhooks/new/",
        {"name": "Chat", "url": listener.url, "events": [Event.BROKEN]},
    )
    plain = answer.context["plain"]
    assert plain.startswith("whsec_")
    assert "no-store" in answer.headers["Cache-Control"]
    row = Webhook.objects.get()
    for address in ("/notifications/", f"/notifications/webhooks/{row.pk}/", "/audit/"):
        assert plain not in admin.get(address).content.decode()
    again = admin.post(f"/notifications/webhooks/{row.pk}/secret/").context["plain"]
    assert again != plain


def test_a_test_shows_what_came_of_it(admin, listener):
    row, _ = webhooks.create(actor=admin.user, name="Chat", url=listener.url, events=[Event.BROKEN])
    page = admin.post(f"/notifications/webhooks/{row.pk}/test/", follow=True)
    assert "The test was delivered: the address answered 204." in text_of(page)
    listener.answer = lambda number: (500, {})
    page = admin.post(f"/notifications/webhooks/{row.pk}/test/", follow=True)
    assert "The test failed." in text_of(page)
    assert Delivery.objects.filter(state="failed", status=500).count() == 1
    row.refresh_from_db()
    assert row.failures == 0, "a test says nothing about deliveries"


def test_editing_pausing_and_removing(admin, listener):
    row, _ = webhooks.create(actor=admin.user, name="Chat", url=listener.url, events=[Event.BROKEN])
    address = f"/notifications/webhooks/{row.pk}/"
    admin.post(address, {"name": "Pager", "url": listener.url, "events": [Event.HELD]})
    admin.post(f"{address}pause/")
    row.refresh_from_db()
    assert (row.name, row.events, row.is_paused) == ("Pager", ["endpoint.held"], True)
    admin.post(f"{address}pause/")
    admin.post(f"{address}remove/")
    assert admin.get(address).status_code == 404
    row.refresh_from_db()
    assert row.sealed == ""
    actions = AuditEntry.objects.filter(kind="webhook").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["add", "edit", "pause", "resume", "remove"]
    assert listener.url not in str(AuditEntry.objects.values())


def test_a_late_edit_is_told(admin, listener):
    row, _ = webhooks.create(actor=admin.user, name="Chat", url=listener.url, events=[Event.BROKEN])
    address = f"/notifications/webhooks/{row.pk}/"
    expected = re.search(r'name="expected" value="(\w+)"', admin.get(address).content.decode())[1]
    webhooks.update(row, actor=make_user(Role.ADMIN), name="Somebody else's")
    payload = {"name": "Mine", "url": listener.url, "events": [Event.BROKEN], "expected": expected}
    answer = admin.post(address, payload)
    assert answer.status_code == 409
    assert Webhook.objects.get().name == "Somebody else's"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": "ftp://example.com/"}, "url"),
        ({"url": "https://user:password@example.com/"}, "url"),
        ({"name": ""}, "name"),
        ({"events": []}, "events"),
        ({"events": ["nonsense"]}, "events"),
    ],
)
def test_a_webhook_that_cannot_be_is_refused(admin, fields, field):
    payload = {"name": "Chat", "url": "https://chat.example/hook", "events": [Event.BROKEN]} | fields
    answer = admin.post("/notifications/webhooks/new/", payload)
    assert answer.context["form"].errors[field]
    assert not Webhook.objects.exists()


NASTY = "<script>alert(1)</script>\u202e"


def test_what_a_vendor_wrote_is_text_on_the_page(admin, listener):
    row, _ = webhooks.create(actor=admin.user, name="Chat", url=listener.url, events=[Event.BROKEN])
    now = timezone.now()
    notice = Notice.objects.create(
        event=Event.BROKEN, subject="1", settled_at=now, told_at=now, title=NASTY, says=NASTY
    )
    Delivery.objects.create(webhook=row, notice=notice, error=NASTY)
    page = admin.get(f"/notifications/webhooks/{row.pk}/").content.decode()
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_subscriptions_over_rest(api):
    assert api.post("/api/v1/subscriptions/", {"event": "endpoint.broken"}).status_code == 201
    assert api.post("/api/v1/subscriptions/", {"event": "endpoint.broken"}).status_code == 201
    assert api.post("/api/v1/subscriptions/", {"event": "nonsense"}).status_code == 400
    assert [row["event"] for row in api.get("/api/v1/subscriptions/").json()["results"]] == [
        "endpoint.broken"
    ]
    assert api.delete("/api/v1/subscriptions/endpoint.broken/").status_code == 204
    assert api.delete("/api/v1/subscriptions/endpoint.broken/").status_code == 404
    assert not Subscription.objects.exists()


def test_webhooks_over_rest(api, listener):
    response = api.post(
        "/api/v1/webhooks/", {"name": "Chat", "url": listener.url, "events": ["endpoint.broken"]}
    )
    assert response.status_code == 201, response.content
    assert response.json()["secret"].startswith("whsec_")
    address = f"/api/v1/webhooks/{response.json()['id']}/"
    webhook = api.get(address)
    assert "secret" not in webhook.json()
    assert webhook.json()["state"] == "active"
    tested = api.post(f"{address}test/")
    assert (tested.status_code, tested.json()["state"], tested.json()["status"]) == (200, "sent", 204)
    assert api.get(f"{address}deliveries/").json()["results"][0]["event"] == "test"
    etag = webhook.headers["ETag"]
    changed = api.patch(address, {"name": "Pager", "is_paused": True}, headers={"If-Match": etag})
    assert (changed.json()["name"], changed.json()["state"]) == ("Pager", "paused")
    late = api.patch(address, {"name": "Late"}, headers={"If-Match": etag})
    assert late.status_code == 409
    assert api.patch(address, {"is_paused": False}).json()["state"] == "active"
    assert api.post(f"{address}secret/").json()["secret"] != response.json()["secret"]
    assert api.delete(address).status_code == 204
    assert api.get(address).status_code == 404
