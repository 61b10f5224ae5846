"""Where Pegboard may connect to: a pure rule over URLs and resolved addresses.

A host is never judged by its spelling. `check_url` looks at the form of a URL and `check_addresses`
judges what the resolver returned; the caller then dials exactly the addresses that were judged.
Verdicts of the standard library such as `is_global` are not used: they changed between releases.
"""

import functools
import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import idna

from core.outbound.egress import DIRECT, Egress, IPAddress, IPNetwork
from core.outbound.errors import RefusedError, printable

Ports = tuple[range, ...]

MAX_URL_LENGTH = 2048
_DEFAULT_PORTS = {"http": 80, "https": 443}


def _networks(text: str) -> tuple[IPNetwork, ...]:
    return tuple(ipaddress.ip_network(part) for part in text.split())


# Where clouds and hosts keep their own credentials, and "this host" itself: no setting opens them. Beside the
# link-local ones: Alibaba, Azure, Oracle classic; AWS, Google, Oracle, Scaleway and Linode over IPv6.
NEVER = _networks(
    "169.254.0.0/16 100.100.100.200 168.63.129.16 192.0.0.192 0.0.0.0/8"
    " fe80::/10 fd00:ec2::/32 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 fd00:a9fe:a9fe::/48 ::"
)
LOOPBACK = _networks("127.0.0.0/8 ::1")
# RFC 4291 2.5.5.1, RFC 7915 (SIIT), RFC 6052: the last 32 bits are an IPv4 address.
ENDS_IN_IPV4 = _networks("::/96 ::ffff:0:0:0/96 64:ff9b::/96")
LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")  # RFC 8215

# The special-purpose registries of IANA, without any exception that they make inside a block.
NOT_PUBLIC = _networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24"
    " 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15"
    " 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
    " 2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20"
)
# Everything outside is refused, and with it every form that carries an IPv4 address but the mapped one.
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
    """A private network that vendors may live in; without ports, on every port."""

    network: IPNetwork
    ports: Ports = ()

    @classmethod
    def parse(cls, text: str) -> "AllowEntry":
        """Reads `10.20.0.0/16`, `10.20.0.0/16:443,8000-8100`, `fd12::/16:443` or a bare address."""
        base, slash, rest = text.partition("/")
        length, colon, ports = rest.partition(":")
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
        # A wide entry such as 0.0.0.0/0 does not open loopback by accident: loopback is named or shut.
        loops = _within(address, LOOPBACK) and not self.network.is_loopback
        return address in self.network and self.takes_port(port) and not loops


@dataclass(frozen=True, slots=True)
class Policy:
    """The addresses that the deployment allows: public ones on `ports`, and the networks in `allow`, which is
    read from `setting`. Requests to them take the path that `egress` describes."""

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
        """Read `setting` and `PEGBOARD_OUTBOUND_PORTS`. ValueError names the bad part."""
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
        """Whether any address at all may be dialled on `port`."""
        entries = any(entry.takes_port(port) for entry in self.allow)
        return 0 < port < 65536 and (entries or any(port in span for span in self.ports))

    def permits(self, address: IPAddress, port: int, *, public: bool = True) -> bool:
        """Whether `address` may be dialled. With `public` false an allow entry has to cover it.

        What a gateway may make of it has to be open as well: a tunnel is no way around the rule.
        """
        address = unmapped(address)
        forms = (address, *_carried(address))
        if any(_within(form, NEVER) for form in forms):
            return False
        if not all(is_public(form) or self.entry_for(form, port) for form in forms[1:]):
            return False
        if self.entry_for(address, port):
            return True
        return public and is_public(address) and any(port in span for span in self.ports)

    def entry_for(self, address: IPAddress, port: int) -> AllowEntry | None:
        """The first entry that opens `address`; None for a public one that needs none."""
        address = unmapped(address)
        return next((entry for entry in self.allow if entry.covers(address, port)), None)


@dataclass(frozen=True, slots=True)
class CheckedUrl:
    """A URL whose form is sound; `host` is lower case and without brackets, `path` without its last slash.

    `query` goes along with every request, without its question mark.
    """

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def may_be_public(self) -> bool:
        # Plain http, and names that only a search domain completes, are for allowed networks.
        return self.scheme == "https" and ("." in self.host or ":" in self.host)

    def __str__(self) -> str:
        return self.origin + self.path + (f"?{self.query}" if self.query else "")


# Narrower than RFC 3986 on purpose: what it leaves out (user names, zones, escapes in the host, a query
# right after it) is where two parsers read two different hosts.
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]{2,45}\]|[a-z0-9_](?:[a-z0-9._-]{0,251}[a-z0-9_.])?)"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?:(?P<path>/[!$%&'()*+,\-./0-9:;=@A-Z_a-z~]*)(?:\?(?P<query>[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~]*))?)?",
    re.IGNORECASE,
)
# How keys in an address are called, and how they look: well-known beginnings, or 32 letters of both kinds and
# digits in a row.
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
    """An address, taken apart; RefusedError `URL` says what is wrong with it.

    With `may_ask` it may hold a query. One that holds a key is refused, because addresses are shown.
    """
    if not url.lower().startswith(("http://", "https://") if policy.allow else "https://"):
        allowed = ", or with http:// for a network that this deployment allows" if policy.allow else ""
        raise RefusedError("URL", f"Start the address with https://{allowed}.")
    if complaint := _complaint(url, may_ask=may_ask):
        raise _bad_url(complaint)
    match = _URL.fullmatch(url)
    if not match:
        raise _bad_url("has characters that a web address cannot hold there")
    scheme, host = match["scheme"].lower(), match["host"].lower().strip("[]")
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    if not policy.takes_port(port):
        raise _bad_url(f"uses port {port}, which this deployment does not allow")
    if _parsed_by_urllib(url) != (host, port):
        raise _bad_url("can be read in two ways")
    if not policy.allow and "." not in host.rstrip(".") and ":" not in host:
        raise _bad_url("needs a whole host name with a dot in it, such as api.example.com")
    return CheckedUrl(scheme, host, port, (match["path"] or "").rstrip("/"), match["query"] or "")


