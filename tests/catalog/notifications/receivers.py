"""Receivers of notifications: a mail server and a webhook's receiver, both real and on loopback."""

import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MailServer:
    """Takes every mail, or refuses as long as `is_broken`. With `tls` it offers STARTTLS."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.mails: list[Message] = []
        self.receivers: list[str] = []
        self.is_broken = False
        self.url = ""

    def converse(self, stream: socketserver.StreamRequestHandler) -> None:
        say = lambda text: stream.wfile.write(text.encode() + b"\r\n")  # noqa: E731
        say("220 ready")
        while line := stream.rfile.readline():
            match line[:4].upper():
                case b"EHLO" | b"HELO":
                    is_offered = self.tls and not isinstance(stream.request, ssl.SSLSocket)
                    say(
                        "250-hello\r\n250-AUTH PLAIN\r\n250 STARTTLS"
                        if is_offered
                        else "250-hello\r\n250 AUTH PLAIN"
                    )
                case b"STAR" if self.tls:
                    say("220 go on")
                    stream.request = self.tls.wrap_socket(stream.request, server_side=True)
                    stream.setup()
                case b"AUTH":
                    say("535 not you")
                case b"RCPT":
                    self.receivers.append(line.decode().strip())
                    say("451 not now" if self.is_broken else "250 ok")
                case b"DATA":
                    say("354 go on")
                    self._take(stream)
                    say("250 taken")
                case b"QUIT":
                    say("221 bye")
                    return
                case _:
                    say("250 ok")

    def _take(self, stream: socketserver.StreamRequestHandler) -> None:
        lines = []
        while (line := stream.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        self.mails.append(message_from_bytes(b"".join(lines), policy=default))


@contextmanager
def mail_server(tls: ssl.SSLContext | None = None, *, is_wrapped: bool = False) -> Iterator[MailServer]:
    """Start a mail server. With `is_wrapped`, TLS begins with the first byte."""
    server = MailServer(None if is_wrapped else tls)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            server.converse(self)
            if isinstance(self.request, ssl.SSLSocket):
                self.request.close()

    class Listener(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Listener(("127.0.0.1", 0), Handler) as listener:
        if tls and is_wrapped:
            listener.socket = tls.wrap_socket(listener.socket, server_side=True)
        server.url = f"smtp://127.0.0.1:{listener.server_address[1]}?tls=off"
        with _serving(listener):
            yield server


class Receiver:
    """A receiver that answers each request with `answer(headers, body)` and remembers the accepted ones."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answer: Callable[[int], tuple[int, dict[str, str]]] = lambda number: (204, {})
        self.url = ""

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for headers, _ in self.requests]


@contextmanager
def receiver() -> Iterator[Receiver]:
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.requests.append((headers, body))
            status, extra = state.answer(len(state.requests))
            self.send_response(status)
            for name, value in {"Content-Length": "0", **extra}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        state.url = f"http://127.0.0.1:{listener.server_address[1]}/hook"
        with _serving(listener):
            yield state


@contextmanager
def _serving(listener: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown()
        thread.join()
