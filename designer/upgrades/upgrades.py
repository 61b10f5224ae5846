"""The effects of moving a pin to its vendor's current version, down to the line of a procedure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from catalog.models import Tool, ToolVersion
from catalog.review import holds
from catalog.rules import diff
from catalog.tools import versions
from core.compiled_queries import PreparedQuery, PreparedQueryByKeys, is_any_of
from core.errors import DomainError
from core.translatable import Wording, join_sentences, mark
from designer.agents import agent_vendors, agents
from designer.models import Agent, Pin, PinQuerySet, Procedure, ProcedureReference
from designer.pins import pins
from designer.pins.pinned_signatures import pinned_items, words_about
from designer.procedures import broken_lines, impact
from designer.signatures.effective import misfits
from designer.signatures.words import merge_words
from designer.upgrades import pending_work
from people.models import User
from protocols.signature import Signature


@dataclass(frozen=True, slots=True)
class LostWords:
    """Tuned texts that the other version has no member for. `refuses`: they prevent publishing."""

    message: str
    refuses: bool


@dataclass(frozen=True, slots=True)
class ProcedureImpact:
    """A line that is affected. `effect` is the end of a sentence about it, after “Refill”, line 14."""

    procedure: Procedure
    line: int
    effect: str
    breaks: bool

    @property
    def message(self) -> str:
        values = {"procedure": self.procedure, "line": self.line, "effect": self.effect}
        return Wording(mark("“{procedure}”, line {line} {effect}"), values)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One pin and the version that it can move to.

    lines: in the order of the procedures and their texts.
    refusal: why the pin cannot move: its agent may not use the vendor, or review stops the version.
    """

    pin: Pin
    version: ToolVersion
    comparison: diff.SignatureDifference
    lost: list[LostWords]
    refusal: str = ""
    lines: list[ProcedureImpact] = field(default_factory=list)

    @property
    def breaking(self) -> list[str]:
        return [change.wording for change in self.comparison.changes if change.class_ == "breaking"]

    @property
    def is_felt(self) -> bool:
        """Return whether a line of a procedure or a tuned text breaks."""
        return bool(self.lost) or any(line.breaks for line in self.lines)

    @property
    def is_safe(self) -> bool:
        """Return whether the pin may move and nothing breaks, becomes riskier or loses tuned texts."""
        return not self.refusal and self.comparison.effects <= set(diff.SAFE) and not self.is_felt


def upgrades_of_agent(agent: Agent) -> list[Upgrade]:
    """Return an upgrade for each pin of the agent that is behind, by name."""
    return to_current(read_behind([agent]))


def breaking_below(agent: Agent, reader: User) -> dict[Agent, list[Upgrade]]:
    """Return the breaking upgrades of the agent's sub-agents that the reader may see, in their order.

    They are published with the agent, so a break in one breaks the release.
    """
    sub_agents = [row for row in agents.with_all_below([agent])[agent.pk] if row.pk != agent.pk]
    if not sub_agents:
        return {}
    visible = set(Agent.objects.active().visible_to(reader).filter(pk__in=[row.pk for row in sub_agents]))
    upgrades_by_agent: dict[Agent, list[Upgrade]] = {row: [] for row in sub_agents if row in visible}
    for upgrade in to_current(read_behind(upgrades_by_agent)) if upgrades_by_agent else ():
        if upgrade.breaking or upgrade.is_felt:
            upgrades_by_agent[upgrade.pin.agent].append(upgrade)
    return {row: upgrades for row, upgrades in upgrades_by_agent.items() if upgrades}


def read_behind(owners: Collection[Agent]) -> list[Pin]:
    """Return the rows of `behind_pins`, each with its agent out of `owners`."""
    agents_by_id = {agent.pk: agent for agent in owners}
    rows = _PINS_BEHIND.rows(agents_by_id)
    for pin in rows:
        pin.agent = agents_by_id[pin.agent_id]
    return rows


_PINS_BEHIND: PreparedQueryByKeys[Pin] = PreparedQueryByKeys(
    "designer_pin.agent_id", lambda is_of_agents: _only_behind(Pin.objects.filter(is_of_agents))
)


