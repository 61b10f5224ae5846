"""Webhooks: what administrators change about them, and signed deliveries in order.

Signed as Standard Webhooks has it (https://github.com/standard-webhooks/standard-webhooks): HMAC-SHA256 over
"<webhook-id>.<webhook-timestamp>.<body>". Requests go through core/outbound, like all that leads
to an address that a person typed.
"""

import base64
import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from catalog.notifications import events, kinds, outbox
from catalog.notifications.mail import SENT
from catalog.notifications.models import TEST, Delivery, Notice, SendingState, Webhook
from core import display_names, encryption
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError
from core.failpoints import failpoint
from core.outbound.addresses import MAX_URL_LENGTH, Policy
from core.outbound.errors import ProtocolError, printable
from core.outbound.exchange import Exchange
from core.outbound.limits import DEFAULT_LIMITS
from core.outbound.policy import Door, origin_of, policy_for, source_of
from core.outbound.session import Session
from core.public_url import public_url
from people import audit
from people.audit import edit_conflicts
from people.models import User

logger = logging.getLogger(__name__)

FIELD = "notifications.webhook.sealed"
URL_FIELD = "notifications.webhook.sealed_url"
MAX_WEBHOOKS = 50
LIMITS = replace(DEFAULT_LIMITS, request=10.0, session=30.0, body=64 * 1024, backoff=())
# One sender works on a webhook for so long, and another process that finds it dead waits as long.
LEASE = timedelta(seconds=90)
# Half of the lease: the last delivery may take as long as a session lasts.
AT_WORK = 45.0
BACK_OFF = tuple(timedelta(seconds=s) for s in (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400))
PAUSED_AFTER = len(BACK_OFF) + 1
# As long as a weekend: news that is older helps no receiver.
KEPT_WAITING = timedelta(days=3)
TAKEN = tuple(range(200, 300))
GONE = 410


def live() -> QuerySet[Webhook]:
    return Webhook.objects.filter(removed_at=None)


@transaction.atomic
def create(
    *,
    actor: User | None,
    name: str,
    url: str,
    events: Iterable[str],
    owner: User | None = None,
    is_narrowed: bool = False,
) -> tuple[Webhook, Secret]:
    """With the secret that signs its deliveries, which is shown this once."""
    if live().count() >= MAX_WEBHOOKS:
        raise DomainError("too_many_webhooks", f"There are {MAX_WEBHOOKS} webhooks. Remove one first.")
    webhook = Webhook(name=name.strip(), events=_in_order(events), owner=owner, is_narrowed=is_narrowed)
    _check(webhook, url.strip())
    _encrypt(webhook, url.strip())
    secret = _new_secret(webhook)
    webhook.save()
    audit.record(actor, "add", webhook, after=facts(webhook))
    return webhook, secret


@transaction.atomic
def update(
    webhook: Webhook, *, actor: User, expected: str = edit_conflicts.ANY_STATE, **changes: Any
) -> Webhook:
    """`name`, `url`, `events`. What waits goes to the new address; without one, the old one stays."""
    webhook = _locked(webhook)
    before, url = facts(webhook), changes.get("url", "").strip()
    webhook.name = changes.get("name", webhook.name).strip()
    if "events" in changes:
        webhook.events = _in_order(changes["events"])
    _check(webhook, url)
    if url:
        _encrypt(webhook, url)
    after = facts(webhook)
    edit_conflicts.check(webhook, expected, now=before, wanted=after)
    if after == before:
        return webhook
    if after["address"] != before["address"]:
        webhook.failures, webhook.next_at = 0, timezone.now()
    webhook.save(update_fields=["name", "url", "sealed_url", "events", "failures", "next_at"])
    audit.record(actor, "edit", webhook, before=before, after=after)
    return webhook


def narrow(webhook: Webhook, *, is_narrowed: bool) -> None:
    """In the caller's transaction, which says in the audit trail which agents it is for."""
    Webhook.objects.filter(pk=webhook.pk).update(is_narrowed=is_narrowed)


