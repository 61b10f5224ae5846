"""The manifest of an ACP agent: the one place that says which credential its server wants.

It comes as a manifest of the agents' workflow server, or as a record of the open agent schema with
the manifest in an extension. Both hold `deployment`, and the extension goes by several names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.protocols.base import Note, Session
from core import strict_json
from core.outbound.errors import ProtocolError, printable

EXTENSION = "runtime/manifest"
MAX_OPTIONS = 20
MAX_EXTENSIONS = 200


@dataclass(frozen=True, slots=True)
class Manifest:
    """`name` is the agent's, "" when it is not known."""

    name: str = ""
    notes: Sequence[Note] = ()


def read(session: Session, url: str) -> Manifest:
    """The manifest at `url`; empty without an address."""
    # A manifest that cannot be read is no reason to read nothing else, so that is only noted.
    if not url:
        return Manifest()
    try:
        with session.at(url) as elsewhere:
            document = strict_json.require_json(elsewhere.get(""))
    except ProtocolError as error:
        message = f"The manifest could not be read. {error.message}"
        return Manifest(notes=[Note("MANIFEST_FAILED", message)])
    if not isinstance(document, dict):
        return Manifest(notes=[Note("MANIFEST_FAILED", "The manifest is not a JSON object.")])
    name = _object(document, "metadata", "ref").get("name") or document.get("name")
    return Manifest(name if isinstance(name, str) else "", list(_credentials(document)))


def _object(raw: Mapping[str, Any], *path: str) -> dict[str, Any]:
    value: Any = raw
    for member in path:
        value = value.get(member) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _credentials(document: Mapping[str, Any]) -> Iterator[Note]:
    extensions = document.get("extensions")
    deployments = [_object(document, "deployment")]
    deployments += [
        _object(extension, "data", "deployment")
        for extension in (extensions[:MAX_EXTENSIONS] if isinstance(extensions, list) else ())
        if isinstance(extension, dict) and str(extension.get("name", "")).endswith(EXTENSION)
    ]
    for deployment in deployments:
        options = deployment.get("deployment_options")
        for option in options[:MAX_OPTIONS] if isinstance(options, list) else ():
            if isinstance(option, dict) and option.get("type") == "remote_service":
                scheme = _object(option, "protocol", "authentication")
                yield Note("CREDENTIAL_WANTED", f"The manifest says that calls need {_in_words(scheme)}.")


def _in_words(scheme: Mapping[str, Any]) -> str:
    kind, word = scheme.get("type"), str(scheme.get("scheme", "")).lower()
    match kind:
        case "apiKey":
            place = {"query": "query parameter", "cookie": "cookie"}.get(str(scheme.get("in")), "header")
            return f"an API key in the {place} “{printable(str(scheme.get('name', '')), 60)}”"
        case "http":
            named = {"bearer": "a bearer token", "basic": "a user name and a password"}
            return named.get(word, f"HTTP authentication of the kind “{printable(word, 60)}”")
        case "oauth2" | "openIdConnect":
            return "an access token, which an OAuth server gives out"
        case None:
            return "no credential"
    return f"a credential of the kind “{printable(str(kind), 60)}”"
