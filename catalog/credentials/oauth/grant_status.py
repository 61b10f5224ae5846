"""The status of an OAuth credential, as pages and REST show it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.db import models
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.credentials.oauth.errors import moment, sign_in_again
from catalog.credentials.oauth.token_replies import words_of
from catalog.models import Grant
from catalog.models.vendors import OAuthKind
from core.translatable import mark

SOON = timedelta(days=1)
NEXT_WEEK = timedelta(days=7)


class SignInState(models.TextChoices):
    NEW = "new", gettext_lazy("Not used yet")
    OK = "ok", gettext_lazy("Working")
    EXPIRING = "expiring", gettext_lazy("Expiring")
    NEEDS_SCOPE = "needs_scope", gettext_lazy("Needs another scope")
    NEEDS_SIGN_IN = "needs_sign_in", gettext_lazy("Needs a sign-in")
    REFUSED = "refused", gettext_lazy("Refused")


class Remedy(models.TextChoices):
    """The action after which the credential works again."""

    SIGN_IN = "sign_in", gettext_lazy("Sign in")
    WIDEN = "widen", gettext_lazy("Request a token with the scopes that the vendor requires")
    ENTER_SECRET = "enter_secret", gettext_lazy("Enter the secret again")
    EDIT = "edit", gettext_lazy("Correct the settings")
    WAIT = "wait", gettext_lazy("Nothing to do: Pegboard tries again automatically")


@dataclass(frozen=True, slots=True)
class CredentialStatus:
    """The status of a credential. `expires_at`: None for a token without a known expiry, or without a token.

    missing: requested scopes that were not granted. extra: granted ones that were not requested.
    wanted: scopes that a refused request required.
    """

    state: SignInState
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
    """Return the status of a grant. `now` as the database has it (`Grant.objects.timed()`) or as we do."""
    if grant.credential.kind == OAuthKind.USERS:
        message = _("Users of agents authorize with it. Each user gets a token.")
        usual: tuple[SignInState, str, Remedy | None] = SignInState.OK, message, None
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


def _about_tokens(grant: Grant, now: datetime) -> tuple[SignInState, str, Remedy | None]:
    is_code = grant.credential.kind == OAuthKind.CODE
    if grant.ended_at:
        return SignInState.NEEDS_SIGN_IN, grant.error_message, Remedy.SIGN_IN
    if is_code and not grant.access_token:
        return SignInState.NEW, _("It waits for a first sign-in."), Remedy.SIGN_IN
    if grant.refused_at:
        return SignInState.REFUSED, grant.error_message, Remedy.EDIT
    is_over = grant.expires_at is not None and grant.expires_at <= now
    if grant.wanted_scope and grant.access_token and not (is_over and not grant.refresh_token):
        return _about_wanted_scope(grant)
    if is_code and not grant.refresh_token and (worry := _without_renewal(grant, now)):
        return worry
    if grant.failures:
        return SignInState.EXPIRING, _not_renewed(grant, now), Remedy.WAIT
    if not grant.access_token:
        return SignInState.NEW, _("Pegboard requests the first token when it is first used."), None
    if grant.expires_at is None:
        return (
            SignInState.OK,
            _("The server does not state when the token expires. Pegboard uses it until it is refused."),
            None,
        )
    if grant.expires_at > now:
        return (
            SignInState.OK,
            _("The token is valid until {date} and is renewed before that.").format(
                date=moment(grant.expires_at)
            ),
            None,
        )
    return (
        SignInState.OK,
        _("The last token has expired. Pegboard requests the next one when it is needed."),
        None,
    )


def _about_wanted_scope(grant: Grant) -> tuple[SignInState, str, Remedy | None]:
    # The vendor refused a request for want of a scope (RFC 6750, insufficient_scope).
    message = _("The vendor refused a request: it requires a token with the scope “{scope}”.").format(
        scope=grant.wanted_scope
    )
    required = set(words_of(grant.wanted_scope))
    if required <= set(words_of(grant.granted_scope)):
        again = _("The token already has that scope, so a new one would be refused too. Ask the vendor why.")
        return SignInState.NEEDS_SCOPE, f"{message} {again}", None
    is_code = grant.credential.kind == OAuthKind.CODE
    if required <= set(words_of(grant.scope)):
        host = urlsplit(grant.authorization_url or grant.token_url).netloc
        again = _("It was requested, and {host} did not grant it. Have it allowed there first.").format(
            host=host
        )
    elif is_code:
        again = _("A sign-in requests it, in addition to the scopes that the token has.")
    else:
        again = _("The next token can be requested with it, in addition to the scopes that this one has.")
    return SignInState.NEEDS_SCOPE, f"{message} {again}", Remedy.SIGN_IN if is_code else Remedy.WIDEN


def _about_secret(grant: Grant, now: datetime) -> tuple[SignInState, str, Remedy] | None:
    # It is missing, or the server issued it for a limited time.
    if grant.client_authentication != "none" and not grant.credential.sealed:
        if grant.client_authentication == "key":
            message = _("Its client key is missing.")
        else:
            message = _("Its client secret was entered for another server.")
        return SignInState.REFUSED, message, Remedy.ENTER_SECRET
    ends = grant.secret_expires_at
    if ends is None or ends > now + NEXT_WEEK:
        return None
    again = _("Edit it, look the server up, and register Pegboard there again.")
    if ends <= now:
        return (
            SignInState.REFUSED,
            _("Its client secret was valid until {date}. {advice}").format(date=moment(ends), advice=again),
            Remedy.EDIT,
        )
    return (
        SignInState.EXPIRING,
        _("Its client secret is valid until {date}. {advice}").format(date=moment(ends), advice=again),
        Remedy.EDIT,
    )


def _without_renewal(grant: Grant, now: datetime) -> tuple[SignInState, str, Remedy] | None:
    # The server gave no refresh token.
    if grant.expires_at is None or grant.expires_at > now + SOON:
        return None
    if grant.expires_at <= now:
        message = sign_in_again(
            grant.expires_at, mark("the token has expired, and the server issued no refresh token")
        )
        return SignInState.NEEDS_SIGN_IN, message, Remedy.SIGN_IN
    until = _("It expires at {date}, and the server issued no refresh token.").format(
        date=moment(grant.expires_at)
    )
    return SignInState.EXPIRING, until, Remedy.SIGN_IN


def _in_doubt_since(grant: Grant, now: datetime) -> datetime | None:
    is_under_way = grant.lease_until is not None and grant.lease_until > now
    is_code = grant.credential.kind == OAuthKind.CODE
    return grant.started_at if is_code and grant.access_token and not is_under_way else None


def _not_renewed(grant: Grant, now: datetime) -> str:
    is_good = grant.access_token and (grant.expires_at is None or grant.expires_at > now)
    sentences = [_("It could not be renewed: {reason}").format(reason=grant.error_message)]
    if is_good and grant.expires_at:
        sentences.append(_("The token is valid until {date}.").format(date=moment(grant.expires_at)))
    if grant.retry_at:
        sentences.append(_("Tried again after {date}.").format(date=moment(grant.retry_at)))
    if sent_at := _in_doubt_since(grant, now):
        doubt = _(
            "The renewal at {date} got no reply, so the server may have replaced the refresh token. "
            "Pegboard sends the same one again, which many servers accept for a short time. If this server "
            "does not, a new sign-in is needed."
        )
        sentences.append(doubt.format(date=moment(sent_at)))
    return " ".join(sentences)