@transaction.atomic
def replace_secret(webhook: Webhook, *, actor: User) -> Secret:
    """The old one signs nothing from now on."""
    webhook = _locked(webhook)
    before = {"key": webhook.key_id}
    secret = _new_secret(webhook)
    webhook.save(update_fields=["sealed"])
    audit.record(actor, "replace", webhook, before=before, after={"secret": "replaced"})
    return secret


@transaction.atomic
def pause(webhook: Webhook, *, actor: User) -> None:
    webhook = _locked(webhook)
    if not webhook.is_paused:
        _pause(webhook, actor, f"{actor} paused it.")


@transaction.atomic
def resume(webhook: Webhook, *, actor: User) -> None:
    """What waited meanwhile is delivered, unless it is older than three days."""
    webhook = _locked(webhook)
    if not webhook.is_paused:
        return
    Webhook.objects.filter(pk=webhook.pk).update(is_paused=False, paused_why="", failures=0, next_at=Now())
    audit.record(actor, "resume", webhook, before={"is_paused": True}, after={"is_paused": False})


@transaction.atomic
def remove(webhook: Webhook, *, actor: User) -> None:
    """Forgets its secret and its address; what waits is not delivered."""
    webhook = _locked(webhook)
    before = facts(webhook)
    waiting = webhook.deliveries.filter(state=SendingState.WAITING)
    waiting.update(state=SendingState.FAILED, error="The webhook was removed.")
    webhook.removed_at, webhook.sealed, webhook.sealed_url, webhook.url = timezone.now(), "", "", ""
    webhook.save(update_fields=["removed_at", "sealed", "sealed_url", "url"])
    audit.record(actor, "remove", webhook, before=before)


def send_test(webhook: Webhook, *, actor: User) -> Delivery:
    """At once and once, also to one that is paused; the delivery says what came of it."""
    with transaction.atomic():
        webhook = _locked(webhook)
        now = timezone.now()
        said = events.tell_test(str(webhook.pk))
        notice = Notice(event=TEST, subject=str(webhook.pk), settled_at=now, told_at=now)
        notice.title, notice.says, notice.path = said.title, said.says, said.path
        notice.save(force_insert=True)
        delivery = Delivery.objects.create(
            webhook=webhook, notice=notice, state=SendingState.FAILED, attempts=1, error="It was not sent."
        )
        audit.record(actor, "test", webhook, after={"delivery": str(delivery.pk)})
    error, status, _ = _post(delivery)
    _note(delivery, error, status, SendingState.FAILED)
    if not error:
        live().filter(pk=webhook.pk).update(last_sent_at=Now())
    delivery.refresh_from_db()
    return delivery


def due() -> QuerySet[Webhook]:
    """Return the webhooks with deliveries that may be sent now, the oldest first."""
    waiting = Delivery.objects.filter(webhook=OuterRef("pk"), state=SendingState.WAITING)
    ready = live().filter(Exists(waiting), is_paused=False, next_at__lte=Now())
    return ready.order_by("next_at", "pk")


def send_waiting(webhook_id: str) -> None:
    """Everything that waits for this webhook, in order, until one is not taken."""
    ready = live().filter(pk=webhook_id, is_paused=False, next_at__lte=Now())
    if not ready.update(next_at=Now() + LEASE):
        return
    webhook = Webhook.objects.get(pk=webhook_id)
    ends = time.monotonic() + AT_WORK
    waiting = webhook.deliveries.filter(state=SendingState.WAITING)
    too_old = waiting.filter(created_at__lt=Now() - KEPT_WAITING)
    too_old.update(state=SendingState.FAILED, error="It waited for three days.")
    while time.monotonic() < ends and (delivery := _next(webhook)):
        error, status, asked_wait = _post(delivery)
        failpoint("webhook-sent")
        _note(delivery, error, status, SendingState.WAITING)
        if error:
            _fail(webhook, error, status, asked_wait)
            return
        Webhook.objects.filter(pk=webhook.pk).update(failures=0, last_sent_at=Now())
    Webhook.objects.filter(pk=webhook.pk).update(next_at=Now())


