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
    """A newer `version` of the activity that runs for a tool. `refusal` is why it cannot run for it."""

    bound: Bound
    version: ActivityVersion
    change: ActivityChange
    refusal: str = ""


def update_of(bound: Bound) -> ActivityUpdate | None:
    """Return the newest version of the activity, if another one runs for the tool."""
    version, newest = bound.version, bound.newer_version
    if version is None or newest is None:
        return None
    try:
        environments.check(bound.pin, version.activity, newest)
        refusal = ""
    except DomainError as error:
        refusal = error.message
    return ActivityUpdate(bound, newest, changes.compare(version, newest), refusal)


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
