"""The rule for the addresses that Pegboard may connect to. Pure.

`check_url` checks the form of a URL, and `check_addresses` checks the addresses that the resolver returned;
the caller then connects to exactly these addresses. The spelling of a host decides nothing. Properties of the
standard library such as `is_global` are not used, because they changed between releases.
"""

import functools
import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import idna

from core.outbound.egress import DIRECT, Egress, IPAddress, IPNetwork
from core.outbound.errors import RefusedError, printable

Ports = tuple[range, ...]

MAX_URL_LENGTH = 2048
_DEFAULT_PORTS = {"http": 80, "https": 443}


def _parse_networks(text: str) -> tuple[IPNetwork, ...]:
    return tuple(ipaddress.ip_network(part) for part in text.split())


# The metadata services of clouds, which return credentials, and "this host". No setting allows them. Besides
# link-local addresses: Alibaba, Azure, Oracle classic; AWS, Google, Oracle, Scaleway and Linode over IPv6.
NEVER = _parse_networks(
    "169.254.0.0/16 100.100.100.200 168.63.129.16 192.0.0.192 0.0.0.0/8"
    " fe80::/10 fd00:ec2::/32 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 fd00:a9fe:a9fe::/48 ::"
)
LOOPBACK = _parse_networks("127.0.0.0/8 ::1")
# RFC 4291 2.5.5.1, RFC 7915 (SIIT), RFC 6052: the last 32 bits are an IPv4 address.
ENDS_IN_IPV4 = _parse_networks("::/96 ::ffff:0:0:0/96 64:ff9b::/96")
LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")  # RFC 8215

# The special-purpose registries of IANA, without the exceptions inside a block.
NOT_PUBLIC = _parse_networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24"
    " 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15"
    " 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
    " 2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20"
)
# Other IPv6 addresses are refused, including all forms that contain an IPv4 address except the mapped one.
PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")


def _parse_ports(text: str) -> Ports:
    ports = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not (first.isascii() and first.isdigit() and (last.isdigit() or not dash)):
            raise ValueError(f"{part!r} is not a port")
        ports.append(range(int(first), int(last or first) + 1))
    if any(not span or span.start < 1 or span.stop > 65536 for span in ports):
        raise ValueError(f"{text!r} holds a port outside 1-65535")
    return tuple(ports)


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """A private network that is allowed, on these ports or on all."""

    network: IPNetwork
    ports: Ports = ()

    @classmethod
    def parse(cls, text: str) -> "AllowEntry":
        """Parse `10.20.0.0/16`, `10.20.0.0/16:443,8000-8100`, `fd12::/16:443` or an address. Raises
        ValueError."""
        base, slash, suffix = text.partition("/")
        length, colon, ports = suffix.partition(":")
        network = ipaddress.ip_network(f"{base}/{length}" if slash else base)
        if any(network.version == never.version and network.subnet_of(never) for never in NEVER):  # type: ignore[arg-type]
            raise ValueError(f"{text!r} can never be allowed")
        return cls(network, _parse_ports(ports) if colon else ())

    def __str__(self) -> str:
        spans = [str(span.start) if len(span) == 1 else f"{span.start}-{span[-1]}" for span in self.ports]
        return f"{self.network}:{','.join(spans)}" if spans else str(self.network)

    def takes_port(self, port: int) -> bool:
        return not self.ports or any(port in span for span in self.ports)

    def covers(self, address: IPAddress, port: int) -> bool:
        # A wide entry such as 0.0.0.0/0 does not allow loopback: only an entry for loopback does.
        is_excluded = _is_in_networks(address, LOOPBACK) and not self.network.is_loopback
        return address in self.network and self.takes_port(port) and not is_excluded


@dataclass(frozen=True, slots=True)
class Policy:
    """The addresses that the deployment allows.

    allow: private networks, parsed from the setting `setting`. ports: of public addresses.
    egress: the path of requests to these addresses.
    """

    allow: tuple[AllowEntry, ...] = ()
    ports: Ports = (range(80, 81), range(443, 444), range(8000, 10000))
    setting: str = "PEGBOARD_OUTBOUND_ALLOW"
    egress: Egress = DIRECT

    @classmethod
    @functools.lru_cache(maxsize=16)
    def parse(
        cls,
        text: str,
        ports: str = "",
        setting: str = "PEGBOARD_OUTBOUND_ALLOW",
        egress: Egress = DIRECT,
    ) -> "Policy":
        """Parse the values of `setting` and `PEGBOARD_OUTBOUND_PORTS`. Raises ValueError that names the bad
        part."""
        entries = []
        for part in text.split():
            try:
                entries.append(AllowEntry.parse(part))
            except ValueError as exc:
                raise ValueError(f"{setting}: {part!r}: {exc}") from exc
        if not ports.strip():
            return cls(allow=tuple(entries), setting=setting, egress=egress)
        try:
            spans = _parse_ports(",".join(ports.replace(",", " ").split()))
        except ValueError as exc:
            raise ValueError(f"PEGBOARD_OUTBOUND_PORTS: {exc}") from exc
        return cls(tuple(entries), spans, setting, egress)

    def takes_port(self, port: int) -> bool:
        """Return whether the policy allows the port for any address."""
        entries = any(entry.takes_port(port) for entry in self.allow)
        return 0 < port < 65536 and (entries or any(port in span for span in self.ports))

    def permits(self, address: IPAddress, port: int, *, public: bool = True) -> bool:
        """Return whether the policy allows the address. With `public` false an entry has to cover it.

        The IPv4 addresses that a gateway would read from it have to be allowed as well.
        """
        address = unmap_address(address)
        forms = (address, *_embedded_ipv4(address))
        if any(_is_in_networks(form, NEVER) for form in forms):
            return False
        if not all(is_public(form) or self.entry_for(form, port) for form in forms[1:]):
            return False
        if self.entry_for(address, port):
            return True
        return public and is_public(address) and any(port in span for span in self.ports)

    def entry_for(self, address: IPAddress, port: int) -> AllowEntry | None:
        """Return the first entry that covers the address, or None."""
        address = unmap_address(address)
        return next((entry for entry in self.allow if entry.covers(address, port)), None)