def _next(webhook: Webhook) -> Delivery | None:
    waiting = webhook.deliveries.filter(state=SendingState.WAITING, webhook__is_paused=False)
    delivery = waiting.select_related("notice", "webhook").order_by("created_at", "pk").first()
    if delivery:
        Delivery.objects.filter(pk=delivery.pk).update(attempts=F("attempts") + 1)
    return delivery


def _post(delivery: Delivery) -> tuple[str, int, float | None]:
    # Why it was not taken (empty: it was), the status of the answer, and how long it asks us to wait.
    webhook = delivery.webhook
    try:
        url, secret = address(webhook), _secret(webhook)
        return post(url, secret, delivery.pk, body(delivery.notice), _policy(webhook))
    except UndecryptableError as exc:
        return printable(exc.message, 1_000), 0, None


def post(
    url: Secret, secret: Secret, sending: UUID, content: bytes, policy: Policy
) -> tuple[str, int, float | None]:
    """Why it was not taken (empty: it was), the status of the answer, and how long it asks us to wait."""
    exchanges: list[Exchange] = []
    path = urlsplit(url.reveal()).path
    headers = {"Content-Type": "application/json", "User-Agent": "Pegboard"}
    try:
        headers |= signature(secret, sending, content)
        with Session(url.reveal(), policy=policy, limits=LIMITS, exchanges=exchanges) as session:
            session.request("POST", "", content=content, headers=headers, accept=TAKEN)
    except (ProtocolError, DomainError) as exc:
        status = exchanges[-1].status if exchanges else 0
        if status in TAKEN:
            return "", status, None  # it was taken; what else was said makes no difference
        # What is kept and shown says where, and not the whole address.
        said = exc.message.replace(path, "/…") if path.strip("/") else exc.message
        return printable(said, 1_000), status, getattr(exc, "retry_after", None)
    return "", exchanges[-1].status, None


