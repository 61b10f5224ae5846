"""Cursors of an unchanging list: the position of the next page and the id of the list."""

import base64
import binascii
import hashlib
import re

UNKNOWN_LIST = "The cursor belongs to a list that does not exist any more. Start again without a cursor."
_PLAIN = re.compile(r"([0-9a-f]{16}):([0-9]{1,7})")


def encode_cursor(list_id: str, position: int) -> str:
    """Return a cursor. list_id: names the whole list, so that the cursor is invalid for every other list."""
    return base64.urlsafe_b64encode(f"{_list_digest(list_id)}:{position}".encode()).decode()


def decode_cursor(cursor: object, list_id: str, count: int) -> int | None:
    """Return the position in a list of `count` entries, or None for an invalid cursor or one of another
    list, such as after a channel has moved."""
    try:
        plain = base64.urlsafe_b64decode(cursor).decode() if isinstance(cursor, str) else ""
    except (binascii.Error, UnicodeError, ValueError):
        return None
    match = _PLAIN.fullmatch(plain)
    if match is None or match[1] != _list_digest(list_id) or int(match[2]) >= count:
        return None
    return int(match[2])


def _list_digest(list_id: str) -> str:
    return hashlib.sha256(list_id.encode()).hexdigest()[:16]
