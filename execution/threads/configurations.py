"""Configurations of a tool, for protocols that separate them from inputs (`specs.config` of ACP).

A configuration has a name and numbered states. It belongs to the tool, and every user who may choose the tool
may choose it, so it must not contain secrets.
"""

import copy
import re
from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from msgspec import UNSET

from catalog.models import Configuration, Tool, ToolVersion
from catalog.rules.sensitive_values import mask, restore
from catalog.tools.sensitive_values import NONE, marks_of
from core.canonical_json import canonical
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from core.schema import pointers
from people import audit
from people.models import User
from protocols.calls import arguments
from protocols.signature import Parameter

MAX_VALUES_BYTES = 64 * 1024
MAX_NAMES = 100
# The input name for a tool without a version.
INPUT = "config"
NAME = r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,59}"
_REFERENCE = re.compile(rf"({NAME})(?:@([0-9]{{1,9}}))?")


def parameter_of(version: ToolVersion) -> Parameter | None:
    """Return the input for a configuration, or None if the tool has none."""
    return version.tool.endpoint.build_protocol().configuration(version.decoded())


def why_not(version: ToolVersion, values: object) -> str:
    """Return why these values are not a valid configuration of this version, or ""."""
    parameter = parameter_of(version)
    if parameter is None:
        return _("“{tool}” has nothing to configure.").format(tool=version.tool)
    reason = arguments.value_problem(parameter, values, version.decoded().schema_rest or {})
    return _("The configuration {reason}.").format(reason=reason) if reason else ""


@transaction.atomic
def save(tool: Tool, *, actor: User, name: str, values: Any) -> Configuration:
    """Store the values as the newest state of this name. Do nothing if the newest state has the same
    values. A masked value stays as it is stored."""
    tool = Tool.objects.select_for_update(no_key=True).get(pk=tool.pk)
    name = name.strip()
    if not re.fullmatch(NAME, name):
        message = _("A name has up to 60 letters, digits, spaces, dots, hyphens and underscores.")
        raise invalid(name=message)
    states = tool.configurations.filter(name__iexact=name)
    before = states.order_by("-number").first()
    values = restore(values, before.values if before else UNSET)
    if tool.current is None or (reason := why_not(tool.current, values)):
        raise invalid(values=_("The tool has no version to configure.") if tool.current is None else reason)
    if len(canonical(values)) > MAX_VALUES_BYTES:
        raise invalid(
            values=_("The values are larger than {maximum} kB.").format(maximum=MAX_VALUES_BYTES // 1024)
        )
    if before and before.removed_at is None and canonical(before.values) == canonical(values):
        return before
    if before is None and newest(tool).count() >= MAX_NAMES:
        message = _("A tool has {maximum} configurations at most. Remove one.").format(maximum=MAX_NAMES)
        raise DomainError("too_many_configurations", message, status=409)
    configuration = tool.configurations.create(
        version=tool.current,
        name=before.name if before else name,
        number=before.number + 1 if before else 1,
        values=values,
        created_by=actor,
        created_name=str(actor),
    )
    facts = [
        {"configuration": str(row), "values": row.values}
        for row in mask_values(tool, [*([before] if before else []), configuration])
    ]
    audit.record(actor, "configure", tool, before=facts[0] if before else None, after=facts[-1])
    return configuration


def mask_values(tool: Tool, rows: Iterable[Configuration]) -> list[Configuration]:
    """Return the states with masks in place of sensitive values, because every user may read them."""
    marks = sensitive_members(tool)
    copies = [copy.copy(row) for row in rows]
    for row in copies:
        row.values = mask(row.values, marks)
    return copies


def sensitive_members(tool: Tool) -> list[str]:
    """Return the pointers of the sensitive members of the tool's configurations."""
    marks = marks_of([tool.pk]).get(tool.pk, NONE).inputs
    parameter = parameter_of(tool.current) if marks and tool.current else None
    steps_of_marks = [pointers.split(pointer) for pointer in marks]
    name = parameter.name if parameter else INPUT
    return [pointers.join(steps[1:]) for steps in steps_of_marks if steps[0] == name]


@transaction.atomic
def remove(tool: Tool, *, actor: User, name: str) -> None:
    """Stop offering the configuration. Agents and releases that have chosen it still use it."""
    if tool.configurations.filter(name__iexact=name, removed_at=None).update(removed_at=Now()):
        audit.record(actor, "remove configuration", tool, before={"configuration": name})


def newest(tool: Tool) -> QuerySet[Configuration]:
    """Return the newest state of each offered name, ordered by name."""
    states = tool.configurations.filter(removed_at=None).order_by("name", "-number")
    newest_ids = states.distinct("name").values("pk")
    return tool.configurations.filter(pk__in=newest_ids).order_by("name")


def states(tool: Tool, name: str) -> QuerySet[Configuration]:
    return tool.configurations.filter(name__iexact=name, removed_at=None).order_by("-number")


def find_configuration(tool: Tool, reference: str) -> Configuration:
    """Return the newest state for `name`, and the third for `name@3`. Raises DomainError."""
    match = _REFERENCE.fullmatch(reference.strip())
    rows = states(tool, match[1]) if match else Configuration.objects.none()
    if match and match[2]:
        rows = rows.filter(number=int(match[2]))
    if (row := rows.first()) is None:
        raise invalid(
            configuration=_("“{tool}” has no configuration “{reference}”.").format(
                tool=tool, reference=printable(reference, 80)
            )
        )
    return row
