"""Paths and messages of A2T, as client and server both write them. Sections 6 and 7 of the drafts."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

TOOLS = "/tools"
PAGE_LIMIT, PAGE_CURSOR, TAG = "pageLimit", "pageCursor", "tag"

# The members that hold what a call sends and what comes back. A tool lists its parameters under the same
# names.
INPUTS, OUTPUTS = "input_parameters", "output_parameters"


def tool_path(tool_id: str, label: str | None = None) -> str:
    """Return the path of a tool below the list of tools: its current version, or the one with the label."""
    path = f"/{quote(tool_id, safe='')}"
    return path if label is None else f"{path}/versions/{quote(label, safe='')}"


def versions_path(tool_id: str) -> str:
    return f"{tool_path(tool_id)}/versions"


def invoke_path(tool_id: str, label: str | None = None) -> str:
    return f"{tool_path(tool_id, label)}:invoke"


def page(items: list[Any], limit: int, cursor: str | None = None) -> dict[str, Any]:
    """Return a page of a list, with the cursor of the next page."""
    return {"items": items, "paging": {"pageLimit": limit} | ({"next": cursor} if cursor else {})}


def call(name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, INPUTS: named_values(inputs)}


def result(outputs: Mapping[str, Any]) -> dict[str, Any]:
    return {OUTPUTS: named_values(outputs)}


def named_values(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def names_and_values(entries: Iterable[Any]) -> list[tuple[str, Any] | None]:
    """Return the name and the value of each entry; None for one without a name."""
    return [
        (entry["name"], entry.get("value"))
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
        else None
        for entry in entries
    ]
