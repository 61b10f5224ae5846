"""Read the members of a vendor's item. An error names the member and rejects only that item.

where: the prefix of the member in a message: "" at the top, `input_parameters[2].` inside. Null counts as
absent.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from core.canonical_json import canonical
from core.outbound.errors import printable
from core.value_descriptions import describe_value
from protocols.list_pages import UnreadableItemError

MAX_TEXT_BYTES = 32 * 1024  # bytes of UTF-8
SURELY_SHORT = MAX_TEXT_BYTES // 4  # characters: one is at most four bytes, so these need no counting
MAX_NAME_LENGTH = 1024
MAX_ITEM_BYTES = 1024 * 1024  # bytes of canonical JSON


def content(document: object, noun: str = "tool") -> bytes:
    """Return an item as canonical JSON, for its digest. Raises UnreadableItemError."""
    encoded = encode(document, noun)
    if len(encoded) > MAX_ITEM_BYTES:
        reason = f"The {noun} is {len(encoded):,} bytes of JSON; the limit is {MAX_ITEM_BYTES:,}."
        raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
    return encoded


def encode(value: object, noun: str = "tool") -> bytes:
    """Return a part of an item as canonical JSON. Raises UnreadableItemError for text that is no Unicode."""
    try:
        return canonical(value)
    except UnicodeEncodeError as error:
        reason = f"The {noun} contains half of a surrogate pair."
        raise UnreadableItemError("JSON_SURROGATE", reason) from error


def text(raw: Mapping[str, Any], member: str, where: str = "") -> str:
    """Return natural language of any length that the catalog accepts; "" if absent."""
    value = raw.get(member)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise wrong(where + member, value, "text")
    if not value.isascii():
        encode(value)
    if len(value) > SURELY_SHORT and len(value.encode(errors="surrogatepass")) > MAX_TEXT_BYTES:
        raise UnreadableItemError(
            "TEXT_TOO_LONG", f"“{where}{member}” is longer than {MAX_TEXT_BYTES // 1024} kB."
        )
    return value


def name(raw: Mapping[str, Any], member: str, where: str = "", *, code: str = "SHAPE") -> str:
    """Return a required name, which must not be blank."""
    value = raw.get(member)
    if isinstance(value, str) and value.strip() and len(value) <= MAX_NAME_LENGTH:
        return value
    raise wrong(where + member, value, f"text of 1 to {MAX_NAME_LENGTH:,} characters", code=code)


def array(raw: Mapping[str, Any], member: str, where: str = "") -> list[Any]:
    value = raw.get(member)
    if value is not None and not isinstance(value, list):
        raise wrong(where + member, value, "an array")
    return value or []


def number(raw: Mapping[str, Any], member: str, where: str = "", *, is_whole: bool) -> int | float | None:
    """Return a number, or None if absent. 7.0 is the integer 7."""
    value = raw.get(member)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int if is_whole else int | float):
        raise wrong(where + member, value, "a whole number" if is_whole else "a number")
    return value


def alias(raw: Mapping[str, Any], names: Sequence[str], where: str = "") -> str | None:
    """Return which of several names of a member the item uses, or None if the member is absent."""
    present = [name for name in names if raw.get(name) is not None]
    if len(present) > 1 and any(raw[name] != raw[present[0]] for name in present):
        raise UnreadableItemError(
            "SHAPE", f"“{where}{present[0]}” and “{where}{present[-1]}” contradict each other."
        )
    return present[0] if present else None


def unique(texts: Sequence[str], where: str, *, code: str = "SHAPE") -> None:
    if len(set(texts)) < len(texts):
        duplicate = next(text for number, text in enumerate(texts) if text in texts[:number])
        raise UnreadableItemError(code, f"“{where}” is “{printable(duplicate, 60)}” twice.")


def as_object(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one: for members that may be left out."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return the value if it is an array, else an empty one: for members that may be left out."""
    return value if isinstance(value, list) else []


def wrong(where: str, value: object, expected: str, *, code: str = "SHAPE") -> UnreadableItemError:
    return UnreadableItemError(code, f"“{where}” is {describe_value(value)}; it must be {expected}.")


def find_differing(document: Mapping[str, Any], rewritten: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that the rewritten document lacks or changes."""
    return {
        member: value
        for member, value in document.items()
        if member not in rewritten or canonical(rewritten[member]) != canonical(value)
    }
