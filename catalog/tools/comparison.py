"""A comparison of up to four tools: inputs and outputs of the same name are in one row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import replace

from catalog.models import Tool
from catalog.rules import word_diff
from catalog.rules.word_diff import Pieces
from catalog.tools import effective_texts
from catalog.tools.effective_texts import ShownInput
from protocols.signature import Signature

MAX_TOOLS = 4
# The maximum length of all descriptions that are compared word by word. It limits the time for a page.
MAX_COMPARED = 20_000


@dataclass(frozen=True)
class Column:
    """A compared tool.

    signature: with tuned texts. vendors: as the vendor lists it. more_tokens: compared with the first tool.
    """

    tool: Tool
    signature: Signature
    vendors: Signature
    more_tokens: int = 0


FACTS: dict[str, Callable[[Column], object]] = {
    "vendor": lambda column: column.tool.endpoint.vendor_id,
    "status": lambda column: column.tool.status,
    "effect": lambda column: column.signature.annotations.effect,
    "title": lambda column: column.signature.title,
    "description": lambda column: column.signature.description,
    "version": lambda column: column.tool.current and column.tool.current.name,
    "tokens": lambda column: column.tool.tokens,
    "tags": lambda column: sorted(column.tool.tags),
}


@dataclass(frozen=True)
class ComparedParameter:
    """A parameter name, with the parameter of each tool, or None if the tool has no such parameter.

    texts: the descriptions, with the differing words marked.
    """

    name: str
    cells: list[ShownInput | None]
    texts: list[Pieces]

    @property
    def pairs(self) -> list[tuple[ShownInput | None, Pieces]]:
        return list(zip(self.cells, self.texts, strict=True))

    @property
    def differs(self) -> bool:
        # The lines are matched by name, so the names do not count.
        parameters = [
            cell and replace(cell.parameter, id="", name="", title="", rest=None) for cell in self.cells
        ]
        return any(parameter != parameters[0] for parameter in parameters)

    @property
    def is_of_one(self) -> bool:
        return len(self.cells) > 1 and sum(cell is not None for cell in self.cells) == 1

    @cached_property
    def common_values(self) -> set[str]:
        """The allowed values that all tools with a list of values have in common."""
        sides = [{value.name for value in cell.parameter.allowed_values} for cell in self.cells if cell]
        enumerated = [side for side in sides if side]
        return set.intersection(*enumerated) if enumerated else set()


@dataclass(frozen=True)
class ToolComparison:
    columns: list[Column]
    inputs: list[ComparedParameter]
    outputs: list[ComparedParameter]

    @cached_property
    def descriptions(self) -> list[Pieces]:
        return word_diff.mark_differences([column.signature.description for column in self.columns])

    @cached_property
    def differing(self) -> set[str]:
        """The names of the facts in which the tools differ."""
        return {
            name
            for name, fact in FACTS.items()
            if any(fact(column) != fact(self.columns[0]) for column in self.columns)
        }


def compare(tool_ids: Sequence[int]) -> ToolComparison:
    """Compare the first four tools with these primary keys, in this order. Missing tools are left out."""
    tool_ids = list(dict.fromkeys(tool_ids))[:MAX_TOOLS]
    tools_by_id = (
        Tool.objects.filter(current__isnull=False)
        .select_related("current", "endpoint__vendor")
        .in_bulk(tool_ids)
    )
    signatures = effective_texts.effective_signatures(tools_by_id.values())
    tools = [tools_by_id[pk] for pk in tool_ids if pk in tools_by_id]
    columns = [
        Column(tool, signatures[tool.pk], tool.current.decoded(), tool.tokens - tools[0].tokens)
        for tool in tools
        if tool.current
    ]
    return ToolComparison(
        columns,
        inputs=_match_parameters(
            [effective_texts.inputs(column.vendors, column.signature) for column in columns]
        ),
        outputs=_match_parameters(
            [effective_texts.outputs(column.vendors, column.signature) for column in columns]
        ),
    )


def _match_parameters(sides: list[list[ShownInput]]) -> list[ComparedParameter]:
    """Put parameters into one line if their names differ only in case and separators."""
    lines: dict[str, tuple[str, list[ShownInput | None]]] = {}
    for index, cells in enumerate(sides):
        for cell in cells:
            parameter = cell.parameter
            key = "".join(c for c in parameter.name.lower() if c.isalnum()) or parameter.name
            _, row = lines.setdefault(key, (parameter.name, [None] * len(sides)))
            row[index] = cell
    rows = sorted(lines.values(), key=lambda line: -sum(cell is not None for cell in line[1]))
    budget, compared = MAX_COMPARED, []
    for name, row in rows:
        descriptions = [cell.parameter.description for cell in row if cell]
        budget -= sum(map(len, descriptions))
        texts = [[(text, False)] for text in descriptions]
        pieces = iter(word_diff.mark_differences(descriptions) if budget >= 0 else texts)
        compared.append(ComparedParameter(name, row, [next(pieces) if cell else [] for cell in row]))
    return compared
