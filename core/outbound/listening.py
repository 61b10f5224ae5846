"""A second event stream of a session, read by itself or together with a reply whose events are sent there."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from queue import Empty, SimpleQueue

from core.outbound.errors import ProtocolError, RefusedError
from core.outbound.reply import Reply
from core.outbound.rest import MAX_REST_SECONDS, ReplyConnection

EVENT_ENDS = (b"\r\n\r\n", b"\n\n", b"\r\r")
_END = re.compile(b"|".join(EVENT_ENDS))
# A packet may split the end of an event.
MAX_EVENT_END = max(map(len, EVENT_ENDS))
# The event ids of this stream are not positions in the other one.
_POSITION = re.compile(rb"^(?:id|retry):[^\r\n]*(?:\r\n|\r|\n)", re.MULTILINE)


class Listening:
    """A reader of an event stream in a thread of its own. It starts at once, and its owner closes it.

    ask: requests the stream and returns the reply after its first bytes. interrupt: ends that request.
    The limits of replies apply.
    """

    def __init__(self, ask: Callable[[], Reply], interrupt: Callable[[], None]) -> None:
        self.is_refused = False
        self.has_ended = False
        self._ask, self._interrupt = ask, interrupt
        self._connection: ReplyConnection | None = None
        self._is_closed = False
        # One thread closes this stream and another one reads the reply. Whichever ends last closes the socket
        # of the reply: closed earlier, its descriptor could belong to another file while it is read.
        self._closing_lock = threading.Lock()
        self._has_reply_ended = False
        self._events: SimpleQueue[bytes | ProtocolError | None] = SimpleQueue()
        _start_thread(self._read_stream)

    def merge_events(self, pieces: Iterator[bytes], connection: ReplyConnection) -> Iterator[bytes]:
        """Yield the pieces of a reply, with whole events of this stream in between, until the reply ends.

        Raises the errors of `pieces`. `connection`: the connection of the reply.
        """

        def forward_reply() -> None:
            try:
                for events in _whole_events(pieces):
                    self._events.put(events)
            except ProtocolError as exc:
                self._events.put(exc)
            finally:
                with self._closing_lock:
                    self._has_reply_ended, is_closed = True, self._is_closed
                if is_closed:
                    connection.abandon()
                self._events.put(None)

        _start_thread(forward_reply)
        while (item := self._events.get()) is not None:
            if isinstance(item, ProtocolError):
                raise item
            yield item

    def take(self) -> bytes:
        """Return the whole events that have arrived since the last time, without waiting."""
        events = b""
        with suppress(Empty):
            while isinstance(item := self._events.get_nowait(), bytes):
                events += item
        return events

    def interrupt(self) -> None:
        self._interrupt()
        if self._connection:
            self._connection.interrupt()

    def close(self) -> None:
        self._is_closed = True
        self.interrupt()

    def close_with(self, connection: ReplyConnection) -> None:
        """Close this stream and the connection of the reply."""
        self.close()
        with self._closing_lock:
            has_reply_ended = self._has_reply_ended
            connection.interrupt()
        if has_reply_ended:
            connection.abandon()

    def _read_stream(self) -> None:
        try:
            reply = self._ask()
            if (reply_rest := reply.rest) is None:
                return
            self._connection = reply_rest
            try:
                if self._is_closed:
                    return
                for events in _whole_events(chain([reply.body], reply_rest.read(MAX_REST_SECONDS))):
                    self._events.put(_POSITION.sub(b"", events))
            finally:
                reply_rest.abandon()
        except RefusedError:
            self.is_refused = True
        except ProtocolError:
            # Requests on this stream are lost; the reply itself states the outcome of the call.
            return
        finally:
            self.has_ended = True


@dataclass(frozen=True, slots=True)
class MergedConnections:
    """The connections of a reply and of the second stream."""

    connection: ReplyConnection
    listening: Listening

    def interrupt(self) -> None:
        self.connection.interrupt()
        self.listening.interrupt()

    def abandon(self) -> None:
        self.listening.close_with(self.connection)


def _start_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="listening", daemon=True).start()


def _whole_events(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the stream in pieces that end between events, so that two streams can be interleaved."""
    buffer = b""
    for piece in pieces:
        search_from = max(0, len(buffer) - MAX_EVENT_END)
        buffer += piece
        ends = [match.end() for match in _END.finditer(buffer, search_from)]
        if ends:
            yield buffer[: ends[-1]]
            buffer = buffer[ends[-1] :]
    if buffer:
        yield buffer
