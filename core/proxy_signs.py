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
    """`SCHEME` and `ALL_HOPS` are good signs: the newer one of a pair counts."""

    UNCOUNTED_PROXY = "uncounted_proxy"
    MISSING_HOPS = "missing_hops"
    ALL_HOPS = "all_hops"
    NO_SCHEME = "no_scheme"
    SCHEME = "scheme"


GOOD_SIGNS = {Sign.NO_SCHEME: Sign.SCHEME, Sign.MISSING_HOPS: Sign.ALL_HOPS}
MESSAGES = {
    Sign.UNCOUNTED_PROXY: "A request had X-Forwarded-For, and PEGBOARD_PROXIES is 0: if a proxy of yours set"
    " it, all users count as one address. Set PEGBOARD_PROXIES to the number of your proxies.",
    Sign.MISSING_HOPS: "A request had fewer addresses in X-Forwarded-For than PEGBOARD_PROXIES states:"
    " it counts for the address of the proxy.",
    Sign.NO_SCHEME: "A request had no X-Forwarded-Proto, and PEGBOARD_HTTPS is 1: it is redirected to https,"
    " without end if a proxy that ends TLS sent it. The proxy has to set that header.",
}
_lock = threading.Lock()
_noted: dict[Sign, float] = {}


def signs_of(meta: Mapping[str, Any], *, proxies: int, is_https: bool) -> list[Sign]:
    """Return the signs in the headers of a request (as WSGI names them). Pure.

    A client that reaches Pegboard from the Internet can write any header, so it gives no sign.
    """
    if _is_of_the_internet(str(meta.get("REMOTE_ADDR", ""))):
        return []
    signs = []
    hops = [hop for hop in str(meta.get("HTTP_X_FORWARDED_FOR", "")).split(",") if hop.strip()]
    if proxies:
        signs.append(Sign.ALL_HOPS if len(hops) >= proxies else Sign.MISSING_HOPS)
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
        new = [sign for sign in due if sign in MESSAGES and sign not in _noted]
        _noted.update(dict.fromkeys(due, now))
    for sign in new:
        logger.warning(MESSAGES[sign])
    if due:
        with suppress(redis.RedisError):
            pipeline = redis_client.client().pipeline()
            pipeline.hset(KEY, mapping={str(sign): now for sign in due})
            pipeline.expire(KEY, KEPT_SECONDS)
            pipeline.execute()


def read_troubles(*, proxies: int, is_https: bool) -> set[Sign]:
    """Return the bad signs of the last day that the settings still allow. Raises redis.RedisError."""
    stored = redis_client.client().hgetall(KEY)
    seen = {name: float(at) for name, at in stored.items()}
    troubles = set()
    for sign in MESSAGES:
        at, good = seen.get(sign, 0.0), seen.get(GOOD_SIGNS.get(sign, ""), 0.0)
        # Processes write at different seconds, so what is hardly newer is as old.
        if at > time.time() - KEPT_SECONDS and at > good + NOTE_EVERY:
            troubles.add(sign)
    possible = {Sign.MISSING_HOPS} if proxies else {Sign.UNCOUNTED_PROXY}
    return troubles & (possible | ({Sign.NO_SCHEME} if is_https else set()))
