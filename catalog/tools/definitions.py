"""Tools that are defined in Pegboard: interfaces that any activity can implement.

A definition is a tool like a vendor's. It has frozen versions and is pinned, tuned and released in the same
way.
All definitions belong to one endpoint, which has no server. See docs/definitions.md.
"""

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.db import models, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Endpoint, Tool, ToolVersion, Vendor, Withdrawal
from catalog.models.tools import ToolStatus
from catalog.notifications import outbox
from catalog.notifications.events import TOOL, VERSION
from catalog.rules import assess
from catalog.token_estimate import tokens_of
from catalog.tools import effective_texts, versions
from core import canonical_json, display_names, strict_json
from core.canonical_json import canonical, parse_document
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from people import audit
from people.audit import edit_conflicts
from people.models import AuditEntry, User
from protocols import definition, signature
from protocols.definition import Definition, Parts
from protocols.list_pages import UnreadableItemError

SLUG = "defined-here"
MAX_TITLE_LENGTH = 200
MAX_DESCRIPTION_LENGTH = 4_000
NAME: "models.CharField[str, str]" = models.CharField(
    gettext_lazy("Name"),
    max_length=64,
    help_text=gettext_lazy("Letters, digits, hyphens and underscores, such as send_email."),
)
TITLE: "models.CharField[str, str]" = models.CharField(
    gettext_lazy("Title"),
    max_length=MAX_TITLE_LENGTH,
    blank=True,
    help_text=gettext_lazy("For people, such as “Send an e-mail”."),
)
DESCRIPTION: "models.CharField[str, str]" = models.CharField(
    gettext_lazy("Description"),
    max_length=MAX_DESCRIPTION_LENGTH,
    help_text=gettext_lazy("What the tool does and when to use it. A model chooses the tool by this text."),
)
DEFINE, CHANGE, WITHDRAW, OFFER = "define", "change definition", "withdraw", "offer again"


def all_of_them() -> QuerySet[Tool]:
    return Tool.objects.filter(endpoint__vendor__is_own=True)


def own_endpoint() -> Endpoint:
    """Return the endpoint of all definitions. Create it if it does not exist."""
    endpoint = Endpoint.objects.filter(vendor__is_own=True).select_related("vendor").first()
    if endpoint:
        return endpoint
    with transaction.atomic():
        is_slug_taken = Vendor.objects.offering().filter(slug=SLUG).exists()
        slug = f"{SLUG}-{uuid.uuid4().hex[:8]}" if is_slug_taken else SLUG
        # If two requests create it at once, the unique index makes the second one use the first one's row.
        vendor, _unused = Vendor.objects.get_or_create(
            is_own=True, defaults={"slug": slug, "name": Definition.label}
        )
        Vendor.objects.select_for_update(no_key=True).get(pk=vendor.pk)
        endpoint, _unused = Endpoint.objects.get_or_create(
            vendor=vendor,
            protocol=Definition.name,
            defaults={"url": "", "name": Definition.label, "is_paused": True},
        )
    return endpoint


def parts_of(tool: Tool) -> Parts:
    """Return the parts of the tool's current version. Raises DomainError without a version."""
    if tool.current is None:
        raise DomainError("no_version", _("“{tool}” has no version.").format(tool=tool), status=409)
    # The signature knows the order of the inputs, which a canonical document does not.
    return definition.parts_of(Definition().write(tool.current.decoded(), tool.tool_id, tool.current.label))


def explicit_activity(version: ToolVersion) -> str | None:
    """Return the activity that this version names: None if it names none, "" if the model writes the
    output."""
    return definition.activity_of(parse_document(version.raw))


@transaction.atomic
def define(*, actor: User, parts: Parts) -> Tool:
    """Create a definition. Raises DomainError."""
    document = validated_document(parts)
    endpoint = locked_home()
    _require_free_name(parts.name.strip())
    return record_new(endpoint, document, actor=actor)


