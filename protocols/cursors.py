"""Cursors of a list that stays as it is: where its next page begins, and which list it is."""

import base64
import binascii
import hashlib
import re

OF_NO_LIST = "This cursor is of no list that is there now. Start again without one."
_PLAIN = re.compile(r"([0-9a-f]{16}):([0-9]{1,7})")


def written(of: str, at: int) -> str:
    """`of` names the whole list, so that a cursor is good for no other."""
    return base64.urlsafe_b64encode(f"{_mark(of)}:{at}".encode()).decode()


def read(cursor: object, of: str, count: int) -> int | None:
    """Where the page begins in a list of `count`; None for a cursor of another list or of none, as when a
    channel has moved between two pages."""
    try:
        plain = base64.urlsafe_b64decode(cursor).decode() if isinstance(cursor, str) else ""
    except (binascii.Error, UnicodeError, ValueError):
        return None
    found = _PLAIN.fullmatch(plain)
    return int(found[2]) if found and found[1] == _mark(of) and int(found[2]) < count else None


def _mark(of: str) -> str:
    return hashlib.sha256(of.encode()).hexdigest()[:16]
