"""Changes of activities. Each is one change by one user, audited in its transaction.

Each save adds a version that is never changed. A binding runs the version that it names, and a step the
version that was current when its activity was saved, so an edit changes nothing that runs.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from catalog.locking import check_name, lock_row
from catalog.models import Activity, ActivityVersion, Tool, ToolVersion
from catalog.rules.sensitive_values import restore
from core import unique_violations
from core.canonical_json import canonical, digest
from core.errors import DomainError, invalid
from core.outbound import policy
from core.outbound.errors import RefusedError
from execution.activities import kinds, pinned_callees, reach
from execution.activities.config_masking import masked_config
from execution.activities.picking import ActivityFault
from people import audit
from people.audit import edit_conflicts
from people.models import User

MAX_NAME_LENGTH = 150
MAX_CONFIG_BYTES = 256 * 1024
UNCHANGED: Any = object()
# Called before a shared activity gets a name. Each raises DomainError to refuse it.
NAME_RULES: list[Callable[[User, str], None]] = []
# Called before a shared activity changes or is removed.
CHANGE_RULES: list[Callable[[User, Activity], None]] = []
# Called before an activity is removed. Each raises DomainError to refuse that.
REMOVAL_RULES: list[Callable[[User, Activity], None]] = []
# Called before an activity gets another name. Each raises DomainError to refuse that.
RENAMING_RULES: list[Callable[[User, Activity], None]] = []


@transaction.atomic
def create(
    *,
    actor: User,
    name: str,
    kind: str,
    config: Mapping[str, Any],
    interface: ToolVersion | None = None,
    agent: int | None = None,
    tool: Tool | None = None,
) -> Activity:
    """Create an activity. Raises DomainError.

    agent, tool: only for a mock that belongs to one tool of one agent.
    """
    activity = Activity(name=name.strip(), agent=agent, tool=tool)
    _check_name(activity, actor)
    checked = _validated_config(activity, kind, restore(dict(config), {}), interface)
    _refuse_credentials(actor, kind, checked)
    _refuse_inner(actor, kind, checked)
    _save_activity(activity)
    _add_version(activity, actor, kind, checked, interface)
    audit.record(actor, "create", activity, after=masked_facts(activity, facts(activity)), agent=agent)
    return activity


@transaction.atomic
def change(
    activity: Activity,
    *,
    actor: User,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    interface: ToolVersion | None = UNCHANGED,
    expected: str = edit_conflicts.ANY_STATE,
) -> Activity:
    """Change an activity, except its kind. Arguments that are left out stay as they are, and so do masked
    values. Raises DomainError."""
    activity = lock_row(activity, Activity.objects.live().select_related("current__interface"))
    before = facts(activity)
    now = current(activity)
    if interface is UNCHANGED:
        interface = now.interface
    is_given = config is not None
    config = (
        now.config
        if config is None
        else _validated_config(activity, now.kind, restore(dict(config), now.config), interface)
    )
    if name is not None and name.strip() != activity.name:
        for rule in RENAMING_RULES:
            rule(actor, activity)
        activity.name = name.strip()
        _check_name(activity, actor)
    proposed_facts = {
        "name": activity.name,
        "kind": now.kind,
        "config": config,
        "interface": _interface_facts(interface),
    }
    _refuse_credentials(actor, now.kind, now.config)
    _refuse_credentials(actor, now.kind, config)
    edit_conflicts.check(
        activity, expected, now=before, submitted=proposed_facts, mask=partial(masked_facts, activity)
    )
    is_new = any(proposed_facts[member] != before[member] for member in ("config", "interface"))
    # An administrator who saves a designer's configuration again vouches for its addresses.
    is_vouched = (
        is_given and actor.can_administer and not now.is_by_administrator and _own_origins(now.kind, config)
    )
    takes_newer_callees = is_given and has_newer_callees(now)
    if proposed_facts == before and not (is_vouched or takes_newer_callees):
        return activity
    _refuse_change(actor, activity)
    if is_new:
        _refuse_inner(actor, now.kind, config)
    _save_activity(activity)
    if is_new or is_vouched or takes_newer_callees:
        _add_version(activity, actor, now.kind, config, interface)
    reason = ""
    if proposed_facts == before:
        newer = "The same steps, with the newest versions of the implementations that they run."
        reason = newer if takes_newer_callees else "As it was, by an administrator."
    old_facts, new_facts = masked_facts(activity, before), masked_facts(activity, facts(activity))
    audit.record(actor, "edit", activity, before=old_facts, after=new_facts, why=reason, agent=activity.agent)
    return activity


@transaction.atomic
def remove(activity: Activity, *, actor: User) -> None:
    """Remove an activity, so that it does not run any more. Its versions and its calls stay."""
    activity = lock_row(activity, Activity.objects.live().select_related("current__interface"))
    if users := reach.users_of(activity):
        names = ", ".join(f"“{user}”" for user in users[:5])
        raise DomainError(
            "activity_in_use",
            _("“{activity}” is a step of {names}. Remove it there first.").format(
                activity=activity, names=names
            ),
            status=409,
        )
    _refuse_change(actor, activity)
    for rule in REMOVAL_RULES:
        rule(actor, activity)
    activity.removed_at = timezone.now()
    activity.save(update_fields=["removed_at"])
    audit.record(
        actor, "remove", activity, before=masked_facts(activity, facts(activity)), agent=activity.agent
    )


def faults_now(activity: Activity) -> list[ActivityFault]:
    """Return the faults of the activity, by the newest version of the tool that is its interface."""
    now = current(activity)
    newest = now.interface and (now.interface.tool.current or now.interface)
    faults = list(kinds.get(now.kind).faults(now.config, newest.decoded() if newest else None))
    if not now.is_by_administrator and (reason := _why_inner(now.kind, now.config)):
        faults.append(ActivityFault("address", "address_refused", reason))
    return faults


def has_newer_callees(version: ActivityVersion) -> bool:
    """Return whether an activity that this version runs has a newer version than the one it runs."""
    activities = set(kinds.get(version.kind).activities(version.config))
    newest = {row.pk for row in pinned_callees.current_versions(activities).values()}
    return bool(newest - pinned_callees.recorded_versions(version))


def facts(activity: Activity) -> dict[str, Any]:
    """Return the facts for the audit log, which also detect conflicts between two editors."""
    now = current(activity)
    return {
        "name": activity.name,
        "kind": now.kind,
        "config": now.config,
        "interface": _interface_facts(now.interface),
    }


def masked_facts(activity: Activity, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts for a person, or for the audit trail, whose entries cannot be changed."""
    interface = recorded["interface"]
    tool = activity.tool_id or (interface["tool"] if interface else None)
    return {**recorded, "config": masked_config(recorded["kind"], recorded["config"], tool)}


