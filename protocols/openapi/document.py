"""One OpenAPI document, taken apart into one small document for each operation.

The document of an operation is self-contained: references to parameters, bodies and responses are inlined,
and it contains only the schemas that it reaches. So a change elsewhere in a file of 800 operations does not
change it. References to other documents are never followed.

https://spec.openapis.org/oas/v3.1.1.html
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from core import strict_json, strict_yaml
from core.canonical_json import canonical
from core.outbound.errors import ProtocolViolationError, RefusedError, printable
from core.schema import pointers, spelling
from core.strict_json import PartialDocument
from protocols import paging
from protocols.list_pages import Note, UnreadableItemError
from protocols.members import as_object
from protocols.openapi import schema as openapi_schema
from protocols.openapi import swagger
from protocols.openapi.schema import COMPONENT
from protocols.openapi.swagger import Unreadable

PLACES = ("path", "query", "header", "cookie")
METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
NAME = "x-tool-name"  # the name of an operation if its document does not contain it
LEFT_OUT = "x-left-out"
_TOO_LARGE = {LEFT_OUT: True, "description": "Left out here, because the whole would be too large."}
MAX_ITEM_BYTES = 1024 * 1024
# A model depends more on the inputs than on the outputs, so outputs have less room.
MAX_INPUTS_BYTES = 256 * 1024
MAX_OUTPUTS_BYTES = 64 * 1024
# References multiply: a document of kilobytes can unfold to gigabytes.
MAX_PARTS = 50_000
MAX_NAME_LENGTH = 64
MAX_ID_LENGTH = 255

_OPERATION_ID = re.compile(rf"(?![A-Z]+:/)[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{1,{MAX_ID_LENGTH}}}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_METHOD = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,40}")
_REVISION = re.compile(r"3\.(\d+)(?:\.|$)")


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. operation: the vendor's object. shared: the object of its path."""

    path: str
    method: str
    operation: Any
    shared: Mapping[str, Any]
    tool_id: str
    name: str

    @property
    def tags(self) -> list[str]:
        tags = self.operation.get("tags") if isinstance(self.operation, dict) else None
        return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


@dataclass(slots=True)
class _SizedSchema:
    """A schema of the document with the components that it refers to and its size in bytes."""

    schema: Any
    references: frozenset[str]
    size: int


@dataclass(slots=True)
class _Part:
    """A part of the document with inlined references, and the names of the schemas that it reaches.

    size: the number of values in the expanded form. Parts that are used often are shared in memory.
    """

    value: Any = None
    references: set[str] = field(default_factory=set)
    size: int = 0

    def grow(self, size: int) -> None:
        self.size += size
        if self.size > MAX_PARTS:
            reason = "With all that it refers to, the operation is too large to be read."
            raise UnreadableItemError("SCHEMA_TOO_BIG", reason)


