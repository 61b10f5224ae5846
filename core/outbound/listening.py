"""A stream of events that is read beside a reply, for servers that say there what belongs to the reply."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue

from core.outbound.errors import ProtocolError, RefusedError
from core.outbound.reply import Reply
from core.outbound.rest import MAX_REST_SECONDS, Line

EVENT_ENDS = (b"\r\n\r\n", b"\n\n", b"\r\r")
_END = re.compile(b"|".join(EVENT_ENDS))
# An end may be cut in two by a packet.
MAX_EVENT_END = max(map(len, EVENT_ENDS))
# Where this stream goes on is no place in the one that it is read beside.
_PLACE = re.compile(rb"^(?:id|retry):[^\r\n]*(?:\r\n|\r|\n)", re.MULTILINE)


class Listening:
    """Begins to listen at once, in a thread of its own. Whoever has it closes it.

    `ask` asks for the stream and gives the reply once something has come; `interrupt` ends that. What is
    read is bounded as any reply.
    """

    def __init__(self, ask: Callable[[], Reply], interrupt: Callable[[], None]) -> None:
        self.is_refused = False
        self._ask, self._interrupt = ask, interrupt
        self._line: Line | None = None
        self._is_over = False
        # Of who ends the reading and who reads, the last one closes what is read: its number may be another's
        # after that.
        self._parting = threading.Lock()
        self._has_passed_on = False
        self._told: SimpleQueue[bytes | ProtocolError | None] = SimpleQueue()
        _start(self._listen)

    def beside(self, pieces: Iterator[bytes], line: Line) -> Iterator[bytes]:
        """`pieces` of a stream, which come over `line`, with whole events of this one in between, until
        `pieces` end. Raises what they raise."""
        _start(lambda: self._pass_on(pieces, line))
        while (told := self._told.get()) is not None:
            if isinstance(told, ProtocolError):
                raise told
            yield told

    def interrupt(self) -> None:
        self._interrupt()
        if self._line:
            self._line.interrupt()

    def close(self) -> None:
        self._is_over = True
        self.interrupt()

    def close_with(self, line: Line) -> None:
        """Closes the line, too, that this was read beside."""
        self.close()
        with self._parting:
            has_passed_on = self._has_passed_on
            line.interrupt()
        if has_passed_on:
            line.abandon()

    def _listen(self) -> None:
        try:
            reply = self._ask()
            if (rest := reply.rest) is None:
                return
            self._line = rest
            try:
                if self._is_over:
                    return
                for events in _whole_events(_chained(reply.body, rest.read(MAX_REST_SECONDS))):
                    self._told.put(_PLACE.sub(b"", events))
            finally:
                rest.abandon()
        except RefusedError:
            self.is_refused = True
        except ProtocolError:
            # What is asked there is not heard; the reply itself says how the call ends.
            return

    def _pass_on(self, pieces: Iterator[bytes], line: Line) -> None:
        try:
            for events in _whole_events(pieces):
                self._told.put(events)
        except ProtocolError as exc:
            self._told.put(exc)
        finally:
            with self._parting:
                self._has_passed_on, is_over = True, self._is_over
            if is_over:
                line.abandon()
            self._told.put(None)


@dataclass(frozen=True, slots=True)
class Together:
    """The lines of a reply and of what is read beside it."""

    line: Line
    listening: Listening

    def interrupt(self) -> None:
        self.line.interrupt()
        self.listening.interrupt()

    def abandon(self) -> None:
        self.listening.close_with(self.line)


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="listening", daemon=True).start()


def _chained(first: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from pieces


def _whole_events(pieces: Iterator[bytes]) -> Iterator[bytes]:
    # Cut between events, so that those of two streams can stand in one; what is left at the end comes last.
    left = b""
    for piece in pieces:
        seen = max(0, len(left) - MAX_EVENT_END)
        left += piece
        ends = [found.end() for found in _END.finditer(left, seen)]
        if ends:
            yield left[: ends[-1]]
            left = left[ends[-1] :]
    if left:
        yield left
