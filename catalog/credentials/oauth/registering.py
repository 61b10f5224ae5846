"""Registering ourselves at a server that was looked up, once what follows from it is known to be savable."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction

from catalog.credentials.oauth import discovery, registration
from catalog.credentials.oauth.registration import Registered
from core.errors import DomainError
from core.oauth.client import ClientAuthentication
from core.outbound.errors import ProtocolError

# In the place of what a registration will say, so that the rest can be tried before anybody is asked.
NOT_YET = Registered("not yet", ClientAuthentication.NONE, None, None)


def registered(
    offer: Mapping[str, Any], *, redirect_uri: str, save: Callable[[Registered], object]
) -> Registered:
    """What the server of `offer` made of us. Raises DomainError with what it says against that.

    `save` is tried before: only what could be saved with it leads to a client there, as nobody would look
    after that one.
    """
    with transaction.atomic():
        save(NOT_YET)
        transaction.set_rollback(True)
    _check_server(offer)
    way = offer.get("client_authentication")
    try:
        return registration.register(
            str(offer.get("registration_url", "")),
            redirect_uri=redirect_uri,
            authentication=way if way in ClientAuthentication.values else ClientAuthentication.NONE,
            scope=str(offer.get("scope", "")),
        )
    except ProtocolError as error:
        raise DomainError(error.code, error.message) from None


def _check_server(offer: Mapping[str, Any]) -> None:
    """Before a client is made there: an offer may be old, and the server may have moved since."""
    server = discovery.server_as_it_is(str(offer.get("issuer", "")))
    told = (server.token_url, server.authorization_url, server.registration_url)
    offered = tuple(offer.get(name) for name in ("token_url", "authorization_url", "registration_url"))
    host = urlsplit(server.issuer).netloc or "The server"
    if server.problem:
        raise DomainError("server_problem", f"Nothing was registered at {host}. {server.problem}")
    if told != offered:
        changed = "describes itself in another way than when it was looked up. Look it up again."
        raise DomainError("server_changed", f"Nothing was registered: {host} {changed}", status=409)