def keys_in(url: str) -> list[str]:
    """The names in its query under which a key stands, by their own look or by that of what they hold."""
    pairs = parse_qsl(url.partition("?")[2].partition("#")[0], keep_blank_values=True)
    return [name for name, value in pairs if _KEY_NAMES.fullmatch(name) or _KEYS.search(value)]


def without_keys(url: str) -> str:
    """To be shown again to the user who typed it: with neither a password nor a key in its query."""
    address, mark, query = url.partition("?")
    scheme, slashes, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    address = f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"
    keys = set(keys_in(url))
    parts = [part for part in query.split("&") if unquote_plus(part.partition("=")[0]) not in keys]
    return address + (mark + "&".join(parts) if parts != [""] else "")


def in_ascii(url: str) -> str:
    """An international host name in its xn-- form; everything else as it is, for `check_url` to judge.

    IDNA 2008 without any mapping but small letters: what only looks like a letter, digit or dot stays
    outside ASCII and is refused.
    """
    scheme, mark, rest = url.partition("://")
    host = re.split(r"[:/?#]", rest, maxsplit=1)[0]
    if not mark or host.isascii():
        return url
    try:
        written = idna.encode(host.lower(), strict=True).decode("ascii")
    except idna.IDNAError:
        return url
    return f"{scheme}://{written}{rest[len(host) :]}"


def _complaint(url: str, *, may_ask: bool) -> str:
    # What a person most likely got wrong, in their words.
    authority = url.partition("://")[2].partition("/")[0]
    if len(url) > MAX_URL_LENGTH:
        return f"is longer than {MAX_URL_LENGTH:,} characters"
    if not url.isascii():
        return "must be written in ASCII; write an international host name in its xn-- form"
    if "@" in authority:
        return "must not hold a user name or password; keep those in a credential"
    if "#" in url or ("?" in url and not may_ask):
        return "must end before any #" if may_ask else "must end before any ? or #"
    if keys := keys_in(url):
        return (
            f"must not hold a key (“{printable(keys[0], 40)}”), because addresses are shown; leave that out "
            "here, and enter it as a credential of the kind “API key in the address”"
        )
    if "?" in authority:
        return "needs a / before the ?"
    return "" if authority else "names no host"


def _parsed_by_urllib(url: str) -> tuple[str | None, int | None]:
    try:
        parts = urlsplit(url)
        return parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]
    except ValueError:
        return None, None


def _bad_url(complaint: str) -> RefusedError:
    return RefusedError("URL", f"The address {complaint}.")


def check_addresses(
    sockaddrs: Iterable[Sequence[Any]], port: int, policy: Policy, *, public: bool = True
) -> None:
    """Refuses the whole answer for one bad record: a mixed answer has no honest use."""
    # The sentence is the same for every refusal, so that it does not tell what lives at an address.
    hosts = [sockaddr[0] for sockaddr in sockaddrs]
    if not hosts or not all(_permitted(str(host), port, policy, public=public) for host in hosts):
        raise RefusedError(
            "ADDRESS",
            "Pegboard may not connect to this address: only https to the public internet is open, "
            f"and the networks listed in {policy.setting}.",
        )


def _permitted(host: str, port: int, policy: Policy, *, public: bool) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        return False
    return policy.permits(address, port, public=public)


def unmapped(address: IPAddress) -> IPAddress:
    # `::ffff:a.b.c.d` is how a socket writes a.b.c.d; no other form is taken apart to open anything.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_public(address: IPAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and (address not in PUBLIC_IPV6 or _is_isatap(address)):
        return False
    return not _within(address, NOT_PUBLIC)


def _carried(address: IPAddress) -> Iterator[ipaddress.IPv4Address]:
    # The IPv4 addresses that some gateway would read out of this one.
    if not isinstance(address, ipaddress.IPv6Address) or _within(address, LOOPBACK):
        return
    bits = int(address)
    if _within(address, ENDS_IN_IPV4) or _is_isatap(address):
        yield ipaddress.IPv4Address(bits & 0xFFFFFFFF)
    if address in LOCAL_NAT64:
        # RFC 6052 2.2 with prefixes of 48, 56, 64 and 96 bits; the shorter ones leave out bits 64 to 71.
        without = (bits >> 64 << 56) | (bits & (1 << 56) - 1)
        forms = (without >> 40, without >> 32, without >> 24, bits)
        # Read with another length than it was written with, an address is mostly zeros.
        yield from (ipaddress.IPv4Address(form & 0xFFFFFFFF) for form in forms if form >> 24 & 0xFF)
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo


def _is_isatap(address: ipaddress.IPv6Address) -> bool:
    # RFC 5214 6.1: the interface identifier is 0000:5efe or 0200:5efe and an IPv4 address.
    return int(address) >> 32 & 0xFDFFFFFF == 0x00005EFE


def _within(address: IPAddress, networks: Iterable[IPNetwork]) -> bool:
    return any(address in network for network in networks)
