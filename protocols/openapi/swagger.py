"""A Swagger 2.0 document as an OpenAPI 3.0 document. Pure: nothing is fetched.

Operations that OpenAPI 3.0 cannot describe become `Unreadable`, so that each is rejected with its reason.

https://spec.openapis.org/oas/v2.0.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.schema import pointers, subschemas
from protocols.members import as_list, as_object
from protocols.openapi import schema as openapi_schema
from protocols.openapi.schema import Schema

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
_MAX_REFERENCES = 20
# Members of a parameter that describe its value: they make the schema.
_OF_SCHEMAS = (
    *("type", "format", "items", "default", "enum", "multipleOf", "pattern", "uniqueItems"),
    *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    *("maxLength", "minLength", "maxItems", "minItems", "x-nullable"),
)
_STYLES = {"csv": "form", "multi": "form", "ssv": "spaceDelimited", "pipes": "pipeDelimited"}
_FLOWS = {"application": "clientCredentials", "accessCode": "authorizationCode"}


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Takes the place of an operation that cannot be read."""

    reason: str


class _UnconvertibleError(Exception):
    pass


@dataclass(frozen=True)
class _Converter:
    root: Mapping[str, Any]

    def servers(self, schemes: Any) -> list[dict[str, str]]:
        path = str(self.root.get("basePath") or "/")
        host = self.root.get("host")
        if not isinstance(host, str) or not host:
            return [{"url": path}]
        supported = [scheme for scheme in as_list(schemes) if scheme in ("http", "https")]
        # Where the document leaves a choice, calls use the scheme by which the document itself is read.
        scheme = f"{supported[0]}:" if len(supported) == 1 else ""
        return [{"url": f"{scheme}//{host}/{path.lstrip('/')}".rstrip("/")}]

    def path_item(self, item: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(item.get("$ref"), str):
            item = {**as_object(self.resolved(item)), **{m: v for m, v in item.items() if m != "$ref"}}
        converted_item: dict[str, Any] = {}
        for method in METHODS:
            if method in item:
                converted_item[method] = self.operation(item, item[method])
        return converted_item

    def operation(self, item: Mapping[str, Any], operation: Any) -> Any:
        if not isinstance(operation, dict):
            return operation
        try:
            parameters = self.parameters(item, operation)
            body = self.body(operation, parameters)
            plain = [
                _convert_parameter(row) for row in parameters if row.get("in") not in ("body", "formData")
            ]
        except _UnconvertibleError as error:
            return Unreadable(str(error))
        dropped = {"parameters", "consumes", "produces", "schemes", "responses", "requestBody", "servers"}
        converted_operation = {member: value for member, value in operation.items() if member not in dropped}
        produced = _media_types(operation.get("produces", self.root.get("produces"))) or [JSON]
        responses = {}
        for code, raw in as_object(operation.get("responses")).items():
            response = self.resolved(raw)
            if not isinstance(response, dict):
                continue
            converted_response = {"description": response.get("description", "")}
            if "schema" in response:
                described = {"schema": _convert_schema(response["schema"])}
                converted_response["content"] = {media: dict(described) for media in produced}
            responses[str(code)] = converted_response
        converted_operation["responses"] = responses
        if plain:
            converted_operation["parameters"] = plain
        if body:
            converted_operation["requestBody"] = body
        servers = self.servers(operation.get("schemes", self.root.get("schemes")))
        if servers != self.servers(self.root.get("schemes")):
            converted_operation["servers"] = servers
        return converted_operation

    def parameters(self, item: Mapping[str, Any], operation: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the parameters of the path and the operation, which override; at most one is a body."""
        merged: dict[tuple[object, object], dict[str, Any]] = {}
        for holder in (item, operation):
            rows = holder.get("parameters") or []
            if not isinstance(rows, list):
                raise _UnconvertibleError("“parameters” is not an array.")
            for raw in rows:
                parameter = self.resolved(raw)
                if not isinstance(parameter, dict):
                    raise _UnconvertibleError(
                        "A parameter is no object, or refers to nothing in the document."
                    )
                place = parameter.get("in")
                key = (place, "" if place == "body" else str(parameter.get("name")))
                merged.pop(key, None)
                merged[key] = parameter
        return list(merged.values())

    def body(self, operation: Mapping[str, Any], parameters: list[dict[str, Any]]) -> dict[str, Any] | None:
        consumed = _media_types(operation.get("consumes", self.root.get("consumes")))
        fields = [row for row in parameters if row.get("in") == "formData"]
        if fields:
            has_files = any(field.get("type") == "file" for field in fields)
            is_multipart = has_files or (MULTIPART in consumed and FORM not in consumed)
            properties, encodings = {}, {}
            for field in fields:
                name = str(field.get("name"))
                properties[name] = _value_schema(field)
                if isinstance(properties[name], dict) and "description" in field:
                    properties[name]["description"] = field["description"]
                if field.get("type") == "array":
                    style, explode = _style_of(field)
                    if is_multipart and not explode:
                        raise _UnconvertibleError(_why_no_format(field))
                    if not is_multipart:
                        encodings[name] = {"style": style, "explode": explode}
            required = [str(field.get("name")) for field in fields if field.get("required") is True]
            schema: dict[str, Any] = {"type": "object", "properties": properties}
            described: dict[str, Any] = {"schema": schema | ({"required": required} if required else {})}
            if encodings:
                described["encoding"] = encodings
            return {"content": {MULTIPART if is_multipart else FORM: described}, "required": bool(required)}
        body = next((row for row in parameters if row.get("in") == "body"), None)
        if body is None:
            return None
        described = {"schema": _convert_schema(body.get("schema", {}))}
        content = {media: dict(described) for media in consumed or [JSON]}
        request_body = {"content": content, "required": body.get("required") is True}
        return request_body | ({"description": body["description"]} if "description" in body else {})

    def resolved(self, value: Any) -> Any:
        """Return the value that a reference within the document points to, or None."""
        for _ in range(_MAX_REFERENCES):
            reference = value.get("$ref") if isinstance(value, dict) else None
            if not isinstance(reference, str):
                return value
            try:
                steps = pointers.split_fragment(reference)
                value = pointers.resolve(self.root, steps) if steps else None
            except pointers.PointerError:
                return None
        return None


def converted(root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same API as an OpenAPI 3.0 document. `paths` must be an object, if it is there."""
    converter = _Converter(root)
    document: dict[str, Any] = {
        "openapi": "3.0.3",
        "info": root.get("info", {}),
        "servers": converter.servers(root.get("schemes")),
        "paths": {
            path: converter.path_item(item) if isinstance(item, dict) and not path.startswith("x-") else item
            for path, item in root.get("paths", {}).items()
        },
        "components": {
            "schemas": {
                name: _convert_schema(schema) for name, schema in as_object(root.get("definitions")).items()
            },
            "securitySchemes": {
                name: _security_scheme(scheme)
                for name, scheme in as_object(root.get("securityDefinitions")).items()
            },
        },
    }
    return document | ({"security": root["security"]} if "security" in root else {})


def _convert_parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    converted_parameter = {
        member: value
        for member, value in parameter.items()
        if member not in _OF_SCHEMAS and member not in ("collectionFormat", "allowEmptyValue")
    }
    converted_parameter["schema"] = _value_schema(parameter)
    if parameter.get("type") == "array":
        style, explode = _style_of(parameter)
        if parameter.get("in") in ("path", "header"):
            if style != "form" or explode:
                raise _UnconvertibleError(_why_no_format(parameter))
        else:
            converted_parameter |= {"style": style, "explode": explode}
    return converted_parameter


def _style_of(parameter: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the style of a list, and whether it is exploded. Raises _UnconvertibleError."""
    collection = parameter.get("collectionFormat", "csv")
    if collection not in _STYLES or as_object(parameter.get("items")).get("type") == "array":
        raise _UnconvertibleError(_why_no_format(parameter))
    return _STYLES[collection], collection == "multi"


def _why_no_format(parameter: Mapping[str, Any]) -> str:
    name, collection = str(parameter.get("name"))[:60], str(parameter.get("collectionFormat", "csv"))[:20]
    return f"“{name}” is a list in the form “{collection}”, which cannot be sent from its place."


def _value_schema(parameter: Mapping[str, Any]) -> Any:
    return _convert_schema({member: parameter[member] for member in _OF_SCHEMAS if member in parameter})


def _security_scheme(scheme: Any) -> Any:
    if not isinstance(scheme, dict):
        return scheme
    match scheme.get("type"):
        case "basic":
            description = {"description": scheme["description"]} if "description" in scheme else {}
            return {"type": "http", "scheme": "basic", **description}
        case "oauth2":
            flow = str(scheme.get("flow"))
            members = ("authorizationUrl", "tokenUrl", "scopes")
            stated = {member: scheme[member] for member in members if member in scheme}
            others = {m: v for m, v in scheme.items() if m not in (*members, "flow")}
            return {**others, "flows": {_FLOWS.get(flow, flow): {"scopes": {}, **stated}}}
    return scheme


def _convert_schema(schema: Any) -> Any:
    def translate(schema: Schema) -> Schema:
        if schema.get("type") == "file":
            schema |= {"type": "string", "format": "binary"}
        if schema.pop("x-nullable", None) is True:
            schema["nullable"] = True
        if isinstance(schema.get("discriminator"), str):
            schema["discriminator"] = {"propertyName": schema["discriminator"]}
        return schema

    moved = openapi_schema.move_references(schema, "#/definitions/", openapi_schema.COMPONENT)
    return subschemas.mapped(moved, translate)


def _media_types(types: Any) -> list[str]:
    return [media for media in as_list(types) if isinstance(media, str)]
