"""Newer versions of the activities that run for an agent's tools, and what moving to them changes."""

from collections.abc import Iterable
from dataclasses import dataclass

from catalog.activities import changes
from catalog.activities.changes import ActivityChange
from catalog.models import ActivityVersion
from core.errors import DomainError
from designer import environments
from designer.environments import Bound
from designer.models import Agent


@dataclass(frozen=True, slots=True)
class ActivityUpdate:
    """A `version` that a tool can move to. `refusal` is the reason for which it cannot run for the tool."""

    bound: Bound
    version: ActivityVersion
    change: ActivityChange
    refusal: str = ""


_REPLACEMENT = ActivityChange(
    "notice",
    ("Another activity has this name now. Nothing runs for the tool until a version of it is chosen.",),
)


def update_of(bound: Bound) -> ActivityUpdate | None:
    """Return the newest version of the activity, if another version runs for the tool.

    If another activity has the name by which one ran, return the newest version of that activity.
    """
    activity, newest = bound.activity, bound.newer_version
    if bound.is_replaced:
        activity = environments.find_named_activity(bound.pin)
        newest = activity.current if activity else None
    if activity is None or newest is None:
        return None
    try:
        environments.check(bound.pin, activity, newest)
        refusal = ""
    except DomainError as error:
        refusal = error.message
    change = changes.compare(bound.version, newest) if bound.version else _REPLACEMENT
    return ActivityUpdate(bound, newest, change, refusal)


def updates_of(agent: Agent) -> list[ActivityUpdate]:
    """Return the updates of the activities that run for the agent's tools, in any environment or none."""
    pins = environments.pins_of(agent)
    places = list(agent.environments.all())
    bound: list[Bound] = environments.outside(agent, pins)
    for rows in environments.table(places, pins).values() if places else ():
        # What runs by its name runs in the same version in each environment.
        bound += [row for row in rows if row.is_bound]
    return _updates(bound)


def _updates(rows: Iterable[Bound]) -> list[ActivityUpdate]:
    return [update for row in rows if (update := update_of(row))]
