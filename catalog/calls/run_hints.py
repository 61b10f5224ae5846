"""Where vendors may say that a run has ended, so that it is looked at sooner.

Such a word is a hint and nothing else: it is not signed, so its body is not read, and what came of the run is
asked at the vendor. The address names one call and cannot be guessed.
"""

import hmac
import uuid

from django.db.models.functions import Now
from django.urls import reverse

from catalog.calls.queue import wake_worker
from catalog.models import Call
from catalog.models.calls import CallStatus
from core import encryption
from core.errors import DomainError
from core.public_url import public_url

FIELD = "catalog.call.hint"
PROOF_LENGTH = 43


def address(call: Call) -> str:
    """For the vendor of this call; "" where it is not known how we are reached."""
    try:
        ours = public_url(reverse("run-hint", args=[call.key, _proof(call.key)]))
    except DomainError:
        # Without a key of the installation there are no proofs, and the run is looked at in any case.
        return ""
    return "" if ours.startswith("/") else ours


def take(key: uuid.UUID, proof: str) -> bool:
    """Whether this is the address of a call. Its run is looked at now, unless a worker is at it."""
    if not hmac.compare_digest(proof.encode(), _proof(key).encode()):
        return False
    waiting = Call.objects.filter(key=key, status=CallStatus.RUNNING, sent_at=None).exclude(remote_run="")
    # One message for each time that a worker has let go, however often the vendor says it.
    for pk in waiting.values_list("pk", flat=True):
        if waiting.filter(pk=pk, gives_up_at__gt=Now()).update(gives_up_at=Now(), sent_at=Now()):
            wake_worker(pk)
    return True


def _proof(key: uuid.UUID) -> str:
    return encryption.keyed_digest(str(key), field=FIELD)[:PROOF_LENGTH]
