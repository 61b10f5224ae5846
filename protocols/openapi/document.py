"""One OpenAPI document, taken apart into one small document for each operation.

What is cut out for an operation stands on its own: parameters, bodies and responses in full in place
of references, and of the schemas only those that it reaches. So a change elsewhere in a file of 800
operations does not touch it. No reference out of the document is ever followed.

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
from protocols.base import Note, UnreadableItemError
from protocols.openapi import schema as openapi_schema
from protocols.openapi import swagger
from protocols.openapi.schema import COMPONENT
from protocols.openapi.swagger import Unreadable

PLACES = ("path", "query", "header", "cookie")
METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
NAME = "x-tool-name"  # what an operation is called, where its own words do not say it
LEFT_OUT = "x-left-out"
_TOO_LARGE = {LEFT_OUT: True, "description": "Left out here, because the whole would be too large."}
MAX_ITEM_BYTES = 1024 * 1024
# What a model has to read matters more than what it gets back, so outputs have less.
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
    """One method of one path. `operation` is the vendor's object, `shared` what its path says for all."""

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
class _Reached:
    """A schema of the document with what it refers to and how large it is."""

    schema: Any
    references: frozenset[str]
    size: int


@dataclass(slots=True)
class _Part:
    """Something cut out: with its references put in place, and the schemas that it reaches.

    `size` counts what it would be written out, because parts that are used often are shared here.
    """

    value: Any = None
    references: set[str] = field(default_factory=set)
    size: int = 0

    def grow(self, size: int) -> None:
        self.size += size
        if self.size > MAX_PARTS:
            reason = "With all that it refers to, the operation is too large to be read."
            raise UnreadableItemError("SCHEMA_TOO_BIG", reason)


