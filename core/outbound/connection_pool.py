"""A pool of connections that outlive their session, for the next session with the same endpoint.

A session receives only a connection that it would have opened itself: for the same owner with the same
credential, to the same origin, under the same policy and with the same authorities. The pool checks each time
how long the connection was idle, and that the server has neither closed it nor sent anything.
docs/decisions/0063-kept-connections.md has the reasons.
"""

import os
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock

from urllib3.util.wait import wait_for_read

from core.outbound.addresses import Policy
from core.outbound.sockets import BoundedSocket

MAX_KEPT = 64  # idle connections of one process
MAX_KEPT_FOR_ONE = 16
MAX_AGE = 60.0  # seconds, after which the name is resolved and the certificate verified again
MAX_IDLE = 15.0
# Servers close connections that were idle for two seconds or more. A request that is sent at that moment is
# lost, and the outcome of a call is unknown. So a request that must not run twice uses a new connection
# earlier.
MAX_IDLE_BEFORE_A_CALL = 1.0
MARGIN = 1.0  # seconds before the end that the server announced


@dataclass(frozen=True, slots=True)
class KeptFor:
    """The owner of connections, and the identity of the owner's sessions.

    Connections of another identity are closed as soon as the owner's next session begins or ends.
    """

    owner: Hashable
    identity: Hashable


@dataclass(frozen=True, slots=True)
class ConnectionKey:
    """The properties that a session requires of a connection."""

    kept_for: KeptFor
    origin: str
    policy: Policy
    authorities: str


def is_usable(sock: BoundedSocket, now: float, *, is_repeatable: bool) -> bool:
    """Return whether another request may use the connection.

    A readable socket was closed by the server, or contains bytes that would be mistaken for the next reply.
    """
    max_idle = MAX_IDLE if is_repeatable else MAX_IDLE_BEFORE_A_CALL
    if sock.promised_idle is not None:
        max_idle = min(MAX_IDLE, sock.promised_idle - MARGIN)
    is_young = now - sock.dialled_at < MAX_AGE and now - sock.heard_at < max_idle
    return is_young and not sock.holds_more() and not wait_for_read(sock, timeout=0)


class ConnectionPool:
    # The connection that was returned last is the last one and is taken first.
    _idle: list[tuple[ConnectionKey, BoundedSocket]]

    def __init__(self) -> None:
        self._idle = []
        self.begin_anew()

    def begin_anew(self) -> None:
        _close_sockets([sock for _, sock in self._idle])
        self._idle = []
        self._lock = Lock()
        self._has_sweeper = False

    def take(self, key: ConnectionKey, *, is_repeatable: bool) -> BoundedSocket | None:
        now, ended = time.monotonic(), []
        try:
            with self._lock:
                ended = self._remove_other_identities(key)
                for index in range(len(self._idle) - 1, -1, -1):
                    if self._idle[index][0] == key:
                        sock = self._idle.pop(index)[1]
                        if is_usable(sock, now, is_repeatable=is_repeatable):
                            return sock
                        ended.append(sock)
            return None
        finally:
            _close_sockets(ended)

    def give(self, key: ConnectionKey, sock: BoundedSocket) -> None:
        now = time.monotonic()
        if not is_usable(sock, now, is_repeatable=True):
            sock.close()
            return
        with self._lock:
            ended = self._remove_other_identities(key)
            self._idle.append((key, sock))
            same_owner = [entry for entry in self._idle if entry[0].kept_for.owner == key.kept_for.owner]
            if len(same_owner) > MAX_KEPT_FOR_ONE:
                ended.append(self._remove_entry(same_owner[0]))
            elif len(self._idle) > MAX_KEPT:
                ended.append(self._remove_entry(self._idle[0]))
            if not self._has_sweeper:
                self._has_sweeper = True
                self._close_expired_later()
        _close_sockets(ended)

    def _remove_other_identities(self, key: ConnectionKey) -> list[BoundedSocket]:
        """Remove the connections that the owner opened before a change, for example of the credential."""
        current = key.kept_for
        others = [
            entry
            for entry in self._idle
            if entry[0].kept_for.owner == current.owner and entry[0].kept_for.identity != current.identity
        ]
        return [self._remove_entry(entry) for entry in others]

    def _remove_entry(self, entry: tuple[ConnectionKey, BoundedSocket]) -> BoundedSocket:
        self._idle.remove(entry)
        return entry[1]

    def _close_expired_later(self) -> None:
        # The thread exists only while there are connections that no session may ever take.
        timer = threading.Timer(MAX_IDLE, self._close_expired)
        timer.daemon = True
        timer.start()

    def _close_expired(self) -> None:
        now = time.monotonic()
        with self._lock:
            expired = [entry for entry in self._idle if not is_usable(entry[1], now, is_repeatable=True)]
            ended = [self._remove_entry(entry) for entry in expired]
            self._has_sweeper = bool(self._idle)
            if self._has_sweeper:
                self._close_expired_later()
        _close_sockets(ended)


def _close_sockets(ended: list[BoundedSocket]) -> None:
    for sock in ended:
        sock.close()


pool = ConnectionPool()
# A child process shares the sockets of its parent, which continues to use them, but not its threads. A socket
# that the child closes stays open in the parent.
os.register_at_fork(after_in_child=pool.begin_anew)
