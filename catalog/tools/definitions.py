"""Tools that are defined here: interfaces of our own, which any activity may answer for.

A definition is a tool like a vendor's, with versions that are frozen, and is pinned, tuned and published like
one. All of them belong to one endpoint, which no server stands behind. docs/definitions.md says more.
"""

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from catalog.models import Endpoint, Tool, ToolVersion, Vendor, Withdrawal
from catalog.models.tools import ToolStatus
from catalog.notifications import outbox
from catalog.notifications.events import TOOL, VERSION
from catalog.rules import assess
from catalog.token_estimate import tokens_of
from catalog.tools import effective_texts, versions
from core import canonical_json, display_names, strict_json
from core.canonical_json import canonical, decoded
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from people import audit
from people.audit import edit_conflicts
from people.models import AuditEntry, User
from protocols import definition, signature
from protocols.base import UnreadableItemError
from protocols.definition import Definition, Parts

SLUG = "defined-here"
MAX_TITLE_LENGTH = 200
MAX_DESCRIPTION_LENGTH = 4_000
DEFINE, CHANGE, WITHDRAW, OFFER = "define", "change definition", "withdraw", "offer again"


def all_of_them() -> QuerySet[Tool]:
    return Tool.objects.filter(endpoint__vendor__is_own=True)


def home() -> Endpoint:
    """What all definitions belong to, made when it is first asked for."""
    found = Endpoint.objects.filter(vendor__is_own=True).select_related("vendor").first()
    if found:
        return found
    with transaction.atomic():
        taken = Vendor.objects.offering().filter(slug=SLUG).exists()
        slug = f"{SLUG}-{uuid.uuid4().hex[:8]}" if taken else SLUG
        # Of two that come first at once, the index lets one make it, and the other gets the same.
        vendor, _ = Vendor.objects.get_or_create(
            is_own=True, defaults={"slug": slug, "name": Definition.label}
        )
        Vendor.objects.select_for_update(no_key=True).get(pk=vendor.pk)
        made, _ = Endpoint.objects.get_or_create(
            vendor=vendor,
            protocol=Definition.name,
            defaults={"url": "", "name": Definition.label, "is_paused": True},
        )
    return made


def parts_of(tool: Tool) -> Parts:
    """What its current version says."""
    if tool.current is None:
        raise DomainError("no_version", f"“{tool}” has no version.", status=409)
    # The signature knows the order of the inputs, which a canonical document does not.
    return definition.parts_of(Definition().write(tool.current.decoded(), tool.tool_id, tool.current.label))


def explicit_activity(version: ToolVersion) -> str | None:
    """The activity that this version names: None where it says nothing, "" where the model itself answers."""
    return definition.activity_of(decoded(version.raw))


@transaction.atomic
def define(*, actor: User, parts: Parts) -> Tool:
    """Raises DomainError."""
    document = checked(parts)
    endpoint = locked_home()
    _refuse_taken(parts.name.strip())
    return record_new(endpoint, document, actor=actor)


def record_new(endpoint: Endpoint, document: dict[str, Any], *, actor: User) -> Tool:
    """Defines what `checked` found in order, under a name that is free. The caller holds `locked_home`."""
    read = Definition().read(document)
    tool = Tool.objects.create(
        endpoint=endpoint,
        tool_id=str(uuid.uuid4()),
        name=read.name,
        title=read.title,
        description=read.description,
        tokens=tokens_of(read),
        version_count=0,
    )
    _record(tool, document)
    audit.record(actor, DEFINE, tool, after=facts(tool))
    return tool


@transaction.atomic
def change(
    tool: Tool, *, actor: User, changes: Mapping[str, Any], expected: str = edit_conflicts.ANY_STATE
) -> Tool:
    """A new version with these members of `Parts`. Pins stay on theirs until a designer moves them.

    `expected` is the state that the editor started from (people/audit/edit_conflicts.py).
    """
    locked_home()
    tool = _locked(tool)
    before = facts(tool)
    document = checked(replace(parts_of(tool), **changes))
    wanted = definition.parts_of(document)
    edit_conflicts.check(tool, expected, now=before, wanted=_facts(wanted))
    if tool.status == ToolStatus.WITHDRAWN:
        message = f"“{tool}” was withdrawn. Offer it again before you change it."
        raise DomainError("definition_withdrawn", message, status=409)
    if _facts(wanted) == before:
        return tool
    if wanted.name != tool.name:
        _refuse_taken(wanted.name)
    _record(tool, document)
    effective_texts.refresh([tool.pk])
    versions.tell_moved([tool.pk])
    outbox.tools_changed(f"{VERSION}{tool.current_id}")
    audit.record(actor, CHANGE, tool, before=before, after=facts(tool))
    return tool


@transaction.atomic
def withdraw(tool: Tool, *, actor: User) -> None:
    """It can be pinned no more. What was pinned and published stays, and its name can be given to another."""
    locked_home()
    tool = _locked(tool)
    if tool.status == ToolStatus.ACTIVE:
        Tool.objects.filter(pk=tool.pk).update(status=ToolStatus.WITHDRAWN, changed_at=Now())
        Withdrawal.objects.create(tool=tool)
        outbox.tools_withdrawn(f"{TOOL}{tool.pk}")
        audit.record(actor, WITHDRAW, tool, before={"status": "active"}, after={"status": "withdrawn"})