def behind_pins(owners: Collection[Agent]) -> QuerySet[Pin]:
    """Return the agents' pins with a newer version of their vendor, with the rows for a comparison."""
    return _only_behind(Pin.objects.filter(agent__in=owners))


def _only_behind(pins: PinQuerySet) -> QuerySet[Pin]:
    rows = pins.live().filter(tool__current__isnull=False)
    newer_offered = pending_work.only_behind(rows).order_by("name", "pk")
    return newer_offered.select_related(
        "agent", "version", "tuning", "tool__tuning", "tool__current", "tool__endpoint__vendor"
    ).defer("version__raw", "tool__current__raw")


def pins_of_tool(tool: Tool, user: User) -> list[Pin]:
    """Return the pins of the tool that the user may see, by agent, with the rows for a comparison."""
    rows = Pin.objects.live().visible_to(user).filter(tool=tool)
    pin_list = list(rows.select_related("agent", "tuning").order_by("agent__name", "pk"))
    # Many agents pin few versions, so each version is read once.
    version_by_id = ToolVersion.objects.defer("raw").in_bulk({pin.version_id for pin in pin_list})
    for pin in pin_list:
        pin.tool, pin.version = tool, version_by_id[pin.version_id]
    return pin_list


@dataclass(frozen=True, slots=True)
class RequestedMove:
    """A pin to move. Default: its vendor's current version."""

    pin: int
    version: str = ""
    ordinal: int | None = None


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The result of moving one pin. upgrade: as it was before the move. name: the tool's name for the model
    after it.
    """

    upgrade: Upgrade
    name: str
    error: DomainError | None


def move(
    agent: Agent,
    *,
    actor: User,
    moves: Iterable[RequestedMove],
    all_safe: bool = False,
    is_dry: bool = False,
) -> list[MoveResult]:
    """Move pins, or try it in a dry run. Return a result per pin. Raises DomainError for an unknown pin or
    version.
    """
    moves_by_pin = {request.pin: request for request in moves}
    pins_of_agent = pinned_items([agent]).select_related("agent", "tool__current")
    pin_by_id = {pin.pk: pin for pin in pins_of_agent.filter(pk__in=moves_by_pin)}
    pins_to_versions: list[tuple[Pin, ToolVersion]] = []
    for pk, requested in moves_by_pin.items():
        if (pin := pin_by_id.get(pk)) is None:
            message = _("“{agent}” has no pin {pin}. Read its upgrades again.").format(agent=agent, pin=pk)
            raise DomainError("unknown_pin", message, fields={"moves": message})
        version = versions.find_version(pin.tool, version=requested.version, ordinal=requested.ordinal)
        if version is None:
            message = versions.unknown_version_message(
                pin.tool, version=requested.version, ordinal=requested.ordinal
            )
            raise DomainError("unknown_version", message, fields={"moves": message})
        pins_to_versions.append((pin, version))
    upgrade_list = compare(pins_to_versions)
    # Checked again: what was safe when the page was opened may have changed.
    if all_safe:
        upgrade_list += [
            row for row in upgrades_of_agent(agent) if row.is_safe and row.pin.pk not in moves_by_pin
        ]
    # By ordinal, not by label: a vendor may have used a label twice.
    requests = [pins.MoveRequest(row.pin, ordinal=row.version.ordinal) for row in upgrade_list]
    answers = pins.move_several(agent, actor=actor, requests=requests, is_dry=is_dry)
    return [
        MoveResult(row, row.pin.name, answer)
        if isinstance(answer, DomainError)
        else MoveResult(row, answer.name, None)
        for row, answer in zip(upgrade_list, answers, strict=True)
    ]


def to_current(rows: Iterable[Pin]) -> list[Upgrade]:
    return compare([(pin, pin.tool.current) for pin in rows if pin.tool.current])


def upgrades_of_tool(tool: Tool, version: ToolVersion, user: User) -> list[Upgrade]:
    """Return an upgrade for each visible pin of another version; the broken ones first."""
    moves = [(pin, version) for pin in pins_of_tool(tool, user) if pin.version_id != version.pk]
    return sorted(compare(moves), key=lambda upgrade: not upgrade.is_felt)


def upgrade_to(pin: Pin, version: ToolVersion) -> Upgrade:
    """Return the changes of moving the pin to this version, and the tuned texts that would be lost."""
    return compare([(pin, version)])[0]


def compare(moves: Sequence[tuple[Pin, ToolVersion]]) -> list[Upgrade]:
    """Compare several moves in at most five queries: equal versions are decoded and compared once."""
    signatures: dict[int, Signature] = {}
    for pin, version in moves:
        for row in (pin.version, version):
            # Decoding is most of the work, and many pins share a version.
            if row.pk not in signatures:
                signatures[row.pk] = row.decoded()
    comparisons = {
        key: diff.compare(signatures[key[0]], signatures[key[1]])
        for key in {(pin.version_id, version.pk) for pin, version in moves}
    }
    allowed = agent_vendors.allowed_by_agent({pin.agent for pin, _ in moves})
    states = holds.pinning_states({version for _, version in moves})

    def refusal(pin: Pin, version: ToolVersion) -> str:
        vendor_refusal = allowed[pin.agent_id].refusal(pin.agent, pin.tool, is_pinned=True)
        state = states.get(version.pk)
        return vendor_refusal or (pins.review_refusal(pin.tool, version, state).message if state else "")

    upgrades_ = [
        Upgrade(
            pin,
            version,
            comparisons[pin.version_id, version.pk],
            find_lost_words(pin, signatures[version.pk]),
            refusal(pin, version),
        )
        for pin, version in moves
    ]
    _add_broken_lines(upgrades_, signatures)
    return upgrades_


def find_lost_words(pin: Pin, signature: Signature) -> list[LostWords]:
    """Return the agent's tuned texts, and those for all agents below them."""
    agent_words = words_about(pin)
    misfit_list = misfits(signature, merge_words(words_about(pin.tool), agent_words))
    lost_words = []
    for misfit in misfit_list:
        is_own = misfit.parameter in agent_words.parameters or misfit.parameter in agent_words.outputs
        template = (
            mark("This agent's texts do not fit.")
            if is_own
            else mark("The tool's texts for all agents do not fit.")
        )
        sentences = [misfit.message, Wording(template)]
        if misfit.exposes:
            sentences.append(Wording(mark("Publishing is refused until they fit.")))
        lost_words.append(LostWords(join_sentences(sentences), misfit.exposes))
    return lost_words


