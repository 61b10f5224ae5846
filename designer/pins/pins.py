"""The tool versions that an agent pins. A user starts every change here."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from catalog.models import Configuration, Tool, ToolVersion
from catalog.models.findings import FindingState
from catalog.models.tools import ItemKind, ToolStatus, lock_in_order
from catalog.review import holds, inspector
from catalog.rules import retries
from catalog.rules.retries import Stated
from catalog.tools import versions
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from core.query_deadline import long_transaction
from designer.agents import agent_vendors, agents, transfers
from designer.agents.agents import lock_agent
from designer.errors import NameTakenError
from designer.models import Agent, Pin, Tuning
from designer.models.pins import PinMode
from designer.pins import tunings
from designer.signatures import model_names
from execution.threads import configurations
from people import audit
from people.audit import edit_conflicts
from people.models import User

# Per request, so that a transaction stays short.
MAX_PINS_PER_REQUEST = 100


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
    """Pin the current version unless `version` or `ordinal` names another, as in `versions.find_version`.
    `configuration`: as in `configurations.find_configuration`.
    """
    agent = lock_agent(agent)
    tool = Tool.objects.select_related("current", "endpoint__vendor").get(pk=tool.pk)
    if tool.endpoint.removed_at or tool.endpoint.vendor.removed_at:
        message = _("“{tool}” belongs to a vendor that has been removed. Choose another tool.").format(
            tool=tool
        )
        raise DomainError("tool_withdrawn", message, fields={"tool": message}, status=409)
    if tool.status == ToolStatus.WITHDRAWN:
        message = (
            _("“{tool}” was withdrawn. Choose another tool.")
            if tool.endpoint.vendor.is_own
            else _("The vendor has withdrawn “{tool}”. Choose another tool.")
        ).format(tool=tool)
        raise DomainError("tool_withdrawn", message, fields={"tool": message}, status=409)
    if agent.pins.live().filter(tool=tool).exists():
        message = _("“{agent}” has “{tool}” already. Move that pin to change its version.").format(
            agent=agent, tool=tool
        )
        raise DomainError("already_pinned", message, fields={"tool": message}, status=409)
    _refuse_taken_address(agent, tool)
    agent_vendors.check(agent, tool)
    new_version = _find_version(tool, version, ordinal)
    alias = alias.strip()
    pin = _unused_row(agent, tool)
    pin.version, pin.alias = new_version, alias
    pin.name = _choose_name(agent, tool, new_version, alias, proposed=proposed)
    pin.created_by, pin.retry, pin.mode = actor, retries.change_policy({}, retry or {}), mode
    pin.configuration = _find_configuration(pin, configuration)
    pin.save()
    audit.record(actor, "pin", pin, after=_audit_facts(pin), agent=pin.agent_id)
    return pin


def _refuse_taken_address(agent: Agent, tool: Tool) -> None:
    # A client reads a resource by its address, which has to belong to one vendor.
    if tool.kind in (ItemKind.RESOURCE, ItemKind.RESOURCE_TEMPLATE):
        others = agent.pins.live().filter(tool__kind=tool.kind, tool__tool_id=tool.tool_id)
        if other := others.select_related("tool__endpoint__vendor").first():
            message = _("“{agent}” has a resource of {vendor} with this address already.").format(
                agent=agent, vendor=other.tool.endpoint.vendor
            )
            raise DomainError("address_taken", message, fields={"tool": message}, status=409)


@dataclass(frozen=True, slots=True)
class PinRequest:
    """A tool to pin. Defaults: the current version, the vendor's name."""

    tool: Tool
    version: str = ""
    ordinal: int | None = None
    alias: str = ""
    retry: Stated | None = None
    mode: PinMode = PinMode.CACHED
    configuration: str | None = None


