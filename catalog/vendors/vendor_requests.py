"""Requests of designers for vendors, and their answers. Only `operations` creates endpoints."""

import time

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from catalog.locking import check_name
from catalog.models import Endpoint, VendorRequest
from catalog.models.vendor_requests import MAX_TEXT_LENGTH, RequestState
from catalog.notifications import outbox
from catalog.twins import address_of, already_connected
from catalog.vendors import previews
from catalog.vendors.previews import Preview
from core import rate_limits, unique_violations
from core.errors import DomainError, invalid
from core.outbound.policy import source_of
from people import audit
from people.models import User

# So many may wait for one user, and so many previews are read for one in a minute.
MAX_WAITING = 20
MAX_PREVIEWS = 10


class TooManyPreviewsError(DomainError):
    def __init__(self, wait: int) -> None:
        message = _("You have checked {count} addresses in this minute. Try again in {wait} seconds.").format(
            count=MAX_PREVIEWS, wait=wait
        )
        super().__init__("too_many_previews", message, status=429)
        self.retry_after = wait


def preview(draft: Endpoint, *, reader: User) -> Preview:
    """Preview an address without a credential. Private networks are closed, because no administrator has
    chosen it yet."""
    now = time.time()
    if not rate_limits.spend({f"preview:{reader.pk}": MAX_PREVIEWS}, now):
        raise TooManyPreviewsError(rate_limits.seconds_left(now))
    return previews.preview(draft, source_of(is_administrator=reader.can_administer))


@transaction.atomic
def ask(draft: Endpoint, *, actor: User, vendor_name: str, reason: str) -> VendorRequest:
    """Request a vendor. `draft` is validated like an endpoint. Raises DomainError for an address that is
    connected or requested already."""
    check_name(vendor_name.strip(), 120)
    row = VendorRequest(
        protocol=draft.protocol,
        url=draft.url,
        address=address_of(draft),
        vendor_name=vendor_name.strip(),
        reason=_validated_text(reason, "reason", _("Enter what the tools are needed for.")),
        asked_by=actor,
    )
    if existing := already_connected(draft):
        endpoint = existing[0].endpoint
        message = _("“{vendor}” is connected at this address already. Look for its tools.").format(
            vendor=endpoint.vendor
        )
        raise DomainError("already_connected", message, fields={"url": message}, status=409)
    User.objects.select_for_update(no_key=True).get(pk=actor.pk)
    if waiting().filter(asked_by=actor).count() >= MAX_WAITING:
        message = _(
            "{count} of your vendor requests are not answered yet. Ask an administrator first."
        ).format(count=MAX_WAITING)
        raise DomainError("too_many_requests", message, status=409)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as exc:
        if not unique_violations.is_taken(exc):
            raise
        message = _("This address was requested already. An administrator will answer.")
        raise DomainError("already_asked", message, fields={"url": message}, status=409) from exc
    audit.record(actor, "ask", row, after=facts(row))
    outbox.report_vendor_request(row.pk)
    return row


@transaction.atomic
def decline(row: VendorRequest, *, actor: User, answer: str) -> VendorRequest:
    row = _lock_request(row)
    row.answer = _validated_text(answer, "answer", _("Enter a reason for the user who requested it."))
    return _answer_request(row, RequestState.DECLINED, actor)


@transaction.atomic
def take_back(row: VendorRequest, *, actor: User) -> None:
    """Withdraw a request that waits for an answer. Only the audit trail keeps it."""
    row = _lock_request(row)
    if row.asked_by_id != actor.pk:
        message = _("“{vendor}” was requested by another user. Only that user can withdraw it.").format(
            vendor=row
        )
        raise DomainError("not_yours", message, status=403)
    audit.record(actor, "take back", row, before=facts(row))
    row.delete()


@transaction.atomic
def approve(endpoint: Endpoint, *, actor: User | None, vendor_request: VendorRequest | None = None) -> None:
    """Approve the request for which an endpoint was connected, and all that wait for its address."""
    rows = [_lock_request(vendor_request)] if vendor_request else []
    same = waiting().filter(protocol=endpoint.protocol, address=address_of(endpoint))
    rows += same.exclude(pk__in=[row.pk for row in rows]).select_for_update()
    for row in rows:
        row.endpoint = endpoint
        _answer_request(row, RequestState.APPROVED, actor)


def waiting() -> QuerySet[VendorRequest]:
    return VendorRequest.objects.filter(state=RequestState.WAITING)


def waiting_at(draft: Endpoint) -> VendorRequest | None:
    """Return the waiting request for this address."""
    return waiting().filter(protocol=draft.protocol, address=address_of(draft)).first()


def facts(row: VendorRequest) -> dict[str, object]:
    return {
        "vendor_name": row.vendor_name,
        "protocol": row.protocol,
        "url": row.url,
        "reason": row.reason,
        "state": row.state,
        "answer": row.answer,
        "endpoint": row.endpoint_id,
    }


def _lock_request(row: VendorRequest) -> VendorRequest:
    locked_request = VendorRequest.objects.select_for_update(no_key=True).filter(pk=row.pk).first()
    if locked_request is None:
        message = _("“{vendor}” was withdrawn by the user who requested it.").format(vendor=row)
        raise DomainError("request_answered", message, status=409)
    if not locked_request.is_waiting:
        message = _("“{vendor}” was answered already: {state}.").format(
            vendor=locked_request, state=locked_request.get_state_display().lower()
        )
        raise DomainError("request_answered", message, status=409)
    return locked_request


def _answer_request(row: VendorRequest, state: RequestState, actor: User | None) -> VendorRequest:
    before = facts(row) | {"state": RequestState.WAITING.value, "answer": "", "endpoint": None}
    row.state, row.answered_by, row.answered_at = state, actor, timezone.now()
    row.save(update_fields=["state", "answer", "answered_by", "answered_at", "endpoint"])
    verb = "approve" if state == RequestState.APPROVED else "decline"
    audit.record(actor, verb, row, before=before, after=facts(row), why=row.answer)
    outbox.report_vendor_answer(row.pk)
    return row


def _validated_text(text: str, field: str, missing: str) -> str:
    text = text.strip()
    if not text:
        raise invalid(**{field: missing})
    if len(text) > MAX_TEXT_LENGTH:
        raise invalid(
            **{
                field: _("Use up to {maximum} characters.").format(
                    maximum=number_format(MAX_TEXT_LENGTH, force_grouping=True)
                )
            }
        )
    return text