def body(notice: Notice) -> bytes:
    """The same bytes at every attempt."""
    document = {
        "type": notice.event,
        # Of the form of `data`: members are added without another number.
        "version": 1,
        "timestamp": notice.told_at.isoformat() if notice.told_at else None,
        "data": {
            "id": str(notice.pk),
            "title": notice.title,
            "says": notice.says,
            "url": public_url(notice.path),
            **notice.facts,
        },
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def signed(delivery: Delivery, content: bytes, now: int | None = None) -> dict[str, str]:
    """The three headers. Raises UndecryptableError when the secret cannot be decrypted."""
    return signature(_secret(delivery.webhook), delivery.pk, content, now)


def _secret(webhook: Webhook) -> Secret:
    return encryption.decrypt(webhook.sealed, row=webhook.pk, field=FIELD, name=webhook.name)


def signature(secret: Secret, sending: UUID, content: bytes, now: int | None = None) -> dict[str, str]:
    key = base64.b64decode(secret.reveal().removeprefix(PREFIX))
    at = str(int(time.time()) if now is None else now)
    proof = hmac.digest(key, b".".join((str(sending).encode(), at.encode(), content)), hashlib.sha256)
    return {
        "webhook-id": str(sending),
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{base64.b64encode(proof).decode()}",
    }


PREFIX = "whsec_"


def new_secret() -> Secret:
    return Secret(PREFIX + base64.b64encode(secrets.token_bytes(32)).decode())


def _new_secret(webhook: Webhook) -> Secret:
    secret = new_secret()
    webhook.sealed = encryption.encrypt(secret, row=webhook.pk, field=FIELD)
    return secret


def _note(delivery: Delivery, error: str, status: int, otherwise: SendingState) -> None:
    taken: dict[str, Any] = {"state": SendingState.SENT, "sent_at": Now()}
    outcome = {"state": otherwise} if error else taken
    Delivery.objects.filter(pk=delivery.pk).update(status=status, error=error, **outcome)
    SENT.add("webhook", "failed" if error else "sent")


@transaction.atomic
def _fail(webhook: Webhook, error: str, status: int, asked_wait: float | None) -> None:
    webhook = Webhook.objects.select_for_update().get(pk=webhook.pk)
    webhook.failures += 1
    wait = BACK_OFF[min(webhook.failures, len(BACK_OFF)) - 1]
    if asked_wait:
        wait = max(wait, min(timedelta(seconds=asked_wait), timedelta(days=1)))
    Webhook.objects.filter(pk=webhook.pk).update(failures=webhook.failures, next_at=Now() + wait)
    if status == GONE:
        _pause(webhook, None, f"It answered 410: the receiver is gone. {error}")
    elif webhook.failures >= PAUSED_AFTER:
        _pause(webhook, None, f"{webhook.failures} attempts in a row failed. The last one: {error}")


def _pause(webhook: Webhook, actor: User | None, why: str) -> None:
    changed = Webhook.objects.filter(pk=webhook.pk, is_paused=False)
    if not changed.update(is_paused=True, paused_why=why[:1_000]):
        return
    audit.record(
        actor, "pause", webhook, before={"is_paused": False}, after={"is_paused": True}, why=why[:300]
    )
    if actor is None:
        outbox.webhook_paused(webhook)


def _locked(webhook: Webhook) -> Webhook:
    found = live().select_for_update().filter(pk=webhook.pk).first()
    if found is None:
        raise DomainError("not_found", "This webhook was removed meanwhile.", status=404)
    return found


def _in_order(chosen: Iterable[str]) -> list[str]:
    wanted = set(chosen)
    return [*(event for event in kinds.KINDS if event in wanted), *sorted(wanted - set(kinds.KINDS))]


def _check(webhook: Webhook, url: str) -> None:
    # Raises DomainError for what cannot be kept.
    fields = {}
    if why := display_names.name_problem(webhook.name, 100):
        fields["name"] = why
    # Without a new address the one that is there stays.
    if url or not (webhook.sealed_url or webhook.url):
        try:
            origin_of(url[: MAX_URL_LENGTH + 1], policy=_policy(webhook))
        except ProtocolError as exc:
            fields["url"] = exc.message
    if not webhook.events or not set(webhook.events) <= set(kinds.KINDS):
        fields["events"] = "Choose at least one of the events."
    if fields:
        raise DomainError("invalid", next(iter(fields.values())), fields=fields)


def _policy(webhook: Webhook) -> Policy:
    # Webhooks of administrators have no owner.
    return policy_for(Door.WEBHOOK, source_of(is_administrator=webhook.owner_id is None))


def _encrypt(webhook: Webhook, url: str) -> None:
    webhook.sealed_url, webhook.url = encryption.encrypt(Secret(url), row=webhook.pk, field=URL_FIELD), ""


def address(webhook: Webhook) -> Secret:
    """Raises UndecryptableError. A row that code of yesterday wrote has it in plain text."""
    if webhook.url:
        return Secret(webhook.url)
    return encryption.decrypt(webhook.sealed_url, row=webhook.pk, field=URL_FIELD, name=webhook.name)


def shown_address(webhook: Webhook) -> str:
    """Its origin, and whether there is more; "" when it cannot be decrypted."""
    try:
        parts = urlsplit(address(webhook).reveal())
    except UndecryptableError:
        return ""
    return f"{parts.scheme}://{parts.netloc}{'/…' if parts.path.strip('/') else ''}"


def encrypt_addresses() -> None:
    """Those that code from before addresses were encrypted has left in plain text."""
    for pk in Webhook.objects.exclude(url="").values_list("pk", flat=True):
        with transaction.atomic():
            webhook = Webhook.objects.select_for_update().get(pk=pk)
            if webhook.url:
                _encrypt(webhook, webhook.url)
                webhook.save(update_fields=["url", "sealed_url"])
                why = "Addresses of webhooks are encrypted from now on."
                audit.record(None, "encrypt", webhook, after={"address": shown_address(webhook)}, why=why)


def facts(webhook: Webhook) -> dict[str, Any]:
    """For the audit trail, which every user reads: the path of such an address often is a secret."""
    shown = shown_address(webhook)
    told = f"{shown} ({encryption.fingerprint(address(webhook))})" if shown else "cannot be decrypted"
    return {"name": webhook.name, "address": told, "events": list(webhook.events)}
