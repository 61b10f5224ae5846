"""One HTTP request on one connection, bounded in time and size in every direction.

Every wait goes through `BoundedSocket`, which takes its timeout from what is left of the deadline
before each read and write: dripped headers, endless interim replies and slow bodies end on time
without a thread to watch them. Nothing here follows a redirect, reads a proxy or netrc from the
environment, or keeps a cookie.
"""

import functools
import http.client
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from typing import Any, cast

from urllib3.connection import HTTPConnection
from urllib3.response import BaseHTTPResponse
from urllib3.util.response import assert_header_parsing

from core.failpoints import failpoint
from core.outbound.addresses import CheckedUrl, Policy, check_addresses
from core.outbound.connection_pool import ConnectionKey, KeptFor, is_usable, pool
from core.outbound.errors import RefusedError, UnavailableError
from core.outbound.limits import Budget
from core.outbound.sockets import BoundedSocket, BoundedTlsSocket, tls_context, tls_problem

# family, type, protocol, canonical name, socket address: a row of socket.getaddrinfo
Row = tuple[int, int, int, str, tuple[Any, ...]]
Resolver = Callable[[str, int], Sequence[Row]]


@functools.cache
def _lookups() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="lookup")


# Threads do not survive a fork, and a pool that believes in them would hang every lookup of a worker.
os.register_at_fork(after_in_child=_lookups.cache_clear)


def system_resolver(host: str, port: int) -> Sequence[Row]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def look_up(url: CheckedUrl, resolver: Resolver, budget: Budget) -> Sequence[Row]:
    # One lookup in a pool of few threads, because getaddrinfo knows no timeout.
    future = _lookups().submit(resolver, url.host, url.port)
    try:
        return future.result(timeout=budget.wait(budget.limits.lookup))
    except TimeoutError as exc:
        future.cancel()
        budget.wait()  # where the request has no time left, it is the request that is late
        raise UnavailableError(
            "DNS", f"The name {url.host} could not be looked up within {budget.limits.lookup:g} s."
        ) from exc
    except (OSError, UnicodeError) as exc:
        raise UnavailableError("DNS", f"The name {url.host} could not be found.") from exc


class _Head(http.client.HTTPResponse):
    """Refuses a line among the headers that is none: the lengths that follow it would be lost unseen.

    urllib3 writes such a reply, and the address with its key, into the log.
    """

    def begin(self) -> None:
        super().begin()
        assert_header_parsing(self.msg)


_TIMEOUT = re.compile(r"(?:^|[\s,])timeout=([0-9]{1,6})(?=$|[\s,])", re.IGNORECASE)


def _promised_idle(keep_alive: str) -> float | None:
    # `Keep-Alive: timeout=5, max=100`
    found = _TIMEOUT.search(keep_alive)
    return float(found[1]) if found else None


