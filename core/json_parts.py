"""Read JSON text in which some values are broken, and return the readable ones.

A vendor's list contains many tools, and a NaN in one of them must not cost the others. Only faults that end
with their value are tolerated, such as a word that JSON does not have, or a text with a wrong escape. Text
with a missing comma or quote is rejected, because a reader would have to guess where the next value begins.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from core.outbound.errors import printable

MAX_DEPTH = 128  # far above the limit for an item of a list
MAX_INTEGER_DIGITS = 4300  # the limit of jiter and of Python

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|[^ \t\r\n,:\[\]{}"]++|"', re.DOTALL)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*+)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_CONSTANTS = {"true": True, "false": False, "null": None}
_RAW_BYTE = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_OPENING = {"{": "}", "[": "]"}
_COMMA, _COLON = ",", ":"


@dataclass(frozen=True, slots=True)
class BrokenPart:
    """A value that cannot be read. `reason` completes the sentence "The item holds …".

    substitute: the value that the result of a call contains instead.
    """

    code: str
    reason: str
    substitute: Any = "\ufffd"


class UnreadableTextError(Exception):
    """The text as a whole is not JSON."""


def parse(text: str, repeated: Callable[[str], None] | None = None) -> Any:
    """Return the value of the text, with a `BrokenPart` for each value that cannot be read.

    The text may contain surrogates in place of bytes that are not UTF-8 (`surrogateescape`). A member with a
    repeated key is broken. With `repeated` its last value is used instead, and `repeated` is called with the
    key. Raises UnreadableTextError.
    """
    return _PartsReader(repeated).parse(text)


def find_broken(value: object, *, is_in_entries: bool = True) -> BrokenPart | None:
    """Return the first broken part of the value, or None.

    is_in_entries: also search objects that are entries of an array.
    """
    level = [value]
    while level:
        below: list[object] = []
        for part in level:
            if isinstance(part, BrokenPart):
                return part
            if isinstance(part, dict):
                below += part.values()
            elif isinstance(part, list):
                below += [entry for entry in part if is_in_entries or not isinstance(entry, dict)]
        level = below
    return None


@dataclass(slots=True)
class _Container:
    """An array or object that is being read. `expects` lists the tokens that may follow."""

    value: Any
    expects: str = "value end"
    key: str = ""
    broken_key: BrokenPart | None = None


@dataclass(slots=True)
class _PartsReader:
    repeated: Callable[[str], None] | None
    containers: list[_Container] = field(default_factory=lambda: [_Container([], "value")])
    # Closing brackets that must follow. Inside a value that is too deep, which is skipped, there are more of
    # them than containers.
    closing: list[str] = field(default_factory=list)

    def parse(self, text: str) -> Any:
        for match in _TOKEN.finditer(text):
            token = match[0]
            if token in _OPENING:
                closing = _OPENING[token]
                if not self._is_skipping():
                    self._require_next("value")
                    if len(self.containers) > MAX_DEPTH:
                        self._add_value(BrokenPart("JSON_DEPTH", f"values nested more than {MAX_DEPTH} deep"))
                    else:
                        is_object = closing == "}"
                        self.containers.append(_Container({}, "key end") if is_object else _Container([]))
                self.closing.append(closing)
            elif token in ("}", "]"):
                was_skipping = self._is_skipping()
                if not self.closing or self.closing.pop() != token:
                    raise UnreadableTextError
                if not was_skipping:
                    self._end_container()
            elif not self._is_skipping():
                self._read_token(token)
        text_level = self.containers[0]
        is_complete = text_level.expects == "comma end" and len(text_level.value) == 1
        if len(self.containers) > 1 or self.closing or not is_complete:
            raise UnreadableTextError
        return text_level.value[0]

    def _end_container(self) -> None:
        container = self.containers[-1]
        if container.expects in ("key", "value") and container.value:
            # It ends after a comma. The container itself is broken, and its values so far are the substitute.
            container.value = BrokenPart("JSON_SYNTAX", "a comma without a value", container.value)
        else:
            self._require_next("end")
        self._add_value(self.containers.pop().value)

    def _is_skipping(self) -> bool:
        return len(self.closing) >= len(self.containers)

    def _read_token(self, token: str) -> None:
        container = self.containers[-1]
        if token == _COMMA:
            self._require_next("comma")
            container.expects = "key" if isinstance(container.value, dict) else "value"
        elif token == _COLON:
            self._require_next("colon")
            container.expects = "value"
        elif "key" in container.expects:
            key = _read_string(token)
            container.broken_key = key if isinstance(key, BrokenPart) else None
            name = key if isinstance(key, str) else _RAW_BYTE.sub("\ufffd", str(key.substitute))
            container.key, container.expects = name, "colon"
        else:
            self._require_next("value")
            self._add_value(_read_scalar(token))

    def _require_next(self, kind: str) -> None:
        if kind not in self.containers[-1].expects:
            raise UnreadableTextError

    def _add_value(self, value: Any) -> None:
        container = self.containers[-1]
        container.expects = "comma end"
        if isinstance(container.value, list):
            container.value.append(value)
            return
        if container.broken_key:
            value = replace(container.broken_key, substitute=value)
        elif container.key in container.value:
            if self.repeated:
                self.repeated(container.key)
            else:
                value = BrokenPart("JSON_DUPLICATE", f'the key "{printable(container.key)}" twice', value)
        container.value[container.key] = value


def _read_string(token: str) -> str | BrokenPart:
    if token[0] != '"' or len(token) == 1:
        raise UnreadableTextError
    # A string without escapes and control characters needs no decoding.
    if "\\" not in token and token.isprintable():
        return token[1:-1]
    try:
        text = json.loads(token)
    except ValueError:
        # Control characters stay, and a wrong escape is read as plain characters.
        try:
            escaped = _ESCAPE.sub(lambda match: match[0] if len(match[0]) > 1 else r"\\", token)
            text = str(json.loads(escaped, strict=False))
        except ValueError:
            text = token[1:-1]
        return BrokenPart("JSON_SYNTAX", "a text that is not valid JSON", text)
    if _RAW_BYTE.search(token):
        return BrokenPart("NOT_UTF8", "a text that is not UTF-8", text)
    return str(text)


def _read_scalar(token: str) -> Any:
    if token[0] == '"':
        return _read_string(token)
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    if _INTEGER.fullmatch(token):
        if len(token) > MAX_INTEGER_DIGITS:
            return BrokenPart("JSON_NUMBER", f"a number of {len(token):,} digits", token)
        return int(token)
    if _NUMBER.fullmatch(token):
        return float(token)
    return BrokenPart("JSON_SYNTAX", f"{printable(token, 40)}, which is not a JSON value", token)
