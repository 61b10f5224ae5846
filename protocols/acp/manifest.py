"""The manifest of an ACP agent: the one place that says which credential its server wants.

It comes as a manifest of the agents' workflow server, or as a record of the open agent schema with
the manifest in an extension. Both hold `deployment`, and the extension goes by several names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core import strict_json
from core.outbound.errors import ProtocolError, printable
from protocols.base import Note, Session, WantedCredential

EXTENSION = "runtime/manifest"
MAX_OPTIONS = 20
MAX_EXTENSIONS = 200


@dataclass(frozen=True, slots=True)
class Manifest:
    """`name` is the agent's, "" when it is not known. `credentials` are those of its remote services."""

    name: str = ""
    notes: Sequence[Note] = ()
    credentials: Sequence[WantedCredential] = ()


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
    credentials = [_wanted(scheme) for scheme in _schemes(document)]
    notes = [
        Note("CREDENTIAL_WANTED", f"The manifest says that calls need {each.words}.") for each in credentials
    ]
    return Manifest(name if isinstance(name, str) else "", notes, credentials)


def _object(raw: Mapping[str, Any], *path: str) -> dict[str, Any]:
    value: Any = raw
    for member in path:
        value = value.get(member) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _schemes(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
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
                yield _object(option, "protocol", "authentication")


def _wanted(scheme: Mapping[str, Any]) -> WantedCredential:
    # A security scheme as OpenAPI has them.
    kind, word = scheme.get("type"), str(scheme.get("scheme", "")).lower()
    match kind:
        case "apiKey":
            name = printable(str(scheme.get("name", "")), 60)
            match scheme.get("in"):
                case "query":
                    return WantedCredential(f"an API key in the query parameter “{name}”", "query", name)
                case "cookie":
                    return WantedCredential(f"an API key in the cookie “{name}”")
            return WantedCredential(f"an API key in the header “{name}”", "header", name)
        case "http" if word == "bearer":
            return WantedCredential("a bearer token", "bearer")
        case "http" if word == "basic":
            return WantedCredential("a user name and a password", "basic")
        case "http":
            return WantedCredential(f"HTTP authentication of the kind “{printable(word, 60)}”")
        case "oauth2" | "openIdConnect":
            return WantedCredential("an access token, which an OAuth server gives out")
        case None:
            return WantedCredential("no credential")
    return WantedCredential(f"a credential of the kind “{printable(str(kind), 60)}”")
