"""One HTTP request on one connection, bounded in time and size in every direction.

Every wait goes through `BoundedSocket`, which takes its timeout from what is left of the deadline
before each read and write: dripped headers, endless interim replies and slow bodies end on time
without a thread to watch them. Nothing here follows a redirect, reads a proxy or netrc from the
environment, or keeps a cookie.
"""

import functools
import http.client
import math
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
from core.outbound.addresses import CheckedUrl, Policy, check_addresses, unmapped
from core.outbound.connection_pool import ConnectionKey, KeptFor, is_usable, pool
from core.outbound.egress import Proxy, authority_of, proxy_failure, tunnel_refusal
from core.outbound.errors import RefusedError, UnavailableError
from core.outbound.limits import DEFAULT_LIMITS, Budget
from core.outbound.sockets import BoundedSocket, BoundedTlsSocket, tls_context, tls_problem
from core.outbound.tunnel import LayeredTlsSocket, open_tunnel

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


def look_up(host: str, port: int, resolver: Resolver, budget: Budget) -> Sequence[Row]:
    # One lookup in a pool of few threads, because getaddrinfo knows no timeout.
    future = _lookups().submit(resolver, host, port)
    try:
        return future.result(timeout=budget.wait(budget.limits.lookup))
    except TimeoutError as exc:
        future.cancel()
        budget.wait()  # where the request has no time left, it is the request that is late
        raise UnavailableError(
            "DNS", f"The name {host} could not be looked up within {budget.limits.lookup:g} s."
        ) from exc
    except (OSError, UnicodeError) as exc:
        raise UnavailableError("DNS", f"The name {host} could not be found.") from exc


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
    """One connection to one origin, straight or through the proxy of the policy's egress.

    Only addresses that the policy has checked are dialled, except where the proxy looks names up.
    """

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
        sock = self._open_path()
        if self._url.scheme == "https":
            sock = self._secured(sock)
        sock.budget = self._budget
        sock.dialled_at = sock.heard_at = time.monotonic()
        self.sock = self._dialled = sock
        if self._is_unwanted():
            # Who interrupted it meanwhile found nothing to shut.
            raise self._budget.reset()

    def try_origin(self) -> None:
        """Connect without a request, and close the connection. Raises ProtocolError."""
        self._budget = Budget(self._url.authority, DEFAULT_LIMITS, math.inf)
        self.connect()
        self.abandon()

    def try_proxy(self, proxy: Proxy) -> None:
        """Connect to the proxy without a tunnel, and close the connection. Raises UnavailableError."""
        self._budget = Budget(proxy.authority, DEFAULT_LIMITS, math.inf)
        self._dial_proxy(proxy, self._budget).close()

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

    def _open_path(self) -> BoundedSocket:
        url, egress = self._url, self._policy.egress
        if egress.proxy and url.may_be_public and egress.is_resolved_by_proxy(url.host):
            return self._open_tunnel(egress.proxy, authority_of(url.host, url.port))
        rows = look_up(url.host, url.port, self._resolver, self._budget)
        check_addresses([row[4] for row in rows], url.port, self._policy, public=url.may_be_public)
        addresses = [unmapped(ip_address(row[4][0])) for row in rows]
        if egress.proxy is None or egress.is_direct(url.host, addresses):
            sock, row = self._dial(rows, self._budget)
            self._note_entry(row)
            return sock
        return self._tunnel_to_first(egress.proxy, rows)

    def _tunnel_to_first(self, proxy: Proxy, rows: Sequence[Row]) -> BoundedSocket:
        # To the checked addresses and not to the name, which the proxy could look up differently.
        *others, last = rows
        for row in others:
            try:
                return self._tunnel_to(proxy, row)
            except UnavailableError as exc:
                if exc.code != "CONNECT":
                    raise
        return self._tunnel_to(proxy, last)

    def _tunnel_to(self, proxy: Proxy, row: Row) -> BoundedSocket:
        sock = self._open_tunnel(proxy, authority_of(row[4][0], self._url.port))
        self._note_entry(row)
        return sock

    def _open_tunnel(self, proxy: Proxy, target: str) -> BoundedSocket:
        budget = self._budget.for_host(proxy.authority)
        dialled = self._dial_proxy(proxy, budget)
        try:
            context = tls_context("", self._policy.egress.authorities)
            sock, status = open_tunnel(dialled, proxy, target, context)
        except UnavailableError as exc:
            raise proxy_failure(exc) from exc
        if 200 <= status < 300:
            return sock
        sock.close()
        if status >= 500:
            message = f"{self._budget.host} could not be reached through the outbound proxy ({status})."
            raise UnavailableError("CONNECT", message)
        raise tunnel_refusal(proxy, status)

    def _dial_proxy(self, proxy: Proxy, budget: Budget) -> BoundedSocket:
        try:
            rows = look_up(proxy.host, proxy.port, self._resolver, budget)
            sock, _ = self._dial(rows, budget)
        except UnavailableError as exc:
            raise proxy_failure(exc) from exc
        sock.budget = budget
        return sock

    def _note_entry(self, row: Row) -> None:
        if entry := self._policy.entry_for(ip_address(row[4][0]), self._url.port):
            self._reached[row[4][0]] = str(entry)

    def _dial(self, rows: Sequence[Row], budget: Budget) -> tuple[BoundedSocket, Row]:
        # The first of the addresses that answers; the last one's failure when none does.
        *others, last = rows
        for row in others:
            with suppress(OSError):
                return self._dial_one(row, budget), row
        try:
            return self._dial_one(last, budget), last
        except TimeoutError as exc:
            patience = f"{budget.limits.connect:g} s"
            message = f"{budget.host} accepted no connection within {patience}."
            raise UnavailableError("CONNECT_TIMEOUT", message) from exc
        except OSError as exc:
            message = f"{budget.host} could not be reached: {exc.strerror}."
            raise UnavailableError("CONNECT", message) from exc

    def _dial_one(self, row: Row, budget: Budget) -> BoundedSocket:
        patience = budget.wait(budget.limits.connect)
        sock = BoundedSocket(*row[:3])
        with ExitStack() as undoing:
            undoing.callback(sock.close)
            sock.settimeout(patience)
            sock.connect(row[4])
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            undoing.pop_all()
        return sock

    def _secured(self, sock: BoundedSocket) -> BoundedSocket:
        context = tls_context(self._authorities, self._policy.egress.authorities)
        with ExitStack() as undoing:
            undoing.callback(sock.close)
            try:
                if isinstance(sock, LayeredTlsSocket):
                    sock.budget = self._budget
                    sock.add_layer(context, self.host)
                    undoing.pop_all()
                    return sock
                sock.settimeout(self._budget.wait())
                return cast(BoundedTlsSocket, context.wrap_socket(sock, server_hostname=self.host))
            except TimeoutError as exc:
                raise self._budget.late() from exc
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as exc:
                raise self._budget.reset() from exc
            except ssl.SSLError as exc:
                raise RefusedError("TLS", f"{self._budget.host}: {tls_problem(exc)}.") from exc
            except OSError as exc:
                raise self._budget.reset() from exc
