"""Requests to the process of this host that compares meanings, which may not be running."""

import logging
import socket
import time
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


def send(directory: Path, request: Request, timeout: float) -> Reply:
    """Return the reply. Raises MeaningUnavailableError."""
    try:
        # A process that hangs accepts nothing, and once its queue is full, a plain `connect` waits for ever.
        with socket.socket(socket.AF_UNIX) as unconnected:
            unconnected.settimeout(timeout)
            unconnected.connect(str(directory / SOCKET))
            unconnected.setblocking(True)
            connection: Connection[bytes, bytes] = Connection(unconnected.detach())
        with connection:
            connection.send_bytes(encode(request))
            reply = _receive(connection, timeout)
            if isinstance(reply, Loading):
                reply = _receive(connection, max(timeout, LOAD_SECONDS))
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise MeaningUnavailableError(str(error)) from error
    if isinstance(reply, Failure):
        raise MeaningUnavailableError(reply.message)
    return reply


def _receive(connection: "Connection[bytes, bytes]", timeout: float) -> Reply:
    if not connection.poll(timeout):
        raise MeaningUnavailableError("It did not answer in time.")
    reply: Reply = decode_reply(connection.recv_bytes())
    return reply


def send_now(directory: Path, request: Request, timeout: float) -> Reply | None:
    """Return the reply, None if there is none within the time. Never waits twice in a row."""
    # An address may be slow for questions while the process itself answers.
    key = (directory, type(request))
    if time.monotonic() < _paused_until.get(key, 0.0):
        return None
    try:
        return send(directory, request, timeout)
    except MeaningUnavailableError:
        _paused_until[key] = time.monotonic() + PAUSE_SECONDS
        return None
