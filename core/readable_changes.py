"""A change as a person reads it: sentences and texts, JSON only under “Raw”. Pure.

`templates/_changes.html` renders these on every page that shows changes: publish, channels, review, updates,
versions and the audit trail.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, Protocol

from core.numbered_pages import NumberedPage
from core.translatable import Wording
from core.translatable import mark as _

MAX_LINES = 40  # of an outline; the whole value is under “Raw”
MAX_DEPTH = 12
MAX_MEMBERS = 12  # of a new or removed record; more are outlined in one change
MAX_QUOTED = 60  # a longer text is not repeated in a sentence
# The members of these mappings have names that people or vendors chose, which are shown unchanged.
_NAMED_BY_USERS = {"parameters", "inputs", "outputs", "values", "hidden"}
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_INNER_QUOTES = str.maketrans("“”", "\u2018\u2019")
_IDENTITIES = ("name", "id", "slug", "key")
_PARAMETER = {
    "type": "Type",
    "unsupported_type": "Unsupported type",
    "required": "Required",
    "title": "Title",
    "description": "Description",
    "allowed_values": "Allowed values",
    "min": "Minimum",
    "max": "Maximum",
    "max_length": "Maximum length",
    "default": "Default",
    "preset": "Fixed value",
    "schema": "Schema",
}


class TextLine(Protocol):
    """A line of two compared texts. A mark of "gap" replaces unchanged lines."""

    @property
    def mark(self) -> Literal["same", "changed", "added", "removed", "gap"]: ...
    @property
    def number(self) -> int | None: ...
    @property
    def before(self) -> str | None: ...
    @property
    def after(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableChange:
    """A change of one subject, or of a part of it.

    subject, kind: the name and the kind of the changed object, such as “forecast” and “tool”; "" if the page
    names it.
    effect: of a vendor's change, by its name in `catalog.rules.diff`, or "undecided".
    call_effects: what a call does; before and after, where the two differ.
    tokens: by how many a model reads more.
    before, after: the texts to compare word by word; None on both sides if the sentence contains all.
    raw: the two values, if one of them is a structure.
    lines: a long text, compared line by line.
    key: loads the details as `?change=` of the page, if the change has no `parts` and `lines` yet.
    is_heading: the changes that follow are of this subject.
    """

    sentence: str = ""
    mark: Literal["added", "removed", "changed", ""] = ""
    subject: str = ""
    kind: str = ""
    effect: str = ""
    call_effects: tuple[str, ...] = ()
    tokens: int | None = None
    before: str | None = None
    after: str | None = None
    raw: tuple[Any, Any] | None = None
    lines: Sequence[TextLine] = ()
    parts: Sequence["ReadableChange"] | NumberedPage["ReadableChange"] = ()
    key: str = ""
    is_open: bool = False
    is_heading: bool = False


def describe_change(label: str, before: Any, after: Any) -> ReadableChange:
    """Describe a value that was replaced, added (`before` is empty) or removed (`after` is empty)."""
    before, after = (None if value in ("", {}) else value for value in (before, after))
    texts = [None if value is None else outline(value) for value in (before, after)]
    raw = raw_values(before, after)
    is_text = any(isinstance(value, str) for value in (before, after))
    if _is_plain_list(before) and _is_plain_list(after):
        added = [quote(item) for item in after if item not in before]
        removed = [quote(item) for item in before if item not in after]
        values: dict[str, Any] = {"label": label, "added": ", ".join(added), "removed": ", ".join(removed)}
        if added and removed:
            return _change_of(_("{label}: {added} added, {removed} removed."), values)
        if added or removed:
            return _change_of(
                _("{label}: {added} added.") if added else _("{label}: {removed} removed."), values
            )
        return _change_of(_("{label}: another order."), values)
    if not all(map(_is_short, (before, after))):
        template = _("{label} changed.")
        if before is None or after is None:
            template = _("{label} added.") if before is None else _("{label} removed.")
        change = _change_of(template, {"label": label})
        return replace(change, before=texts[0], after=texts[1], raw=raw)
    values = {"label": label, "before": _value_wording(before), "after": _value_wording(after)}
    if before is None:
        return _change_of(_("{label} set to {after}."), values)
    if after is None:
        return _change_of(_("{label} removed. It was {before}."), values)
    old_text, new_text = texts if is_text else (None, None)
    change = _change_of(_("{label} changed from {before} to {after}."), values)
    return replace(change, before=old_text, after=new_text)


def _change_of(template: str, values: dict[str, Any]) -> ReadableChange:
    return ReadableChange(sentence=Wording(template, values))


def _value_wording(value: Any) -> str | Wording:
    if isinstance(value, bool):
        return Wording(_("yes") if value else _("no"))
    return Wording(_("nothing")) if value is None or value in ([], ()) else quote(value)


def describe_facts(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[ReadableChange]:
    """Describe each difference of two records, at any depth.

    The names of outermost members are labels. If only one record is not empty, its values are listed.
    """
    if before and after:
        return list(_fact_changes("", before, after))
    short = _("{label} before: {value}.") if before else _("{label}: {value}.")
    long = _("{label} before:") if before else _("{label}:")
    return [
        _change_of(short, {"label": label, "value": _value_wording(value)})
        if _is_short(value)
        else replace(_change_of(long, {"label": label}), after=outline(value), raw=raw_values(None, value))
        for label, value in _labelled_leaves("", before or after or {})
        if value not in _EMPTY
    ]


def quote(value: Any) -> str:
    """Return a short value for a sentence: texts in quotation marks."""
    if _is_plain_list(value):
        return ", ".join(map(quote, value)) or "nothing"
    if isinstance(value, str):
        # A text cannot end its own quotation.
        return f"“{value.translate(_INNER_QUOTES)}”"
    return outline(value).replace("\n", "; ")


def outline(value: Any) -> str:
    """Return a value as text: lists with commas, and a structure with a line for each member at any depth."""
    match value:
        case str():
            return value
        case None:
            return "nothing"
        case bool():
            return "yes" if value else "no"
        case {"name": str(), "type": str(), "required": bool()}:
            return "\n".join(_parameter_lines(value))
        case _ if not is_structure(value):
            return ", ".join(map(outline, value)) or "nothing" if _is_list(value) else str(value)
    lines = [f"{path}: {text}" for path, text in islice(outline_rows(value), MAX_LINES + 1)]
    return "\n".join(lines if len(lines) <= MAX_LINES else [*lines[:MAX_LINES], "The rest is under “Raw”."])


def outline_rows(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each innermost member of a structure."""
    for steps, leaf in _innermost_members((), value):
        yield " / ".join(steps), outline(leaf)


