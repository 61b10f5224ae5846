"""Mark inputs and outputs of a tool as sensitive."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import Model
from django.utils.translation import gettext as _

from catalog.models import SensitiveValues, Tool
from catalog.rules.sensitive_values import MAX_MEMBERS, values_behind_masks
from core.errors import invalid
from core.schema import pointers
from people import audit
from people.models import User

NONE = SensitiveValues(inputs=[], outputs=[])


def marks_of(tools: Iterable[int]) -> dict[int, SensitiveValues]:
    """Return the marks by the ids of these tools; tools without marks are left out."""
    return SensitiveValues.objects.in_bulk(set(tools))


@transaction.atomic
def mark(tool: Tool, *, actor: User, inputs: Iterable[str], outputs: Iterable[str]) -> SensitiveValues:
    """Mark exactly these members, by their JSON pointers. Raises DomainError for an invalid pointer."""
    tool = Tool.objects.select_for_update(no_key=True).get(pk=tool.pk)
    marks = {"inputs": _checked_members("inputs", inputs), "outputs": _checked_members("outputs", outputs)}
    before = facts(SensitiveValues.objects.filter(pk=tool.pk).first() or NONE)
    row, _unused = SensitiveValues.objects.update_or_create(tool=tool, defaults=marks)
    if facts(row) != before:
        audit.record(actor, "mark sensitive", tool, before=before, after=facts(row))
    return row


@transaction.atomic
def show_values(
    source: Model,
    masked_values: Mapping[str, Any],
    stored: Mapping[str, Any],
    *,
    actor: User,
    agent: int | None = None,
) -> list[tuple[str, Any]]:
    """Return the masked values of a part of `source`, by their pointers, and record who requests them."""
    values = list(values_behind_masks(masked_values, stored))
    if values:
        names = [pointer for pointer, _value in values]
        audit.record(actor, "show sensitive", source, after={"values": names}, agent=agent)
    return values


def facts(row: SensitiveValues) -> dict[str, Any]:
    return {"inputs": row.inputs, "outputs": row.outputs}


def _checked_members(side: str, members: Iterable[str]) -> list[str]:
    unique = sorted(set(members))
    if len(unique) > MAX_MEMBERS:
        raise invalid(**{side: _("Mark up to {maximum} members.").format(maximum=MAX_MEMBERS)})
    for pointer in unique:
        try:
            is_member = bool(pointers.split(pointer))
        except pointers.PointerError:
            is_member = False
        if not is_member or len(pointer) > 500:
            raise invalid(**{side: _("Name each member by its JSON pointer, such as /customer/ssn.")})
    return unique