class Connection(HTTPConnection):
    """One connection to one origin, which dials only addresses that the policy has judged."""

    response_class = _Head

    def __init__(
        self,
        url: CheckedUrl,
        policy: Policy,
        resolver: Resolver,
        authorities: str = "",
        reached: dict[str, str] | None = None,
        kept_for: KeptFor | None = None,
    ) -> None:
        """`reached` learns which entry of the policy opened which private address. With `kept_for` it takes a
        connection that was kept, if there is one, and leaves its own behind when it is closed."""
        super().__init__(url.host, url.port)
        self._url = url
        self._policy = policy
        self._resolver = resolver
        self._authorities = authorities
        self._reached = {} if reached is None else reached
        self._key = ConnectionKey(kept_for, url.origin, policy, authorities) if kept_for else None
        self._dialled: BoundedSocket | None = None
        # Held by what takes the socket away and by what shuts it: another session may have it after that, or
        # another file its number.
        self._parting = threading.Lock()
        self._has_sent = False
        self._budget: Budget
        self._is_unwanted: Callable[[], bool] = lambda: False

    def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        budget: Budget,
        *,
        is_repeatable: bool = False,
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> BaseHTTPResponse:
        """Sends one request and reads the head of the reply. `is_unwanted` is true from before it is
        interrupted."""
        self._budget, self._is_unwanted = budget, is_unwanted
        is_used = self._take_up(is_repeatable=is_repeatable)
        failpoint("connection-taken")
        options: dict[str, Any] = {
            "body": body,
            "headers": {"Host": self._url.authority, **headers},
            "preload_content": False,
            "decode_content": False,
        }
        self._has_sent = False
        try:
            self.request(method, target, **options)
        except UnavailableError as error:
            # Not all of the head has left, so no server has a request of it that it could have handled: RFC
            # 9112 section 9.3.1. After that, of what must not be sent twice nothing is sent again.
            if not is_used or self._has_sent or error.code != "RESET":
                raise
            self.abandon()
            self.request(method, target, **options)
        response = self.getresponse()
        budget.head_is_read()
        if self._dialled:
            self._dialled.promised_idle = _promised_idle(response.headers.get("keep-alive", ""))
        return response

    def _take_up(self, *, is_repeatable: bool) -> bool:
        # A connection that has carried a request before, if there is one that can carry another.
        sock = self.sock
        if isinstance(sock, BoundedSocket) and not is_usable(
            sock, time.monotonic(), is_repeatable=is_repeatable
        ):
            self.abandon()
        if self.sock is None and self._key:
            self.sock = self._dialled = pool.take(self._key, is_repeatable=is_repeatable)
        if not isinstance(self.sock, BoundedSocket):
            return False
        self.sock.budget = self._budget
        return True

    def send(self, data: Any) -> None:
        super().send(data)
        self._has_sent = True

    def connect(self) -> None:
        rows = look_up(self._url, self._resolver, self._budget)
        check_addresses(
            [row[4] for row in rows], self._url.port, self._policy, public=self._url.may_be_public
        )
        sock = self._dial(rows)
        if self._url.scheme == "https":
            sock = self._secured(sock)
        sock.budget = self._budget
        sock.dialled_at = sock.heard_at = time.monotonic()
        self.sock = self._dialled = sock
        if self._is_unwanted():
            # Who interrupted it meanwhile found nothing to shut.
            raise self._budget.reset()

    def leave(self) -> None:
        """Ends the conversation. What was read to its end is left for the owner's next one."""
        if self._key and self._dialled and self.sock is self._dialled:
            with self._parting:
                sock, self.sock, self._dialled = self._dialled, None, None
            pool.give(self._key, sock)
        self.abandon()

    def abandon(self) -> None:
        """Closes the socket at once; `close` leaves it to a reply that may never be read to its end."""
        with self._parting:
            sock, self._dialled = self._dialled, None
        self.close()
        if sock and (descriptor := sock.detach()) != -1:
            os.close(descriptor)

    def interrupt(self) -> None:
        """From another thread: what waits for this connection wakes up, and finds it ended."""
        with self._parting, suppress(OSError):
            if self._dialled:
                # Past the method of TLS sockets, which takes their state away while another thread reads.
                socket.socket.shutdown(self._dialled, socket.SHUT_RDWR)

    def _dial(self, rows: Sequence[Row]) -> BoundedSocket:
        # The first of the judged addresses that answers; the last one's failure when none does.
        *others, last = rows
        for row in others:
            with suppress(OSError):
                return self._dial_one(row)
        try:
            return self._dial_one(last)
        except TimeoutError as exc:
            patience = f"{self._budget.limits.connect:g} s"
            message = f"{self._budget.host} accepted no connection within {patience}."
            raise UnavailableError("CONNECT_TIMEOUT", message) from exc
        except OSError as exc:
            message = f"{self._budget.host} could not be reached: {exc.strerror}."
            raise UnavailableError("CONNECT", message) from exc

    def _dial_one(self, row: Row) -> BoundedSocket:
        patience = self._budget.wait(self._budget.limits.connect)
        sock = BoundedSocket(*row[:3])
        with ExitStack() as undoing:
            undoing.callback(sock.close)
            sock.settimeout(patience)
            sock.connect(row[4])
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            undoing.pop_all()
        if entry := self._policy.entry_for(ip_address(row[4][0]), self._url.port):
            self._reached[row[4][0]] = str(entry)
        return sock

    def _secured(self, sock: BoundedSocket) -> BoundedSocket:
        try:
            sock.settimeout(self._budget.wait())
            secured = tls_context(self._authorities).wrap_socket(sock, server_hostname=self.host)
            return cast(BoundedTlsSocket, secured)
        except TimeoutError as exc:
            raise self._budget.late() from exc
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as exc:
            raise self._budget.reset() from exc
        except ssl.SSLError as exc:
            raise RefusedError("TLS", f"{self._budget.host}: {tls_problem(exc)}.") from exc
        except OSError as exc:
            raise self._budget.reset() from exc
        finally:
            sock.close()
