"""One operation's document in the normal form, and back again.

Parameters and the members of a plain JSON object body become inputs side by side; what the first good
JSON answer holds becomes the outputs. The signature's `rest` keeps the document with holes where these
carry what stood there, and says for each hole what fills it. A hole is made only where filling it
gives back the vendor's own text, so that nothing is lost; calls are built out of what is left.
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

# Headers that HTTP, the credential or the body decide, and no description of an operation.
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
# An object schema that says no more than this can be taken apart without changing what it means.
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
    """What `openapi_document` cut out for one operation."""

    document: dict[str, Any]
    path: str
    method: str
    operation: dict[str, Any]

    @property
    def is_dialect(self) -> bool:
        return str(self.document.get("openapi")).startswith("3.0")

    @property
    def schemas(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document.get("components", {}).get("schemas", {})
        return found

    @property
    def parameters(self) -> list[dict[str, Any]]:
        described: list[dict[str, Any]] = self.operation.get("parameters", [])
        known = {parameter["name"] for parameter in described if parameter["in"] == "path"}
        missing = [name for name in dict.fromkeys(names_in(self.path)) if name not in known]
        # Names in the path that no description mentions are a common slip of vendors.
        return described + [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in missing
        ]

    @property
    def own_servers(self) -> Any:
        """The servers of the operation or its path, where these are not the document's; else None."""
        return self.operation.get("servers")

    def is_input(self, parameter: Mapping[str, Any]) -> bool:
        """Whether a caller gives this parameter: HTTP, the body and the credential decide others."""
        place, name = parameter["in"], parameter["name"]
        if place == "header" and name.lower() in NOT_SENT:
            return False
        return carrier(place, name) not in carriers(self.document, self.operation)


def cut_of(document: dict[str, Any]) -> Cut:
    ((path, item),) = document["paths"].items()
    ((method, operation),) = item.items()
    return Cut(document, path, method, operation)


def names_in(path: str) -> list[str]:
    return [part.partition("}")[0] for part in path.split("{")[1:] if "}" in part]


@dataclass(slots=True)
class _SignatureBuilder:
    """What is gathered on the way to a signature. `definitions` are components as JSON Schema."""

    cut: Cut
    definitions: dict[str, Any]
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    holes: list[tuple[Path, Source]] = field(default_factory=list)
    called: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    # Whether the body carries members that its schema does not list.
    has_open_body: bool = False

    def translated(self, schema: Any) -> Any:
        return as_json_schema(schema, is_dialect=self.cut.is_dialect)

    def add(self, name: str, place: str, schema: Any, *, is_required: bool) -> str:
        """Adds an input and says what it is called: by another name when this one is taken."""
        called, number = name, 1
        while called in self.properties:
            called = f"{place}_{name}" if number == 1 else f"{place}_{name}_{number}"
            number += 1
        self.properties[called] = schema
        if called != name:
            self.called[f"{place}:{name}"] = called
        if is_required:
            self.required.append(called)
        if len(self.properties) > MAX_INPUTS:
            reason = f"The operation has more than {MAX_INPUTS:,} inputs; that is the limit."
            raise UnreadableItemError("SCHEMA_TOO_BIG", reason)
        return called

    def complete(self, schema: Schema) -> Schema:
        reached: dict[str, Any] = {}
        waiting = [schema]
        while waiting:
            for reference in openapi_schema.references(waiting.pop()):
                name = openapi_schema.named_in(reference, DEFINITION)
                if name is not None and name not in reached and name in self.definitions:
                    reached[name] = self.definitions[name]
                    waiting.append(reached[name])
        return {**schema, "$defs": reached} if reached else schema


