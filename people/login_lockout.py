"""How many wrong passwords may be typed before Pegboard asks to wait.

Three counts over the same window. One account from one address: a user who guesses, or forgot. One
address over all accounts: one password tried with many names. One account over all addresses: many machines
that guess together. A browser that has signed in to this account before is counted by itself, whatever its
address, so that attackers cannot lock a user out: not from many addresses, and not from behind the same
proxy.
"""

import secrets
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import login
from django.core import signing
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from core.client_ip import client_address
from people.models import FailedSignIn, User

# A user who has forgotten a password tries a few; one who guesses tries on.
MAX_FAILURES = 10
# An office behind one address has many users who mistype.
MAX_PER_ADDRESS = 50
MAX_PER_ACCOUNT = 50
WINDOW = timedelta(minutes=15)
WAIT = "Too many wrong passwords. Wait 15 minutes, then try again."
KNOWN_BROWSER = "known_browser"
# A browser that was not used for half a year is as good as a new one.
KNOWN_FOR = timedelta(days=180)
_SALT = "people.login_lockout.known_browser"


def must_wait(request: HttpRequest, username: str) -> bool:
    who, known = _who(request, username), _known_browser(request, username)
    account, address = Q(username=who["username"]), Q(address=who["address"])
    recent = FailedSignIn.objects.filter(at__gt=timezone.now() - WINDOW)
    counts: dict[str, int] = recent.aggregate(
        both=Count("pk", filter=account & address),
        of_address=Count("pk", filter=address),
        on_account=Count("pk", filter=account),
    )
    # For a known browser only its own failures count, or an attacker could lock its user out.
    if known or counts["both"] >= MAX_FAILURES:
        return counts["both"] >= MAX_FAILURES
    return counts["of_address"] >= MAX_PER_ADDRESS or counts["on_account"] >= MAX_PER_ACCOUNT


def note_failure(request: HttpRequest, username: str) -> None:
    # Also deletes every failure that no longer counts, so that the table stays small.
    FailedSignIn.objects.filter(at__lte=timezone.now() - WINDOW).delete()
    FailedSignIn.objects.create(**_who(request, username))


def forget(request: HttpRequest, username: str) -> None:
    FailedSignIn.objects.filter(**_who(request, username)).delete()


def begin_session(request: HttpRequest, user: User, *, backend: str | None = None) -> None:
    """Under a new session key; it ends after a time that no request makes longer."""
    login(request, user, backend=backend)
    ends = timezone.now() + timedelta(seconds=settings.SESSION_COOKIE_AGE)
    request.session.set_expiry(ends)


def remember_browser(response: HttpResponse, user: User) -> None:
    # A cookie that signs no user in; it says that this browser has signed in to this account before.
    response.set_cookie(
        KNOWN_BROWSER,
        signing.dumps([_name(user.username), secrets.token_urlsafe(12)], salt=_SALT),
        max_age=KNOWN_FOR,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
        # Nothing but the sign-in asks for it.
        path="/accounts/",
    )


def _known_browser(request: HttpRequest, username: str) -> str:
    # A name of the browser, if it has signed in to this account before; "" for any other.
    given = request.COOKIES.get(KNOWN_BROWSER, "")
    try:
        name, browser = signing.loads(given, salt=_SALT, max_age=KNOWN_FOR)
    except signing.BadSignature:
        return ""
    return f"browser {browser}" if name == _name(username) else ""


def _who(request: HttpRequest, username: str) -> dict[str, str]:
    place = _known_browser(request, username) or client_address(request)
    # As long as the longest IPv6 address in text, with an IPv4 address in it.
    return {"username": _name(username), "address": place[:45]}


def _name(username: str) -> str:
    return username.strip().casefold()[:150]
