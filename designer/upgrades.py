"""What breaks if a pin moves to the version that its vendor offers now, down to the line of a procedure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import QuerySet

from catalog.models import Tool, ToolVersion
from catalog.review import holds
from catalog.rules import diff
from catalog.tools import versions
from core.errors import DomainError
from designer import agent_vendors, agents, pending_work, pins
from designer.models import Agent, Pin, Procedure, ProcedureReference
from designer.pinned_signatures import pinned_items, words_about
from designer.procedures import broken_lines, impact
from designer.signatures.effective import misfits
from designer.signatures.words import merged
from people.models import User
from protocols.signature import Signature


@dataclass(frozen=True, slots=True)
class LostWords:
    """Tuned words that the other version has no place for. `refuses`: it cannot be published so."""

    message: str
    refuses: bool


@dataclass(frozen=True, slots=True)
class ProcedureImpact:
    """`says` goes on from “Refill”, line 14."""

    procedure: Procedure
    line: int
    says: str
    breaks: bool

    @property
    def message(self) -> str:
        return f"“{self.procedure}”, line {self.line} {self.says}"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """`lines` are in the order of the procedures and their texts. `refusal` says why the pin cannot move: its
    agent may not use the vendor any more, or review does not let the version be pinned."""

    pin: Pin
    version: ToolVersion
    comparison: diff.Comparison
    lost: list[LostWords]
    refusal: str = ""
    lines: list[ProcedureImpact] = field(default_factory=list)

    @property
    def breaking(self) -> list[str]:
        return [change.sentence for change in self.comparison.changes if change.class_ == "breaking"]

    @property
    def is_felt(self) -> bool:
        """Whether something that a designer wrote breaks: a line of a procedure, or tuned words."""
        return bool(self.lost) or any(line.breaks for line in self.lines)

    @property
    def is_safe(self) -> bool:
        """Whether it may move, nothing breaks, nothing is riskier, and none of our words is lost."""
        return not self.refusal and self.comparison.effects <= set(diff.SAFE) and not self.is_felt


def of(agent: Agent) -> list[Upgrade]:
    """One for each pin of the agent that is behind, by name."""
    return to_current(behind([agent]))


def breaking_below(agent: Agent, reader: User) -> dict[Agent, list[Upgrade]]:
    """Return the breaking upgrades of the agent's sub-agents that the reader may see, in their order.

    They are published with the agent, so what breaks in one breaks the release.
    """
    below = [row for row in agents.with_all_below([agent])[agent.pk] if row.pk != agent.pk]
    seen = set(Agent.objects.active().visible_to(reader).filter(pk__in=[row.pk for row in below]))
    found: dict[Agent, list[Upgrade]] = {row: [] for row in below if row in seen}
    for upgrade in to_current(behind(list(found))) if found else ():
        if upgrade.breaking or upgrade.is_felt:
            found[upgrade.pin.agent].append(upgrade)
    return {row: upgrades for row, upgrades in found.items() if upgrades}


def behind(owners: Collection[Agent]) -> QuerySet[Pin]:
    """The agents' pins to which their vendors offer a newer version, with all that a comparison reads."""
    rows = Pin.objects.live().filter(agent__in=owners, tool__current__isnull=False)
    newer_offered = pending_work.behind(rows).order_by("name", "pk")
    return newer_offered.select_related(
        "agent", "version", "tuning", "tool__tuning", "tool__current", "tool__endpoint__vendor"
    ).defer("version__raw", "tool__current__raw")


