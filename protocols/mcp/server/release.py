"""The contract between the server of MCP and the program that serves releases."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal
from typing import Protocol as Interface

import msgspec

from core.errors import DomainError
from protocols.mcp.server.clients import Client
from protocols.server import CallEvents, Refusal, ToolCallRequest, ToolCallResult
from protocols.signature import ContextKind

StreamKind = Literal["questions", "news"]


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument of a prompt. values: the allowed ones; empty if any text is allowed."""

    name: str
    title: str = ""
    description: str = ""
    is_required: bool = False
    values: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class ServedProcedure:
    """A text that explains how to work with the tools, served as a prompt and as a resource."""

    slug: str
    title: str
    text: str
    arguments: Mapping[str, Argument]


@dataclass(frozen=True, kw_only=True)
class ContextItem:
    """A vendor's prompt, resource or resource template. vendor_id: its name, address or template there."""

    kind: ContextKind
    vendor_id: str
    name: str
    title: str = ""
    description: str = ""
    arguments: Sequence[Argument] = ()
    media_type: str = ""


class StoreError(DomainError):
    """The store does not answer."""

    def __init__(self) -> None:
        super().__init__("unavailable", "The broker cannot be reached. Try again.", status=503)


class TextStore(Interface):
    """Small texts of one API key, for all processes. Every method raises StoreError."""

    def write(
        self, name: str, text: str | bytes, seconds: int | None, only_if: Literal["new", "old"] | None = None
    ) -> bool:
        """Store a text for some seconds, or for as long as the text before. Return whether it was stored."""
        ...

    def extend(self, name: str, seconds: int) -> None: ...
    def read(self, *names: str) -> list[str]:
        """Return the texts, "" for those that are not stored."""
        ...


class Updates(Interface):
    """Updates of resources. addresses: of the resources whose updates are reported."""

    @property
    def addresses(self) -> list[str]: ...
    def take(self) -> list[str]:
        """Return the addresses that were updated since the last time, each once."""
        ...


class McpRelease(Interface):
    """A release as an MCP server, for one client.

    slug, name, description: of its agent. list_id: a text that identifies its list of tools.
    """

    @property
    def slug(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def list_id(self) -> str: ...

    def procedures(self) -> Sequence[ServedProcedure]: ...
    def context_items(self) -> Sequence[ContextItem]: ...

    def tools(self, client: Client) -> Sequence[msgspec.Raw]:
        """Return the encoded tools, with the members that the client's revision has."""
        ...

    def input_schema(self, tool_name: str) -> Mapping[str, Any] | None:
        """Return the schema that the vendor describes; None for an unknown tool."""
        ...

    def input_values(self, tool_name: str) -> Mapping[str, Sequence[str]] | None:
        """Return the values to choose from, by input; None for an unknown tool."""
        ...

    def output_faults(self, tool_name: str, content: Any, *, is_modern: bool) -> Mapping[str, str]:
        """Return why structured content does not fit the listed output schema, by path."""
        ...

    def reports_progress(self, tool_name: str) -> bool: ...

    def run(self, request: ToolCallRequest) -> ToolCallResult:
        """Run a tool, and wait for its end unless the call is followed. Raises DomainError if no call was
        sent."""
        ...

    def resume(self, call: int, request: ToolCallRequest) -> ToolCallResult:
        """Continue a call of this client and user with answers, which are the arguments of the request."""
        ...

    def read_call(self, call: int) -> ToolCallResult: ...
    def cancel(self, call: int) -> None: ...
    def cancel_marked(self, mark: str) -> None: ...
    def give_up(self, call: int) -> None:
        """Notify the vendor that its question will not be answered. Does nothing for an unknown call."""
        ...

    def follow(self, call: int, room: ExitStack, alive_every: float) -> CallEvents:
        """Return the events of a call, with a sign of life after so many seconds without one."""
        ...

    def reserve_room(self) -> ExitStack:
        """Reserve room for a follower as long as the stack is open. Raises DomainError."""
        ...

    def reserve_stream(self, kind: StreamKind) -> Callable[[], None] | None:
        """Reserve a stream that is no call, and return what frees it; None if none is free."""
        ...

    def store(self, topic: str) -> TextStore: ...

    def current_number(self) -> int | None:
        """Return the number of the release that the channel of the address points to now; None without."""
        ...

    def subscribe(self, addresses: Sequence[str], stack: ExitStack) -> Updates:
        """Subscribe to those resources whose vendors report updates, until `stack` closes."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait without a connection to the database."""
        ...

    def refusal_for(self, error: Exception) -> Refusal | None:
        """Return the refusal that an error stands for; None for an unexpected error."""
        ...
