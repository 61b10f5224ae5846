"""Metadata that vendors and authorization servers publish. Pure.

RFC 9728 (protected resources), RFC 8414 and OpenID Connect Discovery (authorization servers). The documents
are not
trusted: a member of the wrong type counts as missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from core.outbound.errors import printable

RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
MAX_SERVERS, MAX_SCOPES = 5, 100
MAX_SCOPE_LENGTH, MAX_URL_LENGTH = 200, 2_048
_METHODS = {
    "client_secret_basic": "basic",
    "client_secret_post": "post",
    "private_key_jwt": "key",
    "none": "none",
}
_LESS_PREFERRED = ("key", "none")


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """The metadata of an authorization server (RFC 8414 or OpenID Connect Discovery).

    client_authentication: the best supported method, "" for none.
    registration_url, revocation_url: RFC 7591 and RFC 7009, "" unless at one of the server's own origins.
    takes_documents: a client id may be the address of a client metadata document.
    problem: a message if it cannot be used for a sign-in.
    """

    issuer: str
    token_url: str = ""
    authorization_url: str = ""
    scopes: list[str] = field(default_factory=list)
    client_authentication: str = ""
    states_issuer: bool = False
    registration_url: str = ""
    revocation_url: str = ""
    takes_documents: bool = False
    problem: str = ""

    def scopes_to_request(self, scope: str) -> str:
        """Return the scopes to request. Servers that know `offline_access` renew tokens only with it."""
        words = scope.split()
        may_stay = "offline_access" in self.scopes and "offline_access" not in words
        return " ".join([*words, "offline_access"] if may_stay and self.authorization_url else words)


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def resource_addresses(url: str) -> list[str]:
    """Return the addresses of a resource's metadata, most specific first: RFC 9728 section 3.1."""
    path = urlsplit(url).path.rstrip("/")
    exact = [f"{origin(url)}{RESOURCE}{path}"] if path else []
    return [*exact, f"{origin(url)}{RESOURCE}"]


def server_addresses(issuer: str) -> list[str]:
    """Return the addresses of a server's metadata: RFC 8414 sections 3.1 and 5, and OpenID Connect."""
    # Some append to the issuer what RFC 8414 puts before its path.
    path = urlsplit(issuer).path.rstrip("/")
    base = origin(issuer)
    if not path:
        return [f"{base}{SERVER}", f"{base}{OPENID}"]
    before = [f"{base}{SERVER}{path}", f"{base}{OPENID}{path}"]
    return [*before, f"{base}{path}{OPENID}", f"{base}{path}{SERVER}"]


def why_not_resource(document: object, url: str) -> str:
    # A document about something else must not be used: RFC 9728 section 3.3.
    if not isinstance(document, dict):
        return _("It is not an object.")
    resource = _text_in(document, "resource")
    if not resource:
        return _("It does not state its resource.")
    is_same_place = origin(resource) == origin(url)
    path, own_path = urlsplit(resource).path.rstrip("/"), urlsplit(url).path.rstrip("/")
    if not is_same_place or not (own_path == path or own_path.startswith(f"{path}/")):
        return _("It states another resource: {resource}").format(resource=printable(resource))
    return ""


def issuers(document: Mapping[str, Any]) -> list[str]:
    return _texts_in(document, "authorization_servers", MAX_SERVERS, MAX_URL_LENGTH)


def scopes(document: Mapping[str, Any]) -> list[str]:
    return _texts_in(document, "scopes_supported", MAX_SCOPES, MAX_SCOPE_LENGTH)


def name_of(document: Mapping[str, Any]) -> str:
    return printable(_text_in(document, "resource_name"))


def why_not_server(document: object, issuer: str) -> str:
    # The issuer in the document is compared byte for byte: RFC 8414 section 3.3.
    if not isinstance(document, dict):
        return _("It is not an object.")
    stated_issuer = document.get("issuer")
    if stated_issuer != issuer:
        name = printable(stated_issuer) if isinstance(stated_issuer, str) else "nothing"
        return _("It states the issuer {name} and not {issuer}, so it was not used.").format(
            name=name, issuer=printable(issuer)
        )
    return ""


def server_of(document: Mapping[str, Any], issuer: str) -> ServerMetadata:
    ways = _texts_in(document, "token_endpoint_auth_methods_supported", 20, 100) or ["client_secret_basic"]
    # In the order of the server, because some support later ones only partly. Last the key, which an
    # administrator must register, and no authentication.
    methods = sorted(
        [_METHODS[name] for name in ways if name in _METHODS],
        key=lambda way: _LESS_PREFERRED.index(way) if way in _LESS_PREFERRED else -1,
    )
    token_url = _text_in(document, "token_endpoint")
    return ServerMetadata(
        issuer=issuer,
        token_url=token_url,
        authorization_url=_text_in(document, "authorization_endpoint"),
        scopes=scopes(document),
        client_authentication=methods[0] if methods else "",
        states_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        registration_url=_address_at_same_origin(document, "registration_endpoint", issuer, token_url),
        revocation_url=_address_at_same_origin(document, "revocation_endpoint", token_url),
        takes_documents=document.get("client_id_metadata_document_supported") is True,
        problem=_find_problem(document, methods),
    )


def _address_at_same_origin(document: Mapping[str, Any], member: str, *neighbours: str) -> str:
    # An address, if it has the origin of one of its neighbours, because secrets must not go to other servers.
    address = _text_in(document, member)
    return address if address and origin(address) in map(origin, filter(None, neighbours)) else ""


def _find_problem(document: Mapping[str, Any], ways: list[str]) -> str:
    if not _text_in(document, "token_endpoint"):
        return _("It does not state its token address.")
    if not ways:
        return _("It supports no client authentication that Pegboard supports.")
    signs_in = bool(_text_in(document, "authorization_endpoint"))
    if signs_in and document.get("require_pushed_authorization_requests") is True:
        return _(
            "It requires pushed authorization requests (PAR, RFC 9126), which Pegboard does not support. "
            "Ask whether it can accept other requests from this client."
        )
    if signs_in and "S256" not in _texts_in(document, "code_challenge_methods_supported", 20, 100):
        return _("It does not state that it supports PKCE (S256).")
    return ""


def _text_in(document: Mapping[str, Any], member: str) -> str:
    value = document.get(member)
    is_fine = isinstance(value, str) and len(value) <= MAX_URL_LENGTH and value.isprintable()
    return value if is_fine and isinstance(value, str) else ""


def _texts_in(document: Mapping[str, Any], member: str, max_count: int, longest: int) -> list[str]:
    value = document.get(member)
    fine = [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
    return [text for text in fine if 0 < len(text) <= longest and text.isprintable()][:max_count]
