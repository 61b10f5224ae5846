"""A proxy on loopback that adds an API key to each request, for clients that send none."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

CHUNK = 64 * 1024
PATIENCE = 60
BETWEEN_TWO = {"connection", "transfer-encoding", "keep-alive", "content-length"}


class Door(BaseHTTPRequestHandler):
    """Forwards each request to `path` at the loopback port `port`, with the key."""

    protocol_version = "HTTP/1.1"
    port: int
    path_behind: str
    key: str

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        inner = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            inner.putrequest(self.command, self.path_behind, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in BETWEEN_TWO:
                    inner.putheader(name, value)
            inner.putheader("Content-Length", str(len(body)))
            inner.putheader("Authorization", f"Bearer {self.key}")
            inner.endheaders(body)
            self.pass_on(inner.getresponse())
        finally:
            inner.close()

    def pass_on(self, reply: http.client.HTTPResponse) -> None:
        self.send_response_only(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in BETWEEN_TWO:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while chunk := reply.read1(CHUNK):
            self.wfile.write(chunk)
            self.wfile.flush()

    do_GET = do_POST = do_DELETE = forward  # noqa: N815 - the names that the base class looks for

    def log_message(self, format: str, *words: object) -> None:
        """Requests are not part of the report."""

    def handle(self) -> None:
        # A client may leave in the middle of a stream.
        try:
            super().handle()
        except (ConnectionError, http.client.HTTPException):
            self.close_connection = True


@contextmanager
def adding_key(port: int, path: str, key: str) -> Iterator[str]:
    """Open a door to `path` at the loopback port, and yield its address."""
    door = type("KeyedDoor", (Door,), {"port": port, "path_behind": path, "key": key})
    server = ThreadingHTTPServer(("127.0.0.1", 0), door)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