@dataclass(frozen=True, slots=True)
class CheckedUrl:
    """A URL with a valid form.

    host: lower case, without brackets. path: without its last slash. query: part of every request; without
    "?". authority: host and port, as in the Host header. origin: scheme and authority. text: the whole URL.
    """

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""
    authority: str = field(init=False, compare=False)
    origin: str = field(init=False, compare=False)
    text: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # Every request of a session uses them.
        host = f"[{self.host}]" if ":" in self.host else self.host
        authority = host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"
        origin = f"{self.scheme}://{authority}"
        object.__setattr__(self, "authority", authority)
        object.__setattr__(self, "origin", origin)
        object.__setattr__(self, "text", origin + self.path + (f"?{self.query}" if self.query else ""))

    @property
    def may_be_public(self) -> bool:
        # Plain http, and names that only a search domain completes, are limited to allowed networks.
        return self.scheme == "https" and ("." in self.host or ":" in self.host)

    def __str__(self) -> str:
        return self.text


# Narrower than RFC 3986: parsers disagree about user names, zones, escapes in the host and a query right
# after the host.
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]{2,45}\]|[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9_.])?)"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?:(?P<path>/[!$%&'()*+,\-./0-9:;=@A-Z_a-z~]*)(?:\?(?P<query>[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~]*))?)?",
    re.IGNORECASE,
)
# Names of keys in an address, and values that look like keys: known prefixes, or 32 characters in a row with
# upper and lower case letters and digits.
_KEY_NAMES = re.compile(
    r"key|sig|auth|authorization|pass|pwd|jwt|bearer|credentials?"
    r"|.*(?:token|secret|passw(?:or)?d|signature)"
    r"|.*(?:api|access|app|auth|client|private|secret|subscription)[-_.]?key",
    re.IGNORECASE,
)
_KEYS = re.compile(
    r"eyJ[\w-]{8,}\.[\w-]+\.|(?:sk|pk|rk)[-_]\w{2,}[-_]?\w{8}|gh[pousr]_\w{16}|github_pat_|glpat-|xox[abprs]-"
    r"|AKIA[0-9A-Z]{12}|AIza[\w-]{20}|ya29\.|hf_\w{16}"
    r"|(?=[\w+/=-]*[a-z])(?=[\w+/=-]*[A-Z])(?=[\w+/=-]*[0-9])[\w+/=-]{32}"
)


@functools.lru_cache(maxsize=1_000)
def check_url(url: str, policy: Policy, *, may_ask: bool = False) -> CheckedUrl:
    """Parse an address. Raises RefusedError `URL` with the fault.

    may_ask: the address may contain a query. A query with a key is refused, because pages show addresses.
    """
    if not url.lower().startswith(("http://", "https://") if policy.allow else "https://"):
        allowed = ", or with http:// for a network that this deployment allows" if policy.allow else ""
        raise RefusedError("URL", f"Start the address with https://{allowed}.")
    if complaint := _find_fault(url, may_ask=may_ask):
        raise _bad_url(complaint)
    match = _URL.fullmatch(url)
    if not match:
        raise _bad_url("contains characters that are not allowed in a web address")
    scheme, host = match["scheme"].lower(), match["host"].lower().strip("[]")
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    if not policy.takes_port(port):
        raise _bad_url(f"uses port {port}, which this deployment does not allow")
    try:
        parts = urlsplit(url)
        is_clear = (parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]) == (host, port)
    except ValueError:
        is_clear = False
    if not is_clear:
        raise _bad_url("can be read in two ways")
    if not policy.allow and "." not in host.rstrip(".") and ":" not in host:
        raise _bad_url("needs a whole host name with a dot in it, such as api.example.com")
    return CheckedUrl(scheme, host, port, (match["path"] or "").rstrip("/"), match["query"] or "")


