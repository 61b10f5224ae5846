"""Lists on pages: the cursor of the next page, made safe to send back, and a guard against endless lists."""

import math
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from catalog.protocols.base import Page
from core.outbound.errors import ProtocolViolationError, printable

# It goes into an address, which servers take up to 8 kB of.
MAX_CURSOR_LENGTH = 2048
MAX_TOOLS_PER_REPLY = 50_000
_CURSOR = re.compile(rf"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{0,{MAX_CURSOR_LENGTH}}}")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class PageGuard:
    """Stops a list that leads back to itself, goes on without anything new, or holds more than `most`.

    Every list of pages goes through one, so no protocol has to guard itself. `way_out` says how more can be
    read.
    """

    def __init__(self, most: float = math.inf, way_out: str = "") -> None:
        self.number = 0
        self._most = most
        self._way_out = way_out
        self._seen = 0
        self._asked_on: dict[str, int] = {}

    def check(self, page: Page, *, seen: int) -> None:
        """After each page; `seen` counts the different tools that were listed so far.

        Raises ProtocolViolationError: TOO_MANY_TOOLS, CURSOR_LOOP or NO_PROGRESS.
        """
        self.number += 1
        is_progress, self._seen = seen > self._seen, seen
        if seen > self._most:
            raise ProtocolViolationError(
                "TOO_MANY_TOOLS", f"The list holds more than {self._most:,} tools. {self._way_out}".rstrip()
            )
        if page.next is None:
            return
        if page.next in self._asked_on:
            raise ProtocolViolationError(
                "CURSOR_LOOP",
                f"Page {self.number} points back to page {self._asked_on[page.next]}, "
                "so the listing never ends.",
            )
        if not is_progress:
            raise ProtocolViolationError(
                "NO_PROGRESS",
                f"Page {self.number} brought no tool that was not listed before, yet says more follow.",
            )
        self._asked_on[page.next] = self.number + 1


def counted(listed: Sequence[Any]) -> Sequence[Any]:
    """`listed` as it is, unless one reply lists more than is taken: then nothing of it is looked at."""
    if len(listed) > MAX_TOOLS_PER_REPLY:
        raise ProtocolViolationError(
            "TOO_MANY_TOOLS",
            f"One reply lists more than {MAX_TOOLS_PER_REPLY:,} tools; that is the limit. "
            "Ask the vendor to list them on pages.",
        )
    return listed


def cursor(value: object, member: str) -> str:
    """`value` as a cursor. Raises ProtocolViolationError, in which `member` says where it stood."""
    if isinstance(value, str) and _CURSOR.fullmatch(value):
        return value
    raise ProtocolViolationError(
        "BAD_CURSOR",
        f"“{member}” is not a cursor: it must be text of at most {MAX_CURSOR_LENGTH:,} characters, "
        "none of them a control character.",
    )


def cursor_of_url(value: str, parameter: str, root: str, member: str) -> str:
    # Some vendors send the next page's URL for its cursor. Theirs is fine, another server's is not.
    if not _ABSOLUTE.match(value):
        return value
    try:
        url = urlsplit(value)
        is_foreign = _origin(url) != _origin(urlsplit(root))
    except ValueError:
        return cursor(None, member)
    if is_foreign:
        where = printable(url.netloc.rpartition("@")[2]) or f"{url.scheme}:"
        raise ProtocolViolationError(
            "FOREIGN_NEXT", f"The list goes on at {where}; other servers are not asked."
        )
    return cursor(parse_qs(url.query).get(parameter, [None])[0], member)


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)
