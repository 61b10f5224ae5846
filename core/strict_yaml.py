"""Read YAML from a vendor as JSON values.

Scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): `no` is a string,
2020-01-01 is a string, 010 is ten. Tags create no objects. The values of an alias count each time it is used,
and nesting and size are limited. PyYAML's parser in C turns the text into events; this module builds the
value from them, so that it can count.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml._yaml import CParser

from core import strict_json
from core.json_parts import BrokenPart
from core.outbound.errors import ProtocolViolationError, printable
from core.strict_json import PartialDocument

MAX_DEPTH = 100
MAX_VALUES = 1_000_000
CHARACTERS_PER_VALUE = 32  # so that a long string counts for more, each time it is used
MAX_INTEGER_DIGITS = 4300

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = {"0o": 8, "0x": 16}
_BASED_INTEGER = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_PREFIX = "tag:yaml.org,2002:"
_MERGE = "<<"


@dataclass(slots=True)
class _OpenCollection:
    """A collection whose end has not been read. `key` is None while a mapping waits for its next key."""

    value: dict[str, Any] | list[Any]
    size_before: int
    anchor: str | None
    key: str | None = None
    merged: list[Any] = field(default_factory=list)


def loads(body: bytes, times: int, repeated: Callable[[str], None]) -> PartialDocument:
    """Return the value, with a `BrokenPart` for each number that is too long and each part that is too deep.

    The last value of a repeated key is used, and `repeated` is called with the key.
    times: the factor on the usual limit of values.

    Raises ProtocolViolationError: YAML_SYNTAX, YAML_ALIAS, JSON_TOO_MANY, NOT_UTF8.
    """
    try:
        parser = CParser(body.decode("utf-8-sig"))
        composer = _Composer(MAX_VALUES * times, repeated)
        while event := parser.get_event():
            composer.take(event)
    except UnicodeDecodeError as exc:
        raise ProtocolViolationError("NOT_UTF8", f"The reply is not UTF-8 (byte {exc.start}).") from exc
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        position = f" in line {mark.line + 1}" if mark else ""
        problem = printable(str(getattr(exc, "problem", "") or "it cannot be read"))
        raise ProtocolViolationError("YAML_SYNTAX", f"The reply is not YAML{position}: {problem}.") from exc
    if composer.documents != 1:
        raise ProtocolViolationError("YAML_SYNTAX", "The reply is not one YAML document.")
    # Within double quotes YAML also allows these escapes of NUL.
    is_suspect = b"\\0" in body or b"\\x00" in body or strict_json.may_hold_unstorable(body)
    return PartialDocument(composer.result, is_suspect=is_suspect or composer.has_broken_parts)


class _Composer:
    """Builds the value from events, without recursion. `report_repeated` is called with each repeated key."""

    def __init__(self, max_values: int, report_repeated: Callable[[str], None]) -> None:
        self.max_values = max_values
        self.report_repeated = report_repeated
        self.result: Any = None
        self.documents = 0
        self.has_broken_parts = False
        self._skipped = 0  # open collections inside a part that is too deep
        self._open: list[_OpenCollection] = []
        self._size = 0
        self._anchors: dict[str, tuple[Any, int]] = {}

    def take(self, event: yaml.Event) -> None:
        if self._skipped:
            self._count_values(1)
            self._skipped += isinstance(event, yaml.CollectionStartEvent)
            self._skipped -= isinstance(event, yaml.CollectionEndEvent)
            return
        match event:
            case yaml.ScalarEvent():
                size = 1 + len(event.value) // CHARACTERS_PER_VALUE
                self._count_values(size)
                value = event.value if self._is_key() else _resolve_scalar(event)
                self.has_broken_parts |= isinstance(value, BrokenPart)
                if event.anchor:
                    self._anchors[event.anchor] = (value, size)
                self._add_value(value)
            case yaml.MappingStartEvent():
                self._start_collection(_OpenCollection({}, self._size, event.anchor))
            case yaml.SequenceStartEvent():
                self._start_collection(_OpenCollection([], self._size, event.anchor))
            case yaml.CollectionEndEvent():
                self._end_collection()
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    message = (
                        f"The reply refers to “{printable(str(event.anchor), 60)}” before it is complete."
                    )
                    raise ProtocolViolationError("YAML_ALIAS", message)
                value, size = self._anchors[event.anchor]
                self._count_values(size)
                self._add_value(value)
            case yaml.DocumentStartEvent():
                self.documents += 1
                self._anchors.clear()

    def _start_collection(self, opened_collection: _OpenCollection) -> None:
        if self._is_key():
            raise ProtocolViolationError("YAML_SYNTAX", "The reply uses a collection as a key.")
        self._count_values(1)
        if len(self._open) >= MAX_DEPTH:
            self.has_broken_parts = True
            self._skipped = 1
            self._add_value(BrokenPart("JSON_DEPTH", f"values nested more than {MAX_DEPTH} deep"))
        else:
            self._open.append(opened_collection)

    def _end_collection(self) -> None:
        ended = self._open.pop()
        value = ended.value
        if ended.merged and isinstance(value, dict):
            value = ended.value = {k: v for part in reversed(ended.merged) for k, v in part.items()} | value
        if ended.anchor:
            self._anchors[ended.anchor] = (value, self._size - ended.size_before)
        self._add_value(value)

    def _is_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _count_values(self, size: int) -> None:
        self._size += size
        if self._size > self.max_values:
            raise ProtocolViolationError(
                "JSON_TOO_MANY", f"The reply holds more than {self.max_values:,} values."
            )

    def _add_value(self, value: Any) -> None:
        if not self._open:
            self.result = value
            return
        top = self._open[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is None:
            if not isinstance(value, str):
                message = "The reply uses a value other than a string as a key."
                raise ProtocolViolationError("YAML_SYNTAX", message)
            top.key = value
        else:
            key, top.key = top.key, None
            parts = value if isinstance(value, list) else [value]
            if key == _MERGE and all(isinstance(part, dict) for part in parts):
                top.merged += parts
                return
            if key in top.value:
                self.report_repeated(key)
            top.value[key] = value


def _resolve_scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    tag = (event.tag or "").removeprefix(_PREFIX)
    if tag == "str" or (not event.tag and not event.implicit[0]) or event.tag == "!":
        return text
    if tag in ("", "null") and _NULL.fullmatch(text):
        return None
    if tag in ("", "bool") and _BOOLEAN.fullmatch(text):
        return text[0] in "tT"
    if tag not in ("", "int", "float") or not text or text[0] not in "-+.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        if len(text) > MAX_INTEGER_DIGITS:
            return BrokenPart("JSON_NUMBER", f"a number of {len(text):,} digits")
        return int(text)
    if _BASED_INTEGER.fullmatch(text):
        return int(text[2:], _BASED[text[:2]])
    return float(text) if _FLOAT.fullmatch(text) else text
