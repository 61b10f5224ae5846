"""Newer versions of the activities that run for an agent's tools, and the changes that an update brings."""

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.models import ActivityVersion
from core.errors import DomainError
from designer.environments import bound_tools, environments
from designer.environments.bound_tools import BoundTool
from designer.models import Agent, Pin
from execution.activities import changes
from execution.activities.changes import ActivityComparison


@dataclass(frozen=True, slots=True)
class ActivityUpdate:
    """A `version` that a tool can move to. `refusal` is the reason why it cannot run for the tool."""

    bound: BoundTool
    version: ActivityVersion
    change: ActivityComparison
    refusal: str = ""


_REPLACEMENT = ActivityComparison(
    "notice",
    ("Another implementation has this name now. Choose a version of it before the tool can run.",),
)


def update_of(bound: BoundTool) -> ActivityUpdate | None:
    """Return the newest version of the activity, if the tool runs another version.

    A tool may choose its activity by name. If another activity has that name now, return the newest version
    of that activity.
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


def updates_of(agent: Agent, pins: Sequence[Pin]) -> list[ActivityUpdate]:
    """Return the available updates of the activities that implement these tools of the agent.

    pins: from `bound_tools.pins_of`. All environments count, and calls without an environment.
    """
    agent_environments = list(agent.environments.all())
    bound: list[BoundTool] = bound_tools.unbound_in(agent, pins)
    for rows in (
        bound_tools.bindings_by_environment(agent_environments, pins).values() if agent_environments else ()
    ):
        # An activity that is chosen by name runs in the same version in each environment.
        bound += [row for row in rows if row.is_bound]
    return [update for row in bound if (update := update_of(row))]
