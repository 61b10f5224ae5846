"""Channels of an agent: which release runtimes get that ask for `live` and the like.

Publishing writes a release and moves nothing. A designer moves a channel: to a newer release, which promotes
it, or back to an older one. Each move is kept, with its actor. docs/decisions/0047-channels.md says why.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from django.db import transaction
from django.db.models import QuerySet

from catalog.notifications import outbox
from core.errors import DomainError, invalid
from designer.agents import locked
from designer.models import Agent, Channel, ChannelMove, Release, Retirement
from designer.texts import checked
from people import audit
from people.models import User

LIVE = "live"
# What the others are told of a move; designer/news.py has the words.
MOVED = "channel.moved"
NAME = re.compile("[a-z][a-z0-9-]{0,29}")
NAME_RULE = (
    "A channel's name starts with a letter and goes on with letters, digits and hyphens, all in lower case, "
    "30 characters at most: “canary”."
)
MAX_NOTE_LENGTH = 2_000
# Each is a promise to some runtime; more than a user can keep an eye on is a mistake in a script.
MAX_CHANNELS = 20

Direction = Literal["promote", "roll back", "close", ""]


@dataclass(frozen=True, slots=True)
class ChannelState:
    """A channel with the move that brought it where it is; `live` has neither before its first move."""

    name: str
    release: Release | None = None
    last_move: ChannelMove | None = None

    @property
    def number(self) -> int:
        """Of the release; 0 for none. What a form names as `expected`."""
        return self.release.number if self.release else 0


def states(agent: Agent) -> list[ChannelState]:
    """`live` first, then the others that lead somewhere, by name."""
    last = {row.channel_id: row for row in moves(agent).order_by("channel_id", "-pk").distinct("channel_id")}
    found = {
        row.name: ChannelState(row.name, row.release, last.get(row.pk))
        for row in agent.channels.exclude(release=None).select_related("release").defer("release__document")
    }
    live = found.pop(LIVE, ChannelState(LIVE))
    return [live, *found.values()]


def state(agent: Agent, name: str) -> ChannelState:
    """The same of one channel; one that was never used leads nowhere."""
    return next((each for each in states(agent) if each.name == name), ChannelState(name))


def baseline(agent: Agent) -> Release | None:
    """Return the release that a draft is compared with: the one that `live` points to, else the newest."""
    return state(agent, LIVE).release or agent.releases.order_by("-number").first()


def by_release(found: Iterable[ChannelState]) -> dict[int, list[str]]:
    """The names of the channels that lead to each release, by its number."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    for each in found:
        names[each.number].append(each.name)
    return names


def moves(agent: Agent) -> QuerySet[ChannelMove]:
    """All moves of all channels, the newest first."""
    rows = ChannelMove.objects.filter(channel__agent=agent).select_related(
        "channel", "moved_by", "before", "release"
    )
    return rows.defer("before__document", "release__document")


def direction(before: Release | None, after: Release | None) -> Direction:
    """How a move is named: a newer release is promoted, to an older one a channel is rolled back."""
    if before == after:
        return ""
    if after is None:
        return "close"
    return "roll back" if before and after.number < before.number else "promote"


def checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise invalid(channel=NAME_RULE)
    return name


@transaction.atomic
def move(
    agent: Agent,
    name: str,
    *,
    actor: User,
    release: Release | None,
    note: str = "",
    expected: int | None = None,
) -> ChannelState:
    """Makes the channel lead to this release of the agent, or nowhere.

    `expected` is the number of the release that the actor saw it lead to, 0 for none: where it leads
    elsewhere by now nothing moves, and DomainError (channel_moved) says who moved it. None skips that.
    """
    name, note = checked_name(name), checked(note, field="note", limit=MAX_NOTE_LENGTH)
    agent = locked(agent)
    now = state(agent, name)
    # Two designers may have the page open: the second sees what the first one did, and decides again.
    if expected not in (None, now.number):
        raise _moved_meanwhile(now)
    action = direction(now.release, release)
    # Leading it where it leads already is no move, and leaves no row.
    if not action:
        return now
    if release is None and name == LIVE:
        raise DomainError(
            "live_stays", "“live” always leads to a release. Move it to another one.", status=409
        )
    # `retiring.retire` holds the agent's lock too, so that no release goes while a channel is led to it.
    if release and Retirement.objects.filter(release=release).exists():
        message = f"Release {release.number} is retired. Take it back on its page, or choose another release."
        raise DomainError("release_retired", message, status=409)
    if now.release is None and agent.channels.exclude(release=None).count() >= MAX_CHANNELS:
        raise DomainError(
            "too_many_channels", f"An agent has {MAX_CHANNELS} channels at most. Close one.", status=409
        )
    row, _ = Channel.objects.update_or_create(agent=agent, name=name, defaults={"release": release})
    made = ChannelMove.objects.create(
        channel=row, before=now.release, release=release, note=note, moved_by=actor
    )
    facts = {"release": release.number if release else None}
    audit.record(
        actor, action, row, before={"release": now.number or None}, after=facts, why=note, agent=agent.pk
    )
    outbox.put(MOVED, made.pk)
    return ChannelState(name, release, made)


def _moved_meanwhile(now: ChannelState) -> DomainError:
    to = f"release {now.number}" if now.release else "no release"
    says = f"“{now.name}” leads to {to} by now"
    if now.last_move:
        says = f"{now.last_move.moved_by} has moved “{now.name}” since you opened this: it leads to {to} now"
    return DomainError("channel_moved", f"{says}. Look at what is different, then decide again.", status=409)
