"""Tools that are defined in Pegboard, in the form of The Tool System: one JSON Schema with reserved fields.

https://github.com/idealic-ai/docs, rfc/02_agent_tools.md at 3c618b9

Properties that begin with an underscore are reserved; all others are inputs. A reference inside `_output`
starts at the root of the whole schema. In a signature, which separates inputs and outputs, it starts at the
root of the output.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from msgspec import structs

from core.outbound.errors import RefusedError, printable
from core.schema import error_messages, spelling, subschemas, validation
from core.translatable import mark as _
from core.value_descriptions import describe_value
from protocols import members
from protocols import parameters as json_schema
from protocols.base import Protocol, Session
from protocols.call_outcome import Outcome
from protocols.list_pages import Item, ItemPage, KnownPages, Note, UnreadableItemError
from protocols.signature import Signature

TOOL, ACTIVITY, REASONING, OUTPUT = "_tool", "_activity", "_reasoningForCall", "_output"
NAME = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
MAX_ACTIVITY_LENGTH = 150
_IN_OUTPUT = f"#/properties/{OUTPUT}"
_TEXT = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a definition.

    activity: the name of the activity; "" if the model itself answers, None if undeclared.
    reserved: other content of the reserved fields, by name, and `required` for the required ones.
    """

    name: str
    title: str
    description: str
    inputs: dict[str, Any]
    output: dict[str, Any]
    activity: str | None = None
    reserved: Mapping[str, Any] = field(default_factory=dict)


