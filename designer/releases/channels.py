"""Channels of an agent: names such as `live` that point to a release, for runtimes.

Publishing creates a release and moves no channel. A designer moves a channel: to a newer release, which
promotes it, or back to an older one. Each move is stored with its actor. docs/decisions/0047-channels.md has
the reasons.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.notifications import outbox
from core.compiled_queries import PreparedQuery, named_value
from core.errors import DomainError, invalid
from designer.agents.agents import lock_agent
from designer.models import Agent, Channel, ChannelMove, Release, Retirement
from designer.models.releases import MAX_NOTE_LENGTH
from designer.texts import validated_text
from people import audit
from people.models import User

LIVE = "live"
# The event for notifications; designer/news/news.py has the texts.
MOVED = "channel.moved"
NAME = re.compile("[a-z][a-z0-9-]{0,29}")
NAME_RULE = gettext_lazy(
    "A channel's name starts with a letter and goes on with letters, digits and hyphens, all in lower case, "
    "30 characters at most: “canary”."
)
# Each channel is a promise to a runtime; a larger number is more likely an error in a script.
MAX_CHANNELS = 20

Direction = Literal["promote", "roll back", "close", ""]


@dataclass(frozen=True, slots=True)
class ChannelState:
    """A channel with its last move. `live` has neither a release nor a move at first."""

    name: str
    release: Release | None = None
    last_move: ChannelMove | None = None

    @property
    def number(self) -> int:
        """Return the release's number, 0 for none. Forms send it as `expected`."""
        return self.release.number if self.release else 0


def states(agent: Agent) -> list[ChannelState]:
    """Return `live`, then the other channels that point to a release, by name."""
    last_moves = {row.channel_id: row for row in _LAST_MOVES.rows(agent=agent.pk)}
    states_by_name = {
        row.name: ChannelState(row.name, row.release, last_moves.get(row.pk))
        for row in _CHANNELS.rows(agent=agent.pk)
    }
    live = states_by_name.pop(LIVE, ChannelState(LIVE))
    return [live, *states_by_name.values()]


_CHANNELS: PreparedQuery[Channel] = PreparedQuery(
    lambda: (
        Channel.objects.filter(agent=named_value("agent"))
        .exclude(release=None)
        .select_related("release")
        .defer("release__document")
    )
)
_LAST_MOVES: PreparedQuery[ChannelMove] = PreparedQuery(
    lambda: moves(named_value("agent")).order_by("channel_id", "-pk").distinct("channel_id")
)


def state(agent: Agent, name: str) -> ChannelState:
    """Return the state of one channel; a channel that was never used has no release."""
    return next((row for row in states(agent) if row.name == name), ChannelState(name))


def baseline(agent: Agent) -> Release | None:
    """Return the release that a draft is compared with: the one that `live` points to, else the newest."""
    return state(agent, LIVE).release or newest_release(agent)


def newest_release(agent: Agent) -> Release | None:
    return next(iter(_NEWEST.rows(agent=agent.pk)), None)


_NEWEST: PreparedQuery[Release] = PreparedQuery(
    lambda: Release.objects.filter(agent=named_value("agent")).order_by("-number")[:1]
)


def by_release(states: Iterable[ChannelState]) -> dict[int, list[str]]:
    """Return the names of the channels that point to each release, by its number."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    for channel_state in states:
        names[channel_state.number].append(channel_state.name)
    return names


def moves(agent: Agent | RawSQL) -> QuerySet[ChannelMove]:
    """Return all moves of all channels, the newest first."""
    rows = ChannelMove.objects.filter(channel__agent=agent).select_related(
        "channel", "moved_by", "before", "release"
    )
    return rows.defer("before__document", "release__document")


def direction(before: Release | None, after: Release | None) -> Direction:
    """Name the move: a newer release is promoted, and to an older one the channel is rolled back."""
    if before == after:
        return ""
    if after is None:
        return "close"
    return "roll back" if before and after.number < before.number else "promote"


def check_channel_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise invalid(channel=str(NAME_RULE))
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
    """Point the channel to this release of the agent, or to none.

    expected: the number of the release that the actor saw, 0 for none. Raises DomainError (channel_moved),
        and moves nothing, if the channel has moved since. None skips the check.
    """
    name, note = check_channel_name(name), validated_text(note, field="note", limit=MAX_NOTE_LENGTH)
    agent = lock_agent(agent)
    current_state = state(agent, name)
    # Two designers may have the page open: the second one sees the first one's move and decides again.
    if expected not in (None, current_state.number):
        raise _channel_moved_error(current_state)
    action = direction(current_state.release, release)
    # A move to the same release is not recorded.
    if not action:
        return current_state
    if release is None and name == LIVE:
        raise DomainError(
            "live_stays", _("“live” cannot be closed. Point it to another release."), status=409
        )
    # `retiring.retire` acquires the agent's lock too, so that a release cannot be retired while a channel
    # moves to it.
    if release and Retirement.objects.filter(release=release).exists():
        message = _(
            "Release {number} is retired. Take it back on its page, or choose another release."
        ).format(number=release.number)
        raise DomainError("release_retired", message, status=409)
    if current_state.release is None and agent.channels.exclude(release=None).count() >= MAX_CHANNELS:
        raise DomainError(
            "too_many_channels",
            _("An agent has {max_channels} channels at most. Close one.").format(max_channels=MAX_CHANNELS),
            status=409,
        )
    row = Channel.objects.update_or_create(agent=agent, name=name, defaults={"release": release})[0]
    channel_move = ChannelMove.objects.create(
        channel=row, before=current_state.release, release=release, note=note, moved_by=actor
    )
    facts = {"release": release.number if release else None}
    audit.record(
        actor,
        action,
        row,
        before={"release": current_state.number or None},
        after=facts,
        why=note,
        agent=agent.pk,
    )
    outbox.add_notice(MOVED, channel_move.pk)
    return ChannelState(name, release, channel_move)


def _channel_moved_error(current_state: ChannelState) -> DomainError:
    target = (
        _("release {number}").format(number=current_state.number)
        if current_state.release
        else _("no release")
    )
    name, move = current_state.name, current_state.last_move
    if move:
        message = _(
            "{user} has moved “{channel}” since you opened this: it points to {target} now. Check the "
            "differences, then decide again."
        ).format(user=move.moved_by, channel=name, target=target)
    else:
        message = _("“{channel}” now points to {target}. Check the differences, then decide again.")
        message = message.format(channel=name, target=target)
    return DomainError("channel_moved", message, status=409)