def current(activity: Activity) -> ActivityVersion:
    # None only within the transaction that creates it.
    if activity.current is None:
        raise DomainError(
            "activity_without_version",
            _("“{activity}” was never saved completely.").format(activity=activity),
            status=409,
        )
    return activity.current


def _check_name(activity: Activity, actor: User) -> None:
    check_name(activity.name, MAX_NAME_LENGTH)
    for rule in NAME_RULES if activity.agent is None else ():
        rule(actor, activity.name)


def _refuse_change(actor: User, activity: Activity) -> None:
    for rule in CHANGE_RULES if activity.agent is None else ():
        rule(actor, activity)


def _interface_facts(interface: ToolVersion | None) -> dict[str, int] | None:
    return None if interface is None else {"tool": interface.tool_id, "ordinal": interface.ordinal}


def _validated_config(
    activity: Activity, kind: str, config: Mapping[str, Any], interface: ToolVersion | None
) -> dict[str, Any]:
    if len(canonical(config)) > MAX_CONFIG_BYTES:
        raise invalid(
            config=_("The configuration is larger than {maximum} kB.").format(
                maximum=MAX_CONFIG_BYTES // 1024
            )
        )
    checked = kinds.get(kind).check(config, interface.decoded() if interface else None)
    reach.refuse_too_much(activity, kind, checked)
    return checked


def _refuse_credentials(actor: User, kind: str, config: Mapping[str, Any]) -> None:
    # A user who writes the requests that carry a credential can do with it what its owner can.
    if list(kinds.get(kind).credentials(config)) and not actor.can_administer:
        message = _("Only an administrator chooses a credential, and changes an implementation that has one.")
        raise DomainError("forbidden", message, fields={"credential": message}, status=403)


def _refuse_inner(actor: User, kind: str, config: Mapping[str, Any]) -> None:
    # The address that it resolves to is checked when a connection is opened.
    if not actor.can_administer and (reason := _why_inner(kind, config)):
        raise DomainError("address_refused", reason, fields={"address": reason})


def _why_inner(kind: str, config: Mapping[str, Any]) -> str:
    """Return the reason why an address cannot be on the public internet, "" if it can."""
    try:
        for origin in _own_origins(kind, config):
            policy.origin_of(
                origin, policy=policy.policy_for(policy.Door.ACTIVITY, policy.AddressSource.DESIGNER)
            )
    except RefusedError as error:
        return _("{reason} An administrator may save one in a network that is open to vendors.").format(
            reason=error.message
        )
    return ""


def _own_origins(kind: str, config: Mapping[str, Any]) -> list[str]:
    return list(kinds.get(kind).origins(config))


def _save_activity(activity: Activity) -> None:
    try:
        with transaction.atomic():
            activity.save()
    except IntegrityError as exc:
        if not unique_violations.is_taken(exc):
            raise
        message = _("There is an implementation “{activity}” already. Choose another name.").format(
            activity=activity.name
        )
        raise DomainError("name_taken", message, fields={"name": message}, status=409) from exc


def _add_version(
    activity: Activity, actor: User, kind: str, config: dict[str, Any], interface: ToolVersion | None
) -> None:
    # The activity is locked or new, so no other version gets the same number.
    last = activity.current.number if activity.current else 0
    callees = pinned_callees.current_versions(set(kinds.get(kind).activities(config)))
    frozen = {"kind": kind, "config": config, "interface": _interface_facts(interface)}
    if callees:
        frozen["callees"] = {str(key): row.digest for key, row in sorted(callees.items())}
    activity.current = ActivityVersion.objects.create(
        activity=activity,
        number=last + 1,
        kind=kind,
        config=config,
        interface=interface,
        digest=digest(frozen),
        created_by=actor,
        is_by_administrator=actor.can_administer,
    )
    pinned_callees.record(activity.current, callees.values())
    activity.save(update_fields=["current"])
