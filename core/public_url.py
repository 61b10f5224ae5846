"""Pegboard's own addresses, as pages, replies, mail, webhooks and other servers are given them.

`PEGBOARD_URL` is the same whichever way a request came in; without it, the address that the request was sent
to has to do. `PEGBOARD_RUNTIMES_URL` is where runtimes reach us, if that is elsewhere.
"""

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.utils.http import is_same_domain
from rest_framework.request import Request


def public_url(path: str, request: HttpRequest | Request | None = None) -> str:
    """The whole address of a path of ours. Without a setting and without a request: the path alone."""
    if settings.PUBLIC_URL or request is None:
        return f"{settings.PUBLIC_URL}{path}"
    return request.build_absolute_uri(path)


def runtimes_url(path: str, request: HttpRequest | Request | None = None) -> str:
    """The same for programs that run released tools, where they have processes of their own."""
    return f"{settings.RUNTIMES_URL}{path}" if settings.RUNTIMES_URL else public_url(path, request)


def is_foreign_page(request: HttpRequest) -> bool:
    """Whether a page of another site sent the request, by its `Origin`; a program sends none.

    An origin is a scheme, a host and a port (RFC 6454). Own origins are the address of the request,
    `PEGBOARD_URL`, `PEGBOARD_RUNTIMES_URL` and `PEGBOARD_ORIGINS`.
    """
    if "Origin" not in request.headers:
        return False
    addresses = (request.build_absolute_uri("/"), settings.PUBLIC_URL, settings.RUNTIMES_URL)
    origin = request.headers["Origin"]
    if _origin_of(origin) is None:
        return True
    if _origin_of(origin) in {_origin_of(address) for address in addresses if address}:
        return False
    return not any(_matches(origin, trusted) for trusted in settings.CSRF_TRUSTED_ORIGINS)


DEFAULT_PORTS = {"http": 80, "https": 443}


def _origin_of(address: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return None
    if not parts.scheme or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or DEFAULT_PORTS.get(parts.scheme)


def _matches(origin: str, trusted: str) -> bool:
    # As Django reads CSRF_TRUSTED_ORIGINS: `https://*.example.com` covers all names below that domain.
    scheme, _, host = trusted.partition("://")
    if not host.startswith("*"):
        return _origin_of(origin) == _origin_of(trusted)
    parts = urlsplit(origin)
    return parts.scheme == scheme and is_same_domain(parts.netloc, host.lstrip("*"))


def is_open_elsewhere(request: HttpRequest) -> bool:
    """Whether the browser that posted a form has us open under another address than `PEGBOARD_URL`."""
    # Its cookies are not sent to the other one, so that a sign-in which comes back there finds no session.
    # Origin is the address that the browser shows; Host may have been rewritten by a proxy.
    origin = urlsplit(request.headers.get("Origin", ""))
    ours = urlsplit(settings.PUBLIC_URL)
    is_known = bool(origin.netloc and ours.netloc)
    return is_known and (origin.scheme, origin.netloc) != (ours.scheme, ours.netloc)
