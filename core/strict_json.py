"""JSON from a vendor, which can be read in one way only.

Duplicate keys, other encodings, NaN and endless nesting are refused and not guessed at, as
https://www.rfc-editor.org/rfc/rfc7493 asks. A good document takes the fast parser alone; the exact
one names the fault when the fast one fails.

A listing should lose one item, not a page, to a string or number that the database cannot hold:
`loads(body, allow_unstorable=True)`, and where `may_hold_unstorable(body)`, ask `unstorable(item)`.
"""

import json
import math
import re
from typing import Any
from urllib.parse import urlsplit

import jiter

from core.outbound.errors import ProtocolViolationError, printable
from core.outbound.reply import Reply

# Far below where Python's own recursion ends, and far above what vendors send.
MAX_DEPTH = 64
MAX_VALUES = 500_000
MAX_CONTAINERS = 400_000  # an object of one member takes 230 bytes
MAX_INTEGER_DIGITS = 4300  # of jiter, and of Python's own conversion

_BOM = b"\xef\xbb\xbf"
_DIGITS = bytes.maketrans(b"123456789E+", b"000000000e0")
_BEFORE_A_NUMBER = b" :,[\t\r\n"
# NUL, or half of a surrogate pair: a high one that no low one follows, or a low one after no high one.
# It starts with one plain character, which the engine skips to fast. An escaped backslash before it
# makes a false alarm, which costs a closer look and no more.
_ODD_ESCAPE = re.compile(
    rb"""\\(?:u0000
          | u[dD](?: [89abAB]..(?!\\u[dD][c-fC-F])
                   | (?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F]))""",
    re.VERBOSE,
)


def require_json(reply: Reply, *, allow_unstorable: bool = False) -> Any:
    """The document in a reply. The content type is taken loosely, but a web page is named as one."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not reply.body.strip():
        raise ProtocolViolationError("EMPTY_REPLY", "The reply is empty.")
    fits = kind in ("", "text/plain") or kind.endswith(("/json", "+json"))
    looks_like_html = reply.body[:100].lstrip(_BOM + b" \t\r\n").startswith(b"<")
    if kind in ("text/html", "application/xhtml+xml") or (fits and looks_like_html):
        sent = f"a web page ({kind})" if not fits else "what looks like a web page"
        raise _not_json(reply, f"{sent}. Is the address right, or is a login needed?")
    if not fits:
        raise _not_json(reply, f"{printable(kind)} where JSON was expected.")
    return loads(reply.body, allow_unstorable=allow_unstorable)


def _not_json(reply: Reply, sent: str) -> ProtocolViolationError:
    return ProtocolViolationError("NOT_JSON", f"{urlsplit(reply.url).netloc or 'The vendor'} sent {sent}")


def loads(body: bytes, *, allow_unstorable: bool = False, times: int = 1) -> Any:
    """It may hold so many `times` as many values as usual."""
    body = body.removeprefix(_BOM)
    # Three bytes on the wire can be eighty in memory; an honest page of 10 MB stays below. The marks are
    # counted alone, those inside texts included.
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


def may_hold_unstorable(body: bytes) -> bool:
    """Whether a look at every value is worth its price; False is certain, but says nothing of depth."""
    if b"\\" in body and _ODD_ESCAPE.search(body):
        return True
    digits = body.translate(_DIGITS)
    return b"0" * 200 in digits or _holds_big_exponent(digits)


def _holds_big_exponent(digits: bytes) -> bool:
    # Whether three digits follow an e where a number may stand. Inside strings, UUIDs look like that too.
    place = digits.find(b"0e000")
    while place >= 0:
        before = digits[max(0, place - 200) : place].rstrip(b"0.-")
        if before[-1:] in _BEFORE_A_NUMBER:
            return True
        place = digits.find(b"0e000", place + 1)
    return False


def unstorable(value: object) -> tuple[str, str] | None:
    """Code and reason when some string, number or nesting inside `value` cannot be kept."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        for part in level:
            if problem := _unstorable_part(part):
                return problem
        level = [child for part in level for child in _children(part)]
        if not level:
            return None
    return "JSON_DEPTH", f"values nested more than {MAX_DEPTH} deep"


def _unstorable_part(part: object) -> tuple[str, str] | None:
    if isinstance(part, float) and not math.isfinite(part):
        return "JSON_NUMBER", "a number that is too large"
    if isinstance(part, str):
        if "\0" in part:
            return "JSON_NUL", f'a NUL character in "{printable(part, 40)}"'
        if not part.isascii() and any("\ud800" <= char <= "\udfff" for char in part):
            return "JSON_SURROGATE", f'half of a surrogate pair in "{printable(part, 40)}"'
    return None


def _children(part: object) -> list[object]:
    if isinstance(part, dict):
        return [*part.keys(), *part.values()]
    return part if isinstance(part, list) else []


def _read_exactly(body: bytes, complaint: str) -> object:
    # Names the fault; returns the document when half surrogate pairs were all that `complaint` was about.
    try:
        text = body.decode()
    except UnicodeDecodeError as exc:
        raise ProtocolViolationError("NOT_UTF8", f"The reply is not UTF-8 (byte {exc.start}).") from exc
    # UTF-16 and UTF-32 without a mark decode as UTF-8 full of NUL characters.
    if "\0" in text[:4]:
        raise ProtocolViolationError("NOT_UTF8", "The reply is UTF-16 or UTF-32, not UTF-8.")
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_int=_integer, parse_constant=_no_constant)
    except RecursionError as exc:
        raise _too_deep() from exc
    except json.JSONDecodeError as exc:
        if "recursion limit" in complaint:
            raise _too_deep() from exc
        raise _broken(f"{exc.msg.removesuffix(' at')} at char {exc.pos}") from exc
    if "recursion limit" in complaint:
        raise _too_deep()
    if not may_hold_unstorable(body):
        raise _broken(complaint)
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            message = f'The reply repeats the key "{printable(key)}" within one object.'
            raise ProtocolViolationError("JSON_DUPLICATE", message)
        members[key] = value
    return members


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        message = f"The reply holds a number of {len(digits):,} digits."
        raise ProtocolViolationError("JSON_NUMBER", message)
    return int(digits)


def _no_constant(name: str) -> object:
    raise _broken(f"{name} is not a JSON value")


def _too_deep() -> ProtocolViolationError:
    return ProtocolViolationError("JSON_DEPTH", "The reply is nested too deeply to be read.")


def _broken(complaint: str) -> ProtocolViolationError:
    return ProtocolViolationError("JSON_SYNTAX", f"The reply is not JSON: {complaint}.")
