"""The access token of a credential, as requests to a vendor use it.

A process that does not get the lease for a renewal (renewal.py) waits for the row.
"""

import random
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from django.db import connection, transaction
from django.db.models.functions import Now

from catalog.credentials.oauth import grant_requests, renewal, token_request
from catalog.credentials.oauth.errors import BusyError, NeedsSignInError, sign_in_again
from catalog.credentials.oauth.renewal import Token
from catalog.models import Credential, Grant
from catalog.models.vendors import OAuthKind
from core.errors import DomainError
from core.outbound.errors import ProtocolError, RefusedError, UnavailableError
from core.postgresql.base import give_back
from people import audit

MAX_WAIT = 35.0  # seconds that one waits for another's renewal
# Not with each request: every call of a tool would be one more write.
NOTE_USE_EVERY = timedelta(minutes=10)
MAX_SCOPE_LENGTH = 2_000
NOT_TAKEN_CODE = "TOKEN_NOT_TAKEN"
NOT_TAKEN = (
    "The vendor does not take a token that was just made for it. Look at the scope, the resource and the "
    "audience of this credential, or ask the vendor."
)

Result = TypeVar("Result")


def token_for(credential: Credential, *, refused: int | None = None) -> Token:
    """Return a token, renewed if it is due, or another one than that of the `refused` generation.

    May wait for the authorization server or for another process, up to 35 s each. Never call it in a
    transaction.
    The token of an unsaved credential is not stored. Raises NeedsSignInError, BusyError, other
    ProtocolErrors,
    DomainError.
    """
    if credential.kind == OAuthKind.USERS:
        raise RefusedError(
            "FOR_USERS", f"“{credential}” is for users of agents, and has no token of its own."
        )
    if credential._state.adding:
        return _passing_token(credential)
    ends = time.monotonic() + MAX_WAIT
    while True:
        grant = read_grant(credential.pk)
        token = _usable(grant, refused)
        if token and (token.good_for is None or token.good_for > 0):
            return token
        _raise_if_over(grant, refused)
        if renewed := _tried(grant, token):
            return renewed
        if token:
            # It should be renewed and cannot be now. Try again soon.
            good_for = renewal.MIN_BACK_OFF_SECONDS
            if grant.expires_at:
                good_for = min(good_for, (grant.expires_at - grant.now).total_seconds())
            return replace(token, good_for=good_for)
        if grant.now < (grant.retry_at or grant.now):
            # The error of the last attempt, until the next one is allowed.
            kind = RefusedError if grant.refused_at else UnavailableError
            again = (grant.retry_at - grant.now).total_seconds() if grant.retry_at else None
            raise kind(grant.error_code, grant.error_message, retry_after=again)
        if time.monotonic() >= ends:
            raise BusyError(credential.name)
        give_back()
        time.sleep(random.uniform(0.05, 0.3))  # noqa: S311 - spreads those who wait


def _tried(grant: Grant, token: Token | None) -> Token | None:
    # One renewal, if the row allows it. While a `token` is valid, only the end of a sign-in is an error.
    if not renewal.may_try(grant):
        return None
    try:
        return renewal.renew(grant)
    except NeedsSignInError:
        raise
    except ProtocolError:
        if token is None:
            raise
        return None


def read_grant(credential_id: uuid.UUID) -> Grant:
    """Return the grant with `now`, and record its use. Raises DomainError if the credential was removed."""
    rows = Grant.objects.filter(credential_id=credential_id, credential__removed_at=None)
    grant = rows.select_related("credential").timed().first()
    if grant is None:
        raise DomainError("credential_removed", "This credential has been removed.", status=409)
    if grant.used_at is None or grant.used_at < grant.now - NOTE_USE_EVERY:
        Grant.objects.filter(pk=grant.pk).update(used_at=Now())
    return grant


def _usable(grant: Grant, refused: int | None) -> Token | None:
    # The stored token, if it is neither over nor the one that was refused.
    if not grant.access_token or grant.generation == refused:
        return None
    if grant.expires_at and grant.expires_at <= grant.now:
        return None
    good_for = None
    if grant.expires_at:
        good_for = (grant.expires_at - grant.now).total_seconds()
        if grant.renew_at:
            good_for -= renewal.early_for_callers((grant.expires_at - grant.renew_at).total_seconds())
    return Token(
        generation=grant.generation,
        secret=token_request.decrypted(grant, "access_token"),
        good_for=good_for,
        was_refused=grant.error_code == NOT_TAKEN_CODE,
    )


def _raise_if_over(grant: Grant, refused: int | None) -> None:
    if grant.ended_at:
        raise NeedsSignInError(grant.error_message)
    if grant.generation == refused and grant.error_code == NOT_TAKEN_CODE:
        raise RefusedError(NOT_TAKEN_CODE, NOT_TAKEN)
    if grant.credential.kind != OAuthKind.CODE or grant.refresh_token:
        return
    if not grant.access_token:
        raise NeedsSignInError(f"“{grant.credential}” needs a sign-in before it can be used.")
    problem, since = "is over", grant.expires_at or grant.now
    if grant.generation == refused:
        problem, since = "is not taken by the vendor any more", grant.now
    reason = f"the token {problem}, and the server gave nothing to renew it with"
    message = sign_in_again(since, reason)
    current_grant = Grant.objects.filter(pk=grant.pk, generation=grant.generation)
    renewal.end_sign_in(grant, current_grant, "TOKEN_OVER", message)
    raise NeedsSignInError(message)


def _passing_token(credential: Credential) -> Token:
    grant = credential.grant
    if credential.kind == OAuthKind.CODE:
        raise NeedsSignInError(
            "This can be looked at after a sign-in. Save the credential and sign in first."
        )
    secret = token_request.client_secret(credential, grant)
    form = grant_requests.token_form(grant, secret, grant_requests.client_fields(grant))
    tokens = token_request.request(grant, form, [secret] if secret else [])
    return Token(grant.generation, tokens.access)


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
            audit.record(None, "accept", credential, why="The vendor takes its token again.")


def note_wanted_scope(credential: Credential, generation: int, scope: str) -> None:
    """The vendor wants a token with this scope for something; a person decides whether it gets one."""
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
        reason = "The vendor refused its token, because it wants one with this scope."
        audit.record(None, "ask", credential, after={"scope": new_scope}, why=reason)


def widest(*scopes: str) -> str:
    """The words of all of them, each once."""
    return " ".join(dict.fromkeys(word for scope in scopes for word in scope.split()))


def apart(work: Callable[[], Result]) -> Result:
    # Does it on a database connection of its own: the caller's may be in the middle of something.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="token") as pool:
        return pool.submit(_and_close, work).result()


def _and_close(work: Callable[[], Result]) -> Result:
    try:
        return work()
    finally:
        connection.close()
