"""How a tool is set up for its runs, where its protocol tells that from its inputs (`specs.config` of ACP).

A configuration has a name and numbered states. They belong to the tool, as examples do: all who may choose
the tool may choose them, so they are no place for secrets.
"""

import re
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from catalog.models import Configuration, Tool, ToolVersion
from core.canonical_json import canonical
from core.errors import DomainError, invalid
from core.outbound.errors import printable
from people import audit
from people.models import User
from protocols.calls import arguments
from protocols.signature import Parameter

MAX_VALUES_BYTES = 64 * 1024
MAX_NAMES = 100
# Of the one protocol that has configurations, where a version has none.
INPUT = "config"
NAME = r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,59}"
_NAMED = re.compile(rf"({NAME})(?:@([0-9]{{1,9}}))?")


def parameter_of(version: ToolVersion) -> Parameter | None:
    """The input that takes a configuration; None where the tool has none."""
    return version.tool.endpoint.speak().configuration(version.decoded())


def why_not(version: ToolVersion, values: object) -> str:
    """Why these values are no configuration of this version; "" when they are."""
    parameter = parameter_of(version)
    if parameter is None:
        return f"“{version.tool}” has nothing to configure."
    why = arguments.value_problem(parameter, values, version.decoded().schema_rest or {})
    return f"The configuration {why}." if why else ""


@transaction.atomic
def save(tool: Tool, *, actor: User, name: str, values: Any) -> Configuration:
    """The values as the newest state of this name; the newest as it is if it holds them already."""
    tool = Tool.objects.select_for_update(no_key=True).get(pk=tool.pk)
    name = name.strip()
    if not re.fullmatch(NAME, name):
        message = "A name has up to 60 letters, digits, spaces, dots, hyphens and underscores."
        raise invalid(name=message)
    if tool.current is None or (why := why_not(tool.current, values)):
        raise invalid(values="The tool has no version to configure." if tool.current is None else why)
    if len(canonical(values)) > MAX_VALUES_BYTES:
        raise invalid(values=f"The values are larger than {MAX_VALUES_BYTES // 1024} kB.")
    states = tool.configurations.filter(name__iexact=name)
    before = states.order_by("-number").first()
    if before and before.removed_at is None and canonical(before.values) == canonical(values):
        return before
    if before is None and newest(tool).count() >= MAX_NAMES:
        message = f"A tool has {MAX_NAMES} configurations at most. Remove one."
        raise DomainError("too_many_configurations", message, status=409)
    made = tool.configurations.create(
        version=tool.current,
        name=before.name if before else name,
        number=before.number + 1 if before else 1,
        values=values,
        created_by=actor,
        created_name=str(actor),
    )
    had = {"configuration": str(before), "values": before.values} if before else None
    audit.record(actor, "configure", tool, before=had, after={"configuration": str(made), "values": values})
    return made


@transaction.atomic
def remove(tool: Tool, *, actor: User, name: str) -> None:
    """It is offered no more. Agents that have chosen it, and releases, go on with it."""
    if tool.configurations.filter(name__iexact=name, removed_at=None).update(removed_at=Now()):
        audit.record(actor, "remove configuration", tool, before={"configuration": name})


def newest(tool: Tool) -> QuerySet[Configuration]:
    """The newest state of each name that is offered, by name."""
    states = tool.configurations.filter(removed_at=None).order_by("name", "-number")
    newest_of_each = states.distinct("name").values("pk")
    return tool.configurations.filter(pk__in=newest_of_each).order_by("name")


def states(tool: Tool, name: str) -> QuerySet[Configuration]:
    return tool.configurations.filter(name__iexact=name, removed_at=None).order_by("-number")


def named(tool: Tool, said: str) -> Configuration:
    """`name` means the newest state of a name, and `name@3` the third. Raises DomainError."""
    found = _NAMED.fullmatch(said.strip())
    rows = states(tool, found[1]) if found else Configuration.objects.none()
    if found and found[2]:
        rows = rows.filter(number=int(found[2]))
    if (row := rows.first()) is None:
        raise invalid(configuration=f"“{tool}” has no configuration “{printable(said, 80)}”.")
    return row
