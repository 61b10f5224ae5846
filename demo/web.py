"""HTTP as every demo vendor speaks it: loopback only, replies in one piece, no body without a length."""

import hashlib
import json
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from demo import DemoVendor

MAX_BODY_BYTES = 64 * 1024
JSON = "application/json"
HTML = "text/html; charset=utf-8"
IDLE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """A request to a demo vendor. Names of headers are lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    query_string: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def as_json(document: object, status: int = HTTPStatus.OK) -> Response:
    return Response(status, json.dumps(document).encode())


class Api(Protocol):
    """One vendor's way to answer; knows nothing of sockets."""

    vendor: DemoVendor

    def answer(self, request: DemoRequest) -> Response: ...


def whole_number(text: str) -> int | None:
    # int() raises for thousands of digits, so they are counted first.
    return int(text) if text.isdecimal() and len(text) < 10 else None


def if_changed(request: DemoRequest, response: Response) -> Response:
    """304 for a caller that has this very body already."""
    etag = f'"{hashlib.sha256(response.body).hexdigest()[:32]}"'
    headers = {**response.headers, "ETag": etag, "Cache-Control": "no-cache"}
    etags = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if etag in etags:
        return Response(HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(response.status, response.body, response.content_type, headers)


# A port of the loopback address, 0 for a free one; or a socket that listens already.
Port = int | socket.socket


class VendorServer(ThreadingHTTPServer):
    """Listens on the loopback address alone."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: Port, api: Api) -> None:
        self.api = api
        if isinstance(port, int):
            super().__init__(("127.0.0.1", port), RequestHandler)
            return
        super().__init__(port.getsockname(), RequestHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = port
        self.server_name, self.server_port = port.getsockname()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        # A client that hangs up is everyday life and no reason for a traceback.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class RequestHandler(BaseHTTPRequestHandler):
    """HTTP/1.1 with keep-alive. A reply leaves in one piece: in two, delayed acknowledgement costs 40 ms."""

    server: VendorServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        length = whole_number(self.headers.get("Content-Length", "0"))
        if "Transfer-Encoding" in self.headers or length is None or length > MAX_BODY_BYTES:
            # The body stays unread, so the connection cannot be used again.
            self.close_connection = True
            message = f"Send a Content-Length of at most {MAX_BODY_BYTES} bytes."
            self._send(
                as_json({"code": "bad_length", "message": message}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            )
            return
        url = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(length)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        request = DemoRequest(self.command, url.path, query, headers, body, url.query)
        self._send(self.server.api.answer(request))

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if response.body:
            self.send_header("Content-Type", response.content_type)
        if response.status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(response.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(response.body)

    def version_string(self) -> str:
        return "demo"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal belongs to the process that started this one."""
