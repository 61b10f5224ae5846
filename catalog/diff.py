"""What differs between two signatures of a tool, and whom it breaks. Pure.

Parameters are matched by `id`, the identity that the vendor keeps from version to version; the wire
and the model use the name, so a new name for the same id breaks callers. A change is `breaking` when
a call that fitted the old signature may not fit the new one, or a reader of the outputs may miss
something; `notice` when a person may want to know; `compatible` when it only adds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from catalog.protocols.base import canonical
from catalog.protocols.signature import Annotations, Parameter, Requirements, Signature

Class = Literal["none", "compatible", "notice", "breaking"]
Kind = Literal[
    "added",
    "removed",
    "renamed",
    "retyped",
    "required",
    "optional",
    "widened",
    "narrowed",
    "text",
    "changed",
    "reordered",
]
Side = Literal["inputs", "outputs"]

CLASSES: tuple[Class, ...] = ("none", "compatible", "notice", "breaking")

# An optional input that was added is `compatible`; everything else follows from where and what.
_CLASS_OF: dict[str, dict[Kind, Class]] = {
    "tool": {
        "renamed": "breaking",
        "narrowed": "breaking",
        "widened": "notice",
        "text": "notice",
        "changed": "notice",
    },
    "inputs": {
        "added": "breaking",
        "removed": "breaking",
        "renamed": "breaking",
        "retyped": "breaking",
        "required": "breaking",
        "optional": "notice",
        "widened": "notice",
        "narrowed": "breaking",
        "text": "notice",
        "changed": "notice",
        "reordered": "notice",
    },
    "outputs": {
        "added": "compatible",
        "removed": "breaking",
        "renamed": "breaking",
        "retyped": "breaking",
        "required": "notice",
        "optional": "breaking",
        "widened": "notice",
        "narrowed": "notice",
        "text": "notice",
        "changed": "notice",
        "reordered": "notice",
    },
}


class Change(msgspec.Struct, frozen=True, rename={"class_": "class"}):
    """One difference. `path` leads to it by parameter name (`inputs/city/max`), escaped as a JSON Pointer."""

    path: str
    kind: Kind
    class_: Class
    before: Any = None
    after: Any = None

    @property
    def sentence(self) -> str:
        return _sentence(self)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`class_` is that of the worst change, "none" when nothing changed."""

    class_: Class
    changes: tuple[Change, ...]


def compare(old: Signature, new: Signature) -> Comparison:
    changes = (
        *_tool(old, new),
        *_parameters("inputs", old.inputs, new.inputs),
        *_parameters("outputs", old.outputs, new.outputs),
    )
    return Comparison(worst(change.class_ for change in changes), changes)


def worst(classes: Iterable[Class]) -> Class:
    return max(classes, key=CLASSES.index, default="none")


def _change(where: str, path: Iterable[str], kind: Kind, before: object, after: object) -> Change:
    return Change(_join(path), kind, _CLASS_OF[where][kind], before, after)


def _tool(old: Signature, new: Signature) -> Iterator[Change]:
    members: dict[str, Kind] = {"name": "renamed", "title": "text", "description": "text", "img": "changed"}
    for member, kind in members.items():
        before, after = getattr(old, member), getattr(new, member)
        if before != after:
            yield _change("tool", [member], kind, before, after)
    if old.tags != new.tags:
        yield _change("tool", ["tags"], "changed", list(old.tags), list(new.tags))
    yield from _annotations(old.annotations, new.annotations)
    yield from _requirements(old.requirements, new.requirements)
    if _differ(old.schema_rest, new.schema_rest):
        yield _change("tool", ["schema_rest"], "changed", old.schema_rest, new.schema_rest)


def _annotations(old: Annotations, new: Annotations) -> Iterator[Change]:
    for member in Annotations.__struct_fields__:
        before, after = getattr(old, member), getattr(new, member)
        if before != after:
            yield _change("tool", ["annotations", member], "changed", before, after)


def _requirements(old: Requirements, new: Requirements) -> Iterator[Change]:
    for member in ("scopes", "secrets"):
        before, after = getattr(old, member), getattr(new, member)
        if before != after:
            kind: Kind = "narrowed" if set(after) - set(before) else "widened"
            yield _change("tool", ["requirements", member], kind, list(before), list(after))
    if old.user != new.user:
        kind = "narrowed" if new.user else "widened"
        yield _change("tool", ["requirements", "user"], kind, old.user, new.user)


