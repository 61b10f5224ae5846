"""In which words each event is told, from what is true when it is told."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from catalog.models import Credential, Endpoint, Finding, VendorRequest
from catalog.models.findings import FindingState
from catalog.models.vendor_requests import RequestState
from catalog.notifications.models import TEST, Event, Notice, Webhook
from core.outbound.errors import printable
from people.models import ApiKey

MAX_SENTENCE_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Told:
    """`facts` are for programs. Text of vendors is bounded and shows what would hide in it."""

    title: str
    says: str
    path: str
    facts: dict[str, Any] = field(default_factory=dict)


def told(notice: Notice) -> Told | None:
    """None when it is no longer true."""
    return _WORDS[notice.event](notice.subject)


def tell_broken(subject: str) -> Told | None:
    endpoint = _endpoint(subject)
    if endpoint is None or not endpoint.failures:
        return None
    return _about(endpoint, "cannot be read", endpoint.error_message, with_error=True)


def tell_recovered(subject: str) -> Told | None:
    endpoint = _endpoint(subject)
    return _about(endpoint, "can be read again", "Its tools are up to date.") if endpoint else None


def tell_held(subject: str) -> Told | None:
    endpoint = _endpoint(subject)
    if endpoint is None or not endpoint.held_run_id:
        return None
    told = _about(endpoint, "waits for your decision", endpoint.error_message, with_error=True)
    facts = {**told.facts, "run": endpoint.held_run_id}
    return Told(told.title, told.says, f"/runs/{endpoint.held_run_id}/", facts)


def tell_review(subject: str) -> Told | None:
    endpoint = _endpoint(subject)
    if endpoint is None:
        return None
    waiting = Finding.objects.filter(endpoint=endpoint, state=FindingState.OPEN).decisions()
    if not (count := waiting.count()):
        return None
    first = waiting.order_by("-id").values_list("message", flat=True)[0]
    things = "1 thing" if count == 1 else f"{count:,} things"
    told = _about(endpoint, f"has {things} waiting for review", first)
    return Told(told.title, told.says, "/review/", {**told.facts, "waiting": count})


def tell_sign_in(subject: str) -> Told | None:
    credential = Credential.objects.filter(pk=subject, removed_at=None, grant__ended_at__isnull=False).first()
    if credential is None:
        return None
    name = printable(credential.name)
    facts = {"credential": {"id": str(credential.pk), "name": name, "origin": credential.origin}}
    says = printable(credential.grant.error_message, MAX_SENTENCE_LENGTH)
    return Told(f"“{name}” needs a sign-in", says, f"/credentials/{credential.pk}/", facts)


def tell_webhook_paused(subject: str) -> Told | None:
    webhook = Webhook.objects.filter(pk=subject, removed_at=None, is_paused=True).first()
    if webhook is None:
        return None
    name = printable(webhook.name)
    facts = {"webhook": {"id": str(webhook.pk), "name": name}}
    says = printable(webhook.paused_why, MAX_SENTENCE_LENGTH)
    return Told(f"The webhook “{name}” was paused", says, f"/notifications/webhooks/{webhook.pk}/", facts)


def tell_key_reported(subject: str) -> Told | None:
    key = ApiKey.objects.select_related("user").filter(pk=subject).exclude(reported_at=None).first()
    if key is None:
        return None
    name, owner = printable(key.name), printable(str(key.user), 150)
    facts = {"key": {"id": key.pk, "name": name, "prefix": key.prefix, "owner": key.user.username}}
    says = (
        f"Pegboard was sent this key of {owner}, so others may have it too. It was revoked at once. "
        "Look in the audit trail for what it did, and give the program a new one."
    )
    return Told(f"The API key “{name}” was reported as leaked", says, "/keys/", facts)


def tell_vendor_requested(subject: str) -> Told | None:
    row = VendorRequest.objects.select_related("asked_by").filter(pk=subject).first()
    if row is None or not row.is_waiting:
        return None
    who = printable(str(row.asked_by), 150)
    return _about_request(row, lambda name: f"{who} asks for “{name}”", row.reason)


def tell_vendor_answered(subject: str) -> Told | None:
    row = VendorRequest.objects.select_related("endpoint__vendor").filter(pk=subject).first()
    if row is None or row.is_waiting:
        return None
    if row.state == RequestState.DECLINED:
        return _about_request(row, lambda name: f"“{name}” was declined", row.answer)
    says = "You asked for it. Its tools are in the catalog soon."
    told = _about_request(row, lambda name: f"“{name}” is connected", says)
    return replace(told, path=f"/endpoints/{row.endpoint_id}/") if row.live_endpoint else told


def _about_request(row: VendorRequest, title: Callable[[str], str], says: str) -> Told:
    name = printable(row.vendor_name, 120)
    facts = {"request": {"id": row.pk, "vendor": name, "protocol": row.protocol, "state": row.state}}
    path = f"/vendor-requests/#request-{row.pk}"
    return Told(title(name), printable(says, MAX_SENTENCE_LENGTH), path, facts)


def tell_test(subject: str) -> Told:
    says = "A user pressed “Send a test” in Pegboard. Nothing has happened."
    return Told("A test of this webhook", says, f"/notifications/webhooks/{subject}/")


_WORDS: dict[str, Callable[[str], Told | None]] = {
    Event.BROKEN: tell_broken,
    Event.RECOVERED: tell_recovered,
    Event.HELD: tell_held,
    Event.REVIEW: tell_review,
    Event.SIGN_IN: tell_sign_in,
    Event.WEBHOOK_PAUSED: tell_webhook_paused,
    Event.KEY_REPORTED: tell_key_reported,
    Event.VENDOR_REQUESTED: tell_vendor_requested,
    Event.VENDOR_ANSWERED: tell_vendor_answered,
    TEST: tell_test,
}


def _endpoint(subject: str) -> Endpoint | None:
    return Endpoint.objects.live().select_related("vendor").filter(pk=subject).first()


def _about(endpoint: Endpoint, what: str, says: str, *, with_error: bool = False) -> Told:
    name, vendor = printable(str(endpoint), 120), printable(endpoint.vendor.name, 60)
    facts: dict[str, Any] = {
        "endpoint": {"id": endpoint.pk, "name": name, "protocol": endpoint.protocol},
        "vendor": {"slug": endpoint.vendor.slug, "name": vendor},
    }
    says = printable(says, MAX_SENTENCE_LENGTH)
    if with_error:
        facts["error"] = {"code": endpoint.error_code, "message": says}
    return Told(f"“{name}” of {vendor} {what}", says, f"/endpoints/{endpoint.pk}/", facts)
