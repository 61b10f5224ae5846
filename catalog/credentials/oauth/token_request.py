"""A request to a token endpoint, and its secrets."""

from collections.abc import Collection

from catalog.credentials.oauth import token_replies
from catalog.credentials.oauth.token_replies import OAuthError, Tokens
from catalog.models import Credential, Grant
from core import encryption
from core.encryption import Secret
from core.errors import DomainError
from core.metrics import Counter
from core.oauth import http
from core.oauth.client import ClientAuthentication, Form
from core.outbound.errors import ProtocolError
from core.postgresql.base import give_back

REQUESTS = Counter(
    "pegboard_token_requests_total",
    "Access tokens asked for: “ok” or the code of what went wrong.",
    ("outcome",),
)


def request(grant: Grant, form: Form, sent_secrets: Collection[Secret]) -> Tokens:
    """Send a token request. Errors contain none of the `sent_secrets` secrets."""
    give_back()
    sent_secrets = [*sent_secrets, *form.sent]
    # Errors of the token server have their own codes, so that they are not mistaken for the vendor's.
    try:
        return token_replies.read_tokens(http.post_form(grant.token_url, form), sent_secrets)
    except ProtocolError as error:
        if not isinstance(error, OAuthError) and not error.code.startswith("TOKEN_"):
            error.code = f"TOKEN_{error.code}"
        raise token_replies.remove_secrets(error, sent_secrets) from None


def client_secret(credential: Credential, grant: Grant) -> Secret | None:
    """Return the secret, or None for a public client."""
    if grant.client_authentication == ClientAuthentication.NONE:
        return None
    if not credential.sealed:
        is_key = grant.client_authentication == ClientAuthentication.KEY
        way_out = "Make another key for" if is_key else "Enter the client secret again of"
        raise DomainError("CLIENT_SECRET", f"{way_out} “{credential}”.")
    return encryption.decrypt(
        credential.sealed, row=credential.pk, field="catalog.credential.sealed", name=credential.name
    )


def decrypt_column(grant: Grant, column: str) -> Secret:
    ciphertext, name = getattr(grant, column), grant.credential.name
    return encryption.decrypt(ciphertext, row=grant.pk, field=field_of(column), name=name)


def field_of(column: str) -> str:
    """Return the encryption context of a column."""
    return f"catalog.grant.{column}"
