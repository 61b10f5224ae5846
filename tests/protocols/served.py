"""A release in memory, served over loopback by the server of a protocol, and spoken to by its client."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs

from core import open_replies
from core.errors import DomainError
from core.outbound.addresses import Policy
from core.outbound.limits import Limits
from core.outbound.session import HttpSession
from protocols.server import (
    Refusal,
    ServedTool,
    ServedVersion,
    Server,
    ServerRequest,
    ToolCallRequest,
    ToolCallResult,
)
from tests.hostile_vendor import HostileVendor, Line, reply
from tests.hostile_vendor import Request as SentRequest

OK = ToolCallResult(outcome="ok", outputs={"sky": "fair"})
LOOPBACK = Policy.parse("127.0.0.1/32")


@dataclass
class MemoryRelease:
    """The versions of each tool, the oldest first. Every call has the one `result`, or is refused with it."""

    tools_by_id: dict[str, list[ServedTool]]
    result: ToolCallResult | DomainError = OK
    calls: list[ToolCallRequest] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    list_id: str = "release 1"

    def tools(self) -> list[ServedTool]:
        return [versions[-1] for versions in self.tools_by_id.values()]

    def versions(self, tool_id: str, label: str = "") -> list[ServedVersion]:
        versions = [tool.version for tool in self.tools_by_id.get(tool_id.lower(), [])]
        versions = versions or [tool.version for tool in self.tools_by_id.get(tool_id, [])]
        return [version for version in reversed(versions) if label in ("", version.label)]

    def find_version(self, version: ServedVersion) -> tuple["MemoryRelease", ServedTool] | None:
        tools = self.tools_by_id[version.tool_id]
        return self, next(tool for tool in tools if tool.version == version)

    def run(self, request: ToolCallRequest) -> ToolCallResult:
        self.calls.append(request)
        if isinstance(self.result, DomainError):
            raise self.result
        return self.result

    def report_unknown_tool(self, name: str) -> None:
        self.unknown.append(name)


def handler(server: Server[Any], release: Any) -> Callable[[Line, SentRequest], bool]:
    """A vendor's script that answers as the server does."""

    def answer(line: Line, request_sent: SentRequest) -> bool:
        path, _, query = request_sent.target.partition("?")
        request = ServerRequest(
            method=request_sent.method,
            path=path.removeprefix("/"),
            query=parse_qs(query, keep_blank_values=True),
            headers=_Headers(request_sent.headers),
            body=request_sent.body,
        )
        try:
            server_reply = server.answer_anyone(request, lambda: True) or server.answer(request, release)
        except DomainError as error:
            refusal = Refusal(error.status, error.code, error.message, error.fields)
            server_reply = server.refusal(refusal, request_sent.body)
        etag = server_reply.headers.get("ETag", "")
        if etag and etag == request.headers.get("If-None-Match"):
            server_reply = replace(server_reply, status=304, body=b"")
        headers = {"Content-Type": server_reply.media_type, **server_reply.headers}
        if not isinstance(server_reply.body, bytes):
            # The end of the connection is the end of the stream.
            fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            line.send(f"HTTP/1.1 200 OK\r\n{fields}\r\n".encode())
            with contextlib.closing(server_reply.body) as stream:
                for chunk in stream:
                    line.send(chunk)
            return False
        return bool(reply(server_reply.body, status=server_reply.status, headers=headers)(line, request_sent))

    return answer


class _Headers(dict[str, str]):
    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


@contextlib.contextmanager
def conversation(
    server: Server[Any], release: Any, limits: Limits | None = None, script: Any = None, follower: Any = None
) -> Iterator[HttpSession]:
    """Open a session with the server. `script` runs instead of it, for faults of the network."""
    with (
        HostileVendor(script or handler(server, release)) as vendor,
        HttpSession(
            vendor.url,
            policy=LOOPBACK,
            limits=limits or Limits(request=5.0),
            open_replies=open_replies,
            follower=follower,
        ) as session,
    ):
        yield session
