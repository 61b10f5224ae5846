"""Answers a request from the response cache, by a view for programs, or by the pages."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIHandler, get_path_info
from django.db import DEFAULT_DB_ALIAS, connections
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.module_loading import import_string

from core import log_context
from core.log_context import ID_HEADER, ID_IN_ENVIRON, ROUTE_IN_ENVIRON, record_request
from core.query_deadline import limit_queries
from designer.agents.access_tokens import ROOT
from designer.middleware import add_deprecation_headers
from designer.releases import release_access
from designer.releases.release_access import ANSWERED_IN_ENVIRON, ReadAccess
from people.throttling import is_within_limit
from serving.gateway import cacheable, chunked_bodies, response_cache
from serving.gateway.cacheable import CacheableRead, Environ
from serving.gateway.response_cache import CachedResponse

API = "/api/v1/"
MATCH_IN_ENVIRON = "pegboard.resolver_match"
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


class Gateway:
    """A WSGI application. programs: a `ProgramHandler`. pages: Django with all middleware."""

    def __init__(self, programs: Application, pages: Application) -> None:
        self._programs, self._pages = programs, pages

    def __call__(self, meta: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if meta.get("HTTP_TRANSFER_ENCODING") and meta.get("wsgi.input_terminated"):
            return chunked_bodies.answer_chunked(self._answer_request, meta, start_response)
        return self._answer_request(meta, start_response)

    def _answer_request(self, meta: Environ, start_response: StartResponse) -> Iterable[bytes]:
        began = time.perf_counter()
        read_request = cacheable.parse(meta)
        if read_request is None:
            return self._call_view(meta, start_response)
        if response_cache.has_any(read_request.facts) and (hit := _find_response(read_request)):
            return _send_cached(meta, start_response, read_request, *hit, began)
        starts: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            starts.append((status, headers))
            return start_response(status, headers, *error)

        response = self._call_view(meta, start)
        if not (isinstance(response, HttpResponse) and ANSWERED_IN_ENVIRON in meta and len(starts) == 1):
            return response
        parts: tuple[bytes, bytes] | None = (b"", b"") if response.status_code == 304 else None
        # An export that has changed is requested once, and may be large.
        if response.status_code == 200 and read_request.message_id:
            parts = cacheable.split_at_id(read_request, meta, response.content)
        if parts is not None:
            status, headers = starts[0]
            headers = [header for header in headers if header[0] not in (ID_HEADER, "Content-Length")]
            cached = CachedResponse(status, headers, meta[ROUTE_IN_ENVIRON], *parts)
            size = read_request.size + len(parts[1])
            response_cache.store(read_request.facts, meta[ANSWERED_IN_ENVIRON], cached, size)
        return response

    def _call_view(self, meta: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path, match = get_path_info(meta), None
        is_api = path.startswith(API) and meta.get("HTTP_AUTHORIZATION", "")[:7].lower() == "bearer "
        if path.startswith(ROOT) or is_api:
            with suppress(Resolver404):
                match = resolve(path)
        # The middleware of pages checks the callers of pages. Other views check their callers themselves.
        if match is None or getattr(match.func, "login_required", True):
            return self._pages(meta, start_response)
        meta[MATCH_IN_ENVIRON] = match
        return self._programs(meta, start_response)


def _find_response(read_request: CacheableRead) -> tuple[ReadAccess, CachedResponse] | None:
    with limit_queries(settings.QUERY_DEADLINE):
        access = release_access.find_read_access(read_request.release)
    # As at the end of each request of Django's.
    if not (connection := connections[DEFAULT_DB_ALIAS]).in_atomic_block:
        connection.close_if_unusable_or_obsolete()
    if access is None:
        return None
    response = response_cache.find(read_request.facts, access.key_id, access.release_id)
    # The view counts the request once more and refuses it.
    if response is None or not is_within_limit("read", access.owner_id, access.key_id, time.time()):
        return None
    return access, response


def _send_cached(
    meta: Environ,
    start_response: StartResponse,
    read_request: CacheableRead,
    access: ReadAccess,
    response: CachedResponse,
    began: float,
) -> Iterable[bytes]:
    request_id = log_context.accept_request_id(meta.get(ID_IN_ENVIRON, ""))
    body = response.before_id + read_request.message_id + response.after_id
    headers = [*response.headers, (ID_HEADER, request_id)]
    status = int(response.status[:3])
    if status == 200:
        headers.append(("Content-Length", str(len(body))))
    start_response(response.status, headers)
    token = log_context.begin({"request_id": request_id, "user_id": access.owner_id, "route": response.route})
    try:
        seconds = time.perf_counter() - began
        record_request(response.route, status, seconds, meta["REQUEST_METHOD"], meta["PATH_INFO"])
    finally:
        log_context.end(token)
    return [body]


class ProgramHandler(WSGIHandler):
    """Answers requests whose view is already known (MATCH_IN_ENVIRON), with `settings.PROGRAM_MIDDLEWARE`.

    Requests of programs have no session, no form and no cookie: below /serve/ each protocol formats its own
    errors, and the API checks the key of each request (people/authentication.py). Middleware for pages does
    nothing for them and takes a third of their time.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        # As BaseHandler does it, with another list and without asynchronous middleware.
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        handler: Callable[[HttpRequest], Any] = convert_exception_to_response(self._get_response)  # type: ignore[attr-defined]
        for name in reversed(settings.PROGRAM_MIDDLEWARE):
            try:
                middleware = import_string(name)(handler)
            except MiddlewareNotUsed:
                continue
            if hasattr(middleware, "process_view"):
                self._view_middleware.insert(0, middleware.process_view)
            if hasattr(middleware, "process_exception"):
                self._exception_middleware.append(middleware.process_exception)
            handler = convert_exception_to_response(middleware)
        self._middleware_chain = handler

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        match: ResolverMatch = request.META[MATCH_IN_ENVIRON]
        request.resolver_match = match
        return match

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = super().get_response(request)
        if hasattr(request, "moved_agent") or hasattr(request, "retired_release"):
            add_deprecation_headers(request, response)
        # As CommonMiddleware does it for pages.
        if isinstance(response, HttpResponse) and not response.has_header("Content-Length"):
            response.headers["Content-Length"] = str(len(response.content))
        return response
