"""Retire a release: runtimes are notified that it ends, when, and of its successor. Its bytes never
change.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from core.errors import DomainError, invalid
from designer.agents.agents import lock_agent
from designer.models import Receipt, Release, Retirement
from designer.models.releases import MAX_NOTE_LENGTH
from designer.releases import channels, receipts
from designer.texts import validated_text
from people import audit
from people.models import User

KEYS_SHOWN = 3
# The name that a user types to retire a release that is in use.
RELEASE_NAME: "models.CharField[str, str]" = models.CharField(max_length=300, blank=True)
FORM_PRECISION = timedelta(minutes=1)


@transaction.atomic
def retire(
    release: Release, *, actor: User, reason: str, sunset_at: datetime | None = None, name: str = ""
) -> Retirement:
    """Retire the release, or change the reason or date of a retirement. Raises DomainError."""
    reason = validated_text(reason, field="reason", limit=MAX_NOTE_LENGTH)
    if not reason:
        raise invalid(reason=_("Enter a reason: designers and builds read it with the release."))
    # Moves of a channel acquire the same lock, so that none moves here in the meantime.
    agent = lock_agent(release.agent)
    row = Retirement.objects.filter(release=release).first()
    if row and row.sunset_at and sunset_at and abs(row.sunset_at - sunset_at) < FORM_PRECISION:
        sunset_at = row.sunset_at  # kept even if it is past: only the reason changes
    elif sunset_at and sunset_at <= timezone.now():
        raise invalid(sunset_at=_("Enter a time in the future, or none: then it keeps answering."))
    if channel_rows := [row.name for row in agent.channels.filter(release=release)]:
        names = " and ".join(f"“{channel}”" for channel in channel_rows)
        message = ngettext(
            "{names} leads to release {number}. Move it to another release first.",
            "{names} lead to release {number}. Move them to another release first.",
            len(channel_rows),
        ).format(names=names, number=release.number)
        raise DomainError("release_on_channel", message, status=409)
    # Checked for each change of a retirement too: an earlier date affects the same runtimes.
    if name != str(release) and (in_use := list(receipts.recent_receipts(release))):
        message_in_use = _("{use} Give its name, “{release}”, to retire it all the same.").format(
            use=describe_use(in_use), release=release
        )
        raise DomainError("release_in_use", message_in_use, fields={"name": message_in_use}, status=409)
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
def restore_release(release: Release, *, actor: User) -> None:
    """End the retirement: runtimes get the release as before. Idempotent."""
    lock_agent(release.agent)
    row = Retirement.objects.filter(release=release).first()
    if row:
        before = facts(row)
        row.delete()
        audit.record(actor, "restore", release, before=before, after=facts(None), agent=release.agent_id)


def successor(release: Release) -> Release | None:
    """Return the release to read instead of a retired one: the live one, else the newest that is not retired;
    None if there is none.
    """
    others = release.agent.releases.filter(retirement=None).exclude(pk=release.pk).defer("document")
    return channels.state(release.agent, channels.LIVE).release or others.order_by("-number").first()


def facts(row: Retirement | None) -> dict[str, Any]:
    """Return the values for an audit row."""
    sunset_at = row.sunset_at.isoformat() if row and row.sunset_at else None
    return {"retired": row is not None, "reason": row.reason if row else "", "sunset_at": sunset_at}


def describe_use(rows: Iterable[Receipt]) -> str:
    keys = list(dict.fromkeys(f"“{row.key.name}” of {row.key.user}" for row in rows))
    more = f" and {len(keys) - KEYS_SHOWN} more" if len(keys) > KEYS_SHOWN else ""
    days = settings.RELEASE_IN_USE_DAYS
    return f"In the last {days} days it was fetched with {', '.join(keys[:KEYS_SHOWN])}{more}."
