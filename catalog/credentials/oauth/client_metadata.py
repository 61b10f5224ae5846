"""Pegboard's metadata as an OAuth client (RFC 7591 section 2)."""

from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest
from django.urls import reverse
from rest_framework.request import Request

from core.oauth.client import ClientAuthentication
from core.public_url import public_url

NAME = "Pegboard"
GRANT_TYPES = ["authorization_code", "refresh_token"]
AUTHENTICATION_METHODS = {
    "client_secret_basic": ClientAuthentication.BASIC,
    "client_secret_post": ClientAuthentication.POST,
    "none": ClientAuthentication.NONE,
}
_METHOD_OF = {method: registered_name for registered_name, method in AUTHENTICATION_METHODS.items()}


def redirect_uri(request: HttpRequest | Request) -> str:
    """Return the redirect URI, which authorization servers compare exactly."""
    return public_url(reverse("credential-callback"), request)


def users_redirect_uri(request: HttpRequest | Request) -> str:
    """Return the redirect address for the users of agents."""
    return public_url("/grants/callback/", request)


def document_url(request: HttpRequest | Request) -> str:
    """Return the address of the client metadata document, or "" without https, which servers require."""
    address = public_url(reverse("client-document"), request)
    return address if address.startswith("https:") else ""


def client_metadata_document(redirect_uri: str, *, authentication: str, scope: str = "") -> dict[str, Any]:
    """Return the client metadata of RFC 7591 section 2, with the members of OpenID Connect for native
    clients.
    """
    is_web = redirect_uri.startswith("https:")
    metadata = {
        "client_name": f"{NAME} at {urlsplit(redirect_uri).netloc}",
        "redirect_uris": [redirect_uri],
        "grant_types": GRANT_TYPES,
        "response_types": ["code"],
        "token_endpoint_auth_method": _METHOD_OF[ClientAuthentication(authentication)],
        "application_type": "web" if is_web else "native",
    }
    return metadata | ({"scope": scope} if scope else {})
