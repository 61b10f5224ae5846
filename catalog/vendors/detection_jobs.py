"""Detections in the background, so that no page waits for a vendor.

A detection is a few facts that expire: they are in Redis, encrypted, because an address may contain a key and
a pasted document is not ours. A worker performs it and reports its progress; the page reads it.
"""

import logging
import time
from contextlib import suppress
from typing import Literal
from uuid import UUID, uuid4

import msgspec
import redis
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from catalog.vendors import detection
from catalog.vendors.detection import Detection
from catalog.vendors.setting_values import MAX_DOCUMENT_BYTES
from core import encryption, redis_client, wakes
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError, invalid
from core.outbound.addresses import MAX_URL_LENGTH, check_url, in_ascii
from core.outbound.errors import RefusedError
from core.outbound.policy import AddressSource, Door, policy_for
from people.models import User

logger = logging.getLogger(__name__)

TASK = "catalog.tasks.detect_protocol"
EXPIRE_SECONDS = 3_600
# A worker takes about a minute at most. After this time the message or the worker was lost.
LOST_AFTER_SECONDS = 120
_FIELD = "catalog.detection"
_FAILURE = {
    "code": "DETECTION_FAILED",
    "message": "Pegboard could not inspect this, because of an error of its own; the log of the worker has "
    "it. Choose the protocol yourself.",
}


class Job(msgspec.Struct):
    """A detection with its progress.

    began_at: when it was queued, and later when a worker began it. tried: names of protocols; the last one is
    being tried.
    """

    owner: int
    address: str
    is_document: bool
    began_at: float
    state: Literal["queued", "running", "done"] = "queued"
    tried: list[str] = []
    tools: int = 0
    result: Detection | None = None

    @property
    def is_active(self) -> bool:
        return self.state != "done" and not self.is_lost

    @property
    def is_lost(self) -> bool:
        return self.state != "done" and time.time() - self.began_at > LOST_AFTER_SECONDS


def begin(source: str, *, actor: User) -> UUID:
    """Start the detection of an address or a pasted document. Raises DomainError."""
    text = source.strip()
    if not text:
        raise invalid(url=_("Enter an address, or paste a document."))
    is_document = text[0] in "{[" or "\n" in text
    if is_document and len(text.encode()) > MAX_DOCUMENT_BYTES:
        raise invalid(
            url=_("The document is larger than {maximum} MB.").format(maximum=MAX_DOCUMENT_BYTES // 1024**2)
        )
    address = "" if is_document else _checked_address(text)
    job_id = uuid4()
    try:
        if is_document:
            _store_part(job_id, "document", text)
        _save_job(job_id, Job(actor.pk, address, is_document, time.time()))
    except redis.RedisError as exc:
        raise _unavailable_error() from exc
    # Nothing else finds the job, so its message must not be dropped.
    if not wakes.send_job(TASK, str(job_id)):
        with suppress(redis.RedisError):
            redis_client.client().delete(_redis_key(job_id, "job"), _redis_key(job_id, "document"))
        raise _unavailable_error()
    return job_id


def find(job_id: UUID, *, actor: User) -> Job | None:
    """Return a detection that this user began, or None if it has expired."""
    job = _load_job(job_id)
    return job if job and job.owner == actor.pk else None


def document_of(job_id: UUID, *, actor: User) -> str:
    """Return the document that this user pasted; "" if there is none or it has expired."""
    return _read_job_part(job_id, "document") if find(job_id, actor=actor) else ""


def perform(job_id: UUID) -> None:
    """Perform a detection, unless another worker has claimed it."""
    job = _load_job(job_id)
    if job is None or not redis_client.client().set(
        _redis_key(job_id, "claim"), "1", nx=True, ex=EXPIRE_SECONDS
    ):
        return
    job.state, job.began_at = "running", time.time()
    _save_job(job_id, job)

    def report(protocol: str, tools: int) -> None:
        if not job.tried or job.tried[-1] != protocol:
            job.tried.append(protocol)
        job.tools = tools
        _save_job(job_id, job)

    try:
        if job.is_document:
            job.result = detection.detect_document(_read_job_part(job_id, "document"), report)
        else:
            job.result = detection.detect_address(job.address, report)
    except Exception:
        # The page shows it at once instead of a progress that ends with no result.
        logger.exception("Detection %s failed", job_id)
        job.result = Detection(address=job.address, error=_FAILURE)
    job.state = "done"
    _save_job(job_id, job)


def _checked_address(text: str) -> str:
    address = in_ascii(text if "://" in text else f"https://{text}")
    if len(address) > MAX_URL_LENGTH:
        raise invalid(
            url=_("An address has at most {maximum} characters.").format(
                maximum=number_format(MAX_URL_LENGTH, force_grouping=True)
            )
        )
    try:
        check_url(address, policy_for(Door.PREVIEW, AddressSource.ADMINISTRATOR), may_ask=True)
    except RefusedError as error:
        raise invalid(url=error.message) from error
    return address


def _unavailable_error() -> DomainError:
    message = _(
        "No worker can inspect the address right now. Try again in a minute, or choose the protocol yourself."
    )
    return DomainError("no_worker", message, status=503)


def _save_job(job_id: UUID, job: Job) -> None:
    _store_part(job_id, "job", msgspec.json.encode(job).decode())


def _load_job(job_id: UUID) -> Job | None:
    text = _read_job_part(job_id, "job")
    return msgspec.json.decode(text, type=Job) if text else None


def _store_part(job_id: UUID, part: str, text: str) -> None:
    ciphertext = encryption.encrypt(Secret(text), row=job_id, field=f"{_FIELD}.{part}")
    redis_client.client().set(_redis_key(job_id, part), ciphertext, ex=EXPIRE_SECONDS)


def _read_job_part(job_id: UUID, part: str) -> str:
    try:
        ciphertext = redis_client.client().get(_redis_key(job_id, part))
        if not ciphertext:
            return ""
        name = "a detection"
        return encryption.decrypt(str(ciphertext), row=job_id, field=f"{_FIELD}.{part}", name=name).reveal()
    except (redis.RedisError, UndecryptableError):
        return ""


def _redis_key(job_id: UUID, part: str) -> str:
    return f"pegboard:detections:{job_id}:{part}"