def _parameters(side: Side, old: tuple[Parameter, ...], new: tuple[Parameter, ...]) -> Iterator[Change]:
    before = {parameter.id: parameter for parameter in old}
    after = {parameter.id: parameter for parameter in new}
    for parameter in after.values():
        if parameter.id in before:
            yield from _parameter(side, before[parameter.id], parameter)
        else:
            yield _added(side, parameter)
    for parameter in before.values():
        if parameter.id not in after:
            yield _change(side, [side, parameter.name], "removed", msgspec.to_builtins(parameter), None)
    if [key for key in before if key in after] != [key for key in after if key in before]:
        yield _change(side, [side], "reordered", [p.name for p in old], [p.name for p in new])


def _added(side: Side, parameter: Parameter) -> Change:
    change = _change(side, [side, parameter.name], "added", None, msgspec.to_builtins(parameter))
    if side == "inputs" and not parameter.required:
        return msgspec.structs.replace(change, class_="compatible")
    return change


def _parameter(side: Side, old: Parameter, new: Parameter) -> Iterator[Change]:
    path = [side, new.name]
    if old.name != new.name:
        yield _change(side, [*path, "name"], "renamed", old.name, new.name)
    if old.required != new.required:
        kind: Kind = "required" if new.required else "optional"
        yield _change(side, [*path, "required"], kind, old.required, new.required)
    for member in ("title", "description"):
        before, after = getattr(old, member), getattr(new, member)
        if before != after:
            yield _change(side, [*path, member], "text", before, after)
    if _differ(old.default, new.default):
        yield _change(side, [*path, "default"], "changed", _given(old.default), _given(new.default))
    if _type_of(old) != _type_of(new):
        # Limits of another type cannot be compared with those of this one.
        yield _change(side, [*path, "type"], "retyped", _type_of(old), _type_of(new))
    else:
        yield from _limits(side, path, old, new)
        yield from _allowed_values(side, [*path, "allowed_values"], old, new)
        yield from _schema(side, path, old.schema, new.schema)


def _type_of(parameter: Parameter) -> str:
    unsupported = parameter.unsupported_type
    return f"{unsupported} (not supported)" if unsupported else parameter.type


def _limits(side: Side, path: list[str], old: Parameter, new: Parameter) -> Iterator[Change]:
    for member, rises in (("min", False), ("max", True), ("max_length", True)):
        before, after = getattr(old, member), getattr(new, member)
        if before != after:
            yield _change(side, [*path, member], _moved(before, after, rises=rises), before, after)
    if old.max == new.max and old.max_defaulted != new.max_defaulted:
        yield _change(side, [*path, "max_defaulted"], "changed", old.max_defaulted, new.max_defaulted)


def _moved(before: float | None, after: float | None, *, rises: bool) -> Kind:
    """Whether more values fit after a limit moved; `rises` says that a higher limit lets more in."""
    if before is None or after is None:
        return "widened" if after is None else "narrowed"
    return "widened" if (after > before) is rises else "narrowed"


def _allowed_values(side: Side, path: list[str], old: Parameter, new: Parameter) -> Iterator[Change]:
    before = {value.name: value.description for value in old.allowed_values}
    after = {value.name: value.description for value in new.allowed_values}
    if bool(before) != bool(after):
        # No list means that every value is allowed.
        yield _change(side, path, "narrowed" if after else "widened", list(before), list(after))
        return
    for name in after:
        if name not in before:
            yield _change(side, [*path, name], "widened", None, name)
        elif before[name] != after[name]:
            yield _change(side, [*path, name], "text", before[name], after[name])
    for name in before:
        if name not in after:
            yield _change(side, [*path, name], "narrowed", name, None)
    if before.keys() == after.keys() and list(before) != list(after):
        yield _change(side, path, "reordered", list(before), list(after))


def _schema(side: Side, path: list[str], old: object, new: object) -> Iterator[Change]:
    if _differ(old, new):
        kind: Kind = "retyped" if _schema_breaks(side, old, new) else "changed"
        yield _change(side, [*path, "schema"], kind, old, new)