def read(document: dict[str, Any]) -> Signature:
    cut = cut_of(document)
    definitions = as_json_schema({"$defs": cut.schemas}, is_dialect=cut.is_dialect)["$defs"]
    builder = _SignatureBuilder(cut, definitions)
    texts = _texts(builder)
    _read_parameters(builder)
    _read_body(builder)
    answered = _read_answer(builder)
    asked = {"type": "object", "properties": builder.properties}
    if builder.required:
        asked["required"] = builder.required
    sent = directions.schema_for("request", builder.complete(asked), keeps_top_members=True)
    inputs = json_schema.read(sent, "inputs", whole_name="body")
    outputs = json_schema.read(answered, "outputs", whole_name="result") if answered is not None else None
    builder.holes += [(("components", "schemas", name), ("definition", name)) for name in cut.schemas]
    signature = Signature(
        **texts,
        name=document.get(NAME) or name_of(cut.path, cut.method, cut.operation),
        inputs=tuple(_marked(builder, inputs.parameters)),
        outputs=outputs.parameters if outputs else (),
        annotations=_ANNOTATIONS.get(cut.method, Annotations()),
        requirements=requirements(document, cut.operation),
        schema_rest=inputs.rest or None,
        outputs_rest=outputs.rest if outputs else None,
        # Without other keywords, `schema_rest` is None, which means the same.
        is_closed=bool(inputs.rest) and not builder.has_open_body,
    )
    return msgspec.structs.replace(signature, rest=_rest(builder, signature))


