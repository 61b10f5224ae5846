from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from catalog.models import Tool
from catalog.protocols.signature import Parameter, Signature
from catalog.views.asked import numbers
from people.models import Role
from people.permissions import requires

LIMIT = 4


@dataclass(frozen=True)
class Column:
    tool: Tool
    signature: Signature


@dataclass(frozen=True)
class Line:
    """One parameter name, and what each tool says about it (None: it has no such parameter)."""

    name: str
    cells: list[Parameter | None]


@requires(Role.VIEWER)
def tool_compare(request: HttpRequest) -> HttpResponse:
    wanted = numbers(request.GET.getlist("tool"))[:LIMIT]
    found = (
        Tool.objects.filter(current__isnull=False)
        .select_related("current", "endpoint__vendor")
        .in_bulk(wanted)
    )
    columns = [_column(found[pk]) for pk in dict.fromkeys(wanted) if pk in found]
    signatures = [column.signature for column in columns]
    context = {
        "columns": columns,
        "inputs": _matched([signature.inputs for signature in signatures]),
        "outputs": _matched([signature.outputs for signature in signatures]),
    }
    return render(request, "catalog/compare.html", context)


def _column(tool: Tool) -> Column:
    if tool.current is None:
        raise ValueError("a tool without a version cannot be compared")
    return Column(tool, tool.current.decoded())


def _matched(sides: list[tuple[Parameter, ...]]) -> list[Line]:
    """Parameters beside each other when their names are the same but for case and separators."""
    lines: dict[str, Line] = {}
    for index, parameters in enumerate(sides):
        for parameter in parameters:
            key = "".join(c for c in parameter.name.lower() if c.isalnum()) or parameter.name
            line = lines.setdefault(key, Line(parameter.name, [None] * len(sides)))
            line.cells[index] = parameter
    return sorted(lines.values(), key=lambda line: -sum(cell is not None for cell in line.cells))
