"""A Swagger 2.0 document as an OpenAPI 3.0 document. Pure: nothing is fetched.

Operations that OpenAPI 3.0 cannot describe become `Unreadable`, so that each is rejected with its reason.

https://spec.openapis.org/oas/v2.0.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog.protocols.openapi import schema as openapi_schema
from catalog.protocols.openapi.schema import Schema

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
    """What stands in place of an operation that cannot be read."""

    reason: str


class _UnconvertibleError(Exception):
    pass


def converted(root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same API as an OpenAPI 3.0 document. `paths` must be an object, if it is there."""
    document: dict[str, Any] = {
        "openapi": "3.0.3",
        "info": root.get("info", {}),
        "servers": _servers(root, root.get("schemes")),
        "paths": {
            path: _path_item(root, item) if isinstance(item, dict) and not path.startswith("x-") else item
            for path, item in root.get("paths", {}).items()
        },
        "components": {
            "schemas": {name: _schema(schema) for name, schema in _object(root.get("definitions")).items()},
            "securitySchemes": {
                name: _security_scheme(scheme)
                for name, scheme in _object(root.get("securityDefinitions")).items()
            },
        },
    }
    return document | ({"security": root["security"]} if "security" in root else {})


def _servers(root: Mapping[str, Any], schemes: Any) -> list[dict[str, str]]:
    path = str(root.get("basePath") or "/")
    host = root.get("host")
    if not isinstance(host, str) or not host:
        return [{"url": path}]
    named = [each for each in _list(schemes) if each in ("http", "https")]
    # Where the document leaves a choice, calls use the scheme by which the document itself is read.
    scheme = f"{named[0]}:" if len(named) == 1 else ""
    return [{"url": f"{scheme}//{host}/{path.lstrip('/')}".rstrip("/")}]


