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
    title = tool.title if tool.title != tool.name else ""
    text = f"{' '.join(words.words(tool.name))} {title} {tool.description[:MAX_TEXT]}"
    page = search(Query(q=text, status=(ToolStatus.ACTIVE,), as_typed=True, limit=SEARCHED))
    vendor = tool.endpoint.vendor.slug
    rows = [
        row
        for row in page.rows
        if row["id"] != tool.pk and row["why"] and has_same_subject(tool.name, row["name"])
    ]
    return SimilarTools(
        [row for row in rows if row["vendor"] != vendor][:SHOWN],
        [row for row in rows if row["vendor"] == vendor and row["name"] != tool.name][:SHOWN],
    )


def has_same_subject(name: str, other_name: str) -> bool:
    """Return whether two names of tools share most words of the shorter one, without their verbs.

    `request_prior_authorization` and `request_late_checkout` share a word that says little about either.
    """
    subjects = []
    for name_words in (words.words(name), words.words(other_name)):
        verb = find_verb(name_words)
        subjects.append({word.removesuffix("s") for index, word in enumerate(name_words) if index != verb})
    shorter = min(map(len, subjects))
    return 0 < shorter < 2 * len(subjects[0] & subjects[1])
