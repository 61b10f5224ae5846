"""An agent's choice of tool versions. Nothing here runs unless a person asks for it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from catalog.models import Configuration, Tool, ToolVersion
from catalog.models.findings import FindingState
from catalog.models.tools import ItemKind, ToolStatus, lock_in_order
from catalog.review import holds, inspector
from catalog.rules import retries
from catalog.rules.retries import Stated
from catalog.tools import configurations, versions
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from core.query_deadline import long_transaction
from designer import agent_vendors, agents, transfers, tunings
from designer.agents import locked
from designer.errors import NameTakenError
from designer.models import Agent, Pin, Tuning
from designer.models.pins import PinMode
from designer.signatures import model_names
from people import audit
from people.audit import edit_conflicts
from people.models import User

# In one go, so that a transaction stays short.
MAX_AT_ONCE = 100


@transaction.atomic
def pin_tool(
    agent: Agent,
    *,
    actor: User,
    tool: Tool,
    version: str = "",
    ordinal: int | None = None,
    alias: str = "",
    retry: Stated | None = None,
    mode: PinMode = PinMode.CACHED,
    configuration: str | None = None,
    proposed: Collection[str] = (),
) -> Pin:
    """Pins the current version unless `version` or `ordinal` names another, as in `versions.named`;
    `configuration` is as in `configurations.named`."""
    agent = locked(agent)
    tool = Tool.objects.select_related("current", "endpoint__vendor").get(pk=tool.pk)
    if tool.endpoint.removed_at or tool.endpoint.vendor.removed_at:
        message = f"“{tool}” belongs to a vendor that has been removed. Choose another tool."
        raise DomainError("tool_withdrawn", message, fields={"tool": message}, status=409)
    if tool.status == ToolStatus.WITHDRAWN:
        who_did = (
            f"“{tool}” was withdrawn" if tool.endpoint.vendor.is_own else f"The vendor has withdrawn “{tool}”"
        )
        message = f"{who_did}. Choose another tool."
        raise DomainError("tool_withdrawn", message, fields={"tool": message}, status=409)
    if agent.pins.live().filter(tool=tool).exists():
        message = f"“{agent}” has “{tool}” already. Move that pin to change its version."
        raise DomainError("already_pinned", message, fields={"tool": message}, status=409)
    _refuse_taken_address(agent, tool)
    agent_vendors.check(agent, tool)
    chosen = _version(tool, version, ordinal)
    alias = alias.strip()
    pin = _unused_row(agent, tool)
    pin.version, pin.alias = chosen, alias
    pin.name = _name(agent, tool, chosen, alias, proposed=proposed)
    pin.created_by, pin.retry, pin.mode = actor, retries.stated({}, retry or {}), mode
    pin.configuration = _configuration(pin, configuration)
    pin.save()
    audit.record(actor, "pin", pin, after=_told(pin), agent=pin.agent_id)
    return pin


def _refuse_taken_address(agent: Agent, tool: Tool) -> None:
    # A client reads a resource by its address, which has to lead to one vendor.
    if tool.kind in (ItemKind.RESOURCE, ItemKind.RESOURCE_TEMPLATE):
        others = agent.pins.live().filter(tool__kind=tool.kind, tool__tool_id=tool.tool_id)
        if other := others.select_related("tool__endpoint__vendor").first():
            message = f"“{agent}” has a resource of {other.tool.endpoint.vendor} with this address already."
            raise DomainError("address_taken", message, fields={"tool": message}, status=409)


@dataclass(frozen=True, slots=True)
class PinRequest:
    """A tool to pin; without a version in its current one, without an alias under the vendor's name."""

    tool: Tool
    version: str = ""
    ordinal: int | None = None
    alias: str = ""
    retry: Stated | None = None
    mode: PinMode = PinMode.CACHED
    configuration: str | None = None


@long_transaction()
def pin_several(agent: Agent, *, actor: User, wanted: Iterable[PinRequest]) -> list[Pin | DomainError]:
    """One answer for each. They are pinned in this order, so the first of two that have one name gets it.

    A tool that is refused does not hold up the others; what is not refused is written in one transaction.
    """
    agent = locked(agent)
    asked = list(wanted)
    # Pinning inspects what no run has inspected yet, which locks the tool. Whatever order they are asked for
    # in, they are locked by their numbers, as by all others.
    uninspected = ToolVersion.objects.filter(tool__in=[each.tool for each in asked], run__inspected=0)
    lock_in_order(Tool.objects.filter(pk__in=uninspected.values("tool")))
    answers: list[Pin | DomainError] = []
    # A caller may send all proposals back at once, so no two of them are the same.
    proposed: list[str] = []
    for each in asked:
        try:
            pin = pin_tool(
                agent,
                actor=actor,
                tool=each.tool,
                version=each.version,
                ordinal=each.ordinal,
                alias=each.alias,
                retry=each.retry,
                mode=each.mode,
                configuration=each.configuration,
                proposed=proposed,
            )
        except DomainError as error:
            if isinstance(error, NameTakenError):
                proposed.append(error.proposal)
            answers.append(error)
        else:
            answers.append(pin)
    return answers


