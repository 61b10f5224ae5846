"""The access token of a credential, as requests to a vendor use it.

token_holder.py renews it.
"""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from catalog.credentials.oauth import grant_requests, token_holder, token_request
from catalog.credentials.oauth.errors import NeedsSignInError
from catalog.credentials.oauth.renewal import NOT_TAKEN, CredentialTokens
from catalog.credentials.oauth.token_holder import NOT_TAKEN_CODE, Token
from catalog.models import Credential, Grant
from catalog.models.vendors import OAuthKind
from core.errors import DomainError
from core.outbound.errors import RefusedError
from people import audit

# Not with each request: every call of a tool would be one more write.
NOTE_USE_EVERY = timedelta(minutes=10)
MAX_SCOPE_LENGTH = 2_000

Result = TypeVar("Result")


def token_for(credential: Credential, *, refused_generation: int | None = None) -> Token:
    """Return a token. It is renewed if it is due, or if it is of the `refused_generation`.

    May wait for the authorization server or for another process, up to 35 s each. Never call it in a
    transaction. The token of an unsaved credential is not stored. Raises NeedsSignInError, BusyError, other
    ProtocolErrors, DomainError.
    """
    if credential.kind == OAuthKind.USERS:
        raise RefusedError(
            "FOR_USERS",
            _("“{credential}” is for users of agents, and has no token of its own.").format(
                credential=credential
            ),
        )
    if credential._state.adding:
        grant = credential.grant
        if credential.kind == OAuthKind.CODE:
            raise NeedsSignInError(
                _("This can be previewed after a sign-in. Save the credential and sign in first.")
            )
        secret = token_request.client_secret(credential, grant)
        form = grant_requests.token_form(grant, secret, grant_requests.client_fields(grant))
        tokens = token_request.request(grant, form, [secret] if secret else [])
        return Token(grant.generation, tokens.access)
    return token_holder.acquire(
        lambda: CredentialTokens(read_grant(credential.pk)), refused_generation=refused_generation
    )


def read_grant(credential_id: uuid.UUID) -> Grant:
    """Return the grant with `now`, and record its use. Raises DomainError if the credential was removed."""
    rows = Grant.objects.filter(credential_id=credential_id, credential__removed_at=None)
    grant = rows.select_related("credential").timed().first()
    if grant is None:
        raise DomainError("credential_removed", _("This credential has been removed."), status=409)
    if grant.used_at is None or grant.used_at < grant.now - NOTE_USE_EVERY:
        Grant.objects.filter(pk=grant.pk).update(used_at=Now())
    return grant


def note_refusal(credential: Credential, generation: int) -> None:
    # The vendor refuses a new token. Another one would be refused too.
    current_grant = Grant.objects.filter(credential=credential, generation=generation, refused_at=None)
    with transaction.atomic(durable=True):
        if current_grant.update(
            refused_at=Now(), failed_at=Now(), error_code=NOT_TAKEN_CODE, error_message=NOT_TAKEN
        ):
            audit.record(None, "refuse", credential, after={"code": NOT_TAKEN_CODE}, why=NOT_TAKEN)


def note_acceptance(credential: Credential, generation: int) -> None:
    refused = Grant.objects.filter(credential=credential, generation=generation, error_code=NOT_TAKEN_CODE)
    with transaction.atomic(durable=True):
        if refused.update(refused_at=None, failed_at=None, error_code="", error_message=""):
            audit.record(None, "accept", credential, why="The vendor accepts its token again.")


def note_wanted_scope(credential: Credential, generation: int, scope: str) -> None:
    """Record that the vendor refused a token without this scope. A person decides whether to request it."""
    # Scopes of several tools are collected, so that one sign-in is enough.
    with transaction.atomic(durable=True):
        rows = Grant.objects.select_for_update().filter(credential=credential, generation=generation)
        grant = rows.first()
        if grant is None or not scope:
            return
        new_scope = widest(grant.wanted_scope, scope)
        if new_scope == grant.wanted_scope or len(widest(grant.scope, new_scope)) > MAX_SCOPE_LENGTH:
            return
        rows.update(wanted_scope=new_scope)
        reason = "The vendor refused its token, because it requires this scope."
        audit.record(None, "ask", credential, after={"scope": new_scope}, why=reason)


def widest(*scopes: str) -> str:
    """Return the scopes joined into one, with each word once."""
    return " ".join(dict.fromkeys(word for scope in scopes for word in scope.split()))


def run_on_own_connection(work: Callable[[], Result]) -> Result:
    """Run `work` on a database connection of its own: the caller's may be in a transaction."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="token") as thread:
        try:
            return thread.submit(work).result()
        finally:
            # `connection` is that of the thread which looks it up.
            thread.submit(lambda: connection.close()).result()
