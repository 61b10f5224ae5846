"""Replies that stay open while another request brings what their vendor waits for: what a session wants of
whatever keeps them open. How that is done: core/open_replies.py."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from core.outbound.reply import Reply
from core.outbound.request import IsEnough


class OpenReply(Protocol):
    @property
    def facts(self) -> Mapping[str, Any]:
        """What was said of it when it was put here, as JSON."""
        ...

    def read(self, is_enough: IsEnough, seconds: float, is_unwanted: Callable[[], bool]) -> Reply: ...

    def leave(self) -> None:
        """Nothing of it is wanted any more."""
        ...


class OpenReplies(Protocol):
    def add(
        self, reply: Reply, host: str, facts: Mapping[str, Any], on_expiry: Callable[[], None]
    ) -> str | None: ...

    def find(self, name: str) -> OpenReply | None: ...
