"""One operation's document in the normal form, and back again.

Parameters and the members of a plain JSON object body become inputs of one level; the schema of the first
successful JSON response becomes the outputs. The signature's `rest` stores the document with holes where the
signature has the content, and for each hole its source in the signature. A hole is made only if filling it
restores the vendor's text exactly, so nothing is lost. Calls are built from the document with its holes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any

import msgspec

from core.canonical_json import canonical, digest
from core.outbound.errors import printable
from core.schema import Dialect, audience, directions, read_document, read_object
from protocols import members
from protocols import parameters as json_schema
from protocols.base import CallError, UnreadableItemError
from protocols.openapi import schema as openapi_schema
from protocols.openapi.document import LEFT_OUT, NAME, name_of
from protocols.openapi.schema import COMPONENT, DEFINITION, Schema, as_json_schema, as_openapi
from protocols.openapi.security import carrier, carriers, requirements
from protocols.signature import Annotations, Parameter, Signature

MAX_INPUTS = 1_000
MAX_TAG_LENGTH = 255
MAX_TAGS = 1_000
MAX_ERROR_TEXT = 1_000
# Statuses below 500 after which the same request may work later.
PASSING = ("408", "425", "429")
PLACES = ("path", "query", "querystring", "header", "cookie")
FORM = "application/x-www-form-urlencoded"

# Headers that HTTP, the credential or the body set. A parameter for one of them is ignored.
NOT_SENT = frozenset(
    [
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    ]
)
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
# Members whose own members are names that the vendor chose.
_MAPS = frozenset(
    {
        *("paths", "content", "headers", "responses", "encoding", "variables"),
        *("securitySchemes", "scopes", "security"),
    }
)
# Members of an operation's document, outside of schemas, that no model sees and no call needs.
_FOR_PEOPLE = ("example", "examples", "externalDocs", "callbacks", "links")
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

Path = tuple[str | int, ...]
Source = tuple[str, ...]
_OPERATION = ""  # at the start of a path to a hole: the operation itself


@dataclass(frozen=True, slots=True)
class Cut:
    """The document of one operation, which `Document.cut` made."""

    document: dict[str, Any]
    path: str
    method: str
    operation: dict[str, Any]

    @property
    def is_dialect(self) -> bool:
        return str(self.document.get("openapi")).startswith("3.0")

    @property
    def schemas(self) -> dict[str, Any]:
        schemas: dict[str, Any] = self.document.get("components", {}).get("schemas", {})
        return schemas

    @property
    def parameters(self) -> list[dict[str, Any]]:
        described: list[dict[str, Any]] = self.operation.get("parameters", [])
        described_names = {parameter["name"] for parameter in described if parameter["in"] == "path"}
        missing = [name for name in dict.fromkeys(names_in(self.path)) if name not in described_names]
        # Names in the path that no description mentions are a common slip of vendors.
        return described + [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in missing
        ]

    @property
    def own_servers(self) -> Any:
        """Return the servers of the operation or its path if they differ from the document's; else None."""
        return self.operation.get("servers")

    def is_input(self, parameter: Mapping[str, Any]) -> bool:
        """Return whether the caller sets this parameter, and not HTTP, the body or the credential."""
        place, name = parameter["in"], parameter["name"]
        if place == "header" and name.lower() in NOT_SENT:
            return False
        return carrier(place, name) not in carriers(self.document, self.operation)

    def file_members(self, schema: Any) -> dict[str, list[str]]:
        """Return the members of a multipart body that are files, as `files`. With `known`, each member that
        is not listed there is a file, too.
        """
        is_file_by_name: dict[str, bool] = {}
        are_others_files = False
        for part in _parts(self, schema):
            properties = part.get("properties")
            for name, member_schema in properties.items() if isinstance(properties, dict) else ():
                is_file_by_name[name] = is_file_by_name.get(name, False) or _is_file(self, member_schema)
            are_others_files = are_others_files or _is_file(self, part.get("additionalProperties"))
        files = [name for name, is_file in is_file_by_name.items() if is_file]
        return ({"files": files} if files else {}) | (
            {"known": [*is_file_by_name]} if are_others_files else {}
        )


def cut_of(document: dict[str, Any]) -> Cut:
    ((path, item),) = document["paths"].items()
    ((method, operation),) = item.items()
    return Cut(document, path, method, operation)


