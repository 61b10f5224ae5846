"""gunicorn's worker with threads, which receive a request once all of it has arrived.

gunicorn assigns a connection to a thread at its first byte, so a few slow clients occupy all threads. Here
the loop that accepts connections also reads them. The head and the body of a request have a deadline each,
and one address has a bounded number of requests that are arriving. docs/decisions/0077-buffered-requests.md.

A thread stays with its connection for a moment: a client that sends its next request at once is answered
without the way through the loop, which takes longer than a cached response.
"""

import errno
import os
import socket
import struct
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from importlib import import_module
from selectors import EVENT_READ
from typing import Any

from gunicorn import util
from gunicorn.http.unreader import Unreader
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, TConn, ThreadWorker

from pegboard.web.request_buffer import RequestBuffer, RequestHead

HEAD_SECONDS, BODY_SECONDS = 10.0, 60.0
LINGER_SECONDS = 2.0
# A thread waits this long for the next request of a connection, while no other request waits for a thread.
STAY_SECONDS = 0.002
# A client that does not read its reply for this long is disconnected.
SEND_SECONDS = 30
READ_BYTES = 64 * 1024
# The largest body that any view accepts, and what its chunks add.
MAX_BODY_BYTES = 12 * 1024**2 + 1024**2
REQUESTS_OF_ONE_ADDRESS = 128
# Share of the connections of a process; the others are for requests that are being answered.
ARRIVING_SHARE = 0.75
LOOK_EVERY = 0.5  # seconds
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(eq=False)
class Arrival:
    """A connection whose next request is arriving.

    ends: the deadline, by the monotonic clock. is_kept: a keep-alive connection after a request. is_read: the
    loop waits for its bytes. is_over: its reply was sent, and the loop waits for the client to close it.
    """

    conn: TConn
    request: RequestBuffer
    ends: float
    address: str = ""
    is_kept: bool = False
    is_read: bool = False
    is_over: bool = False

    @property
    def takes_place(self) -> bool:
        """True unless it is idle between two requests. It counts for its address."""
        return not self.is_over and (self.request.has_begun or not self.is_kept)


class BufferedUnreader(Unreader):  # type: ignore[misc]  # gunicorn has no types
    """Reads a request that has arrived, so no thread waits for a client."""

    def __init__(self, request: RequestBuffer) -> None:
        super().__init__()
        self._request, self._file = request, request.bytes_so_far()

    def chunk(self, size_hint: int | None = None) -> bytes:
        return self._file.read(max(size_hint or 0, READ_BYTES))

    def take_rest(self) -> bytes:
        """Return the bytes that belong to the next request."""
        next_bytes: bytes = self.take_buffered() + self._file.read()
        self._request.close()
        return next_bytes


