"""Parse JSON from a vendor strictly, as RFC 7493 (I-JSON) requires.

Duplicate keys, other encodings than UTF-8, NaN and deep nesting are rejected. A valid document needs the fast
parser only; when that fails, an exact parser names the fault.

A value that cannot be read or stored costs one item of a list and not the page: `require_list` reads a list
part by part, and `PartialDocument.problem_in` returns the fault of an item. The result of a call must reach
its caller, because the tool has run: `require_answer` replaces the parts that cannot be read or stored.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import jiter
import msgspec

from core import json_parts
from core.json_parts import MAX_INTEGER_DIGITS, BrokenPart, UnreadableTextError
from core.outbound.errors import ProtocolViolationError, printable
from core.outbound.reply import Reply

# Far below Python's recursion limit, and far above the documents of vendors.
MAX_DEPTH = 64
MAX_VALUES = 500_000
MAX_CONTAINERS = 400_000  # an object of one member takes 230 bytes
MAX_MEMBER_VALUES = 100_000  # of one member of an item, in a list that has too many values
MAX_LIST_DEPTH = 3  # a list is at most this deep in a reply
REPLACEMENT = "\ufffd"

_BOM = b"\xef\xbb\xbf"
_DIGITS = bytes.maketrans(b"123456789E+", b"000000000e0")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_ENDS = {b"{": b"}", b"[": b"]"}
_BEFORE_A_NUMBER = b" :,[\t\r\n"
# NUL, or half of a surrogate pair: a high one without a low one after it, or a low one without a high one
# before it. The pattern starts with one plain character, which the engine finds fast. An escaped backslash
# before it is a false match, which only costs a closer inspection.
_ODD_ESCAPE = re.compile(
    rb"""\\(?:u0000
          | u[dD](?: [89abAB]..(?!\\u[dD][c-fC-F])
                   | (?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F]))""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class PartialDocument:
    """A document as a vendor sent it, with a `BrokenPart` for each value that cannot be read.

    is_suspect: a value cannot be read or may not be storable, so each item has to be inspected.
    """

    value: Any
    is_suspect: bool

    def problem_in(self, item: object) -> tuple[str, str] | None:
        """Return code and reason when the item holds a value that cannot be read or stored."""
        return unstorable(item) if self.is_suspect else None

    def require_whole(self, part: Any) -> None:
        """Raise ProtocolViolationError if a value outside of the entries of arrays cannot be read."""
        if self.is_suspect and (broken := json_parts.find_broken(part, is_in_entries=False)):
            raise ProtocolViolationError(broken.code, f"The reply holds {broken.reason}.")

    def answer_in(self, part: Any) -> "AnswerDocument":
        """Return a part of the document as the result of a call, with replacements as in `repair_value`."""
        return repair_value(part) if self.is_suspect or unstorable(part) else AnswerDocument(part)


@dataclass(frozen=True, slots=True)
class AnswerDocument:
    """The document of a reply to a call. is_repaired: characters or values in it were replaced."""

    value: Any
    is_repaired: bool = False


def require_json(reply: Reply) -> Any:
    """Return the document in a reply. Raises ProtocolViolationError."""
    return loads(_require_body(reply))


def require_list(reply: Reply) -> PartialDocument:
    """Return the document of a list in a reply. Raises ProtocolViolationError."""
    return loads_list(_require_body(reply))


def require_parts(reply: Reply) -> PartialDocument:
    """Return the document in a reply, any part of which may be broken. Raises ProtocolViolationError."""
    return loads_parts(_require_body(reply))


def require_answer(reply: Reply) -> AnswerDocument:
    """Return the document of a reply to a call. Raises ProtocolViolationError."""
    return loads_answer(_require_body(reply))


def _require_body(reply: Reply) -> bytes:
    # Several content types are accepted. A web page is reported as one.
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not reply.body.strip():
        raise ProtocolViolationError("EMPTY_REPLY", "The reply is empty.")
    fits = kind in ("", "text/plain") or kind.endswith(("/json", "+json"))
    looks_like_html = reply.body[:100].lstrip(_BOM + b" \t\r\n").startswith(b"<")
    if kind in ("text/html", "application/xhtml+xml") or (fits and looks_like_html):
        description = f"a web page ({kind})" if not fits else "what looks like a web page"
        raise _not_json(reply, f"{description}. Is the address right, or is a login needed?")
    if not fits:
        raise _not_json(reply, f"{printable(kind)} where JSON was expected.")
    return reply.body


def _not_json(reply: Reply, sent: str) -> ProtocolViolationError:
    return ProtocolViolationError("NOT_JSON", f"{urlsplit(reply.url).netloc or 'The vendor'} sent {sent}")


