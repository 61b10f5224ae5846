"""Convert a tool between the OXP document and the normal form."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from core.schema import types
from protocols import members
from protocols import parameters as json_schema
from protocols.list_pages import UnreadableItemError
from protocols.signature import Requirements, Signature

MAX_TOOL_ID_LENGTH = 255

_TOOL_ID = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]{1,18})(?:\.([0-9]{1,18})\.([0-9]{1,18}))?)?")
_VERSION = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18})")

_REQUIREMENTS = "requirements."
_OAUTH2 = "requirements.authorization.oauth2."
_NO_SHAPE = json_schema.Shape((), None)


def compose(
    tool_id: str,
    label: str,
    *,
    name: str,
    description: str | None,
    input_schema: object = None,
    output_schema: object = None,
    requirements: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a document. Parts that are None are omitted."""
    document = {
        "id": f"{tool_id}@{label}",
        "name": name,
        "description": description,
        "version": label,
        "input_schema": input_schema,
        "output_schema": output_schema,
        "requirements": requirements,
    }
    return {member: value for member, value in document.items() if value is not None}


def write(signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
    signature_rest, inputs, outputs = signature.rest or {}, None, None
    if signature.inputs or signature.schema_rest is not None:
        inputs = json_schema.write_schema(signature.inputs, signature.schema_rest)
    if signature.outputs or signature.outputs_rest is not None:
        outputs = json_schema.write_schema(signature.outputs, signature.outputs_rest)
    document = compose(
        tool_id,
        label,
        name=signature.name,
        description=signature.description or None,
        output_schema=outputs,
        requirements=write_requirements(signature.requirements),
    )
    document |= signature_rest
    if inputs is not None:
        document["input_schema"] = {"parameters": inputs} if "input_schema" in signature_rest else inputs
    return document


def write_requirements(requirements: Requirements) -> dict[str, Any] | None:
    """Return the requirements without scopes, which belong to a provider that the normal form lacks."""
    document = {
        "secrets": [{"id": secret} for secret in requirements.secrets],
        "user_id": requirements.user,
    }
    return {member: value for member, value in document.items() if value} or None


def standard_form(document: dict[str, Any]) -> dict[str, Any]:
    """Return a form that is equal for documents with the same meaning in the protocol."""
    # Some vendors omit the version from the id, or wrap the schema as in an early draft.
    schema = _unwrap_schema(document.get("input_schema"))
    identity = f"{read_tool_id(document)}@{document['version']}"
    return {**document, "id": identity, "input_schema": schema or None}


def tool_of(text: object) -> str | None:
    """Return toolkit and tool of an id, without its version; None for an invalid id."""
    parts = _TOOL_ID.fullmatch(text) if isinstance(text, str) else None
    return parts[1] if parts and len(parts[1]) <= MAX_TOOL_ID_LENGTH else None


def read_tool_id(document: Mapping[str, Any]) -> str:
    """Return toolkit and tool. Raises UnreadableItemError."""
    tool_id = tool_of(document.get("id"))
    if tool_id is None:
        expected = "of the form Toolkit.Tool or Toolkit.Tool@1.0.0"
        raise members.wrong("id", document.get("id"), expected, code="BAD_TOOL_ID")
    return tool_id


def read_version(document: Mapping[str, Any]) -> str:
    """Return the version, which the id may repeat: `@2` means 2.0.0. Raises UnreadableItemError."""
    label = document.get("version")
    version = _VERSION.fullmatch(label) if isinstance(label, str) else None
    if version is None:
        raise members.wrong("version", label, "three numbers such as 1.0.0", code="BAD_VERSION")
    parts = _TOOL_ID.fullmatch(document["id"])
    if parts and parts[2]:
        id_version = [int(part or 0) for part in parts.groups()[1:]]
        if id_version != [int(part) for part in version.groups()]:
            reason = f"“id” names version {'.'.join(map(str, id_version))}, but “version” is {label}."
            raise UnreadableItemError("BAD_VERSION", reason)
    return version[0]


def read_signature(document: dict[str, Any]) -> Signature:
    inputs, outputs = _unwrap_schema(document.get("input_schema")), document.get("output_schema")
    input_shape = output_shape = _NO_SHAPE
    if inputs is not None and inputs != {}:
        input_shape = json_schema.read_schema(inputs, "input_schema", whole_name="input")
    if outputs is not None:
        output_shape = json_schema.read_schema(outputs, "output_schema", whole_name="value")
    signature = Signature(
        name=members.name(document, "name", code="BAD_NAME"),
        description=members.text(document, "description"),
        inputs=input_shape.parameters,
        outputs=output_shape.parameters,
        requirements=_read_requirements(document.get("requirements")),
        schema_rest=input_shape.rest,
        outputs_rest=output_shape.rest,
    )
    # The members that `write` cannot reproduce, and all requirements, because they contain the providers. An
    # `input_schema` of {"parameters": {}} marks the early draft, which wraps the schema.
    rewritten = write(signature, read_tool_id(document), document["version"])
    document_rest = {
        member: value
        for member, value in document.items()
        if member == "requirements"
        or member not in rewritten
        or members.encode(rewritten[member]) != members.encode(value)
    }
    schema = document.get("input_schema")
    if schema and _unwrap_schema(schema) is not schema:
        document_rest["input_schema"] = {"parameters": {}}
    members.encode(document_rest)
    return structs.replace(signature, rest=document_rest or None)


def _unwrap_schema(schema: object) -> object:
    # An early draft has the schema in a member `parameters`.
    if isinstance(schema, dict) and schema.keys() == {"parameters"}:
        inner = schema["parameters"]
        if isinstance(inner, dict) and (not inner or "type" in inner or "object" in types.guess_words(inner)):
            return inner
    return schema


def _read_requirements(value: object) -> Requirements:
    # Scopes by provider remain in `rest`.
    if value is None:
        return Requirements()
    if not isinstance(value, dict):
        raise members.wrong("requirements", value, "an object")
    providers = [
        _require_object(entry, "authorization")
        for entry in members.array(value, "authorization", _REQUIREMENTS)
    ]
    secrets = [_require_object(entry, "secrets") for entry in members.array(value, "secrets", _REQUIREMENTS)]
    user = value.get("user_id")
    if user is not None and not isinstance(user, bool):
        raise members.wrong("requirements.user_id", user, "true or false")
    return Requirements(
        scopes=tuple(scope for provider in providers for scope in scopes(provider)),
        secrets=tuple(members.name(secret, "id", "requirements.secrets.") for secret in secrets),
        user=user is True,
    )


def _require_object(entry: object, member: str) -> dict[str, Any]:
    if isinstance(entry, dict):
        return entry
    raise members.wrong(f"requirements.{member}", entry, "an array of objects")


def scopes_of(provider: dict[str, Any]) -> list[str]:
    oauth2 = provider.get("oauth2")
    scopes = members.array(oauth2, "scopes", _OAUTH2) if isinstance(oauth2, dict) else []
    if not all(isinstance(scope, str) for scope in scopes):
        raise members.wrong(f"{_OAUTH2}scopes", scopes, "an array of text")
    return scopes


def scopes(provider: dict[str, Any]) -> list[str]:
    scopes = scopes_of(provider)
    # A provider without scopes counts as a scope with its name. In the published schema the name is optional;
    # without one nothing is shown.
    if scopes or provider.get("id") is None:
        return scopes
    return [members.name(provider, "id", "requirements.authorization.")]
