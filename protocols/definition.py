"""Tools that are defined here, in the form of the Tool System: one JSON Schema, with fields of its own.

https://github.com/idealic-ai/docs, rfc/02_agent_tools.md at 3c618b9

Properties that begin with an underscore belong to the Tool System, all others are inputs. A reference inside
of `_output` leads from the top of the whole form; in a signature, which has inputs and outputs apart, it
leads from the top of the output.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from msgspec import structs

from core.canonical_json import canonical
from core.outbound.errors import RefusedError, printable
from core.schema import error_messages, subschemas, validation
from core.value_descriptions import describe_value
from protocols import members
from protocols import parameters as json_schema
from protocols.base import Item, KnownPages, Note, Outcome, Page, Protocol, Session, UnreadableItemError
from protocols.signature import Signature

TOOL, ACTIVITY, REASONING, OUTPUT = "_tool", "_activity", "_reasoningForCall", "_output"
NAME = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
MAX_ACTIVITY_LENGTH = 150
_IN_OUTPUT = f"#/properties/{OUTPUT}"
_TEXT = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Parts:
    """A definition, taken apart. `activity` names what runs for it; "" asks for none, None says nothing.

    `beside` is what else the form says: of its own fields, by name, and `required` for those it requires.
    """

    name: str
    title: str
    description: str
    inputs: dict[str, Any]
    output: dict[str, Any]
    activity: str | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)


class Definition(Protocol):
    name = "definition"
    label = "Defined here"
    summary = "A tool of your own: what it does, needs and gives back, whichever activity answers."
    url_hint = "It has no address."
    is_own = True
    fetches_alone = True

    def read(self, document: dict[str, Any]) -> Signature:
        members.content(document)
        properties = document.get("properties")
        if document.get("type") != "object" or not isinstance(properties, dict):
            reason = "A tool is a JSON Schema with “type”: “object” and with “properties”."
            raise UnreadableItemError("SHAPE", reason)
        name = _constant(properties, TOOL)
        if why := why_no_name(name):
            raise UnreadableItemError("SHAPE", f"“{TOOL}” is {describe_value(name)}. {why}")
        refuse_reserved(properties.keys() - {TOOL, ACTIVITY, REASONING, OUTPUT})
        activity_of(document)
        inputs, output = _inputs(document, properties), _output(document, properties)
        taken = json_schema.read(inputs, "inputs", whole_name="input")
        given = json_schema.read(output, OUTPUT, whole_name="output")
        read = Signature(
            name=name or "",
            title=members.text(document, "title"),
            description=members.text(document, "description"),
            inputs=taken.parameters,
            outputs=given.parameters,
            schema_rest=taken.rest or None,
            outputs_rest=given.rest or None,
        )
        written = self.write(read, "", "")
        beside = _differing(properties, written["properties"])
        rest = _differing(document, {**written, "properties": properties})
        return structs.replace(read, rest=rest | ({"properties": beside} if beside else {}) or None)

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        inputs, output = schemas(signature)
        rest = signature.rest or {}
        beside = rest.get("properties", {})
        # In the order in which a model is to write them.
        first = {TOOL: {**_TEXT, "const": signature.name}}
        first |= {member: beside[member] for member in (ACTIVITY, REASONING) if member in beside}
        written = _form(Parts(signature.name, signature.title, signature.description, inputs, output), first)
        return written | rest | {"properties": written["properties"] | beside}

    def why_not_run(self, signature: Signature) -> Note | None:
        return Note(
            "NO_ACTIVITY",
            f"“{printable(signature.name, 64)}” is defined here, and no activity answers for it. Bind one "
            "to it in an environment of the agent.",
        )

    def enumerate(self, session: Session, known: KnownPages) -> Iterator[Page]:
        _refuse()

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        _refuse()

    def versions(self, session: Session, tool_id: str) -> Iterator[Page]:
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
    raise RefusedError("NO_ACTIVITY", "The tool is defined here: there is no vendor to be asked.")


def why_no_name(name: object) -> str:
    """A sentence for what is no name of a tool; "" for one that is."""
    if isinstance(name, str) and re.fullmatch(NAME, name):
        return ""
    return "A name begins with a letter and has up to 64 letters, digits, hyphens and underscores."


def refuse_reserved(names: Iterable[str]) -> None:
    """Raises UnreadableItemError for an input whose name begins with an underscore."""
    for name in sorted(each for each in names if each.startswith("_")):
        raise UnreadableItemError(
            "RESERVED_NAME",
            f"The input “{printable(name, 60)}” begins with an underscore, which marks the fields of the "
            "Tool System itself. Give it another name.",
        )


def activity_of(document: Mapping[str, Any]) -> str | None:
    """Which activity a definition names: None where it says nothing, "" where the model itself answers."""
    properties = document["properties"]
    if ACTIVITY not in properties:
        return None
    named = _constant(properties, ACTIVITY)
    if isinstance(named, str) and len(named) <= MAX_ACTIVITY_LENGTH:
        return named
    reason = f"“{ACTIVITY}” must have a “const” with the name of an activity, or an empty one."
    raise UnreadableItemError("SHAPE", reason)


def parts_of(document: dict[str, Any]) -> Parts:
    """Raises UnreadableItemError."""
    read = Definition().read(document)
    inputs, output = schemas(read)
    properties, listed = document["properties"], document.get("required")
    beside = {
        member: {keyword: value for keyword, value in properties[member].items() if keyword != "const"}
        for member in (TOOL, ACTIVITY)
        if member in properties
    }
    said: dict[str, Any] = {member: each for member, each in beside.items() if each != _TEXT}
    if REASONING in properties:
        said[REASONING] = properties[REASONING]
    if own := [each for each in listed if str(each).startswith("_")] if isinstance(listed, list) else []:
        said["required"] = own
    return Parts(read.name, read.title, read.description, inputs, output, activity_of(document), said)


def schemas(signature: Signature) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schemas of its inputs and of what comes back, each by itself."""
    return (
        json_schema.write(signature.inputs, signature.schema_rest),
        json_schema.write(signature.outputs, signature.outputs_rest),
    )


