"""The manifest of an ACP agent, which alone states the credential that its server requires.

It is a manifest of the agents' workflow server, or a record of the open agent schema with the manifest in an
extension. Both contain `deployment`; the extension has several names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core import strict_json
from core.outbound.errors import ProtocolError, printable
from protocols.base import Session
from protocols.list_pages import Note, WantedCredential
from protocols.members import as_list

EXTENSION = "runtime/manifest"
MAX_OPTIONS = 20
MAX_EXTENSIONS = 200


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of an agent. name: of the agent, "" if unknown. credentials: of its remote services."""

    name: str = ""
    notes: Sequence[Note] = ()
    credentials: Sequence[WantedCredential] = ()


def read_manifest(session: Session, url: str) -> Manifest:
    """Return the manifest at `url`; an empty one without an address."""
    # An unreadable manifest does not stop the run, so it is only a note.
    if not url:
        return Manifest()
    try:
        with session.at_url(url) as elsewhere:
            document = strict_json.require_json(elsewhere.get(""))
    except ProtocolError as error:
        message = f"The manifest could not be read. {error.message}"
        return Manifest(notes=[Note("MANIFEST_FAILED", message)])
    if not isinstance(document, dict):
        return Manifest(notes=[Note("MANIFEST_FAILED", "The manifest is not a JSON object.")])
    name = _object(document, "metadata", "ref").get("name") or document.get("name")
    deployments = [_object(document, "deployment")]
    deployments += [
        _object(extension, "data", "deployment")
        for extension in as_list(document.get("extensions"))[:MAX_EXTENSIONS]
        if isinstance(extension, dict) and str(extension.get("name", "")).endswith(EXTENSION)
    ]
    credentials = [
        _read_credential(_object(option, "protocol", "authentication"))
        for deployment in deployments
        for option in as_list(deployment.get("deployment_options"))[:MAX_OPTIONS]
        if isinstance(option, dict) and option.get("type") == "remote_service"
    ]
    notes = [
        Note("CREDENTIAL_WANTED", f"The manifest states that calls need {credential.words}.")
        for credential in credentials
    ]
    return Manifest(name if isinstance(name, str) else "", notes, credentials)


def _object(raw: Mapping[str, Any], *path: str) -> dict[str, Any]:
    value: Any = raw
    for member in path:
        value = value.get(member) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _read_credential(scheme: Mapping[str, Any]) -> WantedCredential:
    """Read a security scheme, which has the form of OpenAPI."""
    kind, scheme_name = scheme.get("type"), str(scheme.get("scheme", "")).lower()
    match kind:
        case "apiKey":
            name = printable(str(scheme.get("name", "")), 60)
            match scheme.get("in"):
                case "query":
                    return WantedCredential(f"an API key in the query parameter “{name}”", "query", name)
                case "cookie":
                    return WantedCredential(f"an API key in the cookie “{name}”")
            return WantedCredential(f"an API key in the header “{name}”", "header", name)
        case "http" if scheme_name == "bearer":
            return WantedCredential("a bearer token", "bearer")
        case "http" if scheme_name == "basic":
            return WantedCredential("a user name and a password", "basic")
        case "http":
            return WantedCredential(f"HTTP authentication of the kind “{printable(scheme_name, 60)}”")
        case "oauth2" | "openIdConnect":
            return WantedCredential("an access token from an OAuth server")
        case None:
            return WantedCredential("no credential")
    return WantedCredential(f"a credential of the kind “{printable(str(kind), 60)}”")
