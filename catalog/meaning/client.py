"""Requests to the process of this host that compares meanings, which may not be running."""

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from catalog.meaning.messages import SOCKET, Failure, Loading, Reply, Request, decode_reply, encode

logger = logging.getLogger(__name__)

# A process that once did not answer in time is left alone for so long.
PAUSE_SECONDS = 5.0
# A model is loaded within two.
LOAD_SECONDS = 6.0
_paused_until: dict[tuple[Path, type[Request]], float] = {}


class MeaningUnavailableError(Exception):
    """The process is not running, or does not answer in time."""


class _Conversation:
    """A request that was sent, whose reply is read later. Raises MeaningUnavailableError."""

    def __init__(self, directory: Path, request: Request, timeout: float) -> None:
        self._timeout = timeout
        # A process that hangs accepts nothing, and once its queue is full, a plain `connect` waits for ever.
        with _reported(), socket.socket(socket.AF_UNIX) as unconnected:
            unconnected.settimeout(timeout)
            unconnected.connect(str(directory / SOCKET))
            unconnected.setblocking(True)
            self._connection: Connection[bytes, bytes] = Connection(unconnected.detach())
        self.send(request)

    def send(self, request: Request) -> None:
        with _reported():
            self._connection.send_bytes(encode(request))

    def receive(self) -> Reply:
        reply = self._receive(self._timeout)
        if isinstance(reply, Loading):
            reply = self._receive(max(self._timeout, LOAD_SECONDS))
        if isinstance(reply, Failure):
            raise MeaningUnavailableError(reply.message)
        return reply

    def _receive(self, seconds: float) -> Reply:
        with _reported():
            if not self._connection.poll(seconds):
                raise MeaningUnavailableError("It did not answer in time.")
            reply: Reply = decode_reply(self._connection.recv_bytes())
            return reply

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _reported() -> Iterator[None]:
    """Turn failures of the connection into MeaningUnavailableError."""
    try:
        yield
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise MeaningUnavailableError(str(error)) from error


def send(directory: Path, request: Request, timeout: float) -> Reply:
    """Return the reply. Raises MeaningUnavailableError."""
    with closing(_Conversation(directory, request, timeout)) as conversation:
        return conversation.receive()


def send_now(directory: Path, request: Request, timeout: float) -> Reply | None:
    """Return the reply, None if there is none within the time. Never waits twice in a row."""
    with closing(QuickConversation(directory, request, timeout)) as conversation:
        return conversation.receive()


class QuickConversation:
    """A request that was sent. Where the process does not answer in time, there is no reply and no error."""

    def __init__(self, directory: Path, request: Request, timeout: float) -> None:
        # An address may be slow for questions while the process itself answers.
        self._key = (directory, type(request))
        self._conversation: _Conversation | None = None
        if time.monotonic() >= _paused_until.get(self._key, 0.0):
            with self._paused_by_failure():
                self._conversation = _Conversation(directory, request, timeout)

    def send(self, request: Request) -> None:
        """Send what follows the first request."""
        if self._conversation:
            with self._paused_by_failure():
                self._conversation.send(request)

    def receive(self) -> Reply | None:
        if self._conversation:
            with self._paused_by_failure():
                return self._conversation.receive()
        return None

    def close(self) -> None:
        if self._conversation:
            self._conversation.close()

    @contextmanager
    def _paused_by_failure(self) -> Iterator[None]:
        try:
            yield
        except MeaningUnavailableError:
            _paused_until[self._key] = time.monotonic() + PAUSE_SECONDS
            self.close()
            self._conversation = None
