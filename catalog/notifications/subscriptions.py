"""The events for which users want mail, and their addresses. Users change only their own."""

from collections.abc import Iterable
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.notifications import kinds, mail
from catalog.notifications.models import Mail, MailAddress, Subscription
from core.errors import DomainError
from people import audit
from people.models import User

PAUSES = {
    5: gettext_lazy("At once, at most every 5 minutes"),
    60: gettext_lazy("Once an hour"),
    1_440: gettext_lazy("Once a day"),
}
# Limits the mails to an address that belongs to another person: this many per hour.
MAX_QUESTIONS = 5
WITHIN = timedelta(hours=1)


@transaction.atomic
def choose(user: User, events: Iterable[str]) -> None:
    """Replace the user's subscriptions."""
    chosen_events = set(events)
    if unknown := chosen_events - set(kinds.KINDS):
        raise DomainError("invalid", _("There is no event “{event}”.").format(event=sorted(unknown)[0][:60]))
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    current_events = set(user.subscriptions.values_list("event", flat=True))
    for event in sorted(chosen_events - current_events):
        row = Subscription.objects.create(user=user, event=event)
        audit.record(user, "subscribe", row, after={"event": event})
    for row in user.subscriptions.filter(event__in=current_events - chosen_events):
        audit.record(user, "unsubscribe", row, before={"event": row.event})
        row.delete()


@transaction.atomic
def subscribe(user: User, event: str) -> Subscription:
    """Subscribe the user. Return the existing subscription if there is one."""
    choose(user, {event, *user.subscriptions.values_list("event", flat=True)})
    return user.subscriptions.get(event=event)


@transaction.atomic
def unsubscribe(user: User, event: str) -> None:
    choose(user, set(user.subscriptions.values_list("event", flat=True)) - {event})


@transaction.atomic
def set_address(user: User, address: str, pause_minutes: int) -> MailAddress:
    """Store the address and the pause. A new address must be confirmed."""
    address = address.strip()
    if pause_minutes not in PAUSES:
        raise DomainError(
            "invalid", _("Choose one of the intervals."), fields={"pause_minutes": _("Choose one.")}
        )
    try:
        validate_email(address)
    except ValidationError as exc:
        message = _("Enter a mail address, such as name@example.com.")
        raise DomainError("invalid", message, fields={"address": message}) from exc
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    row = MailAddress.objects.filter(user=user).first() or MailAddress(user=user)
    before = {} if row._state.adding else _facts(row)
    if row.address != address:
        row.address, row.confirmed_at = address, None
    row.pause_minutes = pause_minutes
    row.save()
    if (after := _facts(row)) != before:
        audit.record(user, "set address", row, before=before or None, after=after)
    return row


@transaction.atomic
def ask_to_confirm(user: User) -> None:
    """Queue a mail with a confirmation link that is valid for a day. Raises DomainError after too many
    mails."""
    row = MailAddress.objects.select_for_update().filter(user=user, confirmed_at=None).first()
    if row is None:
        return
    recent_mails = Mail.objects.filter(user=user, created_at__gt=Now() - WITHIN).exclude(confirms="")
    if recent_mails.count() >= MAX_QUESTIONS:
        message = _(
            "{count} such mails were sent within an hour. Look for one of them, or try again later."
        ).format(count=MAX_QUESTIONS)
        raise DomainError("too_many_mails", message, status=429)
    Mail.objects.create(user=user, confirms=row.address)


@transaction.atomic
def confirm(user: User, token: str) -> MailAddress:
    address = mail.address_in(token, user.pk)
    row = MailAddress.objects.select_for_update().filter(user=user, address=address).first()
    if not address or row is None:
        raise DomainError(
            "link_expired",
            _("This link is too old, or was sent to another user. Ask for a new one."),
            status=409,
        )
    if row.confirmed_at is None:
        MailAddress.objects.filter(pk=row.pk).update(confirmed_at=Now())
        audit.record(user, "confirm address", row, after={"address": _mask_address(row.address)})
    return row


@transaction.atomic
def forget_address(user: User) -> None:
    if row := MailAddress.objects.select_for_update().filter(user=user).first():
        audit.record(user, "remove address", row, before=_facts(row))
        row.delete()


def _facts(row: MailAddress) -> dict[str, object]:
    # Masked, because every user reads the audit trail.
    return {"address": _mask_address(row.address), "pause_minutes": row.pause_minutes}


def _mask_address(address: str) -> str:
    mailbox, _unused, host = address.rpartition("@")
    return f"{mailbox[:1]}…@{host}"
