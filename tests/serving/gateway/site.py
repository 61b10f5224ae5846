"""The WSGI application as the web server has it, and requests to it."""

import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from django.core.handlers.wsgi import WSGIHandler
from django.test import RequestFactory

from serving.gateway.application import Gateway, ProgramHandler

MCP, EXPORT = "/serve/desk/live/mcp", "/api/v1/agents/desk/releases/live/tools/?format=mcp"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def comparable(self) -> "Reply":
        """Return the headers without a length, which a reply without a body need not have (RFC 9110, 8.6)."""
        if self.body:
            return self
        return self._replace(headers={k: v for k, v in self.headers.items() if k != "Content-Length"})


class Site:
    """view_calls: how often Django was called."""

    def __init__(self, key: str, *, has_gateway: bool = True) -> None:
        self.key, self.view_calls = key, 0
        pages = self._count_calls(WSGIHandler())
        self.application = Gateway(self._count_calls(ProgramHandler()), pages) if has_gateway else pages

    def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        headers = {"Authorization": f"Bearer {self.key}", "X-Request-Id": "the-same-number", **headers}
        requests = RequestFactory(headers=headers, SERVER_NAME="127.0.0.1")
        environ = requests.generic(method, path, body, content_type="application/json").environ
        environ["wsgi.input"] = io.BytesIO(body)
        environ.setdefault("CONTENT_LENGTH", str(len(body)))
        starts: list[tuple[str, list[tuple[str, str]]]] = []
        response = self.application(environ, lambda status, headers: starts.append((status, headers)))
        ((status, reply_headers),) = starts
        reply = Reply(int(status[:3]), dict(reply_headers), b"".join(response))
        if close := getattr(response, "close", None):
            close()
        return reply

    def list_tools(self, message_id: Any = 1, *, path: str = MCP, **headers: str) -> Reply:
        return self.request("POST", path, message("tools/list", message_id), **headers)

    def read_unchanged(self, digest: str, path: str = EXPORT, **headers: str) -> Reply:
        return self.request("GET", path, **{"If-None-Match": f'"{digest}"', **headers})

    def _count_calls(self, application: Callable[..., Any]) -> Callable[..., Any]:
        def counted(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
            self.view_calls += 1
            return application(environ, start_response)

        return counted


def message(method: str, message_id: Any = 1, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "method": method, "params": params}).encode()
