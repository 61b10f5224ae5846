"""A change in one plain sentence."""

from collections.abc import Iterable
from typing import NamedTuple

from core.canonical_json import canonical
from core.readable_changes import outline
from core.schema import pointers
from core.translatable import Wording
from core.translatable import mark as _

_TOOL = {
    "name": _("The tool is now called {after}; it was called {before}."),
    "title": _("The title of the tool has changed."),
    "description": _("The description of the tool has changed."),
    "img": _("The picture of the tool has changed."),
    "tags": _("The tags are now {after}; they were {before}."),
    "kind": _("It is now of the kind {after}; it was of the kind {before}."),
    "rest": _("Other data that the vendor publishes about the tool has changed."),
    "annotations/read_only": _("The vendor changed “only reads” from {before} to {after}."),
    "annotations/destructive": _("The vendor changed “can destroy” from {before} to {after}."),
    "annotations/idempotent": _("The vendor changed “safe to repeat” from {before} to {after}."),
    "annotations/open_world": _("The vendor changed “reaches other systems” from {before} to {after}."),
    "requirements/scopes": _("The permissions that a call needs are now {after}; they were {before}."),
    "requirements/secrets": _("The secrets that a call needs are now {after}; they were {before}."),
    "requirements/user": _("The vendor changed “needs a signed-in user” from {before} to {after}."),
}

_DESTRUCTIVE_WITHDRAWN = _(
    "The vendor changed “can destroy” from yes to {after}. Calls will no longer be confirmed by a "
    "person before they run, unless a tuning says that the tool destroys."
)

