"""Issues of the texts of procedures."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from core.translatable import Wording
from core.translatable import mark as _
from designer.procedures.references import Piece

Severity = Literal["error", "warning"]
MAX_ISSUES = 200
NAMES_SHOWN = 8


class Issue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An issue of a text.

    message, fix: wordings, which pages translate.
    line, column: from 1 and from 0, in the displayed text; None for an issue of the whole agent.
    about: the pinned tool that no text names.
    name: an unknown name; `tool`: the only catalog tool with that name; `instead`: the agent's similar name.
    """

    line: int | None
    column: int | None = None
    code: str
    severity: Severity
    message: str
    fix: str = ""
    about: str = ""
    name: str = ""
    tool: int | None = None
    instead: str = ""


def in_order(remarks: Iterable[Issue]) -> list[Issue]:
    """Return at most MAX_ISSUES issues, in the order of the text."""
    return sorted(remarks, key=lambda row: (row.line or 0, row.column or 0, row.code))[:MAX_ISSUES]


def list_agents(names: Sequence[str]) -> str | Wording:
    first, *others = [f"“{name}”" for name in names]
    for name in others:
        first = Wording(_("{first} and {second}"), {"first": first, "second": name})
    return first


def list_accepted(names: Collection[str]) -> Wording:
    template = _("It accepts {names}.") if names else _("It has no inputs.")
    return Wording(template, {"names": _first_names(names)})


def list_returned(names: Collection[str]) -> Wording:
    return Wording(_("Its outputs are {names}."), {"names": _first_names(names)})


def _first_names(names: Collection[str]) -> str:
    text = ", ".join(list(names)[:NAMES_SHOWN])
    if len(names) <= NAMES_SHOWN:
        return text
    return Wording(_("{names} and {count} more"), {"names": text, "count": len(names) - NAMES_SHOWN})


def issue_at(
    piece: Piece,
    code: str,
    message: str,
    fix: str,
    values: Mapping[str, Any],
    *,
    is_error: bool = True,
    name: str = "",
    tool: int | None = None,
    instead: str = "",
) -> Issue:
    return Issue(
        line=piece.line,
        column=piece.column,
        code=code,
        severity="error" if is_error else "warning",
        message=Wording(message, values),
        fix=fix if isinstance(fix, Wording) else Wording(fix, values),
        name=name,
        tool=tool,
        instead=instead,
    )
