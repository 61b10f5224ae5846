"""Revocation of tokens at an authorization server (RFC 7009).

Best effort: the request follows the commit that deleted the tokens, so no error keeps them stored. The result
is in the audit trail and in the message for the user.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit

from django.db import transaction

from catalog.credentials.oauth import grant_requests, token_replies, token_request
from catalog.models import Credential, Grant, UserGrant
from core.encryption import Secret
from core.errors import DomainError
from core.oauth import http
from core.oauth.client import Form
from core.outbound.errors import ProtocolError
from people import audit
from people.models import User

SECONDS = 6.0  # for all requests together; a user waits
TOLD = (200, 204)
COLUMNS = ("refresh_token", "access_token")  # RFC 7009 calls them so too


@dataclass(slots=True)
class Revocation:
    """The revocation of deleted tokens. `message`: the result after the transaction, "" without tokens."""

    about: Credential | UserGrant
    address: str
    host: str
    forms: list[Form] = field(default_factory=list, repr=False)
    sent: list[Secret] = field(default_factory=list, repr=False)
    agent: int | None = None
    why_not: str = ""
    message: str = ""

    def after_commit(self, actor: User | None) -> "Revocation":
        """Send the revocation after the transaction, and record its result in the audit trail."""

        def send_and_record() -> None:
            why_not = self.why_not or self.send()
            self.message = (
                f"{self.host} was not notified: {why_not} The tokens may work there until they expire."
                if why_not
                else f"{self.host} was notified, and revokes the tokens."
            )
            with transaction.atomic():
                facts = {"server": self.host, "told": not why_not}
                audit.record(actor, "revoke", self.about, after=facts, why=self.message, agent=self.agent)

        # Errors are recorded, and nothing depends on them.
        if self.forms or self.why_not:
            transaction.on_commit(send_and_record, robust=True)
        return self

    def send(self) -> str:
        """Request the revocation of the tokens from the server. Return the reason of a failure, or ""."""
        ends = time.monotonic() + SECONDS
        first, *other_forms = self.forms
        try:
            http.post_form(self.address, first, accept=TOLD, seconds=SECONDS)
        except ProtocolError as error:
            return token_replies.remove_secrets(error, self.sent).message
        # A server that revokes the refresh token revokes the others too (RFC 7009, section 2.1), so these may
        # fail.
        for form in other_forms:
            with suppress(ProtocolError):
                http.post_form(self.address, form, accept=TOLD, seconds=max(0.1, ends - time.monotonic()))
        return ""


def prepare(grant: Grant) -> Revocation:
    """Decrypt the tokens of a credential before they are deleted. `after_commit` sends the requests."""
    return _prepare_revocation(grant, grant.credential, grant, partial(token_request.decrypt_column, grant))


def prepare_users(grant: UserGrant, client: Grant, decrypt: Callable[[str], Secret]) -> Revocation:
    """Prepare the revocation of the tokens that a user of an agent has authorized for the `client`."""
    revoked = _prepare_revocation(client, grant, grant, decrypt)
    revoked.agent = grant.end_user.agent
    return revoked


def _prepare_revocation(
    grant: Grant, owner: Credential | UserGrant, row: Grant | UserGrant, decrypt: Callable[[str], Secret]
) -> Revocation:
    host = urlsplit(grant.revocation_url or grant.token_url).netloc
    revoked = Revocation(owner, grant.revocation_url, host)
    columns_with_tokens = [name for name in COLUMNS if getattr(row, name)]
    if not columns_with_tokens:
        return revoked
    if not grant.revocation_url:
        revoked.why_not = "it states no address for that."
        return revoked
    try:
        secret = token_request.client_secret(grant.credential, grant)
        opened = [(name, decrypt(name)) for name in columns_with_tokens]
    except DomainError as error:  # UndecryptableError is one
        revoked.why_not = error.message
        return revoked
    revoked.sent = [*([secret] if secret else []), *(token for _, token in opened)]
    revoked.forms = [
        grant_requests.revocation_form(grant, secret, {"token": token.reveal(), "token_type_hint": hint})
        for hint, token in opened
    ]
    revoked.sent += [proof for form in revoked.forms for proof in form.sent]
    return revoked