def is_structure(value: Any) -> bool:
    """Return whether a value is an object, or a list that contains an object or a list."""
    if _is_list(value):
        return any(isinstance(item, Mapping) or _is_list(item) for item in value)
    return isinstance(value, Mapping)


def raw_values(before: Any, after: Any) -> tuple[Any, Any] | None:
    return (before, after) if is_structure(before) or is_structure(after) else None


def label_of(name: str) -> str:
    """Return the name of a member as a label: “retry_limit” is “Retry limit”."""
    words = "inputs" if name == "parameters" else name.replace("_", " ").removeprefix("is ").strip()
    return words[:1].upper() + words[1:] if words else name


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_plain_list(value: Any) -> bool:
    return _is_list(value) and not is_structure(value)


def _is_short(value: Any) -> bool:
    """Return whether a value fits into a sentence. A text that is a sentence itself does not."""
    if is_structure(value):
        return False
    text = outline(value)
    return len(text) <= MAX_QUOTED and "\n" not in text and not text.endswith((".", "!", "?"))


def _innermost_members(steps: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the value of each innermost member."""
    if not is_structure(value) or not value:
        yield steps, value if value or not is_structure(value) else None
    elif len(steps) >= MAX_DEPTH:
        yield steps, "…"
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from _innermost_members((*steps, str(name)), member)
    else:
        for number, item in enumerate(value, start=1):
            yield from _innermost_members((*steps, f"item {number}"), item)


def _parameter_lines(parameter: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that describe an input or an output."""
    for name, label in _PARAMETER.items():
        value = parameter.get(name)
        if value in (None, "", [], ()):
            continue
        if name == "allowed_values":
            value = ", ".join(
                outline(item)
                if not isinstance(item, Mapping)
                else f"{item.get('name')} ({item['description']})"
                if item.get("description")
                else str(item.get("name"))
                for item in value
            )
        elif is_structure(value):
            value = outline(value).replace("\n", f"\n{label} / ")
            yield f"{label} / {value}"
            continue
        yield f"{label}: {outline(value)}"


def _fact_changes(label: str, before: Any, after: Any) -> Iterator[ReadableChange]:
    before, after = _by_identity(before), _by_identity(after)
    if before == after and type(before) is type(after):
        return
    # A new or removed record of few members has a sentence for each of them.
    if label and _is_record(before) and after in _EMPTY:
        after = {}
    elif label and _is_record(after) and before in _EMPTY:
        before = {}
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        if before not in _EMPTY or after not in _EMPTY:
            yield describe_change(label, before, after)
        return
    for name in dict.fromkeys([*before, *after]):
        yield from _fact_changes(_label_below(label, str(name)), before.get(name), after.get(name))


def _is_record(value: Any) -> bool:
    """Return whether each member of a value deserves a sentence; one is enough for a row with a name."""
    if not isinstance(value, Mapping) or any(name in value for name in _IDENTITIES):
        return False
    return 0 < sum(1 for _leaf in islice(_labelled_leaves("", value), MAX_MEMBERS + 1)) <= MAX_MEMBERS


def _labelled_leaves(label: str, value: Any) -> Iterator[tuple[str, Any]]:
    value = _by_identity(value)
    if isinstance(value, Mapping) and value:
        for name, member in value.items():
            yield from _labelled_leaves(_label_below(label, str(name)), member)
    else:
        yield label, value


def _label_below(label: str, name: str) -> str:
    if not label:
        return name
    is_chosen = re.split(r", ", label)[-1].casefold() in _NAMED_BY_USERS
    return f"{label}, {f'“{name}”' if is_chosen else label_of(name)[:1].lower() + label_of(name)[1:]}"


def _by_identity(value: Any) -> Any:
    """Return a list of records as a mapping, if one member identifies each of them."""
    if not (value and _is_list(value) and all(isinstance(row, Mapping) for row in value)):
        return value
    for member in _IDENTITIES:
        names = [row.get(member) for row in value]
        if all(isinstance(name, str | int) for name in names) and len(set(names)) == len(names):
            return dict(zip(map(str, names), value, strict=True))
    return value
