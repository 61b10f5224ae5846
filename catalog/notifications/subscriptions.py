"""What a user wants to hear of by mail, and at which address. Each user decides alone."""

from collections.abc import Iterable
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models.functions import Now

from catalog.notifications import kinds, mail
from catalog.notifications.models import Mail, MailAddress, Subscription
from core.errors import DomainError
from people import audit
from people.models import User

PAUSES = {5: "At once, at most every 5 minutes", 60: "Once an hour", 1_440: "Once a day"}
# A user who types the address of another person must not fill that person's mailbox.
# Counted in the hour before.
MAX_QUESTIONS = 5
WITHIN = timedelta(hours=1)


@transaction.atomic
def choose(user: User, events: Iterable[str]) -> None:
    """Exactly these from now on."""
    wanted = set(events)
    if unknown := wanted - set(kinds.KINDS):
        raise DomainError("invalid", f"There is no event “{sorted(unknown)[0][:60]}”.")
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    had = set(user.subscriptions.values_list("event", flat=True))
    for event in sorted(wanted - had):
        row = Subscription.objects.create(user=user, event=event)
        audit.record(user, "subscribe", row, after={"event": event})
    for row in user.subscriptions.filter(event__in=had - wanted):
        audit.record(user, "unsubscribe", row, before={"event": row.event})
        row.delete()


@transaction.atomic
def subscribe(user: User, event: str) -> Subscription:
    """The one there is, if the person has it already."""
    choose(user, {event, *user.subscriptions.values_list("event", flat=True)})
    return user.subscriptions.get(event=event)


@transaction.atomic
def unsubscribe(user: User, event: str) -> None:
    choose(user, set(user.subscriptions.values_list("event", flat=True)) - {event})


@transaction.atomic
def set_address(user: User, address: str, pause_minutes: int) -> MailAddress:
    """A new address is asked first whether it is theirs."""
    address = address.strip()
    if pause_minutes not in PAUSES:
        raise DomainError("invalid", "Choose one of the pauses.", fields={"pause_minutes": "Choose one."})
    try:
        validate_email(address)
    except ValidationError as exc:
        says = "Enter a mail address, such as name@example.com."
        raise DomainError("invalid", says, fields={"address": says}) from exc
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
    """A mail with a link that is good for a day."""
    row = MailAddress.objects.select_for_update().filter(user=user, confirmed_at=None).first()
    if row is None:
        return
    asked = Mail.objects.filter(user=user, created_at__gt=Now() - WITHIN).exclude(confirms="")
    if asked.count() >= MAX_QUESTIONS:
        says = (
            f"{MAX_QUESTIONS} such mails went out within an hour. Look for one of them, or try again later."
        )
        raise DomainError("too_many_mails", says, status=429)
    Mail.objects.create(user=user, confirms=row.address)


@transaction.atomic
def confirm(user: User, token: str) -> MailAddress:
    address = mail.address_in(token, user.pk)
    row = MailAddress.objects.select_for_update().filter(user=user, address=address).first()
    if not address or row is None:
        raise DomainError(
            "link_expired",
            "This link is too old, or was sent to another user. Ask for a new one.",
            status=409,
        )
    if row.confirmed_at is None:
        MailAddress.objects.filter(pk=row.pk).update(confirmed_at=Now())
        audit.record(user, "confirm address", row, after={"address": _veiled(row.address)})
    return row


@transaction.atomic
def forget_address(user: User) -> None:
    if row := MailAddress.objects.select_for_update().filter(user=user).first():
        audit.record(user, "remove address", row, before=_facts(row))
        row.delete()


def _facts(row: MailAddress) -> dict[str, object]:
    # Every user reads the audit trail: it tells addresses apart without saying them.
    return {"address": _veiled(row.address), "pause_minutes": row.pause_minutes}


def _veiled(address: str) -> str:
    mailbox, _, host = address.rpartition("@")
    return f"{mailbox[:1]}…@{host}"
