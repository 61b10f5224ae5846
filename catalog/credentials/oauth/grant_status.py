"""The status of an OAuth credential, as pages and REST show it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.db import models

from catalog.credentials.oauth.errors import moment, sign_in_again
from catalog.credentials.oauth.token_replies import words_of
from catalog.models import Grant
from catalog.models.vendors import OAuthKind

SOON = timedelta(days=1)
NEXT_WEEK = timedelta(days=7)


class State(models.TextChoices):
    NEW = "new", "Not used yet"
    OK = "ok", "Working"
    EXPIRING = "expiring", "Expiring"
    NEEDS_SCOPE = "needs_scope", "Needs another scope"
    NEEDS_SIGN_IN = "needs_sign_in", "Needs a sign-in"
    REFUSED = "refused", "Refused"


class Remedy(models.TextChoices):
    """The action that repairs it, "" for none."""

    SIGN_IN = "sign_in", "Sign in"
    WIDEN = "widen", "Ask for a token with the scopes that the vendor wants"
    ENTER_SECRET = "enter_secret", "Enter the secret again"
    EDIT = "edit", "Correct the settings"
    WAIT = "wait", "Nothing to do: it is tried again by itself"


@dataclass(frozen=True, slots=True)
class CredentialStatus:
    """The status of a credential. `expires_at`: None for a token without a known expiry, or without a token.

    missing: requested scopes that were not granted. extra: granted ones that were not requested.
    wanted: scopes that a refused request required.
    """

    state: State
    message: str
    remedy: Remedy | None
    expires_at: datetime | None
    obtained_at: datetime | None
    in_doubt_since: datetime | None
    failed_at: datetime | None
    error_code: str
    error_message: str
    retry_at: datetime | None
    granted: list[str]
    missing: list[str]
    extra: list[str]
    wanted: list[str]
    signed_in_at: datetime | None
    signed_in_by: str


def status_of(grant: Grant, now: datetime) -> CredentialStatus:
    """`now` as the database has it (`Grant.objects.timed()`) or as we do."""
    if grant.credential.kind == OAuthKind.USERS:
        message = "Users of agents authorize with it, each for a token of their own."
        usual: tuple[State, str, Remedy | None] = State.OK, message, None
    else:
        usual = _about_tokens(grant, now)
    state, message, remedy = _about_secret(grant, now) or usual
    requested, granted = words_of(grant.scope), words_of(grant.granted_scope)
    has_token = bool(grant.access_token)
    if has_token and grant.token_note:
        message += f" {grant.token_note}"
    return CredentialStatus(
        state=state,
        message=message,
        remedy=remedy,
        expires_at=grant.expires_at,
        obtained_at=grant.obtained_at,
        in_doubt_since=_in_doubt_since(grant, now),
        failed_at=grant.failed_at,
        error_code=grant.error_code,
        error_message=grant.error_message,
        retry_at=grant.retry_at,
        granted=granted if has_token else [],
        missing=[word for word in requested if word not in granted] if has_token else [],
        extra=[word for word in granted if word not in requested] if has_token and requested else [],
        wanted=[word for word in words_of(grant.wanted_scope) if word not in granted] if has_token else [],
        signed_in_at=grant.signed_in_at,
        signed_in_by=str(grant.signed_in_by) if grant.signed_in_by else "",
    )


def _about_tokens(grant: Grant, now: datetime) -> tuple[State, str, Remedy | None]:
    is_code = grant.credential.kind == OAuthKind.CODE
    if grant.ended_at:
        return State.NEEDS_SIGN_IN, grant.error_message, Remedy.SIGN_IN
    if is_code and not grant.access_token:
        return State.NEW, "It waits for a first sign-in.", Remedy.SIGN_IN
    if grant.refused_at:
        return State.REFUSED, grant.error_message, Remedy.EDIT
    is_over = grant.expires_at is not None and grant.expires_at <= now
    if grant.wanted_scope and grant.access_token and not (is_over and not grant.refresh_token):
        return _about_wanted_scope(grant)
    if is_code and not grant.refresh_token and (worry := _without_renewal(grant, now)):
        return worry
    if grant.failures:
        return State.EXPIRING, _not_renewed(grant, now), Remedy.WAIT
    if not grant.access_token:
        return State.NEW, "The first token is asked for when it is first used.", None
    if grant.expires_at is None:
        return (
            State.OK,
            "The server does not say how long the token lives: it is used until it is refused.",
            None,
        )
    if grant.expires_at > now:
        return State.OK, f"The token is good until {moment(grant.expires_at)} and renewed before that.", None
    return State.OK, "The last token is over; the next one is asked for when it is needed.", None


def _about_wanted_scope(grant: Grant) -> tuple[State, str, Remedy | None]:
    # The vendor refused a request for want of a scope (RFC 6750, insufficient_scope).
    message = f"The vendor refused a request: it requires a token with the scope “{grant.wanted_scope}”."
    required = set(words_of(grant.wanted_scope))
    if required <= set(words_of(grant.granted_scope)):
        again = "The token has that scope already, so another one would be refused too. Ask the vendor why."
        return State.NEEDS_SCOPE, f"{message} {again}", None
    is_code = grant.credential.kind == OAuthKind.CODE
    if required <= set(words_of(grant.scope)):
        host = urlsplit(grant.authorization_url or grant.token_url).netloc
        again = f"It was asked for, and {host} did not grant it. Have it allowed there first."
    elif is_code:
        again = "A sign-in asks for it, beside the scopes that the token has."
    else:
        again = "The next token can be asked for with it, beside the scopes that this one has."
    return State.NEEDS_SCOPE, f"{message} {again}", Remedy.SIGN_IN if is_code else Remedy.WIDEN


def _about_secret(grant: Grant, now: datetime) -> tuple[State, str, Remedy] | None:
    # It is missing, or the server issued it for a limited time.
    if grant.client_authentication != "none" and not grant.credential.sealed:
        problem = "key is not there any more" if grant.client_authentication == "key" else ""
        message = f"Its client {problem or 'secret was entered for another server'}."
        return State.REFUSED, message, Remedy.ENTER_SECRET
    ends = grant.secret_expires_at
    if ends is None or ends > now + NEXT_WEEK:
        return None
    again = "Edit it, look the server up, and register Pegboard there again."
    if ends <= now:
        return State.REFUSED, f"Its client secret was good until {moment(ends)}. {again}", Remedy.EDIT
    return State.EXPIRING, f"Its client secret is good until {moment(ends)}. {again}", Remedy.EDIT


def _without_renewal(grant: Grant, now: datetime) -> tuple[State, str, Remedy] | None:
    # The server gave no refresh token.
    if grant.expires_at is None or grant.expires_at > now + SOON:
        return None
    if grant.expires_at <= now:
        message = sign_in_again(
            grant.expires_at, "the token is over, and the server gave nothing to renew it with"
        )
        return State.NEEDS_SIGN_IN, message, Remedy.SIGN_IN
    until = f"It ends at {moment(grant.expires_at)}, and the server gave nothing to renew it with."
    return State.EXPIRING, until, Remedy.SIGN_IN


def _in_doubt_since(grant: Grant, now: datetime) -> datetime | None:
    is_under_way = grant.lease_until is not None and grant.lease_until > now
    is_code = grant.credential.kind == OAuthKind.CODE
    return grant.started_at if is_code and grant.access_token and not is_under_way else None


def _not_renewed(grant: Grant, now: datetime) -> str:
    is_good = grant.access_token and (grant.expires_at is None or grant.expires_at > now)
    until = f" The token is good until {moment(grant.expires_at)}." if is_good and grant.expires_at else ""
    again = f" Tried again after {moment(grant.retry_at)}." if grant.retry_at else ""
    doubt = ""
    if sent_at := _in_doubt_since(grant, now):
        doubt = (
            f" No reply came to the renewal at {moment(sent_at)}, so the server may have replaced the "
            "refresh token. The same one is sent again, which many servers take for a short while. If this "
            "one does not, a new sign-in is needed."
        )
    return f"It could not be renewed: {grant.error_message}{until}{again}{doubt}"
