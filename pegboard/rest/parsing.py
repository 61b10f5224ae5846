"""Bodies are read strictly: what two parsers would read differently is refused."""

import json
import math
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from django.conf import settings
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer

from people.errors import DomainError

MAX_DEPTH = 64


class StrictJSONParser(BaseParser):
    media_type = "application/json"
    renderer_class = JSONRenderer

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise DomainError("too_large", "The body is larger than 1 MB.", status=413)
        return read_object(body)


def read_object(body: bytes) -> dict[str, Any]:
    document = _decode(body)
    if not isinstance(document, dict):
        _refuse("The body must be a JSON object.")
    _check_strings(document, ())
    return document


def _decode(body: bytes) -> Any:
    try:
        return json.loads(
            body.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite
        )
    except UnicodeDecodeError as error:
        _refuse(f"Byte {error.start + 1} is not UTF-8.", error)
    except json.JSONDecodeError as error:
        _refuse(f"Line {error.lineno}, column {error.colno}: {error.msg.lower().removesuffix(' at')}.", error)
    except RecursionError as error:
        _refuse(f"It nests deeper than {MAX_DEPTH} levels.", error)
    except ValueError as error:  # Python refuses to read an integer of more than 4300 digits
        _refuse("A number is too long.", error)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            _refuse(f"The member {json.dumps(name)} stands twice in one object.")
        members[name] = value
    return members


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _refuse(f"The number {text[:40]} is out of range.")
    return number


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"{name} is not JSON.")


def _check_strings(value: Any, path: tuple[str | int, ...]) -> None:
    if len(path) > MAX_DEPTH:
        _refuse(f"It nests deeper than {MAX_DEPTH} levels.")
    if isinstance(value, str):
        _check_string(value, path)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            _check_strings(below, (*path, index))
    elif isinstance(value, dict):
        for name, below in value.items():
            _check_string(name, path)
            _check_strings(below, (*path, name))


def _check_string(text: str, path: tuple[str | int, ...]) -> None:
    """PostgreSQL stores neither NUL nor half a surrogate pair."""
    where = ".".join(str(step) for step in path)[:200] or "the body"
    if "\0" in text:
        _refuse(f"A NUL character at {where}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        _refuse(f"Half a surrogate pair at {where}.", error)


def _refuse(message: str, cause: Exception | None = None) -> NoReturn:
    raise DomainError("invalid_json", message) from cause
