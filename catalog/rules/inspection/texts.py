"""Every text of a signature that a model may read, with the words for where it stands."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from protocols.signature import Signature

SIDES = {"inputs": "input", "outputs": "output"}
# What these hold came from the vendor as it stands, so the names of their members are texts as well.
# Words of the normal form, not of the vendor.
OURS = frozenset({"type", "kind"})
OPEN = frozenset({"schema", "default", "rest", "schema_rest", "outputs_rest"})
WORDS = {"schema_rest": "schema of the inputs", "outputs_rest": "schema of the outputs"}


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
        elif member not in OURS:
            yield from _walk(
                WORDS.get(member, member), value, is_open=member in OPEN, is_name=member == "name"
            )


def _parameter(side: str, parameter: dict[str, Any]) -> Iterator[Text]:
    name = parameter["name"]
    yield Text(f"name of an {side}", name, is_name=True)
    for member, value in parameter.items():
        if member not in ("name", *OURS) and not (member == "id" and value == name):
            where = f"{member.replace('_', ' ')} of the {side} “{name[:60]}”"
            yield from _walk(where, value, is_open=member in OPEN)


def _walk(where: str, value: object, *, is_open: bool = False, is_name: bool = False) -> Iterator[Text]:
    if isinstance(value, str):
        yield Text(where, value, is_name)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _walk(where, each, is_open=is_open)
    elif isinstance(value, dict):
        for key, each in value.items():
            if is_open:
                yield Text(where, key)
            yield from _walk(where, each, is_open=is_open)


def by_place(signature: Signature) -> dict[str, str]:
    """What a model is shown, the texts of one place on lines of their own; for a person who compares."""
    found: dict[str, list[str]] = {}
    for text in texts(signature):
        if text.where.startswith("id of"):
            continue  # an id is for the wire
        found.setdefault(text.where, []).append(text.value)
    return {where: "\n".join(values) for where, values in found.items()}
