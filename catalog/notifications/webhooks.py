"""Webhooks: their settings, and signed deliveries in order.

Signatures follow Standard Webhooks (https://github.com/standard-webhooks/standard-webhooks): HMAC-SHA256 over
"<webhook-id>.<webhook-timestamp>.<body>". Requests go through core/outbound, like all requests to addresses
that users enter.
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
from django.utils.translation import gettext as _

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
from core.outbound.session import HttpSession
from core.public_url import public_url
from people import audit
from people.audit import edit_conflicts
from people.models import User

logger = logging.getLogger(__name__)

FIELD = "notifications.webhook.sealed"
URL_FIELD = "notifications.webhook.sealed_url"
MAX_WEBHOOKS = 50
LIMITS = replace(DEFAULT_LIMITS, request=10.0, session=30.0, body=64 * 1024, backoff=())
# A sender owns a webhook for this time. Another process waits as long before it takes over.
LEASE = timedelta(seconds=90)
# Half of the lease, in seconds, because the last delivery may take a whole session.
WORK_SECONDS = 45.0
BACK_OFF = tuple(timedelta(seconds=s) for s in (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400))
PAUSED_AFTER = len(BACK_OFF) + 1
# Long enough for a weekend. Receivers have no use for older news.
MAX_WAITING_TIME = timedelta(days=3)
ACCEPTED_STATUSES = tuple(range(200, 300))
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
    """Create a webhook. Return it with the secret that signs its deliveries, which is not shown again."""
    if live().count() >= MAX_WEBHOOKS:
        raise DomainError(
            "too_many_webhooks",
            _("There are {maximum} webhooks. Remove one first.").format(maximum=MAX_WEBHOOKS),
        )
    webhook = Webhook(name=name.strip(), events=_sort_events(events), owner=owner, is_narrowed=is_narrowed)
    _check_webhook(webhook, url.strip())
    _encrypt_address(webhook, url.strip())
    secret = _new_secret(webhook)
    webhook.save()
    audit.record(actor, "add", webhook, after=facts(webhook))
    return webhook, secret


@transaction.atomic
def update(
    webhook: Webhook, *, actor: User, expected: str = edit_conflicts.ANY_STATE, **changes: Any
) -> Webhook:
    """Change `name`, `url` or `events`. Waiting deliveries go to a new address. An empty `url` keeps the
    old one."""
    webhook = _lock_webhook(webhook)
    before, url = facts(webhook), changes.get("url", "").strip()
    webhook.name = changes.get("name", webhook.name).strip()
    if "events" in changes:
        webhook.events = _sort_events(changes["events"])
    _check_webhook(webhook, url)
    if url:
        _encrypt_address(webhook, url)
    after = facts(webhook)
    edit_conflicts.check(webhook, expected, now=before, submitted=after)
    if after == before:
        return webhook
    if after["address"] != before["address"]:
        webhook.failures, webhook.next_at = 0, timezone.now()
    webhook.save(update_fields=["name", "url", "sealed_url", "events", "failures", "next_at"])
    audit.record(actor, "edit", webhook, before=before, after=after)
    return webhook


def narrow(webhook: Webhook, *, is_narrowed: bool) -> None:
    """Set `is_narrowed`, in the transaction of the caller, which audits the agents."""
    Webhook.objects.filter(pk=webhook.pk).update(is_narrowed=is_narrowed)


@transaction.atomic
def replace_secret(webhook: Webhook, *, actor: User) -> Secret:
    """Create a new secret, which signs all further deliveries."""
    webhook = _lock_webhook(webhook)
    before = {"key": webhook.key_id}
    secret = _new_secret(webhook)
    webhook.save(update_fields=["sealed"])
    audit.record(actor, "replace", webhook, before=before, after={"secret": "replaced"})
    return secret


@transaction.atomic
def pause(webhook: Webhook, *, actor: User) -> None:
    webhook = _lock_webhook(webhook)
    if not webhook.is_paused:
        _pause_webhook(webhook, actor, f"{actor} paused it.")


@transaction.atomic
def resume(webhook: Webhook, *, actor: User) -> None:
    """Resume deliveries. Those that have waited for more than three days are dropped."""
    webhook = _lock_webhook(webhook)
    if not webhook.is_paused:
        return
    Webhook.objects.filter(pk=webhook.pk).update(is_paused=False, paused_why="", failures=0, next_at=Now())
    audit.record(actor, "resume", webhook, before={"is_paused": True}, after={"is_paused": False})


@transaction.atomic
def remove(webhook: Webhook, *, actor: User) -> None:
    """Remove the webhook, delete its secret and its address, and drop its waiting deliveries."""
    webhook = _lock_webhook(webhook)
    before = facts(webhook)
    waiting = webhook.deliveries.filter(state=SendingState.WAITING)
    waiting.update(state=SendingState.FAILED, error="The webhook was removed.")
    webhook.removed_at, webhook.sealed, webhook.sealed_url, webhook.url = timezone.now(), "", "", ""
    webhook.save(update_fields=["removed_at", "sealed", "sealed_url", "url"])
    audit.record(actor, "remove", webhook, before=before)


def send_test(webhook: Webhook, *, actor: User) -> Delivery:
    """Send one test delivery now, even to a paused webhook, and return it with its result."""
    with transaction.atomic():
        webhook = _lock_webhook(webhook)
        now = timezone.now()
        text = events.describe_test(str(webhook.pk))
        notice = Notice(event=TEST, subject=str(webhook.pk), settled_at=now, told_at=now)
        notice.title, notice.says, notice.path = text.title, text.says, text.path
        notice.save(force_insert=True)
        delivery = Delivery.objects.create(
            webhook=webhook, notice=notice, state=SendingState.FAILED, attempts=1, error="It was not sent."
        )
        audit.record(actor, "test", webhook, after={"delivery": str(delivery.pk)})
    error, status, _unused = _post_delivery(delivery)
    _record_attempt(delivery, error, status, SendingState.FAILED)
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
    """Send the waiting deliveries of a webhook in order, until one fails."""
    ready = live().filter(pk=webhook_id, is_paused=False, next_at__lte=Now())
    if not ready.update(next_at=Now() + LEASE):
        return
    webhook = Webhook.objects.get(pk=webhook_id)
    ends = time.monotonic() + WORK_SECONDS
    waiting = webhook.deliveries.filter(state=SendingState.WAITING)
    too_old = waiting.filter(created_at__lt=Now() - MAX_WAITING_TIME)
    too_old.update(state=SendingState.FAILED, error="It waited for three days.")
    unpaused = waiting.filter(webhook__is_paused=False).select_related("notice", "webhook")
    while time.monotonic() < ends and (delivery := unpaused.order_by("created_at", "pk").first()):
        Delivery.objects.filter(pk=delivery.pk).update(attempts=F("attempts") + 1)
        error, status, retry_after = _post_delivery(delivery)
        failpoint("webhook-sent")
        _record_attempt(delivery, error, status, SendingState.WAITING)
        if not error:
            Webhook.objects.filter(pk=webhook.pk).update(failures=0, last_sent_at=Now())
            continue
        with transaction.atomic():
            webhook = Webhook.objects.select_for_update().get(pk=webhook.pk)
            webhook.failures += 1
            delay = BACK_OFF[min(webhook.failures, len(BACK_OFF)) - 1]
            if retry_after:
                delay = max(delay, min(timedelta(seconds=retry_after), timedelta(days=1)))
            Webhook.objects.filter(pk=webhook.pk).update(failures=webhook.failures, next_at=Now() + delay)
            if status == GONE:
                _pause_webhook(webhook, None, f"It answered 410: the receiver is gone. {error}")
            elif webhook.failures >= PAUSED_AFTER:
                _pause_webhook(
                    webhook, None, f"{webhook.failures} attempts in a row failed. The last one: {error}"
                )
        return
    Webhook.objects.filter(pk=webhook.pk).update(next_at=Now())


def _post_delivery(delivery: Delivery) -> tuple[str, int, float | None]:
    """Send a delivery. Return the result of `post`."""
    webhook = delivery.webhook
    try:
        secret = encryption.decrypt(webhook.sealed, row=webhook.pk, field=FIELD, name=webhook.name)
        return post(address(webhook), secret, delivery.pk, body(delivery.notice), _network_policy(webhook))
    except UndecryptableError as exc:
        return printable(exc.message, 1_000), 0, None


def post(
    url: Secret, secret: Secret, sending: UUID, content: bytes, policy: Policy
) -> tuple[str, int, float | None]:
    """Send a signed request. Return the error ("" if it was accepted), the status, and the seconds of
    `Retry-After`."""
    exchanges: list[Exchange] = []
    path = urlsplit(url.reveal()).path
    headers = {"Content-Type": "application/json", "User-Agent": "Pegboard"}
    try:
        headers |= signature(secret, sending, content)
        with HttpSession(url.reveal(), policy=policy, limits=LIMITS, exchanges=exchanges) as session:
            session.request("POST", "", content=content, headers=headers, accept=ACCEPTED_STATUSES)
    except (ProtocolError, DomainError) as exc:
        status = exchanges[-1].status if exchanges else 0
        if status in ACCEPTED_STATUSES:
            return "", status, None  # accepted, whatever the rest of the reply
        # The message that is stored and shown contains only the host of the address.
        message = exc.message.replace(path, "/…") if path.strip("/") else exc.message
        return printable(message, 1_000), status, getattr(exc, "retry_after", None)
    return "", exchanges[-1].status, None


def body(notice: Notice) -> bytes:
    """Return the body of the request, which is the same at every attempt."""
    document = {
        "type": notice.event,
        # The version of `data`. Added members do not change it.
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


def signature(secret: Secret, sending: UUID, content: bytes, now: int | None = None) -> dict[str, str]:
    """Return the three signature headers (Standard Webhooks). now: Unix time."""
    key = base64.b64decode(secret.reveal().removeprefix(PREFIX))
    timestamp = str(int(time.time()) if now is None else now)
    mac = hmac.digest(key, b".".join((str(sending).encode(), timestamp.encode(), content)), hashlib.sha256)
    return {
        "webhook-id": str(sending),
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }


PREFIX = "whsec_"


def new_secret() -> Secret:
    return Secret(PREFIX + base64.b64encode(secrets.token_bytes(32)).decode())


def _new_secret(webhook: Webhook) -> Secret:
    secret = new_secret()
    webhook.sealed = encryption.encrypt(secret, row=webhook.pk, field=FIELD)
    return secret


def _record_attempt(delivery: Delivery, error: str, status: int, state_after_failure: SendingState) -> None:
    success: dict[str, Any] = {"state": SendingState.SENT, "sent_at": Now()}
    outcome = {"state": state_after_failure} if error else success
    Delivery.objects.filter(pk=delivery.pk).update(status=status, error=error, **outcome)
    SENT.add("webhook", "failed" if error else "sent")


def _pause_webhook(webhook: Webhook, actor: User | None, why: str) -> None:
    changed = Webhook.objects.filter(pk=webhook.pk, is_paused=False)
    if not changed.update(is_paused=True, paused_why=why[:1_000]):
        return
    audit.record(
        actor, "pause", webhook, before={"is_paused": False}, after={"is_paused": True}, why=why[:300]
    )
    if actor is None:
        outbox.report_paused_webhook(webhook)


def _lock_webhook(webhook: Webhook) -> Webhook:
    locked_webhook = live().select_for_update().filter(pk=webhook.pk).first()
    if locked_webhook is None:
        raise DomainError("not_found", _("This webhook was removed meanwhile."), status=404)
    return locked_webhook


def _sort_events(events: Iterable[str]) -> list[str]:
    """Sort events in the order of the registry. Unknown events come last."""
    selected = set(events)
    return [*(event for event in kinds.KINDS if event in selected), *sorted(selected - set(kinds.KINDS))]


def _check_webhook(webhook: Webhook, url: str) -> None:
    """Raise DomainError for a name, an address or events that are invalid."""
    fields = {}
    if reason := display_names.name_problem(webhook.name, 100):
        fields["name"] = reason
    # An empty address keeps the existing one.
    if url or not (webhook.sealed_url or webhook.url):
        try:
            origin_of(url[: MAX_URL_LENGTH + 1], policy=_network_policy(webhook))
        except ProtocolError as exc:
            fields["url"] = exc.message
    if not webhook.events or not set(webhook.events) <= set(kinds.KINDS):
        fields["events"] = _("Choose at least one of the events.")
    if fields:
        raise DomainError("invalid", next(iter(fields.values())), fields=fields)


def _network_policy(webhook: Webhook) -> Policy:
    return policy_for(Door.WEBHOOK, source_of(is_administrator=webhook.owner_id is None))


def _encrypt_address(webhook: Webhook, url: str) -> None:
    webhook.sealed_url, webhook.url = encryption.encrypt(Secret(url), row=webhook.pk, field=URL_FIELD), ""


def address(webhook: Webhook) -> Secret:
    """Return the address of a webhook. Raises UndecryptableError. Rows of earlier releases contain it in
    plain text."""
    if webhook.url:
        return Secret(webhook.url)
    return encryption.decrypt(webhook.sealed_url, row=webhook.pk, field=URL_FIELD, name=webhook.name)


def shown_address(webhook: Webhook) -> str:
    """Return the origin of the address, and "/…" if it has a path, or "" if it cannot be decrypted."""
    try:
        parts = urlsplit(address(webhook).reveal())
    except UndecryptableError:
        return ""
    return f"{parts.scheme}://{parts.netloc}{'/…' if parts.path.strip('/') else ''}"


def encrypt_addresses() -> None:
    """Encrypt the addresses that earlier releases stored in plain text."""
    for pk in Webhook.objects.exclude(url="").values_list("pk", flat=True):
        with transaction.atomic():
            webhook = Webhook.objects.select_for_update().get(pk=pk)
            if webhook.url:
                _encrypt_address(webhook, webhook.url)
                webhook.save(update_fields=["url", "sealed_url"])
                reason = "Addresses of webhooks are encrypted from now on."
                audit.record(None, "encrypt", webhook, after={"address": shown_address(webhook)}, why=reason)


def facts(webhook: Webhook) -> dict[str, Any]:
    """Return the state for the audit trail, without the path of the address, which is often a secret."""
    origin = shown_address(webhook)
    address_text = (
        f"{origin} ({encryption.fingerprint(address(webhook))})" if origin else "cannot be decrypted"
    )
    return {"name": webhook.name, "address": address_text, "events": list(webhook.events)}
