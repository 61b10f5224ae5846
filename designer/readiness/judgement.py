"""The one judgement of whether a tool of an agent runs in an environment. Pure.

Every page and REST call that concludes something about a tool shows the sentences of `judge_tool`. A state
is `proven` only where there is positive evidence, with its time; a tool with nothing known against it is
`neutral`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from core.outbound.errors import printable
from designer.environments.resolution import Resolution

Severity = Literal["proven", "neutral", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "neutral", "proven")
# `stops`: a call is refused now. `asks`: it is sent once the caller adds something. `warns`: it may fail.
ObstacleSeverity = Literal["stops", "asks", "warns"]
# Older evidence proves nothing about today.
EVIDENCE_AGE = timedelta(days=30)
LINES_SHOWN = 3
UPDATE_BREAKS = "update_breaks"


@dataclass(frozen=True, slots=True)
class RepairPage:
    """The page on which an administrator removes an obstacle, and the label of the link to it."""

    url_name: str
    key: int | UUID
    label: str


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A fact that keeps calls of a tool from running.

    to_do: the one thing that helps. page: where an administrator does it.
    checked_by: the code of the check before publishing that reports the same fact of the pin, else "".
    stops_publishing: a release runs nothing for the tool until a designer connects something else. It is
    False if an administrator or the vendor can remove the obstacle without another release.
    """

    code: str
    severity: ObstacleSeverity
    message: str
    to_do: str
    page: RepairPage | None = None
    checked_by: str = ""
    stops_publishing: bool = False


@dataclass(frozen=True, slots=True)
class LastCall:
    """The newest call that reached the tool's present implementation."""

    finished_at: datetime
    succeeded: bool
    error_code: str = ""


@dataclass(frozen=True, slots=True)
class BreakingUpdate:
    """A newer version of a tool, and the lines of procedures that it breaks: “Refund”, line 31.

    tool: the name of the tool where several tools are meant, else "".
    """

    version: str
    lines: tuple[str, ...]
    tool: str = ""


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
    update: BreakingUpdate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalFacts:
    """The tests of an agent: their number, and the number that passed.

    total: tests with a result. judge: the evaluation model, "" for the comparison of words.
    at_least: the number that the designer requires. is_current: nothing was changed since they ran.
    """

    right: int
    total: int
    judge: str = ""
    at_least: int | None = None
    is_current: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureFacts:
    """Facts about one procedure.

    error_count, warning_count: issues of its text. tools: the worst state of each tool that it names.
    """

    error_count: int
    warning_count: int
    updates: tuple[BreakingUpdate, ...] = ()
    tools: tuple["State", ...] = ()
    tests: RehearsalFacts


@dataclass(frozen=True, slots=True)
class State:
    """One true statement about a tool, a procedure or tests; the members are those of Obstacle."""

    code: str
    severity: Severity
    message: str
    to_do: str = ""
    page: RepairPage | None = None
    checked_by: str = ""
    stops_publishing: bool = False


def judge_tool(facts: ToolFacts, now: datetime) -> tuple[State, ...]:
    """Return the states of the tool, the most serious first. There is at least one."""
    # An input that the caller has to add makes no state; preflight lists it.
    severities: Mapping[ObstacleSeverity, Severity] = {"stops": "error", "warns": "warning"}
    states = [
        State(
            obstacle.code,
            severity,
            obstacle.message,
            obstacle.to_do,
            obstacle.page,
            obstacle.checked_by,
            obstacle.stops_publishing,
        )
        for obstacle in facts.obstacles
        if (severity := severities.get(obstacle.severity))
    ]
    states += [_update_state(facts.update)] if facts.update else []
    return _worst_first([*states, *_runner_states(facts, now)])


def judge_procedure(facts: ProcedureFacts) -> tuple[State, ...]:
    """Return all statements about the procedure, the worst first; it is proven only if each of them is."""
    states = [judge_tests(facts.tests)]
    if facts.error_count:
        message = ngettext("{count} error in its text.", "{count} errors in its text.", facts.error_count)
        states.append(State("text_errors", "error", message.format(count=facts.error_count)))
    if facts.warning_count:
        message = ngettext(
            "{count} warning about its text.", "{count} warnings about its text.", facts.warning_count
        )
        states.append(State("text_warnings", "warning", message.format(count=facts.warning_count)))
    states += [_update_state(update) for update in facts.updates]
    counts = summarize(state.severity for state in facts.tools)
    total = len(facts.tools)
    if count := counts.get("error", 0):
        message = ngettext(
            "{count} of {total} tool cannot run.", "{count} of {total} tools cannot run.", total
        )
        states.append(State("tools_stopped", "error", message.format(count=count, total=total)))
    if count := counts.get("warning", 0):
        message = ngettext(
            "{count} of {total} tool with a warning.", "{count} of {total} tools with a warning.", total
        )
        states.append(State("tools_warned", "warning", message.format(count=count, total=total)))
    if count := counts.get("neutral", 0):
        message = ngettext(
            "{count} of {total} tool not tested yet.", "{count} of {total} tools not tested yet.", total
        )
        states.append(State("tools_unproven", "neutral", message.format(count=count, total=total)))
    if not total:
        states.append(State("tools_missing", "neutral", _("The text names no tool.")))
    return _worst_first(states)


