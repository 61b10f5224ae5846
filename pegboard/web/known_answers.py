"""What runtimes ask all day is answered before Django is asked, where this process has answered the very same
before and the database says that nothing has changed.

Two things are asked so: whether an export has changed (If-None-Match), and the tools of a release
(`tools/list` of MCP). Both are settled by the release alone. The first answer is Django's; it is kept for
that key and that release with all that was asked, whichever of its headers mattered. Each time the database
is asked whether this key may read, and which release that is now (designer/releases/readable.py). Where it
says nothing, or anything else was asked, Django answers. docs/decisions/0034-unchanged-releases.md.
"""

import io
import json
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.http import HttpResponse

from core import log_context
from core.query_deadline import limit_queries
from designer.agents.access_tokens import ROOT
from designer.middleware import parse_conditional_read
from designer.releases import readable
from designer.releases.readable import ReadAccess, ReleaseRequest
from pegboard.web import tracing
from people.throttling import is_within_limit

# As WSGI hands it over; Django calls it `META`.
Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
MAX_BODY_BYTES, MAX_HEADERS = 16 * 1024, 80
# Of all that is kept, with what was asked. Beyond it, all is forgotten.
MAX_BYTES = 16 * 1024 * 1024
_SERVED = re.compile(ROOT + r"([-\w]{1,60})/([-\w:]{1,71})/(?:agents/([-\w]{1,60})/)?mcp", re.ASCII)
# The number of a message, which clients count up: the answer repeats it.
_NUMBER = re.compile(rb'"id"\s*:\s*(0|[1-9][0-9]{0,17}|"[A-Za-z0-9_.:-]{1,100}")(?=\s*[,}])')
# What differs from request to request and no answer depends on. The key is asked of the database.
_OF_ONE_REQUEST = {
    *("HTTP_AUTHORIZATION", tracing.META, "HTTP_TRACEPARENT", "HTTP_TRACESTATE"),
    *("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED"),
    # What it says of a handshake is about calls alone (protocols/mcp/server/clients.py).
    "HTTP_MCP_SESSION_ID",
}
_FACTS = ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE", "wsgi.url_scheme")


@dataclass(frozen=True, slots=True)
class _Question:
    # All that was asked, but for the key and the number of the message.
    name: Hashable
    wanted: ReleaseRequest
    number: bytes
    size: int


@dataclass(frozen=True, slots=True)
class _Answer:
    """`before` and `after` stand around the number of a message."""

    status: str
    headers: list[tuple[str, str]]
    route: str
    before: bytes = b""
    after: bytes = b""


_lock = threading.Lock()
# By what was asked: by the primary keys of the API key and of the release.
_known: dict[Hashable, dict[tuple[int, int], _Answer]] = {}
_size = 0


