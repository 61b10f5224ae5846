"""Authenticate Pegboard as a client of an authorization server, and build requests to its token endpoint.

RFC 6749 (the framework), 7636 (PKCE), 7523 (a signed assertion in place of a secret).
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
    """The way in which Pegboard authenticates at the token endpoint: RFC 6749 section 2.3.1, RFC 8414
    section 2.
    """

    BASIC = "basic", "In a header (client_secret_basic)"
    POST = "post", "In the request's body (client_secret_post)"
    KEY = "key", "With a signed statement (private_key_jwt)"
    NONE = "none", "Not at all: a public client without a secret"


@dataclass(frozen=True, slots=True)
class Form:
    """A token request. Its repr omits headers and body, which contain secrets.

    sent: secrets in the body, which must not come back in the reply.
    """

    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    sent: tuple[Secret, ...] = field(default=(), repr=False)


def token_form(
    client_id: str, method: str, secret: Secret | None, fields: Mapping[str, str], *, audience: str = ""
) -> Form:
    """Return a token request that authenticates the client by a method of `ClientAuthentication`.

    audience: the server that an assertion is for. An assertion is in `sent` and valid for one request.
    """
    headers, body = dict(FORM), dict(fields)
    if method == ClientAuthentication.KEY and secret:
        assertion = client_keys.create_assertion(
            secret, client_id=client_id, audience=audience, now=int(time.time())
        )
        proof = {"client_assertion_type": client_keys.ASSERTION_TYPE, "client_assertion": assertion}
        body |= {"client_id": client_id, **proof}
        return Form(headers, urlencode(body).encode(), (Secret(assertion),))
    password = secret.reveal() if secret else ""
    match method:
        case ClientAuthentication.BASIC:
            pair = f"{quote_plus(client_id)}:{quote_plus(password)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        case ClientAuthentication.POST:
            body |= {"client_id": client_id, "client_secret": password}
        case _:
            body["client_id"] = client_id
    return Form(headers, urlencode(body).encode())


def new_secret() -> str:
    # For `state` and the PKCE verifier: 256 bits in 43 characters (RFC 7636 section 4.1).
    return secrets.token_urlsafe(32)


def digest_of(text: str) -> str:
    # Stored in place of the text: a digest can be compared but not read.
    return hashlib.sha256(text.encode()).hexdigest()


def challenge_of(verifier: str) -> str:
    # S256: RFC 7636 section 4.2.
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