def _add_broken_lines(upgrade_list: Sequence[Upgrade], signatures: Mapping[int, Signature]) -> None:
    # Texts are only read for moves that can break a line; most cannot.
    concerned = [upgrade for upgrade in upgrade_list if impact.concerns_lines(upgrade.comparison.changes)]
    if not concerned:
        return
    pins_by_procedure: defaultdict[int, list[int]] = defaultdict(list)
    for pin, procedure_id in set(_REFERENCES.rows(pins=[upgrade.pin.pk for upgrade in concerned])):
        pins_by_procedure[procedure_id].append(pin)
    # In the order of the agent's procedures.
    procedures_by_pin: defaultdict[int, list[Procedure]] = defaultdict(list)
    for procedure in _PROCEDURES.rows(procedures=list(pins_by_procedure)) if pins_by_procedure else ():
        for pin in pins_by_procedure[procedure.pk]:
            procedures_by_pin[pin].append(procedure)
    for upgrade in concerned:
        if procedures := procedures_by_pin.get(upgrade.pin.pk):
            before, after = signatures[upgrade.pin.version_id], signatures[upgrade.version.pk]
            changes = upgrade.comparison.changes
            move = broken_lines.move_between(upgrade.pin, before, after, changes, version=upgrade.version)
            upgrade.lines.extend(
                ProcedureImpact(procedure, line.line, line.message, line.breaks)
                for procedure in procedures
                for line in impact.impacts(procedure.text, move)
            )


_REFERENCES: PreparedQuery[tuple[int, int]] = PreparedQuery(
    lambda: (
        ProcedureReference.objects.filter(
            is_any_of("designer_procedurereference.pin_id", "pins"), procedure__removed_at=None
        )
        .order_by()
        .values_list("pin", "procedure")
    )
)


_PROCEDURES: PreparedQuery[Procedure] = PreparedQuery(
    lambda: Procedure.objects.filter(is_any_of("designer_procedure.id", "procedures")).only(
        "slug", "title", "text", "position"
    )
)