def loads(body: bytes, *, allow_unstorable: bool = False, times: int = 1) -> Any:
    """Parse a document. Raises ProtocolViolationError.

    times: the factor on the usual limit of values.
    """
    body = body.removeprefix(_BOM)
    # Three bytes on the wire can take eighty in memory. A normal page of 10 MB stays below the limit.
    # Commas and brackets inside strings are counted, too.
    if len(body) > MAX_CONTAINERS and (
        body.count(b",") > MAX_VALUES * times or body.count(b"{") + body.count(b"[") > MAX_CONTAINERS * times
    ):
        message = f"The reply holds more than {MAX_VALUES * times:,} values."
        raise ProtocolViolationError("JSON_TOO_MANY", message)
    try:
        value = jiter.from_json(body, catch_duplicate_keys=True, allow_inf_nan=False)
    except ValueError as exc:
        value = _read_exactly(body, str(exc))
    if not allow_unstorable and may_hold_unstorable(body) and (problem := unstorable(value)):
        code, reason = problem
        raise ProtocolViolationError(code, f"The reply holds {reason}.")
    return value


def loads_list(body: bytes) -> PartialDocument:
    """Parse a list whose items may be broken. Raises ProtocolViolationError for a fault outside of the
    items."""
    document = loads_parts(body)
    document.require_whole(document.value)
    return document


def loads_parts(
    body: bytes, *, times: int = 1, repeated: Callable[[str], None] | None = None
) -> PartialDocument:
    """Parse a document in which any part may be broken. Raises the errors of `loads` if the text as a whole
    cannot be read.

    times: the factor on the usual limit of values. repeated: called with each repeated key, whose last value
    is used; without it the member is broken, and so is a document with such a member.
    """
    try:
        return PartialDocument(loads(body, allow_unstorable=True, times=times), may_hold_unstorable(body))
    except ProtocolViolationError as error:
        text = body.removeprefix(_BOM).strip()
        if error.code == "JSON_TOO_MANY":
            try:
                value = _read_without_vast_entries(text, times)
            except (msgspec.MsgspecError, ProtocolViolationError):
                raise error from None
            return PartialDocument(value, is_suspect=True)
        # UTF-16 is full of NUL, and a reply that broke off has no end.
        if b"\0" in text[:2] or _ENDS.get(text[:1]) != text[-1:]:
            raise
        try:
            value = json_parts.parse(text.decode(errors="surrogateescape"), repeated)
        except UnreadableTextError:
            raise error from None
        # Which of two results a reply means is never guessed.
        if isinstance(value, dict) and any(
            isinstance(member, BrokenPart) and member.code == "JSON_DUPLICATE" for member in value.values()
        ):
            raise
        return PartialDocument(value, is_suspect=True)


def _read_without_vast_entries(text: bytes, times: int) -> Any:
    """Return the document of a list in which some items have too many values: each member that alone has too
    many is a `BrokenPart`.

    Raises an error if the others have too many values as well, or if the text is not JSON.
    """
    remaining = MAX_VALUES * times

    def read(part: bytes, depth: int, *, is_in_item: bool = False) -> Any:
        nonlocal remaining
        count = 1 + part.count(b",") + part.count(b"{") + part.count(b"[")
        if count <= MAX_MEMBER_VALUES:
            remaining -= count
            # The whole text is none of its parts.
            if remaining >= 0 and part is not text:
                return loads_parts(part).value
        elif is_in_item:
            return BrokenPart("JSON_TOO_MANY", f"a member with more than {MAX_MEMBER_VALUES:,} values")
        elif depth < MAX_LIST_DEPTH and part[:1] == b"{":
            members = msgspec.json.decode(part, type=dict[str, msgspec.Raw])
            return {name: read(bytes(member), depth + 1) for name, member in members.items()}
        elif depth < MAX_LIST_DEPTH:
            return [read_item(bytes(entry)) for entry in msgspec.json.decode(part, type=list[msgspec.Raw])]
        raise ProtocolViolationError("JSON_TOO_MANY", f"The reply holds more than {MAX_VALUES:,} values.")

    def read_item(item: bytes) -> Any:
        if item[:1] != b"{":
            return read(item, MAX_LIST_DEPTH)
        members = msgspec.json.decode(item, type=dict[str, msgspec.Raw])
        return {name: read(bytes(member), 0, is_in_item=True) for name, member in members.items()}

    return read(text, 0)


def loads_answer(body: bytes) -> AnswerDocument:
    """Parse the reply to a call, and replace the parts that cannot be read or stored. The tool has run, so
    its result must not be lost. Raises ProtocolViolationError if the reply as a whole cannot be read.
    """
    document = loads_parts(body)
    if not document.is_suspect:
        return AnswerDocument(document.value)
    # A list of lists of lists is no result with a part that is too deep.
    if isinstance(document.value, list) and (unstorable(document.value) or ("",))[0] == "JSON_DEPTH":
        raise _too_deep()
    return repair_value(document.value)