# By member and kind; a member alone is for every other kind.
_MEMBER: dict[tuple[str, str] | str, str] = {
    ("name", "renamed"): _("The {what} was called {before} before."),
    "type": _("The type of {what} is now {after}; it was {before}."),
    ("required", "required"): _("The {what} is now required."),
    ("required", "optional"): _("The {what} is now optional."),
    "title": _("The title of {what} has changed."),
    "description": _("The description of {what} has changed."),
    "examples": _("The examples for {what} have changed."),
    "example": _("The example for {what} has changed."),
    "default": _("The default of {what} is now {after}; it was {before}."),
    "deprecated": _("The vendor changed “deprecated” of {what} from {before} to {after}."),
    "max_defaulted": _("The maximum of {what} is the same, but who states it has changed."),
    "rest": _("Other data that the vendor publishes about {what} has changed."),
    "is_whole": _("The {what} now stands for {after}; it stood for {before}."),
    ("schema", "changed"): _("The schema of {what} is written differently and means the same."),
    ("allowed_values", "narrowed"): _("The {what} is now limited to {after}."),
    ("allowed_values", "widened"): _("The {what} is no longer limited to {before}."),
    ("allowed_values", "reordered"): _("The allowed values of {what} are in another order."),
    ("pattern", "narrowed"): _("The {what} now has to fit the pattern {after}."),
    ("pattern", "widened"): _("The {what} no longer has to fit the pattern {before}."),
    "pattern": _("The pattern of {what} is now {after}; it was {before}. Please compare the two."),
    ("format", "narrowed"): _("The {what} now has the format {after}; it had {before}."),
    ("format", "widened"): _("The {what} now has the format {after}; it had {before}."),
    "format": _("The format of {what} is now {after}; it was {before}. Please compare the two."),
    ("uniqueItems", "narrowed"): _("The values of {what} must now differ from each other."),
    ("uniqueItems", "widened"): _("The values of {what} may now be equal."),
    ("additionalProperties", "narrowed"): _("Members of {what} that are not named are no longer allowed."),
    ("additionalProperties", "widened"): _("Members of {what} that are not named are now allowed."),
    ("items", "narrowed"): _("Further items of {what} are no longer allowed."),
    ("items", "widened"): _("Further items of {what} are now allowed."),
    ("anyOf", "narrowed"): _("One of the forms of {what} is gone."),
    ("anyOf", "widened"): _("There is one more form of {what}."),
    ("anyOf", "retyped"): _("There is one more form of {what}, of another type."),
    ("oneOf", "narrowed"): _("One of the forms of {what} is gone."),
    ("oneOf", "retyped"): _("There is one more form of {what}, of another type."),
}
_ADDED = {
    "widens_risk": _(
        "The {what} was added, where any other name was accepted before. Please compare the two."
    ),
    "breaks_callers": _("The {what} was added and is required."),
    "compatible": _("The {what} was added and is optional."),
}
_LIMIT_CHANGED = {
    "removed": _("The {what} no longer has a {limit}; it was {before}."),
    "added": _("The {what} now has a {limit}: {after}."),
    "moved": _("The {limit} of {what} is now {after}; it was {before}."),
}
_LIMITS = {
    "min": _("minimum"),
    "max": _("maximum"),
    "max_length": _("maximum length"),
    "minimum": _("minimum"),
    "maximum": _("maximum"),
    "minLength": _("minimum length"),
    "maxLength": _("maximum length"),
    "minItems": _("minimum number of items"),
    "maxItems": _("maximum number of items"),
    "minProperties": _("minimum number of members"),
    "maxProperties": _("maximum number of members"),
    "multipleOf": _("step"),
}
_VALUE = {
    ("inputs", "widened"): _("The {what} now accepts {value}."),
    ("inputs", "narrowed"): _("The {what} no longer accepts {value}."),
    ("inputs", "changed"): _("Whether the {what} takes {value} cannot be judged. Please compare the two."),
    ("outputs", "changed"): _("Whether the {what} can be {value} cannot be judged. Please compare the two."),
    ("outputs", "widened"): _("The {what} can now be {value}."),
    ("outputs", "narrowed"): _("The {what} can no longer be {value}."),
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


# The things that a path names on each side: an input, a member of one, a member of the whole, and the whole.
_NAMED = {"inputs": _("input {name}"), "outputs": _("output {name}")}
_MEMBER_OF_NAMED = {
    "inputs": _("member {member} of input {name}"),
    "outputs": _("member {member} of output {name}"),
}
_MEMBER_OF_OBJECT = {
    "inputs": _("member {member} of the input"),
    "outputs": _("member {member} of the output"),
}
_OBJECT = {"inputs": _("input object"), "outputs": _("output object")}
_REORDERED = {
    "inputs": _("The inputs are in another order."),
    "outputs": _("The outputs are in another order."),
}


class _Subject(NamedTuple):
    """The input, output or object that a path is about, and the member of it that has changed.

    what: None for the order of all inputs or outputs. value: an allowed value, for a member of their list.
    """

    side: str
    what: Wording | None
    member: str
    value: str | None

    @classmethod
    def of_path(cls, path: str, kind: str) -> "_Subject":
        parts = list(pointers.split(f"/{path}"))
        side = _TOGETHER.get(parts[0], parts[0])
        if parts[0] in _TOGETHER:
            inside, remaining_parts = _split_place(parts[1:])
            if inside:
                subject = Wording(_MEMBER_OF_OBJECT[side], {"member": quote_value(inside)})
            else:
                subject = Wording(_OBJECT[side])
        elif len(parts) == 1:
            return cls(side, None, "", None)
        elif parts[2:3] == ["schema"]:
            inside, remaining_parts = _split_place(parts[3:])
            remaining_parts = remaining_parts or ([] if kind in ("added", "removed") else ["schema"])
            if inside:
                names = {"member": quote_value(inside), "name": quote_value(parts[1])}
                subject = Wording(_MEMBER_OF_NAMED[side], names)
            else:
                subject = Wording(_NAMED[side], {"name": quote_value(parts[1])})
        else:
            remaining_parts, subject = parts[2:], Wording(_NAMED[side], {"name": quote_value(parts[1])})
        member = "allowed_values" if remaining_parts[:1] == ["enum"] else "".join(remaining_parts[:1])
        value = "/".join(remaining_parts[1:]) if member == "allowed_values" and remaining_parts[1:] else None
        return cls(side, subject, member, value)


def join_path(parts: Iterable[str]) -> str:
    return pointers.join(parts).removeprefix("/")


def wording_of(path: str, kind: str, effect: str, before: object, after: object) -> Wording:
    if path == "annotations/destructive" and before is True:
        return Wording(_DESTRUCTIVE_WITHDRAWN, {"after": quote_value(after)})
    if path in _TOOL:
        return Wording(_TOOL[path], {"before": quote_value(before), "after": quote_value(after)})
    subject = _Subject.of_path(path, kind)
    if subject.what is None:
        return Wording(_REORDERED[subject.side])
    if not subject.member and kind in ("added", "removed"):
        if kind == "removed" or subject.side == "outputs":
            template = _("The {what} was removed.") if kind == "removed" else _("The {what} was added.")
            return Wording(template, {"what": subject.what})
        return Wording(_ADDED.get(effect, _ADDED["compatible"]), {"what": subject.what})
    if subject.value is not None:
        # A structure is a part of the path as JSON.
        structures = [value for value in (before, after) if isinstance(value, dict | list)]
        value = quote_value(structures[0] if structures else subject.value)
        if kind == "text":
            template = _("The description of {value} for {what} has changed.")
            return Wording(template, {"value": value, "what": subject.what})
        return Wording(_VALUE[subject.side, kind], {"what": subject.what, "value": value})
    if subject.member in _LIMITS:
        template = _LIMIT_CHANGED["removed" if after is None else "added" if before is None else "moved"]
        limit = Wording(_LIMITS[subject.member])
        return Wording(template, {"what": subject.what, "limit": limit, "before": before, "after": after})
    words = _MEMBER.get((subject.member, kind)) or _MEMBER.get(subject.member)
    if words is None or (effect == "widens_risk" and kind == "changed" and "compare" not in words):
        return _rule_changed(subject, kind, effect)
    return Wording(words, {"what": subject.what, "before": quote_value(before), "after": quote_value(after)})


def _split_place(parts: list[str]) -> tuple[str, list[str]]:
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


def _rule_changed(subject: _Subject, kind: str, effect: str) -> Wording:
    rule = Wording(_("schema of {what}"), {"what": subject.what})
    if subject.member and subject.member != "schema":
        names = {"rule": quote_value(subject.member), "what": subject.what}
        rule = Wording(_("rule {rule} for the {what}"), names)
    if effect == "widens_risk":
        template = _("The {rule} has changed in a way that cannot be judged. Please compare the two.")
    elif effect == "cosmetic":
        template = _("The {rule} is written differently and means the same.")
    elif kind == "widened":
        template = _("The {rule} accepts more than before.")
    elif kind == "narrowed":
        template = _("The {rule} accepts less than before.")
    else:
        template = _("The {rule} has changed.")
    return Wording(template, {"rule": rule})


def quote_value(value: object) -> str | Wording:
    if value is None or value == []:
        return Wording(_("nothing"))
    if isinstance(value, bool):
        return Wording(_("yes") if value else _("no"))
    if isinstance(value, list):
        return _shorten(", ".join(str(quote_value(item)) for item in value), 120)
    if isinstance(value, dict):
        return _shorten(outline(value).replace("\n", "; "), 120)
    text = value if isinstance(value, str) else canonical(value).decode()
    return f"“{_shorten(text, 60)}”"


def _shorten(text: str, longest: int) -> str:
    return f"{text[: longest - 1]}…" if len(text) > longest else text
