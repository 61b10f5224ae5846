"""Limit how many wrong passwords may be entered before the next try has to wait.

There are three counts over the same window: one account from one address (a user guesses, or forgot), one
address over all accounts (one password is tried with many names), and one account over all addresses (many
machines guess together). A browser that has signed in to this account before has a count of its own, whatever
its address. So attackers cannot lock a user out, from many addresses or from behind the same proxy.
"""

import secrets
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import login
from django.core import signing
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from core.client_ip import client_address
from people.models import FailedSignIn, User

# A user who has forgotten a password tries a few; an attacker tries more.
MAX_FAILURES = 10
# Many users of an office mistype behind one address.
MAX_PER_ADDRESS = 50
MAX_PER_ACCOUNT = 50
WINDOW = timedelta(minutes=15)
WAIT = _("Too many wrong passwords. Wait 15 minutes, then try again.")
KNOWN_BROWSER = "known_browser"
# After half a year without a sign-in, a browser counts as a new one.
KNOWN_FOR = timedelta(days=180)
_SALT = "people.login_lockout.known_browser"


def must_wait(request: HttpRequest, username: str) -> bool:
    source, browser = _source(request, username), _known_browser(request, username)
    account, address = Q(username=source["username"]), Q(address=source["address"])
    recent = FailedSignIn.objects.filter(at__gt=timezone.now() - WINDOW)
    counts: dict[str, int] = recent.aggregate(
        both=Count("pk", filter=account & address),
        of_address=Count("pk", filter=address),
        on_account=Count("pk", filter=account),
    )
    # For a known browser only its own failures count, or an attacker could lock its user out.
    if browser or counts["both"] >= MAX_FAILURES:
        return counts["both"] >= MAX_FAILURES
    return counts["of_address"] >= MAX_PER_ADDRESS or counts["on_account"] >= MAX_PER_ACCOUNT


def note_failure(request: HttpRequest, username: str) -> None:
    # Failures that no longer count are deleted here, so that the table stays small.
    FailedSignIn.objects.filter(at__lte=timezone.now() - WINDOW).delete()
    FailedSignIn.objects.create(**_source(request, username))


def forget(request: HttpRequest, username: str) -> None:
    FailedSignIn.objects.filter(**_source(request, username)).delete()


def begin_session(request: HttpRequest, user: User, *, backend: str | None = None) -> None:
    """Sign the user in under a new session key. The session ends at a fixed time, whatever is requested."""
    login(request, user, backend=backend)
    ends = timezone.now() + timedelta(seconds=settings.SESSION_COOKIE_AGE)
    request.session.set_expiry(ends)


def remember_browser(response: HttpResponse, user: User) -> None:
    # The cookie signs no user in. It proves that this browser has signed in to this account before.
    response.set_cookie(
        KNOWN_BROWSER,
        signing.dumps([_name(user.username), secrets.token_urlsafe(12)], salt=_SALT),
        max_age=KNOWN_FOR,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
        # Only the sign-in reads it.
        path="/accounts/",
    )


def _known_browser(request: HttpRequest, username: str) -> str:
    """Return an id of the browser if it has signed in to this account before, else ""."""
    cookie = request.COOKIES.get(KNOWN_BROWSER, "")
    try:
        name, browser = signing.loads(cookie, salt=_SALT, max_age=KNOWN_FOR)
    except signing.BadSignature:
        return ""
    return f"browser {browser}" if name == _name(username) else ""


def _source(request: HttpRequest, username: str) -> dict[str, str]:
    source = _known_browser(request, username) or client_address(request)
    # 45 characters: the longest IPv6 address in text, with an IPv4 address in it.
    return {"username": _name(username), "address": source[:45]}


def _name(username: str) -> str:
    return username.strip().casefold()[:150]