class OpenApiDocument:
    """A parsed document. `operations` have the order of the document."""

    def __init__(self, root: dict[str, Any], notes: list[Note], *, is_suspect: bool = False) -> None:
        self.root = root
        self.notes = [*notes, *_note_paths_elsewhere(root)]
        match = _REVISION.match(str(root.get("openapi")))
        self.revision = int(match[1]) if match else 0  # the number after `3.`
        self.is_suspect = is_suspect
        self.operations = paging.check_item_count(list(_identify_operations(root)))
        if not self.operations and (webhooks := as_object(root.get("webhooks"))):
            raise RefusedError(
                "WEBHOOKS_ONLY",
                f"The document describes webhooks alone ({printable(', '.join(webhooks), 100)}): requests "
                "that the vendor sends to you. There is nothing in it that an agent could call. Ask the "
                "vendor for the document of its API.",
            )
        self._named = as_object(as_object(root.get("components")).get("schemas"))
        self._schemas: dict[str, _SizedSchema] = {}
        self._parts: dict[str, _Part | None] = {}

    def cut(self, operation: Operation) -> dict[str, Any]:
        """Return the operation as a document of its own. Raises UnreadableItemError."""
        raw = operation.operation
        if isinstance(raw, Unreadable):
            raise UnreadableItemError("SHAPE", raw.reason)
        if self.is_suspect and (problem := strict_json.unstorable(raw)):
            raise UnreadableItemError(problem[0], f"The operation holds {problem[1]}.")
        if not isinstance(raw, dict):
            raise UnreadableItemError("SHAPE", "The operation is not an object.")
        input_part = _Part({})
        if parameters := self._merge_parameters(operation, input_part):
            input_part.value["parameters"] = parameters
        if "requestBody" in raw:
            input_part.value["requestBody"] = self._inline_references(raw["requestBody"], input_part)
        output_part = _Part({})
        for member in raw.keys() - {"parameters", "requestBody", "servers", "security"}:
            output_part.value[member] = self._inline_references({member: raw[member]}, output_part)[member]
        security = raw.get("security", self.root.get("security"))
        operation_document = {
            **output_part.value,
            **input_part.value,
            **({} if security is None else {"security": security}),
        }
        if (own_servers := self.own_servers(operation)) is not None:
            operation_document["servers"] = own_servers
        info = as_object(self.root.get("info"))
        document = {
            "openapi": str(self.root["openapi"]),
            "info": {m: info[m] for m in ("title", "version") if isinstance(info.get(m), str)},
            "paths": {operation.path: {operation.method: operation_document}},
        }
        document |= self._surroundings(security, self._schemas_for(input_part, output_part))
        if operation.name != name_of(operation.path, operation.method, operation_document):
            document[NAME] = operation.name
        self._check_document(document)
        return document

    def own_servers(self, operation: Operation) -> Any:
        """Return the servers of the operation or its path; None if those of the document apply."""
        raw = operation.operation if isinstance(operation.operation, dict) else {}
        servers = raw.get("servers", operation.shared.get("servers"))
        # An empty list is the same as none, and some generators repeat the document's servers everywhere.
        return None if not servers or servers == self.root.get("servers") else servers

    def _surroundings(self, security: Any, schemas: dict[str, Any]) -> dict[str, Any]:
        servers = self.root.get("servers")
        components: dict[str, Any] = {"schemas": schemas} if schemas else {}
        security_schemes = as_object(as_object(self.root.get("components")).get("securitySchemes"))
        scheme_names = {
            name for way in (security if isinstance(security, list) else []) for name in as_object(way)
        }
        if schemes := {
            name: self._inline_references(security_schemes[name], _Part())
            for name in sorted(scheme_names & security_schemes.keys())
        }:
            components["securitySchemes"] = schemes
        surroundings = {"servers": servers} if servers is not None else {}
        return surroundings | ({"components": components} if components else {})

    def _check_document(self, document: dict[str, Any]) -> None:
        if self.is_suspect and (problem := strict_json.unstorable(document)):
            code, reason = problem
            raise UnreadableItemError(code, f"The operation holds {reason}.")
        size = len(canonical(document))
        if size > MAX_ITEM_BYTES:
            reason = f"The operation is {size:,} bytes of JSON; the limit is {MAX_ITEM_BYTES:,}."
            raise UnreadableItemError("SCHEMA_TOO_BIG", reason)

    def _merge_parameters(self, operation: Operation, part: _Part) -> list[Any]:
        """Return the parameters of the path and of the operation. Those of the operation override."""
        merged: dict[tuple[str, str], Any] = {}
        places = (*PLACES, "querystring") if is_of_3_2(self.root) else PLACES
        for holder in (operation.shared, operation.operation):
            raw_parameters = holder.get("parameters") or []
            if not isinstance(raw_parameters, list):
                raise UnreadableItemError("SHAPE", "“parameters” is not an array.")
            for number, raw in enumerate(raw_parameters):
                parameter = self._inline_references(raw, part)
                where = f"parameters[{number}]"
                if not isinstance(parameter, dict):
                    raise UnreadableItemError("SHAPE", f"“{where}” is not an object.")
                name, place = parameter.get("name"), parameter.get("in")
                if not (
                    isinstance(name, str) and name.strip() and isinstance(place, str) and place in places
                ):
                    reason = f"“{where}” needs a name and one of {', '.join(places)} as its place."
                    raise UnreadableItemError("SHAPE", reason)
                if place == "querystring" and not as_object(parameter.get("content")):
                    raise UnreadableItemError("SHAPE", f"“{where}” is a query string without “content”.")
                key = (name, place)
                # Removed first, so that it gets its position among the operation's parameters.
                merged.pop(key, None)
                merged[key] = parameter
        counts = Counter(place for _, place in merged)
        if counts["querystring"] > 1 or (counts["querystring"] and counts["query"]):
            reason = "A query string is the whole query: no other parameter may be in the query."
            raise UnreadableItemError("SHAPE", reason)
        return list(merged.values())

    def _inline_references(self, value: Any, part: _Part) -> Any:
        # Replaces every reference in `value` by its target. `part` collects the references to schemas
        # instead.
        part.grow(1 + len(value) // 32 if isinstance(value, str) else 1)
        if isinstance(value, list):
            return [self._inline_references(entry, part) for entry in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str):
            target = self._expand_reference(reference)
            part.references |= target.references
            part.grow(target.size)
            # Since 3.1 a reference may have these two members of its own.
            own_texts = (
                {m: value[m] for m in ("summary", "description") if m in value} if self.revision > 0 else {}
            )
            return (
                {**target.value, **own_texts}
                if own_texts and isinstance(target.value, dict)
                else target.value
            )
        inlined = {}
        for member, inner in value.items():
            if member in ("schema", "itemSchema"):
                inlined[member] = self._inline_schema(inner, part.references)
            elif member in ("example", "value") or member.startswith("x-"):
                inlined[member] = inner
            else:
                inlined[member] = self._inline_references(inner, part)
        return inlined

    def _expand_reference(self, reference: str) -> _Part:
        """Return the expanded target of a reference, cached."""
        if reference not in self._parts:
            # None marks a target that is being expanded, so a cycle is noticed.
            self._parts[reference] = None
            try:
                part = _Part()
                part.value = self._inline_references(self._find_target(reference), part)
                self._parts[reference] = part
            finally:
                if self._parts[reference] is None:
                    del self._parts[reference]
        cached_part = self._parts[reference]
        if cached_part is None:
            raise UnreadableItemError("BAD_REF", "The operation's references lead back to themselves.")
        return cached_part

    def _find_target(self, reference: str) -> Any:
        where = printable(reference, 80)
        if not reference.startswith("#"):
            raise UnreadableItemError(
                "REMOTE_REF", f"It refers to another document (“{where}”), and those are never fetched."
            )
        target = _resolve_pointer(self.root, reference)
        if target is None:
            raise UnreadableItemError("BAD_REF", f"It refers to “{where}”, which is not in the document.")
        return target

    def _inline_schema(self, schema: Any, references: set[str]) -> Any:
        """Return a schema of an operation. References to anything but a component are replaced by a component
        of their own.
        """
        found_references = set(openapi_schema.references(schema))
        if all(reference.startswith(COMPONENT) for reference in found_references):
            references |= {
                openapi_schema.component_name(reference, COMPONENT) or "" for reference in found_references
            }
            return schema
        component_references = {}
        for reference in found_references:
            component_references[reference] = reference
            if not reference.startswith(COMPONENT):
                # A schema elsewhere in the document becomes a component with its pointer as its name.
                name = reference.removeprefix("#")
                if name not in self._named:
                    self._named[name] = self._find_target(reference)
                component_references[reference] = COMPONENT + quote(pointers.escape(name), safe="~")
        references |= {
            openapi_schema.component_name(reference, COMPONENT) or ""
            for reference in component_references.values()
        }
        return spelling.with_changed_references(
            schema, component_references.__getitem__, openapi_schema.REFERENCES
        )

    def _schemas_for(self, input_part: _Part, output_part: _Part) -> dict[str, Any]:
        """Return the schemas that inputs and outputs refer to, the nearest first, each up to a size limit."""
        reached: dict[str, Any] = {}
        for part, limit in ((input_part, MAX_INPUTS_BYTES), (output_part, MAX_OUTPUTS_BYTES)):
            size = 0
            for name, component in self._reachable_schemas(part.references, reached):
                # A schema that is too large is left out, and smaller ones after it may still fit.
                fits = size + component.size <= limit
                size += component.size if fits else 0
                reached[name] = component.schema if fits else dict(_TOO_LARGE)
        return reached

    def _reachable_schemas(
        self, references: set[str], reached: dict[str, Any]
    ) -> Iterator[tuple[str, _SizedSchema]]:
        # Level by level and by name, so that equal documents always have equal results.
        visited_names = set(references)
        level = sorted(references)
        while level:
            below: set[str] = set()
            for name in level:
                component = self._schemas.get(name)
                if component is None:
                    if name not in self._named:
                        where = printable(name, 80)
                        raise UnreadableItemError(
                            "BAD_REF", f"It refers to “{where}”, which is not in the document."
                        )
                    nested: set[str] = set()
                    schema = self._inline_schema(self._named[name], nested)
                    component = _SizedSchema(schema, frozenset(nested), len(canonical(schema)))
                    self._schemas[name] = component
                if name not in reached:
                    yield name, component
                if LEFT_OUT not in (reached[name] if isinstance(reached[name], dict) else ()):
                    below |= component.references
            level = sorted(below - visited_names)
            visited_names |= below


def parse(body: bytes, times: int = 1) -> OpenApiDocument:
    """Parse a document. It may contain `times` as many values as usual.

    Raises ProtocolViolationError or RefusedError if it is not an OpenAPI document or too large.
    """
    document, notes = _parse_text(body, times)
    root = document.value
    if not isinstance(root, dict) or not ("openapi" in root or "swagger" in root):
        raise ProtocolViolationError(
            "SHAPE", "The reply is not an OpenAPI document: it has no “openapi” at its top."
        )
    if "openapi" not in root and str(root["swagger"]) != "2.0":
        raise RefusedError(
            "OLD_OPENAPI",
            f"This is a Swagger {printable(str(root['swagger']), 20)} document. Pegboard reads Swagger 2.0 "
            "and OpenAPI 3. Ask the vendor for one of these, or convert it and upload the result.",
        )
    if "openapi" in root and not _REVISION.match(str(root["openapi"])):
        raise RefusedError(
            "OLD_OPENAPI",
            f"This is OpenAPI {printable(str(root['openapi']), 20)}. Pegboard reads OpenAPI 3.0 to 3.2.",
        )
    if not isinstance(root.get("paths", {}), dict):
        raise ProtocolViolationError("SHAPE", "“paths” is not an object, so there are no operations.")
    if "openapi" not in root:
        root = swagger.converted(root)
    return OpenApiDocument(root, notes, is_suspect=document.is_suspect)


def _parse_text(body: bytes, times: int) -> tuple[PartialDocument, list[Note]]:
    start = body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if not start:
        raise ProtocolViolationError("EMPTY_REPLY", "The reply is empty.")
    if start == b"<":
        raise ProtocolViolationError(
            "NOT_JSON",
            "This is a web page. Enter the address of the OpenAPI document itself, in JSON or YAML.",
        )
    twice: list[str] = []
    if start == b"{":
        document = strict_json.loads_parts(body, times=times, repeated=twice.append)
    else:
        document = strict_yaml.loads(body, times, twice.append)
    keys = ", ".join(f"“{printable(key, 40)}”" for key in twice[:5])
    message = f"Keys stand twice in one object of the document ({keys}); the last one counts."
    return document, [Note("DUPLICATE_KEY", message)] if twice else []


def _identify_operations(root: dict[str, Any]) -> Iterator[Operation]:
    # Computed over all operations: ids and names must not depend on the administrator's filters.
    entries = list(_list_operations(root))
    counts = Counter(_operation_id(raw) for _, _, raw, _ in entries)
    identities = []
    for path, method, raw, _ in entries:
        operation_id = _operation_id(raw)
        is_own = operation_id is not None and counts[operation_id] == 1
        tool_id = operation_id if is_own and operation_id else _id_of(path, method)
        identities.append((tool_id, name_of(path, method, raw if is_own else {})))
    shared_names = {name for name, count in Counter(name for _, name in identities).items() if count > 1}
    for (path, method, raw, shared), (tool_id, name) in zip(entries, identities, strict=True):
        is_clash = name in shared_names and name != tool_id
        yield Operation(path, method, raw, shared, tool_id, _with_digest(name, tool_id) if is_clash else name)


def _list_operations(root: dict[str, Any]) -> Iterator[tuple[str, str, Any, Mapping[str, Any]]]:
    for path, item in root.get("paths", {}).items():
        shared = as_object(item)
        if isinstance(shared.get("$ref"), str):
            # A path may refer to another part of the document.
            shared = {**as_object(_resolve_pointer(root, shared["$ref"])), **shared}
        if path.startswith("x-"):
            continue
        methods = (*METHODS, "query") if is_of_3_2(root) else METHODS
        yield from ((path, method, shared[method], shared) for method in methods if method in shared)
        others = as_object(shared.get("additionalOperations")) if is_of_3_2(root) else {}
        for method, operation in others.items():
            if _METHOD.fullmatch(method) and method.lower() not in (*METHODS, "query", "trace"):
                yield path, method, operation, shared
            else:
                reason = f"“{printable(method, 40)}” is no method that “additionalOperations” may add."
                yield path, method, Unreadable(reason), shared


def is_of_3_2(root: Mapping[str, Any]) -> bool:
    """Return whether the document is OpenAPI 3.2 or later, which has more methods and parameter locations."""
    revision = _REVISION.match(str(root.get("openapi")))
    return revision is not None and int(revision[1]) >= 2


def _note_paths_elsewhere(root: dict[str, Any]) -> Iterator[Note]:
    references = [item["$ref"] for item in root.get("paths", {}).values() if "$ref" in as_object(item)]
    unresolved = [
        reference
        for reference in references
        if not (isinstance(reference, str) and _resolve_pointer(root, reference) is not None)
    ]
    if unresolved:
        what = f"{len(unresolved):,} path{'s are' if len(unresolved) > 1 else ' is'} kept in other documents"
        yield Note("PATH_ELSEWHERE", f"{what}, which are never fetched; their operations are missing.")


def _resolve_pointer(root: dict[str, Any], reference: str) -> Any:
    """Return the target of a JSON Pointer into the document; None if it does not exist."""
    try:
        steps = pointers.split_fragment(reference)
        return pointers.resolve(root, steps) if steps else None
    except pointers.PointerError:
        return None


def _operation_id(raw: Any) -> str | None:
    operation_id = raw.get("operationId") if isinstance(raw, dict) else None
    return (
        operation_id
        if isinstance(operation_id, str) and operation_id.strip() and _OPERATION_ID.fullmatch(operation_id)
        else None
    )


def _id_of(path: str, method: str) -> str:
    """Return the method and the path in a form that fits into an address; unique for each operation."""
    plain = quote(path.replace("(", "%28").replace(")", "%29"), safe="/%{}:~")
    text = f"{method.upper()}:{plain.replace('{', '(').replace('}', ')')}"
    if len(text) <= MAX_ID_LENGTH:
        return text
    # A digest distinguishes two long paths with the same beginning.
    return f"{text[: MAX_ID_LENGTH - 17]}~{_digest_of(text, 16)}"


def name_of(path: str, method: str, raw: Any) -> str:
    """Return a name for models: at most 64 letters, digits, _ and -."""
    operation_id = _operation_id(raw)
    for words in (operation_id, f"{method} {path}"):
        name = _NOT_IN_NAMES.sub("_", words or "").strip("_-")
        if name and name != method:
            return name if len(name) <= MAX_NAME_LENGTH else _with_digest(name, words or "")
    return _with_digest(method, path)


def _with_digest(name: str, text: str) -> str:
    return f"{name[: MAX_NAME_LENGTH - 7]}_{_digest_of(text, 6)}"


def _digest_of(text: str, length: int) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:length]
