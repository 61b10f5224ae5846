"""Authorization of end users at a provider, with their own browser, from a link in the result of a call.

The link cannot be guessed, and the user who opens it is not signed in to Pegboard. So the page names the
agent, and
only the same browser may return: it has a cookie that matches the state. RFC 6749 section 4.1, RFC 7636, RFC
9207.
"""

import copy
import hmac
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models.functions import Now

from catalog.credentials.oauth import grant_requests, token_replies, token_request
from catalog.credentials.oauth.token_holder import NO_FAILURE, NO_LEASE, early
from catalog.credentials.oauth.token_replies import Tokens
from catalog.models import Call, Credential, EndUser, Grant, UserGrant
from catalog.models.user_grants import GrantState
from core import encryption
from core.encryption import Secret
from core.errors import DomainError
from core.oauth.client import digest_of, new_secret
from core.outbound.errors import ProtocolError, printable
from execution.user_grants import grants

OVER = "A link works once, within an hour, and until it is replaced. Return to the agent and ask it again."


def link_of(grant: UserGrant) -> str:
    """Return the link, which stays the same while the grant waits, so that two calls share it."""
    return encryption.keyed_digest(f"{grant.pk}\0{grant.asked}", field="catalog.usergrant.link")


def waiting(link: str) -> UserGrant:
    """Return the grant that the link is for. Raises DomainError."""
    rows = UserGrant.objects.filter(
        link_digest=digest_of(link), state=GrantState.PENDING, expires_at__gt=Now()
    )
    grant = rows.exclude(link_digest="").select_related(*_WITH).first()
    if grant is None or grant.credential is None or grant.credential.removed_at:
        raise DomainError("link_over", OVER, status=404)
    return grant


_WITH = ("end_user", "endpoint__vendor", "credential__grant", "call__api_key__user", "call__requested_by")


def host_of(grant: UserGrant) -> str:
    return urlsplit(_oauth_client(grant).authorization_url).netloc


def asked_scopes(grant: UserGrant) -> list[str]:
    """Return the scopes of the authorization request: those of the tools and those of the client."""
    return _oauth_client(grant).scope.split()


def begin(grant: UserGrant, *, redirect_uri: str) -> tuple[str, str]:
    """Return the address for the browser, and the state that the browser must return. Raises DomainError."""
    client = _oauth_client(grant)
    token_request.client_secret(client.credential, client)  # what cannot be completed is not begun
    state, verifier = new_secret(), new_secret()
    encrypted_verifier = encryption.encrypt(Secret(verifier), row=grant.pk, field=grants.field_of("verifier"))
    rows = UserGrant.objects.filter(pk=grant.pk, state=GrantState.PENDING)
    rows.update(state_digest=digest_of(state), verifier=encrypted_verifier, sent_scopes=grant.scopes)
    address = grant_requests.sign_in_address(
        client, redirect_uri=redirect_uri, state=state, verifier=verifier
    )
    return address, state


def complete(
    query: Mapping[str, Sequence[str]],
    *,
    began_with: str,
    redirect_uri: str,
) -> UserGrant:
    """Exchange the code for tokens and store them. `began_with`: the state with which the browser left.

    Raises DomainError with a message for the user; the grant then keeps waiting.
    """
    answer = token_replies.read_answer(query)
    if answer is None or not began_with or not hmac.compare_digest(answer.state, began_with):
        raise DomainError("sign_in_unknown", OVER)
    rows = UserGrant.objects.filter(
        state_digest=digest_of(answer.state), state=GrantState.PENDING, expires_at__gt=Now()
    )
    grant = rows.select_related(*_WITH).first()
    # A state is valid once, whatever the result.
    if grant is None or not rows.filter(pk=grant.pk).update(state_digest=""):
        raise DomainError("sign_in_unknown", OVER)
    client = _oauth_client(grant)
    if answer.issuer != client.issuer and (answer.issuer or client.states_issuer):
        raise DomainError("sign_in_issuer", "The reply is from another server. Nothing was stored.")
    if answer.error:
        message = token_replies.in_words(host_of(grant), answer.error, answer.words).message
        grants.settle(grant, GrantState.FAILED, printable(message, 300), verifier="")
        raise DomainError("sign_in_refused", message)
    if not answer.code:
        raise DomainError("sign_in_code", "The server returned no code. Open the link again.")
    verifier = encryption.decrypt(
        grant.verifier, row=grant.pk, field=grants.field_of("verifier"), name=str(grant)
    )
    fields = grant_requests.code_fields(
        client, code=answer.code, redirect_uri=redirect_uri, verifier=verifier.reveal()
    )
    began = time.monotonic()
    try:
        tokens = request_tokens(client, fields, [Secret(answer.code), verifier])
    except ProtocolError as error:
        raise DomainError("sign_in_failed", f"It was not completed: {error.message}") from None
    # Only a renewal keeps the stored refresh token, which may belong to another server.
    used_up = {"refresh_token": "", "verifier": "", "link_digest": ""}
    # The user has not seen the scopes that were added since the browser left.
    sent_scopes = grant.scopes if grant.sent_scopes is None else grant.sent_scopes
    columns = used_up | {"scopes": sent_scopes}
    columns |= columns_for(grant, client, tokens, time.monotonic() - began, sent_scopes.split())
    message, granted_scopes = "The user authorized it.", columns["granted_scopes"].split()
    if refused := [scope for scope in sent_scopes.split() if scope not in granted_scopes]:
        message += f" Requested and not granted: {token_replies.scope_names(refused)}."
    if tokens.note:
        message += f" {tokens.note}"
    if not grants.settle(grant, GrantState.COMPLETED, message, **columns):
        raise DomainError("sign_in_unknown", OVER)
    grant.refresh_from_db()
    return grant


