"""The requirements of an operation for the credential: scopes, and secrets as text for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from core.outbound.errors import printable
from protocols.signature import Requirements


def requirements(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Requirements:
    # An operation may accept several schemes. A credential is entered for the first one.
    needed = _first_requirement(operation)
    schemes = _security_schemes(document)
    scopes = [
        scope for name, scope_list in needed.items() if isinstance(scope_list, list) for scope in scope_list
    ]
    return Requirements(
        scopes=tuple(scope for scope in dict.fromkeys(scopes) if isinstance(scope, str) and scope),
        secrets=tuple(_describe_scheme(name, schemes.get(name)) for name in needed),
    )


def _first_requirement(operation: Mapping[str, Any]) -> dict[str, Any]:
    # Scopes by scheme; empty if the operation can be called without a credential.
    ways = operation.get("security")
    # An empty requirement in the list makes the credential optional.
    if not isinstance(ways, list) or any(way == {} for way in ways):
        return {}
    return next((way for way in ways if isinstance(way, dict)), {})


def carriers(document: Mapping[str, Any], operation: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the place and name of each parameter that carries a credential of the operation.

    All ways to sign in count, because a model has the secret of none. Values of `Authorization` are no
    parameters in OpenAPI.
    """
    ways = operation.get("security")
    stated = [way for way in ways if isinstance(way, dict)] if isinstance(ways, list) else []
    names = {name for way in stated for name in way}
    schemes = (_security_schemes(document).get(name) for name in names)
    return {
        carrier(str(scheme.get("in")), str(scheme.get("name")))
        for scheme in schemes
        if isinstance(scheme, dict) and scheme.get("type") == "apiKey"
    }


def carrier(place: str, name: str) -> tuple[str, str]:
    """Return a parameter's place and name for comparison: the case of a header name does not matter."""
    return place, name.lower() if place == "header" else name


def _security_schemes(document: Mapping[str, Any]) -> dict[str, Any]:
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    return schemes if isinstance(schemes, dict) else {}


def _describe_scheme(name: str, scheme: Any) -> str:
    members = scheme if isinstance(scheme, dict) else {}
    kind, place = members.get("type"), str(members.get("in"))
    word = printable(str(members.get("scheme", "")).lower(), 40)
    match kind:
        case "http" if word == "basic":
            what = "a user name and password"
        case "http" if word == "bearer":
            what = "a bearer token"
        case "http":
            what = f"HTTP authentication of the kind {word}"
        case "apiKey":
            key = printable(str(members.get("name")), 60)
            what = (
                f"an API key in the {place if place in ('header', 'query', 'cookie') else 'request'} “{key}”"
            )
        case "oauth2" | "openIdConnect":
            what = "an OAuth access token, entered as a bearer token"
        case "mutualTLS":
            what = "a client certificate"
        case _:
            what = "something that the document does not describe"
    return f"{printable(name, 60)}: {what}"


def unsupported(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield the required security schemes that no kind of credential supports."""
    for name in _first_requirement(operation):
        scheme = _security_schemes(document).get(name)
        kind, place = (scheme.get("type"), scheme.get("in")) if isinstance(scheme, dict) else (None, None)
        if kind == "mutualTLS" or (kind == "apiKey" and place not in ("header", "query")):
            yield _describe_scheme(name, scheme)