def record_new(endpoint: Endpoint, document: dict[str, Any], *, actor: User) -> Tool:
    """Create a tool from a document that `validated_document` returned.

    The name of the tool is free, and the caller has called `locked_home`.
    """
    parsed_signature = Definition().read(document)
    tool = Tool.objects.create(
        endpoint=endpoint,
        tool_id=str(uuid.uuid4()),
        name=parsed_signature.name,
        title=parsed_signature.title,
        description=parsed_signature.description,
        tokens=tokens_of(parsed_signature),
        version_count=0,
    )
    _record_version(tool, document)
    audit.record(actor, DEFINE, tool, after=facts(tool))
    return tool


@transaction.atomic
def change(
    tool: Tool, *, actor: User, changes: Mapping[str, Any], expected: str = edit_conflicts.ANY_STATE
) -> Tool:
    """Record a new version with these members of `Parts`. Pins keep their version until a designer moves
    them.

    expected: the state that the editor started from (people/audit/edit_conflicts.py).
    """
    locked_home()
    tool = _lock_definition(tool)
    before = facts(tool)
    document = validated_document(replace(parts_of(tool), **changes))
    new_parts = definition.parts_of(document)
    edit_conflicts.check(tool, expected, now=before, submitted=_facts(new_parts))
    if tool.status == ToolStatus.WITHDRAWN:
        message = _("“{tool}” was withdrawn. Offer it again before you change it.").format(tool=tool)
        raise DomainError("definition_withdrawn", message, status=409)
    if _facts(new_parts) == before:
        return tool
    if new_parts.name != tool.name:
        _require_free_name(new_parts.name)
    _record_version(tool, document)
    effective_texts.refresh([tool.pk])
    versions.notify_moved([tool.pk])
    outbox.report_changed_tools(f"{VERSION}{tool.current_id}")
    audit.record(actor, CHANGE, tool, before=before, after=facts(tool))
    return tool


@transaction.atomic
def withdraw(tool: Tool, *, actor: User) -> None:
    """Stop offering the definition. Pins and releases keep it, and its name becomes free."""
    locked_home()
    tool = _lock_definition(tool)
    if tool.status == ToolStatus.ACTIVE:
        Tool.objects.filter(pk=tool.pk).update(status=ToolStatus.WITHDRAWN, changed_at=Now())
        Withdrawal.objects.create(tool=tool)
        outbox.report_withdrawn_tools(f"{TOOL}{tool.pk}")
        audit.record(actor, WITHDRAW, tool, before={"status": "active"}, after={"status": "withdrawn"})


@transaction.atomic
def offer_again(tool: Tool, *, actor: User) -> Tool:
    """Offer a withdrawn definition again. Raises DomainError if another definition has its name."""
    locked_home()
    tool = _lock_definition(tool)
    if tool.status == ToolStatus.WITHDRAWN:
        _require_free_name(tool.name)
        Tool.objects.filter(pk=tool.pk).update(status=ToolStatus.ACTIVE, changed_at=Now())
        tool.status = ToolStatus.ACTIVE
        # A withdrawal ends with the enumeration that lists the tool again, and definitions have no
        # enumerations.
        Withdrawal.objects.filter(tool=tool, returned_run=None).delete()
        audit.record(actor, OFFER, tool, before={"status": "withdrawn"}, after={"status": "active"})
    return tool


def facts(tool: Tool) -> dict[str, Any]:
    """Return the state for editors and for the audit trail, under one member, because tunings have other
    members."""
    return _facts(parts_of(tool))


def history(tool: Tool) -> QuerySet[AuditEntry]:
    """Return the audit entries of the definition, newest first."""
    rows = AuditEntry.objects.filter(kind="tool", object_id=str(tool.pk))
    return rows.filter(action__in=(DEFINE, CHANGE, WITHDRAW, OFFER)).select_related("actor").order_by("-pk")


def _facts(parts: Parts) -> dict[str, Any]:
    return {"definition": {name: getattr(parts, name) for name in Parts.__slots__}}