class BufferingWorker(ThreadWorker):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The oldest first.
        self._arrivals: dict[TConn, Arrival] = {}
        self._looks_at = 0.0
        # Connections whose request waits for a thread. Threads share it: each of its operations is atomic.
        self._waiting: deque[TConn] = deque()
        self._max_arrivals = int(self.worker_connections * ARRIVING_SHARE)
        # Behind a proxy all connections come from one address; the proxy counts them.
        self._counts_addresses = int(os.environ.get("PEGBOARD_PROXIES", "0")) == 0

    def load_wsgi(self) -> None:
        super().load_wsgi()
        # It needs models, which exist after the application is loaded.
        self._keys: Any = import_module("pegboard.web.keys_first")

    def accept(self, listener: socket.socket) -> None:
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
        self.nr_conns += 1
        conn = TConn(self.cfg, client, address, listener.getsockname())
        self._receive_piece(self._expect_request(conn, HEAD_SECONDS))

    def enqueue_req(self, conn: TConn) -> None:
        self._waiting.append(conn)
        super().enqueue_req(conn)

    def handle(self, conn: TConn) -> bool:
        """Answer a request, and those that follow it at once. Called in a thread."""
        self._waiting.popleft()
        while True:
            is_kept: bool = super().handle(conn)
            conn.next_bytes = conn.parser.unreader.take_rest()
            if not is_kept or conn.is_cut or self._waiting or not self.alive:
                return is_kept
            request = _receive_next(conn)
            if request is None:
                return is_kept
            conn.parser.unreader = BufferedUnreader(request)

    def finish_request(self, conn: TConn, future: "Future[bool]") -> None:
        if conn.is_cut or future.cancelled() or future.exception() or not future.result():
            self._close_gently(conn)
            return
        seconds = self.cfg.keepalive if self.alive else min(self.cfg.keepalive, STOP_KEEPALIVE_LINGER)
        arrival = self._expect_request(conn, seconds, is_kept=True)
        if conn.next_bytes:
            self._feed_request(arrival, conn.next_bytes)
        else:
            self._watch_socket(arrival)

    def murder_pending(self) -> None:
        """Refuse requests whose time to arrive is over. The loop calls this in each round."""
        super().murder_pending()
        now = time.monotonic()
        if now < self._looks_at:
            return
        self._looks_at = now + LOOK_EVERY
        for arrival in [row for row in self._arrivals.values() if row.ends <= now]:
            self._refuse_request(arrival, HTTPStatus.REQUEST_TIMEOUT)

    def _cap_keepalive(self, deadline: float) -> None:
        for arrival in self._arrivals.values():
            if not arrival.request.has_begun:
                arrival.ends = min(arrival.ends, deadline)

    def _expect_request(self, conn: TConn, seconds: float, *, is_kept: bool = False) -> Arrival:
        conn.sock.setblocking(False)
        request = RequestBuffer(MAX_BODY_BYTES)
        is_counted = self._counts_addresses and isinstance(conn.client, tuple)
        address = conn.client[0] if is_counted else ""
        arrival = Arrival(conn, request, time.monotonic() + seconds, address, is_kept)
        self._arrivals[conn] = arrival
        return arrival

    def _watch_socket(self, arrival: Arrival) -> None:
        if not arrival.is_read:
            arrival.is_read = True
            self.poller.register(arrival.conn.sock, EVENT_READ, lambda _: self._receive_piece(arrival))
            if arrival.takes_place:
                # The oldest has had the most time.
                same = arrival.address and [
                    row
                    for row in self._arrivals.values()
                    if row.address == arrival.address and row.takes_place
                ]
                if same and len(same) > REQUESTS_OF_ONE_ADDRESS:
                    self._refuse_request(same[0], HTTPStatus.TOO_MANY_REQUESTS)
                elif len(self._arrivals) > self._max_arrivals:
                    self._refuse_request(next(iter(self._arrivals.values())), HTTPStatus.SERVICE_UNAVAILABLE)

    def _unwatch_socket(self, arrival: Arrival) -> None:
        if arrival.is_read:
            arrival.is_read = False
            self.poller.unregister(arrival.conn.sock)

    def _receive_piece(self, arrival: Arrival) -> None:
        piece = _receive_available(arrival.conn.sock)
        if piece == b"":
            self._drop_arrival(arrival)
        elif arrival.is_over:
            return  # the bytes of a refused request are not read
        elif piece is None:
            self._watch_socket(arrival)
        else:
            self._feed_request(arrival, piece)

    def _feed_request(self, arrival: Arrival, piece: bytes) -> None:
        request = arrival.request
        had_begun, had_head = request.has_begun, request.head is not None
        request.feed(piece)
        if request.is_complete and request.head is None:
            self._refuse_request(arrival, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        if request.is_complete:
            self._answer_request(arrival)
            return
        if not had_begun:
            arrival.ends = time.monotonic() + HEAD_SECONDS
        if request.head and not had_head:
            arrival.ends = time.monotonic() + BODY_SECONDS
            head = request.head
            if self._keys.is_without_credential(head):
                self._answer_request(arrival)
            elif self._keys.has_key_to_check(head):

                def continue_after_check(check: "Future[bool]") -> None:
                    if self._arrivals.get(arrival.conn) is not arrival:
                        return
                    if check.exception() is None and not check.result():
                        self._answer_request(arrival)
                    else:
                        self._ask_for_body(arrival, head)

                # The thread needs a single query.
                self._unwatch_socket(arrival)
                check: Future[bool] = self.tpool.submit(self._keys.is_key_known, head)
                check.add_done_callback(lambda done: self.method_queue.defer(continue_after_check, done))
            else:
                self._ask_for_body(arrival, head)
        else:
            self._watch_socket(arrival)

    def _ask_for_body(self, arrival: Arrival, head: RequestHead) -> None:
        if head.waits_for_continue:
            with suppress(OSError):
                arrival.conn.sock.send(CONTINUE)
        self._watch_socket(arrival)

    def _answer_request(self, arrival: Arrival) -> None:
        # A rejected request is answered with its head alone. Its body would be read as another request, so
        # the connection is closed afterwards.
        self._forget_arrival(arrival)
        conn = arrival.conn
        conn.init()
        conn.is_cut, conn.next_bytes = not arrival.request.is_whole, b""
        conn.parser.unreader = BufferedUnreader(arrival.request)
        self.enqueue_req(conn)

    def _refuse_request(self, arrival: Arrival, status: HTTPStatus) -> None:
        if arrival.is_over or not arrival.request.has_begun:
            self._drop_arrival(arrival)
            return
        self._forget_arrival(arrival)
        arrival.request.close()
        with suppress(OSError):
            util.write_error(arrival.conn.sock, status.value, status.phrase, "")
        self._close_gently(arrival.conn)

    def _drop_arrival(self, arrival: Arrival) -> None:
        self._forget_arrival(arrival)
        arrival.request.close()
        self.nr_conns -= 1
        arrival.conn.close()

    def _forget_arrival(self, arrival: Arrival) -> None:
        self._unwatch_socket(arrival)
        del self._arrivals[arrival.conn]

    def _close_gently(self, conn: TConn) -> None:
        """Close a connection after its client has had a moment to read the reply (RFC 9112, section 9.6).

        gunicorn does this inside its loop, where all other connections would wait.
        """
        arrival = self._expect_request(conn, LINGER_SECONDS)
        arrival.is_over = True
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop_arrival(arrival)
        else:
            self._watch_socket(arrival)


def _receive_next(conn: TConn) -> RequestBuffer | None:
    """Return the next request, if all of it arrives at once. Otherwise `conn.next_bytes` is what arrived."""
    request = RequestBuffer(MAX_BODY_BYTES)
    conn.next_bytes = conn.next_bytes or _receive_soon(conn.sock)
    request.feed(conn.next_bytes)
    if request.head and not request.is_complete:
        # Most clients send head and body apart.
        body = _receive_soon(conn.sock)
        conn.next_bytes += body
        request.feed(body)
    if request.is_whole:
        return request
    request.close()
    return None


def _receive_soon(sock: socket.socket) -> bytes:
    """Return the bytes that arrive within STAY_SECONDS, b"" if there are none or if the client has left."""
    sock.settimeout(STAY_SECONDS)
    try:
        return sock.recv(READ_BYTES)
    except OSError:
        return b""


def _receive_available(sock: socket.socket) -> bytes | None:
    """Return the available bytes, None if there are none yet, or b"" at the end of the connection."""
    try:
        return sock.recv(READ_BYTES)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""
