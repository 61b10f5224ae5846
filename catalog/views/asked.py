"""Numbers and paths in an address, as a user may have typed them."""

from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme

MAX_DIGITS = 18  # any number of so many digits fits a bigint


def number(text: str) -> int:
    """Parse an id or an ordinal. Return 0, which is neither, for a text that is not a number."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else 0


def numbers(texts: list[str]) -> list[int]:
    return [parsed for text in texts if (parsed := number(text))]


def next_path(request: HttpRequest) -> str:
    """Return the path in `next`, at which the user continues; "" if it is no path of Pegboard."""
    path = request.POST.get("next") or request.GET.get("next", "")
    is_safe = url_has_allowed_host_and_scheme(path, {request.get_host()}, require_https=request.is_secure())
    # Without the slash, `redirect` takes it for the name of a page.
    return path if is_safe and path.startswith("/") else ""
