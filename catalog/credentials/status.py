"""The status of a credential, as pages and REST show it. For OAuth see oauth/grant_status.py."""

from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.credentials import kinds, sessions
from catalog.credentials.oauth import clients, grant_status
from catalog.credentials.oauth.errors import moment
from catalog.credentials.oauth.grant_status import CredentialStatus, Remedy, SignInState
from catalog.models import Credential
from core.encryption import UndecryptableError
from core.outbound import secret_echo
from core.translatable import mark

TOO_SHORT = gettext_lazy(
    "Its secret has fewer than {count} characters: too few to tell it from ordinary words, so a reply that "
    "repeats it is not refused. Ask the vendor for a longer one."
)


# So long before its end a credential that nobody can renew but a person is shown as expiring.
EXPIRES_SOON = timedelta(days=21)


def status_of(credential: Credential, now: datetime) -> CredentialStatus:
    """Return the status. Select `credential.grant` and `set_by` with the credential."""
    if clients.uses_oauth(credential):
        try:
            if credential.sealed:
                sessions.decrypt(credential)
        except UndecryptableError as error:
            return _unreadable_secret_status(error.problem)
        return grant_status.status_of(credential.grant, now)
    try:
        secret = sessions.decrypt(credential).reveal()
    except UndecryptableError as error:
        return _unreadable_secret_status(error.problem)
    kind = kinds.KINDS.get(credential.kind)
    if kind is None:
        return _unreadable_secret_status(f"has a kind that Pegboard does not know: {credential.kind}.")
    # What is sent in place of a secret is long.
    is_short = kind.sends_secret and secret_echo.is_too_short(secret)
    warning = f" {TOO_SHORT.format(count=secret_echo.MIN_SECRET_LENGTH)}" if is_short else ""
    if credential.refused_at:
        host = urlsplit(credential.origin).netloc
        message = _("{host} has refused it since {date} (401 Unauthorized).").format(
            host=host, date=moment(credential.refused_at)
        )
        return _plain(SignInState.REFUSED, f"{message}{warning}", Remedy.ENTER_SECRET, credential.refused_at)
    expires_at = kind.expires_at(credential.details)
    if expires_at and expires_at - now < EXPIRES_SOON:
        is_over = expires_at <= now
        if is_over:
            message = _("It expired on {date}. Enter its replacement.")
        else:
            message = _("It expires on {date}. Enter its replacement.")
        message = message.format(date=moment(expires_at))
        state = SignInState.REFUSED if is_over else SignInState.EXPIRING
        return replace(_plain(state, message, Remedy.EDIT), expires_at=expires_at)
    if credential.used_at is None:
        usual_status = _plain(SignInState.NEW, f"{_('No vendor has been sent it yet.')}{warning}", None)
    else:
        usual_status = _plain(
            SignInState.OK, f"{_('The vendor took it when it was last sent.')}{warning}", None
        )
    return replace(usual_status, expires_at=expires_at)


def last_used_at(credential: Credential) -> datetime | None:
    """Return about when the credential was last sent."""
    return credential.grant.used_at if clients.uses_oauth(credential) else credential.used_at


def _unreadable_secret_status(why: str) -> CredentialStatus:
    return _plain(SignInState.REFUSED, mark(f"Its secret {why}"), Remedy.ENTER_SECRET)


def _plain(
    state: SignInState, message: str, remedy: Remedy | None, failed_at: datetime | None = None
) -> CredentialStatus:
    return CredentialStatus(
        state=state,
        message=message,
        remedy=remedy,
        expires_at=None,
        obtained_at=None,
        in_doubt_since=None,
        failed_at=failed_at,
        error_code="AUTH" if failed_at else "",
        error_message=message if failed_at else "",
        retry_at=None,
        granted=[],
        missing=[],
        extra=[],
        wanted=[],
        signed_in_at=None,
        signed_in_by="",
    )
