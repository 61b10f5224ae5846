"""A change in one plain sentence."""

from collections.abc import Iterable
from typing import NamedTuple

from core.canonical_json import canonical
from core.readable_changes import outline
from core.schema import pointers

_TOOL = {
    "name": "The tool is now called {after}; it was called {before}.",
    "title": "The title of the tool has changed.",
    "description": "The description of the tool has changed.",
    "img": "The picture of the tool has changed.",
    "tags": "The tags are now {after}; they were {before}.",
    "kind": "It is now of the kind {after}; it was of the kind {before}.",
    "rest": "Other data that the vendor publishes about the tool has changed.",
    "annotations/read_only": "The vendor changed “only reads” from {before} to {after}.",
    "annotations/destructive": "The vendor changed “can destroy” from {before} to {after}.",
    "annotations/idempotent": "The vendor changed “safe to repeat” from {before} to {after}.",
    "annotations/open_world": "The vendor changed “reaches other systems” from {before} to {after}.",
    "requirements/scopes": "The permissions that a call needs are now {after}; they were {before}.",
    "requirements/secrets": "The secrets that a call needs are now {after}; they were {before}.",
    "requirements/user": "The vendor changed “needs a signed-in user” from {before} to {after}.",
}

_DESTRUCTIVE_WITHDRAWN = (
    "The vendor changed “can destroy” from yes to {after}. Calls will no longer be confirmed by a "
    "person before they run, unless a tuning says that the tool destroys."
)

# By member and kind; a member alone is for every other kind.
_MEMBER: dict[tuple[str, str] | str, str] = {
    ("name", "renamed"): "The {what} was called {before} before.",
    "type": "The type of {what} is now {after}; it was {before}.",
    ("required", "required"): "The {what} is now required.",
    ("required", "optional"): "The {what} is now optional.",
    "title": "The title of {what} has changed.",
    "description": "The description of {what} has changed.",
    "examples": "The examples for {what} have changed.",
    "example": "The example for {what} has changed.",
    "default": "The default of {what} is now {after}; it was {before}.",
    "deprecated": "The vendor changed “deprecated” of {what} from {before} to {after}.",
    "max_defaulted": "The maximum of {what} is the same, but who states it has changed.",
    "rest": "Other data that the vendor publishes about {what} has changed.",
    "is_whole": "The {what} now stands for {after}; it stood for {before}.",
    ("schema", "changed"): "The schema of {what} is written differently and means the same.",
    ("allowed_values", "narrowed"): "The {what} is now limited to {after}.",
    ("allowed_values", "widened"): "The {what} is no longer limited to {before}.",
    ("allowed_values", "reordered"): "The allowed values of {what} are in another order.",
    ("pattern", "narrowed"): "The {what} now has to fit the pattern {after}.",
    ("pattern", "widened"): "The {what} no longer has to fit the pattern {before}.",
    "pattern": "The pattern of {what} is now {after}; it was {before}. Please compare the two.",
    ("format", "narrowed"): "The {what} now has the format {after}; it had {before}.",
    ("format", "widened"): "The {what} now has the format {after}; it had {before}.",
    "format": "The format of {what} is now {after}; it was {before}. Please compare the two.",
    ("uniqueItems", "narrowed"): "The values of {what} must now differ from each other.",
    ("uniqueItems", "widened"): "The values of {what} may now be equal.",
    ("additionalProperties", "narrowed"): "Members of {what} that are not named are no longer allowed.",
    ("additionalProperties", "widened"): "Members of {what} that are not named are now allowed.",
    ("items", "narrowed"): "Further items of {what} are no longer allowed.",
    ("items", "widened"): "Further items of {what} are now allowed.",
    ("anyOf", "narrowed"): "One of the forms of {what} is gone.",
    ("anyOf", "widened"): "There is one more form of {what}.",
    ("anyOf", "retyped"): "There is one more form of {what}, of another type.",
    ("oneOf", "narrowed"): "One of the forms of {what} is gone.",
    ("oneOf", "retyped"): "There is one more form of {what}, of another type.",
}
_ADDED = {
    "widens_risk": "The {what} was added, where any other name was accepted before. Please compare the two.",
    "breaks_callers": "The {what} was added and is required.",
}
_LIMIT_CHANGED = {
    "removed": "The {what} no longer has a {limit}; it was {before}.",
    "added": "The {what} now has a {limit}: {after}.",
    "moved": "The {limit} of {what} is now {after}; it was {before}.",
}
_LIMITS = {
    "min": "minimum",
    "max": "maximum",
    "max_length": "maximum length",
    "minimum": "minimum",
    "maximum": "maximum",
    "minLength": "minimum length",
    "maxLength": "maximum length",
    "minItems": "minimum number of items",
    "maxItems": "maximum number of items",
    "minProperties": "minimum number of members",
    "maxProperties": "maximum number of members",
    "multipleOf": "step",
}
_VALUE = {
    ("inputs", "widened"): "The {what} now accepts {value}.",
    ("inputs", "narrowed"): "The {what} no longer accepts {value}.",
    ("inputs", "changed"): "Whether the {what} takes {value} cannot be judged. Please compare the two.",
    ("outputs", "changed"): "Whether the {what} can be {value} cannot be judged. Please compare the two.",
    ("outputs", "widened"): "The {what} can now be {value}.",
    ("outputs", "narrowed"): "The {what} can no longer be {value}.",
}
# Members of a schema that lead further into it, by how many names follow them.
_INTO = {
    "items": 0,
    "additionalProperties": 0,
    "unevaluatedProperties": 0,
    "unevaluatedItems": 0,
    "contains": 0,
    "propertyNames": 0,
    "not": 0,
    "if": 0,
    "then": 0,
    "else": 0,
    "properties": 1,
    "patternProperties": 1,
    "dependentSchemas": 1,
    "prefixItems": 1,
    "allOf": 1,
    "anyOf": 1,
    "oneOf": 1,
}
_TOGETHER = {"schema_rest": "inputs", "outputs_rest": "outputs"}


