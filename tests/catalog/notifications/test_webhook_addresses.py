"""The address of a webhook is a secret: encrypted in the database, and never shown after it was saved."""

import pytest
from django.db import connection

from catalog.credentials import rotation
from catalog.notifications import tasks, webhooks
from catalog.notifications.models import Delivery, Event, Notice, Webhook
from core import encryption
from people.models import AuditEntry, Role
from tests.designer.views.test_notifications import admin, api  # noqa: F401
from tests.factories import make_user
from tests.pages import text_of

pytestmark = pytest.mark.django_db
WORD = "T024-very-secret-path"
URL = f"https://hooks.example/services/{WORD}"


def make_webhook(url: str = URL) -> Webhook:
    row, _ = webhooks.create(actor=make_user(Role.ADMIN), name="Chat", url=url, events=[Event.BROKEN])
    return row


def everything_stored() -> str:
    with connection.cursor() as cursor:
        texts = []
        for table in ("notifications_webhook", "notifications_delivery", "people_auditentry"):
            cursor.execute(f"SELECT * FROM {table}")
            texts.append(str(cursor.fetchall()))
    return "".join(texts)


def test_address_is_encrypted_and_opens_again():
    row = make_webhook()
    assert WORD not in everything_stored()
    assert webhooks.address(Webhook.objects.get()).reveal() == URL
    other = make_webhook()
    Webhook.objects.filter(pk=other.pk).update(sealed_url=row.sealed_url)
    with pytest.raises(encryption.UndecryptableError):
        webhooks.address(Webhook.objects.get(pk=other.pk))


def test_address_is_shown_in_full_nowhere(admin, api):  # noqa: F811
    answer = api.post(
        "/api/v1/webhooks/", {"name": "Chat", "url": URL, "events": [Event.BROKEN]}, format="json"
    )
    row = Webhook.objects.get()
    assert answer.json()["url"] == "https://hooks.example/…"
    one = f"/api/v1/webhooks/{row.pk}/"
    replies = [
        answer,
        api.get("/api/v1/webhooks/"),
        api.get(one),
        api.patch(one, {"name": "Other"}, format="json"),
    ]
    pages = ("/notifications/", f"/notifications/webhooks/{row.pk}/", "/audit/")
    replies += [admin.get(page) for page in pages]
    assert all(WORD not in reply.content.decode() for reply in replies)
    assert "https://hooks.example/… is kept encrypted" in text_of(replies[-2])


def test_shown_form_cannot_be_saved_as_an_address(api):  # noqa: F811
    row = make_webhook()
    answer = api.patch(f"/api/v1/webhooks/{row.pk}/", {"url": "https://hooks.example/…"}, format="json")
    assert (answer.status_code, "url" in answer.json()["fields"]) == (400, True)
    assert webhooks.address(Webhook.objects.get()).reveal() == URL


def test_empty_field_keeps_the_address_and_another_takes_its_place(admin):  # noqa: F811
    row = make_webhook()
    form = {"name": "Chat", "events": [Event.BROKEN]}
    page = f"/notifications/webhooks/{row.pk}/"
    assert admin.post(page, form | {"url": ""}).status_code == 302
    assert webhooks.address(Webhook.objects.get()).reveal() == URL
    assert admin.post(page, form | {"url": f"{URL}-2"}).status_code == 302
    assert webhooks.address(Webhook.objects.get()).reveal() == f"{URL}-2"
    before, after = (
        AuditEntry.objects.filter(kind="webhook", action="edit").values_list("before", "after").get()
    )
    assert before["address"] != after["address"], "that it changed is written down"
    assert WORD not in str((before, after))


def test_error_of_a_delivery_does_not_hold_the_path(admin, listener):  # noqa: F811
    row = make_webhook(f"{listener.url}/{WORD}")
    listener.answer = lambda number: (404, {})
    page = admin.post(f"/notifications/webhooks/{row.pk}/test/", follow=True)
    assert "has nothing at /…" in text_of(page)
    assert WORD not in everything_stored()


def test_keys_change_and_addresses_go_on(settings):
    row = make_webhook()
    key = f"new:{encryption.base64.b64encode(bytes(range(32))).decode()}"
    settings.KEYS = (key, *settings.KEYS)
    rotation.rotate()
    row.refresh_from_db()
    assert (row.url_key_id, webhooks.address(row).reveal()) == ("new", URL)


def test_address_from_before_is_used_and_then_encrypted():
    row = make_webhook()
    Webhook.objects.update(url=f"{URL}-old", sealed_url="")
    row.refresh_from_db()
    assert webhooks.address(row).reveal() == f"{URL}-old"
    assert webhooks.shown_address(row) == "https://hooks.example/…"
    tasks.forget_old()
    row.refresh_from_db()
    assert (row.url, webhooks.address(row).reveal()) == ("", f"{URL}-old")
    tasks.forget_old()
    assert AuditEntry.objects.filter(kind="webhook", action="encrypt").count() == 1


def test_lost_key_is_said_and_another_address_mends_it(admin, settings):  # noqa: F811
    row = make_webhook()
    Webhook.objects.update(sealed_url="v1:gone:AAAA")
    notice = Notice.objects.create(event=Event.BROKEN, subject="1")
    delivery = Delivery.objects.create(webhook=row, notice=notice)
    delivery.webhook.refresh_from_db()
    error, status, _ = webhooks._post_delivery(delivery)
    assert (status, "“Chat”" in error) == (0, True)
    page = admin.get(f"/notifications/webhooks/{row.pk}/")
    assert "Its address cannot be decrypted any more" in text_of(page)
    form = {"name": "Chat", "events": [Event.BROKEN], "url": URL}
    assert admin.post(f"/notifications/webhooks/{row.pk}/", form).status_code == 302
    assert webhooks.address(Webhook.objects.get()).reveal() == URL


def test_removed_webhook_keeps_no_address():
    row = make_webhook()
    webhooks.remove(row, actor=make_user(Role.ADMIN))
    row.refresh_from_db()
    assert (row.url, row.sealed_url, row.sealed) == ("", "", "")
