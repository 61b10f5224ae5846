"""One tool of OXP: its document and the normal form, both ways."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from core.canonical_json import canonical
from protocols import members
from protocols import parameters as json_schema
from protocols.base import UnreadableItemError
from protocols.signature import Requirements, Signature

MAX_TOOL_ID_LENGTH = 255

_TOOL_ID = re.compile(r"([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@([0-9]{1,18})(?:\.([0-9]{1,18})\.([0-9]{1,18}))?)?")
_VERSION = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18})")

_WHERE = "requirements."
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
    """Return a document of these parts, without those that are None."""
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
    rest, inputs, outputs = signature.rest or {}, None, None
    if signature.inputs or signature.schema_rest is not None:
        inputs = json_schema.write(signature.inputs, signature.schema_rest)
    if signature.outputs or signature.outputs_rest is not None:
        outputs = json_schema.write(signature.outputs, signature.outputs_rest)
    document = compose(
        tool_id,
        label,
        name=signature.name,
        description=signature.description or None,
        output_schema=outputs,
        requirements=write_requirements(signature.requirements),
    )
    document |= rest
    if inputs is not None:
        document["input_schema"] = {"parameters": inputs} if "input_schema" in rest else inputs
    return document


def write_requirements(requirements: Requirements) -> dict[str, Any] | None:
    """Return the requirements without scopes: these belong to a provider, which the normal form does not
    have."""
    written = {
        "secrets": [{"id": secret} for secret in requirements.secrets],
        "user_id": requirements.user,
    }
    return {member: value for member, value in written.items() if value} or None


def standard_form(document: dict[str, Any]) -> dict[str, Any]:
    """Return a form that is the same for two documents that the protocol does not tell apart."""
    # Some leave the version out of the id, or wrap the schema in an early form.
    schema = _unwrapped(document.get("input_schema"))
    identity = f"{read_tool_id(document)}@{document['version']}"
    return {**document, "id": identity, "input_schema": schema or None}


def tool_of(text: object) -> str | None:
    """Return toolkit and tool of an id, without its version; None for what is no id."""
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
        repeated = [int(part or 0) for part in parts.groups()[1:]]
        if repeated != [int(part) for part in version.groups()]:
            reason = f"“id” names version {'.'.join(map(str, repeated))}, but “version” is {label}."
            raise UnreadableItemError("BAD_VERSION", reason)
    return version[0]


def read(document: dict[str, Any]) -> Signature:
    inputs, outputs = _unwrapped(document.get("input_schema")), document.get("output_schema")
    taken = given = _NO_SHAPE
    if inputs is not None and inputs != {}:
        taken = json_schema.read(inputs, "input_schema", whole_name="input")
    if outputs is not None:
        given = json_schema.read(outputs, "output_schema", whole_name="value")
    found = Signature(
        name=members.name(document, "name", code="BAD_NAME"),
        description=members.text(document, "description"),
        inputs=taken.parameters,
        outputs=given.parameters,
        requirements=_requirements(document.get("requirements")),
        schema_rest=taken.rest,
        outputs_rest=given.rest,
    )
    return structs.replace(found, rest=_rest(document, found) or None)


def _unwrapped(schema: object) -> object:
    # An early form put the schema under one member `parameters`.
    if isinstance(schema, dict) and schema.keys() == {"parameters"}:
        inner = schema["parameters"]
        if isinstance(inner, dict) and (not inner or "type" in inner or "properties" in inner):
            return inner
    return schema


def _rest(document: dict[str, Any], read: Signature) -> dict[str, Any]:
    # The members that `write` would not write by itself, and all requirements, because only they have the
    # providers. Under `input_schema`, {"parameters": {}} stands for the early form, around whatever the
    # inputs are.
    written = write(read, read_tool_id(document), document["version"])
    rest = {
        member: value
        for member, value in document.items()
        if member == "requirements" or member not in written or canonical(written[member]) != canonical(value)
    }
    schema = document.get("input_schema")
    if schema and _unwrapped(schema) is not schema:
        rest["input_schema"] = {"parameters": {}}
    return rest


def _requirements(value: object) -> Requirements:
    # What a call needs beside its inputs. Which provider wants which scope stays in the rest.
    if value is None:
        return Requirements()
    if not isinstance(value, dict):
        raise members.wrong("requirements", value, "an object")
    providers = [_named(each, "authorization") for each in members.array(value, "authorization", _WHERE)]
    secrets = [_named(each, "secrets") for each in members.array(value, "secrets", _WHERE)]
    user = value.get("user_id")
    if user is not None and not isinstance(user, bool):
        raise members.wrong("requirements.user_id", user, "true or false")
    return Requirements(
        scopes=tuple(scope for each in providers for scope in scopes(each)),
        secrets=tuple(members.name(each, "id", "requirements.secrets.") for each in secrets),
        user=user is True,
    )


def _named(each: object, member: str) -> dict[str, Any]:
    if isinstance(each, dict):
        return each
    raise members.wrong(f"requirements.{member}", each, "an array of objects")


def scopes_of(provider: dict[str, Any]) -> list[str]:
    oauth2 = provider.get("oauth2")
    scopes = members.array(oauth2, "scopes", _OAUTH2) if isinstance(oauth2, dict) else []
    if not all(isinstance(scope, str) for scope in scopes):
        raise members.wrong(f"{_OAUTH2}scopes", scopes, "an array of text")
    return scopes


def scopes(provider: dict[str, Any]) -> list[str]:
    scopes = scopes_of(provider)
    # A provider that wants no particular scope is named by itself; the published schema lets it be nameless,
    # and then it is shown nowhere.
    if scopes or provider.get("id") is None:
        return scopes
    return [members.name(provider, "id", "requirements.authorization.")]
