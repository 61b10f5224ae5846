"""Addresses at which vendors may report that a run has ended, so that it is polled sooner.

Such a report is only a hint. It is not signed, its body is not read, and the vendor is polled for the result.
The address belongs to one call and cannot be guessed.
"""

import hmac
import uuid
from collections.abc import Iterable

from django.db.models.functions import Now
from django.urls import reverse

from catalog.models import Call
from catalog.models.calls import CallStatus
from core import encryption
from core.errors import DomainError
from core.outbound.exchange import Exchange, strike_out
from core.outbound.secret_echo import SecretScanner
from core.public_url import public_url
from execution.calls.queue import wake_worker

FIELD = "catalog.call.hint"
PROOF_LENGTH = 43


def address(call: Call) -> str:
    """Return the address for the vendor of this call, or "" if Pegboard's own address is not known."""
    try:
        url = public_url(reverse("run-hint", args=[call.key, _proof_of_key(call.key)]))
    except DomainError:
        # Without a key of the installation there is no proof. The run is polled anyway.
        return ""
    return "" if url.startswith("/") else url


def hide_address(call: Call, exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return the records of requests without the proof: vendors return the address with the run."""
    secrets = SecretScanner([_proof_of_key(call.key)])
    return [strike_out(exchange, secrets) for exchange in exchanges]


def take(key: uuid.UUID, proof: str) -> bool:
    """Poll the run of the call now, unless a worker is polling it. Return whether the proof is valid."""
    if not hmac.compare_digest(proof.encode(), _proof_of_key(key).encode()):
        return False
    waiting = Call.objects.filter(key=key, status=CallStatus.RUNNING, sent_at=None).exclude(remote_run="")
    # One wake for each release by a worker, however often the vendor reports.
    for pk in waiting.values_list("pk", flat=True):
        if waiting.filter(pk=pk, gives_up_at__gt=Now()).update(gives_up_at=Now(), sent_at=Now()):
            wake_worker(pk)
    return True


def _proof_of_key(key: uuid.UUID) -> str:
    return encryption.keyed_digest(str(key), field=FIELD)[:PROOF_LENGTH]