def request_tokens(client: Grant, fields: Mapping[str, str], sent: Sequence[Secret]) -> Tokens:
    """Send a token request. Raises ProtocolError, DomainError."""
    secret = token_request.client_secret(client.credential, client)
    form = grant_requests.token_form(client, secret, fields)
    return token_request.request(client, form, [*sent, *([secret] if secret else [])])


def columns_for(
    grant: UserGrant, client: Grant, tokens: Tokens, elapsed_seconds: float, scopes: Sequence[str]
) -> dict[str, Any]:
    """Return the columns of a token reply. A reply without a refresh token keeps the stored one (RFC 6749,
    6).

    scopes: those of the tools, as far as the server grants them.
    """
    granted = token_replies.granted_scopes(scopes, client.scope.split(), tokens.scope)
    access = encryption.encrypt(tokens.access, row=grant.pk, field=grants.field_of("access_token"))
    columns: dict[str, Any] = {
        "access_token": access,
        "granted_scopes": " ".join(granted),
        "generation": grant.generation + 1,
        **NO_FAILURE,
        **NO_LEASE,
        "started_at": None,
        "token_expires_at": None,
        "renew_at": None,
    }
    if tokens.refresh:
        field = grants.field_of("refresh_token")
        columns["refresh_token"] = encryption.encrypt(tokens.refresh, row=grant.pk, field=field)
    if tokens.seconds is not None:
        remaining_seconds = tokens.seconds - elapsed_seconds
        columns["token_expires_at"] = Now() + timedelta(seconds=remaining_seconds)
        columns["renew_at"] = Now() + timedelta(seconds=remaining_seconds - early(tokens.seconds))
    return columns


def client_of(credential: Credential, scopes: str = "") -> Grant:
    """Return the settings of the client, with the additional scopes."""
    client = copy.copy(credential.grant)
    client.credential = credential
    client.scope = " ".join(dict.fromkeys([*client.scope.split(), *scopes.split()]))
    return client


def _oauth_client(grant: UserGrant) -> Grant:
    if grant.credential is None:
        raise DomainError("link_over", OVER, status=404)
    return client_of(grant.credential, grant.scopes)


@transaction.atomic
def ask(
    user: EndUser, call: Call, provider: str, *, credential: Credential, scopes: Sequence[str], site: str
) -> str:
    """Begin a grant and return the address of the page of Pegboard at which the user authorizes it.

    Raises DomainError.
    """
    grants_of_provider = UserGrant.objects.filter(
        end_user=user, endpoint=call.version.tool.endpoint, provider=provider[: grants.MAX_PROVIDER_LENGTH]
    ).first()
    # Tools that need a refused scope request it again.
    before = (
        [
            scope
            for scope in grants_of_provider.scopes.split()
            if scope not in grants_of_provider.refused_scopes
        ]
        if grants_of_provider
        else []
    )
    scopes_to_request = dict.fromkeys([*before, *scopes])
    # The scopes are part of the browser's address. A truncated list would be another request.
    if (length := len(" ".join(scopes_to_request))) > token_replies.MAX_SCOPE_LENGTH:
        max_length = token_replies.MAX_SCOPE_LENGTH
        message = (
            f"This provider requires scopes of {length:,} characters, and at most {max_length:,} can be "
            "requested."
        )
        raise DomainError("SCOPES_TOO_LONG", f"{message} Pin a version of the tool that needs fewer.")
    grant = grants.ask(user, call, provider, scopes=list(scopes_to_request), credential=credential)
    link = link_of(grant)
    UserGrant.objects.filter(pk=grant.pk).update(link_digest=digest_of(link))
    return f"{site}/grants/authorize/{link}/"
