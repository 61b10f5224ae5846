"""A vendor on loopback whose every reply a test can script."""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Document = dict[str, Any]
# Gets the page number (1, 2, ...) and what would be sent; returns (status, body) in its place.
Script = Callable[[int, Document], tuple[int, bytes] | None]


def tool(number: int, version: int = 1, **members: Any) -> Document:
    return {
        "toolId": str(uuid.UUID(int=number)),
        "name": f"tool_{number}",
        "description": f"Does thing {number}.",
        "version": version,
        "currentVersion": version,
        "tags": ["things"],
        "input_parameters": [
            {"id": "p1", "name": "city", "type": "string", "description": "A city", "required": True}
        ],
        "output_parameters": [{"id": "o1", "name": "answer", "type": "string", "description": "The answer"}],
    } | members


def tools(count: int) -> list[Document]:
    return [tool(number) for number in range(1, count + 1)]


class Vendor:
    """`listed` is the next listing; `script` may replace any page of it.

    With an `etag`, a request that sends it back gets 304, even if the page has changed. `in_mid_body` gets
    the path when half of a reply has been sent. `calls` are the bodies of the calls of its tools, each of
    which takes `call_seconds`.
    """

    def __init__(self, documents: list[Document], page_size: int = 10) -> None:
        self.listed = documents
        self.page_size = page_size
        self.history: dict[str, list[Document]] = {}
        self.script: Script | None = None
        self.in_mid_body: Callable[[str], None] | None = None
        self.etag = ""
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.calls: list[Document] = []
        self.call_seconds = 0.0
        self.url = ""

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, bytes]:
        parts = path.strip("/").split("/")
        if parts == ["tools"]:
            return self._page(query)
        if len(parts) == 3 and parts[0] == "tools" and parts[2] == "versions" and parts[1] in self.history:
            return 200, json.dumps({"items": self.history[parts[1]]}).encode()
        return 404, b"{}"

    def _page(self, query: dict[str, list[str]]) -> tuple[int, bytes]:
        start = int(query.get("pageCursor", ["0"])[0])
        end = start + self.page_size
        body: Document = {"items": self.listed[start:end], "paging": {"pageLimit": self.page_size}}
        if end < len(self.listed):
            body["paging"]["next"] = str(end)
        scripted = self.script(start // self.page_size + 1, body) if self.script else None
        return scripted or (200, json.dumps(body).encode())


def _handler(vendor: Vendor) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            vendor.requests.append(self.path)
            vendor.headers.append({name.lower(): value for name, value in self.headers.items()})
            url = urlsplit(self.path)
            status, body = vendor.answer(url.path, parse_qs(url.query))
            if vendor.etag and self.headers.get("If-None-Match") == vendor.etag:
                status, body = 304, b""
            self.send_response(status)
            if vendor.etag:
                self.send_header("ETag", vendor.etag)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                if vendor.in_mid_body:
                    half = len(body) // 2
                    self.wfile.write(body[:half])
                    vendor.in_mid_body(self.path)
                    body = body[half:]
                self.wfile.write(body)

        def do_POST(self) -> None:
            vendor.calls.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            time.sleep(vendor.call_seconds)
            body = json.dumps({"output_parameters": [{"name": "answer", "value": "done"}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Quiet."""

    return Handler


@contextmanager
def serving(vendor: Vendor) -> Iterator[Vendor]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(vendor))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    vendor.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield vendor
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
