"""Who we are at an authorization server, and the forms that its token endpoint takes.

RFC 6749 (the framework), 7636 (PKCE), 7523 (a signed statement in place of a secret).
"""

import base64
import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode

from django.db import models

from core.encryption import Secret
from core.oauth import client_keys

FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}


class ClientAuthentication(models.TextChoices):
    """How we prove who we are at the token endpoint: RFC 6749 section 2.3.1, RFC 8414 section 2."""

    BASIC = "basic", "In a header (client_secret_basic)"
    POST = "post", "In the request's body (client_secret_post)"
    KEY = "key", "With a signed statement (private_key_jwt)"
    NONE = "none", "Not at all: a public client without a secret"


@dataclass(frozen=True, slots=True)
class Form:
    """A token request. It does not show itself, because there are secrets in it."""

    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    sent: tuple[Secret, ...] = field(default=(), repr=False)


def token_form(
    client_id: str, way: str, secret: Secret | None, fields: Mapping[str, str], *, audience: str = ""
) -> Form:
    """With the proof of who we are, in the `way` of `ClientAuthentication`: RFC 6749 section 2.3.1.

    `audience` is the server that a signed statement is for; it is in `sent`, and good for one request.
    """
    headers, body = dict(FORM), dict(fields)
    if way == ClientAuthentication.KEY and secret:
        said = client_keys.assertion(secret, client_id=client_id, audience=audience, now=int(time.time()))
        proof = {"client_assertion_type": client_keys.ASSERTION_TYPE, "client_assertion": said}
        body |= {"client_id": client_id, **proof}
        return Form(headers, urlencode(body).encode(), (Secret(said),))
    shown = secret.reveal() if secret else ""
    match way:
        case ClientAuthentication.BASIC:
            pair = f"{quote_plus(client_id)}:{quote_plus(shown)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        case ClientAuthentication.POST:
            body |= {"client_id": client_id, "client_secret": shown}
        case _:
            body["client_id"] = client_id
    return Form(headers, urlencode(body).encode())


def new_secret() -> str:
    # For `state` and the PKCE verifier: 256 bits in 43 characters (RFC 7636 section 4.1).
    return secrets.token_urlsafe(32)


def digest_of(text: str) -> str:
    # Kept in place of the text itself: a digest can be compared and not be read.
    return hashlib.sha256(text.encode()).hexdigest()


def challenge_of(verifier: str) -> str:
    # S256: RFC 7636 section 4.2.
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
