"""Redirects to the identity provider, and back: OpenID Connect Core 1.0 section 3.1, RFC 7636.

The session of the browser stores `state` and `nonce`; they work once, for ten minutes. So a response in
another browser, or a repeated one, is refused.
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
from django.utils.translation import gettext as _
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
SIGN_IN_ISSUER = "signed_in_by"
SIGN_IN_SECONDS = 600  # that a person may spend at the provider
# Several tabs may sign in at once. The oldest ones are dropped, so that the session stays small.
MAX_PENDING = 5
BACKEND = "django.contrib.auth.backends.ModelBackend"


@public
@never_cache
@require_safe
def start(request: HttpRequest) -> HttpResponse:
    next_address = request.GET.get("next", "")
    is_local = url_has_allowed_host_and_scheme(
        next_address, {request.get_host()}, require_https=request.is_secure()
    )
    try:
        return redirect(_address(request, _require_provider(), after=next_address if is_local else ""))
    except SignInError as error:
        return _problem(request, error)


@sensitive_post_parameters("old")
@requires(write=Role.VIEWER)
def link(request: HttpRequest) -> HttpResponse:
    """Link the user's account with an identity. The password proves that the screen was not left unlocked."""
    # The last step is a link, because the security policy forbids a form to redirect to another site.
    idp = _require_provider()
    form = LinkForm(request, request.POST or None)
    address = ""
    if request.method == "POST" and form.is_valid():
        try:
            address = _address(request, idp, after=reverse("password-change"), user=person(request))
        except SignInError as error:
            form.refuse(error)
    context = {"form": form, "provider": idp, "address": address}
    context["identities"] = person(request).identities.filter(issuer=idp.issuer)
    return render(request, "people/sso/link.html", context)


@public
@never_cache
@require_safe
@sensitive_variables("code", "token")
def done(request: HttpRequest) -> HttpResponse:
    idp = _require_provider()
    try:
        pending: dict[str, Any] = request.session.get(PENDING, {})
        sign_in: dict[str, Any] | None = pending.pop(request.GET.get("state", ""), None)
        if sign_in is None or time.time() - sign_in["at"] > SIGN_IN_SECONDS:
            message = _(
                "This sign-in did not start in this browser, is older than ten minutes, or was used before. "
                "Start again."
            )
            raise SignInError("unknown_state", message)
        request.session[PENDING] = pending
        request.session.save()  # before the provider is called, so that a response is used once
        claims = _claims(request, idp, sign_in)
        if sign_in["user"] is not None:
            user = request.user
            if not user.is_authenticated or user.pk != sign_in["user"]:
                raise SignInError(
                    "another_person", _("Another person is signed in here now. Start again."), status=403
                )
            accounts.link(user, actor=user, issuer=claims["iss"], subject=claims["sub"])
            messages.success(request, _("Linked. From now on you can sign in without your password."))
            return redirect(sign_in["after"])
        login_lockout.begin_session(request, accounts.account_of(claims, idp), backend=BACKEND)
        request.session.pop(PENDING, None)
        request.session[SIGN_IN_ISSUER] = idp.issuer
        return redirect(sign_in["after"] or settings.LOGIN_REDIRECT_URL)
    except DomainError as error:
        logger.warning("single sign-on refused: %s", error.code)
        return _problem(request, error)


@require_POST
@public
def sign_out(request: HttpRequest) -> HttpResponse:
    """Sign the user out, and link to the provider's sign-out if the user signed in there."""
    idp = provider.configured_provider()
    used_provider = idp is not None and request.session.get(SIGN_IN_ISSUER) == idp.issuer
    logout(request)
    if idp is None or not used_provider:
        return redirect("login")
    try:
        sign_out_address = provider.metadata(idp).sign_out
    except SignInError:
        sign_out_address = ""
    return_address = public_url(reverse("login"), request)
    query = urlencode({"client_id": idp.client_id, "post_logout_redirect_uri": return_address})
    separator = "&" if "?" in sign_out_address else "?"
    address = f"{sign_out_address}{separator}{query}" if sign_out_address else ""
    return render(request, "people/signed_out.html", {"address": address, "provider": idp})


def _require_provider() -> provider.Provider:
    if idp := provider.configured_provider():
        return idp
    raise Http404


def _address(request: HttpRequest, idp: provider.Provider, *, after: str, user: User | None = None) -> str:
    """Return the address of the sign-in page, with the values that bind its response to this browser."""
    state, nonce, verifier = new_secret(), new_secret(), new_secret()
    pending: dict[str, Any] = request.session.get(PENDING, {})
    newest = sorted(pending.items(), key=lambda entry: entry[1]["at"])[-(MAX_PENDING - 1) :]
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
        request.session.set_expiry(SIGN_IN_SECONDS)  # an abandoned sign-in leaves no session
    fields = {
        "response_type": "code",
        "client_id": idp.client_id,
        "redirect_uri": public_url(reverse("single-sign-on-done"), request),
        "scope": idp.scopes,
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
    }
    page = provider.metadata(idp).authorization
    return f"{page}{'&' if '?' in page else '?'}{urlencode(fields)}"


def _claims(request: HttpRequest, idp: provider.Provider, sign_in: dict[str, Any]) -> dict[str, Any]:
    metadata, response = provider.metadata(idp), request.GET
    has_issuer = "iss" in response or metadata.states_issuer  # RFC 9207
    if has_issuer and response.get("iss") != idp.issuer:
        raise SignInError(
            "issuer_mixed_up", _("This response came from another identity provider. Start again.")
        )
    if "error" in response or not response.get("code"):
        raise SignInError("denied", _("The identity provider did not sign you in. Start again."), status=403)
    token = provider.exchange(
        idp,
        code=response["code"],
        redirect_uri=public_url(reverse("single-sign-on-done"), request),
        verifier=sign_in["verifier"],
    )
    return id_tokens.verify_id_token(
        token,
        provider.keys(idp, key_id=id_tokens.key_id(token)),
        issuer=idp.issuer,
        client_id=idp.client_id,
        nonce=sign_in["nonce"],
        now=time.time(),
    )


def _problem(request: HttpRequest, error: DomainError) -> HttpResponse:
    return render(request, "people/sso/problem.html", {"message": error.message}, status=error.status)
