"""A session that replays recorded exchanges in order: the network's edge without a network."""

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import ANY
from urllib.parse import quote, urlencode

from core.outbound.errors import ProtocolViolationError, RefusedError, UnavailableError
from core.outbound.reply import Reply
from core.outbound.request import Request, RequestMethods


@dataclass
class Exchange:
    """A request and its reply: `body` as JSON, or `text`, or the failure whose code is `fails`."""

    method: str = "GET"
    path: str = ""
    params: dict[str, str] = field(default_factory=dict)
    json: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    text: str | None = None
    fails: str = ""

    def reply(self, root: str) -> Reply:
        text = json.dumps(self.body) if self.text is None else self.text
        headers = {"content-type": "application/json"} | self.headers
        return Reply(self.status, headers, text.encode(errors="surrogatepass"), root + self.path)


class ScriptedSession(RequestMethods):
    """Refuses statuses as the real session does. Every request has to be the one that was recorded."""

    agent = "Pegboard"
    mark = ""
    is_followed = False
    is_interrupted = False
    largest = 32 * 1024 * 1024

    def __init__(self, *exchanges: Exchange, root: str = "https://vendor.example") -> None:
        self.root = root
        self.left = deque(exchanges)
        self.asked: list[dict[str, str]] = []
        self.memory: dict[str, Any] = {}
        self.passed_on: list[Any] = []

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return None

    def pass_on(self, partial):
        self.passed_on.append(partial)

    def at_url(self, url):
        """Use one script for all addresses; the path of a request to another one is that whole address."""
        return _Elsewhere(self, url)

    def send(self, request: Request) -> Reply:
        """A query may be in the recorded path or beside it; JSON is recorded as it reads."""
        is_json = "json" in request.headers.get("Content-Type", "")
        content = request.content
        body = None if content is None else json.loads(content) if is_json else content.decode()
        assert self.left, f"nothing was recorded for {request}"
        exchange = self.left.popleft()
        sent_request = (request.method, self.shown(request.path), request.query, body)
        params = urlencode(exchange.params, quote_via=quote)
        path, _, query = exchange.path.partition("?")
        assert sent_request == (exchange.method, path, query or params, _expected(exchange.json))
        self.asked.append({name: value for name, value in request.headers.items() if name != "Content-Type"})
        if exchange.fails:
            raise UnavailableError(exchange.fails, "The vendor went away.")
        if exchange.status not in request.accept:
            raise _refusal(exchange)
        return exchange.reply(self.root)

    def shown(self, path: str) -> str:
        return path


def _expected(recorded: Any) -> Any:
    """`<any>` matches any value, such as the id of a call."""
    if isinstance(recorded, dict):
        return {name: _expected(value) for name, value in recorded.items()}
    return ANY if recorded == "<any>" else recorded


class _Elsewhere(ScriptedSession):
    def __init__(self, session: ScriptedSession, url: str) -> None:
        self.root = url
        self.left, self.asked, self.memory = session.left, session.asked, session.memory

    def shown(self, path: str) -> str:
        return self.root + path


def _refusal(exchange: Exchange) -> Exception:
    status, message = exchange.status, f"The vendor answered {exchange.status}."
    if status in (408, 429) or status >= 500:
        wait = exchange.headers.get("retry-after")
        code = "RATE_LIMITED" if status == 429 else f"HTTP_{status}"
        return UnavailableError(code, message, retry_after=float(wait) if wait else None)
    codes = {401: "AUTH", 403: "AUTH", 404: "NOT_FOUND", 410: "NOT_FOUND"}
    if status >= 400:
        return RefusedError(codes.get(status, f"HTTP_{status}"), message)
    return ProtocolViolationError(f"HTTP_{status}", message)
