"""Connections that outlive their session, so that the next one with the same endpoint need not dial.

A connection is lent only to a session that would have made the same one: for the same owner with the same
credential, to the same origin, under the same policy and with the same authorities. It is judged again each
time that it is taken: for how long it was idle, and whether its other end is still there with nothing to say.
docs/decisions/0063-kept-connections.md says why.
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
MAX_AGE = 60.0  # seconds, after which the name is looked up and the certificate judged again
MAX_IDLE = 15.0
# Servers close what is idle for two seconds or more. A request that crosses that on its way is lost, and of a
# call it is then not known whether it ran. So what must not be sent twice takes a new connection earlier.
MAX_IDLE_BEFORE_A_CALL = 1.0
MARGIN = 1.0  # before the end that the server itself has named


@dataclass(frozen=True, slots=True)
class KeptFor:
    """Whose connections they are. `identity` is all that makes the owner's sessions alike: those of another
    identity are closed, and not lent, as soon as the owner's next one begins or ends."""

    owner: Hashable
    identity: Hashable


@dataclass(frozen=True, slots=True)
class ConnectionKey:
    """What a session asks for, and what a kept connection is."""

    kept_for: KeptFor
    origin: str
    policy: Policy
    authorities: str


def is_usable(sock: BoundedSocket, now: float, *, is_repeatable: bool) -> bool:
    """Whether a request may go out on a connection that has carried one before.

    What is readable has ended, or holds bytes that were not asked for: they would pass for the next reply.
    """
    longest = MAX_IDLE if is_repeatable else MAX_IDLE_BEFORE_A_CALL
    if sock.promised_idle is not None:
        longest = min(MAX_IDLE, sock.promised_idle - MARGIN)
    is_young = now - sock.dialled_at < MAX_AGE and now - sock.heard_at < longest
    return is_young and not sock.holds_more() and not wait_for_read(sock, timeout=0)


class ConnectionPool:
    # The one that was given back last is taken first, and stands last.
    _idle: list[tuple[ConnectionKey, BoundedSocket]]

    def __init__(self) -> None:
        self._idle = []
        self.begin_anew()

    def begin_anew(self) -> None:
        _close([sock for _, sock in self._idle])
        self._idle = []
        self._lock = Lock()
        self._has_sweeper = False

    def take(self, key: ConnectionKey, *, is_repeatable: bool) -> BoundedSocket | None:
        now, ended = time.monotonic(), []
        try:
            with self._lock:
                ended = self._of_another_identity(key)
                for place in range(len(self._idle) - 1, -1, -1):
                    if self._idle[place][0] == key:
                        sock = self._idle.pop(place)[1]
                        if is_usable(sock, now, is_repeatable=is_repeatable):
                            return sock
                        ended.append(sock)
            return None
        finally:
            _close(ended)

    def give(self, key: ConnectionKey, sock: BoundedSocket) -> None:
        now = time.monotonic()
        if not is_usable(sock, now, is_repeatable=True):
            sock.close()
            return
        with self._lock:
            ended = self._of_another_identity(key)
            self._idle.append((key, sock))
            same = [each for each in self._idle if each[0].kept_for.owner == key.kept_for.owner]
            if len(same) > MAX_KEPT_FOR_ONE:
                ended.append(self._without(same[0]))
            elif len(self._idle) > MAX_KEPT:
                ended.append(self._without(self._idle[0]))
            if not self._has_sweeper:
                self._has_sweeper = True
                self._sweep_later()
        _close(ended)

    def _of_another_identity(self, key: ConnectionKey) -> list[BoundedSocket]:
        # An endpoint that was changed: what was dialled for the former one ends here.
        ours = key.kept_for
        others = [
            each
            for each in self._idle
            if each[0].kept_for.owner == ours.owner and each[0].kept_for.identity != ours.identity
        ]
        return [self._without(each) for each in others]

    def _without(self, kept: tuple[ConnectionKey, BoundedSocket]) -> BoundedSocket:
        self._idle.remove(kept)
        return kept[1]

    def _sweep_later(self) -> None:
        # A thread only while there is something to close, which no session may come to ask for.
        timer = threading.Timer(MAX_IDLE, self._sweep)
        timer.daemon = True
        timer.start()

    def _sweep(self) -> None:
        now = time.monotonic()
        with self._lock:
            old = [each for each in self._idle if not is_usable(each[1], now, is_repeatable=True)]
            ended = [self._without(each) for each in old]
            self._has_sweeper = bool(self._idle)
            if self._has_sweeper:
                self._sweep_later()
        _close(ended)


def _close(ended: list[BoundedSocket]) -> None:
    for sock in ended:
        sock.close()


pool = ConnectionPool()
# A child has the same sockets as its parent, who goes on using them, and no thread of its. What is closed in
# the child stays open for the parent.
os.register_at_fork(after_in_child=pool.begin_anew)