def document_of(parts: Parts) -> dict[str, Any]:
    """The whole form. The parts were found in order by `check_inputs` and `check_output`."""
    constants = {TOOL: parts.name} | ({} if parts.activity is None else {ACTIVITY: parts.activity})
    own = {member: {**parts.beside.get(member, _TEXT), "const": each} for member, each in constants.items()}
    if REASONING in parts.beside:
        own[REASONING] = parts.beside[REASONING]
    written = _form(parts, own)
    if required := parts.beside.get("required"):
        written["required"] = [*required, *written.get("required", [])]
    return written


def _form(parts: Parts, own: Mapping[str, Any]) -> dict[str, Any]:
    about = {"title": parts.title, "description": parts.description}
    return {
        "type": "object",
        **{member: text for member, text in about.items() if text},
        **parts.inputs,
        "properties": {
            **own,
            **(parts.inputs.get("properties") or {}),
            OUTPUT: subschemas.mapped(parts.output, lambda each: _led(each, "#", _IN_OUTPUT)),
        },
    }


def check_inputs(schema: Any) -> None:
    """Raises UnreadableItemError for what cannot be the inputs of a definition."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise UnreadableItemError("BAD_SCHEMA", "The inputs are a JSON Schema with “type”: “object”.")
    for member in ("title", "description"):
        if member in schema:
            reason = f"The {member} is the tool's own. Leave it out beside the properties of the inputs."
            raise UnreadableItemError("BAD_SCHEMA", reason)
    refuse_faulty(schema, "inputs")
    refuse_reserved(set(schema.get("properties") or {}))
    if any(each.is_whole for each in json_schema.read(schema, "inputs", whole_name="input").parameters):
        raise UnreadableItemError("BAD_SCHEMA", "Each input needs a name, of up to 1,024 characters.")


def check_output(schema: Any) -> None:
    """Raises UnreadableItemError for what cannot be said of what comes back."""
    if not isinstance(schema, dict) or not schema:
        reason = "Say what comes back, as a JSON Schema: a tool has an output, or no model could give it."
        raise UnreadableItemError("BAD_SCHEMA", reason)
    refuse_faulty(schema, "output")
    json_schema.read(schema, "output", whole_name="output")


def refuse_faulty(schema: dict[str, Any], where: str) -> None:
    """Raises UnreadableItemError for a schema that breaks its dialect, or that calls could not be judged by.

    A vendor's schema may be either, because the vendor judges as well. Nothing else judges by one of ours.
    """
    json_schema.check(schema, where)
    if fault := validation.schema_fault(schema):
        at = error_messages.place((where, *fault.path))
        raise UnreadableItemError("BAD_SCHEMA", f"“{at}” {fault.why}.")
    ready = validation.checked(schema)
    if ready.left_out or ready.validator is None:
        which = ", ".join(ready.left_out[:3]) or "it as a whole, which is too complex"
        raise UnreadableItemError("NOT_CHECKED", f"“{where}” holds what values cannot be judged by: {which}.")


def _inputs(document: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    own = {member: value for member, value in properties.items() if not member.startswith("_")}
    inputs = {
        member: value
        for member, value in document.items()
        if member not in ("title", "description", "properties", "required")
    }
    listed = document.get("required")
    if isinstance(listed, list):
        inputs["required"] = [each for each in listed if each in own]
    if any(
        each.startswith(f"{_IN_OUTPUT}/") for each in subschemas.references({**inputs, "properties": own})
    ):
        raise _leads_out("An input", OUTPUT)
    if not inputs.get("required", True):
        del inputs["required"]
    return {**inputs, **({"properties": own} if own else {})}


def _output(document: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    said = properties.get(OUTPUT)
    if not isinstance(said, dict):
        reason = f"“{OUTPUT}” is {describe_value(said)}; it must be the JSON Schema of what comes back."
        raise UnreadableItemError("SHAPE", reason)
    output: dict[str, Any] = subschemas.mapped(said, lambda each: _led(each, _IN_OUTPUT, "#"))
    # What the output shares with the inputs stands beside both; each of the two has to stand for itself.
    shared = [each for each in subschemas.references(said) if not _is_below(each, _IN_OUTPUT)]
    for reference in shared:
        _, _, below = reference.partition("#/")
        keyword = below.partition("/")[0]
        if reference[:2] != "#/" or keyword not in subschemas.DEFINITIONS or keyword in said:
            raise _leads_out(f"“{OUTPUT}”", reference)
        output = {**output, keyword: document.get(keyword)}
    return output


def _leads_out(what: str, where: str) -> UnreadableItemError:
    reason = (
        f"{what} refers to “{printable(where, 80)}”, which is not its own. Put a copy where it is needed."
    )
    return UnreadableItemError("BAD_SCHEMA", reason)


def _led(schema: dict[str, Any], before: str, after: str) -> dict[str, Any]:
    # Its references, counted from another top.
    return {
        keyword: after + value[len(before) :]
        if keyword in subschemas.REFERENCES and isinstance(value, str) and _is_below(value, before)
        else value
        for keyword, value in schema.items()
    }


def _is_below(reference: str, top: str) -> bool:
    return reference == top or reference.startswith(f"{top}/")


def _constant(properties: Mapping[str, Any], member: str) -> Any:
    said = properties.get(member)
    return said.get("const") if isinstance(said, dict) else None


def _differing(given: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    # What of a document would come back otherwise, or not at all.
    return {
        member: value
        for member, value in given.items()
        if member not in written or canonical(written[member]) != canonical(value)
    }
