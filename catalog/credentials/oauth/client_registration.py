"""Dynamic registration of Pegboard at an authorization server (RFC 7591), on request of an administrator.

The reply is validated like a token reply: it has one meaning or is refused with a code. The address and token
for managing the registration (RFC 7592) are not stored, because Pegboard does not use them.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.credentials.oauth import client_metadata, discovery
from catalog.credentials.oauth.client_metadata import AUTHENTICATION_METHODS, GRANT_TYPES
from catalog.credentials.oauth.clients import RegisteredClient
from catalog.credentials.oauth.token_replies import OAuthError, is_number
from core import strict_json
from core.encryption import Secret
from core.errors import DomainError
from core.oauth import http
from core.oauth.client import ClientAuthentication
from core.outbound.errors import ProtocolError, ProtocolViolationError, printable
from core.outbound.reply import Reply

STATUSES = (200, 201, 400, 401, 403)
MAX_ID_LENGTH, MAX_SECRET_LENGTH = 500, 8_000
# A client that is over sooner would be registered anew at each sign-in.
MIN_LIFE = timedelta(minutes=1)
# RFC 7591 section 3.2.2
SENTENCES = {
    "invalid_redirect_uri": gettext_lazy(
        "{host} does not accept the redirect address of this Pegboard. Register it by hand there."
    ),
    "invalid_client_metadata": gettext_lazy(
        "{host} does not register a client like Pegboard. Register it by hand there."
    ),
    "invalid_software_statement": gettext_lazy(
        "{host} requires a software statement. Register it by hand there."
    ),
    "unapproved_software_statement": gettext_lazy(
        "{host} registers approved clients only. Register it by hand there."
    ),
    "access_denied": gettext_lazy("{host} registers known clients only. Register Pegboard by hand there."),
    "invalid_token": gettext_lazy(
        "{host} requires a token for a registration. Register Pegboard by hand there."
    ),
}
# Faults of a registration: the code, and the message.
_Fault = tuple[str, str | Promise]
_NO_OBJECT: _Fault = (
    "SHAPE",
    gettext_lazy(
        "{host} sent no JSON object, so the registration was not used. Register Pegboard by hand there."
    ),
)
_OTHER_CALLBACK: _Fault = (
    "CALLBACK",
    gettext_lazy(
        "{host} registered another redirect address than Pegboard's, so the registration was not used. "
        "Register Pegboard by hand there."
    ),
)
_NO_SIGN_IN: _Fault = (
    "GRANT",
    gettext_lazy(
        "{host} registered a client that cannot sign in, so the registration was not used. "
        "Register Pegboard by hand there."
    ),
)
_NO_CLIENT_ID: _Fault = (
    "ID",
    gettext_lazy(
        "{host} sent no usable client id, so the registration was not used. Register Pegboard by hand there."
    ),
)
_NO_ERROR_TEXT: _Fault = (
    "SHAPE",
    gettext_lazy(
        "{host} sent an error that is not text, so the registration was not used. Register Pegboard by "
        "hand there."
    ),
)
_UNKNOWN_METHOD: _Fault = (
    "METHOD",
    gettext_lazy(
        "{host} requires a client authentication that Pegboard does not support: {method}, so the "
        "registration was not used. Register Pegboard by hand there."
    ),
)
_NO_SECRET: _Fault = (
    "SECRET",
    gettext_lazy(
        "{host} sent no usable client secret, so the registration was not used. Register Pegboard by hand "
        "there."
    ),
)
_UNCLEAR_EXPIRY: _Fault = (
    "EXPIRY",
    gettext_lazy(
        "{host} sent no usable expiry time of the client secret, so the registration was not used. "
        "Register Pegboard by hand there."
    ),
)
_EXPIRED_SECRET: _Fault = (
    "EXPIRY",
    gettext_lazy(
        "{host} sent a client secret that has already expired, so the registration was not used. Register "
        "Pegboard by hand there."
    ),
)
_PRINTABLE = re.compile(r"[\x20-\x7e]+")
# A placeholder for the future registration, so that the other values can be validated before the request.
WITH_SECRET = (ClientAuthentication.BASIC, ClientAuthentication.POST)
NOT_YET = RegisteredClient("not yet", ClientAuthentication.NONE, None, None)


def register_at(
    offer: Mapping[str, Any], *, redirect_uri: str, save: Callable[[RegisteredClient], object]
) -> RegisteredClient:
    """Register at the server of `offer`. Raises DomainError with the reason of the server or of a check."""
    # Tested before the request, because a registered client that cannot be saved could never be used or
    # removed.
    with transaction.atomic():
        save(NOT_YET)
        transaction.set_rollback(True)
    # Before a client is made there: an offer may be old, and the server may have moved since.
    server = discovery.server_as_it_is(str(offer.get("issuer", "")))
    addresses = (server.token_url, server.authorization_url, server.registration_url)
    offered = tuple(offer.get(name) for name in ("token_url", "authorization_url", "registration_url"))
    host = urlsplit(server.issuer).netloc or _("The server")
    if server.problem:
        message = _("Nothing was registered at {host}. {reason}").format(host=host, reason=server.problem)
        raise DomainError("server_problem", message)
    if addresses != offered:
        message = _(
            "Nothing was registered: the metadata of {host} has changed since you looked it up. Look it up "
            "again."
        )
        raise DomainError("server_changed", message.format(host=host), status=409)
    way = offer.get("client_authentication")
    try:
        return register(
            str(offer.get("registration_url", "")),
            redirect_uri=redirect_uri,
            # A key would have to be there before the client is.
            authentication=way if way in WITH_SECRET else ClientAuthentication.NONE,
            scope=str(offer.get("scope", "")),
        )
    except ProtocolError as error:
        raise DomainError(error.code, error.message) from None


def register(address: str, *, redirect_uri: str, authentication: str, scope: str) -> RegisteredClient:
    """Register Pegboard at the server. Raises ProtocolError."""
    # Asked once: the server may have made a client although its reply was lost.
    described = client_metadata.client_metadata_document(
        redirect_uri, authentication=authentication, scope=scope
    )
    try:
        reply = http.post_json(address, described, accept=STATUSES)
        return read_registration(reply, redirect_uri)
    except ProtocolError as error:
        if not isinstance(error, OAuthError) and not error.code.startswith("REGISTRATION_"):
            error.code = f"REGISTRATION_{error.code}"
        raise


def read_registration(reply: Reply, redirect_uri: str) -> RegisteredClient:
    # RFC 7591 section 3.2. Missing members are as requested, and present ones must match. Some servers write
    # null or "" for a missing one.
    host = urlsplit(reply.url).netloc
    if reply.status not in (200, 201):
        raise _refusal_error(reply, host)
    document = strict_json.require_answer(reply).value
    if not isinstance(document, dict):
        raise _registration_error(_NO_OBJECT, host)
    if document.get("error") is not None:
        raise _error_of(document, host)
    document = {name: value for name, value in document.items() if value not in (None, "")}
    # A client that lacks a required feature is refused now, not at the first sign-in.
    addresses = document.get("redirect_uris", [redirect_uri])
    if not isinstance(addresses, list) or redirect_uri not in addresses:
        raise _registration_error(_OTHER_CALLBACK, host)
    ways = document.get("grant_types", GRANT_TYPES)
    if not isinstance(ways, list) or "authorization_code" not in ways:
        raise _registration_error(_NO_SIGN_IN, host)
    # The server may choose another authentication method than requested.
    stated = document.get("token_endpoint_auth_method")
    if stated is None:
        has_secret = document.get("client_secret") is not None
        way = ClientAuthentication.BASIC if has_secret else ClientAuthentication.NONE
    elif isinstance(stated, str) and stated in AUTHENTICATION_METHODS:
        way = AUTHENTICATION_METHODS[stated]
    else:
        method = printable(stated, 40) if isinstance(stated, str) else _("something that is not text")
        raise _registration_error(_UNKNOWN_METHOD, host, method=method)
    secret, secret_expires_at = _read_secret(document, way, host)
    client_id = document.get("client_id")
    if (
        not isinstance(client_id, str)
        or not _PRINTABLE.fullmatch(client_id)
        or len(client_id) > MAX_ID_LENGTH
    ):
        raise _registration_error(_NO_CLIENT_ID, host)
    return RegisteredClient(
        client_id=client_id,
        client_authentication=way,
        secret=secret,
        secret_expires_at=secret_expires_at,
    )


def _refusal_error(reply: Reply, host: str) -> ProtocolError:
    try:
        document = strict_json.require_answer(reply).value
    except ProtocolViolationError:
        document = None
    if isinstance(document, dict) and document.get("error") is not None:
        return _error_of(document, host)
    message = _("{host} did not register Pegboard ({status}) and gave no reason. Register it by hand there.")
    return OAuthError("REGISTRATION_REFUSED", message.format(host=host, status=reply.status), "")


def _error_of(document: Mapping[str, Any], host: str) -> ProtocolError:
    error, words = document["error"], document.get("error_description")
    if not isinstance(error, str) or not error:
        return _registration_error(_NO_ERROR_TEXT, host)
    if error in SENTENCES:
        message = SENTENCES[error].format(host=host)
    else:
        message = _("{host} did not register Pegboard: {error}.").format(
            host=host, error=printable(error, 60)
        )
    if isinstance(words, str) and words.strip():
        quote = _("Its message: “{text}”").format(text=printable(words.strip(), 200))
        message = f"{message} {quote}"
    return OAuthError("REGISTRATION_REFUSED", message, error)


def _read_secret(
    document: Mapping[str, Any], authentication_method: str, host: str
) -> tuple[Secret | None, datetime | None]:
    """Return the client secret and when it expires. None: the client has no secret, or it does not expire."""
    # Some servers give a secret to a public client as well; it is of no use.
    if authentication_method == ClientAuthentication.NONE:
        return None, None
    value = document.get("client_secret")
    is_fine = isinstance(value, str) and _PRINTABLE.fullmatch(value) and value.strip()
    if not is_fine or not isinstance(value, str) or len(value) > MAX_SECRET_LENGTH:
        raise _registration_error(_NO_SECRET, host)
    # Seconds since 1970, or 0 for never. Required with a secret, and often missing.
    seconds = document.get("client_secret_expires_at", 0)
    if not is_number(seconds) or not 0 <= seconds <= 253_402_300_799:
        raise _registration_error(_UNCLEAR_EXPIRY, host)
    ends = datetime.fromtimestamp(seconds, UTC) if seconds else None
    if ends and ends <= timezone.now() + MIN_LIFE:
        raise _registration_error(_EXPIRED_SECRET, host)
    return Secret(value), ends


def _registration_error(fault: _Fault, host: str, **values: str) -> ProtocolViolationError:
    code, message = fault
    return ProtocolViolationError(f"REGISTRATION_{code}", str(message).format(host=host, **values))
