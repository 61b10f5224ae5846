"""Up to four tools side by side: inputs and outputs of the same name stand beside each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.models import Tool
from catalog.protocols.signature import Signature
from catalog.tools import effective_texts
from catalog.tools.effective_texts import ShownInput

# As many columns as fit on a screen.
MAX_TOOLS = 4


@dataclass(frozen=True)
class Column:
    """`signature` is the one that is shown, `vendors` the vendor's own."""

    tool: Tool
    signature: Signature
    vendors: Signature


@dataclass(frozen=True)
class Line:
    """One parameter name, and what each tool says about it (None: it has no such parameter)."""

    name: str
    cells: list[ShownInput | None]


@dataclass(frozen=True)
class Comparison:
    columns: list[Column]
    inputs: list[Line]
    outputs: list[Line]


def compare(wanted: Sequence[int]) -> Comparison:
    """The first four of the tools with these primary keys, in this order; what is not there is left out."""
    wanted = list(dict.fromkeys(wanted))[:MAX_TOOLS]
    found = (
        Tool.objects.filter(current__isnull=False)
        .select_related("current", "endpoint__vendor")
        .in_bulk(wanted)
    )
    shown = effective_texts.shown(found.values())
    columns = [
        Column(tool, shown[tool.pk], tool.current.decoded())
        for tool in (found[pk] for pk in wanted if pk in found)
        if tool.current
    ]
    return Comparison(
        columns,
        inputs=_matched([effective_texts.inputs(each.vendors, each.signature) for each in columns]),
        outputs=_matched([effective_texts.outputs(each.vendors, each.signature) for each in columns]),
    )


def _matched(sides: list[list[ShownInput]]) -> list[Line]:
    """Parameters beside each other when their names are the same but for case and separators."""
    lines: dict[str, Line] = {}
    for index, cells in enumerate(sides):
        for cell in cells:
            parameter = cell.parameter
            key = "".join(c for c in parameter.name.lower() if c.isalnum()) or parameter.name
            line = lines.setdefault(key, Line(parameter.name, [None] * len(sides)))
            line.cells[index] = cell
    return sorted(lines.values(), key=lambda line: -sum(cell is not None for cell in line.cells))