def repair_value(value: Any) -> AnswerDocument:
    """Return the value with a replacement for each character and value that cannot be read or stored."""
    is_repaired = False

    def repair(part: Any, depth: int) -> Any:
        nonlocal is_repaired
        match part:
            case str() if not _UNSTORABLE.search(part):
                return part
            case dict() if depth < MAX_DEPTH:
                return {repair(name, depth): repair(member, depth + 1) for name, member in part.items()}
            case list() if depth < MAX_DEPTH:
                return [repair(entry, depth + 1) for entry in part]
            case float() if math.isfinite(part):
                return part
            case int() | None:
                return part
        is_repaired = True
        match part:
            case str():
                return _UNSTORABLE.sub(REPLACEMENT, part)
            case BrokenPart():
                return repair(part.substitute, depth)
            case float():
                return "Infinity" if part > 0 else "-Infinity"
        return REPLACEMENT

    return AnswerDocument(repair(value, 0), is_repaired)


def may_hold_unstorable(body: bytes) -> bool:
    """Return whether every value has to be inspected. False is certain, except for the depth."""
    if b"\\" in body and _ODD_ESCAPE.search(body):
        return True
    digits = body.translate(_DIGITS)
    if b"0" * 200 in digits:
        return True
    # Three digits follow an e where a number can begin. UUIDs inside strings look like that, too.
    position = digits.find(b"0e000")
    while position >= 0:
        before = digits[max(0, position - 200) : position].rstrip(b"0.-")
        if before[-1:] in _BEFORE_A_NUMBER:
            return True
        position = digits.find(b"0e000", position + 1)
    return False


def unstorable(value: object) -> tuple[str, str] | None:
    """Return code and reason if a string, a number or the nesting of `value` cannot be stored."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        children: list[object] = []
        for part in level:
            if isinstance(part, str):
                if "\0" in part:
                    return "JSON_NUL", f'a NUL character in "{printable(part, 40)}"'
                if not part.isascii() and any("\ud800" <= char <= "\udfff" for char in part):
                    return "JSON_SURROGATE", f'half of a surrogate pair in "{printable(part, 40)}"'
            elif isinstance(part, float) and not math.isfinite(part):
                return "JSON_NUMBER", "a number that is too large"
            elif isinstance(part, BrokenPart):
                return part.code, part.reason
            elif isinstance(part, dict | list):
                children += part if isinstance(part, list) else [*part.keys(), *part.values()]
        level = children
        if not level:
            return None
    return "JSON_DEPTH", f"values nested more than {MAX_DEPTH} deep"


def _read_exactly(body: bytes, complaint: str) -> object:
    # Names the fault, or returns the document if half surrogate pairs caused `complaint`.
    try:
        text = body.decode()
    except UnicodeDecodeError as exc:
        raise ProtocolViolationError("NOT_UTF8", f"The reply is not UTF-8 (byte {exc.start}).") from exc
    # UTF-16 and UTF-32 without a mark decode as UTF-8 full of NUL characters.
    if "\0" in text[:4]:
        raise ProtocolViolationError("NOT_UTF8", "The reply is UTF-16 or UTF-32, not UTF-8.")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique_members,
            parse_int=_bounded_integer,
            parse_constant=_refuse_constant,
        )
    except RecursionError as exc:
        raise _too_deep() from exc
    except json.JSONDecodeError as exc:
        if "recursion limit" in complaint:
            raise _too_deep() from exc
        raise _syntax_error(f"{exc.msg.removesuffix(' at')} at char {exc.pos}") from exc
    if "recursion limit" in complaint:
        raise _too_deep()
    if not may_hold_unstorable(body):
        raise _syntax_error(complaint)
    return value


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            message = f'The reply repeats the key "{printable(key)}" within one object.'
            raise ProtocolViolationError("JSON_DUPLICATE", message)
        members[key] = value
    return members


def _bounded_integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        message = f"The reply holds a number of {len(digits):,} digits."
        raise ProtocolViolationError("JSON_NUMBER", message)
    return int(digits)


def _refuse_constant(name: str) -> object:
    raise _syntax_error(f"{name} is not a JSON value")


def _too_deep() -> ProtocolViolationError:
    return ProtocolViolationError("JSON_DEPTH", "The reply is nested too deeply to be read.")


def _syntax_error(complaint: str) -> ProtocolViolationError:
    return ProtocolViolationError("JSON_SYNTAX", f"The reply is not JSON: {complaint}.")
