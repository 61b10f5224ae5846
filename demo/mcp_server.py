"""MCP in front of a museum: one address that speaks the revisions of 2026-07-28 and of 2025-11-25."""

import base64
import binascii
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from html import escape
from http import HTTPStatus
from typing import Any

from demo import DemoVendor
from demo.calls import CannotDoError
from demo.museum import Elicitation, Museum, MuseumTool
from demo.web import HTML, DemoRequest, Port, Response, VendorServer, as_json

PATH = "/mcp"
MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
PAGE_SIZE = 5
MAX_SESSIONS = 1000
STREAM = "text/event-stream"
META = "io.modelcontextprotocol/"
STATUSES = {-32601: HTTPStatus.NOT_FOUND}
TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>
<link rel="icon" href="data:,">
<h1>{name}</h1><p>{blurb}</p>
<p>An invented vendor for trying things out.
It offers {count} tools to MCP clients at <code>{path}</code>.</p>
<ul>{tools}</ul></html>"""
POLICY = {"Content-Security-Policy": "default-src 'none'; img-src data:", "X-Content-Type-Options": "nosniff"}


class AnsweredError(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.document = {"code": code, "message": message, **({"data": data} if data is not None else {})}
        self.status = STATUSES.get(code, HTTPStatus.BAD_REQUEST)


class McpApi:
    def __init__(self, vendor: DemoVendor, museum: Museum, tools: Sequence[MuseumTool]) -> None:
        self.vendor = vendor
        self.museum = museum
        self.tools = {tool.name: tool for tool in tools}
        self.sessions: dict[str, None] = {}

    def answer(self, request: DemoRequest) -> Response:
        if request.path == "/" and request.method == "GET":
            tools = "".join(
                f"<li><code>{escape(tool.name)}</code> {escape(tool.document['title'])}</li>"
                for tool in self.tools.values()
            )
            page = PAGE.format(
                name=escape(self.vendor.name),
                blurb=escape(self.vendor.blurb),
                count=len(self.tools),
                path=PATH,
                tools=tools,
            )
            return Response(HTTPStatus.OK, page.encode(), HTML, POLICY)
        if request.path != PATH:
            return as_json({"message": "There is nothing at this address."}, HTTPStatus.NOT_FOUND)
        if request.method == "DELETE":
            self.sessions.pop(request.headers.get("mcp-session-id", ""), None)
            return Response(HTTPStatus.NO_CONTENT)
        if request.method != "POST":
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST, DELETE"})
        number = None
        try:
            message = parse_message(request.body)
            number = message.get("id")
            if number is None:
                return Response(HTTPStatus.ACCEPTED)
            if request.headers.get("mcp-protocol-version", "") > HANDSHAKE:
                return self._modern(request, message)
            return self._handshake(request, message)
        except AnsweredError as exc:
            return as_json({"jsonrpc": "2.0", "id": number, "error": exc.document}, exc.status)

    def _modern(self, request: DemoRequest, message: Mapping[str, Any]) -> Response:
        method, params = message["method"], message["params"]
        check_envelope(request, method, params)
        match method:
            case "server/discover":
                about = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
                result = about | {"ttlMs": 0, "cacheScope": "public"}
            case "tools/list":
                result = self._list_tools(params) | {"ttlMs": 60_000, "cacheScope": "public"}
            case "tools/call":
                return self._call_tool(request, message, is_modern=True)
            case _:
                raise AnsweredError(-32601, f"There is no method {method} here.")
        return reply(message, {"resultType": "complete", **result})

    def _handshake(self, request: DemoRequest, message: Mapping[str, Any]) -> Response:
        method, params = message["method"], message["params"]
        if method == "initialize":
            # The oldest session ends, so that sessions that clients never end do not fill the memory.
            while len(self.sessions) >= MAX_SESSIONS:
                self.sessions.pop(next(iter(self.sessions)), None)
            session = secrets.token_urlsafe(16)
            self.sessions[session] = None
            result = {
                "protocolVersion": HANDSHAKE,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": self.vendor.slug, "title": self.vendor.name, "version": "1"},
            }
            return reply(message, result, {"Mcp-Session-Id": session})
        if request.headers.get("mcp-session-id") not in self.sessions:
            text = {"code": -32001, "message": "There is no such session; start with initialize."}
            return as_json({"jsonrpc": "2.0", "id": message["id"], "error": text}, HTTPStatus.NOT_FOUND)
        match method:
            case "ping":
                return reply(message, {})
            case "tools/list":
                return reply(message, self._list_tools(params))
            case "tools/call":
                return self._call_tool(request, message, is_modern=False)
        raise AnsweredError(-32601, f"There is no method {method} here.")

    def _list_tools(self, params: Mapping[str, Any]) -> dict[str, Any]:
        tools = list(self.tools.values())
        cursor = params.get("cursor", "after:0")
        start = cursor.removeprefix("after:") if isinstance(cursor, str) else ""
        if not start.isdecimal() or not 0 <= int(start) < len(tools):
            raise AnsweredError(-32602, "This cursor is not one that this server gave out.")
        end = int(start) + PAGE_SIZE
        more = {"nextCursor": f"after:{end}"} if end < len(tools) else {}
        return {"tools": [tool.document for tool in tools[int(start) : end]], **more}

    def _call_tool(self, request: DemoRequest, message: Mapping[str, Any], *, is_modern: bool) -> Response:
        params = message["params"]
        tool = self.tools.get(params.get("name", ""))
        arguments = params.get("arguments", {})
        if tool is None or not isinstance(arguments, dict):
            raise AnsweredError(-32602, "There is no such tool, or its arguments are no object.")
        if is_modern:
            check_mirrored(request, tool, arguments)
        result = self._run(tool, arguments, answers_in(params), is_modern=is_modern)
        if is_modern:
            result = {"resultType": "complete", **result}
        return stream_response(message, result) if tool.takes_time else reply(message, result)

    def _run(
        self, tool: MuseumTool, arguments: Mapping[str, Any], answers: Mapping[str, Any], *, is_modern: bool
    ) -> dict[str, Any]:
        if wrong := complaints(tool.inputs, arguments):
            return failure("; ".join(wrong))
        try:
            outcome = tool.run(self.museum, arguments, answers)
        except CannotDoError as exc:
            return failure(exc.message)
        if isinstance(outcome, Elicitation):
            # The earlier revision asks over a stream of its own, which this server does not open.
            if not is_modern:
                return failure(f"{outcome.message} Please call the museum.")
            return input_required(outcome)
        if isinstance(outcome, list):
            return {"content": outcome}
        return {"content": [text(json.dumps(outcome))], "structuredContent": dict(outcome)}


class McpServer(VendorServer):
    def __init__(self, port: Port, vendor: DemoVendor, museum: Museum, tools: Sequence[MuseumTool]) -> None:
        super().__init__(port, McpApi(vendor, museum, tools))


def parse_message(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise AnsweredError(-32700, "The body is not JSON.") from exc
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise AnsweredError(-32600, "The body must be one JSON-RPC request or notification.")
    if not isinstance(message.setdefault("params", {}), dict):
        raise AnsweredError(-32602, "params must be an object.")
    return message


def check_envelope(request: DemoRequest, method: str, params: Mapping[str, Any]) -> None:
    meta = params.get("_meta")
    version = meta.get(f"{META}protocolVersion") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or version is None or f"{META}clientCapabilities" not in meta:
        raise AnsweredError(-32602, "_meta must name the protocol version and the client's capabilities.")
    if version != MODERN:
        data = {"supported": [MODERN, HANDSHAKE], "requested": version}
        raise AnsweredError(-32022, "This version is not supported.", data)
    expected = {"mcp-protocol-version": version, "mcp-method": method}
    if method == "tools/call":
        expected["mcp-name"] = params.get("name", "")
    for header, value in expected.items():
        if plain(request.headers.get(header)) != value:
            raise AnsweredError(-32020, f"The header {header} does not say what the body says.")


def check_mirrored(request: DemoRequest, tool: MuseumTool, arguments: Mapping[str, Any]) -> None:
    for name, schema in tool.inputs["properties"].items():
        if header := schema.get("x-mcp-header"):
            value = arguments.get(name)
            if plain(request.headers.get(f"mcp-param-{header.lower()}")) != value:
                raise AnsweredError(-32020, f"The header Mcp-Param-{header} does not say what {name} says.")


def plain(value: str | None) -> str | None:
    """A header's value; one that no header could carry comes in base64."""
    if value is None or not (encoded := re.fullmatch(r"=\?base64\?(.*)\?=", value)):
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def complaints(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    properties = schema["properties"]
    wrong = [f"{name} is missing" for name in schema.get("required", []) if name not in arguments]
    for name, value in arguments.items():
        if name not in properties:
            wrong.append(f"{name} is not known")
        elif reason := complaint(properties[name], value):
            wrong.append(f"{name} {reason}")
    return wrong


def complaint(schema: Mapping[str, Any], value: Any) -> str:
    # A bool is an int to isinstance().
    if type(value) is not TYPES[schema["type"]]:
        return f"must be of type {schema['type']}"
    choices = schema.get("enum") or [item["const"] for item in schema.get("oneOf", [])]
    if choices and value not in choices:
        return f"must be one of {', '.join(choices)}"
    if isinstance(value, str):
        fits = re.search(schema.get("pattern", ""), value) and len(value) <= schema.get("maxLength", 200)
        return "" if fits else "is not written as it should be"
    if isinstance(value, int):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        return "" if low <= value <= high else f"must be from {low} to {high}"
    if isinstance(value, list):
        return next((reason for item in value if (reason := complaint_in(schema, item))), "")
    return ""


def complaint_in(schema: Mapping[str, Any], value: Any) -> str:
    if schema["items"]["type"] == "object" and isinstance(value, dict):
        return "; ".join(complaints(schema["items"], value))
    return complaint(schema["items"], value)


def answers_in(params: Mapping[str, Any]) -> dict[str, Any]:
    responses = params.get("inputResponses")
    if not isinstance(responses, dict):
        return {}
    return {
        name: response.get("content") or {} if response.get("action") == "accept" else {}
        for name, response in responses.items()
        if isinstance(response, dict)
    }


def input_required(question: Elicitation) -> dict[str, Any]:
    params = {"mode": "form", "message": question.message, "requestedSchema": question.form}
    return {
        "resultType": "input_required",
        "inputRequests": {question.name: {"method": "elicitation/create", "params": params}},
        "requestState": question.name,
    }


def failure(message: str) -> dict[str, Any]:
    return {"content": [text(message)], "isError": True}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def reply(
    message: Mapping[str, Any], result: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    document = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return Response(HTTPStatus.OK, json.dumps(document).encode(), headers=headers or {})


def stream_response(message: Mapping[str, Any], result: Mapping[str, Any]) -> Response:
    """Return the result as a stream of two events. The first one is empty and has only an id."""
    document = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
    return Response(HTTPStatus.OK, f"id: 0\ndata:\n\nevent: message\ndata: {document}\n\n".encode(), STREAM)
