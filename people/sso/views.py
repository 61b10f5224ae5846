"""Redirects to the identity provider, and back: OpenID Connect Core 1.0 section 3.1, RFC 7636.

`state` and `nonce` are kept in the session of that browser and work once, for ten minutes. So an answer from
another browser, or one that is repeated, is refused.
"""

import logging
import time
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from core.errors import DomainError
from core.oauth.client import challenge_of, new_secret
from core.public_url import public_url
from people import login_lockout
from people.forms import LinkForm
from people.models import Role, User
from people.permissions import person, public, requires
from people.sso import accounts, id_tokens, provider
from people.sso.errors import SignInError

logger = logging.getLogger(__name__)
PENDING = "single_sign_on"
SIGNED_IN_BY = "signed_in_by"
LIFE = 600  # seconds that a person has at the provider
# Several tabs may be at the provider at once; older ones give way, so that the session stays small.
MAX_PENDING = 5
BACKEND = "django.contrib.auth.backends.ModelBackend"


@public
@never_cache
@require_safe
def start(request: HttpRequest) -> HttpResponse:
    after = request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(after, {request.get_host()}, require_https=request.is_secure())
    try:
        return redirect(_address(request, _configured(), after=after if is_ours else ""))
    except SignInError as error:
        return _problem(request, error)


@sensitive_post_parameters("old")
@requires(write=Role.VIEWER)
def link(request: HttpRequest) -> HttpResponse:
    # Links the user's account with their identity; the password rules out an unlocked screen.
    # The last step is a link and not a redirect: the security policy lets no form lead to another site.
    chosen = _configured()
    form = LinkForm(request, request.POST or None)
    address = ""
    if request.method == "POST" and form.is_valid():
        try:
            address = _address(request, chosen, after=reverse("password-change"), user=person(request))
        except SignInError as error:
            form.refuse(error)
    context = {"form": form, "provider": chosen, "address": address}
    context["identities"] = person(request).identities.filter(issuer=chosen.issuer)
    return render(request, "people/sso/link.html", context)


@public
@never_cache
@require_safe
@sensitive_variables("code", "token")
def done(request: HttpRequest) -> HttpResponse:
    chosen = _configured()
    try:
        began = _taken(request)
        claims = _claims(request, chosen, began)
        if began["user"] is not None:
            return _link(request, claims, began)
        login_lockout.begin_session(request, accounts.account_of(claims, chosen), backend=BACKEND)
        request.session.pop(PENDING, None)
        request.session[SIGNED_IN_BY] = chosen.issuer
        return redirect(began["after"] or settings.LOGIN_REDIRECT_URL)
    except DomainError as error:
        logger.warning("single sign-on refused: %s", error.code)
        return _problem(request, error)


@require_POST
@public
def sign_out(request: HttpRequest) -> HttpResponse:
    """Signs the user out here, and links to the provider's own sign-out where they came from there."""
    chosen = provider.configured()
    was_theirs = chosen is not None and request.session.get(SIGNED_IN_BY) == chosen.issuer
    logout(request)
    if chosen is None or not was_theirs:
        return redirect("login")
    try:
        there = provider.metadata(chosen).sign_out
    except SignInError:
        there = ""
    back = public_url(reverse("login"), request)
    query = urlencode({"client_id": chosen.client_id, "post_logout_redirect_uri": back})
    address = f"{there}{'&' if '?' in there else '?'}{query}" if there else ""
    return render(request, "people/signed_out.html", {"address": address, "provider": chosen})


def _configured() -> provider.Provider:
    if chosen := provider.configured():
        return chosen
    raise Http404


def _address(request: HttpRequest, chosen: provider.Provider, *, after: str, user: User | None = None) -> str:
    # Of the provider's page, with everything that ties its answer to this browser.
    state, nonce, verifier = new_secret(), new_secret(), new_secret()
    pending: dict[str, Any] = request.session.get(PENDING, {})
    newest = sorted(pending.items(), key=lambda each: each[1]["at"])[-(MAX_PENDING - 1) :]
    request.session[PENDING] = dict(newest) | {
        state: {
            "nonce": nonce,
            "verifier": verifier,
            "at": time.time(),
            "after": after,
            "user": user.pk if user else None,
        }
    }
    if not request.user.is_authenticated:
        request.session.set_expiry(LIFE)  # a sign-in that is given up leaves no session
    fields = {
        "response_type": "code",
        "client_id": chosen.client_id,
        "redirect_uri": public_url(reverse("single-sign-on-done"), request),
        "scope": chosen.scopes,
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
    }
    there = provider.metadata(chosen).authorization
    return f"{there}{'&' if '?' in there else '?'}{urlencode(fields)}"


def _taken(request: HttpRequest) -> dict[str, Any]:
    # What this browser's sign-in began with. Works once.
    pending: dict[str, Any] = request.session.get(PENDING, {})
    began = pending.pop(request.GET.get("state", ""), None)
    if began is None or time.time() - began["at"] > LIFE:
        message = "This sign-in was not begun in this browser, is older than ten minutes, or was used before."
        raise SignInError("unknown_state", f"{message} Start again.")
    request.session[PENDING] = pending
    request.session.save()  # before anything is asked, so that the same answer is not taken twice
    taken: dict[str, Any] = began
    return taken


def _claims(request: HttpRequest, chosen: provider.Provider, began: dict[str, Any]) -> dict[str, Any]:
    said, given = provider.metadata(chosen), request.GET
    is_stated = "iss" in given or said.states_issuer  # RFC 9207
    if is_stated and given.get("iss") != chosen.issuer:
        raise SignInError("issuer_mixed_up", "This answer came from another identity provider. Start again.")
    if "error" in given or not given.get("code"):
        raise SignInError("denied", "The identity provider did not sign you in. Start again.", status=403)
    token = provider.exchange(
        chosen,
        code=given["code"],
        redirect_uri=public_url(reverse("single-sign-on-done"), request),
        verifier=began["verifier"],
    )
    return id_tokens.verified(
        token,
        provider.keys(chosen, besides=id_tokens.key_id(token)),
        issuer=chosen.issuer,
        client_id=chosen.client_id,
        nonce=began["nonce"],
        now=time.time(),
    )


def _link(request: HttpRequest, claims: dict[str, Any], began: dict[str, Any]) -> HttpResponse:
    user = request.user
    if not user.is_authenticated or user.pk != began["user"]:
        raise SignInError(
            "another_person", "Another person is signed in here by now. Start again.", status=403
        )
    accounts.link(user, actor=user, issuer=claims["iss"], subject=claims["sub"])
    messages.success(request, "Linked. From now on you can sign in without your password.")
    return redirect(began["after"])


def _problem(request: HttpRequest, error: DomainError) -> HttpResponse:
    return render(request, "people/sso/problem.html", {"message": error.message}, status=error.status)
