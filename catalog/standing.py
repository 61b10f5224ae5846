"""How a credential is, in the words that pages and the API show; with OAuth, catalog/oauth/states.py."""

from datetime import datetime
from urllib.parse import urlsplit

from catalog import credentials
from catalog.models import Credential
from catalog.oauth import clients, states
from catalog.oauth.states import Remedy, Standing, State
from catalog.oauth.tokens import moment
from catalog.sealing import UndecryptableError

LOCKED = "Its secret cannot be opened with the keys of this installation."


def standing_of(credential: Credential, now: datetime) -> Standing:
    """`credential.grant` and `set_by` are best selected along with it."""
    if clients.uses_oauth(credential):
        found = states.standing_of(credential.grant, now)
        return found if _opens(credential) else _plain(State.REFUSED, LOCKED, Remedy.ENTER_SECRET)
    if not _opens(credential):
        return _plain(State.REFUSED, LOCKED, Remedy.ENTER_SECRET)
    if credential.refused_at:
        host = urlsplit(credential.origin).netloc
        says = f"{host} has refused it since {moment(credential.refused_at)} (401 Unauthorized)."
        return _plain(State.REFUSED, says, Remedy.ENTER_SECRET, credential.refused_at)
    if credential.used_at is None:
        return _plain(State.NEW, "It has not been sent to anybody yet.", None)
    return _plain(State.OK, "The vendor took it when it was last sent.", None)


def used_at(credential: Credential) -> datetime | None:
    """About when it was last sent."""
    return credential.grant.used_at if clients.uses_oauth(credential) else credential.used_at


def _opens(credential: Credential) -> bool:
    """True as well where there is nothing to open, which is another matter."""
    if not credential.sealed:
        return clients.uses_oauth(credential)
    try:
        credentials.unseal(credential)
    except UndecryptableError:
        return False
    return True


def _plain(state: State, sentence: str, remedy: Remedy | None, failed_at: datetime | None = None) -> Standing:
    return Standing(
        state=state,
        sentence=sentence,
        remedy=remedy,
        expires_at=None,
        obtained_at=None,
        failed_at=failed_at,
        error_code="AUTH" if failed_at else "",
        error_message=sentence if failed_at else "",
        retry_at=None,
        granted=[],
        missing=[],
        extra=[],
        signed_in_at=None,
        signed_in_by="",
    )
