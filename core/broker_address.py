"""The address of the broker in the form that each client needs: Celery and redis-py. Pure."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

_SOCKET = "redis+socket://"
_VERIFIES = ("required", "cert_required", "true", "1")


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The address of the broker.

    celery_url, client_url: the address in Celery's form and in redis-py's. Both may contain a password.
    tls: redis-py's options for TLS, which Celery passes on to it; empty without TLS.
    """

    celery_url: str = field(repr=False)
    client_url: str = field(repr=False)
    tls: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


@functools.lru_cache(maxsize=16)
def parse_broker_address(url: str, ca_file: str) -> BrokerAddress:
    """Parse REDIS_URL. With TLS the server is always verified, also by the authorities in `ca_file`.

    By default Celery verifies nothing and sends the password to any server. The address may name a client
    certificate with ssl_certfile and ssl_keyfile, and authorities with ssl_ca_certs. Raises ValueError, whose
    message contains no part of the address.
    """
    if url.startswith(_SOCKET):
        return BrokerAddress(url, url.replace(_SOCKET, "unix://", 1).replace("virtual_host=", "db=", 1))
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    stated = {name: value for name, value in pairs if name.startswith("ssl_")}
    bare = urlunsplit(parts._replace(query=urlencode([pair for pair in pairs if pair[0] not in stated])))
    if parts.scheme != "rediss":
        if stated:
            raise ValueError("REDIS_URL: TLS parameters need an address that starts with rediss://")
        return BrokerAddress(url, url)
    verifies = [stated.pop(name, "required") for name in ("ssl_cert_reqs", "ssl_check_hostname")]
    if any(value.lower() not in _VERIFIES for value in verifies):
        raise ValueError(
            "REDIS_URL: The broker's certificate is always verified. Remove ssl_cert_reqs and "
            "ssl_check_hostname, and name your own authority in PEGBOARD_CA_FILE"
        )
    if unknown := stated.keys() - {"ssl_certfile", "ssl_keyfile", "ssl_ca_certs"}:
        raise ValueError(f"REDIS_URL: There is no parameter {min(unknown)}")
    tls: dict[str, object] = {"ssl_cert_reqs": "required", "ssl_check_hostname": True, **stated}
    if ca_file:
        tls.setdefault("ssl_ca_certs", ca_file)
    return BrokerAddress(bare, bare, MappingProxyType(tls))
