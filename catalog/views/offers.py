"""OAuth discovery on pages with a credential form: find, show and accept the settings of a server."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

import protocols
from catalog.credentials.oauth import client_registration, discovery, sign_in
from catalog.credentials.oauth.client_metadata import document_url, redirect_uri
from catalog.credentials.oauth.clients import RegisteredClient
from catalog.credentials.oauth.discovery import Discovery
from catalog.models import Credential
from core import strict_json
from core.errors import DomainError
from core.oauth.client import ClientAuthentication
from core.outbound.errors import ProtocolError, RefusedError
from core.public_url import is_open_elsewhere, public_url
from people.permissions import person

# The buttons: discover, fill the form, register a client, and use the client metadata document.
LOOK, FILL, REGISTER, AS_DOCUMENT = "look-up", "found", "register", "as-document"
TAKES = (FILL, REGISTER, AS_DOCUMENT)


def look(
    request: HttpRequest,
    url: str,
    challenge: str = "",
    *,
    may_sign_in: bool = True,
    registered_at: str = "",
) -> dict[str, Any]:
    """Return the context for `catalog/_discovery.html` and `catalog/_sign_in_offers.html`.

    challenge: the vendor's reply so far. may_sign_in: False for credentials without a user's sign-in.
    registered_at: the issuer of the existing client.
    """
    protocol = request.POST.get("protocol", "")
    known_protocol = protocol if protocol in dict(protocols.connectable()) else ""
    try:
        discovered = discovery.discover(url.strip(), challenge, known_protocol)
    except RefusedError as error:
        return {"found": None, "offers": [], "refused_address": error.message}
    has_moved = bool(registered_at) and discovered.names_others_than(registered_at)
    return offers_of(request, discovered, may_sign_in=may_sign_in) | {"has_moved": has_moved}


def offers_of(request: HttpRequest, discovery: Discovery, *, may_sign_in: bool = True) -> dict[str, Any]:
    """Return the context for the templates of `look`, from an earlier discovery."""
    offers = []
    for server in discovery.servers:
        signs_in = may_sign_in and bool(server.authorization_url) and not server.problem
        settings = {
            "token_url": server.token_url,
            "authorization_url": server.authorization_url,
            "revocation_url": server.revocation_url,
            "issuer": server.issuer,
            "states_issuer": server.states_issuer,
            "client_authentication": server.client_authentication,
            "scope": server.scopes_to_request(discovery.scope),
            "resource": discovery.resource,
        }
        offer = {
            "server": server,
            "host": urlsplit(server.authorization_url or server.token_url or server.issuer).netloc,
            "scope": settings["scope"],
            "settings": json.dumps(settings),
        }
        if signs_in and server.registration_url:
            offer["register"] = json.dumps(settings | {"registration_url": server.registration_url})
        if signs_in and server.takes_documents and (document := document_url(request)):
            as_document = {"client_id": document, "client_authentication": ClientAuthentication.NONE}
            offer["as_document"] = json.dumps(settings | as_document)
        offers.append(offer)
    return {"found": discovery, "offers": offers, "refused_address": ""}


def accepted_offer(request: HttpRequest) -> dict[str, Any]:
    """Return the chosen offer, as `offers_of` wrote it into the page. It is validated like entered values."""
    name = next((name for name in TAKES if name in request.POST), "")
    try:
        values = strict_json.loads(request.POST.get(name, "").encode())
    except ProtocolError:
        return {}
    if not isinstance(values, dict):
        return {}
    return {name: value for name, value in values.items() if isinstance(value, str | bool)}


def decides_kind(request: HttpRequest, offer: dict[str, Any]) -> bool:
    """Return whether the offer of a server decides the kind of credential: then a user signs in."""
    return bool(offer) and FILL not in request.POST


def register_client(
    request: HttpRequest, offer: dict[str, Any], save: Callable[[RegisteredClient], object]
) -> RegisteredClient | None:
    """Register a client at the chosen server, if that button was pressed."""
    if REGISTER not in request.POST:
        return None
    return client_registration.register_at(offer, redirect_uri=redirect_uri(request), save=save)


def to_sign_in(request: HttpRequest, row: Credential, *, otherwise: str) -> HttpResponse:
    """Return a page that opens the authorization server, because the security policy forbids such form
    targets.

    otherwise: the address of the page that shows the reason if it cannot.
    """
    try:
        if is_open_elsewhere(request):
            raise DomainError(
                "sign_in_elsewhere",
                _(
                    "A sign-in comes back to {address}, and this browser is signed in to "
                    "Pegboard at another address. Open Pegboard there and begin the "
                    "sign-in again."
                ).format(address=public_url("/")),
            )
        address = sign_in.begin(
            row,
            actor=person(request),
            session_key=request.session.session_key or "",
            redirect_uri=redirect_uri(request),
        )
    except DomainError as error:
        messages.error(request, error.message)
        return redirect(otherwise)
    context = {"credential": row, "address": address, "host": urlsplit(address).netloc}
    return render(request, "catalog/credential_sign_in.html", context)
