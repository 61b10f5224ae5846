"""What an operation asks of the credential, in the normal form and in words for a person."""

from collections.abc import Iterator, Mapping
from typing import Any

from core.outbound.errors import printable
from protocols.signature import Requirements


def requirements(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Requirements:
    # Of several ways in, the first one is what a credential is entered for.
    needed = _first_way(operation)
    schemes = _schemes(document)
    scopes = [scope for name, listed in needed.items() if isinstance(listed, list) for scope in listed]
    return Requirements(
        scopes=tuple(scope for scope in dict.fromkeys(scopes) if isinstance(scope, str) and scope),
        secrets=tuple(_in_words(name, schemes.get(name)) for name in needed),
    )


def _first_way(operation: Mapping[str, Any]) -> dict[str, Any]:
    # Scopes by scheme; nothing when the operation can be called without a credential.
    ways = operation.get("security")
    # An empty way among them makes the credential optional.
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
    schemes = (_schemes(document).get(name) for name in names)
    return {
        carrier(str(scheme.get("in")), str(scheme.get("name")))
        for scheme in schemes
        if isinstance(scheme, dict) and scheme.get("type") == "apiKey"
    }


def carrier(place: str, name: str) -> tuple[str, str]:
    """Return a parameter's place and name in the form in which two of them are compared."""
    return place, name.lower() if place == "header" else name


def _schemes(document: Mapping[str, Any]) -> dict[str, Any]:
    components = document.get("components")
    found = components.get("securitySchemes") if isinstance(components, dict) else None
    return found if isinstance(found, dict) else {}


def _in_words(name: str, scheme: Any) -> str:
    said = scheme if isinstance(scheme, dict) else {}
    kind, place = said.get("type"), str(said.get("in"))
    word = printable(str(said.get("scheme", "")).lower(), 40)
    match kind:
        case "http" if word == "basic":
            what = "a user name and password"
        case "http" if word == "bearer":
            what = "a bearer token"
        case "http":
            what = f"HTTP authentication of the kind {word}"
        case "apiKey":
            key = printable(str(said.get("name")), 60)
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
    """The ways to pass a secret that no credential here can take."""
    for name in _first_way(operation):
        scheme = _schemes(document).get(name)
        kind, place = (scheme.get("type"), scheme.get("in")) if isinstance(scheme, dict) else (None, None)
        if kind == "mutualTLS" or (kind == "apiKey" and place not in ("header", "query")):
            yield _in_words(name, scheme)