@transaction.atomic
def offer_again(tool: Tool, *, actor: User) -> Tool:
    """Raises DomainError where another definition has its name by now."""
    locked_home()
    tool = _locked(tool)
    if tool.status == ToolStatus.WITHDRAWN:
        _refuse_taken(tool.name)
        Tool.objects.filter(pk=tool.pk).update(status=ToolStatus.ACTIVE, changed_at=Now())
        tool.status = ToolStatus.ACTIVE
        # A withdrawal ends with a run that found the tool again, and no run reads definitions.
        Withdrawal.objects.filter(tool=tool, returned_run=None).delete()
        audit.record(actor, OFFER, tool, before={"status": "withdrawn"}, after={"status": "active"})
    return tool


def facts(tool: Tool) -> dict[str, Any]:
    """What an editor starts from, and an audit row says. Below one member: those of tunings have others."""
    return _facts(parts_of(tool))


def history(tool: Tool) -> QuerySet[AuditEntry]:
    """Who defined and changed it, the newest first."""
    rows = AuditEntry.objects.filter(kind="tool", object_id=str(tool.pk))
    return rows.filter(action__in=(DEFINE, CHANGE, WITHDRAW, OFFER)).select_related("actor").order_by("-pk")


def _facts(parts: Parts) -> dict[str, Any]:
    return {"definition": {name: getattr(parts, name) for name in Parts.__slots__}}


def _record(tool: Tool, document: dict[str, Any]) -> None:
    # As its next version, which is offered from now on. The caller holds its lock, and refreshes what is
    # shown of a tool that was there.
    read = Definition().read(document)
    number = tool.version_count + 1
    tool.current = ToolVersion.objects.create(
        tool=tool,
        ordinal=number,
        label=str(number),
        label_key=[number],
        digest=canonical_json.digest(document),
        signature=signature.to_json(read).decode(),
        raw=canonical(document).decode(),
        # What our own people write is judged by who reads it before it is published.
        alarms=assess.to_json(()),
    )
    tool.name, tool.version_count = read.name, number
    Tool.objects.filter(pk=tool.pk).update(
        current=tool.current, name=read.name, version_count=number, changed_at=Now()
    )
    transaction.on_commit(partial(effective_texts.index_soon, tool.endpoint_id), robust=True)


def checked(parts: Parts) -> dict[str, Any]:
    """The document. Raises DomainError with a sentence for each member that is not right."""
    texts = {member: getattr(parts, member).strip() for member in ("name", "title", "description")}
    parts = replace(parts, **texts)
    faults: dict[str, str] = {}
    if why := definition.name_problem(parts.name):
        faults["name"] = why
    if parts.title and (why := display_names.name_problem(parts.title, MAX_TITLE_LENGTH)):
        faults["title"] = why
    if not parts.description:
        faults["description"] = "Say what it does, and when to use it: a model chooses it by these words."
    elif len(parts.description) > MAX_DESCRIPTION_LENGTH:
        faults["description"] = (
            f"It has {len(parts.description):,} characters; {MAX_DESCRIPTION_LENGTH:,} is the most."
        )
    if parts.activity is not None and len(parts.activity) > definition.MAX_ACTIVITY_LENGTH:
        faults["activity"] = f"Give a name of up to {definition.MAX_ACTIVITY_LENGTH} characters."
    for member in ("description", "activity", "inputs", "output"):
        if member not in faults and (found := strict_json.unstorable(getattr(parts, member))):
            faults[member] = f"It holds {found[1]}."
    with _noted(faults, "inputs"):
        definition.check_inputs(parts.inputs)
    with _noted(faults, "output"):
        definition.check_output(parts.output)
    document = {}
    if not faults:
        with _noted(faults, "inputs"):
            document = definition.document_of(parts)
            Definition().read(document)
    if faults:
        raise invalid(**faults)
    return document


@contextmanager
def _noted(faults: dict[str, str], member: str) -> Iterator[None]:
    try:
        yield
    except UnreadableItemError as error:
        faults.setdefault(member, error.reason)


def locked_home() -> Endpoint:
    # Who gives a definition a name waits here for the one before.
    return (
        Endpoint.objects.select_related("vendor")
        .select_for_update(of=("self",), no_key=True)
        .get(pk=home().pk)
    )


def _locked(tool: Tool) -> Tool:
    rows = all_of_them().select_related("current", "endpoint__vendor")
    found = rows.select_for_update(of=("self",), no_key=True).filter(pk=tool.pk).first()
    if found is None:
        raise DomainError(
            "not_defined_here", f"“{tool}” is a vendor's tool, and not defined here.", status=409
        )
    return found


def _refuse_taken(name: str) -> None:
    if taken([name]):
        message = why_taken(name)
        raise DomainError("name_taken", message, fields={"name": message}, status=409)


def taken(names: Collection[str]) -> set[str]:
    """Those of the names that definitions on offer have."""
    rows = all_of_them().filter(name__in=names, status=ToolStatus.ACTIVE)
    return set(rows.values_list("name", flat=True))


def why_taken(name: str) -> str:
    return f"There is a definition “{printable(name, 64)}” already. Change that one, or choose another name."