def _marked(builder: _SignatureBuilder, parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    # A body in a form that cannot be sent is shown, and stops the tool from being run.
    media = (builder.body or {}).get("media", "application/json")
    for parameter in parameters:
        if parameter.name == (builder.body or {}).get("as") and not can_be_sent(media):
            yield msgspec.structs.replace(parameter, unsupported_type=media)
        else:
            yield parameter


def _texts(builder: _SignatureBuilder) -> dict[str, Any]:
    operation = builder.cut.operation
    tags = members.array(operation, "tags")
    if len(tags) > MAX_TAGS or any(not isinstance(tag, str) or len(tag) > MAX_TAG_LENGTH for tag in tags):
        wanted = f"at most {MAX_TAGS:,} texts of at most {MAX_TAG_LENGTH} characters"
        raise members.wrong("tags", tags, wanted)
    title = members.text(operation, "summary")
    builder.holes += [
        ((_OPERATION, "summary"), ("title",)),
        ((_OPERATION, "description"), ("description",)),
        ((_OPERATION, "tags"), ("tags",)),
    ]
    description = members.text(operation, "description") or title
    return {"title": title, "description": description, "tags": tuple(tags)}


def _read_parameters(builder: _SignatureBuilder) -> None:
    # The first one keeps the plain name, so a path never loses its own to a header.
    ordered = sorted(enumerate(builder.cut.parameters), key=lambda pair: PLACES.index(pair[1]["in"]))
    for number, parameter in ordered:
        if not builder.cut.is_input(parameter):
            continue
        place: Path = (_OPERATION, "parameters", number)
        media = next(iter(contents(parameter)), None)
        inside: Path = place if media is None else (*place, "content", media)
        holder = contents(parameter)[media] if media else parameter
        schema = holder.get("schema") if isinstance(holder, dict) else None
        prop = builder.translated(schema if isinstance(schema, dict | bool) else {})
        if isinstance(prop, dict):
            said = {member: parameter.get(member) for member in ("description", "deprecated")}
            prop |= {member: value for member, value in said.items() if value}
        is_required = parameter["in"] == "path" or parameter.get("required") is True
        called = builder.add(parameter["name"], parameter["in"], prop, is_required=is_required)
        builder.holes += [
            ((*place, "description"), ("said", called)),
            ((*inside, "schema"), ("input", called)),
            ((*inside, "schema"), ("bare input", called)),
        ]


def contents(holder: Mapping[str, Any]) -> dict[str, Any]:
    content = holder.get("content")
    return content if isinstance(content, dict) else {}


def media_of(listed: Sequence[str]) -> str | None:
    """The media type that a call uses: JSON before a form, a form before plain text, then files and lines of
    JSON, then whatever comes."""
    for fits in (is_json, is_form, is_text, is_multipart, is_lines):
        if found := [media for media in listed if fits(media)]:
            return found[0]
    return listed[0] if listed else None


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
    """JSON values, one on each line."""
    return bare(media) in ("application/x-ndjson", "application/ndjson", "application/jsonl")


def can_be_sent(media: str) -> bool:
    return any(fits(media) for fits in (is_json, is_form, is_text, is_multipart, is_lines))


def _read_body(builder: _SignatureBuilder) -> None:
    # A plain object is taken apart; anything else is one input called `body`.
    body = builder.cut.operation.get("requestBody")
    if not isinstance(body, dict) or (media := media_of(list(contents(body)))) is None:
        return
    described = body["content"][media]
    schema = described.get("schema", {}) if isinstance(described, dict) else {}
    place: Path = (_OPERATION, "requestBody", "content", media, "schema")
    is_required = body.get("required") is True
    top, top_place = _followed(builder.cut, schema, place)
    files = _files(builder.cut, schema) if is_multipart(media) else {}
    has_members = is_json(media) or is_form(media) or is_multipart(media)
    answered = _names_of_answers(builder, top) if has_members else frozenset()
    if has_members and _is_plain(top, answered, is_required=is_required):
        builder.body = {"media": media, "is_object": True, "is_required": is_required, **files}
        builder.has_open_body = top.get("additionalProperties") is not False
        needed = top.get("required", [])
        for name, each in top["properties"].items():
            if name not in answered:
                is_needed = is_required and name in needed
                called = builder.add(name, "body", builder.translated(each), is_required=is_needed)
                builder.holes.append(((*top_place, "properties", name), ("input", called)))
        return
    prop = builder.translated(schema if isinstance(schema, dict | bool) else {})
    if isinstance(prop, dict) and body.get("description") and "description" not in prop:
        prop["description"] = body["description"]
    called = builder.add("body", "body", prop, is_required=is_required)
    builder.body = {"media": media, "as": called, **files}
    builder.holes += [(place, ("input", called)), (place, ("bare input", called))]


def _files(cut: Cut, schema: Any) -> dict[str, list[str]]:
    """Which members of a multipart body are `files`. Where there is `known`, so is each that is not in it."""
    known: dict[str, bool] = {}
    are_others_files = False
    for part in _parts(cut, schema):
        properties = part.get("properties")
        for name, each in properties.items() if isinstance(properties, dict) else ():
            known[name] = known.get(name, False) or _is_file(cut, each)
        are_others_files = are_others_files or _is_file(cut, part.get("additionalProperties"))
    files = [name for name, is_file in known.items() if is_file]
    return ({"files": files} if files else {}) | ({"known": [*known]} if are_others_files else {})


def _is_file(cut: Cut, schema: Any) -> bool:
    """Whether a member of a multipart body is a file, or a list of files."""
    said = list(_parts(cut, schema))
    said += [inner for each in said if "items" in each for inner in _parts(cut, each["items"])]
    return any(
        each.get("format") == "binary" or "contentMediaType" in each or "contentEncoding" in each
        for each in said
    )


def _parts(cut: Cut, schema: Any) -> Iterator[dict[str, Any]]:
    # A schema, with all that it refers to or is made of at the same place.
    waiting, seen = [schema], set()
    while waiting:
        said = waiting.pop()
        if not isinstance(said, dict):
            continue
        yield said
        for word in ("allOf", "anyOf", "oneOf"):
            waiting += said[word] if isinstance(said.get(word), list) else []
        reference = said.get("$ref")
        if isinstance(reference, str) and reference.count("/") == COMPONENT.count("/"):
            name = openapi_schema.named_in(reference, COMPONENT)
            if name is not None and name not in seen:
                seen.add(name)
                waiting.append(cut.schemas.get(name))


def _followed(cut: Cut, schema: Any, place: Path) -> tuple[Any, Path]:
    # What a schema says that may be a mere reference to a component, and where it says that.
    seen = set()
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        reference = schema["$ref"]
        name = openapi_schema.named_in(reference, COMPONENT)
        if name is None or name in seen or reference.count("/") > COMPONENT.count("/") or len(schema) > 1:
            break
        seen.add(name)
        schema, place = cut.schemas.get(name), ("components", "schemas", name)
    return schema, place


def _names_of_answers(builder: _SignatureBuilder, body: Any) -> frozenset[str]:
    """Return the members of a body that come back and are never sent."""
    schema = builder.translated(body)
    if not isinstance(schema, dict):
        return frozenset()
    schema = builder.complete(schema)
    if not directions.has_direction("request", schema):
        return frozenset()
    document = read_document(schema, Dialect.DRAFT_2020)
    found = read_object(document, document.root)
    members_of_body = found.members.values() if found else ()
    return frozenset(member.name for member in members_of_body if member.direction == "response")


def _is_plain(schema: Any, answered: frozenset[str], *, is_required: bool) -> bool:
    # Whether the members of a body mean the same when they stand beside the parameters.
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
        and all(isinstance(each, dict | bool) for each in properties.values())
        and all(name.strip() and len(name) <= members.MAX_NAME_LENGTH for name in properties)
        and (is_required or answered.issuperset(needed))
    )


