"""One HTTP request on one connection, with bounds on time and size.

Every wait goes through `BoundedSocket`, which sets its timeout to the remaining time before each read and
write: dripped headers, endless interim replies and slow bodies end on time without a watching thread. This
module does not follow redirects, store cookies, or read a proxy or netrc from the environment.
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
from core.outbound.addresses import CheckedUrl, Policy, check_addresses, unmap_address
from core.outbound.connection_pool import ConnectionKey, KeptFor, is_usable, pool
from core.outbound.egress import Proxy, authority_of, proxy_failure, tunnel_refusal
from core.outbound.errors import RefusedError, UnavailableError
from core.outbound.limits import DEFAULT_LIMITS, Budget
from core.outbound.sockets import (
    BoundedSocket,
    BoundedTlsSocket,
    ClientCertificate,
    tls_context,
    tls_problem,
)
from core.outbound.tunnel import LayeredTlsSocket, open_tunnel

# A row of socket.getaddrinfo: family, type, protocol, canonical name, socket address.
Row = tuple[int, int, int, str, tuple[Any, ...]]
Resolver = Callable[[str, int], Sequence[Row]]


@functools.cache
def _lookup_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="lookup")


# Threads do not survive a fork. A child with the pool of its parent would wait for ever.
os.register_at_fork(after_in_child=_lookup_threads.cache_clear)


def system_resolver(host: str, port: int) -> Sequence[Row]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def look_up(host: str, port: int, resolver: Resolver, budget: Budget) -> Sequence[Row]:
    # The lookup runs in a small thread pool, because getaddrinfo has no timeout.
    future = _lookup_threads().submit(resolver, host, port)
    try:
        return future.result(timeout=budget.wait(budget.limits.lookup))
    except TimeoutError as exc:
        future.cancel()
        budget.wait()  # raises if the request itself has no time left
        raise UnavailableError(
            "DNS", f"The name {host} could not be looked up within {budget.limits.lookup:g} s."
        ) from exc
    except (OSError, UnicodeError) as exc:
        raise UnavailableError("DNS", f"The name {host} could not be found.") from exc


class _Head(http.client.HTTPResponse):
    """A response head without invalid header lines: the parser would drop the lengths after such a line.

    urllib3 only logs such a reply, together with the address and its key.
    """

    def begin(self) -> None:
        super().begin()
        assert_header_parsing(self.msg)


_TIMEOUT = re.compile(r"(?:^|[\s,])timeout=([0-9]{1,6})(?=$|[\s,])", re.IGNORECASE)


class Connection(HTTPConnection):
    """A connection to one origin, directly or through the proxy of the policy's egress.

    It connects only to addresses that the policy allows, unless the proxy resolves names.
    """

    response_class = _Head

    def __init__(
        self,
        url: CheckedUrl,
        policy: Policy,
        resolver: Resolver,
        authorities: str = "",
        reached_addresses: dict[str, str] | None = None,
        kept_for: KeptFor | None = None,
        certificate: ClientCertificate | None = None,
    ) -> None:
        """Prepare a connection.

        reached_addresses: receives the policy entry for each private address.
        kept_for: use a connection of the pool if there is one, and return the connection to the pool at the
        end.
        """
        super().__init__(url.host, url.port)
        self._url = url
        self._policy = policy
        self._resolver = resolver
        self._authorities = authorities
        self._certificate = certificate
        self._reached = {} if reached_addresses is None else reached_addresses
        self._key = ConnectionKey(kept_for, url.origin, policy, authorities) if kept_for else None
        self._dialled: BoundedSocket | None = None
        # Protects the socket from `interrupt` after another session has it, or another file has its number.
        self._socket_lock = threading.Lock()
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
        """Send a request and read the head of the reply. `is_unwanted` is true before `interrupt` is
        called."""
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
            # A part of the head was not sent, so no server can have handled the request (RFC 9112 section
            # 9.3.1). After the whole head, a request that must not run twice is not sent again.
            if not is_used or self._has_sent or error.code != "RESET":
                raise
            self.abandon()
            self.request(method, target, **options)
        response = self.getresponse()
        budget.head_is_read()
        if self._dialled:
            # The seconds of `Keep-Alive: timeout=5, max=100`.
            seconds = _TIMEOUT.search(response.headers.get("keep-alive", ""))
            self._dialled.promised_idle = float(seconds[1]) if seconds else None
        return response

    def _take_up(self, *, is_repeatable: bool) -> bool:
        """Use an open connection if there is a usable one. Return whether there is."""
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
            sock = self._wrap_tls(sock)
        sock.budget = self._budget
        sock.dialled_at = sock.heard_at = time.monotonic()
        self.sock = self._dialled = sock
        if self._is_unwanted():
            # An interrupt during the connect found no socket to shut down.
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
        """End the session's use. A connection whose reply was read to its end returns to the pool."""
        if self._key and self._dialled and self.sock is self._dialled:
            with self._socket_lock:
                sock, self.sock, self._dialled = self._dialled, None, None
            pool.give(self._key, sock)
        self.abandon()

    def abandon(self) -> None:
        """Close the socket at once. `close` leaves it open for a reply that is still read."""
        with self._socket_lock:
            sock, self._dialled = self._dialled, None
        self.close()
        if sock and (descriptor := sock.detach()) != -1:
            os.close(descriptor)

    def interrupt(self) -> None:
        """Shut the connection down, so that a waiting thread wakes up. For another thread."""
        with self._socket_lock, suppress(OSError):
            if self._dialled:
                # Not the method of TLS sockets, which would remove their state while another thread reads.
                socket.socket.shutdown(self._dialled, socket.SHUT_RDWR)

    def _open_path(self) -> BoundedSocket:
        url, egress = self._url, self._policy.egress
        if egress.proxy and url.may_be_public and egress.is_resolved_by_proxy(url.host):
            return self._open_tunnel(egress.proxy, authority_of(url.host, url.port))
        rows = look_up(url.host, url.port, self._resolver, self._budget)
        check_addresses([row[4] for row in rows], url.port, self._policy, public=url.may_be_public)
        addresses = [unmap_address(ip_address(row[4][0])) for row in rows]
        if egress.proxy is None or egress.is_direct(url.host, addresses):
            sock, row = self._dial_first(rows, self._budget)
            self._note_entry(row)
            return sock
        # The tunnel has a checked address as its target, because the proxy might resolve the name
        # differently.
        *others, last = rows
        for row in others:
            try:
                return self._tunnel_to(egress.proxy, row)
            except UnavailableError as exc:
                if exc.code != "CONNECT":
                    raise
        return self._tunnel_to(egress.proxy, last)

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
            sock, _ = self._dial_first(rows, budget)
        except UnavailableError as exc:
            raise proxy_failure(exc) from exc
        sock.budget = budget
        return sock

    def _note_entry(self, row: Row) -> None:
        if entry := self._policy.entry_for(ip_address(row[4][0]), self._url.port):
            self._reached[row[4][0]] = str(entry)

    def _dial_first(self, rows: Sequence[Row], budget: Budget) -> tuple[BoundedSocket, Row]:
        """Connect to the first address that accepts. Raises the error of the last one."""
        *others, last = rows
        for row in others:
            with suppress(OSError):
                return self._dial_one(row, budget), row
        try:
            return self._dial_one(last, budget), last
        except TimeoutError as exc:
            message = f"{budget.host} accepted no connection within {budget.limits.connect:g} s."
            raise UnavailableError("CONNECT_TIMEOUT", message) from exc
        except OSError as exc:
            message = f"{budget.host} could not be reached: {exc.strerror}."
            raise UnavailableError("CONNECT", message) from exc

    def _dial_one(self, row: Row, budget: Budget) -> BoundedSocket:
        seconds = budget.wait(budget.limits.connect)
        sock = BoundedSocket(*row[:3])
        with ExitStack() as undoing:
            undoing.callback(sock.close)
            sock.settimeout(seconds)
            sock.connect(row[4])
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            undoing.pop_all()
        return sock

    def _wrap_tls(self, sock: BoundedSocket) -> BoundedSocket:
        context = tls_context(self._authorities, self._policy.egress.authorities, self._certificate)
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
