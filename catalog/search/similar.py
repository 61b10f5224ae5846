"""Tools that do about the same as one tool: of other vendors, which could replace it, and of its own."""

from dataclasses import dataclass
from typing import Any

from catalog.models import Tool
from catalog.models.tools import ToolStatus
from catalog.search import words
from catalog.search.listing import search
from catalog.search.tool_query import Query

# So many of each are shown, out of so many that are searched.
SHOWN, SEARCHED = 5, 40
# What a tool is for comes first in its description.
MAX_TEXT = 200
# Verbs that half of all names have: they say nothing about the subject of a tool.
GENERAL_VERBS = frozenset(
    [
        "get",
        "list",
        "find",
        "search",
        "look",
        "read",
        "show",
        "fetch",
        "check",
        "create",
        "add",
        "make",
        "new",
        "set",
        "update",
        "edit",
        "change",
        "delete",
        "remove",
        "send",
        "post",
        "put",
        "run",
        "do",
    ]
)


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
    name = " ".join(words.words(tool.name))
    text = f"{name} {tool.title if tool.title != tool.name else ''} {tool.description[:MAX_TEXT]}"
    page = search(Query(q=text, status=(ToolStatus.ACTIVE,), as_typed=True, limit=SEARCHED))
    vendor = tool.endpoint.vendor.slug
    subject = set(words.words(tool.name)) - GENERAL_VERBS
    rows = [
        row
        for row in page.rows
        if row["id"] != tool.pk and row["why"] and not subject.isdisjoint(words.words(row["name"]))
    ]
    return SimilarTools(
        [row for row in rows if row["vendor"] != vendor][:SHOWN],
        [row for row in rows if row["vendor"] == vendor and row["name"] != tool.name][:SHOWN],
    )