def _read_answer(builder: _SignatureBuilder) -> Any:
    # The schema of the first good answer, with definitions; None when nothing is said about one.
    responses = builder.cut.operation.get("responses")
    for code, answer in sorted(responses.items(), key=itemgetter(0)) if isinstance(responses, dict) else ():
        if not code.startswith("2") or not isinstance(answer, dict):
            continue
        media = next((media for media in contents(answer) if is_json(media)), None)
        described = contents(answer).get(media) if media else None
        if isinstance(described, dict) and isinstance(described.get("schema"), dict | bool):
            place: Path = (_OPERATION, "responses", code, "content", media or "", "schema")
            top, place = _followed(builder.cut, described["schema"], place)
            told = builder.translated(top)
            builder.holes.append((place, ("outputs",)))
            return (
                directions.schema_for("response", builder.complete(told)) if isinstance(told, dict) else told
            )
    return None


def errors(signature: Signature) -> Iterator[CallError]:
    """What the operation says of answers that are no success, by their status."""
    cut = cut_of(write(signature))
    responses = cut.operation.get("responses")
    definitions = as_json_schema({"$defs": cut.schemas}, is_dialect=cut.is_dialect)["$defs"]
    builder = _SignatureBuilder(cut, definitions)
    for code, answer in sorted(responses.items(), key=itemgetter(0)) if isinstance(responses, dict) else ():
        if not isinstance(answer, dict) or not (code[:1] in ("4", "5") or code == "default"):
            continue
        said = answer.get("description")
        media = next((media for media in contents(answer) if is_json(media)), None)
        described = contents(answer).get(media) if media else None
        schema = described.get("schema") if isinstance(described, dict) else None
        if isinstance(schema, dict):
            schema = builder.complete(builder.translated(_followed(cut, schema, ())[0]))
        yield CallError(
            code=code,
            description=printable(said, MAX_ERROR_TEXT) if isinstance(said, str) else "",
            is_transient=None if code == "default" else code[:1] == "5" or code in PASSING,
            details_schema=schema,
        )


def write(signature: Signature) -> dict[str, Any]:
    rest = signature.rest or {}
    document: dict[str, Any] = rest["document"]
    start = _start(document)
    carried = _Carried(signature, is_dialect=cut_of(document).is_dialect)
    for path, source in rest["holes"]:
        document = _filled(document, _whole(start, path), carried.value(tuple(source)))
    return document


