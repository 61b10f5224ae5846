"""Signs in requests that a proxy in front and the settings do not fit each other.

Web processes note them, and `doctor`, which no proxy is in front of, reads them. They are stored in the
broker's server for a day.
"""

import ipaddress
import logging
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import redis

from core import redis_client

logger = logging.getLogger(__name__)
KEY = "pegboard:proxy_signs"
KEPT_SECONDS = 24 * 3600
# Each process writes a sign once in so many seconds.
NOTE_EVERY = 60.0


class Sign(StrEnum):
    """A sign that a request gives about the proxy in front.

    `ALL_HOPS`, `DIRECT_CLIENT` and `SCHEME` are good signs. Each outdates the bad sign of its kind that was
    seen before it.
    """

    UNCOUNTED_PROXY = "uncounted_proxy"
    PUBLIC_PROXY = "public_proxy"
    DIRECT_CLIENT = "direct_client"
    MISSING_HOPS = "missing_hops"
    EXTRA_HOPS = "extra_hops"
    ALL_HOPS = "all_hops"
    NO_SCHEME = "no_scheme"
    SCHEME = "scheme"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A proxy and settings that do not fit: what was observed, why it matters, and what to do."""

    observation: str
    reason: str
    act: str


_ONE_ADDRESS = "count as one address: 50 wrong passwords keep every new browser out for 15 minutes."
MISMATCHES = {
    Sign.UNCOUNTED_PROXY: Mismatch(
        "Requests arrive with X-Forwarded-For, and PEGBOARD_PROXIES is 0.",
        f"All users {_ONE_ADDRESS}",
        "Set PEGBOARD_PROXIES to the number of your proxies, usually 1, and restart the web processes.",
    ),
    Sign.PUBLIC_PROXY: Mismatch(
        "Requests arrive from a public address with X-Forwarded-For, and PEGBOARD_PROXIES is 0.",
        f"If a proxy with a public address is in front, such as a CDN, all its users {_ONE_ADDRESS}",
        "Set PEGBOARD_PROXIES to the number of your proxies, restart the web processes, and let only the "
        "proxy connect.",
    ),
    Sign.MISSING_HOPS: Mismatch(
        "Requests arrive with fewer addresses in X-Forwarded-For than PEGBOARD_PROXIES states.",
        f"All users of the proxy {_ONE_ADDRESS}",
        "Let each proxy append the address of its client to X-Forwarded-For, or correct PEGBOARD_PROXIES.",
    ),
    Sign.EXTRA_HOPS: Mismatch(
        "Requests arrive with more addresses in X-Forwarded-For than PEGBOARD_PROXIES states.",
        f"If another proxy is in front, such as a CDN, all its users {_ONE_ADDRESS}",
        "Set PEGBOARD_PROXIES to the number of all your proxies, and restart the web processes.",
    ),
    Sign.NO_SCHEME: Mismatch(
        "Requests arrive without X-Forwarded-Proto, and PEGBOARD_HTTPS is 1.",
        "Each is redirected to https, and from there again, without end.",
        "Let the proxy that ends TLS set X-Forwarded-Proto: docs/install.md has an example for nginx.",
    ),
}
# The signs that show that the mismatch has ended.
GOOD_SIGNS = {
    Sign.PUBLIC_PROXY: (Sign.DIRECT_CLIENT,),
    Sign.MISSING_HOPS: (Sign.ALL_HOPS, Sign.EXTRA_HOPS),
    Sign.EXTRA_HOPS: (Sign.ALL_HOPS,),
    Sign.NO_SCHEME: (Sign.SCHEME,),
}
_lock = threading.Lock()
_noted: dict[Sign, float] = {}


def signs_of(meta: Mapping[str, Any], *, proxies: int, is_https: bool) -> list[Sign]:
    """Return the signs in the headers of a request (as WSGI names them). Pure.

    A client can write X-Forwarded-For itself. A proxy that is really there adds it to every request, so a
    header too many counts only until a request comes without it.
    """
    hops = [hop for hop in str(meta.get("HTTP_X_FORWARDED_FOR", "")).split(",") if hop.strip()]
    if _is_of_the_internet(str(meta.get("REMOTE_ADDR", ""))):
        if proxies:
            return []
        return [Sign.PUBLIC_PROXY if hops else Sign.DIRECT_CLIENT]
    signs = []
    if len(hops) < proxies:
        signs.append(Sign.MISSING_HOPS)
    elif proxies:
        signs.append(Sign.ALL_HOPS if len(hops) == proxies else Sign.EXTRA_HOPS)
    elif hops:
        signs.append(Sign.UNCOUNTED_PROXY)
    if is_https:
        signs.append(Sign.SCHEME if meta.get("HTTP_X_FORWARDED_PROTO") else Sign.NO_SCHEME)
    return signs


@lru_cache(maxsize=1_000)
def _is_of_the_internet(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False  # a Unix socket has no address


def note(signs: Collection[Sign]) -> None:
    """Store when each sign was seen, and log a bad one once in a process."""
    now = time.time()
    with _lock:
        due = [sign for sign in signs if now - _noted.get(sign, 0.0) > NOTE_EVERY]
        new = [sign for sign in due if sign in MISMATCHES and sign not in _noted]
        _noted.update(dict.fromkeys(due, now))
    for sign in new:
        logger.warning(
            "%s %s %s", MISMATCHES[sign].observation, MISMATCHES[sign].reason, MISMATCHES[sign].act
        )
    if due:
        with suppress(redis.RedisError):
            pipeline = redis_client.client().pipeline()
            pipeline.hset(KEY, mapping={str(sign): now for sign in due})
            pipeline.expire(KEY, KEPT_SECONDS)
            pipeline.execute()


def read_mismatches(*, proxies: int, is_https: bool) -> list[Sign]:
    """Return the bad signs of the last day that the settings still allow. Raises redis.RedisError."""
    stored = redis_client.client().hgetall(KEY)
    last_seen = {str(name): float(timestamp) for name, timestamp in stored.items()}
    possible = {Sign.MISSING_HOPS, Sign.EXTRA_HOPS} if proxies else {Sign.UNCOUNTED_PROXY, Sign.PUBLIC_PROXY}
    if is_https:
        possible.add(Sign.NO_SCHEME)
    oldest = time.time() - KEPT_SECONDS
    last_good = {
        sign: max((last_seen.get(good, 0.0) for good in GOOD_SIGNS.get(sign, ())), default=0.0)
        for sign in possible
    }
    # Processes write at different seconds, so what is hardly newer is as old.
    return [
        sign
        for sign in MISMATCHES
        if sign in possible and last_seen.get(sign, 0.0) > max(oldest, last_good[sign] + NOTE_EVERY)
    ]
