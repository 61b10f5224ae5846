"""The configuration of the web server: gunicorn -c python:pegboard.gunicorn"""

import gc
import os
import socket
from pathlib import Path
from typing import Any

from django.conf import settings
from gunicorn import util
from gunicorn.glogging import Logger

from core.forked_memory import freeze_memory
from pegboard import forked_settings, startup_checks
from pegboard.ops import logs
from pegboard.web.headers import ON_EVERY_REPLY


class PegboardLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
    """Formats the log lines of the web server like all others."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(logs.formatter())


def write_error(sock: socket.socket, status: int, reason: str, message: str) -> None:
    """Reply to a malformed request, such as one with an overlong line. Repeats no part of the request."""
    headers = {**ON_EVERY_REPLY, "Connection": "close", "Content-Type": "text/plain; charset=utf-8"}
    body = f"{reason}: the web server could not read this request.\n"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
    util.write_nonblock(sock, (head + body).encode("latin-1"))


util.write_error = write_error  # gunicorn has no setting for it
THREADS_WITH_CONNECTIONS, DATABASE_CONNECTIONS = 16, 12
# Before the settings are read.
os.environ.setdefault("PEGBOARD_SERVES_PAGES", "1")
wsgi_app = "pegboard.wsgi:application"
logger_class = PegboardLogger
# Threads, because a call waits for a vendor while pages have to be served. An ASGI server would be several
# times slower for this code (docs/decisions/).
worker_class = "pegboard.web.buffering_worker.BufferingWorker"
workers = int(os.environ.get("WEB_WORKERS", "2"))
threads = int(os.environ.get("WEB_THREADS", "8"))
# Calls wait for vendors, which may be slow. The other threads stay free for everything else.
os.environ.setdefault("PEGBOARD_CALLS_IN_A_PROCESS", str(max(1, threads - max(4, threads // 16))))
if threads > THREADS_WITH_CONNECTIONS:
    os.environ.setdefault("PEGBOARD_DATABASE_CONNECTIONS", str(DATABASE_CONNECTIONS))
if settings.configured:  # forked from a process that has read them
    forked_settings.read_again()
preload_app = True
timeout = 60
# The outcome of a call that is cut off is unknown.
graceful_timeout = 20 if threads <= THREADS_WITH_CONNECTIONS else 45
keepalive = 5
# The worker bounds the head of a request, and `BoundsMiddleware` the address, with a page or JSON in reply.
limit_request_line = 0
# The heartbeat file on a slow disk makes healthy workers look dead.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a directory for gunicorn
control_socket_disable = True
# By default gunicorn accepts SCRIPT_NAME and X-Forwarded-Proto of clients on this machine. No header may
# move the application, and only the proxy of PEGBOARD_HTTPS may set the scheme.
forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}


# Allocations between two collections of the youngest objects. A call creates thousands and frees them all.
COLLECT_AFTER = 10_000


def on_starting(server: object) -> None:
    startup_checks.refuse_with_problems()


def when_ready(server: object) -> None:
    from catalog.search import job_words, word_lists  # noqa: PLC0415 - the application is loaded by now

    # Or the first search of each process would wait two seconds for them.
    word_lists.load()
    job_words.shipped_job_words()
    freeze_memory()  # loaded modules stay, and workers share their memory
    gc.set_threshold(COLLECT_AFTER)


def post_worker_init(worker: object) -> None:
    from catalog.search import follower  # noqa: PLC0415 - the application is loaded by now

    follower.start()
