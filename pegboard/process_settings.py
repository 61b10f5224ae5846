"""Settings that differ between the processes of one installation: those that serve pages, and workers.

settings.py reads them from the environment, and forked_settings.py reads them again. Pure.
"""

import re
from collections.abc import Mapping
from typing import Any

from pegboard.server_addresses import check_redis_address, parse_database_address

# A lost machine is detected after about fifteen seconds instead of two hours.
KEEPALIVE = {
    "keepalives_idle": "6",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}


def process_settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings by name.

    SERVES_PAGES: set by the web server; a page waits for a shorter time than a worker.
    QUERY_DEADLINE: seconds that all queries of one request may take in total.
    BROKER_TIMEOUT: seconds that a request may wait for the broker to accept a message.
    DATABASE_CONNECTIONS: the number of connections that all threads of a process share; 0: one per thread.
    CALLS_IN_A_PROCESS: the number of threads of a process that may send calls at once; pegboard/gunicorn.py
    sets it for web processes.
    """
    serves_pages = environ.get("PEGBOARD_SERVES_PAGES") == "1"
    database_connections = int(environ.get("PEGBOARD_DATABASE_CONNECTIONS", "0"))
    database_url = environ.get("DATABASE_URL", "postgresql://127.0.0.1/pegboard")
    redis_url = environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
    check_redis_address(redis_url)
    databases = {
        alias: _database_entry(
            variable, address, serves_pages=serves_pages, shares_connections=bool(database_connections)
        )
        for alias, variable, address in (
            ("default", "DATABASE_URL", database_url),
            ("replica", "DATABASE_REPLICA_URL", environ.get("DATABASE_REPLICA_URL", "")),
        )
        if address
    }
    return {
        "SERVES_PAGES": serves_pages,
        "QUERY_DEADLINE": 3.5 if serves_pages else None,
        "BROKER_TIMEOUT": 1.0 if serves_pages else None,
        "DATABASE_CONNECTIONS": database_connections,
        "DATABASES": databases,
        "CALLS_IN_A_PROCESS": int(environ.get("PEGBOARD_CALLS_IN_A_PROCESS", "64")),
        "CELERY_BROKER_TRANSPORT_OPTIONS": {
            "visibility_timeout": 3600,
            "socket_connect_timeout": 1 if serves_pages else 2,
            "socket_timeout": 1 if serves_pages else 5,
            "socket_keepalive": not redis_url.startswith(("redis+socket", "unix")),
            # One more attempt and no long wait, because `tick` sends lost messages again.
            "max_retries": 1,
            "interval_start": 0.1,
        },
    }


def _database_entry(
    variable: str, address: str, *, serves_pages: bool, shares_connections: bool
) -> dict[str, object]:
    """Return the DATABASES entry for `postgresql://user:password@host:port/name?host=/socket/dir`.

    Several hosts, separated by commas, are tried in order, as in libpq.
    """
    parts = parse_database_address(variable, address)
    limits = {
        "statement_timeout": "3s" if serves_pages else "60s",
        "lock_timeout": "2s" if serves_pages else "5s",
        "idle_in_transaction_session_timeout": "30s",
    }
    # Limits that the address sets in its `options` take precedence.
    address_limits = re.findall(r"(\w+)\s*=", parts.options.get("options", ""))
    return {
        "ENGINE": "core.postgresql" if shares_connections else "core.pooler_safe",
        "NAME": parts.name,
        "USER": parts.user,
        "PASSWORD": parts.password,
        "HOST": parts.host,
        "PORT": parts.port,
        "CONN_MAX_AGE": 0 if shares_connections else 60,
        "CONN_HEALTH_CHECKS": not shares_connections,
        "OPTIONS": {
            "connect_timeout": 2 if serves_pages else 5,
            **KEEPALIVE,
            "limits": {name: value for name, value in limits.items() if name not in address_limits},
            **parts.options,
        },
    }
