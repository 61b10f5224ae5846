"""Errors of the validation library as sentences for people. Each follows the name of a value."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind

from core.outbound.errors import printable
from core.value_descriptions import describe_value

MAX_NAMED = 20

TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
FORMATS = {
    "date": "a date such as 2027-03-09",
    "date-time": "a date and time such as 2027-03-09T14:30:00Z",
    "duration": "a duration such as P3DT4H",
    "email": "an e-mail address",
    "hostname": "the name of a host",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
    "time": "a time such as 14:30:00Z",
    "uri": "an address such as https://example.com/",
    "uuid": "a UUID",
}
NO_FORM = "fits none of the forms that the vendor takes"
UNKNOWN = "is not known here"

_SENTENCES: dict[type[Kind], Callable[[Any], str]] = {
    Kind.Constant: lambda kind: f"must be {_describe(kind.expected_value)}",
    Kind.Contains: lambda _: "has no entry that fits what the vendor asks for",
    Kind.Enum: lambda kind: f"must be one of {_list_options(kind.options)}",
    Kind.ExclusiveMaximum: lambda kind: f"must be less than {kind.limit}",
    Kind.ExclusiveMinimum: lambda kind: f"must be more than {kind.limit}",
    Kind.FalseSchema: lambda _: "must not be given",
    Kind.Format: lambda kind: (
        f"must be {FORMATS.get(kind.format, f'of the form “{printable(kind.format)}”')}"
    ),
    Kind.MaxItems: lambda kind: _pluralize(
        kind.limit, "must not have more than 1 entry", "must not have more than {count} entries"
    ),
    Kind.MaxLength: lambda kind: _pluralize(
        kind.limit, "must not be longer than 1 character", "must not be longer than {count} characters"
    ),
    Kind.MaxProperties: lambda kind: _pluralize(
        kind.limit, "must not have more than 1 member", "must not have more than {count} members"
    ),
    Kind.Maximum: lambda kind: f"must be at most {kind.limit}",
    Kind.MinItems: lambda kind: _pluralize(
        kind.limit, "must have at least 1 entry", "must have at least {count} entries"
    ),
    Kind.MinLength: lambda kind: _pluralize(
        kind.limit, "must have at least 1 character", "must have at least {count} characters"
    ),
    Kind.MinProperties: lambda kind: _pluralize(
        kind.limit, "must have at least 1 member", "must have at least {count} members"
    ),
    Kind.Minimum: lambda kind: f"must be at least {kind.limit}",
    Kind.MultipleOf: lambda kind: f"must be a multiple of {kind.multiple_of}",
    Kind.Not: lambda _: "is excluded by the vendor",
    Kind.OneOfMultipleValid: lambda _: "fits more than one of the forms of which the vendor takes one",
    Kind.Pattern: lambda kind: f"must match the pattern {printable(kind.pattern)}",
    Kind.PropertyNames: lambda _: "has a member whose name is not allowed",
    Kind.Type: lambda kind: f"must be {types(kind.types)}",
    Kind.UniqueItems: lambda _: "must not hold the same entry twice",
}


def sentence(error: jsonschema_rs.ValidationError) -> str:
    write = _SENTENCES.get(type(error.kind))
    return write(error.kind) if write else "does not fit the vendor's schema"


def needs(forms: Iterable[Sequence[str]]) -> str:
    """Return which names a value lacks to fit one of several forms. forms: the missing names of each form."""
    ways = dict.fromkeys(" and ".join(printable(name, 60) for name in names) for names in forms)
    return f"lacks {' or '.join(ways)}"


def types(names: Iterable[str]) -> str:
    # Null is left out if there is another type, because people omit a value instead.
    type_names = set(names)
    return " or ".join(
        [word for name, word in TYPES.items() if name in type_names - {"null"}] or [TYPES["null"]]
    )


def _describe(value: object) -> str:
    return "null" if value is None else describe_value(value)


def _list_options(values: Sequence[object]) -> str:
    # Quotes distinguish a text from other values, and are left out if there are only texts.
    texts = [printable(value, 60) for value in values[: MAX_NAMED + 1] if isinstance(value, str)]
    if len(texts) == len(values[: MAX_NAMED + 1]):
        return _join_words(texts)
    return _join_words(map(_describe, values[: MAX_NAMED + 1]))


def _join_words(words: Iterable[str]) -> str:
    first = list(words)
    return ", ".join(first[:MAX_NAMED]) + (", …" if len(first) > MAX_NAMED else "")


def _pluralize(number: int, one: str, many: str) -> str:
    return one if number == 1 else many.format(count=number)


def place(path: Sequence[str | int]) -> str:
    """Return a path such as `address.lines[2]`, in the names of the vendor or the caller."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{printable(part, 60)}"
    return text.removeprefix(".")