def keys_in(url: str) -> list[str]:
    """Return the names of parameters that contain a key, by their name or their value."""
    pairs = parse_qsl(url.partition("?")[2].partition("#")[0], keep_blank_values=True)
    return [name for name, value in pairs if _KEY_NAMES.fullmatch(name) or _KEYS.search(value)]


def without_keys(url: str) -> str:
    """Return the address without a password and without keys in its query, for the user who entered it."""
    address, mark, query = url.partition("?")
    scheme, slashes, location = address.partition("://")
    host, slash, path = location.partition("/")
    address = f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"
    keys = set(keys_in(url))
    parts = [part for part in query.split("&") if unquote_plus(part.partition("=")[0]) not in keys]
    return address + (mark + "&".join(parts) if parts != [""] else "")


def in_ascii(url: str) -> str:
    """Return the URL with an international host name in its xn-- form.

    IDNA 2008 with lower case as the only mapping: a look-alike of a letter, digit or dot stays outside ASCII,
    and `check_url` refuses it.
    """
    scheme, mark, location = url.partition("://")
    host = re.split(r"[:/?#]", location, maxsplit=1)[0]
    if not mark or host.isascii():
        return url
    try:
        ascii_host = idna.encode(host.lower(), strict=True).decode("ascii")
    except idna.IDNAError:
        return url
    return f"{scheme}://{ascii_host}{location[len(host) :]}"


def _find_fault(url: str, *, may_ask: bool) -> str:
    """Return the most likely fault of a URL as the end of a sentence, or ""."""
    authority = url.partition("://")[2].partition("/")[0]
    if len(url) > MAX_URL_LENGTH:
        return f"is longer than {MAX_URL_LENGTH:,} characters"
    if not url.isascii():
        return "must be written in ASCII; write an international host name in its xn-- form"
    if "@" in authority:
        return "must not contain a user name or password; enter them as a credential"
    if "#" in url or ("?" in url and not may_ask):
        return "must end before any #" if may_ask else "must end before any ? or #"
    if keys := keys_in(url):
        return (
            f"must not contain a key (“{printable(keys[0], 40)}”), because pages show addresses; remove it "
            "here, and enter it as a credential of the kind “API key in the address”"
        )
    if "?" in authority:
        return "needs a / before the ?"
    return "" if authority else "has no host"


def _bad_url(complaint: str) -> RefusedError:
    return RefusedError("URL", f"The address {complaint}.")


def check_addresses(
    sockaddrs: Iterable[Sequence[Any]], port: int, policy: Policy, *, public: bool = True
) -> None:
    """Raise RefusedError unless the policy allows all addresses: a mixed set has no honest use."""
    # All refusals have the same sentence, so that it does not reveal whether a host exists at an address.
    try:
        addresses = [ipaddress.ip_address(str(sockaddr[0])) for sockaddr in sockaddrs]
    except ValueError:
        addresses = []
    if not addresses or not all(
        not getattr(address, "scope_id", None) and policy.permits(address, port, public=public)
        for address in addresses
    ):
        raise RefusedError(
            "ADDRESS",
            "Pegboard may not connect to this address: it may use https to the public internet, "
            f"and the networks listed in {policy.setting}.",
        )


def unmap_address(address: IPAddress) -> IPAddress:
    # A socket writes a.b.c.d as `::ffff:a.b.c.d`. An allow entry applies to no other form of an IPv4 address.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_public(address: IPAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and (address not in PUBLIC_IPV6 or _is_isatap(address)):
        return False
    return not _is_in_networks(address, NOT_PUBLIC)


def _embedded_ipv4(address: IPAddress) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses that a gateway may read from this address."""
    if not isinstance(address, ipaddress.IPv6Address) or _is_in_networks(address, LOOPBACK):
        return
    bits = int(address)
    if _is_in_networks(address, ENDS_IN_IPV4) or _is_isatap(address):
        yield ipaddress.IPv4Address(bits & 0xFFFFFFFF)
    if address in LOCAL_NAT64:
        # RFC 6052 2.2 with prefixes of 48, 56, 64 and 96 bits; the shorter ones skip bits 64 to 71.
        compact = (bits >> 64 << 56) | (bits & (1 << 56) - 1)
        forms = (compact >> 40, compact >> 32, compact >> 24, bits)
        # With a wrong prefix length the result is mostly zeros, which is skipped.
        yield from (ipaddress.IPv4Address(form & 0xFFFFFFFF) for form in forms if form >> 24 & 0xFF)
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo


def _is_isatap(address: ipaddress.IPv6Address) -> bool:
    # RFC 5214 6.1: the interface identifier is 0000:5efe or 0200:5efe and an IPv4 address.
    return int(address) >> 32 & 0xFDFFFFFF == 0x00005EFE


def _is_in_networks(address: IPAddress, networks: Iterable[IPNetwork]) -> bool:
    return any(address in network for network in networks)
