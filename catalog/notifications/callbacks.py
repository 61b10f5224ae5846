"""The end of a call, told once to the address that its caller gave.

Signed, sent and repeated as webhooks are. What is sent says that the call has ended and where it is found;
its outputs are for the key that made it.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.urls import reverse

from catalog.models import Call
from catalog.models.calls import CallStatus, Result
from catalog.notifications import webhooks
from catalog.notifications.mail import SENT
from catalog.notifications.models import Callback, SendingState
from core import encryption, wakes
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError
from core.outbound.addresses import MAX_URL_LENGTH, Policy, check_url
from core.outbound.errors import ProtocolError
from core.outbound.policy import AddressSource, Door, policy_for
from core.public_url import public_url
from protocols.acp import wire

TASK = "catalog.notifications.tasks.send_callback"
FIELD = "notifications.callback.sealed"
LEASE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Recipient:
    """Who hears of the end of a call. `run_of`: as in `Callback`."""

    url: str
    run_of: str = ""


def check(recipient: Recipient) -> None:
    """Raises DomainError for what is no address. Whether it may be reached is judged when it is."""
    try:
        check_url(recipient.url[: MAX_URL_LENGTH + 1], _policy())
    except ProtocolError as exc:
        raise DomainError("invalid", exc.message, fields={"callback": exc.message}) from exc


def add(call: Call, recipient: Recipient) -> None:
    """In the transaction that writes the call down."""
    callback = Callback(call=call, run_of=recipient.run_of)
    both = json.dumps([recipient.url, webhooks.new_secret().reveal()])
    callback.sealed = encryption.encrypt(Secret(both), row=callback.pk, field=FIELD)
    callback.save(force_insert=True)


def secret_of(call: Call) -> str:
    """By which its caller knows that what comes is from here; "" once it was sent."""
    callback = Callback.objects.filter(call=call).exclude(sealed="").first()
    return _opened(callback)[1].reveal() if callback else ""


def due() -> QuerySet[Callback]:
    """Return the callbacks of ended calls that may be sent now, the oldest first."""
    waiting = Callback.objects.filter(state=SendingState.WAITING, next_at__lte=Now())
    return waiting.filter(call__status=CallStatus.FINISHED).order_by("next_at", "pk")


def wake(call: Call) -> None:
    """Tell a worker that the call has ended, before the scheduler looks."""
    for pk in due().filter(call=call).values_list("pk", flat=True):
        wakes.wake_worker(TASK, str(pk))


def send(callback_id: str) -> None:
    if not due().filter(pk=callback_id).update(next_at=Now() + LEASE):
        return
    callback = Callback.objects.select_related("call").get(pk=callback_id)
    try:
        url, secret = _opened(callback)
    except UndecryptableError as exc:
        Callback.objects.filter(pk=callback.pk).update(state=SendingState.FAILED, error=exc.message[:1_000])
        return
    error, status, asked_wait = webhooks.post(url, secret, callback.pk, body(callback), _policy())
    SENT.add("callback", "failed" if error else "sent")
    ours = Callback.objects.filter(pk=callback.pk, state=SendingState.WAITING)
    attempts = callback.attempts + 1
    if not error:
        ours.update(state=SendingState.SENT, sent_at=Now(), attempts=attempts, error="", sealed="")
    elif status == webhooks.GONE or attempts >= webhooks.PAUSED_AFTER:
        ours.update(state=SendingState.FAILED, attempts=attempts, error=error, sealed="")
    else:
        wait = webhooks.BACK_OFF[attempts - 1]
        if asked_wait:
            wait = max(wait, min(timedelta(seconds=asked_wait), timedelta(days=1)))
        ours.update(attempts=attempts, error=error, next_at=Now() + wait)


def body(callback: Callback) -> bytes:
    """The same bytes at every attempt."""
    call = callback.call
    if callback.run_of:
        return json.dumps(_run(call, callback.run_of), separators=(",", ":")).encode()
    document = {
        "type": "call.finished",
        "timestamp": call.finished_at.isoformat() if call.finished_at else None,
        "data": {
            "call": call.pk,
            "id": call.idempotency_key or str(call.key),
            "outcome": call.outcome,
            "error_code": call.error_code,
            "url": public_url(reverse("api-runtime-call", args=[call.pk])),
        },
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def run_status(outcome: str | None, result: Result) -> str:
    """How a call ended, as ACP says it of a run."""
    if outcome == "ok" and not result.cut:
        return "success"
    # An interrupt is one question.
    return "interrupted" if result.resume is not None and len(result.asks) == 1 else "error"


def _run(call: Call, agent_id: str) -> dict[str, Any]:
    # The `Run` of ACP. It says how the run ended and not with what.
    ended = call.finished_at or call.queued_at
    return wire.run(
        run_id=str(call.key),
        agent_id=agent_id,
        created_at=call.queued_at.isoformat(),
        updated_at=ended.isoformat(),
        status=run_status(call.outcome, call.decoded()),
    )


def _opened(callback: Callback) -> tuple[Secret, Secret]:
    name = f"callback of call {callback.call_id}"
    both = encryption.decrypt(callback.sealed, row=callback.pk, field=FIELD, name=name)
    url, secret = json.loads(both.reveal())
    return Secret(url), Secret(secret)


def _policy() -> Policy:
    return policy_for(Door.CALLBACK, AddressSource.RUNTIME)
