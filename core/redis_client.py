"""Our own connection to the broker's server, for data that processes share and that may be lost."""

from functools import lru_cache

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

TIMEOUT = 1.0  # seconds; every caller can do without an answer
MAX_WAIT_SECONDS = 10.0  # seconds


def client() -> redis.Redis:
    """Raises redis.RedisError when used while the server is away. Safe to share between threads."""
    return _client(settings.REDIS_URL, TIMEOUT)


def waiting_client() -> redis.Redis:
    """For commands that block for up to `MAX_WAIT_SECONDS` seconds."""
    return _client(settings.REDIS_URL, MAX_WAIT_SECONDS + TIMEOUT)


@lru_cache
def _client(url: str, timeout: float) -> redis.Redis:
    if url.startswith("redis+socket://"):
        # Celery's form of a socket and its database; redis-py has another one.
        url = url.replace("redis+socket://", "unix://", 1).replace("virtual_host=", "db=", 1)
    return redis.Redis.from_url(
        url,
        socket_timeout=timeout,
        socket_connect_timeout=TIMEOUT,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )
