"""An MCP server on loopback with prompts and resources that a test can change, in either era."""

import json
from typing import Any

from tests.hostile_vendor import HostileVendor, Line, Request, json_reply

Document = dict[str, Any]
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
TOOL = {"name": "lend", "description": "Lends a book.", "inputSchema": {"type": "object"}}
PROMPT = {
    "name": "lend",
    "title": "Recommend a book",
    "description": "Recommends a book to a reader.",
    "arguments": [
        {"name": "reader", "description": "Who reads it", "required": True},
        {"name": "mood", "description": "How the reader feels"},
    ],
}
RESOURCE = {
    "uri": "library://rules",
    "name": "House rules",
    "description": "What readers agree to.",
    "mimeType": "text/markdown",
    "size": 9,
}
TEMPLATE = {
    "uriTemplate": "library://shelves/{shelf}",
    "name": "Shelf",
    "description": "The books of one shelf.",
    "mimeType": "text/plain",
}


def _event(message: Document) -> bytes:
    return b"event: message\ndata: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n"


class ContextVendor:
    """`lists` holds what each list method shows, `asked` the requests for prompts and resources.

    A method in `broken` fails with that error of JSON-RPC. Before it gets a prompt or reads a resource, the
    vendor sends the requests of `questions`, by their names.
    """

    def __init__(self, era: str = MODERN) -> None:
        self.era = era
        self.lists: dict[str, list[Document]] = {
            "tools/list": [TOOL],
            "prompts/list": [PROMPT],
            "resources/list": [RESOURCE],
            "resources/templates/list": [TEMPLATE],
        }
        self.capabilities: Document = {"tools": {}, "prompts": {}, "resources": {}}
        self.page_size = 50
        self.broken: dict[str, int] = {}
        self.questions: Document = {}
        # States if it reports updates, and holds the streams on which it does.
        self.reports_updates = False
        self.streams: list[Line] = []
        self.subscribed: list[str] = []
        self.asked: list[tuple[str, Document]] = []
        self.headers: list[dict[str, str]] = []
        self.contents: list[Document] | None = None
        self.server = HostileVendor(self._answer)

    def __enter__(self) -> "ContextVendor":
        self.server.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.server.__exit__(*failure)

    @property
    def url(self) -> str:
        return self.server.url

    def report(self, uri: str) -> None:
        """Report an update of a resource on each open stream."""
        for line in self.streams:
            line.send(_event({"method": "notifications/resources/updated", "params": {"uri": uri}}))

    def _open_stream(self, line: Line, first: bytes) -> bool:
        line.send(STREAM_HEAD + first)
        self.streams.append(line)
        line.conn.settimeout(0.05)
        while not line.over.is_set():
            try:
                # The client sends nothing on it any more, so what can be read is its end.
                line.conn.recv(1)
            except TimeoutError:
                continue
            except OSError:
                pass
            break
        self.streams.remove(line)
        return False

    def _answer(self, line: Line, request: Request) -> bool | None:
        if request.method == "GET" and self.reports_updates:
            return self._open_stream(line, b"")
        if request.method != "POST":
            return json_reply({}, status=405)(line, request)
        message = json.loads(request.body)
        number, method, params = message.get("id"), message["method"], message.get("params", {})
        if number is None:
            return json_reply({}, status=202)(line, request)
        is_modern = request.headers.get("mcp-protocol-version") == MODERN
        if is_modern != (self.era == MODERN) and method != "initialize":
            error = {"code": -32000, "message": "Bad Request"}
            reply = {"jsonrpc": "2.0", "id": number, "error": error}
            return json_reply(reply, status=400)(line, request)
        if (code := self._error(method, params)) is not None:
            reply = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": "No."}}
            return json_reply(reply)(line, request)
        if method == "subscriptions/listen":
            self.subscribed += params["notifications"]["resourceSubscriptions"]
            acknowledged = {"notifications": params["notifications"]}
            message = {"method": "notifications/subscriptions/acknowledged", "params": acknowledged}
            return self._open_stream(line, _event(message))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        result = ({"resultType": "complete"} if is_modern else {}) | self._result(method, params)
        return json_reply({"jsonrpc": "2.0", "id": number, "result": result})(line, request)

    def _error(self, method: str, params: Document) -> int | None:
        if method in self.broken:
            return self.broken[method]
        methods = (*self.lists, "prompts/get", "resources/read", "initialize", "server/discover")
        if self.reports_updates:
            methods += ("subscriptions/listen", "resources/subscribe")
        return None if method in methods else -32601

    def _result(self, method: str, params: Document) -> Document:
        if method == "initialize":
            server = {"name": "library", "version": "1"}
            return {"protocolVersion": HANDSHAKE, "capabilities": self.capabilities, "serverInfo": server}
        if method == "server/discover":
            return {"supportedVersions": [MODERN], "capabilities": self.capabilities}
        if method == "resources/subscribe":
            self.subscribed.append(params["uri"])
            return {}
        if method in self.lists:
            start = int(params.get("cursor", 0))
            after = start + self.page_size
            member = {"resources/templates/list": "resourceTemplates"}.get(method, method.split("/")[0])
            page: Document = {member: self.lists[method][start:after]}
            return page | ({"nextCursor": str(after)} if after < len(self.lists[method]) else {})
        self.asked.append((method, {name: value for name, value in params.items() if name != "_meta"}))
        if self.questions and self.questions.keys() != params.get("inputResponses", {}).keys():
            needs_input = {"inputRequests": self.questions, "requestState": "asked"}
            return {"resultType": "input_required", **needs_input}
        if method == "prompts/get":
            text = f"<b>Recommend</b> a book to {params['arguments'].get('reader')}."
            content = {"type": "text", "text": text}
            return {"description": "A recommendation", "messages": [{"role": "user", "content": content}]}
        contents = [{"uri": params["uri"], "mimeType": "text/markdown", "text": "<b>Be quiet.</b>"}]
        return {"contents": contents if self.contents is None else self.contents}