@long_transaction()
def pin_several(agent: Agent, *, actor: User, pin_requests: Iterable[PinRequest]) -> list[Pin | DomainError]:
    """Pin several tools, in order, in one transaction. Return one result per request: the pin, or the error.

    The first of two tools with one name gets it. A refused tool does not stop the others.
    """
    agent = lock_agent(agent)
    requests = list(pin_requests)
    # Pinning inspects a version that no run has inspected yet, which locks its tool. Tools are always locked
    # in the order of their ids.
    uninspected = ToolVersion.objects.filter(
        tool__in=[request.tool for request in requests], run__inspected=0
    )
    lock_in_order(Tool.objects.filter(pk__in=uninspected.values("tool")))
    answers: list[Pin | DomainError] = []
    # A caller may send all proposals back at once, so they all differ.
    proposed: list[str] = []
    for request in requests:
        try:
            pin = pin_tool(
                agent,
                actor=actor,
                tool=request.tool,
                version=request.version,
                ordinal=request.ordinal,
                alias=request.alias,
                retry=request.retry,
                mode=request.mode,
                configuration=request.configuration,
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
    """Move the pin to a newer or older version. A name that follows the vendor's changes with it. `alias`
    sets a name for a version whose own name is taken.
    """
    pin = _lock_pin(pin)
    before = facts(pin)
    new_version = _find_version(pin.tool, version, ordinal)
    alias = pin.alias if alias is None else alias.strip()
    changes = {"version": new_version.name, "ordinal": new_version.ordinal, "alias": alias}
    edit_conflicts.check(pin, expected, now=before, submitted=before | changes)
    if new_version == pin.version:
        return set_alias(pin, actor=actor, alias=alias)
    agent_vendors.check(pin.agent, pin.tool, is_pinned=True)
    is_renamed = new_version.decoded().name != pin.version.decoded().name
    if alias != pin.alias or (is_renamed and not alias):
        pin.name = _choose_name(pin.agent, pin.tool, new_version, alias, besides=pin)
    pin.version, pin.alias = new_version, alias
    pin.save(update_fields=["version", "alias", "name"])
    audit.record(actor, "move", pin, before=before, after=facts(pin), agent=pin.agent_id)
    return pin


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A pin to move. Default: the vendor's current version."""

    pin: Pin
    version: str = ""
    ordinal: int | None = None


def move_several(
    agent: Agent, *, actor: User, requests: Iterable[MoveRequest], is_dry: bool = False
) -> list[Pin | DomainError]:
    """Move several pins. Return one result per request, in order: the pin, or the error. `is_dry` rolls
    everything back.
    """
    answers: list[Pin | DomainError] = []
    with long_transaction():
        lock_agent(agent)
        for request in requests:
            try:
                moved = move_pin(request.pin, actor=actor, version=request.version, ordinal=request.ordinal)
            except DomainError as error:
                answers.append(error)
            else:
                answers.append(moved)
        transaction.set_rollback(is_dry)
    return answers


@transaction.atomic
def set_alias(pin: Pin, *, actor: User, alias: str, expected: str = edit_conflicts.ANY_STATE) -> Pin:
    """Set the pin's name. "" restores the name derived from the vendor's."""
    pin = _lock_pin(pin)
    before = facts(pin)
    alias = alias.strip()
    edit_conflicts.check(pin, expected, now=before, submitted=before | {"alias": alias})
    if alias == pin.alias:
        return pin
    pin.name = _choose_name(pin.agent, pin.tool, pin.version, alias, besides=pin)
    pin.alias = alias
    pin.save(update_fields=["alias", "name"])
    audit.record(actor, "rename", pin, before=before, after=facts(pin), agent=pin.agent_id)
    return pin


@transaction.atomic
def set_retry(pin: Pin, *, actor: User, changes: Stated, expected: str = edit_conflicts.ANY_STATE) -> Pin:
    """Change the retry policy of this tool. None makes a member inherit from the agent or the endpoint."""
    pin = _lock_pin(pin)
    before = facts(pin)
    pin.retry = retries.change_policy(pin.retry, changes)
    edit_conflicts.check(pin, expected, now=before, submitted=facts(pin))
    if facts(pin) != before:
        pin.save(update_fields=["retry"])
        audit.record(actor, "edit", pin, before=before, after=facts(pin), agent=pin.agent_id)
    return pin


@transaction.atomic
def set_mode(pin: Pin, *, actor: User, mode: PinMode, expected: str = edit_conflicts.ANY_STATE) -> Pin:
    """Set whether runtimes may show inputs and outputs that the vendor adds after the pinned version."""
    pin = _lock_pin(pin)
    before = facts(pin)
    edit_conflicts.check(pin, expected, now=before, submitted=before | {"mode": mode})
    if mode != pin.mode:
        pin.mode = mode
        pin.save(update_fields=["mode"])
        audit.record(actor, "edit", pin, before=before, after=facts(pin), agent=pin.agent_id)
    return pin


@transaction.atomic
def set_configuration(
    pin: Pin, *, actor: User, configuration: str | None, expected: str = edit_conflicts.ANY_STATE
) -> Pin:
    """Set the values of every call (see `configurations.find_configuration`). None leaves them to calls."""
    pin = _lock_pin(pin)
    before = facts(pin)
    pin.configuration = _find_configuration(pin, configuration, requested=pin.configuration)
    edit_conflicts.check(pin, expected, now=before, submitted=facts(pin))
    if facts(pin) != before:
        pin.save(update_fields=["configuration"])
        audit.record(actor, "edit", pin, before=before, after=facts(pin), agent=pin.agent_id)
    return pin


def _find_configuration(
    pin: Pin, name: str | None, *, requested: Configuration | None = None
) -> Configuration | None:
    if not name:
        return None
    pin.version.tool = pin.tool  # read already
    # The current choice may have been removed since, and remains valid.
    configuration = (
        requested
        if requested and name == str(requested)
        else configurations.find_configuration(pin.tool, name)
    )
    if reason := configurations.why_not(pin.version, configuration.values):
        message = _("“{configuration}” does not fit version {version}. {reason}").format(
            configuration=configuration, version=printable(pin.version.name, 60), reason=reason
        )
        raise invalid(configuration=message)
    return configuration


@transaction.atomic
def remove_pin(pin: Pin, *, actor: User) -> None:
    pin = _lock_pin(pin)
    pin.removed_at = timezone.now()
    pin.save(update_fields=["removed_at"])
    audit.record(actor, "unpin", pin, before=_audit_facts(pin), agent=pin.agent_id)


@transaction.atomic
def move_to_agent(
    pins: Sequence[Pin],
    *,
    actor: User,
    new_agent: Agent,
    alias: str | None = None,
    expected: str = edit_conflicts.ANY_STATE,
) -> list[Pin]:
    """Move pins to another agent of the same tree, with version, alias and tuning; all or none.

    alias: for a single pin, if its name is taken there. Raises DomainError.
    """
    transfers.lock_tree()
    moved = []
    for pin_row in pins:
        pin = _lock_pin(pin_row)
        target = lock_agent(new_agent)
        before = facts(pin)
        new_alias = pin.alias if alias is None or len(pins) > 1 else alias.strip()
        edit_conflicts.check(
            pin, expected, now=before, submitted=before | {"agent": target.slug, "alias": new_alias}
        )
        if target == pin.agent:
            message = _("“{name}” is in “{agent}” already.").format(name=pin.name, agent=target)
            raise DomainError("same_agent", message, fields={"agent": message}, status=409)
        if target.pk not in agents.tree_of(pin.agent):
            message = _(
                "“{agent}” is not in the tree of “{pinning_agent}”. Pin the tool there instead."
            ).format(agent=target, pinning_agent=pin.agent)
            raise DomainError("other_tree", message, fields={"agent": message})
        if target.pins.live().filter(tool=pin.tool_id).exists():
            message = _("“{agent}” has “{tool}” already. Unpin it in one of the two.").format(
                agent=target, tool=pin.tool
            )
            raise DomainError("already_pinned", message, fields={"agent": message}, status=409)
        agent_vendors.check(target, pin.tool)
        moved.append(_move_row(pin, target, actor, new_alias))
    return moved


def _move_row(pin: Pin, target: Agent, actor: User, alias: str) -> Pin:
    # The old pin remains as a removed row, because procedures there still refer to it.
    new = _unused_row(target, pin.tool)
    new.version, new.alias, new.created_by = pin.version, alias, actor
    new.retry, new.mode, new.configuration = pin.retry, pin.mode, pin.configuration
    new.name = _choose_name(target, pin.tool, pin.version, alias)
    new.save()
    pin.removed_at = timezone.now()
    pin.save(update_fields=["removed_at"])
    Tuning.objects.filter(pin=pin).update(pin=new)
    audit.record(
        actor, "unpin", pin, before=_audit_facts(pin), why=f"Moved to “{target}”.", agent=pin.agent_id
    )
    audit.record(
        actor, "pin", new, after=_audit_facts(new), why=f"Moved from “{pin.agent}”.", agent=target.pk
    )
    return new


@transaction.atomic
def copy_pin(pin: Pin, agent: Agent, *, actor: User) -> Pin:
    """Copy a pin to an agent without pins: version, alias, name and tuning, whatever the tool's state."""
    reason = f"Copied from “{pin.agent}”."
    tuning = getattr(pin, "tuning", None)
    new = Pin(agent=agent, tool=pin.tool, version=pin.version, alias=pin.alias, name=pin.name)
    new.created_by, new.retry, new.mode = actor, pin.retry, pin.mode
    new.configuration = pin.configuration
    new.save()
    audit.record(actor, "pin", new, after=_audit_facts(new), why=reason, agent=agent.pk)
    if tuning is not None:
        tunings.copy_tuning(tuning, new, actor=actor, why=reason)
    return new


def _unused_row(agent: Agent, tool: Tool) -> Pin:
    """Return the agent's removed pin of this tool, so that its procedures refer to it again, or an unsaved
    new one.
    """
    removed_pin = (
        Pin.objects.filter(agent=agent, tool=tool).exclude(removed_at=None).order_by("-removed_at").first()
    )
    if removed_pin is None:
        return Pin(agent=agent, tool=tool)
    Tuning.objects.filter(pin=removed_pin).delete()
    removed_pin.agent, removed_pin.tool, removed_pin.removed_at, removed_pin.created_at = (
        agent,
        tool,
        None,
        timezone.now(),
    )
    return removed_pin


def facts(pin: Pin) -> dict[str, Any]:
    """Return the values for an audit row."""
    return {
        "agent": pin.agent.slug,
        "tool": pin.tool.tool_id,
        "version": pin.version.name,
        "ordinal": pin.version.ordinal,
        "alias": pin.alias,
        "name": pin.name,
        "retry": pin.retry,
        "mode": pin.mode,
        # Omitted without a configuration, as in older audit rows.
        **({"configuration": str(pin.configuration)} if pin.configuration else {}),
    }


def _audit_facts(pin: Pin) -> dict[str, Any]:
    # The audit row of a new or removed pin omits the default mode.
    return {name: value for name, value in facts(pin).items() if (name, value) != ("mode", PinMode.CACHED)}


def _lock_pin(pin: Pin) -> Pin:
    agent = lock_agent(pin.agent)
    current = (
        agent.pins.live()
        .select_related("tool__endpoint__vendor", "version", "configuration")
        .filter(pk=pin.pk)
        .first()
    )
    if current is None:
        raise DomainError(
            "pin_removed", _("“{name}” is not pinned any more.").format(name=pin.name), status=409
        )
    current.agent = agent
    return current


def _find_version(tool: Tool, version: str, ordinal: int | None) -> ToolVersion:
    tool_version = versions.find_version(tool, version=version, ordinal=ordinal)
    if tool_version is None:
        message = versions.unknown_version_message(tool, version=version, ordinal=ordinal)
        raise DomainError("unknown_version", message, fields={"version": message})
    # A run may have stored the version just now, so it may not have been inspected yet.
    inspector.inspect_version(tool_version)
    if state := holds.pinning_state(tool_version):
        raise review_refusal(tool, tool_version, state)
    return tool_version


def review_refusal(tool: Tool, version: ToolVersion, state: FindingState) -> DomainError:
    """Return why review does not let this version be pinned."""
    if state == FindingState.BLOCKED:
        code = "version_blocked"
        message = _("Version {version} of “{tool}” has been blocked in review. Choose another version.")
    else:
        code = "version_held"
        message = _(
            "Version {version} of “{tool}” waits for review. Choose another version, or ask an administrator."
        )
    message = message.format(version=printable(version.name, 60), tool=tool)
    return DomainError(code, message, fields={"version": message}, status=409)


def _choose_name(
    agent: Agent,
    tool: Tool,
    version: ToolVersion,
    alias: str,
    *,
    besides: Pin | None = None,
    proposed: Collection[str] = (),
) -> str:
    """Return the name that a model sees. Raises DomainError if it is invalid or taken.

    proposed: free names that are not proposed again.
    """
    # The caller has locked the agent, so a free name stays free.
    name = alias or model_names.derive(version.decoded().name)
    proposal = propose_name(agent, tool, name, besides=besides)
    if alias and not model_names.is_legal(alias):
        message = _(
            "A name starts with a letter or an underscore and goes on with letters, digits, "
            "underscores and hyphens, 64 at most. Try “{proposal}”."
        ).format(proposal=proposal)
        raise DomainError("alias_illegal", message, fields={"alias": message})
    # Models read names, so a user has to choose another name for one that is taken.
    if proposal != name:
        proposal = propose_name(agent, tool, name, besides=besides, proposed=proposed)
        message = (
            _("A transfer of “{agent}” is called “{name}”.")
            if name.lower() in (name.lower() for name in transfers.names_of(agent))
            else _("Another tool of “{agent}” is called “{name}”.")
        ).format(agent=agent, name=name)
        if not alias:
            message += " " + _("Name this one:")
        message += " " + _("“{proposal}” is free.").format(proposal=proposal)
        raise NameTakenError("alias_taken" if alias else "name_taken", message, proposal)
    return name


def propose_name(
    agent: Agent, tool: Tool, name: str, *, besides: Pin | None = None, proposed: Collection[str] = ()
) -> str:
    """Return `name` if it is valid and free, else a readable name that is free."""
    others = agent.pins.live()
    if besides:
        others = others.exclude(pk=besides.pk)
    used_names = [*others.values_list("name", flat=True), *transfers.names_of(agent), *proposed]
    return model_names.propose(name, used_names, vendor=tool.endpoint.vendor.slug)