class Definition(Protocol):
    name = "definition"
    label = "Defined here"
    summary = _("A tool that you define: its description, inputs and output. An activity runs it.")
    url_hint = _("A defined tool has no address.")
    is_own = True
    fetches_alone = True

    def read(self, document: dict[str, Any]) -> Signature:
        members.content(document)
        properties = document.get("properties")
        if document.get("type") != "object" or not isinstance(properties, dict):
            reason = "A tool must be a JSON Schema with “type”: “object” and “properties”."
            raise UnreadableItemError("SHAPE", reason)
        name = _constant_of(properties, TOOL)
        if problem := name_problem(name):
            raise UnreadableItemError("SHAPE", f"“{TOOL}” is {describe_value(name)}. {problem}")
        refuse_reserved(properties.keys() - {TOOL, ACTIVITY, REASONING, OUTPUT})
        activity_of(document)
        inputs, output = _inputs_schema(document, properties), _output_schema(document, properties)
        input_shape = json_schema.read_schema(inputs, "inputs", whole_name="input")
        output_shape = json_schema.read_schema(output, OUTPUT, whole_name="output")
        signature = Signature(
            name=name or "",
            title=members.text(document, "title"),
            description=members.text(document, "description"),
            inputs=input_shape.parameters,
            outputs=output_shape.parameters,
            schema_rest=input_shape.rest or None,
            outputs_rest=output_shape.rest or None,
        )
        document_again = self.write(signature, "", "")
        reserved = members.find_differing(properties, document_again["properties"])
        document_rest = members.find_differing(document, {**document_again, "properties": properties})
        return structs.replace(
            signature, rest=document_rest | ({"properties": reserved} if reserved else {}) or None
        )

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        inputs, output = schemas(signature)
        document_rest = signature.rest or {}
        reserved = document_rest.get("properties", {})
        # The order of the properties is the order in which a model writes them.
        first = {TOOL: {**_TEXT, "const": signature.name}}
        first |= {member: reserved[member] for member in (ACTIVITY, REASONING) if member in reserved}
        document = _write_document(
            Parts(signature.name, signature.title, signature.description, inputs, output), first
        )
        return document | document_rest | {"properties": document["properties"] | reserved}

    def why_not_run(self, signature: Signature) -> Note | None:
        return Note(
            "NO_ACTIVITY",
            f"“{printable(signature.name, 64)}” is defined in Pegboard and has no activity. Bind an "
            "activity to it in an environment of the agent.",
        )

    def enumerate(self, session: Session, known_pages: KnownPages) -> Iterator[ItemPage]:
        _refuse()

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        _refuse()

    def versions(self, session: Session, tool_id: str) -> Iterator[ItemPage]:
        _refuse()

    def invoke(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome:
        _refuse()


def _refuse() -> NoReturn:
    raise RefusedError("NO_ACTIVITY", "The tool is defined in Pegboard and has no vendor.")


def name_problem(name: object) -> str:
    """Return a sentence about an invalid name of a tool; "" for a valid one."""
    if isinstance(name, str) and re.fullmatch(NAME, name):
        return ""
    return "A name begins with a letter and has up to 64 letters, digits, hyphens and underscores."


def refuse_reserved(names: Iterable[str]) -> None:
    """Raise UnreadableItemError for an input whose name begins with an underscore."""
    for name in sorted(name for name in names if name.startswith("_")):
        raise UnreadableItemError(
            "RESERVED_NAME",
            f"The input “{printable(name, 60)}” begins with an underscore, which marks the reserved "
            "fields of The Tool System. Choose another name.",
        )


def activity_of(document: Mapping[str, Any]) -> str | None:
    """Return the activity that a definition names: "" if the model itself answers, None if undeclared."""
    properties = document["properties"]
    if ACTIVITY not in properties:
        return None
    activity = _constant_of(properties, ACTIVITY)
    if isinstance(activity, str) and len(activity) <= MAX_ACTIVITY_LENGTH:
        return activity
    reason = f"“{ACTIVITY}” must have a “const” with the name of an activity, or an empty text."
    raise UnreadableItemError("SHAPE", reason)


def parts_of(document: dict[str, Any]) -> Parts:
    """Return the parts of a definition. Raises UnreadableItemError."""
    signature = Definition().read(document)
    inputs, output = schemas(signature)
    properties = document["properties"]
    fields = {
        member: {keyword: value for keyword, value in properties[member].items() if keyword != "const"}
        for member in (TOOL, ACTIVITY)
        if member in properties
    }
    reserved: dict[str, Any] = {member: schema for member, schema in fields.items() if schema != _TEXT}
    if REASONING in properties:
        reserved[REASONING] = properties[REASONING]
    if required_fields := [name for name in spelling.required_of(document) if name.startswith("_")]:
        reserved["required"] = required_fields
    activity = activity_of(document)
    return Parts(signature.name, signature.title, signature.description, inputs, output, activity, reserved)


def is_document(tool: object) -> bool:
    """Return whether `tool` has the form of a definition: a schema of an object with reserved fields."""
    return isinstance(tool, dict) and "properties" in tool


def name_in(document: object) -> object:
    """Return the name that a document states, valid or not; None without one."""
    return _constant_of(spelling.properties_of(document), TOOL)


def with_name(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a document that states a name, with another one."""
    properties = spelling.properties_of(document)
    return {**document, "properties": {**properties, TOOL: {**properties[TOOL], "const": name}}}


def without_activity(parts: Parts) -> Parts:
    reserved = {member: value for member, value in parts.reserved.items() if member != ACTIVITY}
    if required := [member for member in reserved.pop("required", ()) if member != ACTIVITY]:
        reserved["required"] = required
    return replace(parts, activity=None, reserved=reserved)


def schemas(signature: Signature) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON Schemas of the inputs and of the output."""
    return (
        json_schema.write_schema(signature.inputs, signature.schema_rest),
        json_schema.write_schema(signature.outputs, signature.outputs_rest),
    )


def document_of(parts: Parts) -> dict[str, Any]:
    """Return the whole document. `check_inputs` and `check_output` have validated the parts."""
    constants = {TOOL: parts.name} | ({} if parts.activity is None else {ACTIVITY: parts.activity})
    first = {
        member: {**parts.reserved.get(member, _TEXT), "const": value} for member, value in constants.items()
    }
    if REASONING in parts.reserved:
        first[REASONING] = parts.reserved[REASONING]
    document = _write_document(parts, first)
    if required := parts.reserved.get("required"):
        document["required"] = [*required, *document.get("required", [])]
    return document


def _write_document(parts: Parts, first: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with these reserved fields before the inputs and the output after them."""
    texts = {"title": parts.title, "description": parts.description}
    return {
        "type": "object",
        **{member: text for member, text in texts.items() if text},
        **parts.inputs,
        "properties": {
            **first,
            **(parts.inputs.get("properties") or {}),
            OUTPUT: _moved_references(parts.output, "#", _IN_OUTPUT),
        },
    }


def check_inputs(schema: Any) -> None:
    """Validate the schema of a defined tool's inputs. Raises UnreadableItemError."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise UnreadableItemError("BAD_SCHEMA", "The inputs must be a JSON Schema with “type”: “object”.")
    for member in ("title", "description"):
        if member in schema:
            reason = f"The {member} belongs to the tool. Remove it from the schema of the inputs."
            raise UnreadableItemError("BAD_SCHEMA", reason)
    refuse_faulty(schema, "inputs")
    refuse_reserved(set(schema.get("properties") or {}))
    if any(
        parameter.is_whole
        for parameter in json_schema.read_schema(schema, "inputs", whole_name="input").parameters
    ):
        raise UnreadableItemError("BAD_SCHEMA", "Each input needs a name, of up to 1,024 characters.")


def check_output(schema: Any) -> None:
    """Validate the schema of a defined tool's output. Raises UnreadableItemError."""
    if not isinstance(schema, dict) or not schema:
        reason = "Describe the output as a JSON Schema. Without it no model could answer for the tool."
        raise UnreadableItemError("BAD_SCHEMA", reason)
    refuse_faulty(schema, "output")
    json_schema.read_schema(schema, "output", whole_name="output")


def refuse_faulty(schema: dict[str, Any], part: str) -> None:
    """Raise UnreadableItemError for a schema that breaks its dialect or cannot be used to validate calls.

    A vendor's schema may do either, because the vendor validates calls, too. For defined tools Pegboard alone
    does.
    """
    json_schema.check(schema, part)
    if fault := validation.schema_fault(schema):
        path = error_messages.place((part, *fault.path))
        raise UnreadableItemError("BAD_SCHEMA", f"“{path}” {fault.why}.")
    ready = validation.checked(schema)
    if ready.left_out or ready.validator is None:
        unusable = ", ".join(ready.left_out[:3]) or "the whole schema, which is too complex"
        raise UnreadableItemError(
            "NOT_CHECKED", f"“{part}” contains rules that Pegboard cannot check: {unusable}."
        )


def _inputs_schema(document: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the inputs: the document without its texts and its reserved fields."""
    own_properties = {name: schema for name, schema in properties.items() if not name.startswith("_")}
    inputs = {
        member: value
        for member, value in document.items()
        if member not in ("title", "description", "properties", "required")
    }
    if required := [name for name in spelling.required_of(document) if name in own_properties]:
        inputs["required"] = required
    references = subschemas.references({**inputs, "properties": own_properties})
    if any(reference.startswith(f"{_IN_OUTPUT}/") for reference in references):
        raise _foreign_reference("An input", OUTPUT)
    return {**inputs, **({"properties": own_properties} if own_properties else {})}


def _output_schema(document: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the output as a document of its own, with the definitions that it refers to."""
    schema = properties.get(OUTPUT)
    if not isinstance(schema, dict):
        reason = f"“{OUTPUT}” is {describe_value(schema)}; it must be the JSON Schema of the output."
        raise UnreadableItemError("SHAPE", reason)
    output = _moved_references(schema, _IN_OUTPUT, "#")
    # Inputs and output share definitions, and each of the two needs a copy.
    shared = [
        reference for reference in subschemas.references(schema) if not _is_below(reference, _IN_OUTPUT)
    ]
    for reference in shared:
        _, _, path = reference.partition("#/")
        keyword = path.partition("/")[0]
        if reference[:2] != "#/" or keyword not in subschemas.DEFINITIONS or keyword in schema:
            raise _foreign_reference(f"“{OUTPUT}”", reference)
        output = {**output, keyword: document.get(keyword)}
    return output


def _foreign_reference(part: str, target: str) -> UnreadableItemError:
    reason = f"{part} refers to “{printable(target, 80)}”, which is outside of it. Copy the schema instead."
    return UnreadableItemError("BAD_SCHEMA", reason)


def _moved_references(schema: dict[str, Any], before: str, after: str) -> dict[str, Any]:
    """Return the schema with references that start at another root."""

    def move(reference: str) -> str:
        return after + reference[len(before) :] if _is_below(reference, before) else reference

    moved: dict[str, Any] = spelling.with_changed_references(schema, move)
    return moved


def _is_below(reference: str, top: str) -> bool:
    return reference == top or reference.startswith(f"{top}/")


def _constant_of(properties: Mapping[str, Any], member: str) -> Any:
    schema = properties.get(member)
    return schema.get("const") if isinstance(schema, dict) else None