@transaction.atomic
def move_pin(
    pin: Pin,
    *,
    actor: User,
    version: str = "",
    ordinal: int | None = None,
    alias: str | None = None,
    expected: str = edit_conflicts.ANY_STATE,
) -> Pin:
    """To a newer or an older version. A name that follows the vendor's follows it here too; an `alias` goes
    along, for a version whose own name is taken.
    """
    pin = _locked(pin)
    before = facts(pin)
    chosen = _version(pin.tool, version, ordinal)
    alias = pin.alias if alias is None else alias.strip()
    wanted = {"version": chosen.name, "ordinal": chosen.ordinal, "alias": alias}
    edit_conflicts.check(pin, expected, now=before, wanted=before | wanted)
    if chosen == pin.version:
        return set_alias(pin, actor=actor, alias=alias)
    agent_vendors.check(pin.agent, pin.tool, is_pinned=True)
    is_renamed = chosen.decoded().name != pin.version.decoded().name
    if alias != pin.alias or (is_renamed and not alias):
        pin.name = _name(pin.agent, pin.tool, chosen, alias, besides=pin)
    pin.version, pin.alias = chosen, alias
    pin.save(update_fields=["version", "alias", "name"])
    audit.record(actor, "move", pin, before=before, after=facts(pin), agent=pin.agent_id)
    return pin


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A pin of the agent to move; to the version that the vendor offers now, unless another is named."""

    pin: Pin
    version: str = ""
    ordinal: int | None = None


def move_several(
    agent: Agent, *, actor: User, wanted: Iterable[MoveRequest], is_dry: bool = False
) -> list[Pin | DomainError]:
    """One answer for each, in order. A pin that is refused does not hold up the others.

    `is_dry` does all of it, answers what came of it, and takes it back.
    """
    answers: list[Pin | DomainError] = []
    with long_transaction():
        locked(agent)
        for each in wanted:
            try:
                moved = move_pin(each.pin, actor=actor, version=each.version, ordinal=each.ordinal)
            except DomainError as error:
                answers.append(error)
            else:
                answers.append(moved)
        transaction.set_rollback(is_dry)
    return answers


@transaction.atomic
def set_alias(pin: Pin, *, actor: User, alias: str, expected: str = edit_conflicts.ANY_STATE) -> Pin:
    """An empty alias goes back to the name derived from the vendor's."""
    pin = _locked(pin)
    before = facts(pin)
    alias = alias.strip()
    edit_conflicts.check(pin, expected, now=before, wanted=before | {"alias": alias})
    if alias == pin.alias:
        return pin
    pin.name = _name(pin.agent, pin.tool, pin.version, alias, besides=pin)
    pin.alias = alias
    pin.save(update_fields=["alias", "name"])
    audit.record(actor, "rename", pin, before=before, after=facts(pin), agent=pin.agent_id)
    return pin


@transaction.atomic
def set_retry(pin: Pin, *, actor: User, changes: Stated, expected: str = edit_conflicts.ANY_STATE) -> Pin:
    """What a call of this tool does that fails; None takes a member back to the agent's or the endpoint's."""
    pin = _locked(pin)
    before = facts(pin)
    pin.retry = retries.stated(pin.retry, changes)
    edit_conflicts.check(pin, expected, now=before, wanted=facts(pin))
    if facts(pin) != before:
        pin.save(update_fields=["retry"])
        audit.record(actor, "edit", pin, before=before, after=facts(pin), agent=pin.agent_id)
    return pin


@transaction.atomic
def set_mode(pin: Pin, *, actor: User, mode: PinMode, expected: str = edit_conflicts.ANY_STATE) -> Pin:
    """Whether runtimes may be shown what the vendor adds to the pinned version."""
    pin = _locked(pin)
    before = facts(pin)
    edit_conflicts.check(pin, expected, now=before, wanted=before | {"mode": mode})
    if mode != pin.mode:
        pin.mode = mode
        pin.save(update_fields=["mode"])
        audit.record(actor, "edit", pin, before=before, after=facts(pin), agent=pin.agent_id)
    return pin


