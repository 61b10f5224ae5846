"""The texts of a signature that a model may read, with their positions."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from core.translatable import mark
from protocols.signature import Signature

SIDES = {"inputs": mark("input"), "outputs": mark("output")}
# The values of NORMAL_FORM are words of Pegboard, not of the vendor. The members of OPEN contain the vendor's
# JSON, so their member names are texts too.
NORMAL_FORM = frozenset({"type", "kind"})
OPEN = frozenset({"schema", "default", "rest", "schema_rest", "outputs_rest"})
WORDS = {
    "description": mark("description"),
    "name": mark("name"),
    "outputs_rest": mark("schema of the outputs"),
    "schema": mark("schema"),
    "schema_rest": mark("schema of the inputs"),
    "title": mark("title"),
}


class Text(NamedTuple):
    where: str
    value: str
    is_name: bool = False


def texts(signature: Signature) -> Iterator[Text]:
    document = msgspec.to_builtins(signature)
    for member, value in document.items():
        if member in SIDES:
            for parameter in value:
                yield from _parameter(SIDES[member], parameter)
        elif member not in NORMAL_FORM:
            yield from _walk(
                WORDS.get(member, member), value, is_open=member in OPEN, is_name=member == "name"
            )


def _parameter(side: str, parameter: dict[str, Any]) -> Iterator[Text]:
    name = parameter["name"]
    yield Text(mark(f"name of an {side}"), name, is_name=True)
    for member, value in parameter.items():
        if member not in ("name", *NORMAL_FORM) and not (member == "id" and value == name):
            is_open, member = member in OPEN, member.replace("_", " ")
            yield from _walk(mark(f"{member} of the {side} “{name[:60]}”"), value, is_open=is_open)


def _walk(where: str, value: object, *, is_open: bool = False, is_name: bool = False) -> Iterator[Text]:
    if isinstance(value, str):
        yield Text(where, value, is_name)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _walk(where, item, is_open=is_open)
    elif isinstance(value, dict):
        for key, item in value.items():
            if is_open:
                yield Text(where, key)
            yield from _walk(where, item, is_open=is_open)


def by_place(signature: Signature) -> dict[str, str]:
    """Return the texts that a model reads, by position, one per line, for a user who compares versions."""
    values_by_place: dict[str, list[str]] = {}
    for text in texts(signature):
        if text.where.startswith("id of"):
            continue  # models do not read ids
        values_by_place.setdefault(text.where, []).append(text.value)
    return {where: "\n".join(values) for where, values in values_by_place.items()}
