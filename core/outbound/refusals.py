"""The error for a reply with a status that the caller does not accept."""

from http import HTTPStatus
from http.client import responses
from urllib.parse import urlsplit

from urllib3.response import BaseHTTPResponse

from core.outbound.addresses import CheckedUrl
from core.outbound.challenges import scope_asked, wants_more_scope
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.outbound.retry_after import DAY, retry_after
from core.translatable import mark

_REDIRECTS = {300, 301, 302, 303, 305, 307, 308}


def refusal(
    response: BaseHTTPResponse, url: CheckedUrl, target: str, challenge: str, *, has_credential: bool
) -> ProtocolError:
    """Return the error of a reply. `challenge`: the WWW-Authenticate header, "" if it repeats the
    credential."""
    status, host = response.status, url.authority
    answer = f"{status} {responses.get(status, '')}".rstrip()
    if status in _REDIRECTS:
        destination = _redirect_target(response.headers.get("location", ""), url)
        message = f"{host} answered {status} to {destination}; redirects are not followed."
        return RefusedError("REDIRECT", message)
    if status in (401, 403):
        if status == HTTPStatus.FORBIDDEN and wants_more_scope(challenge):
            scope = printable(scope_asked(challenge), 300)
            requirement = (
                mark(f"the scope “{scope}”") if scope else mark("more scopes, and does not name them")
            )
            message = f"{host} requires a token with {requirement} for this (403 Forbidden)."
            return RefusedError("INSUFFICIENT_SCOPE", message, challenge=challenge)
        message = (
            f"{host} rejected the credential ({answer})."
            if has_credential
            else f"{host} requires a credential ({answer})."
        )
        return RefusedError("AUTH", message, challenge=challenge)
    if status in (404, 410):
        path = printable(target.partition("?")[0])
        return RefusedError("NOT_FOUND", f"{host} has nothing at {path}; is the address right?")
    if status in (408, 425, 429) or 500 <= status < 600:
        code = "RATE_LIMITED" if status == HTTPStatus.TOO_MANY_REQUESTS else f"HTTP_{status}"
        seconds = retry_after(response.headers.get("retry-after", ""))
        if seconds is None:
            return UnavailableError(code, f"{host} answered {answer}.")
        wait = min(seconds, float(DAY))
        message = (
            f"{host} answered {answer} and asks to wait {_format_duration(seconds)}; "
            f"will try in {_format_duration(wait)}."
            if wait < seconds
            else f"{host} answered {answer} and asks to wait {_format_duration(seconds)}."
        )
        return UnavailableError(code, message, retry_after=wait)
    if 400 <= status < 500:
        return RefusedError(f"HTTP_{status}", f"{host} answered {answer}.")
    if status in (204, 205):
        return ProtocolViolationError("EMPTY_REPLY", f"{host} answered {answer}: a reply without a body.")
    return ProtocolViolationError(f"HTTP_{status}", f"{host} answered {answer}, which is not expected here.")


def _redirect_target(location: str, url: CheckedUrl) -> str:
    """Return the target of a redirect without its query, which may contain secrets."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "an address that cannot be read"
    if not parts.netloc:
        return printable(f"{parts.scheme}:" if parts.scheme else parts.path) or "nowhere"
    host = parts.netloc.rpartition("@")[2]
    if parts.hostname == url.host:
        return printable(f"{parts.scheme or url.scheme}://{host}{parts.path}")
    return printable(host or "nowhere")


def _format_duration(seconds: float) -> str:
    for unit, length in (("days", DAY), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (unit == "h" and seconds >= length):
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
