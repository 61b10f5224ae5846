"""The document of one operation, with the parts of the vendor's document that it needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from protocols.openapi import schema as openapi_schema
from protocols.openapi.schema import COMPONENT
from protocols.openapi.security import carrier, carriers

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
Path = tuple[str | int, ...]


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
        for part in _parts_of(self, schema):
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


def _is_file(cut: Cut, schema: Any) -> bool:
    """Return whether a member of a multipart body is a file or a list of files."""
    parts = list(_parts_of(cut, schema))
    parts += [inner for part in parts if "items" in part for inner in _parts_of(cut, part["items"])]
    return any(
        part.get("format") == "binary" or "contentMediaType" in part or "contentEncoding" in part
        for part in parts
    )


def _parts_of(cut: Cut, schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema, and all schemas that apply to the same value through references and combinations."""
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


def resolve_reference(cut: Cut, schema: Any, place: Path) -> tuple[Any, Path]:
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
