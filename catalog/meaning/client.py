"""Requests to the process of this host that compares meanings, which may not be running."""

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
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
    with asking(directory, request, timeout) as receive:
        return receive(None)


@contextmanager
def asking(
    directory: Path, request: Request, timeout: float
) -> Iterator[Callable[[Request | None], Reply | None]]:
    """Send a request at once. The function sends what follows it, and returns the reply as `send_now`."""
    # An address may be slow for questions while the process itself answers.
    key = (directory, type(request))
    conversation = None

    def receive(following: Request | None) -> Reply | None:
        if conversation is None:
            return None
        try:
            if following:
                conversation.send(following)
            return conversation.receive()
        except MeaningUnavailableError:
            _paused_until[key] = time.monotonic() + PAUSE_SECONDS
            return None

    with ExitStack() as stack:
        if time.monotonic() >= _paused_until.get(key, 0.0):
            try:
                conversation = stack.enter_context(closing(_Conversation(directory, request, timeout)))
            except MeaningUnavailableError:
                _paused_until[key] = time.monotonic() + PAUSE_SECONDS
        yield receive
