"""Parse server addresses such as `postgresql://user:password@host:port/name?option=value`. Pure.

Error messages repeat no part of an address, because it contains a password.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from django.core.exceptions import ImproperlyConfigured
from psycopg import pq

_ADDRESS = re.compile(
    r"(?P<scheme>[a-z+]+)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?", re.I
)
_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<name>[^\s:@\[\]]*))(?::(?P<port>\d{1,5}))?")
_LIBPQ_OPTIONS = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
_ENCODE = "Write / as %2F, ? as %3F, # as %23, [ as %5B, ] as %5D and % as %25 in a user or password."


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server, as a URL in a setting states it. hosts, ports: of equal length; "" for a
    missing port. path: without the leading slash.
    """

    scheme: str
    user: str
    password: str
    hosts: tuple[str, ...]
    ports: tuple[str, ...]
    path: str
    options: dict[str, str]

    @property
    def host(self) -> str:
        return self.hosts[0]

    @property
    def port(self) -> str:
        return self.ports[0]


def parse_address(
    variable: str, address: str, schemes: Sequence[str], *, has_many_hosts: bool = False
) -> ServerAddress:
    """Parse an address. Raises ImproperlyConfigured, which names the variable."""
    match = _ADDRESS.fullmatch(address)
    starts = " or ".join(f"{scheme}://" for scheme in schemes)
    if address.partition("://")[0].lower() not in schemes or "://" not in address:
        raise ImproperlyConfigured(f"{variable} must start with {starts}")
    if match is None or "@" in match["path"]:
        # An unencoded / ? or # in the password ended the host too early.
        raise ImproperlyConfigured(f"{variable} contains a character that ends the host too early. {_ENCODE}")
    credentials, _, location = match["authority"].rpartition("@")
    if "[" in credentials or "]" in credentials:
        raise ImproperlyConfigured(f"{variable} has a bracket in its user or password. {_ENCODE}")
    user, _, password = credentials.partition(":")
    matches = [_HOST.fullmatch(part) for part in location.split(",")]
    if not all(matches):
        raise ImproperlyConfigured(
            f"The host and port in {variable} cannot be read: write host:port, and [::1]:port for IPv6. "
            + _ENCODE
        )
    hosts = tuple(unquote(match["ipv6"] or match["name"] or "") for match in matches if match)
    ports = tuple(match["port"] or "" for match in matches if match)
    if any(port and not 0 < int(port) < 65_536 for port in ports):
        raise ImproperlyConfigured(f"{variable} has a port that is not between 1 and 65535.")
    if len(hosts) > 1 and not has_many_hosts:
        raise ImproperlyConfigured(f"{variable} names several hosts, which only DATABASE_URL may do.")
    return ServerAddress(
        scheme=match["scheme"].lower(),
        user=unquote(user),
        password=unquote(password),
        hosts=hosts,
        ports=ports,
        path=unquote(match["path"].removeprefix("/")),
        options=dict(parse_qsl(match["query"] or "", keep_blank_values=True)),
    )


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """An address of PostgreSQL. All processes use this parser, because libpq splits addresses differently.

    host, port: several are separated by commas; "" if missing.
    options: the other parameters, by their names in libpq.
    """

    host: str
    port: str
    user: str
    password: str
    name: str
    options: dict[str, str]

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of `psycopg.connect`."""
        parameters = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "dbname": self.name,
        }
        return (
            {"connect_timeout": "10"}
            | self.options
            | {name: value for name, value in parameters.items() if value}
        )

    def url(self) -> str:
        """Return a URL that parses to this address."""
        credentials = ":".join(quote(text, safe="") for text in (self.user, self.password) if text)
        server = {name: value for name, value in (("host", self.host), ("port", self.port)) if value}
        return f"postgresql://{credentials}@/{quote(self.name, safe='')}?{urlencode(server | self.options)}"


def parse_database_address(variable: str, address: str) -> DatabaseAddress:
    """Parse an address of PostgreSQL. Raises ImproperlyConfigured, which names the variable."""
    parts = parse_address(variable, address, ("postgresql", "postgres"), has_many_hosts=True)
    options = dict(parts.options)
    name = options.pop("dbname", parts.path)
    if not name:
        raise ImproperlyConfigured(f"{variable} names no database: postgresql://user:password@host:port/name")
    host = options.pop("host", ",".join(parts.hosts))
    # If one host has a port, each needs one.
    has_port = len(parts.ports) > 1 and any(parts.ports)
    port = ",".join(port or ("5432" if has_port else "") for port in parts.ports).strip(",")
    port = port or options.pop("port", "")
    if unknown := sorted(options.keys() - _LIBPQ_OPTIONS):
        raise ImproperlyConfigured(f"{variable}: PostgreSQL's client has no option {', '.join(unknown)}.")
    return DatabaseAddress(host, port, parts.user, parts.password, name, options)


def check_redis_address(address: str) -> None:
    """Reject an address that a client of the broker would read as another server or user. See
    parse_address."""
    scheme = address.partition("://")[0].lower()
    if scheme in ("redis+socket", "unix"):
        return
    parts = parse_address("REDIS_URL", address, ("redis", "rediss", "redis+socket", "unix"))
    if not parts.host:
        raise ImproperlyConfigured(f"REDIS_URL names no host: {parts.scheme}://host:6379/0")
    if not re.fullmatch(r"\d*", parts.path):
        raise ImproperlyConfigured("REDIS_URL must end with the number of a database, such as /0.")
    if parts.user and not parts.password:
        raise ImproperlyConfigured(
            f"REDIS_URL has a user but no password. For a password without a user: {parts.scheme}://:password@host:6379/0"
        )
