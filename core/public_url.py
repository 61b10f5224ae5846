"""Pegboard's own addresses in pages, replies, mail, webhooks and requests to other servers.

`PEGBOARD_URL` is the address for every request; without it, the address that the request was sent to is used.
`PEGBOARD_RUNTIMES_URL` is the address for runtimes, if it is a different one.
"""

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.utils.http import is_same_domain
from rest_framework.request import Request

from core.web_origins import address_problem, format_origin, origin_of


def public_url(path: str, request: HttpRequest | Request | None = None) -> str:
    """Return the full address of a path. Without a setting and without a request: the path alone."""
    if settings.PUBLIC_URL or request is None:
        return f"{settings.PUBLIC_URL}{path}"
    return request.build_absolute_uri(path)


def runtimes_url(path: str, request: HttpRequest | Request | None = None) -> str:
    """Return the full address of a path for agent runtimes, which may have separate web processes."""
    return f"{settings.RUNTIMES_URL}{path}" if settings.RUNTIMES_URL else public_url(path, request)


def own_address_problems() -> list[str]:
    """Return the problems of the addresses in the settings."""
    addresses = {"PEGBOARD_URL": settings.PUBLIC_URL, "PEGBOARD_RUNTIMES_URL": settings.RUNTIMES_URL}
    problems = (address_problem(variable, address) for variable, address in addresses.items())
    return [problem for problem in problems if problem]


def is_foreign_page(request: HttpRequest) -> bool:
    """Return whether a page of another site sent the request, by its `Origin` header. Programs send none.

    Pegboard's origins (scheme, host and port, RFC 6454) are the address of the request, `PEGBOARD_URL`,
    `PEGBOARD_RUNTIMES_URL` and `PEGBOARD_ORIGINS`.
    """
    if "Origin" not in request.headers:
        return False
    addresses = (request.build_absolute_uri("/"), settings.PUBLIC_URL, settings.RUNTIMES_URL)
    origin = request.headers["Origin"]
    if origin_of(origin) is None:
        return True
    if origin_of(origin) in {origin_of(address) for address in addresses if address}:
        return False
    parts = urlsplit(origin)
    for trusted in settings.CSRF_TRUSTED_ORIGINS:
        # As Django reads it: `https://*.example.com` covers all names below that domain.
        scheme, _, host = trusted.partition("://")
        is_below = host.startswith("*") and is_same_domain(parts.netloc, host.lstrip("*"))
        if (is_below and parts.scheme == scheme) or origin_of(origin) == origin_of(trusted):
            return False
    return True


def foreign_page_message(request: HttpRequest) -> str:
    """Return why a form from a foreign page was refused, and how to fix it."""
    origin, own_origin = origin_of(request.headers["Origin"]), origin_of(request.build_absolute_uri("/"))
    if origin is None or own_origin is None:
        return (
            "Your browser did not send the address of the page that this form is on. "
            "Open Pegboard at its own address, and send the form again."
        )
    page, address = format_origin(origin), settings.PUBLIC_URL or format_origin(own_origin)
    if (origin[0], own_origin[0], origin[1]) == ("https", "http", own_origin[1]):
        return (
            f"This form was sent from {page}, and the request arrived without encryption. An operator has to "
            "set PEGBOARD_HTTPS=1, and the proxy in front has to set X-Forwarded-Proto."
        )
    return (
        f"This form was sent from {page}, and Pegboard is at {address}. Open {address} and send it there. If "
        f"{page} is an address of this Pegboard, an operator has to set PEGBOARD_URL to it, or add it to "
        "PEGBOARD_ORIGINS."
    )


def is_open_elsewhere(request: HttpRequest) -> bool:
    """Return whether the browser that posted a form shows another address of Pegboard than `PEGBOARD_URL`."""
    # Cookies are not sent to the other address, so a sign-in that returns there finds no session.
    # Origin is the address that the browser shows; Host may have been rewritten by a proxy.
    origin = urlsplit(request.headers.get("Origin", ""))
    public = urlsplit(settings.PUBLIC_URL)
    has_both = bool(origin.netloc and public.netloc)
    return has_both and (origin.scheme, origin.netloc) != (public.scheme, public.netloc)
