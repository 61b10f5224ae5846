"""The floor of what a runtime asks all day: a WSGI application with one indexed read and no sign-in."""

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

_of_this_thread = threading.local()
_NEWEST = "SELECT digest FROM designer_release WHERE agent_id = %s ORDER BY number DESC LIMIT 1"


def application(environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
    """Asked with the agent's id and how many bytes to answer, if the digest is not the known one."""
    if not hasattr(_of_this_thread, "line"):
        _of_this_thread.line = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    agent, size = environ["QUERY_STRING"].split("&")
    environ["wsgi.input"].read()
    (digest,) = _of_this_thread.line.execute(_NEWEST, [agent]).fetchone()
    is_known = environ.get("HTTP_IF_NONE_MATCH") == f'"{digest}"'
    body = b"" if is_known else b"." * int(size)
    headers = [("ETag", f'"{digest}"'), ("Content-Length", str(len(body)))]
    start("304 Not Modified" if is_known else "200 OK", headers if body else headers[:1])
    return [body]
