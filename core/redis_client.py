"""Our own connection to the broker's server, for what is shared between processes and may be lost."""

from functools import lru_cache

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

PATIENCE = 1.0  # seconds; whoever asks has something better to do than to wait


def client() -> redis.Redis:
    """Raises redis.RedisError when used while the server is away. Safe to share between threads."""
    return _client(settings.REDIS_URL)


@lru_cache
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        _as_redis_py_reads_it(url),
        socket_timeout=PATIENCE,
        socket_connect_timeout=PATIENCE,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
    )


def _as_redis_py_reads_it(url: str) -> str:
    """Celery names a socket and its database in words of its own."""
    if url.startswith("redis+socket://"):
        return url.replace("redis+socket://", "unix://", 1).replace("virtual_host=", "db=", 1)
    return url
