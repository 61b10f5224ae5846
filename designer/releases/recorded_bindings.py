"""Compare the activities that ran for a release's tools when it was published with those of today. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.translatable import Wording
from core.translatable import mark as _


@dataclass(frozen=True, slots=True)
class BindingDifference:
    """A binding that differs between two records. `before` and `after` are rows of a record; None if the
    tool is missing.
    """

    tool: str
    agent: str
    message: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


def locked_bindings(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a record that a lock file holds: those of tools that their vendors do not run."""
    return [
        {name: value for name, value in row.items() if name != "tool_id"}
        for row in list_nonvendor_rows(record)
    ]


def list_activities(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a record about tools that an activity ran, each with the version of the activity."""
    return [row for row in locked_bindings(record) if row["activity"]]


def list_nonvendor_rows(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of a record about tools that their vendors did not run."""
    return [row for row in record.get("tools", ()) if row["runs"] != "vendor"]


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[BindingDifference]:
    """Return the tools of both records that are run by something else in `after`.

    A release that is older than these records has an empty one, with which nothing is compared.
    """
    if not before or not after:
        return []
    current_rows = {(row["agent"], row["tool_id"]): row for row in after["tools"]}
    changes = []
    for row in before["tools"]:
        other = current_rows.get((row["agent"], row["tool_id"]))
        if other and _state_of(row) != _state_of(other):
            values = {"tool": row["tool"], "now": describe(other), "before": describe(row)}
            message = Wording(_("“{tool}” is run by {now} now, and was run by {before}."), values)
            changes.append(BindingDifference(row["tool"], row["agent"], message, row, other))
    return changes


def _state_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["runs"], row["activity"], row["activity_version"], row["digest"]


def describe(row: Mapping[str, Any]) -> str:
    """Return a short description of the implementation."""
    if row["runs"] == "activity":
        values = {"name": row["activity_name"], "version": row["activity_version"]}
        return Wording(_("the implementation “{name}”, version {version}"), values)
    templates = {"vendor": _("its vendor"), "latent": _("the model itself")}
    return Wording(templates.get(row["runs"], _("nothing")))