@transaction.atomic
def set_configuration(
    pin: Pin, *, actor: User, configuration: str | None, expected: str = edit_conflicts.ANY_STATE
) -> Pin:
    """With which values every call is made, as in `configurations.named`. None leaves that to each call."""
    pin = _locked(pin)
    before = facts(pin)
    pin.configuration = _configuration(pin, configuration, chosen=pin.configuration)
    edit_conflicts.check(pin, expected, now=before, wanted=facts(pin))
    if facts(pin) != before:
        pin.save(update_fields=["configuration"])
        audit.record(actor, "edit", pin, before=before, after=facts(pin), agent=pin.agent_id)
    return pin


def _configuration(
    pin: Pin, said: str | None, *, chosen: Configuration | None = None
) -> Configuration | None:
    if not said:
        return None
    pin.version.tool = pin.tool  # read already
    # What is chosen may have been removed since, and stays chosen.
    found = chosen if chosen and said == str(chosen) else configurations.named(pin.tool, said)
    if why := configurations.why_not(pin.version, found.values):
        message = f"“{found}” does not fit version {printable(pin.version.name, 60)}. {why}"
        raise invalid(configuration=message)
    return found


@transaction.atomic
def remove_pin(pin: Pin, *, actor: User) -> None:
    pin = _locked(pin)
    pin.removed_at = timezone.now()
    pin.save(update_fields=["removed_at"])
    audit.record(actor, "unpin", pin, before=_told(pin), agent=pin.agent_id)


@transaction.atomic
def move_to_agent(
    pins: Sequence[Pin],
    *,
    actor: User,
    to: Agent,
    alias: str | None = None,
    expected: str = edit_conflicts.ANY_STATE,
) -> list[Pin]:
    """Moves pins to another agent of the same tree, with version, alias and tuning; all of them or none.

    An `alias` goes along with a single pin, for a name that is taken there. Raises DomainError.
    """
    transfers.lock_tree()
    moved = []
    for given in pins:
        pin = _locked(given)
        target = locked(to)
        before = facts(pin)
        wanted = pin.alias if alias is None or len(pins) > 1 else alias.strip()
        edit_conflicts.check(
            pin, expected, now=before, wanted=before | {"agent": target.slug, "alias": wanted}
        )
        if target == pin.agent:
            message = f"“{pin.name}” is in “{target}” already."
            raise DomainError("same_agent", message, fields={"agent": message}, status=409)
        if target.pk not in agents.tree_of(pin.agent):
            message = f"“{target}” is not in the tree of “{pin.agent}”. Pin the tool there instead."
            raise DomainError("other_tree", message, fields={"agent": message})
        if target.pins.live().filter(tool=pin.tool_id).exists():
            message = f"“{target}” has “{pin.tool}” already. Unpin it in one of the two."
            raise DomainError("already_pinned", message, fields={"agent": message}, status=409)
        agent_vendors.check(target, pin.tool)
        moved.append(_moved(pin, target, actor, wanted))
    return moved


def _moved(pin: Pin, target: Agent, actor: User, alias: str) -> Pin:
    # The pin that is left stays as the removed one that the procedures there still refer to.
    new = _unused_row(target, pin.tool)
    new.version, new.alias, new.created_by = pin.version, alias, actor
    new.retry, new.mode, new.configuration = pin.retry, pin.mode, pin.configuration
    new.name = _name(target, pin.tool, pin.version, alias)
    new.save()
    pin.removed_at = timezone.now()
    pin.save(update_fields=["removed_at"])
    Tuning.objects.filter(pin=pin).update(pin=new)
    audit.record(actor, "unpin", pin, before=_told(pin), why=f"Moved to “{target}”.", agent=pin.agent_id)
    audit.record(actor, "pin", new, after=_told(new), why=f"Moved from “{pin.agent}”.", agent=target.pk)
    return new


@transaction.atomic
def copy_pin(pin: Pin, agent: Agent, *, actor: User) -> Pin:
    """To an agent without pins: version, alias, name and tuning, whatever has become of the tool."""
    why = f"Copied from “{pin.agent}”."
    tuning = getattr(pin, "tuning", None)
    new = Pin(agent=agent, tool=pin.tool, version=pin.version, alias=pin.alias, name=pin.name)
    new.created_by, new.retry, new.mode = actor, pin.retry, pin.mode
    new.configuration = pin.configuration
    new.save()
    audit.record(actor, "pin", new, after=_told(new), why=why, agent=agent.pk)
    if tuning is not None:
        tunings.copy_tuning(tuning, new, actor=actor, why=why)
    return new


