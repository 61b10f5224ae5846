"""The readiness of an agent's pinned tools and of its procedures, and the effects of newer versions."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from catalog.models.tools import ItemKind
from designer.environments import bound_tools
from designer.models import Agent, Environment, Pin, Procedure, RehearsalStatus
from designer.procedures import checking
from designer.procedures.checking import CheckedProcedures
from designer.procedures.references import flat
from designer.readiness import obstacles
from designer.readiness.judgement import (
    UPDATE_BREAKS,
    BreakingUpdate,
    ProcedureFacts,
    RehearsalFacts,
    State,
    judge_procedure,
    judge_tests,
)
from designer.readiness.obstacles import AgentTool, Readiness
from designer.rehearsals import runs
from designer.rehearsals.current import AgentTests, read_tests
from designer.rehearsals.results import Figure
from designer.upgrades import upgrades
from designer.upgrades.upgrades import Upgrade
from people.models import User


@dataclass(frozen=True, slots=True)
class ReadinessReport:
    """The pins of an agent and its sub-agents, each with its readiness in the default environment.

    items: the pins with those of prompts and resources.
    """

    agent: Agent
    items: Sequence[Pin]
    tools: Sequence[tuple[Pin, Readiness]]
    upgrades: Sequence[Upgrade]

    @property
    def ready(self) -> list[Readiness]:
        return [readiness for _, readiness in self.tools]

    @property
    def own_items(self) -> list[Pin]:
        return [pin for pin in self.items if pin.agent_id == self.agent.pk]


def assess_default(agent: Agent) -> ReadinessReport:
    """Assess the agent's tools in the default environment. Tools of a sub-agent run in that of the publishing
    agent.
    """
    items = bound_tools.items_of(agent)
    pins = [pin for pin in items if pin.tool.kind == ItemKind.TOOL]
    newer = _upgrades_of(items)
    publisher = publishing_agent(agent)
    environment = bound_tools.default_place(publisher.pk)
    by_environment = obstacles.of_tools(publisher, _tools_of_pins(pins, newer), places=[environment])
    readiness = by_environment[environment.pk if environment else 0]
    return ReadinessReport(agent, items, list(zip(pins, readiness, strict=True)), newer)


@dataclass(frozen=True, slots=True)
class ProcedureReadiness:
    """The states of the tools that a procedure uses. procedure: its slug. states: the worst first."""

    procedure: str
    states: Sequence[State]


@dataclass(frozen=True, slots=True)
class AgentAssessment:
    tools: Sequence[Readiness]
    procedures: Sequence[ProcedureReadiness]
    tests: State


def assess_agent(agent: Agent, reader: User) -> AgentAssessment:
    """Return the readiness of the agent now. Issues of texts name other agents' tools that the reader may
    see.
    """
    assessed = assess_default(agent)
    tests = read_tests(agent, assessed.own_items)
    checked = checking.check_agent(agent, reader, pins=assessed.own_items)
    states = assess_procedures(assessed, tests, checked)
    procedures = Procedure.objects.live().filter(agent=agent).values_list("pk", "slug")
    return AgentAssessment(
        tools=assessed.ready,
        procedures=[ProcedureReadiness(slug, states[pk]) for pk, slug in procedures if pk in states],
        tests=assess_tests(tests),
    )


def assess_pin(pin: Pin) -> Readiness:
    """Return the readiness of one pin, in the default environment of the agent that it is published with."""
    agent = publishing_agent(pin.agent)
    place = bound_tools.default_place(agent.pk)
    tools = _tools_of_pins([pin], _upgrades_of([pin]))
    (readiness,) = obstacles.of_tools(agent, tools, places=[place])[place.pk if place else 0]
    return readiness


def assess_places(
    agent: Agent, pins: Sequence[Pin], places: Sequence[Environment]
) -> Mapping[int, list[Readiness]]:
    """Return, by the primary key of each environment, the readiness of these pins there."""
    return obstacles.of_tools(agent, _tools_of_pins(pins, _upgrades_of(pins)), places=places)


def assess_procedures(
    report: ReadinessReport, tests: AgentTests, checked: CheckedProcedures
) -> dict[int, tuple[State, ...]]:
    """Return the states of the agent's own procedures, the worst first, by their primary keys."""
    # Lines that an update breaks belong to the procedure's state, not the tool's.
    tools = {
        pin.pk: (pin.tool_id, next(state for state in readiness.states if state.code != UPDATE_BREAKS))
        for pin, readiness in report.tools
    }
    updates: defaultdict[int, list[BreakingUpdate]] = defaultdict(list)
    for upgrade in report.upgrades:
        lines: defaultdict[int, list[str]] = defaultdict(list)
        for impact in upgrade.lines:
            if impact.breaks:
                lines[impact.procedure.pk].append(_("line {line}").format(line=impact.line))
        for procedure, broken in lines.items():
            updates[procedure].append(BreakingUpdate(upgrade.version.name, tuple(broken), upgrade.pin.name))
    states = {}
    for key, issues in checked.remarks.items():
        pieces = flat(checked.pieces[key])
        targets = {piece.target for piece in pieces if piece.kind in ("tool", "input", "output")}
        named_tools = [tools[pin] for pin in tools if pin in targets]
        figure = tests.figure_of({tool for tool, _ in named_tools})
        states[key] = judge_procedure(
            ProcedureFacts(
                error_count=sum(issue.severity == "error" for issue in issues),
                warning_count=sum(issue.severity == "warning" for issue in issues),
                updates=tuple(updates[key]),
                tools=tuple(state for _, state in named_tools),
                tests=_test_facts(tests, figure),
            )
        )
    return states


def assess_tests(tests: AgentTests) -> State:
    """Return the statement about all tests of an agent."""
    run = tests.outcome.run if tests.outcome else None
    figure = runs.figure_of(run) if run and run.status == RehearsalStatus.SUCCEEDED else Figure(0, 0)
    return judge_tests(_test_facts(tests, figure, at_least=tests.plan.at_least))


def _test_facts(tests: AgentTests, figure: Figure, *, at_least: int | None = None) -> RehearsalFacts:
    return RehearsalFacts(
        right=figure.right,
        total=figure.total,
        judge=tests.plan.asks.name if tests.plan.asks else "",
        at_least=at_least,
        is_current=tests.is_current,
    )


def _upgrades_of(pins: Collection[Pin]) -> list[Upgrade]:
    if not pins:
        return []
    selected = {pin.pk for pin in pins}
    pins_behind = upgrades.read_behind({pin.agent for pin in pins})
    return upgrades.to_current([pin for pin in pins_behind if pin.pk in selected])


def _tools_of_pins(pins: Sequence[Pin], newer: Iterable[Upgrade]) -> list[AgentTool]:
    updates = {
        upgrade.pin.pk: BreakingUpdate(upgrade.version.name, lines)
        for upgrade in newer
        if (
            lines := tuple(
                _("“{procedure}”, line {line}").format(procedure=impact.procedure, line=impact.line)
                for impact in upgrade.lines
                if impact.breaks
            )
        )
    }
    return [AgentTool.of_pin(pin, updates.get(pin.pk)) for pin in pins]


def publishing_agent(agent: Agent) -> Agent:
    """Return the agent itself if it has releases or no parent, else the agent that it is published with."""
    while agent.parent and not agent.releases.exists():
        agent = agent.parent
    return agent