def _schema_breaks(side: Side, old: object, new: object) -> bool:
    """True for a schema change that surely breaks callers; False is no proof that it does not."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        closed = new if side == "inputs" else old
        return closed not in (None, True) and old != new
    if old.get("type") != new.get("type"):
        return True
    gained, lost = _required(new) - _required(old), _required(old) - _required(new)
    if gained if side == "inputs" else lost:
        return True
    before, after = _properties(old), _properties(new)
    if before.keys() - after.keys():
        return True
    inner = [(before[name], after[name]) for name in before]
    if "items" in old and "items" in new:
        inner.append((old["items"], new["items"]))
    return any(_schema_breaks(side, a, b) for a, b in inner)


def _required(schema: Mapping[str, Any]) -> set[str]:
    names = schema.get("required")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _differ(before: object, after: object) -> bool:
    """By their JSON: to Python, 1 and true are equal."""
    return canonical(_given(before)) != canonical(_given(after)) or (
        (before is msgspec.UNSET) != (after is msgspec.UNSET)
    )


def _given(value: object) -> object:
    return None if value is msgspec.UNSET else value


def _join(parts: Iterable[str]) -> str:
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in parts)


def _split(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]


_TOOL_SENTENCES = {
    "name": "The tool is now called {after}; it was called {before}.",
    "title": "The title of the tool has changed.",
    "description": "The description of the tool has changed.",
    "img": "The picture of the tool has changed.",
    "tags": "The tags are now {after}; they were {before}.",
    "schema_rest": "The rules for all inputs together have changed.",
    "annotations/read_only": "Does it only read? The vendor now says {after}; it said {before}.",
    "annotations/destructive": "Can it destroy? The vendor now says {after}; it said {before}.",
    "annotations/idempotent": "Is calling it twice harmless? The vendor now says {after}; it said {before}.",
    "annotations/open_world": "Does it reach others? The vendor now says {after}; it said {before}.",
    "requirements/scopes": "The permissions that a call needs are now {after}; they were {before}.",
    "requirements/secrets": "The secrets that a call needs are now {after}; they were {before}.",
    "requirements/user": "Does a call need a signed-in user? Now {after}; before {before}.",
}

_PARAMETER_SENTENCES: dict[tuple[str, Kind], str] = {
    ("name", "renamed"): "The {what} was called {before} before.",
    ("type", "retyped"): "The type of {what} is now {after}; it was {before}.",
    ("required", "required"): "The {what} is now required.",
    ("required", "optional"): "The {what} is now optional.",
    ("title", "text"): "The title of {what} has changed.",
    ("description", "text"): "The description of {what} has changed.",
    ("default", "changed"): "The default of {what} is now {after}; it was {before}.",
    (
        "max_defaulted",
        "changed",
    ): "The maximum of {what} is the same, but who states it has changed.",
    ("schema", "retyped"): "The schema of {what} has changed in a way that breaks callers.",
    ("schema", "changed"): "The schema of {what} has changed; please compare the two.",
    ("allowed_values", "narrowed"): "The {what} is now limited to {after}.",
    ("allowed_values", "widened"): "The {what} is no longer limited to {before}.",
    ("allowed_values", "reordered"): "The allowed values of {what} are in another order.",
}

_LIMITS = {"min": "minimum", "max": "maximum", "max_length": "maximum length"}

_VALUE_SENTENCES: dict[tuple[str, Kind], str] = {
    ("inputs", "widened"): "The {what} now takes {value}.",
    ("inputs", "narrowed"): "The {what} no longer takes {value}.",
    ("inputs", "text"): "The description of {value} for {what} has changed.",
    ("outputs", "widened"): "The {what} can now be {value}.",
    ("outputs", "narrowed"): "The {what} can no longer be {value}.",
    ("outputs", "text"): "The description of {value} for {what} has changed.",
}


def _sentence(change: Change) -> str:
    side, *rest = _split(change.path)
    before, after = _shown(change.before), _shown(change.after)
    if side not in ("inputs", "outputs"):
        return _TOOL_SENTENCES[change.path].format(before=before, after=after)
    if not rest:
        return f"The {side} are in another order."
    what = f"{side[:-1]} {_shown(rest[0])}"
    if len(rest) == 1:
        return _came_or_went(what, side, change)
    if len(rest) == 3:
        return _VALUE_SENTENCES[side, change.kind].format(what=what, value=_shown(rest[2]))
    if rest[1] in _LIMITS:
        return _limit_moved(what, _LIMITS[rest[1]], change)
    return _PARAMETER_SENTENCES[rest[1], change.kind].format(what=what, before=before, after=after)


def _came_or_went(what: str, side: str, change: Change) -> str:
    if change.kind == "removed":
        return f"The {what} was removed."
    if side == "outputs":
        return f"The {what} was added."
    return f"The {what} was added and is {'required' if change.after['required'] else 'optional'}."


def _limit_moved(what: str, limit: str, change: Change) -> str:
    if change.after is None:
        return f"The {what} no longer has a {limit}; it was {change.before}."
    if change.before is None:
        return f"The {what} now has a {limit}: {change.after}."
    return f"The {limit} of {what} is now {change.after}; it was {change.before}."


def _shown(value: object) -> str:
    if value is None or value == []:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    text = value if isinstance(value, str) else canonical(value).decode()
    return f"“{text[:59]}…”" if len(text) > 60 else f"“{text}”"