def _path_item(root: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(item.get("$ref"), str):
        item = {**_object(_resolved(root, item)), **{m: v for m, v in item.items() if m != "$ref"}}
    converted_item: dict[str, Any] = {}
    for method in METHODS:
        if method in item:
            converted_item[method] = _operation(root, item, item[method])
    return converted_item


def _operation(root: Mapping[str, Any], item: Mapping[str, Any], operation: Any) -> Any:
    if not isinstance(operation, dict):
        return operation
    try:
        parameters = _parameters(root, item, operation)
        body = _body(root, operation, parameters)
        plain = [_parameter(each) for each in parameters if each.get("in") not in ("body", "formData")]
    except _UnconvertibleError as error:
        return Unreadable(str(error))
    dropped = {"parameters", "consumes", "produces", "schemes", "responses", "requestBody", "servers"}
    whole = {member: value for member, value in operation.items() if member not in dropped}
    whole["responses"] = _responses(root, operation)
    if plain:
        whole["parameters"] = plain
    if body:
        whole["requestBody"] = body
    servers = _servers(root, operation.get("schemes", root.get("schemes")))
    if servers != _servers(root, root.get("schemes")):
        whole["servers"] = servers
    return whole


def _parameters(
    root: Mapping[str, Any], item: Mapping[str, Any], operation: Mapping[str, Any]
) -> list[dict[str, Any]]:
    # Those of the path and of the operation, whose own come last and win; there is one body at most.
    merged: dict[tuple[object, object], dict[str, Any]] = {}
    for holder in (item, operation):
        listed = holder.get("parameters") or []
        if not isinstance(listed, list):
            raise _UnconvertibleError("“parameters” is not an array.")
        for raw in listed:
            parameter = _resolved(root, raw)
            if not isinstance(parameter, dict):
                raise _UnconvertibleError("A parameter is no object, or refers to nothing in the document.")
            place = parameter.get("in")
            key = (place, "" if place == "body" else str(parameter.get("name")))
            merged.pop(key, None)
            merged[key] = parameter
    return list(merged.values())


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    whole = {
        member: value
        for member, value in parameter.items()
        if member not in _OF_SCHEMAS and member not in ("collectionFormat", "allowEmptyValue")
    }
    whole["schema"] = _value_schema(parameter)
    if parameter.get("type") == "array":
        style, explode = _style(parameter)
        if parameter.get("in") in ("path", "header"):
            if style != "form" or explode:
                raise _UnconvertibleError(_why_no_format(parameter))
        else:
            whole |= {"style": style, "explode": explode}
    return whole


def _style(parameter: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the style of a list, and whether it is exploded. Raises _UnconvertibleError."""
    collection = parameter.get("collectionFormat", "csv")
    if collection not in _STYLES or _object(parameter.get("items")).get("type") == "array":
        raise _UnconvertibleError(_why_no_format(parameter))
    return _STYLES[collection], collection == "multi"


def _why_no_format(parameter: Mapping[str, Any]) -> str:
    name, collection = str(parameter.get("name"))[:60], str(parameter.get("collectionFormat", "csv"))[:20]
    return f"“{name}” is a list in the form “{collection}”, which cannot be sent from its place."


def _value_schema(parameter: Mapping[str, Any]) -> Any:
    return _schema({member: parameter[member] for member in _OF_SCHEMAS if member in parameter})


def _body(
    root: Mapping[str, Any], operation: Mapping[str, Any], parameters: list[dict[str, Any]]
) -> dict[str, Any] | None:
    consumed = _media(operation.get("consumes", root.get("consumes")))
    fields = [each for each in parameters if each.get("in") == "formData"]
    if fields:
        return _form(fields, consumed)
    body = next((each for each in parameters if each.get("in") == "body"), None)
    if body is None:
        return None
    described = {"schema": _schema(body.get("schema", {}))}
    content = {media: dict(described) for media in consumed or [JSON]}
    whole = {"content": content, "required": body.get("required") is True}
    return whole | ({"description": body["description"]} if "description" in body else {})


def _form(fields: list[dict[str, Any]], consumed: list[str]) -> dict[str, Any]:
    has_files = any(each.get("type") == "file" for each in fields)
    is_multipart = has_files or (MULTIPART in consumed and FORM not in consumed)
    properties, encodings = {}, {}
    for field in fields:
        name = str(field.get("name"))
        properties[name] = _value_schema(field)
        if isinstance(properties[name], dict) and "description" in field:
            properties[name]["description"] = field["description"]
        if field.get("type") == "array":
            style, explode = _style(field)
            if is_multipart and not explode:
                raise _UnconvertibleError(_why_no_format(field))
            if not is_multipart:
                encodings[name] = {"style": style, "explode": explode}
    required = [str(each.get("name")) for each in fields if each.get("required") is True]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    described: dict[str, Any] = {"schema": schema | ({"required": required} if required else {})}
    if encodings:
        described["encoding"] = encodings
    return {"content": {MULTIPART if is_multipart else FORM: described}, "required": bool(required)}


def _responses(root: Mapping[str, Any], operation: Mapping[str, Any]) -> dict[str, Any]:
    produced = _media(operation.get("produces", root.get("produces"))) or [JSON]
    responses = {}
    for code, raw in _object(operation.get("responses")).items():
        response = _resolved(root, raw)
        if not isinstance(response, dict):
            continue
        whole = {"description": response.get("description", "")}
        if "schema" in response:
            described = {"schema": _schema(response["schema"])}
            whole["content"] = {media: dict(described) for media in produced}
        responses[str(code)] = whole
    return responses


def _security_scheme(scheme: Any) -> Any:
    if not isinstance(scheme, dict):
        return scheme
    match scheme.get("type"):
        case "basic":
            told = {"description": scheme["description"]} if "description" in scheme else {}
            return {"type": "http", "scheme": "basic", **told}
        case "oauth2":
            flow = str(scheme.get("flow"))
            members = ("authorizationUrl", "tokenUrl", "scopes")
            stated = {member: scheme[member] for member in members if member in scheme}
            others = {m: v for m, v in scheme.items() if m not in (*members, "flow")}
            return {**others, "flows": {_FLOWS.get(flow, flow): {"scopes": {}, **stated}}}
    return scheme


def _schema(schema: Any) -> Any:
    return openapi_schema.mapped(schema, _of_openapi_3)


def _of_openapi_3(schema: Schema) -> Schema:
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/definitions/"):
        schema["$ref"] = openapi_schema.COMPONENT + reference.removeprefix("#/definitions/")
    if schema.get("type") == "file":
        schema |= {"type": "string", "format": "binary"}
    if schema.pop("x-nullable", None) is True:
        schema["nullable"] = True
    if isinstance(schema.get("discriminator"), str):
        schema["discriminator"] = {"propertyName": schema["discriminator"]}
    return schema


def _resolved(root: Mapping[str, Any], value: Any) -> Any:
    """Return what a reference within the document leads to; None where there is nothing."""
    for _ in range(_MAX_REFERENCES):
        reference = value.get("$ref") if isinstance(value, dict) else None
        if not isinstance(reference, str):
            return value
        start, *steps = reference.split("/")
        value = root if start == "#" and steps else None
        for step in steps:
            value = value.get(openapi_schema.unescaped(step)) if isinstance(value, dict) else None
    return None


def _media(listed: Any) -> list[str]:
    return [media for media in _list(listed) if isinstance(media, str)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
