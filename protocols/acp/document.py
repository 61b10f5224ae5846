"""Convert an agent between the ACP descriptor and the normal form."""

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import Any

from msgspec import structs

from core.canonical_json import digest
from core.outbound.errors import printable
from core.schema import audience, spelling
from protocols import members
from protocols import parameters as json_schema
from protocols.acp import wire
from protocols.members import find_differing
from protocols.signature import Parameter, Signature

MAX_VERSION_LENGTH = 100
# The description of a configuration without one.
CONFIG = "How the agent is to work in this run."
NO_CONFIG = {"type": "object", "properties": {}, "additionalProperties": False}

_NO_SHAPE = json_schema.Shape((), None)
# Members with arbitrary values, in which null is a value.
_VALUES = ("default", "const", "enum", "example", "examples")
# Values of `Parameter.rest`: the part of the request that an input belongs to.
_CONFIG = {"in": "config"}
_WHOLE = {"in": "input"}
_DESCRIPTION = {"ref", "description"}
_SCHEMAS = {"input", "output", "config", "thread_state", "custom_streaming_update"}
_INTERRUPT_SCHEMAS = {"interrupt_payload", "resume_payload"}


def _object(raw: Mapping[str, Any], member: str, where: str = "") -> dict[str, Any]:
    value = raw.get(member)
    if isinstance(value, dict):
        return value
    raise members.wrong(where + member, value, "an object")


def read_label(document: Mapping[str, Any]) -> str:
    version = _object(_object(document, "metadata"), "ref", "metadata.").get("version")
    if version is None or (isinstance(version, str) and len(version) <= MAX_VERSION_LENGTH):
        return version or ""
    expected = f"text of at most {MAX_VERSION_LENGTH} characters"
    raise members.wrong("metadata.ref.version", version, expected, code="BAD_VERSION")


def audience_form(form: dict[str, Any], read_at: datetime | None) -> dict[str, Any]:
    """Return a form that is equal for documents that do not differ for models and calls."""
    if isinstance(metadata := form.get("metadata"), dict):
        form["metadata"] = {name: metadata[name] for name in metadata.keys() & _DESCRIPTION}
    if isinstance(specs := audience.without_extensions(form.get("specs")), dict):
        form["specs"] = _with_canonical_schemas(specs, _SCHEMAS, read_at)
        if isinstance(interrupts := specs.get("interrupts"), list):
            plain_interrupts = map(audience.without_extensions, interrupts)
            form["specs"]["interrupts"] = [
                _with_canonical_schemas(interrupt, _INTERRUPT_SCHEMAS, read_at)
                if isinstance(interrupt, dict)
                else interrupt
                for interrupt in plain_interrupts
            ]
    return form


def _with_canonical_schemas(
    holder: dict[str, Any], names: Set[str], read_at: datetime | None
) -> dict[str, Any]:
    schemas = {name: holder[name] for name in holder.keys() & names}
    return holder | {
        name: audience.canonical_schema(value, read_at, digest) for name, value in schemas.items()
    }


def read_signature(document: dict[str, Any]) -> Signature:
    metadata, specs = _object(document, "metadata"), _object(document, "specs")
    ref = _object(metadata, "ref", "metadata.")
    inputs, outputs = _shape(specs, "input"), _shape(specs, "output")
    config, parameters = _config_inputs(specs, inputs.parameters), inputs.parameters
    if config and len(parameters) == 1 and parameters[0].is_whole:
        # With a configuration, an input that is the whole value becomes one member of the arguments.
        parameters = (structs.replace(parameters[0], is_whole=False, rest=_WHOLE),)
    signature = Signature(
        name=members.name(ref, "name", "metadata.ref.", code="BAD_NAME"),
        description=members.text(metadata, "description", "metadata."),
        kind="agent",
        inputs=(*parameters, *config),
        outputs=outputs.parameters,
        schema_rest=inputs.rest,
        outputs_rest=outputs.rest,
    )
    # The members that `write` cannot reproduce: capabilities, interrupts, the state of threads, ...
    rewritten = write(signature, read_label(document))
    metadata = find_differing(document["metadata"], rewritten["metadata"])
    if "ref" in metadata:
        metadata["ref"] = find_differing(document["metadata"]["ref"], rewritten["metadata"]["ref"])
    parts = {"metadata": metadata, "specs": find_differing(document["specs"], rewritten["specs"])}
    rest = find_differing(document, rewritten) | {member: part for member, part in parts.items() if part}
    return structs.replace(signature, rest=rest or None)


def _shape(specs: Mapping[str, Any], member: str) -> json_schema.Shape:
    schema = specs.get(member)
    if schema is None:
        return _NO_SHAPE
    clean = _clean(schema, f"specs.{member}")
    if spelling.has_null_properties(schema):
        # Examples of the protocol have null as “properties”, and the properties beside it. The meaning is
        # unknown, so such a schema becomes one parameter for the whole value.
        parameter = Parameter(
            id=member, name=member, type="json", required=True, description="", schema=clean, is_whole=True
        )
        return json_schema.Shape((parameter,), None)
    return json_schema.read_schema(clean, f"specs.{member}", whole_name=member)


