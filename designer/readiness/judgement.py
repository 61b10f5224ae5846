"""The one judgement of whether a tool of an agent runs in an environment. Pure.

Every page and REST call that concludes something about a tool shows the sentence of `judge`. A state is
`proven` only where there is positive evidence, with its time; that nothing is known against a tool is
`neutral`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from core.outbound.errors import printable
from designer.resolution import Resolution

Severity = Literal["proven", "neutral", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "neutral", "proven")
# `stops`: a call is refused now. `asks`: it is sent once the caller adds something. `warns`: it may fail.
ObstacleSeverity = Literal["stops", "asks", "warns"]
# Older evidence proves nothing about today.
EVIDENCE_AGE = timedelta(days=30)
NOT_CONNECTED = "not_connected"


@dataclass(frozen=True, slots=True)
class Page:
    """Where an administrator removes an obstacle: the page by its name and key, and what is done there."""

    name: str
    of: int | UUID
    says: str


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`to_do` is the one thing that helps; `page` is where an administrator does it."""

    code: str
    severity: ObstacleSeverity
    message: str
    to_do: str
    page: Page | None = None


@dataclass(frozen=True, slots=True)
class LastCall:
    """The newest call that reached what runs for the tool now."""

    finished_at: datetime
    succeeded: bool
    error_code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """The facts about one tool in one environment.

    runner: the name of the vendor or activity that runs for it.
    invents: the runner is a mock, which answers without running anything.
    """

    resolution: Resolution
    obstacles: tuple[Obstacle, ...] = ()
    runner: str = ""
    invents: bool = False
    last_call: LastCall | None = None


@dataclass(frozen=True, slots=True)
class State:
    """One true statement about a tool. `to_do` is empty where there is nothing to do."""

    code: str
    severity: Severity
    message: str
    to_do: str = ""
    page: Page | None = None


def judge(facts: ToolFacts, now: datetime) -> tuple[State, ...]:
    """Return all statements about the tool, the worst first; there is at least one."""
    states = [*_obstacle_states(facts), *_runner_states(facts, now)]
    return tuple(sorted(states, key=lambda state: SEVERITIES.index(state.severity)))


def _obstacle_states(facts: ToolFacts) -> Iterator[State]:
    # An input that the caller has to add makes no state; preflight lists it.
    severities: Mapping[ObstacleSeverity, Severity] = {"stops": "error", "warns": "warning"}
    for obstacle in facts.obstacles:
        if severity := severities.get(obstacle.severity):
            yield State(obstacle.code, severity, obstacle.message, obstacle.to_do, obstacle.page)


def _runner_states(facts: ToolFacts, now: datetime) -> Iterator[State]:
    resolution, last = facts.resolution, facts.last_call
    if any(obstacle.severity == "stops" for obstacle in facts.obstacles):
        return  # nothing runs, and the obstacle states why
    if resolution.runs == "latent":
        if resolution.why == "no_activity":
            message = "Nothing is connected: the model would invent the answer."
            to_do = "Bind an activity to it under Environments, or register one of its name."
            yield State(NOT_CONNECTED, "error", message, to_do)
        else:
            yield State("simulated", "warning", "Simulated by the model: nothing runs.")
    elif facts.invents:
        yield State("mock", "neutral", f"The mock “{printable(facts.runner, 60)}” answers: nothing runs.")
    elif last is None:
        yield State("not_tested", "neutral", f"{_runs(facts)}, not tested yet.")
    elif now - last.finished_at > EVIDENCE_AGE:
        message = f"{_runs(facts)}, not tested since {last.finished_at:%d %b %Y}."
        yield State("not_tested", "neutral", message)
    elif last.succeeded:
        message = f"{_runs(facts)}, answered {age(now - last.finished_at)}."
        yield State("answered", "proven", message)
    else:
        message = (
            f"{_runs(facts)}, but its last call failed {age(now - last.finished_at)} "
            f"({printable(last.error_code or 'no code', 60)})."
        )
        yield State("last_call_failed", "warning", message, "Try it, and look at the answer.")


def _runs(facts: ToolFacts) -> str:
    runner = printable(facts.runner, 60)
    return f"Runs at {runner}" if facts.resolution.runs == "vendor" else f"Runs by “{runner}”"


def age(elapsed: timedelta) -> str:
    """Return the time since an event in words: “3 minutes ago”."""
    seconds = max(int(elapsed.total_seconds()), 0)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if count := seconds // length:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def summarize(severities: Iterable[Severity]) -> dict[Severity, int]:
    """Count tools by the severity of their worst state; severities of no tool are left out."""
    counts: dict[Severity, int] = {}
    for severity in sorted(severities, key=SEVERITIES.index):
        counts[severity] = counts.get(severity, 0) + 1
    return counts