class _Subject(NamedTuple):
    side: str
    what: str
    member: str
    value: str | None


def joined(parts: Iterable[str]) -> str:
    return pointers.join(parts).removeprefix("/")


def sentence(path: str, kind: str, effect: str, before: object, after: object) -> str:
    if path == "annotations/destructive" and before is True:
        return _DESTRUCTIVE_WITHDRAWN.format(after=quote_value(after))
    if path in _TOOL:
        return _TOOL[path].format(before=quote_value(before), after=quote_value(after))
    subject = _subject(list(pointers.split(f"/{path}")), kind)
    if not subject.what:
        return f"The {subject.side} are in another order."
    if not subject.member and kind in ("added", "removed"):
        if kind == "removed" or subject.side == "outputs":
            return f"The {subject.what} was {kind}."
        return _ADDED.get(effect, "The {what} was added and is optional.").format(what=subject.what)
    if subject.value is not None:
        # A structure is a part of the path as JSON.
        structures = [value for value in (before, after) if isinstance(value, dict | list)]
        value = quote_value(structures[0] if structures else subject.value)
        if kind == "text":
            return f"The description of {value} for {subject.what} has changed."
        return _VALUE[subject.side, kind].format(what=subject.what, value=value)
    if subject.member in _LIMITS:
        template = _LIMIT_CHANGED["removed" if after is None else "added" if before is None else "moved"]
        limit = _LIMITS[subject.member]
        return template.format(what=subject.what, limit=limit, before=before, after=after)
    words = _MEMBER.get((subject.member, kind)) or _MEMBER.get(subject.member)
    if words is None or (effect == "widens_risk" and kind == "changed" and "compare" not in words):
        return _rule_changed(subject, kind, effect)
    return words.format(what=subject.what, before=quote_value(before), after=quote_value(after))


def _subject(parts: list[str], kind: str) -> _Subject:
    # The subject of a path, and its member.
    side = _TOGETHER.get(parts[0], parts[0])
    if parts[0] in _TOGETHER:
        inside, rest = _place(parts[1:])
        what = f"member {quote_value(inside)} of the {side[:-1]}" if inside else f"{side[:-1]} object"
    elif len(parts) == 1:
        return _Subject(side, "", "", None)
    elif parts[2:3] == ["schema"]:
        inside, rest = _place(parts[3:])
        rest = rest or ([] if kind in ("added", "removed") else ["schema"])
        of = f"{side[:-1]} {quote_value(parts[1])}"
        what = f"member {quote_value(inside)} of {of}" if inside else of
    else:
        rest, what = parts[2:], f"{side[:-1]} {quote_value(parts[1])}"
    member = "allowed_values" if rest[:1] == ["enum"] else "".join(rest[:1])
    value = "/".join(rest[1:]) if member == "allowed_values" and rest[1:] else None
    return _Subject(side, what, member, value)


def _place(parts: list[str]) -> tuple[str, list[str]]:
    # Splits a path into its place in a schema, as in `lines[].price`, and the parts behind that.
    place, remaining = "", list(parts)
    while remaining and remaining[0] in _INTO:
        names = _INTO[remaining[0]]
        # The last name is what has changed, unless it is that of a member.
        if len(remaining) < 1 + names or (len(remaining) == 1 + names and remaining[0] != "properties"):
            break
        name = remaining[1] if names else ""
        steps = {
            "properties": f".{name}",
            "prefixItems": f"[{name}]",
            "items": "[]",
            "additionalProperties": ".*",
        }
        place += steps.get(remaining[0], "")
        remaining = remaining[1 + names :]
    return place.removeprefix("."), remaining


def _rule_changed(subject: _Subject, kind: str, effect: str) -> str:
    rule = f"schema of {subject.what}"
    if subject.member and subject.member != "schema":
        rule = f"rule {quote_value(subject.member)} for the {subject.what}"
    if effect == "widens_risk":
        return f"The {rule} has changed in a way that cannot be judged. Please compare the two."
    if effect == "cosmetic":
        return f"The {rule} is written differently and means the same."
    verbs = {"widened": "accepts more than before", "narrowed": "accepts less than before"}
    return f"The {rule} {verbs.get(kind, 'has changed')}."


def quote_value(value: object) -> str:
    if value is None or value == []:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return _cut(", ".join(map(quote_value, value)), 120)
    if isinstance(value, dict):
        return _cut(outline(value).replace("\n", "; "), 120)
    text = value if isinstance(value, str) else canonical(value).decode()
    return f"“{_cut(text, 60)}”"


def _cut(text: str, longest: int) -> str:
    return f"{text[: longest - 1]}…" if len(text) > longest else text
