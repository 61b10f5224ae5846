"""Resolve the references of a schema within its own document.

The identifiers in `$id` and `$anchor` are read once. A target is a path: the steps from the root. Nothing
is fetched. `$dynamicRef` and `$recursiveRef` point to the outermost schema with the dynamic anchor.
Validation starts at the root, so that is the root if it has the anchor, otherwise the only schema that has
it. With several of them the target depends on the path of the validation, and the reference is ambiguous.

https://json-schema.org/draft/2020-12/json-schema-core, sections 8.2 and 9.2
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urldefrag, urljoin

from core.schema import pointers, subschemas
from core.schema.dialects import REFERENCE_STANDS_ALONE, Dialect, dialect_of
from core.schema.pointers import PointerError, Steps


class UnresolvedReferenceError(LookupError):
    """A reference points to no schema of the document. `code`: BROKEN_REF, REMOTE_REF, AMBIGUOUS_REF."""

    def __init__(self, code: str, reference: str) -> None:
        super().__init__(reference)
        self.code = code
        self.reference = reference


@dataclass(frozen=True, slots=True)
class Resource:
    """A schema with an identifier of its own, or the whole document. `uri` has no fragment."""

    uri: str
    steps: Steps


@dataclass(slots=True)
class References:
    """The identifiers of one document as the vendor wrote it."""

    root: Any
    dialect: Dialect
    # By the identity of the schema objects, which `root` keeps alive.
    resources: dict[int, Resource] = field(default_factory=dict)
    by_uri: dict[str, Resource] = field(default_factory=dict)
    anchors: dict[tuple[str, str], Steps] = field(default_factory=dict)
    dynamic_anchors: dict[str, dict[str, Steps]] = field(default_factory=dict)
    recursive: list[Resource] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.read(self.root, Resource("", ()), ())

    def read(self, schema: Any, resource: Resource, steps: Steps) -> None:
        """Read the identifiers of the schema at `steps` and of those below it."""
        waiting = [(schema, resource, steps)]
        while waiting:
            part, outer, place = waiting.pop()
            if not isinstance(part, dict) or id(part) in self.resources:
                continue
            uri, inside = part.get("id" if self.dialect is Dialect.DRAFT_4 else "$id"), outer
            is_ignored = "$ref" in part and self.dialect in REFERENCE_STANDS_ALONE
            if isinstance(uri, str) and not uri.startswith("#") and not is_ignored:
                inside = Resource(_join_uri(outer.uri, uri), place)
            self.resources[id(part)] = inside
            self.by_uri.setdefault(inside.uri, inside)
            for keyword in ("$anchor", "$dynamicAnchor", "$id", "id"):
                name = part.get(keyword)
                if not isinstance(name, str):
                    continue
                if keyword in ("$id", "id"):
                    # Up to draft 7, an identifier that is a fragment alone is an anchor.
                    if not name.startswith("#") or len(name) == 1:
                        continue
                    name = name[1:]
                self.anchors.setdefault((inside.uri, name), place)
                if keyword == "$dynamicAnchor":
                    self.dynamic_anchors.setdefault(name, {}).setdefault(inside.uri, place)
            if part.get("$recursiveAnchor") is True and inside.steps == place:
                self.recursive.append(inside)
            waiting += [(child, inside, (*place, *tail)) for tail, child in children(part)]

    def target(self, keyword: str, schema: dict[str, Any]) -> tuple[Steps, Any]:
        """Return the path and the schema that one of `subschemas.REFERENCES` points to.

        Raises UnresolvedReferenceError.
        """
        reference, resource = schema[keyword], self.resources[id(schema)]
        if not isinstance(reference, str):
            raise UnresolvedReferenceError("BROKEN_REF", "")
        steps = self._steps_to(reference, resource)
        if keyword == "$dynamicRef":
            _, _, name = reference.partition("#")
            offers = self.dynamic_anchors.get(name, {})
            steps = steps if steps not in offers.values() else self._outermost_anchor(reference, offers)
        elif keyword == "$recursiveRef" and any(resource.steps == steps for resource in self.recursive):
            steps = self._outermost_anchor(
                reference, {resource.uri: resource.steps for resource in self.recursive}
            )
        try:
            target = pointers.resolve(self.root, steps)
        except PointerError as exc:
            raise UnresolvedReferenceError("BROKEN_REF", reference) from exc
        if not isinstance(target, dict | bool):
            raise UnresolvedReferenceError("BROKEN_REF", reference)
        if isinstance(target, dict) and id(target) not in self.resources:
            # It is below a keyword of the vendor's own.
            self.read(target, resource, steps)
        return steps, target

    def _steps_to(self, reference: str, resource: Resource) -> Steps:
        uri, _, fragment = reference.partition("#")
        if uri:
            target_resource = self.by_uri.get(_join_uri(resource.uri, uri))
            if target_resource is None:
                raise UnresolvedReferenceError("REMOTE_REF", reference)
            resource = target_resource
        try:
            fragment = pointers.decode_fragment(fragment)
            if fragment and not fragment.startswith("/"):
                return self.anchors[resource.uri, fragment]
            inside = pointers.split(fragment)
            pointers.resolve(self.root, (*resource.steps, *inside))
        except LookupError:
            # Vendors give an inner schema an `$id` and still write pointers from the top of the document.
            uri, _, fragment = reference.partition("#")
            try:
                fragment = pointers.decode_fragment(fragment)
                if uri:
                    raise UnresolvedReferenceError("BROKEN_REF", reference)
                if not fragment.startswith("/"):
                    (place,) = [steps for (_, name), steps in self.anchors.items() if name == fragment]
                    return place
                return pointers.split(fragment)
            except (PointerError, ValueError) as exc:
                raise UnresolvedReferenceError("BROKEN_REF", reference) from exc
        return (*resource.steps, *inside)

    def _outermost_anchor(self, reference: str, offers: dict[str, Steps]) -> Steps:
        root = self.resources[id(self.root)]
        if root.uri in offers:
            return offers[root.uri]
        if len(offers) > 1:
            raise UnresolvedReferenceError("AMBIGUOUS_REF", reference)
        return next(iter(offers.values()))


def remote_reference(schema: object) -> str:
    """Return a reference to another document; "" without one."""
    if all(reference.startswith("#") for reference in subschemas.references(schema)):
        return ""
    references = References(schema, dialect_of(schema))
    for subschema in subschemas.walk(schema):
        for keyword in subschemas.REFERENCES:
            try:
                if keyword in subschema:
                    references.target(keyword, subschema)
            except UnresolvedReferenceError as error:
                if error.code == "REMOTE_REF":
                    return error.reference
    return ""


def children(schema: dict[str, Any]) -> Iterator[tuple[Steps, Any]]:
    """Yield each schema right inside, with the steps to it."""
    for keyword, name, child in subschemas.children(schema):
        yield ((keyword,) if name is None else (keyword, name)), child


def _join_uri(base: str, reference: str) -> str:
    try:
        return urldefrag(urljoin(base, reference)).url or reference
    except ValueError:
        return reference