def names_in(path: str) -> list[str]:
    return [part.partition("}")[0] for part in path.split("{")[1:] if "}" in part]


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
            ((_OPERATION, "summary"), ("title",)),
            ((_OPERATION, "description"), ("description",)),
            ((_OPERATION, "tags"), ("tags",)),
        ]
        description = members.text(operation, "description") or title
        return {"title": title, "description": description, "tags": tuple(tags)}

    def read_parameters(self) -> None:
        # The first parameter of a name keeps it, so a path parameter is never renamed because of a header.
        ordered = sorted(enumerate(self.cut.parameters), key=lambda pair: PLACES.index(pair[1]["in"]))
        for number, parameter in ordered:
            if not self.cut.is_input(parameter):
                continue
            place: Path = (_OPERATION, "parameters", number)
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
        place: Path = (_OPERATION, "requestBody", "content", media, "schema")
        is_required = body.get("required") is True
        top, top_place = _followed(self.cut, schema, place)
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
        # The schema of the first successful response, with definitions; None if no such response has one.
        responses = self.cut.operation.get("responses")
        for code, response in (
            sorted(responses.items(), key=itemgetter(0)) if isinstance(responses, dict) else ()
        ):
            if not code.startswith("2") or not isinstance(response, dict):
                continue
            media = next((media for media in contents(response) if is_json(media)), None)
            described = contents(response).get(media) if media else None
            if isinstance(described, dict) and isinstance(described.get("schema"), dict | bool):
                place: Path = (_OPERATION, "responses", code, "content", media or "", "schema")
                top, place = _followed(self.cut, described["schema"], place)
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
        # The document with a hole at each place whose value the signature restores exactly.
        document = self.cut.document
        start = _start(document)
        fillings = _Fillings(signature, is_dialect=self.cut.is_dialect)
        filled_holes: list[tuple[Path, Source]] = []
        hollow = document
        for path, source in self.holes:
            full_path = _full_path(start, path)
            try:
                stored_value: Any = hollow
                for step in full_path:
                    stored_value = stored_value[step]
                is_filled = canonical(stored_value) == canonical(fillings.value(source))
            except (KeyError, IndexError, TypeError, AttributeError):
                continue  # the document has no value there, or an outer hole contains it, or nothing fills it
            if is_filled:
                hollow = _emptied(hollow, full_path)
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


def contents(holder: Mapping[str, Any]) -> dict[str, Any]:
    content = holder.get("content")
    return content if isinstance(content, dict) else {}


def media_of(media_types: Sequence[str]) -> str | None:
    """Return the media type that a call uses: JSON, else a form, plain text, files, lines of JSON, or the
    first one; None without any.
    """
    for fits in (is_json, is_form, is_text, is_multipart, is_lines):
        if fitting := [media for media in media_types if fits(media)]:
            return fitting[0]
    return media_types[0] if media_types else None


def bare(media: str) -> str:
    return media.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    return bare(media).endswith(("/json", "+json")) or bare(media) in ("*/*", "application/*")


def is_form(media: str) -> bool:
    return bare(media) == FORM


def is_text(media: str) -> bool:
    return bare(media) == "text/plain"


def is_multipart(media: str) -> bool:
    return bare(media) == "multipart/form-data"


def is_lines(media: str) -> bool:
    """Return whether the media type means one JSON value per line."""
    return bare(media) in ("application/x-ndjson", "application/ndjson", "application/jsonl")


def can_be_sent(media: str) -> bool:
    return any(fits(media) for fits in (is_json, is_form, is_text, is_multipart, is_lines))


def _is_file(cut: Cut, schema: Any) -> bool:
    """Return whether a member of a multipart body is a file or a list of files."""
    parts = list(_parts(cut, schema))
    parts += [inner for part in parts if "items" in part for inner in _parts(cut, part["items"])]
    return any(
        part.get("format") == "binary" or "contentMediaType" in part or "contentEncoding" in part
        for part in parts
    )


def _parts(cut: Cut, schema: Any) -> Iterator[dict[str, Any]]:
    # Yields the schema and all schemas that apply to the same value through references and combinations.
    waiting, visited_names = [schema], set()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        yield part
        for word in ("allOf", "anyOf", "oneOf"):
            waiting += part[word] if isinstance(part.get(word), list) else []
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.count("/") == COMPONENT.count("/"):
            name = openapi_schema.component_name(reference, COMPONENT)
            if name is not None and name not in visited_names:
                visited_names.add(name)
                waiting.append(cut.schemas.get(name))


def _followed(cut: Cut, schema: Any, place: Path) -> tuple[Any, Path]:
    # Resolves a schema that is a mere reference to a component. Returns the schema and its path.
    visited_names = set()
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        reference = schema["$ref"]
        name = openapi_schema.component_name(reference, COMPONENT)
        if (
            name is None
            or name in visited_names
            or reference.count("/") > COMPONENT.count("/")
            or len(schema) > 1
        ):
            break
        visited_names.add(name)
        schema, place = cut.schemas.get(name), ("components", "schemas", name)
    return schema, place


def _is_plain(schema: Any, response_only: frozenset[str], *, is_required: bool) -> bool:
    # Whether the members of a body can become inputs beside the parameters without a change of meaning.
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
            schema = builder.complete(builder.translated(_followed(cut, schema, ())[0]))
        yield CallError(
            code=code,
            description=printable(description, MAX_ERROR_TEXT) if isinstance(description, str) else "",
            is_transient=None if code == "default" else code[:1] == "5" or code in PASSING,
            details_schema=schema,
        )


