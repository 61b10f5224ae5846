"""Replies that stay open while another request brings what their vendor waits for: what a session wants of
whatever keeps them open. How that is done: core/open_replies.py."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from core.outbound.reply import Reply
from core.outbound.request import IsEnough


class OpenReply(Protocol):
    @property
    def facts(self) -> Mapping[str, Any]:
        """What was said of it when it was kept open, or noted since, as JSON."""
        ...

    def note(self, facts: Mapping[str, Any]) -> None:
        """From now on these are its facts."""
        ...

    def claim(self, what: str) -> bool:
        """Whether the caller is the first that does this for it, and may."""
        ...

    def release(self, what: str) -> None:
        """It is known not to have been done."""
        ...

    def read(self, is_enough: IsEnough, seconds: float, is_unwanted: Callable[[], bool]) -> Reply: ...

    def discard(self) -> None:
        """Nothing of it is wanted any more."""
        ...


class OpenReplies(Protocol):
    """`origin` is whom a reply is of, and no one else goes on with it; places are counted by `holder`, too.
    `holds_secret` says whether bytes hold one that no reply may hold."""

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
