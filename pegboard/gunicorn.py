"""How the web server runs, on one machine and in a container: gunicorn -c python:pegboard.gunicorn"""

import gc
import os
import socket
from pathlib import Path
from typing import Any

from django.conf import settings
from gunicorn import util
from gunicorn.glogging import Logger

from pegboard import forked_settings, startup_checks
from pegboard.ops import logs
from pegboard.web.headers import ON_EVERY_REPLY


class LoggerOfOurs(Logger):  # type: ignore[misc]  # gunicorn says nothing of its types
    """The web server's own lines look like all others."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(logs.formatter())


def write_error(sock: socket.socket, status: int, reason: str, says: str) -> None:
    """For what is no request: a line or a header that is too long or odd. Says nothing of it again."""
    headers = {**ON_EVERY_REPLY, "Connection": "close", "Content-Type": "text/plain; charset=utf-8"}
    body = f"{reason}: the web server could not take this request.\n"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
    util.write_nonblock(sock, (head + body).encode("latin-1"))


util.write_error = write_error  # there is no setting for it; the workers look it up here
THREADS_WITH_CONNECTIONS, DATABASE_CONNECTIONS = 16, 12
# Before the settings are read.
os.environ.setdefault("PEGBOARD_SERVES_PAGES", "1")
wsgi_app = "pegboard.wsgi:application"
logger_class = LoggerOfOurs
# Threads, because an invocation waits for a vendor while pages want to be served; an ASGI server
# would be several times slower for this code (docs/decisions/).
worker_class = "pegboard.web.buffering_worker.BufferingWorker"
workers = int(os.environ.get("WEB_WORKERS", "2"))
threads = int(os.environ.get("WEB_THREADS", "8"))
# Calls of tools wait for vendors, who may be slow: these threads stay free for everything else.
os.environ.setdefault("PEGBOARD_CALLS_IN_A_PROCESS", str(max(1, threads - max(4, threads // 16))))
if threads > THREADS_WITH_CONNECTIONS:
    os.environ.setdefault("PEGBOARD_DATABASE_CONNECTIONS", str(DATABASE_CONNECTIONS))
if settings.configured:  # this process is forked from one that has read them
    forked_settings.read_again()
preload_app = True
timeout = 60
# Of a call that is cut off it is not known whether it ran.
graceful_timeout = 20 if threads <= THREADS_WITH_CONNECTIONS else 45
keepalive = 5
# The address bar of the search page holds its whole state.
limit_request_line = 8190
# The heartbeat file on a slow disk makes healthy workers look dead.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a directory for gunicorn
control_socket_disable = True
# By default gunicorn accepts SCRIPT_NAME and X-Forwarded-Proto of clients on this machine. No header may
# move the application, and only the proxy that PEGBOARD_HTTPS announces may set the scheme.
forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}


# Objects that are made before the youngest are looked through. A call makes some thousands, which go with it.
COLLECT_AFTER = 10_000


def on_starting(server: object) -> None:
    startup_checks.refuse_with_problems()


def when_ready(server: object) -> None:
    # What is loaded by now stays: it is not looked through again, and is shared with the workers.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
