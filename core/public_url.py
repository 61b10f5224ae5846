"""Pegboard's own addresses, as pages, replies, mail, webhooks and other servers are given them.

`PEGBOARD_URL` is the same whichever way a request came in; without it, the address that the request was sent
to has to do. `PEGBOARD_RUNTIMES_URL` is where runtimes reach us, if that is elsewhere.
"""

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request


def public_url(path: str, request: HttpRequest | Request | None = None) -> str:
    """The whole address of a path of ours. Without a setting and without a request: the path alone."""
    if settings.PUBLIC_URL or request is None:
        return f"{settings.PUBLIC_URL}{path}"
    return request.build_absolute_uri(path)


def runtimes_url(path: str, request: HttpRequest | Request | None = None) -> str:
    """The same for programs that run released tools, where they have processes of their own."""
    return f"{settings.RUNTIMES_URL}{path}" if settings.RUNTIMES_URL else public_url(path, request)


def is_open_elsewhere(request: HttpRequest) -> bool:
    """Whether the browser that posted a form has us open under another address than `PEGBOARD_URL`."""
    # Its cookies are not sent to the other one, so that a sign-in which comes back there finds no session.
    # Origin is the address that the browser shows; Host may have been rewritten by a proxy.
    origin = urlsplit(request.headers.get("Origin", ""))
    ours = urlsplit(settings.PUBLIC_URL)
    is_known = bool(origin.netloc and ours.netloc)
    return is_known and (origin.scheme, origin.netloc) != (ours.scheme, ours.netloc)