def using(tool: Tool, user: User) -> list[Pin]:
    """The pins of the tool that the user may see, by agent, with all that a comparison reads."""
    rows = Pin.objects.live().visible_to(user).filter(tool=tool)
    found = list(rows.select_related("agent", "tuning").order_by("agent__name", "pk"))
    # Many agents pin few versions: each is read once.
    pinned_ones = ToolVersion.objects.defer("raw").in_bulk({pin.version_id for pin in found})
    for pin in found:
        pin.tool, pin.version = tool, pinned_ones[pin.version_id]
    return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pin of the agent to move; to the version that the vendor offers now if no other is said."""

    pin: int
    version: str = ""
    ordinal: int | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """`upgrade` is from before the move. `name` is what the model calls the tool after it."""

    upgrade: Upgrade
    name: str
    error: DomainError | None


def move(
    agent: Agent, *, actor: User, wanted: Iterable[Wanted], all_safe: bool = False, is_dry: bool = False
) -> list[Moved]:
    """What came of each, or would in a dry run. Raises DomainError for a pin or version that is not there."""
    asked = {each.pin: each for each in wanted}
    pins_of_agent = pinned_items([agent]).select_related("agent", "tool__current")
    found = {pin.pk: pin for pin in pins_of_agent.filter(pk__in=asked)}
    moves: list[tuple[Pin, ToolVersion]] = []
    for pk, each in asked.items():
        if (pin := found.get(pk)) is None:
            message = f"“{agent}” has no pin {pk}. Read its upgrades again."
            raise DomainError("unknown_pin", message, fields={"moves": message})
        version = versions.named(pin.tool, version=each.version, ordinal=each.ordinal)
        if version is None:
            message = versions.says_unknown(pin.tool, version=each.version, ordinal=each.ordinal)
            raise DomainError("unknown_version", message, fields={"moves": message})
        moves.append((pin, version))
    chosen = compare(moves)
    # Judged again here: what was safe when the page was opened may not be so now.
    if all_safe:
        chosen += [each for each in of(agent) if each.is_safe and each.pin.pk not in asked]
    # By ordinal, not by label: a vendor may have used a label twice.
    requests = [pins.MoveRequest(each.pin, ordinal=each.version.ordinal) for each in chosen]
    answers = pins.move_several(agent, actor=actor, wanted=requests, is_dry=is_dry)
    return [
        Moved(each, each.pin.name, answer)
        if isinstance(answer, DomainError)
        else Moved(each, answer.name, None)
        for each, answer in zip(chosen, answers, strict=True)
    ]


def to_current(rows: Iterable[Pin]) -> list[Upgrade]:
    return compare([(pin, pin.tool.current) for pin in rows if pin.tool.current])


def of_tool(tool: Tool, version: ToolVersion, user: User) -> list[Upgrade]:
    """One for each agent that the user may see and that has pinned another version; the broken ones first."""
    moves = [(pin, version) for pin in using(tool, user) if pin.version_id != version.pk]
    return sorted(compare(moves), key=lambda each: not each.is_felt)


def to(pin: Pin, version: ToolVersion) -> Upgrade:
    """What moving the pin to this version would change, and which of our words would be lost."""
    return compare([(pin, version)])[0]


def compare(moves: Sequence[tuple[Pin, ToolVersion]]) -> list[Upgrade]:
    """In five queries at most: equal versions are decoded and compared once."""
    signatures: dict[int, Signature] = {}
    for pin, version in moves:
        for each in (pin.version, version):
            # Decoding is the larger part of the work, and many pins share a version.
            if each.pk not in signatures:
                signatures[each.pk] = each.decoded()
    comparisons = {
        key: diff.compare(signatures[key[0]], signatures[key[1]])
        for key in {(pin.version_id, version.pk) for pin, version in moves}
    }
    allowed = agent_vendors.of_several({pin.agent for pin, _ in moves})
    states = holds.pinning_states({version for _, version in moves})

    def refusal(pin: Pin, version: ToolVersion) -> str:
        of_vendor = allowed[pin.agent_id].refusal(pin.agent, pin.tool, is_pinned=True)
        state = states.get(version.pk)
        return of_vendor or (pins.review_refusal(pin.tool, version, state).message if state else "")

    found = [
        Upgrade(
            pin,
            version,
            comparisons[pin.version_id, version.pk],
            lost(pin, signatures[version.pk]),
            refusal(pin, version),
        )
        for pin, version in moves
    ]
    # Texts are read for those alone that can break a line; most moves cannot.
    concerned = [upgrade for upgrade in found if impact.concerns_lines(upgrade.comparison.changes)]
    naming = _procedures_naming([upgrade.pin for upgrade in concerned])
    for upgrade in concerned:
        if procedures := naming.get(upgrade.pin.pk):
            before, after = signatures[upgrade.pin.version_id], signatures[upgrade.version.pk]
            upgrade.lines.extend(_lines(upgrade, before, after, procedures))
    return found


def lost(pin: Pin, signature: Signature) -> list[LostWords]:
    # Of the agent's own words, and of those for all agents beneath them.
    own = words_about(pin)
    found = misfits(signature, merged(words_about(pin.tool), own))
    told = []
    for misfit in found:
        is_own = misfit.parameter in own.parameters or misfit.parameter in own.outputs
        whose = "This agent's words" if is_own else "The tool's words for all agents"
        ends = " Publishing is refused until they fit." if misfit.exposes else ""
        told.append(LostWords(f"{misfit.message} {whose} about it do not fit.{ends}", misfit.exposes))
    return told


def _procedures_naming(rows: Collection[Pin]) -> Mapping[int, list[Procedure]]:
    # By pin, in the order of the agent's procedures.
    if not rows:
        return {}
    naming_them = ProcedureReference.objects.filter(pin__in=rows, procedure__removed_at=None).order_by()
    pairs = set(naming_them.values_list("pin", "procedure"))
    procedures = Procedure.objects.filter(pk__in={procedure for _, procedure in pairs})
    naming: defaultdict[int, list[Procedure]] = defaultdict(list)
    pins_of: defaultdict[int, list[int]] = defaultdict(list)
    for pin, named_in in pairs:
        pins_of[named_in].append(pin)
    for procedure in procedures.only("slug", "title", "text", "position"):
        for pin in pins_of[procedure.pk]:
            naming[pin].append(procedure)
    return naming


def _lines(
    upgrade: Upgrade, before: Signature, after: Signature, procedures: Iterable[Procedure]
) -> Iterable[ProcedureImpact]:
    changes = upgrade.comparison.changes
    move = broken_lines.move_between(upgrade.pin, before, after, changes, version=upgrade.version)
    for procedure in procedures:
        for line in impact.impacts(procedure.text, move):
            yield ProcedureImpact(procedure, line.line, line.message, line.breaks)