def audience_form(document: dict[str, Any], read_at: datetime | None) -> Any:
    """Return a form that is the same for two documents that no model and no call tells apart.

    Schemas are moved out of their places into one schema with the components that they refer to.
    """
    components = document.get("components", {})
    schemas: list[Any] = []
    around = {**document, "components": {m: v for m, v in components.items() if m != "schemas"}}
    hollow = _content_of(around, schemas) | {"openapi": ".".join(document["openapi"].split(".")[:2])}
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
        listed = value[:1] if under == "servers" else value
        return [_content_of(each, schemas, under) for each in listed]
    if not isinstance(value, dict):
        return value
    has_names = under in _MAPS
    content: dict[str, Any] = {}
    for name, each in sorted(value.items()):
        if has_names:
            content[name] = _content_of(each, schemas)
        elif name in ("schema", "itemSchema"):
            content[name] = len(schemas)
            schemas.append(each)
        elif name == NAME or not (audience.is_extension(name) or name in _FOR_PEOPLE):
            is_server_text = under == "servers" and name == "description"
            if name == "tags" and isinstance(each, list):
                content[name] = audience.in_one_order(each)
            elif not is_server_text:
                content[name] = _content_of(each, schemas, name)
    return content


class _Carried:
    """What a signature can fill holes with."""

    def __init__(self, signature: Signature, *, is_dialect: bool) -> None:
        self.signature = signature
        self.is_dialect = is_dialect
        asked = json_schema.write(signature.inputs, signature.schema_rest)
        is_told = bool(signature.outputs) or signature.outputs_rest is not None
        self.told = json_schema.write(signature.outputs, signature.outputs_rest) if is_told else None
        self.inputs: dict[str, Any] = asked.get("properties", {}) if isinstance(asked, dict) else {}
        self.definitions = {**_definitions(self.told), **_definitions(asked)}

    def value(self, source: Source) -> Any:
        """Raises KeyError where there is nothing."""
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
                own = self.inputs[name]
                return self._again({m: v for m, v in own.items() if m not in ("description", "deprecated")})
            case ("outputs",):
                told = self.told
                return self._again(
                    {m: v for m, v in told.items() if m != "$defs"} if isinstance(told, dict) else told
                )
            case ("definition", name):
                return self._again(self.definitions[name])
        raise KeyError(source)

    def _again(self, schema: Any) -> Any:
        return as_openapi(schema, is_dialect=self.is_dialect)


def _definitions(schema: Any) -> dict[str, Any]:
    found = schema.get("$defs") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _rest(builder: _SignatureBuilder, signature: Signature) -> dict[str, Any]:
    # The document with a hole wherever the signature gives back what stands there.
    document = builder.cut.document
    start = _start(document)
    carried = _Carried(signature, is_dialect=builder.cut.is_dialect)
    made: list[tuple[Path, Source]] = []
    hollow = document
    for path, source in builder.holes:
        whole = _whole(start, path)
        try:
            found: Any = hollow
            for step in whole:
                found = found[step]
            is_carried = canonical(found) == canonical(carried.value(source))
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # nothing stands there, or not any more, or nothing is carried
        if is_carried:
            hollow = _emptied(hollow, whole)
            made.append((path, source))
    rest: dict[str, Any] = {
        "document": hollow,
        "holes": [[list(path), list(source)] for path, source in made],
    }
    if builder.called:
        rest["called"] = builder.called
    if builder.body:
        rest["body"] = builder.body
    return rest


def _start(document: Mapping[str, Any]) -> Path:
    ((path, item),) = document["paths"].items()
    return ("paths", path, *item)


def _whole(start: Path, path: Sequence[str | int]) -> Path:
    return (*start, *path[1:]) if path[0] == _OPERATION else tuple(path)


def _emptied(value: Any, path: Path) -> Any:
    # A copy without the member at `path`; what is not on the way is shared.
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