def _record_version(tool: Tool, document: dict[str, Any]) -> None:
    """Store the document as the next and current version.

    The caller has locked the tool, and refreshes the effective texts of an existing tool.
    """
    parsed_signature = Definition().read(document)
    number = tool.version_count + 1
    tool.current = ToolVersion.objects.create(
        tool=tool,
        ordinal=number,
        label=str(number),
        label_key=[number],
        digest=canonical_json.digest(document),
        signature=signature.to_json(parsed_signature).decode(),
        raw=canonical(document).decode(),
        # No inspection: the users who write definitions review them before they release them.
        alarms=assess.to_json(()),
    )
    tool.name, tool.version_count = parsed_signature.name, number
    Tool.objects.filter(pk=tool.pk).update(
        current=tool.current, name=parsed_signature.name, version_count=number, changed_at=Now()
    )


def validated_document(parts: Parts) -> dict[str, Any]:
    """Validate the parts and return their document. Raises DomainError with a message for each faulty
    member."""
    texts = {member: getattr(parts, member).strip() for member in ("name", "title", "description")}
    parts = replace(parts, **texts)
    faults: dict[str, str] = {}
    if reason := definition.name_problem(parts.name):
        faults["name"] = reason
    if parts.title and (reason := display_names.name_problem(parts.title, MAX_TITLE_LENGTH)):
        faults["title"] = reason
    if not parts.description:
        faults["description"] = _(
            "Describe what it does and when to use it. A model chooses the tool by this text."
        )
    elif len(parts.description) > MAX_DESCRIPTION_LENGTH:
        faults["description"] = _("It has {length} characters. The limit is {maximum}.").format(
            length=number_format(len(parts.description), force_grouping=True),
            maximum=number_format(MAX_DESCRIPTION_LENGTH, force_grouping=True),
        )
    if parts.activity is not None and len(parts.activity) > definition.MAX_ACTIVITY_LENGTH:
        faults["activity"] = _("Enter a name of up to {maximum} characters.").format(
            maximum=definition.MAX_ACTIVITY_LENGTH
        )
    for member in ("description", "activity", "inputs", "output"):
        if member not in faults and (unstorable := strict_json.unstorable(getattr(parts, member))):
            faults[member] = _("It contains {character}.").format(character=unstorable[1])
    with _collect_fault(faults, "inputs"):
        definition.check_inputs(parts.inputs)
    with _collect_fault(faults, "output"):
        definition.check_output(parts.output)
    document = {}
    if not faults:
        with _collect_fault(faults, "inputs"):
            document = definition.document_of(parts)
            Definition().read(document)
    if faults:
        raise invalid(**faults)
    return document


@contextmanager
def _collect_fault(faults: dict[str, str], member: str) -> Iterator[None]:
    try:
        yield
    except UnreadableItemError as error:
        faults.setdefault(member, error.reason)


def locked_home() -> Endpoint:
    # Serializes all requests that name a definition.
    return (
        Endpoint.objects.select_related("vendor")
        .select_for_update(of=("self",), no_key=True)
        .get(pk=own_endpoint().pk)
    )


def _lock_definition(tool: Tool) -> Tool:
    rows = all_of_them().select_related("current", "endpoint__vendor")
    locked_tool = rows.select_for_update(of=("self",), no_key=True).filter(pk=tool.pk).first()
    if locked_tool is None:
        raise DomainError(
            "not_defined_here",
            _("“{tool}” is a vendor's tool, and not defined here.").format(tool=tool),
            status=409,
        )
    return locked_tool


def _require_free_name(name: str) -> None:
    if taken_names([name]):
        message = name_taken_message(name)
        raise DomainError("name_taken", message, fields={"name": message}, status=409)


def taken_names(names: Collection[str]) -> set[str]:
    """Return the given names that offered definitions have."""
    rows = all_of_them().filter(name__in=names, status=ToolStatus.ACTIVE)
    return set(rows.values_list("name", flat=True))


def name_taken_message(name: str) -> str:
    return _("There is a definition “{name}” already. Change that one, or choose another name.").format(
        name=printable(name, 64)
    )
