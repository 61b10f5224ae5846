"""Retiring a release: runtimes are told that it goes, when, and what succeeds it. Its bytes never change.

What is retired still answers, with the headers of RFC 9745 and RFC 8594, until the date that was set; from
then on API keys get the release no more. docs/decisions/0055-retired-releases.md says why.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from core.errors import DomainError, invalid
from designer.agents import locked
from designer.models import Receipt, Release, Retirement
from designer.releases import channels, receipts
from designer.texts import checked
from people import audit
from people.models import User

MAX_REASON_LENGTH = 2_000
KEYS_SHOWN = 3
FORM_PRECISION = timedelta(minutes=1)


@transaction.atomic
def retire(
    release: Release, *, actor: User, reason: str, sunset_at: datetime | None = None, name: str = ""
) -> Retirement:
    """Retires the release, or gives a retired one another reason or date. Raises DomainError.

    One that a key has fetched lately is retired only with its `name`, so that it is not by a slip.
    """
    reason = checked(reason, field="reason", limit=MAX_REASON_LENGTH)
    if not reason:
        raise invalid(reason="Say why: designers read it beside the release, and builds in their check.")
    # The lock that moves of a channel take as well: none is led here meanwhile.
    agent = locked(release.agent)
    row = Retirement.objects.filter(release=release).first()
    if row and row.sunset_at and sunset_at and abs(row.sunset_at - sunset_at) < FORM_PRECISION:
        sunset_at = row.sunset_at  # kept, though it may be past: only the reason changes
    elif sunset_at and sunset_at <= timezone.now():
        raise invalid(sunset_at="Give a moment that is still to come, or none: then it goes on answering.")
    if leading := [row.name for row in agent.channels.filter(release=release)]:
        names = " and ".join(f"“{channel}”" for channel in leading)
        which, them = ("leads", "it") if len(leading) == 1 else ("lead", "them")
        message = f"{names} {which} to release {release.number}. Move {them} to another release first."
        raise DomainError("release_on_channel", message, status=409)
    # Asked for each change of a retirement too: an earlier date hits the same runtimes.
    if name != str(release) and (in_use := list(receipts.lately(release))):
        says = f"{says_in_use(in_use)} Give its name, “{release}”, to retire it all the same."
        raise DomainError("release_in_use", says, fields={"name": says}, status=409)
    before = facts(row)
    if row is None:
        row = Retirement(release=release, retired_by=actor)
    row.reason, row.sunset_at = reason, sunset_at
    if facts(row) != before:
        row.save()
        audit.record(
            actor, "retire", release, before=before, after=facts(row), why=reason, agent=release.agent_id
        )
    return row


@transaction.atomic
def take_back(release: Release, *, actor: User) -> None:
    """Runtimes get the release as before it was retired. Nothing happens where it is not."""
    locked(release.agent)
    row = Retirement.objects.filter(release=release).first()
    if row:
        before = facts(row)
        row.delete()
        audit.record(actor, "restore", release, before=before, after=facts(None), agent=release.agent_id)


def successor(release: Release) -> Release | None:
    """What a runtime should read in place of a retired release: what is live, else the newest one that is
    not retired; None where there is none."""
    others = release.agent.releases.filter(retirement=None).exclude(pk=release.pk).defer("document")
    return channels.state(release.agent, channels.LIVE).release or others.order_by("-number").first()


def facts(row: Retirement | None) -> dict[str, Any]:
    """What an audit row says about it."""
    sunset_at = row.sunset_at.isoformat() if row and row.sunset_at else None
    return {"retired": row is not None, "reason": row.reason if row else "", "sunset_at": sunset_at}


def says_in_use(rows: Iterable[Receipt]) -> str:
    keys = list(dict.fromkeys(f"“{row.key.name}” of {row.key.user}" for row in rows))
    more = f" and {len(keys) - KEYS_SHOWN} more" if len(keys) > KEYS_SHOWN else ""
    days = settings.RELEASE_IN_USE_DAYS
    return f"In the last {days} days it was fetched with {', '.join(keys[:KEYS_SHOWN])}{more}."