class Document:
    """A whole file, parsed. `operations` are in its own order."""

    def __init__(self, root: dict[str, Any], notes: list[Note], *, is_suspect: bool = False) -> None:
        self.root = root
        self.notes = [*notes, *_paths_elsewhere(root)]
        match = _REVISION.match(str(root.get("openapi")))
        self.revision = int(match[1]) if match else 0  # the number after `3.`
        self.is_suspect = is_suspect
        self.operations = paging.counted(list(_operations(root)))
        if not self.operations and (webhooks := _object(root.get("webhooks"))):
            raise RefusedError(
                "WEBHOOKS_ONLY",
                f"The document describes webhooks alone ({printable(', '.join(webhooks), 100)}): requests "
                "that the vendor sends to you. There is nothing in it that an agent could call. Ask the "
                "vendor for the document of its API.",
            )
        self._named = _object(_object(root.get("components")).get("schemas"))
        self._schemas: dict[str, _Reached] = {}
        self._parts: dict[str, _Part | None] = {}

    def cut(self, operation: Operation) -> dict[str, Any]:
        """The operation as an OpenAPI document of its own. Raises UnreadableItemError."""
        raw = operation.operation
        if isinstance(raw, Unreadable):
            raise UnreadableItemError("SHAPE", raw.reason)
        if self.is_suspect and (problem := strict_json.unstorable(raw)):
            raise UnreadableItemError(problem[0], f"The operation holds {problem[1]}.")
        if not isinstance(raw, dict):
            raise UnreadableItemError("SHAPE", "The operation is not an object.")
        asks = _Part({})
        if parameters := self._parameters(operation, asks):
            asks.value["parameters"] = parameters
        if "requestBody" in raw:
            asks.value["requestBody"] = self._placed(raw["requestBody"], asks)
        tells = _Part({})
        for member in raw.keys() - {"parameters", "requestBody", "servers", "security"}:
            tells.value[member] = self._placed({member: raw[member]}, tells)[member]
        security = raw.get("security", self.root.get("security"))
        whole = {**tells.value, **asks.value, **({} if security is None else {"security": security})}
        if (own_servers := self.own_servers(operation)) is not None:
            whole["servers"] = own_servers
        said = _object(self.root.get("info"))
        document = {
            "openapi": str(self.root["openapi"]),
            "info": {m: said[m] for m in ("title", "version") if isinstance(said.get(m), str)},
            "paths": {operation.path: {operation.method: whole}},
        }
        document |= self._around(security, self._schemas_for(asks, tells))
        if operation.name != name_of(operation.path, operation.method, whole):
            document[NAME] = operation.name
        self._check(document)
        return document

    def own_servers(self, operation: Operation) -> Any:
        """Return the servers of the operation or its path; None where the document's own count."""
        raw = operation.operation if isinstance(operation.operation, dict) else {}
        servers = raw.get("servers", operation.shared.get("servers"))
        # An empty list is the same as none, and some generators repeat the document's servers everywhere.
        return None if not servers or servers == self.root.get("servers") else servers

    def _around(self, security: Any, schemas: dict[str, Any]) -> dict[str, Any]:
        servers = self.root.get("servers")
        components: dict[str, Any] = {"schemas": schemas} if schemas else {}
        known = _object(_object(self.root.get("components")).get("securitySchemes"))
        wanted = {name for way in (security if isinstance(security, list) else []) for name in _object(way)}
        if schemes := {name: self._placed(known[name], _Part()) for name in sorted(wanted & known.keys())}:
            components["securitySchemes"] = schemes
        around = {"servers": servers} if servers is not None else {}
        return around | ({"components": components} if components else {})

    def _check(self, document: dict[str, Any]) -> None:
        if self.is_suspect and (problem := strict_json.unstorable(document)):
            code, reason = problem
            raise UnreadableItemError(code, f"The operation holds {reason}.")
        size = len(canonical(document))
        if size > MAX_ITEM_BYTES:
            reason = f"The operation is {size:,} bytes of JSON; the limit is {MAX_ITEM_BYTES:,}."
            raise UnreadableItemError("SCHEMA_TOO_BIG", reason)

    def _parameters(self, operation: Operation, part: _Part) -> list[Any]:
        # Those of the path and those of the operation.
        merged: dict[tuple[str, str], Any] = {}
        # The operation's own come last, and win.
        for holder in (operation.shared, operation.operation):
            listed = holder.get("parameters") or []
            if not isinstance(listed, list):
                raise UnreadableItemError("SHAPE", "“parameters” is not an array.")
            for number, raw in enumerate(listed):
                parameter = self._placed(raw, part)
                key = _called(parameter, f"parameters[{number}]", is_of_3_2=is_of_3_2(self.root))
                # Taken out first, so that it stands where the operation has it.
                merged.pop(key, None)
                merged[key] = parameter
        places = Counter(place for _, place in merged)
        if places["querystring"] > 1 or (places["querystring"] and places["query"]):
            reason = "A query string is the whole query: no other parameter may be in the query."
            raise UnreadableItemError("SHAPE", reason)
        return list(merged.values())

    def _placed(self, value: Any, part: _Part) -> Any:
        # `value` with every reference replaced by what it leads to, schemas aside: `part` notes those.
        part.grow(1 + len(value) // 32 if isinstance(value, str) else 1)
        if isinstance(value, list):
            return [self._placed(each, part) for each in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str):
            known = self._part(reference)
            part.references |= known.references
            part.grow(known.size)
            # Only 3.1 lets a reference say something of its own, and only these two.
            own = {m: value[m] for m in ("summary", "description") if m in value} if self.revision > 0 else {}
            return {**known.value, **own} if own and isinstance(known.value, dict) else known.value
        placed = {}
        for member, inner in value.items():
            if member in ("schema", "itemSchema"):
                placed[member] = self._schema(inner, part.references)
            elif member in ("example", "value") or member.startswith("x-"):
                placed[member] = inner
            else:
                placed[member] = self._placed(inner, part)
        return placed

    def _part(self, reference: str) -> _Part:
        # What a reference leads to, worked out once.
        if reference not in self._parts:
            # None marks what is being worked out, by which one that leads back to itself is noticed.
            self._parts[reference] = None
            try:
                part = _Part()
                part.value = self._placed(self._target(reference), part)
                self._parts[reference] = part
            finally:
                if self._parts[reference] is None:
                    del self._parts[reference]
        known = self._parts[reference]
        if known is None:
            raise UnreadableItemError("BAD_REF", "The operation's references lead back to themselves.")
        return known

    def _target(self, reference: str) -> Any:
        where = printable(reference, 80)
        if not reference.startswith("#"):
            raise UnreadableItemError(
                "REMOTE_REF", f"It refers to another document (“{where}”), and those are never fetched."
            )
        found = _at(self.root, reference)
        if found is None:
            raise UnreadableItemError("BAD_REF", f"It refers to “{where}”, which is not in the document.")
        return found

    def _schema(self, schema: Any, references: set[str]) -> Any:
        # A schema of an operation. Its references are noted; those that lead elsewhere get a component.
        found = set(openapi_schema.references(schema))
        if all(each.startswith(COMPONENT) for each in found):
            references |= {openapi_schema.named_in(each, COMPONENT) or "" for each in found}
            return schema
        led = {each: self._led(each) for each in found}
        references |= {openapi_schema.named_in(each, COMPONENT) or "" for each in led.values()}
        return spelling.with_changed_references(schema, led.__getitem__, openapi_schema.REFERENCES)

    def _led(self, reference: str) -> str:
        if reference.startswith(COMPONENT):
            return reference
        # A schema that stands somewhere else in the document gets a component named by its place.
        name = reference.removeprefix("#")
        if name not in self._named:
            self._named[name] = self._target(reference)
        return COMPONENT + quote(pointers.escape(name), safe="~")

    def _component(self, name: str) -> _Reached:
        known = self._schemas.get(name)
        if known is None:
            if name not in self._named:
                where = printable(name, 80)
                raise UnreadableItemError("BAD_REF", f"It refers to “{where}”, which is not in the document.")
            references: set[str] = set()
            schema = self._schema(self._named[name], references)
            known = _Reached(schema, frozenset(references), len(canonical(schema)))
            self._schemas[name] = known
        return known

    def _schemas_for(self, asks: _Part, tells: _Part) -> dict[str, Any]:
        # All that inputs and outputs reach, up to a limit for each, the nearest first.
        reached: dict[str, Any] = {}
        for part, limit in ((asks, MAX_INPUTS_BYTES), (tells, MAX_OUTPUTS_BYTES)):
            size = 0
            for name, component in self._near(part.references, reached):
                # One that is too large leaves its place to smaller ones after it.
                fits = size + component.size <= limit
                size += component.size if fits else 0
                reached[name] = component.schema if fits else dict(_TOO_LARGE)
        return reached

    def _near(self, references: set[str], reached: dict[str, Any]) -> Iterator[tuple[str, _Reached]]:
        # Level by level and in order of names, so that the same document is always cut in the same way.
        seen = set(references)
        level = sorted(references)
        while level:
            below: set[str] = set()
            for name in level:
                component = self._component(name)
                if name not in reached:
                    yield name, component
                if LEFT_OUT not in (reached[name] if isinstance(reached[name], dict) else ()):
                    below |= component.references
            level = sorted(below - seen)
            seen |= below


def parse(body: bytes, times: int = 1) -> Document:
    """Raises ProtocolViolationError or RefusedError for what is no OpenAPI document, or too much of one.

    It may hold so many `times` as many values as usual.
    """
    document, notes = _parsed(body, times)
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
    return Document(root, notes, is_suspect=document.is_suspect)


def _parsed(body: bytes, times: int) -> tuple[PartialDocument, list[Note]]:
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
        document = strict_json.loads_parts(body, times, twice.append)
    else:
        document = strict_yaml.loads(body, times, twice.append)
    keys = ", ".join(f"“{printable(key, 40)}”" for key in twice[:5])
    message = f"Keys stand twice in one object of the document ({keys}); the last one counts."
    return document, [Note("DUPLICATE_KEY", message)] if twice else []


def _operations(root: dict[str, Any]) -> Iterator[Operation]:
    # Ids and names must not depend on what an administrator includes or excludes.
    listed = list(_listed(root))
    counts = Counter(_operation_id(raw) for _, _, raw, _ in listed)
    called = []
    for path, method, raw, _ in listed:
        own = _operation_id(raw)
        is_own = own is not None and counts[own] == 1
        tool_id = own if is_own and own else _id_of(path, method)
        called.append((tool_id, name_of(path, method, raw if is_own else {})))
    shared_names = {name for name, count in Counter(name for _, name in called).items() if count > 1}
    for (path, method, raw, shared), (tool_id, name) in zip(listed, called, strict=True):
        is_clash = name in shared_names and name != tool_id
        yield Operation(path, method, raw, shared, tool_id, _marked(name, tool_id) if is_clash else name)


def _listed(root: dict[str, Any]) -> Iterator[tuple[str, str, Any, Mapping[str, Any]]]:
    for path, item in root.get("paths", {}).items():
        shared = _object(item)
        if isinstance(shared.get("$ref"), str):
            # A path may be written down elsewhere in the document.
            shared = {**_object(_at(root, shared["$ref"])), **shared}
        if path.startswith("x-"):
            continue
        methods = (*METHODS, "query") if is_of_3_2(root) else METHODS
        yield from ((path, method, shared[method], shared) for method in methods if method in shared)
        others = _object(shared.get("additionalOperations")) if is_of_3_2(root) else {}
        for method, operation in others.items():
            if _METHOD.fullmatch(method) and method.lower() not in (*METHODS, "query", "trace"):
                yield path, method, operation, shared
            else:
                reason = f"“{printable(method, 40)}” is no method that “additionalOperations” may add."
                yield path, method, Unreadable(reason), shared


def is_of_3_2(root: Mapping[str, Any]) -> bool:
    """Whether the document is of OpenAPI 3.2 or later, which has more methods and places."""
    revision = _REVISION.match(str(root.get("openapi")))
    return revision is not None and int(revision[1]) >= 2


def _paths_elsewhere(root: dict[str, Any]) -> Iterator[Note]:
    references = [item["$ref"] for item in root.get("paths", {}).values() if "$ref" in _object(item)]
    lost = [each for each in references if not (isinstance(each, str) and _at(root, each) is not None)]
    if lost:
        what = f"{len(lost):,} path{'s are' if len(lost) > 1 else ' is'} kept in other documents"
        yield Note("PATH_ELSEWHERE", f"{what}, which are never fetched; their operations are missing.")


def _at(root: dict[str, Any], reference: str) -> Any:
    # What a JSON Pointer into the document leads to; None where there is nothing.
    try:
        steps = pointers.split_fragment(reference)
        return pointers.resolve(root, steps) if steps else None
    except pointers.PointerError:
        return None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _operation_id(raw: Any) -> str | None:
    own = raw.get("operationId") if isinstance(raw, dict) else None
    return own if isinstance(own, str) and own.strip() and _OPERATION_ID.fullmatch(own) else None


def _id_of(path: str, method: str) -> str:
    # The method and the path in a form that fits into an address; no two operations share one.
    plain = quote(path.replace("(", "%28").replace(")", "%29"), safe="/%{}:~")
    text = f"{method.upper()}:{plain.replace('{', '(').replace('}', ')')}"
    if len(text) <= MAX_ID_LENGTH:
        return text
    # The mark of the whole keeps apart two long paths that begin alike.
    return f"{text[: MAX_ID_LENGTH - 17]}~{_mark(text, 16)}"


def name_of(path: str, method: str, raw: Any) -> str:
    """What a model may call the operation: letters, digits, _ and -, at most 64 of them."""
    own = _operation_id(raw)
    for words in (own, f"{method} {path}"):
        name = _NOT_IN_NAMES.sub("_", words or "").strip("_-")
        if name and name != method:
            return name if len(name) <= MAX_NAME_LENGTH else _marked(name, words or "")
    return _marked(method, path)


def _marked(name: str, text: str) -> str:
    return f"{name[: MAX_NAME_LENGTH - 7]}_{_mark(text, 6)}"


def _mark(text: str, length: int) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:length]


def _called(parameter: Any, where: str, *, is_of_3_2: bool) -> tuple[str, str]:
    if not isinstance(parameter, dict):
        raise UnreadableItemError("SHAPE", f"“{where}” is not an object.")
    name, place = parameter.get("name"), parameter.get("in")
    places = (*PLACES, "querystring") if is_of_3_2 else PLACES
    if not isinstance(name, str) or not name.strip() or not isinstance(place, str) or place not in places:
        reason = f"“{where}” needs a name and one of {', '.join(places)} as its place."
        raise UnreadableItemError("SHAPE", reason)
    if place == "querystring" and not _object(parameter.get("content")):
        raise UnreadableItemError("SHAPE", f"“{where}” is a query string without “content”.")
    return name, place
