"""A vendor that describes its API in an OpenAPI document, and responds by that document."""

import json
import re
from collections.abc import Mapping, Sequence
from email.parser import BytesParser
from email.policy import HTTP
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

from demo import DemoVendor
from demo.calls import CannotDoError, UnusableValueError
from demo.web import HTML, DemoRequest, Port, Response, VendorServer, as_json, if_changed
from demo.workshop import KEY, Workshop

DOCUMENT_PATH = "/openapi.json"
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
DELIMITERS = {"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}
POLICY = {"Content-Security-Policy": "default-src 'none'; img-src data:", "X-Content-Type-Options": "nosniff"}
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>
<link rel="icon" href="data:,">
<h1>{name}</h1><p>{blurb}</p>
<p>An invented vendor for trying things out. Its API is described at <a href="{path}">{path}</a>.</p>
<ul>{operations}</ul></html>"""

Operation = dict[str, Any]


class BadRequestError(Exception):
    """A response with status 400. `fields` are the reasons by the name of the input."""

    def __init__(self, message: str, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.document = {"code": "bad_request", "message": message, **({"fields": fields} if fields else {})}


class OpenApiApi:
    def __init__(self, vendor: DemoVendor, document: dict[str, Any], backend: Workshop) -> None:
        self.vendor = vendor
        self.document = document
        self.backend = backend
        self.base = document["servers"][0]["url"]
        self.routes: list[tuple[str, re.Pattern[str], Operation]] = []
        for path, item in document["paths"].items():
            pattern = re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(self.base + path)))
            shared = item.get("parameters", [])
            for method, operation in item.items():
                if method != "parameters":
                    parameters = [*shared, *operation.get("parameters", [])]
                    self.routes.append((method.upper(), pattern, {**operation, "parameters": parameters}))

    def answer(self, request: DemoRequest) -> Response:
        if request.path == DOCUMENT_PATH:
            return if_changed(request, as_json(self.document))
        if request.path == "/":
            rows = [
                f"<li><code>{method} {escape(path)}</code>: {escape(operation['summary'])}</li>"
                for path, item in self.document["paths"].items()
                for method, operation in ((m.upper(), o) for m, o in item.items() if m != "parameters")
            ]
            text = PAGE.format(
                name=escape(self.vendor.name),
                blurb=escape(self.vendor.blurb),
                path=DOCUMENT_PATH,
                operations="".join(rows),
            )
            return Response(HTTPStatus.OK, text.encode(), HTML, POLICY)
        matches = [(method, op, m) for method, p, op in self.routes if (m := p.fullmatch(request.path))]
        if not matches:
            return _error_response(HTTPStatus.NOT_FOUND, "not_found", "There is nothing at this address.")
        for method, operation, match in matches:
            if method == request.method:
                return self._answer(operation, request, match.groupdict())
        return _error_response(
            HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", f"This address takes {matches[0][0]}."
        )

    def _answer(self, operation: Operation, request: DemoRequest, in_path: Mapping[str, str]) -> Response:
        if operation.get("security") and request.headers.get("x-workshop-key") != KEY:
            return _error_response(
                HTTPStatus.UNAUTHORIZED, "no_key", "Send the workshop's key in X-Workshop-Key."
            )
        try:
            input_values = arguments(operation, request, in_path) | body_of(operation, request, self.document)
            result = getattr(self.backend, operation.get("operationId", "show_bike"))(**input_values)
        except BadRequestError as exc:
            return as_json(exc.document, HTTPStatus.BAD_REQUEST)
        except UnusableValueError as exc:
            fields = {exc.key: exc.why}
            return as_json(
                BadRequestError("Some inputs cannot be used.", fields).document, HTTPStatus.BAD_REQUEST
            )
        except CannotDoError as exc:
            return _error_response(HTTPStatus.CONFLICT, exc.code, exc.message)
        status = next(int(code) for code in operation["responses"] if code.startswith("2"))
        return Response(status) if result is None else as_json(result, status)


def _error_response(status: int, code: str, message: str) -> Response:
    return as_json({"code": code, "message": message}, status)


def arguments(operation: Operation, request: DemoRequest, in_path: Mapping[str, str]) -> dict[str, Any]:
    """Return the values in path, query and headers, by the names of the backend's arguments."""
    query = parse_qsl(request.query_string, keep_blank_values=True)
    values: dict[str, Any] = {}
    for parameter in operation["parameters"]:
        name, schema = parameter["name"], parameter["schema"]
        match parameter["in"]:
            case "path":
                values[name] = unquote(in_path[name])
            case "header" if name.lower() in request.headers:
                values[name.lower().removeprefix("x-").replace("-", "_")] = request.headers[name.lower()]
            case "query":
                values |= in_query(parameter, schema, query)
    return values


def in_query(parameter: Mapping[str, Any], schema: Any, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    name, style = parameter["name"], parameter.get("style", "form")
    if style == "deepObject":
        members = {k[len(name) + 1 : -1]: v for k, v in query if k.startswith(f"{name}[") and k.endswith("]")}
        types = schema["properties"]
        value = {m: convert_text(f"{name}[{m}]", text, types[m]) for m, text in members.items() if m in types}
        return {name: value} if value else {}
    texts = [text for key, text in query if key == name]
    if not texts:
        if parameter.get("required"):
            raise BadRequestError("An input is missing.", {name: "is required"})
        return {}
    if schema["type"] == "array":
        items = texts if len(texts) > 1 else texts[0].split(DELIMITERS[style])
        return {name: [convert_text(name, text, schema["items"]) for text in items]}
    return {name: convert_text(name, texts[0], schema)}


def convert_text(name: str, text: str, schema: Mapping[str, Any]) -> Any:
    match schema["type"]:
        case "integer":
            if not re.fullmatch("-?[0-9]{1,9}", text):
                raise BadRequestError("Some inputs cannot be used.", {name: "must be a whole number"})
            return int(text)
        case "boolean":
            if text not in ("true", "false"):
                raise BadRequestError("Some inputs cannot be used.", {name: "must be true or false"})
            return text == "true"
    if "enum" in schema and text not in schema["enum"]:
        raise BadRequestError(
            "Some inputs cannot be used.", {name: f"must be one of {', '.join(schema['enum'])}"}
        )
    return text


def body_of(operation: Operation, request: DemoRequest, document: Mapping[str, Any]) -> dict[str, Any]:
    if "requestBody" not in operation:
        return {}
    ((media, described),) = operation["requestBody"]["content"].items()
    if request.headers.get("content-type", "").partition(";")[0] != media:
        raise BadRequestError(f"The body must be {media}.")
    schema = follow_reference(described["schema"], document)
    if media == FORM:
        texts = dict(parse_qsl(request.body.decode(errors="replace"), keep_blank_values=True))
        properties = schema["properties"]
        value: Any = {m: convert_text(m, text, properties[m]) for m, text in texts.items() if m in properties}
    elif media == MULTIPART:
        value = read_parts(request)
    else:
        value = read_json(request.body)
    if "properties" not in schema:
        return {"body": value}
    writable = {
        name for name, property_schema in schema["properties"].items() if not property_schema.get("readOnly")
    }
    needed = [name for name in schema.get("required", ()) if name in writable]
    wrong = dict.fromkeys(value.keys() - writable, "is not an input")
    wrong |= {name: "is required" for name in needed if name not in value}
    if wrong:
        raise BadRequestError("Some inputs cannot be used.", wrong)
    defaults = {name: schema["properties"][name].get("default") for name in writable}
    values: dict[str, Any] = {name: default for name, default in defaults.items() if default is not None}
    return {**values, **value}


def read_parts(request: DemoRequest) -> dict[str, Any]:
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + request.body)
    parts = {str(part.get_param("name", header="content-disposition")): part for part in message.iter_parts()}
    return {name: part.get_payload(decode=True) for name, part in parts.items()}


def read_json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise BadRequestError("The body is not JSON.") from exc
    if not isinstance(value, dict):
        raise BadRequestError("The body must be an object.")
    return value


def follow_reference(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    target: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return target


class OpenApiServer(VendorServer):
    def __init__(self, port: Port, vendor: DemoVendor, document: dict[str, Any], backend: Workshop) -> None:
        super().__init__(port, OpenApiApi(vendor, document, backend))
