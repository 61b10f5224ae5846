"""Tools that do about the same as one tool: of other vendors, which could replace it, and of its own."""

from dataclasses import dataclass
from typing import Any

from catalog.models import Tool
from catalog.models.tools import ToolStatus
from catalog.rules.tool_names import find_verb
from catalog.search import words
from catalog.search.listing import search
from catalog.search.tool_query import Query

# So many of each are shown, out of so many that are searched.
SHOWN, SEARCHED = 5, 40
# A description states the purpose first.
MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class SimilarTools:
    """Rows of the list of tools, the most similar one first.

    same_job: of other vendors, with the same subject in their names.
    neighbours: of the same vendor.
    """

    same_job: list[dict[str, Any]]
    neighbours: list[dict[str, Any]]


def similar_tools(tool: Tool) -> SimilarTools:
    """Search for the texts of the tool."""
    name = words.words(tool.name)
    text = f"{' '.join(name)} {tool.title if tool.title != tool.name else ''} {tool.description[:MAX_TEXT]}"
    page = search(Query(q=text, status=(ToolStatus.ACTIVE,), as_typed=True, limit=SEARCHED))
    vendor = tool.endpoint.vendor.slug
    verb = find_verb(name)
    subject = {word for index, word in enumerate(name) if index != verb}
    rows = [
        row
        for row in page.rows
        if row["id"] != tool.pk and row["why"] and not subject.isdisjoint(words.words(row["name"]))
    ]
    return SimilarTools(
        [row for row in rows if row["vendor"] != vendor][:SHOWN],
        [row for row in rows if row["vendor"] == vendor and row["name"] != tool.name][:SHOWN],
    )