def _unused_row(agent: Agent, tool: Tool) -> Pin:
    # The row of a pin that the agent had of this tool, so that its procedures refer to it again; else a new
    # one, not saved.
    had = Pin.objects.filter(agent=agent, tool=tool).exclude(removed_at=None).order_by("-removed_at").first()
    if had is None:
        return Pin(agent=agent, tool=tool)
    Tuning.objects.filter(pin=had).delete()
    had.agent, had.tool, had.removed_at, had.created_at = agent, tool, None, timezone.now()
    return had


def facts(pin: Pin) -> dict[str, Any]:
    """What an audit row says about a pin."""
    return {
        "agent": pin.agent.slug,
        "tool": pin.tool.tool_id,
        "version": pin.version.name,
        "ordinal": pin.version.ordinal,
        "alias": pin.alias,
        "name": pin.name,
        "retry": pin.retry,
        "mode": pin.mode,
        # Left out where there is none, as it was before there were any.
        **({"configuration": str(pin.configuration)} if pin.configuration else {}),
    }


def _told(pin: Pin) -> dict[str, Any]:
    # A row about a whole pin says what was chosen for it, and not the mode that all have.
    return {name: value for name, value in facts(pin).items() if (name, value) != ("mode", PinMode.CACHED)}


def _locked(pin: Pin) -> Pin:
    agent = locked(pin.agent)
    found = (
        agent.pins.live()
        .select_related("tool__endpoint__vendor", "version", "configuration")
        .filter(pk=pin.pk)
        .first()
    )
    if found is None:
        raise DomainError("pin_removed", f"“{pin.name}” is not pinned any more.", status=409)
    found.agent = agent
    return found


def _version(tool: Tool, version: str, ordinal: int | None) -> ToolVersion:
    found = versions.named(tool, version=version, ordinal=ordinal)
    if found is None:
        message = versions.says_unknown(tool, version=version, ordinal=ordinal)
        raise DomainError("unknown_version", message, fields={"version": message})
    # A run may have brought the version this moment, so it may not have been inspected yet.
    inspector.inspect_version(found)
    if state := holds.pinning_state(found):
        raise review_refusal(tool, found, state)
    return found


def review_refusal(tool: Tool, version: ToolVersion, state: FindingState) -> DomainError:
    """Return why review does not let this version be pinned."""
    if state == FindingState.BLOCKED:
        code, why = "version_blocked", "has been blocked in review. Choose another version."
    else:
        code, why = "version_held", "waits for review. Choose another version, or ask an administrator."
    message = f"Version {printable(version.name, 60)} of “{tool}” {why}"
    return DomainError(code, message, fields={"version": message}, status=409)


def _name(
    agent: Agent,
    tool: Tool,
    version: ToolVersion,
    alias: str,
    *,
    besides: Pin | None = None,
    proposed: Collection[str] = (),
) -> str:
    """Return the name that a model is shown. Raises DomainError for one that is illegal or taken.

    `proposed` names are free, and are not proposed again.
    """
    # The caller holds the agent's lock, so a name that is free now stays free.
    wanted = alias or model_names.derive(version.decoded().name)
    proposal = propose_name(agent, tool, wanted, besides=besides)
    if alias and not model_names.is_legal(alias):
        message = (
            "A name starts with a letter or an underscore and goes on with letters, digits, underscores "
            f"and hyphens, 64 at most. Try “{proposal}”."
        )
        raise DomainError("alias_illegal", message, fields={"alias": message})
    # A name that is taken is never changed without a person's choice, because models read it.
    if proposal != wanted:
        proposal = propose_name(agent, tool, wanted, besides=besides, proposed=proposed)
        asks = "" if alias else " Say what this one is called:"
        is_transfer = wanted.lower() in (name.lower() for name in transfers.names_of(agent))
        what = f"A transfer of “{agent}”" if is_transfer else f"Another tool of “{agent}”"
        message = f"{what} is called “{wanted}”.{asks} “{proposal}” is free."
        raise NameTakenError("alias_taken" if alias else "name_taken", message, proposal)
    return wanted


def propose_name(
    agent: Agent, tool: Tool, wanted: str, *, besides: Pin | None = None, proposed: Collection[str] = ()
) -> str:
    """`wanted` if it is legal and no other tool of the agent has it, else a readable one that is free."""
    others = agent.pins.live()
    if besides:
        others = others.exclude(pk=besides.pk)
    taken = [*others.values_list("name", flat=True), *transfers.names_of(agent), *proposed]
    return model_names.propose(wanted, taken, vendor=tool.endpoint.vendor.slug)
