"""Rules for every request and reply, regardless of the view."""

import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import resolve
from django.utils.formats import number_format
from django.utils.functional import LazyObject, empty
from django.utils.translation import gettext as _
from rest_framework.permissions import SAFE_METHODS

from core import db_errors, log_context, proxy_signs
from core.errors import DomainError
from core.log_context import ID_HEADER, ID_IN_ENVIRON, ROUTE_IN_ENVIRON, record_request
from pegboard.web import views
from pegboard.web.headers import OMITTED_FROM_304, ON_EVERY_REPLY

logger = logging.getLogger(__name__)

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
PROBES = ("/healthz", "/readyz")
MAX_ADDRESS_LENGTH = 8_000  # bytes of path and query
# Browsers send about twenty, and proxies add some.
MAX_HEADERS = 100
# Their addresses are secrets: anyone who has one may use it.
SECRET_ADDRESSES = {"run-hint", "grant-authorize"}


class TraceMiddleware:
    """Gives each request an id, measures its duration, and writes one log line.

    The outermost middleware, so that every reply is counted and has an id.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        began = time.perf_counter()
        request_id = log_context.accept_request_id(request.META.get(ID_IN_ENVIRON, ""))
        facts: log_context.Facts = {
            "request_id": request_id,
            "user_id": lambda: known_user(request),
            "route": lambda: route_of(request),
        }
        token = log_context.begin(facts)
        try:
            response = self.get_response(request)
            response.headers[ID_HEADER] = request_id
            route = route_of(request) or "none"
            request.META[ROUTE_IN_ENVIRON] = route
            match = request.resolver_match
            path = f"/{match.route}" if match and route in SECRET_ADDRESSES else request.path
            record_request(route, response.status_code, time.perf_counter() - began, request.method, path)
        finally:
            log_context.end(token)
        return response


def route_of(request: HttpRequest) -> str | None:
    """Return the name of the URL pattern. There are as many as routes, regardless of the requested
    addresses."""
    match = request.resolver_match
    return match.view_name if match else None


def known_user(request: HttpRequest) -> int | None:
    """Return the id of the user if it is already loaded, because a log line must not cause a query."""
    user = request.__dict__.get("user")
    if isinstance(user, LazyObject) and user.__dict__.get("_wrapped") is empty:
        return None
    return getattr(user, "pk", None)


class SecurityHeadersMiddleware:
    """Adds security headers. Only tracing is outside of it, so files, redirects and errors have them too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        for name, value in ON_EVERY_REPLY.items():
            response.headers.setdefault(name, value)
        if response.status_code == HTTPStatus.NOT_MODIFIED:
            for name in OMITTED_FROM_304:
                del response.headers[name]
        return response


class ProxySignsMiddleware:
    """Records signs of a proxy that the settings do not mention, for `doctor`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info in PROBES:
            return self.get_response(request)
        signs = proxy_signs.signs_of(request.META, proxies=settings.NUM_PROXIES, is_https=settings.HTTPS)
        if signs and not settings.LOCAL:
            proxy_signs.note(signs)
        return self.get_response(request)


class HostMiddleware:
    """Rejects a host that is not in PEGBOARD_HOSTS before any other layer replies, except for probes.

    Django checks the host in `CommonMiddleware`, which requests of runtimes bypass.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info not in PROBES:
            request.get_host()
        return self.get_response(request)


class BoundsMiddleware:
    """Limits the length of the address, the number of headers and the size of the body, before they are read.

    A view that accepts more than a megabyte declares it in `largest_body`.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if len(request.META.get("QUERY_STRING", "")) + len(request.path_info) > MAX_ADDRESS_LENGTH:
            return views.problem(
                request,
                414,
                "address_too_long",
                _(
                    "The address is longer than {maximum} bytes. Shorten the search, or use fewer filters."
                ).format(maximum=number_format(MAX_ADDRESS_LENGTH, force_grouping=True)),
            )
        if sum(name.startswith("HTTP_") for name in request.META) > MAX_HEADERS:
            return views.problem(
                request,
                431,
                "too_many_headers",
                _("The request has more than {maximum} headers.").format(maximum=MAX_HEADERS),
            )
        if _declared_size(request) > settings.MAX_BODY_BYTES:
            return views.too_large(request, settings.MAX_BODY_BYTES)
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponse | None:
        view = getattr(view_func, "cls", view_func)
        limit: int = getattr(view, "largest_body", settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        return views.too_large(request, limit) if _declared_size(request) > limit else None


def _declared_size(request: HttpRequest) -> int:
    # The gateway sets the length of a chunked body. Other bodies without one are not read.
    length = request.META.get("CONTENT_LENGTH") or "0"
    return int(length) if length.isascii() and length.isdigit() else 0


class RefuseNulMiddleware:
    """Rejects NUL and invalid UTF-8, which PostgreSQL cannot store, before any query."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            query = unquote_to_bytes(request.META.get("QUERY_STRING", "")).decode()
        except UnicodeDecodeError:
            return views.bad_request(request)
        # In the path, Django keeps the percent-encoding of invalid UTF-8, which matches no name.
        if any("\0" in text for text in (request.path_info, query, *request.COOKIES.values())):
            return views.bad_request(request)
        try:
            form = list(request.POST.lists()) if request.content_type in FORMS else []
        except RequestDataTooBig:
            return views.too_large(request, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        except (TooManyFieldsSent, TooManyFilesSent):
            return views.problem(request, 400, "too_many_fields", _("The form has too many fields or files."))
        if any("\0" in text for name, values in form for text in (name, *values)):
            return views.bad_request(request)
        return self.get_response(request)


class ProbeMiddleware:
    """Answers probes before Django checks the host, because probes use an address and not a name."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info not in PROBES or request.method not in ("GET", "HEAD"):
            return self.get_response(request)
        request.resolver_match = resolve(request.path_info)
        response: HttpResponse = request.resolver_match.func(request)
        return response


class MethodMiddleware:
    """Replies to an unsupported method with a sentence instead of Django's empty page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if isinstance(response, HttpResponseNotAllowed) and not response.content:
            return views.method_not_allowed(request, response["Allow"])
        return response


class DomainErrorMiddleware:
    """Replies to errors that a page did not handle: an expired cursor, an unreachable database."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        match exception:
            case DomainError():
                return views.problem(request, exception.status, exception.code, exception.message)
            case DataError():
                return views.bad_request(request)
        if outage := db_errors.outage(exception, is_write=request.method not in SAFE_METHODS):
            logger.warning("the database: %s", exception)
            return views.unavailable(request, outage)
        return None
