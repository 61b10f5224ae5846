"""Reads the members of a vendor's item. A fault names the member and costs that one item.

`where` is what stands before the member in a message: "" at the top, `input_parameters[2].` inside.
Absent and null are the same: not sent.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from core.canonical_json import canonical
from core.outbound.errors import printable
from core.value_descriptions import describe_value
from protocols.base import UnreadableItemError

MAX_TEXT_BYTES = 32 * 1024  # bytes of UTF-8
SURELY_SHORT = MAX_TEXT_BYTES // 4  # characters: one is at most four bytes, so these need no counting
MAX_NAME_LENGTH = 1024
MAX_ITEM_BYTES = 1024 * 1024  # bytes of canonical JSON


def content(document: object, what: str = "tool") -> bytes:
    """One item as canonical JSON, which its digest is made of. Raises UnreadableItemError."""
    written = canonical(document)
    if len(written) > MAX_ITEM_BYTES:
        reason = f"The {what} is {len(written):,} bytes of JSON; the limit is {MAX_ITEM_BYTES:,}."
        raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
    return written


def text(raw: Mapping[str, Any], member: str, where: str = "") -> str:
    """Natural language of any length that the catalog takes; "" when it was not sent."""
    value = raw.get(member)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise wrong(where + member, value, "text")
    if len(value) > SURELY_SHORT and len(value.encode(errors="surrogatepass")) > MAX_TEXT_BYTES:
        raise UnreadableItemError(
            "TEXT_TOO_LONG", f"“{where}{member}” is longer than {MAX_TEXT_BYTES // 1024} kB."
        )
    return value


def name(raw: Mapping[str, Any], member: str, where: str = "", *, code: str = "SHAPE") -> str:
    """Text that something is called by: it must be there, and not be blank."""
    value = raw.get(member)
    if isinstance(value, str) and value.strip() and len(value) <= MAX_NAME_LENGTH:
        return value
    raise wrong(where + member, value, f"text of 1 to {MAX_NAME_LENGTH:,} characters", code=code)


def array(raw: Mapping[str, Any], member: str, where: str = "") -> list[Any]:
    value = raw.get(member)
    if value is not None and not isinstance(value, list):
        raise wrong(where + member, value, "an array")
    return value or []


def number(raw: Mapping[str, Any], member: str, where: str = "", *, whole: bool) -> int | float | None:
    """A number, or None when it was not sent. 7.0 is the whole number 7."""
    value = raw.get(member)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise wrong(where + member, value, "a whole number" if whole else "a number")
    return value


def alias(raw: Mapping[str, Any], names: Sequence[str], where: str = "") -> str | None:
    """Of the names that a member goes by, the one it was sent under; None when it was not sent."""
    sent = [name for name in names if raw.get(name) is not None]
    if len(sent) > 1 and any(raw[name] != raw[sent[0]] for name in sent):
        raise UnreadableItemError(
            "SHAPE", f"“{where}{sent[0]}” and “{where}{sent[-1]}” contradict each other."
        )
    return sent[0] if sent else None


def unique(texts: Sequence[str], where: str, *, code: str = "SHAPE") -> None:
    if len(set(texts)) < len(texts):
        twice = next(text for number, text in enumerate(texts) if text in texts[:number])
        raise UnreadableItemError(code, f"“{where}” is “{printable(twice, 60)}” twice.")


def wrong(where: str, value: object, wanted: str, *, code: str = "SHAPE") -> UnreadableItemError:
    return UnreadableItemError(code, f"“{where}” is {describe_value(value)}; it must be {wanted}.")