def write_document(signature: Signature) -> dict[str, Any]:
    signature_rest = signature.rest or {}
    document: dict[str, Any] = signature_rest["document"]
    start = _start(document)
    fillings = _Fillings(signature, is_dialect=cut_of(document).is_dialect)
    for path, source in signature_rest["holes"]:
        document = _filled(document, _full_path(start, path), fillings.value(tuple(source)))
    return document


def audience_form(document: dict[str, Any], read_at: datetime | None) -> Any:
    """Return a form that is equal for two documents without a difference for models and calls.

    Schemas are moved out of their places into one schema with the components that they refer to.
    """
    components = document.get("components", {})
    schemas: list[Any] = []
    frame = {**document, "components": {m: v for m, v in components.items() if m != "schemas"}}
    hollow = _content_of(frame, schemas) | {"openapi": ".".join(document["openapi"].split(".")[:2])}
    root = {"$defs": components.get("schemas", {}), "allOf": schemas}
    as_definitions = openapi_schema.move_references(root, COMPONENT, DEFINITION)
    return [hollow, audience.canonical_schema(as_definitions, read_at, digest, needed={LEFT_OUT})]


def _content_of(value: Any, schemas: list[Any], under: str = "") -> Any:
    """Return a part of a document without extensions and examples.

    Each schema is moved to `schemas`, where its number refers to it. `under`: the member that holds the part.
    """
    if isinstance(value, list):
        if under == "parameters":
            value = sorted(value, key=itemgetter("in", "name"))
        # A call goes to the first server; the others are an offer to people.
        entries = value[:1] if under == "servers" else value
        return [_content_of(member_value, schemas, under) for member_value in entries]
    if not isinstance(value, dict):
        return value
    has_names = under in _MAPS
    content: dict[str, Any] = {}
    for name, member_value in sorted(value.items()):
        if has_names:
            content[name] = _content_of(member_value, schemas)
        elif name in ("schema", "itemSchema"):
            content[name] = len(schemas)
            schemas.append(member_value)
        elif name == NAME or not (audience.is_extension(name) or name in _FOR_PEOPLE):
            is_server_text = under == "servers" and name == "description"
            if name == "tags" and isinstance(member_value, list):
                content[name] = audience.in_one_order(member_value)
            elif not is_server_text:
                content[name] = _content_of(member_value, schemas, name)
    return content


class _Fillings:
    """The values of a signature that fill holes."""

    def __init__(self, signature: Signature, *, is_dialect: bool) -> None:
        self.signature = signature
        self.is_dialect = is_dialect
        input_schema = json_schema.write_schema(signature.inputs, signature.schema_rest)
        has_outputs = bool(signature.outputs) or signature.outputs_rest is not None
        self.output_schema = (
            json_schema.write_schema(signature.outputs, signature.outputs_rest) if has_outputs else None
        )
        self.inputs: dict[str, Any] = (
            input_schema.get("properties", {}) if isinstance(input_schema, dict) else {}
        )
        self.definitions = {**_definitions(self.output_schema), **_definitions(input_schema)}

    def value(self, source: Source) -> Any:
        """Return the value for a hole. Raises KeyError if the signature has none."""
        match source:
            case ("title",):
                return self.signature.title
            case ("description",):
                return self.signature.description
            case ("tags",):
                return list(self.signature.tags)
            case ("said", name):
                return self.inputs[name]["description"]
            case ("input", name):
                return self._again(self.inputs[name])
            case ("bare input", name):
                input_schema = self.inputs[name]
                return self._again(
                    {m: v for m, v in input_schema.items() if m not in ("description", "deprecated")}
                )
            case ("outputs",):
                output_schema = self.output_schema
                return self._again(
                    {m: v for m, v in output_schema.items() if m != "$defs"}
                    if isinstance(output_schema, dict)
                    else output_schema
                )
            case ("definition", name):
                return self._again(self.definitions[name])
        raise KeyError(source)

    def _again(self, schema: Any) -> Any:
        return as_openapi(schema, is_dialect=self.is_dialect)


def _definitions(schema: Any) -> dict[str, Any]:
    definitions = schema.get("$defs") if isinstance(schema, dict) else None
    return definitions if isinstance(definitions, dict) else {}


def _start(document: Mapping[str, Any]) -> Path:
    ((path, item),) = document["paths"].items()
    return ("paths", path, *item)


def _full_path(start: Path, path: Sequence[str | int]) -> Path:
    return (*start, *path[1:]) if path[0] == _OPERATION else tuple(path)


def _emptied(value: Any, path: Path) -> Any:
    # A copy without the member at `path`, which shares all other parts with the original.
    step, *below = path
    if not below:
        return {member: inner for member, inner in value.items() if member != step}
    return _replaced(value, step, _emptied(value[step], tuple(below)))


def _filled(value: Any, path: Path, filling: Any) -> Any:
    step, *below = path
    if not below:
        return {**value, step: filling}
    return _replaced(value, step, _filled(value[step], tuple(below), filling))


def _replaced(value: Any, step: Any, inner: Any) -> Any:
    if isinstance(value, list):
        return [*value[:step], inner, *value[step + 1 :]]
    return {**value, step: inner}
