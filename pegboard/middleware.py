"""What every request and every reply must keep to, whatever view answers."""

from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from django.db import DataError
from django.http import HttpRequest, HttpResponse

from pegboard import views
from people.errors import DomainError

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class ContentSecurityPolicyMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        return response


class RefuseNulMiddleware:
    """PostgreSQL stores neither NUL nor broken UTF-8, so both are refused before anything looks them up."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _is_unreadable(request):
            return views.bad_request(request)
        return self.get_response(request)


def _is_unreadable(request: HttpRequest) -> bool:
    # In the path, Django has put back the percent signs of what is not UTF-8; nothing has such a name.
    if "\0" in request.path_info or _is_odd(unquote_to_bytes(request.META.get("QUERY_STRING", ""))):
        return True
    if any("\0" in value for value in request.COOKIES.values()):
        return True
    return request.content_type in FORMS and any(
        "\0" in value for values in request.POST.lists() for value in (values[0], *values[1])
    )


def _is_odd(text: bytes) -> bool:
    try:
        return "\0" in text.decode()
    except UnicodeDecodeError:
        return True


class DomainErrorMiddleware:
    """A rule that a page did not explain itself, such as a cursor that is no longer known."""

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
        return None
