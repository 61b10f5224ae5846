"""Up to four tools side by side: inputs and outputs of the same name stand beside each other."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import replace

from catalog.models import Tool
from catalog.rules import word_diff
from catalog.rules.word_diff import Pieces
from catalog.tools import effective_texts
from catalog.tools.effective_texts import ShownInput
from protocols.signature import Parameter, Signature

# As many columns as fit on a screen.
MAX_TOOLS = 4
# Of descriptions of inputs and outputs that are compared word by word, so that no vendor makes a page slow.
MAX_COMPARED = 20_000


@dataclass(frozen=True)
class Column:
    """`signature` is the one that is shown, `vendors` the vendor's own. `more_tokens`: than the first has."""

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
class Line:
    """One parameter name, and what each tool says about it (None: it has no such parameter).

    `texts` are the descriptions, with the words marked that differ.
    """

    name: str
    cells: list[ShownInput | None]
    texts: list[Pieces]

    @property
    def pairs(self) -> list[tuple[ShownInput | None, Pieces]]:
        return list(zip(self.cells, self.texts, strict=True))

    @property
    def differs(self) -> bool:
        said = [cell and _unnamed(cell.parameter) for cell in self.cells]
        return any(each != said[0] for each in said)

    @property
    def is_of_one(self) -> bool:
        return len(self.cells) > 1 and sum(cell is not None for cell in self.cells) == 1

    @cached_property
    def common_values(self) -> set[str]:
        """The allowed values that all have which list any."""
        sides = [{value.name for value in cell.parameter.allowed_values} for cell in self.cells if cell]
        listed = [side for side in sides if side]
        return set.intersection(*listed) if listed else set()


@dataclass(frozen=True)
class Comparison:
    columns: list[Column]
    inputs: list[Line]
    outputs: list[Line]

    @cached_property
    def descriptions(self) -> list[Pieces]:
        return word_diff.marked([column.signature.description for column in self.columns])

    @cached_property
    def differing(self) -> set[str]:
        """The facts in which the tools are not alike."""
        return {
            name
            for name, said in FACTS.items()
            if any(said(column) != said(self.columns[0]) for column in self.columns)
        }


def compare(wanted: Sequence[int]) -> Comparison:
    """The first four of the tools with these primary keys, in this order; what is not there is left out."""
    wanted = list(dict.fromkeys(wanted))[:MAX_TOOLS]
    found = (
        Tool.objects.filter(current__isnull=False)
        .select_related("current", "endpoint__vendor")
        .in_bulk(wanted)
    )
    shown = effective_texts.shown(found.values())
    tools = [found[pk] for pk in wanted if pk in found]
    columns = [
        Column(tool, shown[tool.pk], tool.current.decoded(), tool.tokens - tools[0].tokens)
        for tool in tools
        if tool.current
    ]
    return Comparison(
        columns,
        inputs=_matched([effective_texts.inputs(each.vendors, each.signature) for each in columns]),
        outputs=_matched([effective_texts.outputs(each.vendors, each.signature) for each in columns]),
    )


def _matched(sides: list[list[ShownInput]]) -> list[Line]:
    """Parameters beside each other when their names are the same but for case and separators."""
    lines: dict[str, tuple[str, list[ShownInput | None]]] = {}
    for index, cells in enumerate(sides):
        for cell in cells:
            parameter = cell.parameter
            key = "".join(c for c in parameter.name.lower() if c.isalnum()) or parameter.name
            _, row = lines.setdefault(key, (parameter.name, [None] * len(sides)))
            row[index] = cell
    rows = sorted(lines.values(), key=lambda line: -sum(cell is not None for cell in line[1]))
    return list(_with_texts(rows))


def _with_texts(rows: Iterable[tuple[str, list[ShownInput | None]]]) -> Iterable[Line]:
    left = MAX_COMPARED
    for name, cells in rows:
        said = [cell.parameter.description for cell in cells if cell]
        left -= sum(map(len, said))
        pieces = iter(word_diff.marked(said) if left >= 0 else [[(text, False)] for text in said])
        yield Line(name, cells, [next(pieces) if cell else [] for cell in cells])


def _unnamed(parameter: Parameter) -> Parameter:
    # Whatever it is called: names are matched before.
    return replace(parameter, id="", name="", title="", rest=None)