class KnownAnswers:
    def __init__(self, application: Application) -> None:
        self.application = application

    def __call__(self, meta: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        began = time.perf_counter()
        question = _question(meta)
        if question is None:
            return self.application(meta, start)
        if question.name in _known and (found := _found(question)):
            row, answer = found
            number = log_context.accept_request_id(meta.get(tracing.META, ""))
            body = answer.before + question.number + answer.after
            start(answer.status, [*answer.headers, (tracing.HEADER, number), *_length(answer, body)])
            _trace(meta, row, answer, number, began)
            return [body]
        return self._learned(question, meta, start)

    def _learned(self, question: _Question, meta: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        told: list[tuple[str, list[tuple[str, str]]]] = []

        def hear(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            told.append((status, headers))
            return start(status, headers, *error)

        response = self.application(meta, hear)
        if isinstance(response, HttpResponse) and (of := meta.get(readable.ANSWERED)) and len(told) == 1:
            ((status, headers),) = told
            kept = [each for each in headers if each[0] not in (tracing.HEADER, "Content-Length")]
            answer: _Answer | None = _Answer(status, kept, meta[tracing.ROUTE])
            if answer and response.status_code == 200:
                answer = _around_number(question, meta, response.content, answer)
            if answer and response.status_code in (200, 304):
                _keep(question, of, answer)
        return response


def forget() -> None:
    global _size
    with _lock:
        _known.clear()
        _size = 0


def _question(meta: Environ) -> _Question | None:
    if meta.get("SCRIPT_NAME"):
        return None
    body, number = b"", b""
    if meta["PATH_INFO"].startswith(ROOT):
        wanted = _served(meta)
        if wanted is None:
            return None
        body = meta["wsgi.input"].read(int(meta["CONTENT_LENGTH"]))
        # Django reads it again.
        meta["wsgi.input"] = io.BytesIO(body)
        if b'"tools/list"' not in body or b"\\" in body or body.count(b'"id"') != 1:
            return None
        if (found := _NUMBER.search(body)) is None:
            return None
        number = found[1]
        body = body[: found.start(1)] + b"\0" + body[found.end(1) :]
    else:
        wanted = parse_conditional_read(meta)
        if wanted is None:
            return None
    headers = [
        each for each in meta.items() if each[0].startswith("HTTP_") and each[0] not in _OF_ONE_REQUEST
    ]
    if len(headers) > MAX_HEADERS:
        return None
    asked = (body, *(meta.get(fact) for fact in _FACTS), *sorted(headers))
    return _Question(asked, wanted, number, len(body) + sum(len(name) + len(text) for name, text in headers))


def _served(meta: Mapping[str, Any]) -> ReleaseRequest | None:
    length = meta.get("CONTENT_LENGTH", "")
    if meta["REQUEST_METHOD"] != "POST" or not (length.isascii() and length.isdigit()):
        return None
    found = _SERVED.fullmatch(meta["PATH_INFO"])
    if found is None or int(length) > MAX_BODY_BYTES:
        return None
    slug, name, part = found.groups()
    return readable.parse_request(meta, slug, name, "serve/mcp", part or "", is_open_to_calls=True)


def _found(question: _Question) -> tuple[ReadAccess, _Answer] | None:
    with limit_queries(settings.QUERY_DEADLINE):
        row = readable.find_access(question.wanted)
    # As at the end of each request of Django's.
    if not (ours := connections[DEFAULT_DB_ALIAS]).in_atomic_block:
        ours.close_if_unusable_or_obsolete()
    if row is None or (answer := _known.get(question.name, {}).get((row.key, row.release))) is None:
        return None
    # What comes too often is counted once more where it is refused.
    return (row, answer) if is_within_limit("read", row.owner, row.key, time.time()) else None


def _length(answer: _Answer, body: bytes) -> list[tuple[str, str]]:
    return [("Content-Length", str(len(body)))] if answer.status.startswith("200") else []


def _trace(meta: Environ, row: ReadAccess, answer: _Answer, number: str, began: float) -> None:
    token = log_context.begin({"request_id": number, "user_id": row.owner, "route": answer.route})
    try:
        took = time.perf_counter() - began
        status, method = int(answer.status[:3]), meta["REQUEST_METHOD"]
        tracing.tell(answer.route, status, took, method, meta["PATH_INFO"])
    finally:
        log_context.end(token)


def _around_number(question: _Question, meta: Environ, body: bytes, answer: _Answer) -> _Answer | None:
    # Django has read the message, so it is one, and no member of it is there twice.
    message = json.loads(meta["wsgi.input"].getvalue())
    before = b'{"jsonrpc":"2.0","id":'
    if not isinstance(message, dict) or message.get("method") != "tools/list":
        return None
    if not body.startswith(before + question.number + b',"result":'):
        return None
    after = body[len(before) + len(question.number) :]
    return _Answer(answer.status, answer.headers, answer.route, before, after)


def _keep(question: _Question, of: tuple[int, int], answer: _Answer) -> None:
    global _size
    size = question.size + len(answer.after)
    if size > MAX_BYTES // 4:
        return
    with _lock:
        if _size + size > MAX_BYTES:
            _known.clear()
            _size = 0
        _size += size
        _known.setdefault(question.name, {})[of] = answer
