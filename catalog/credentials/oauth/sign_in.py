"""Sign-ins at an authorization server for a credential, with the browser of a user.

A reply is valid once, within 10 minutes, for the same user and login session, or for the user alone if a
program started it. RFC 6749 section 4.1, RFC 7636, RFC 9207; RFC 9700 section 4 lists the attacks.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from catalog.credentials.oauth import discovery, grant_requests, renewal, token_replies, token_request, tokens
from catalog.credentials.oauth.clients import WHOSE_TOKENS
from catalog.credentials.oauth.token_replies import RedirectParameters, Tokens
from catalog.models import Credential, Grant, SignIn
from catalog.models.vendors import OAuthKind
from core import encryption
from core.encryption import Secret
from core.errors import DomainError
from core.oauth.client import digest_of, new_secret
from core.outbound.errors import ProtocolError, RefusedError, printable
from people import audit
from people.models import User


class VendorSignInError(DomainError):
    """A sign-in of `credential` that failed."""

    def __init__(self, credential: Credential, code: str, message: str, status: int = 400) -> None:
        super().__init__(code, message, status=status)
        self.credential = credential


# Enough for a user who must find a second factor. Codes are valid as long (RFC 6749, 4.1.2).
LIFE = timedelta(minutes=10)
MAX_OPEN = 20  # for one person
ANY_SESSION = ""
VERIFIER_FIELD = "catalog.signin.verifier"


def check_server(credential: Credential) -> None:
    """Query the vendor, and raise DomainError if it names other authorization servers than the client's.

    Takes up to 20 s. A vendor that does not answer, or names none, is no reason against a sign-in.
    """
    grant = _grant_of(credential)
    if not grant.issuer:
        return
    try:
        discovery_result = discovery.discover(grant.resource or credential.origin)
    except RefusedError:
        return  # `resource` need not be an address that may be requested
    if discovery_result.names_others_than(grant.issuer):
        issuers = ", ".join(printable(server.issuer, 100) for server in discovery_result.servers)
        raise DomainError(
            "sign_in_moved",
            _(
                "The vendor now names {issuers} as its authorization server, and this "
                "client belongs to {issuer}. No sign-in was started. Look up the server, "
                "then change the client."
            ).format(issuers=issuers, issuer=printable(grant.issuer, 100)),
            status=409,
        )


def begin(credential: Credential, *, actor: User, session_key: str | None, redirect_uri: str) -> str:
    """Return the address for the user's browser. The request includes scopes that the vendor requires.

    session_key: the login session, or None for a program of the user, who may then return in any login
    session.
    redirect_uri: the exact address of Pegboard's page to which the server redirects. Raises DomainError.
    """
    grant = _grant_of(credential)
    if session_key == "":
        raise DomainError("sign_in_session", _("Sign in to Pegboard in this browser first."), status=409)
    token_request.client_secret(grant.credential, grant)  # a sign-in that cannot be completed is not begun
    state, verifier = new_secret(), new_secret()
    grant.scope = tokens.widest(grant.scope, grant.wanted_scope)
    with transaction.atomic():
        SignIn.objects.filter(created_at__lte=Now() - LIFE).delete()
        sign_ins = SignIn.objects.filter(user=actor).order_by("-created_at", "pk")
        SignIn.objects.filter(pk__in=list(sign_ins.values_list("pk", flat=True)[MAX_OPEN - 1 :])).delete()
        row = SignIn(
            credential=credential,
            user=actor,
            session_digest=digest_of(session_key) if session_key else ANY_SESSION,
            state_digest=digest_of(state),
            redirect_uri=redirect_uri,
            scope=grant.scope,
        )
        row.verifier = encryption.encrypt(Secret(verifier), row=row.pk, field=VERIFIER_FIELD)
        row.save()
    return grant_requests.sign_in_address(grant, redirect_uri=redirect_uri, state=state, verifier=verifier)


def complete(
    query: Mapping[str, Sequence[str]], *, actor: User, session_key: str, redirect_uri: str
) -> Credential:
    """Exchange the code of the redirect for tokens and store them.

    query: all values of all parameters (`dict(request.GET.lists())`). redirect_uri: the called address
    without its query. Raises DomainError with a message for the user. Earlier tokens then stay.
    """
    answer = token_replies.read_answer(query)
    matching = SignIn.objects.filter(
        state_digest=digest_of(answer.state if answer else ""),
        session_digest__in=[digest_of(session_key), ANY_SESSION],
        user=actor,
        created_at__gt=Now() - LIFE,
    )
    row = matching.select_related("credential").first() if answer else None
    # Only one caller can claim it.
    if answer is None or row is None or not matching.filter(pk=row.pk).delete()[0]:
        raise DomainError(
            "sign_in_unknown",
            _(
                "This sign-in was not started here, has expired, or was used before. Start again from the "
                "credential."
            ),
        )
    try:
        return _complete_sign_in(row, answer, actor, redirect_uri)
    except DomainError as error:
        raise VendorSignInError(row.credential, error.code, error.message, error.status) from None


def _complete_sign_in(row: SignIn, answer: RedirectParameters, actor: User, redirect_uri: str) -> Credential:
    grant = _grant_of(row.credential)
    grant.scope = row.scope or grant.scope
    if redirect_uri != row.redirect_uri:
        raise DomainError("sign_in_address", _("The sign-in returned to another address. Start again."))
    _check_issuer(grant, answer)
    if answer.error:
        host = urlsplit(grant.authorization_url).netloc
        message = token_replies.in_words(host, answer.error, answer.words)
        raise DomainError("sign_in_refused", message.message)
    if not answer.code:
        raise DomainError("sign_in_code", _("The server returned no code. Start again."))
    secret = token_request.client_secret(grant.credential, grant)
    verifier = encryption.decrypt(row.verifier, row=row.pk, field=VERIFIER_FIELD, name=grant.credential.name)
    fields = grant_requests.code_fields(
        grant, code=answer.code, redirect_uri=row.redirect_uri, verifier=verifier.reveal()
    )
    sent_secrets = [Secret(answer.code), verifier, *([secret] if secret else [])]
    began = time.monotonic()
    try:
        tokens = token_request.request(grant, grant_requests.token_form(grant, secret, fields), sent_secrets)
    except ProtocolError as error:
        raise DomainError(
            "sign_in_failed", _("The sign-in was not completed: {reason}").format(reason=error.message)
        ) from None
    _store_tokens(grant, tokens, time.monotonic() - began, actor)
    return row.credential


def _grant_of(credential: Credential) -> Grant:
    rows = Grant.objects.filter(credential_id=credential.pk, credential__removed_at=None)
    grant = rows.select_related("credential").timed().first()
    if grant is None or credential.kind != OAuthKind.CODE:
        raise DomainError("sign_in_kind", _("This credential does not support a sign-in."), status=409)
    return grant


def _check_issuer(grant: Grant, answer: RedirectParameters) -> None:
    # Compared byte for byte, before anything else in the answer is believed: RFC 9207 section 2.4.
    is_named = bool(answer.issuer)
    if (is_named and answer.issuer == grant.issuer) or not (is_named or grant.states_issuer):
        return
    if not is_named:
        reason = _(
            "The reply does not name its server, although this server declares that it does. Nothing was "
            "stored. Start again."
        )
    elif not grant.issuer:
        reason = _(
            "The server states the issuer “{issuer}”, and no issuer was entered. If that is the right one, "
            "enter it as the issuer. Nothing was stored. Start again."
        ).format(issuer=printable(answer.issuer, 200))
    else:
        reason = _(
            "The reply is from “{issuer}” and not from “{expected}”. Nothing was stored. Start again."
        ).format(issuer=printable(answer.issuer, 200), expected=grant.issuer)
    raise DomainError("sign_in_issuer", reason)


def _store_tokens(grant: Grant, tokens: Tokens, elapsed_seconds: float, actor: User) -> None:
    # Replaces any tokens, also those that are being renewed, unless the client has changed.
    changes = renewal.columns_for(grant, tokens, elapsed_seconds, is_sign_in=True)
    changes |= {"scope": grant.scope, "wanted_scope": ""}
    with transaction.atomic():
        stored_grant = Grant.objects.select_for_update(of=("self",)).filter(pk=grant.pk).first()
        if stored_grant is None or any(
            getattr(stored_grant, name) != getattr(grant, name) for name in WHOSE_TOKENS
        ):
            raise DomainError(
                "sign_in_changed", _("The credential was changed meanwhile. Start again."), status=409
            )
        rows = Grant.objects.filter(pk=grant.pk)
        rows.update(**changes, generation=stored_grant.generation + 1, signed_in_at=Now(), signed_in_by=actor)
        audit.record(
            actor,
            "sign in",
            grant.credential,
            after={
                "server": grant.issuer or urlsplit(grant.token_url).netloc,
                "asked": grant.scope,
                "scope": changes["granted_scope"],
            },
        )