def _clean(schema: Any, where: str) -> Any:
    # Some servers send null for absent members.
    json_schema.check(schema, where)
    return _without_nulls(schema)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        member: content if member in _VALUES else _without_nulls(content)
        for member, content in value.items()
        if content is not None or member in _VALUES
    }


def _config_inputs(specs: Mapping[str, Any], inputs: Sequence[Parameter]) -> tuple[Parameter, ...]:
    # The configuration of a run is one more input.
    if specs.get("config") is None:
        return ()
    schema = _clean(specs["config"], "specs.config")
    # The protocol requires this member. An empty object has no settings.
    if schema == NO_CONFIG:
        return ()
    if not isinstance(schema, dict | bool):
        raise members.wrong("specs.config", schema, "a JSON Schema", code="BAD_SCHEMA")
    used_names = {parameter.name for parameter in inputs}
    # A name that no input of the agent has. `rest` identifies the configuration.
    names = ("config", "agent_config", *(f"agent_config_{n}" for n in range(2, len(used_names) + 3)))
    name = next(name for name in names if name not in used_names)
    text = schema.get("description") if isinstance(schema, dict) else None
    config = Parameter(
        id=name,
        name=name,
        type="json",
        required=False,
        description=members.text({"description": text}, "description") if isinstance(text, str) else CONFIG,
        schema=schema,
        rest=_CONFIG,
    )
    return (config,)


def is_whole(inputs: Sequence[Parameter]) -> bool:
    return len(inputs) == 1 and (inputs[0].is_whole or inputs[0].rest == _WHOLE)


def configuration(signature: Signature) -> Parameter | None:
    return next((parameter for parameter in signature.inputs if parameter.rest == _CONFIG), None)


def own_inputs(signature: Signature) -> tuple[Parameter, ...]:
    return tuple(parameter for parameter in signature.inputs if parameter.rest != _CONFIG)


def write(signature: Signature, label: str) -> dict[str, Any]:
    signature_rest = signature.rest or {}
    metadata_rest, specs_rest = signature_rest.get("metadata", {}), signature_rest.get("specs", {})
    inputs, config = own_inputs(signature), configuration(signature)
    specs: dict[str, Any] = {}
    if is_whole(inputs):
        specs["input"] = json_schema.write_parameter(inputs[0])
    elif inputs or signature.schema_rest is not None:
        specs["input"] = json_schema.write_schema(inputs, signature.schema_rest)
    if signature.outputs or signature.outputs_rest is not None:
        specs["output"] = json_schema.write_schema(signature.outputs, signature.outputs_rest)
    if config:
        specs["config"] = config.schema
    metadata = write_metadata(signature.name, label, signature.description)
    return {
        **signature_rest,
        "metadata": metadata | metadata_rest | {"ref": metadata["ref"] | metadata_rest.get("ref", {})},
        "specs": {**specs, **specs_rest},
    }


def write_metadata(name: str, label: str, description: str, url: str = "") -> dict[str, Any]:
    ref = {"name": name, "version": label, "url": url}
    metadata = {"ref": {member: value for member, value in ref.items() if value}}
    return metadata | ({"description": description} if description else {})


def oddities(document: dict[str, Any], signature: Signature) -> Iterator[tuple[str, str]]:
    agent = f"“{printable(signature.name, 60)}”"
    if not read_label(document):
        yield "NO_VERSION", f"{agent} has no version; Pegboard distinguishes its versions by their content."
    for member in ("input", "output", "config"):
        schema = document["specs"].get(member)
        if spelling.has_null_properties(schema):
            yield "NO_PROPERTIES", f"The {member} of {agent} has “properties” that are null."


def capabilities(signature: Signature) -> Mapping[str, Any]:
    declared = _specs(signature).get("capabilities")
    return declared if isinstance(declared, dict) else {}


def has_capability(signature: Signature, name: str) -> bool:
    return capabilities(signature).get(name) is True


def streams(signature: Signature) -> bool:
    return bool(capabilities(signature).get("streaming"))


def interrupts(signature: Signature) -> dict[str, dict[str, Any]]:
    """Return the interrupts that the agent declares, by their kind."""
    entries = _specs(signature).get("interrupts")
    readable = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    kinds = [(entry.get(wire.INTERRUPT_TYPE), entry) for entry in readable]
    return {kind: interrupt for kind, interrupt in kinds if isinstance(kind, str)}


def thread_state_schema(signature: Signature) -> Mapping[str, Any] | None:
    """Return the schema of the values of a thread; None if the agent declares none."""
    schema = _specs(signature).get("thread_state")
    return schema if isinstance(schema, dict) else None


def _specs(signature: Signature) -> Mapping[str, Any]:
    return (signature.rest or {}).get("specs") or {}
