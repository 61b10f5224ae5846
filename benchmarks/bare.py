"""The floor of what a runtime asks all day: a WSGI application with one indexed read and no sign-in."""

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

_of_this_thread = threading.local()
_NEWEST = "SELECT digest FROM designer_release WHERE agent_id = %s ORDER BY number DESC LIMIT 1"


def application(environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
    if not hasattr(_of_this_thread, "line"):
        _of_this_thread.line = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    (digest,) = _of_this_thread.line.execute(_NEWEST, [environ["QUERY_STRING"]]).fetchone()
    is_known = environ.get("HTTP_IF_NONE_MATCH") == f'"{digest}"'
    start("304 Not Modified" if is_known else "200 OK", [("ETag", f'"{digest}"')])
    return []
