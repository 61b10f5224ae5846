"""Callbacks: one signed request to the address that the caller of a call gave, sent when the call ends.

They are signed, sent and retried like webhooks. The body contains the address of the call, not its outputs,
which require the API key of the call.
"""

import json
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.urls import reverse

from catalog.models import Call
from catalog.models.calls import CallStatus
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
    """The address for the callback of a call. `run_of`: see `Callback`."""

    url: str
    run_of: str = ""


def check(recipient: Recipient) -> None:
    """Raise DomainError for an invalid URL. Sending it checks whether the address is allowed."""
    try:
        check_url(recipient.url[: MAX_URL_LENGTH + 1], _network_policy())
    except ProtocolError as exc:
        raise DomainError("invalid", exc.message, fields={"callback": exc.message}) from exc


def add(call: Call, recipient: Recipient) -> None:
    """Store a callback in the transaction that stores the call."""
    callback = Callback(call=call, run_of=recipient.run_of)
    url_and_secret = json.dumps([recipient.url, webhooks.new_secret().reveal()])
    callback.sealed = encryption.encrypt(Secret(url_and_secret), row=callback.pk, field=FIELD)
    callback.save(force_insert=True)


def secret_of(call: Call) -> str:
    """Return the secret that signs the callback, "" after it was sent."""
    callback = Callback.objects.filter(call=call).exclude(sealed="").first()
    return _decrypt_secrets(callback)[1].reveal() if callback else ""


def due() -> QuerySet[Callback]:
    """Return the callbacks of ended calls that may be sent now, the oldest first."""
    waiting = Callback.objects.filter(state=SendingState.WAITING, next_at__lte=Now())
    return waiting.filter(call__status=CallStatus.FINISHED).order_by("next_at", "pk")


def wake(call: Call) -> None:
    """Send the due callbacks of the call now, without waiting for the scheduler."""
    for pk in due().filter(call=call).values_list("pk", flat=True):
        wakes.wake_worker(TASK, str(pk))


def send(callback_id: str) -> None:
    if not due().filter(pk=callback_id).update(next_at=Now() + LEASE):
        return
    callback = Callback.objects.select_related("call").get(pk=callback_id)
    try:
        url, secret = _decrypt_secrets(callback)
    except UndecryptableError as exc:
        Callback.objects.filter(pk=callback.pk).update(state=SendingState.FAILED, error=exc.message[:1_000])
        return
    error, status, retry_after = webhooks.post(url, secret, callback.pk, body(callback), _network_policy())
    SENT.add("callback", "failed" if error else "sent")
    waiting_callback = Callback.objects.filter(pk=callback.pk, state=SendingState.WAITING)
    attempts = callback.attempts + 1
    if not error:
        waiting_callback.update(
            state=SendingState.SENT, sent_at=Now(), attempts=attempts, error="", sealed=""
        )
    elif status == webhooks.GONE or attempts >= webhooks.PAUSED_AFTER:
        waiting_callback.update(state=SendingState.FAILED, attempts=attempts, error=error, sealed="")
    else:
        delay = webhooks.BACK_OFF[attempts - 1]
        if retry_after:
            delay = max(delay, min(timedelta(seconds=retry_after), timedelta(days=1)))
        waiting_callback.update(attempts=attempts, error=error, next_at=Now() + delay)


def body(callback: Callback) -> bytes:
    """Return the body of the request, which is the same at every attempt.

    It is a run of ACP if the run of an agent is called back, otherwise an event `call.finished`.
    """
    call = callback.call
    if callback.run_of:
        ended, result = call.finished_at or call.queued_at, call.decoded()
        return json.dumps(
            wire.run(
                run_id=str(call.key),
                agent_id=callback.run_of,
                created_at=call.queued_at.isoformat(),
                updated_at=ended.isoformat(),
                status=wire.run_status(
                    is_success=call.outcome == "ok" and not result.cut,
                    can_resume=result.resume is not None,
                    questions=len(result.asks),
                ),
            ),
            separators=(",", ":"),
        ).encode()
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


def _decrypt_secrets(callback: Callback) -> tuple[Secret, Secret]:
    name = f"callback of call {callback.call_id}"
    url_and_secret = encryption.decrypt(callback.sealed, row=callback.pk, field=FIELD, name=name)
    url, secret = json.loads(url_and_secret.reveal())
    return Secret(url), Secret(secret)


def _network_policy() -> Policy:
    return policy_for(Door.CALLBACK, AddressSource.RUNTIME)
