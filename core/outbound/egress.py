"""The path of outbound requests: directly to the host, or through the proxy of the installation. Pure."""

import base64
import functools
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from core.outbound.errors import RefusedError, UnavailableError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_PROXY_FORM = (
    "PEGBOARD_OUTBOUND_PROXY: Write the proxy's address as http://host:port or "
    "https://user:password@host:port, with special characters of the password percent-encoded"
)
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9_])?")
# Resolvers read a name whose last label is a number as an IPv4 address: 127.1, 0x7f000001.
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy that opens tunnels (CONNECT, RFC 9110 section 9.3.6).

    authorization: the value of Proxy-Authorization with the password; "" without a user name.
    """

    scheme: str
    host: str
    port: int
    authorization: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> "Proxy":
        """Parse the address of a proxy. Raises ValueError without the text, which may contain a password."""
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError as exc:
            raise ValueError(_PROXY_FORM) from exc
        try:
            is_host = bool(ipaddress.ip_address(host))
        except ValueError:
            is_host = _is_name(host)
        is_bare = parts.path in ("", "/") and not parts.query and not parts.fragment
        if parts.scheme not in ("http", "https") or port is None or not is_bare or not is_host:
            raise ValueError(_PROXY_FORM)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if not f"{user}{password}".isprintable() or ":" in user:
            raise ValueError(_PROXY_FORM)
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        return cls(parts.scheme, host, port, f"Basic {pair}" if parts.username is not None else "")

    @property
    def authority(self) -> str:
        return authority_of(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Egress:
    """The settings of the installation for outbound requests.

    proxy: None, or the proxy that opens their connections.
    direct_names, direct_networks: hosts that requests reach without the proxy. A name with a leading dot
        includes all names that end with it.
    proxy_resolves: the proxy looks names up and guards against private addresses.
    authorities: PEM of trusted certificate authorities in addition to the public ones.
    """

    proxy: Proxy | None = None
    direct_names: tuple[str, ...] = ()
    direct_networks: tuple[IPNetwork, ...] = ()
    proxy_resolves: bool = False
    authorities: str = field(default="", repr=False)

    @classmethod
    @functools.lru_cache(maxsize=16)
    def parse(cls, proxy: str, direct: str, resolves: str, authorities: str) -> "Egress":
        """Parse the values of the variables. Raises ValueError with the variable and its fault."""
        if resolves not in ("", "0", "1"):
            raise ValueError("PEGBOARD_OUTBOUND_PROXY_RESOLVES: Write 1 or 0")
        names, networks = [], []
        for part in direct.lower().replace(",", " ").split():
            try:
                networks.append(ipaddress.ip_network(part.strip("[]")))
                continue
            except ValueError:
                name = part.removeprefix("*")
            if not _is_name(name.removeprefix(".")):
                raise ValueError(
                    f"PEGBOARD_OUTBOUND_DIRECT: {part!r} is no host name, no domain such as .example.com and "
                    "no network such as 10.0.0.0/8"
                )
            names.append(name)
        return cls(
            Proxy.parse(proxy.strip()) if proxy.strip() else None,
            tuple(names),
            tuple(networks),
            resolves == "1",
            authorities,
        )

    def is_direct(self, host: str, addresses: Iterable[IPAddress] = ()) -> bool:
        """Return whether requests reach a host with these addresses without the proxy."""
        if self.proxy is None:
            return True
        name = host.rstrip(".")
        for direct_name in self.direct_names:
            if name == direct_name or (direct_name.startswith(".") and name.endswith(direct_name)):
                return True
        matches = [any(address in network for network in self.direct_networks) for address in addresses]
        return bool(matches) and all(matches)

    def is_resolved_by_proxy(self, host: str) -> bool:
        """Return whether the proxy resolves the name, so that Pegboard does not know the addresses."""
        is_address = ":" in host or _ENDS_IN_NUMBER.fullmatch(host) is not None
        return self.proxy_resolves and not is_address and not self.is_direct(host)


DIRECT = Egress()


def authority_of(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def tunnel_request(proxy: Proxy, target: str) -> bytes:
    """Return the request for a tunnel to `target`, which is `host:port`."""
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return "\r\n".join([*lines, "", ""]).encode()


def read_tunnel_status(head: bytes) -> int:
    """Return the status of the proxy's reply. Raises ValueError if it is not HTTP."""
    match = re.match(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r?\n", head)
    if match is None:
        raise ValueError("no HTTP")
    return int(match[1])


def proxy_failure(error: UnavailableError) -> UnavailableError:
    """Return the error for a proxy that is not available, from the error of the connection to it."""
    message = f"The outbound proxy does not work: {error.message} Nothing was sent."
    return UnavailableError("PROXY", message)


def tunnel_refusal(proxy: Proxy, status: int) -> RefusedError:
    """Return the error for a proxy that refused a tunnel without trying to reach the host."""
    if status == 407:
        reason = "requires a user name and password, or does not accept those of the setting"
        advice = "Correct PEGBOARD_OUTBOUND_PROXY"
    else:
        reason = "does not allow this request"
        advice = (
            "Allow the host at the proxy. If it allows hosts by name only, set "
            "PEGBOARD_OUTBOUND_PROXY_RESOLVES=1"
        )
    return RefusedError(
        "PROXY_REFUSED",
        f"The outbound proxy {proxy.authority} {reason} ({status}). Nothing was sent. {advice}.",
    )


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None