def judge_tests(facts: RehearsalFacts) -> State:
    if not facts.total:
        return State("tests_missing", "neutral", _("Not tested yet."))
    message = ngettext(
        "{right} of {total} test as expected", "{right} of {total} tests as expected", facts.total
    )
    judge = printable(facts.judge, 60)
    parts = [message.format(right=facts.right, total=facts.total)]
    parts.append(_("by “{judge}”").format(judge=judge) if judge else _("by comparing words"))
    if not facts.is_current:
        parts.append(_("before the last change"))
    is_below = facts.at_least is not None and facts.right < min(facts.at_least, facts.total)
    if is_below:
        parts.append(_("below the threshold of {count}").format(count=facts.at_least))
    message = f"{', '.join(parts)}."
    if is_below:
        return State("tests_below_threshold", "warning", message)
    if facts.right < facts.total:
        return State("tests_unexpected", "warning", message)
    if not facts.is_current:
        return State("tests_outdated", "neutral", message)
    return State("tests_passed", "proven", message)


def _worst_first(states: Iterable[State]) -> tuple[State, ...]:
    return tuple(sorted(states, key=lambda state: SEVERITIES.index(state.severity)))


def _update_state(update: BreakingUpdate) -> State:
    lines = ", ".join(update.lines[:LINES_SHOWN])
    more = len(update.lines) - LINES_SHOWN
    if more > 0:
        lines = _("{lines} and {count} more").format(lines=lines, count=more)
    message = (
        _("Version {version} of “{tool}” breaks {lines}.")
        if update.tool
        else _("Version {version} breaks {lines}.")
    )
    message = message.format(
        version=printable(update.version, 60), tool=printable(update.tool, 64), lines=lines
    )
    return State(UPDATE_BREAKS, "warning", message, _("Change the text before you update the pin."))


def _runner_states(facts: ToolFacts, now: datetime) -> Iterator[State]:
    resolution, last_call = facts.resolution, facts.last_call
    if any(obstacle.severity == "stops" for obstacle in facts.obstacles):
        return  # nothing runs, and the obstacle states why
    if resolution.runs == "latent":
        if resolution.why == "no_activity":
            message = _("No implementation: the model would invent the answer.")
            to_do = _("Choose an implementation under Environments, or create one with its name.")
            yield State("not_connected", "error", message, to_do, stops_publishing=True)
        else:
            yield State("simulated", "warning", _("Simulated by the model."))
        return
    runner = printable(facts.runner, 60)
    if facts.invents:
        yield State("mock", "neutral", _("The mock “{runner}” answers.").format(runner=runner))
        return
    runs = _("Runs at {runner}") if resolution.runs == "vendor" else _("Runs by “{runner}”")
    runs = runs.format(runner=runner)
    if last_call is None:
        yield State("not_tested", "neutral", _("{runs}, not tested yet.").format(runs=runs))
    elif now - last_call.finished_at > EVIDENCE_AGE:
        message = _("{runs}, not tested since {day}.")
        message = message.format(runs=runs, day=date_format(last_call.finished_at, "d M Y"))
        yield State("not_tested", "neutral", message)
    elif last_call.succeeded:
        elapsed = format_elapsed(now - last_call.finished_at)
        yield State("answered", "proven", _("{runs}, answered {elapsed}.").format(runs=runs, elapsed=elapsed))
    else:
        elapsed = format_elapsed(now - last_call.finished_at)
        code = printable(last_call.error_code or _("no code"), 60)
        message = _("{runs}, but its last call failed {elapsed} ({code}).")
        message = message.format(runs=runs, elapsed=elapsed, code=code)
        yield State("last_call_failed", "warning", message, _("Run it under “Try it”, and check the answer."))


def format_elapsed(elapsed: timedelta) -> str:
    """Return the time since an event in words: “3 minutes ago”."""
    seconds = max(int(elapsed.total_seconds()), 0)
    if count := seconds // 86_400:
        return ngettext("{count} day ago", "{count} days ago", count).format(count=count)
    if count := seconds // 3_600:
        return ngettext("{count} hour ago", "{count} hours ago", count).format(count=count)
    if count := seconds // 60:
        return ngettext("{count} minute ago", "{count} minutes ago", count).format(count=count)
    return _("just now")


def summarize(severities: Iterable[Severity]) -> dict[Severity, int]:
    """Count tools by the severity of their worst state; severities of no tool are left out."""
    counts: dict[Severity, int] = {}
    for severity in sorted(severities, key=SEVERITIES.index):
        counts[severity] = counts.get(severity, 0) + 1
    return counts
