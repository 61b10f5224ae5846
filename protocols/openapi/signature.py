"""One operation's document in the normal form, and back again.

Parameters and the members of a plain JSON object body become inputs of one level; the schema of the first
successful JSON response becomes the outputs. The signature's `rest` stores the document with holes where the
signature has the content, and for each hole its source in the signature. A hole is made only if filling it
restores the vendor's text exactly, so nothing is lost. Calls are built from the document with its holes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import msgspec

from core.canonical_json import canonical
from core.outbound.errors import printable
from core.schema import Dialect, directions, read_document, read_object
from protocols import members
from protocols import parameters as json_schema
from protocols.call_outcome import CallError
from protocols.list_pages import UnreadableItemError
from protocols.openapi import schema as openapi_schema
from protocols.openapi.contents import can_be_sent, contents, is_form, is_json, is_multipart, media_of
from protocols.openapi.cut import Cut, Path, cut_of, resolve_reference
from protocols.openapi.document import NAME, name_of
from protocols.openapi.holes import (
    OPERATION,
    Fillings,
    Source,
    absolute_path,
    empty_hole,
    start_of,
    write_document,
)
from protocols.openapi.schema import DEFINITION, Schema, as_json_schema
from protocols.openapi.security import requirements
from protocols.signature import Annotations, Parameter, Signature

MAX_INPUTS = 1_000
MAX_TAG_LENGTH = 255
MAX_TAGS = 1_000
MAX_ERROR_TEXT = 1_000
# Statuses below 500 after which the same request may work later.
PASSING = ("408", "425", "429")
PLACES = ("path", "query", "querystring", "header", "cookie")

# An object schema with these members only can be split into inputs without a change of its meaning.
_PLAIN = frozenset(
    [
        "type",
        "properties",
        "required",
        "title",
        "description",
        "example",
        "examples",
        "default",
        "nullable",
        "deprecated",
        "externalDocs",
        "xml",
        "additionalProperties",
    ]
)
_READ_ONLY = Annotations(read_only=True, destructive=False, idempotent=True)
_ANNOTATIONS = {
    "get": _READ_ONLY,
    "head": _READ_ONLY,
    "options": _READ_ONLY,
    "query": _READ_ONLY,
    "put": Annotations(read_only=False, idempotent=True),
    "delete": Annotations(read_only=False, destructive=True, idempotent=True),
    "post": Annotations(read_only=False),
    "patch": Annotations(read_only=False),
}


@dataclass(slots=True)
class _SignatureBuilder:
    """Collects the inputs, holes and the body of a signature. `definitions`: components as JSON Schema."""

    cut: Cut
    definitions: dict[str, Any]
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    holes: list[tuple[Path, Source]] = field(default_factory=list)
    renamed_inputs: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    # Whether the body carries members that its schema does not list.
    has_open_body: bool = False

    def translated(self, schema: Any) -> Any:
        return as_json_schema(schema, is_dialect=self.cut.is_dialect)

    def add(self, name: str, place: str, schema: Any, *, is_required: bool) -> str:
        """Add an input and return its name, which is another one if `name` is taken."""
        input_name, number = name, 1
        while input_name in self.properties:
            input_name = f"{place}_{name}" if number == 1 else f"{place}_{name}_{number}"
            number += 1
        self.properties[input_name] = schema
        if input_name != name:
            self.renamed_inputs[f"{place}:{name}"] = input_name
        if is_required:
            self.required.append(input_name)
        if len(self.properties) > MAX_INPUTS:
            reason = f"The operation has more than {MAX_INPUTS:,} inputs; that is the limit."
            raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
        return input_name

    def complete(self, schema: Schema) -> Schema:
        reached: dict[str, Any] = {}
        waiting = [schema]
        while waiting:
            for reference in openapi_schema.references(waiting.pop()):
                name = openapi_schema.component_name(reference, DEFINITION)
                if name is not None and name not in reached and name in self.definitions:
                    reached[name] = self.definitions[name]
                    waiting.append(reached[name])
        return {**schema, "$defs": reached} if reached else schema

    def read_texts(self) -> dict[str, Any]:
        operation = self.cut.operation
        tags = members.array(operation, "tags")
        if len(tags) > MAX_TAGS or any(not isinstance(tag, str) or len(tag) > MAX_TAG_LENGTH for tag in tags):
            expected = f"at most {MAX_TAGS:,} texts of at most {MAX_TAG_LENGTH} characters"
            raise members.wrong("tags", tags, expected)
        title = members.text(operation, "summary")
        self.holes += [
            ((OPERATION, "summary"), ("title",)),
            ((OPERATION, "description"), ("description",)),
            ((OPERATION, "tags"), ("tags",)),
        ]
        description = members.text(operation, "description") or title
        return {"title": title, "description": description, "tags": tuple(tags)}

    def read_parameters(self) -> None:
        # The first parameter of a name keeps it, so a path parameter is never renamed because of a header.
        ordered = sorted(enumerate(self.cut.parameters), key=lambda pair: PLACES.index(pair[1]["in"]))
        for number, parameter in ordered:
            if not self.cut.is_input(parameter):
                continue
            place: Path = (OPERATION, "parameters", number)
            media = next(iter(contents(parameter)), None)
            inside: Path = place if media is None else (*place, "content", media)
            holder = contents(parameter)[media] if media else parameter
            schema = holder.get("schema") if isinstance(holder, dict) else None
            prop = self.translated(schema if isinstance(schema, dict | bool) else {})
            if isinstance(prop, dict):
                texts = {member: parameter.get(member) for member in ("description", "deprecated")}
                prop |= {member: value for member, value in texts.items() if value}
            is_required = parameter["in"] == "path" or parameter.get("required") is True
            input_name = self.add(parameter["name"], parameter["in"], prop, is_required=is_required)
            self.holes += [
                ((*place, "description"), ("said", input_name)),
                ((*inside, "schema"), ("input", input_name)),
                ((*inside, "schema"), ("bare input", input_name)),
            ]

    def read_body(self) -> None:
        # A plain object is taken apart; anything else is one input called `body`.
        body = self.cut.operation.get("requestBody")
        if not isinstance(body, dict) or (media := media_of(list(contents(body)))) is None:
            return
        described = body["content"][media]
        schema = described.get("schema", {}) if isinstance(described, dict) else {}
        place: Path = (OPERATION, "requestBody", "content", media, "schema")
        is_required = body.get("required") is True
        top, top_place = resolve_reference(self.cut, schema, place)
        files = self.cut.file_members(schema) if is_multipart(media) else {}
        has_members = is_json(media) or is_form(media) or is_multipart(media)
        response_only = self.response_only_names(top) if has_members else frozenset()
        if has_members and _is_plain(top, response_only, is_required=is_required):
            self.body = {"media": media, "is_object": True, "is_required": is_required, **files}
            self.has_open_body = top.get("additionalProperties") is not False
            needed = top.get("required", [])
            for name, member_schema in top["properties"].items():
                if name not in response_only:
                    is_needed = is_required and name in needed
                    input_name = self.add(name, "body", self.translated(member_schema), is_required=is_needed)
                    self.holes.append(((*top_place, "properties", name), ("input", input_name)))
            return
        prop = self.translated(schema if isinstance(schema, dict | bool) else {})
        if isinstance(prop, dict) and body.get("description") and "description" not in prop:
            prop["description"] = body["description"]
        input_name = self.add("body", "body", prop, is_required=is_required)
        self.body = {"media": media, "as": input_name, **files}
        self.holes += [(place, ("input", input_name)), (place, ("bare input", input_name))]

    def response_only_names(self, body: Any) -> frozenset[str]:
        """Return the names of members that occur in responses only and are never sent."""
        schema = self.translated(body)
        if not isinstance(schema, dict):
            return frozenset()
        schema = self.complete(schema)
        if not directions.has_direction("request", schema):
            return frozenset()
        document = read_document(schema, Dialect.DRAFT_2020)
        body_object = read_object(document, document.root)
        members_of_body = body_object.members.values() if body_object else ()
        return frozenset(member.name for member in members_of_body if member.direction == "response")

    def read_answer(self) -> Any:
        """Return the schema of the first successful response, with definitions; None if no such response has
        one.
        """
        responses = self.cut.operation.get("responses")
        for code, response in (
            sorted(responses.items(), key=itemgetter(0)) if isinstance(responses, dict) else ()
        ):
            if not code.startswith("2") or not isinstance(response, dict):
                continue
            media = next((media for media in contents(response) if is_json(media)), None)
            described = contents(response).get(media) if media else None
            if isinstance(described, dict) and isinstance(described.get("schema"), dict | bool):
                place: Path = (OPERATION, "responses", code, "content", media or "", "schema")
                top, place = resolve_reference(self.cut, described["schema"], place)
                output_schema = self.translated(top)
                self.holes.append((place, ("outputs",)))
                return (
                    directions.schema_for("response", self.complete(output_schema))
                    if isinstance(output_schema, dict)
                    else output_schema
                )
        return None

    def with_unsendable_body(self, parameters: Iterable[Parameter]) -> Iterator[Parameter]:
        # A body in a form that cannot be sent is shown, and stops the tool from being run.
        media = (self.body or {}).get("media", "application/json")
        for parameter in parameters:
            if parameter.name == (self.body or {}).get("as") and not can_be_sent(media):
                yield msgspec.structs.replace(parameter, unsupported_type=media)
            else:
                yield parameter

    def build_rest(self, signature: Signature) -> dict[str, Any]:
        """Return the document with a hole at each place whose value the signature restores exactly."""
        document = self.cut.document
        start = start_of(document)
        fillings = Fillings(signature, is_dialect=self.cut.is_dialect)
        filled_holes: list[tuple[Path, Source]] = []
        hollow = document
        for path, source in self.holes:
            full_path = absolute_path(start, path)
            try:
                stored_value: Any = hollow
                for step in full_path:
                    stored_value = stored_value[step]
                is_filled = canonical(stored_value) == canonical(fillings.value(source))
            except (KeyError, IndexError, TypeError, AttributeError):
                continue  # the document has no value there, or an outer hole contains it, or nothing fills it
            if is_filled:
                hollow = empty_hole(hollow, full_path)
                filled_holes.append((path, source))
        signature_rest: dict[str, Any] = {
            "document": hollow,
            "holes": [[list(path), list(source)] for path, source in filled_holes],
        }
        if self.renamed_inputs:
            signature_rest["called"] = self.renamed_inputs
        if self.body:
            signature_rest["body"] = self.body
        return signature_rest


def read_signature(document: dict[str, Any]) -> Signature:
    cut = cut_of(document)
    definitions = as_json_schema({"$defs": cut.schemas}, is_dialect=cut.is_dialect)["$defs"]
    builder = _SignatureBuilder(cut, definitions)
    texts = builder.read_texts()
    builder.read_parameters()
    builder.read_body()
    output_schema = builder.read_answer()
    input_schema = {"type": "object", "properties": builder.properties}
    if builder.required:
        input_schema["required"] = builder.required
    request_schema = directions.schema_for("request", builder.complete(input_schema), keeps_top_members=True)
    inputs = json_schema.read_schema(request_schema, "inputs", whole_name="body")
    outputs = (
        json_schema.read_schema(output_schema, "outputs", whole_name="result")
        if output_schema is not None
        else None
    )
    builder.holes += [(("components", "schemas", name), ("definition", name)) for name in cut.schemas]
    signature = Signature(
        **texts,
        name=document.get(NAME) or name_of(cut.path, cut.method, cut.operation),
        inputs=tuple(builder.with_unsendable_body(inputs.parameters)),
        outputs=outputs.parameters if outputs else (),
        annotations=_ANNOTATIONS.get(cut.method, Annotations()),
        requirements=requirements(document, cut.operation),
        schema_rest=inputs.rest or None,
        outputs_rest=outputs.rest if outputs else None,
        # Without other keywords, `schema_rest` is None, which means the same.
        is_closed=bool(inputs.rest) and not builder.has_open_body,
    )
    return msgspec.structs.replace(signature, rest=builder.build_rest(signature))


def _is_plain(schema: Any, response_only: frozenset[str], *, is_required: bool) -> bool:
    """Return whether the members of a body can become inputs beside the parameters without a change of
    meaning.
    """
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return False
    needed = schema.get("required", [])
    return (
        all(member in _PLAIN or member.startswith("x-") for member in schema)
        and schema.get("type", "object") == "object"
        and schema.get("additionalProperties", False) is False
        and schema.get("nullable") is not True
        and isinstance(needed, list)
        and all(isinstance(name, str) and name in properties for name in needed)
        and all(isinstance(member_schema, dict | bool) for member_schema in properties.values())
        and all(name.strip() and len(name) <= members.MAX_NAME_LENGTH for name in properties)
        and (is_required or response_only.issuperset(needed))
    )


def errors(signature: Signature) -> Iterator[CallError]:
    """Yield the errors that the operation declares, by status."""
    cut = cut_of(write_document(signature))
    responses = cut.operation.get("responses")
    definitions = as_json_schema({"$defs": cut.schemas}, is_dialect=cut.is_dialect)["$defs"]
    builder = _SignatureBuilder(cut, definitions)
    for code, response in sorted(responses.items(), key=itemgetter(0)) if isinstance(responses, dict) else ():
        if not isinstance(response, dict) or not (code[:1] in ("4", "5") or code == "default"):
            continue
        description = response.get("description")
        media = next((media for media in contents(response) if is_json(media)), None)
        described = contents(response).get(media) if media else None
        schema = described.get("schema") if isinstance(described, dict) else None
        if isinstance(schema, dict):
            schema = builder.complete(builder.translated(resolve_reference(cut, schema, ())[0]))
        yield CallError(
            code=code,
            description=printable(description, MAX_ERROR_TEXT) if isinstance(description, str) else "",
            is_transient=None if code == "default" else code[:1] == "5" or code in PASSING,
            details_schema=schema,
        )
