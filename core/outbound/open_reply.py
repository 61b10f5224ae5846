"""Interfaces for replies that stay open while another request sends the data that the vendor waits for.

core/open_replies.py implements them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from core.outbound.reply import Reply
from core.outbound.request import IsEnough


class OpenReply(Protocol):
    @property
    def facts(self) -> Mapping[str, Any]:
        """The JSON that was stored with the reply."""
        ...

    def set_facts(self, facts: Mapping[str, Any]) -> None:
        """Replace the facts."""
        ...

    def claim(self, action: str) -> bool:
        """Return whether the caller is the first to claim the action for this reply."""
        ...

    def release(self, action: str) -> None:
        """Give a claim back whose action was not done."""
        ...

    def read(self, is_enough: IsEnough, seconds: float, is_unwanted: Callable[[], bool]) -> Reply: ...

    def discard(self) -> None:
        """Close the reply without reading it."""
        ...


class OpenReplies(Protocol):
    """A store of open replies.

    origin: of the reply; only sessions with this origin find it. holder: the number of places is limited for
    each.
    holds_secret: whether bytes contain a secret, which no reply may contain.
    """

    def add(
        self,
        reply: Reply,
        facts: Mapping[str, Any],
        *,
        origin: str,
        holder: str,
        holds_secret: Callable[[bytes], bool],
        on_expiry: Callable[[Mapping[str, Any]], None],
    ) -> str | None: ...

    def find(self, name: str, origin: str) -> OpenReply | None: ...

    def keep_facts(self, facts: Mapping[str, Any], origin: str) -> str | None: ...

    def find_facts(self, name: str, origin: str) -> Mapping[str, Any] | None: ...
