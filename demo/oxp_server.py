"""The OXP wire protocol in front of the published tools, in either of its two revisions."""

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from demo import DemoVendor, page
from demo.calls import CannotDoError, InvalidArgumentsError
from demo.published_tools import PublishedTools
from demo.signatures import DemoTool, Edition, ParameterText
from demo.web import HTML, DemoRequest, Port, Response, VendorServer, as_json, if_changed

MAX_KEPT_CALLS = 1000
TYPES = {"int": "integer", "boolean": "boolean", "enum": "string", "string": "string"}
VERSION = re.compile(r"(?:@([0-9]{1,9})(?:\.([0-9]{1,9})\.([0-9]{1,9}))?)?")
GRANT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{vendor}</title>
<h1>{vendor}</h1><p>{state}</p>
<form method="post"><button>Let tools use “{provider}”</button></form></html>"""


class NotRunError(Exception):
    """A response with status 400 before the tool runs. `missing` lists the requirements that are not met."""

    def __init__(self, message: str, missing: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.missing = missing


class OxpApi:
    """The revision of OXP that a server speaks. `wraps` is the earlier revision: calls under `request`,
    replies under `result`, and no header.
    """

    def __init__(
        self,
        vendor: DemoVendor,
        published_tools: PublishedTools,
        requirements: Mapping[str, Mapping[str, Any]],
        *,
        wraps: bool = False,
    ) -> None:
        self.vendor = vendor
        self.published_tools = published_tools
        self.requirements = requirements
        self.wraps = wraps
        self.granted: set[str] = set()
        self.calls: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.lock = threading.Lock()

    def answer(self, request: DemoRequest) -> Response:
        response = as_json({"message": "There is nothing at this address."}, HTTPStatus.NOT_FOUND)
        for method, path, run in ROUTES:
            if method == request.method and (match := path.fullmatch(request.path)):
                response = run(self, request, *(unquote(group) for group in match.groups()))
                break
        headers = {} if self.wraps else {"OXP-Version": "1.0"}
        return Response(
            response.status, response.body, response.content_type, {**response.headers, **headers}
        )

    def health(self, request: DemoRequest) -> Response:
        return as_json({"status": "ready"})

    def list_tools(self, request: DemoRequest) -> Response:
        items = [
            definition(t, v, self.requirements)
            for t in self.published_tools.tools.values()
            for v in versions_of(t)
        ]
        marked = {"$schema": "urn:oxp:1.0"} if self.wraps else {}
        return if_changed(request, as_json({**marked, "items": items}))

    def call(self, request: DemoRequest) -> Response:
        try:
            body = self._body(request)
            tool, version = self._tool(body["tool_id"])
            input_values, context = body.get("input", {}), body.get("context", {})
            if not isinstance(input_values, dict) or not isinstance(context, dict):
                raise NotRunError("“input” and “context” are objects.")
            self._check_requirements(tool.id, context, request.headers.get("host", ""))
            call_id = str(body.get("call_id") or f"call-{time.monotonic_ns()}")
            # A call that comes again with its id is answered as before and does not run twice.
            with self.lock:
                if call_id not in self.calls:
                    self.calls[call_id] = self._run(tool, version, input_values)
                    while len(self.calls) > MAX_KEPT_CALLS:
                        self.calls.popitem(last=False)
                result = {"call_id": call_id, **self.calls[call_id]}
            return as_json({"result": result} if self.wraps else result)
        except NotRunError as exc:
            missing = {"missing_requirements": dict(exc.missing)} if exc.missing else {}
            return as_json({"message": exc.message, **missing}, HTTPStatus.BAD_REQUEST)
        except InvalidArgumentsError as exc:
            document = {"message": "Some inputs cannot be used.", "parameter_errors": exc.fields}
            return as_json(document, HTTPStatus.UNPROCESSABLE_ENTITY)

    def _body(self, request: DemoRequest) -> dict[str, Any]:
        try:
            body = json.loads(request.body)
        except (ValueError, RecursionError) as exc:
            raise NotRunError("The body is not JSON.") from exc
        if self.wraps:
            body = body.get("request") if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(body.get("tool_id"), str):
            member = "request" if self.wraps else "tool_id"
            raise NotRunError(f'The body misses the required member "{member}".')
        return body

    def _tool(self, tool_id: str) -> tuple[DemoTool, int]:
        name, version_suffix, _ = tool_id.partition("@")
        tool, version_match = (
            self.published_tools.tools.get(name),
            VERSION.fullmatch(version_suffix and tool_id[len(name) :]),
        )
        if tool is None or version_match is None:
            raise NotRunError(f"Tool {tool_id} was not found.")
        if not version_suffix:
            return tool, tool.current_version
        text = ".".join(part or "0" for part in version_match.groups())
        numbers = {version_text(number): number for number in versions_of(tool)}
        if text not in numbers:
            raise NotRunError(f"Tool {name} has no version {text}.")
        return tool, numbers[text]

    def _check_requirements(self, tool_id: str, context: Mapping[str, Any], host: str) -> None:
        required = self.requirements.get(tool_id, {})
        missing_authorizations = [
            entry["id"] for entry in required.get("authorization", ()) if entry["id"] not in self.granted
        ]
        granted_ids = {
            entry.get("id") for entry in context.get("authorization", ()) if isinstance(entry, dict)
        }
        challenges = [
            challenge(provider, host) for provider in missing_authorizations if provider not in granted_ids
        ]
        missing: dict[str, Any] = {"authorization": challenges} if challenges else {}
        if required.get("user_id") and not context.get("user_id"):
            missing["user_id"] = True
        if missing:
            raise NotRunError("This has to be allowed by the customer first.", missing)
        secret_ids = {entry.get("id") for entry in context.get("secrets", ()) if isinstance(entry, dict)}
        for secret in required.get("secrets", ()):
            if secret["id"] not in secret_ids:
                raise NotRunError(f"The secret {secret['id']} is missing.")

    def _run(self, tool: DemoTool, version: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
        started = time.monotonic()
        try:
            outputs = self.published_tools.invoke(tool, version, list(arguments.items()))
            result: dict[str, Any] = {"success": True, **value_of(outputs, tool.editions[version - 1])}
        except CannotDoError as exc:
            result = {"success": False, "error": tool_error(exc)}
        return {"duration": round((time.monotonic() - started) * 1000, 3), **result}

    def show_grant(self, request: DemoRequest, provider: str) -> Response:
        done = provider in self.granted
        state = "Tools may use it." if done else "A tool asks to act for you."
        text = GRANT.format(vendor=escape(self.vendor.name), provider=escape(provider), state=state)
        return Response(HTTPStatus.OK, text.encode(), HTML, page.HEADERS)

    def grant(self, request: DemoRequest, provider: str) -> Response:
        self.granted.add(provider[:100])
        return Response(HTTPStatus.SEE_OTHER, headers={"Location": request.path})

    def check_grant(self, request: DemoRequest, provider: str) -> Response:
        return as_json({"status": "completed" if provider in self.granted else "pending"})

    def show_page(self, request: DemoRequest) -> Response:
        return Response(
            HTTPStatus.OK, page.render(self.vendor, self.published_tools).encode(), HTML, page.HEADERS
        )


Route = tuple[str, re.Pattern[str], Callable[..., Response]]
ROUTES: tuple[Route, ...] = (
    ("GET", re.compile(r"/health"), OxpApi.health),
    ("GET", re.compile(r"/tools"), OxpApi.list_tools),
    ("POST", re.compile(r"/tools/call"), OxpApi.call),
    ("GET", re.compile(r"/grant/([a-z-]{1,40})"), OxpApi.show_grant),
    ("POST", re.compile(r"/grant/([a-z-]{1,40})"), OxpApi.grant),
    ("GET", re.compile(r"/grant/([a-z-]{1,40})/status"), OxpApi.check_grant),
    ("GET", re.compile(r"/"), OxpApi.show_page),
)


def versions_of(tool: DemoTool) -> range:
    return range(1, tool.current_version + 1)


def version_text(number: int) -> str:
    return f"1.{number - 1}.0"


def definition(tool: DemoTool, number: int, requirements: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    edition = tool.editions[number - 1]
    needs = {"requirements": requirements[tool.id]} if tool.id in requirements else {}
    return {
        "id": f"{tool.id}@{version_text(number)}",
        "name": tool.id.replace(".", "_"),
        "description": edition.description,
        "version": version_text(number),
        "input_schema": object_schema(edition.inputs),
        "output_schema": output_schema(edition),
        **needs,
    }


def output_schema(edition: Edition) -> dict[str, Any] | None:
    """Null for a tool that returns nothing; the value alone where it is called just that."""
    if not edition.outputs:
        return None
    if [parameter.name for parameter in edition.outputs] == ["value"]:
        return schema(edition.outputs[0])
    return object_schema(edition.outputs) | {"required": []}


def object_schema(parameters: tuple[ParameterText, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {parameter.name: schema(parameter) for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required],
        "additionalProperties": False,
    }


def schema(parameter: ParameterText) -> dict[str, Any]:
    property_schema: dict[str, Any] = {"type": TYPES[parameter.type]} if parameter.type in TYPES else {}
    values = "; ".join(f"{choice.name}: {choice.description}" for choice in parameter.choices)
    if text := " ".join(part for part in (parameter.description, values) if part):
        property_schema["description"] = text
    if parameter.choices:
        property_schema["enum"] = [choice.name for choice in parameter.choices]
    limits = {"minimum": parameter.low, "maximum": parameter.high, "maxLength": parameter.max_length}
    return property_schema | {member: limit for member, limit in limits.items() if limit is not None}


def value_of(outputs: Mapping[str, object], edition: Edition) -> dict[str, Any]:
    if not edition.outputs:
        return {}
    return {"value": outputs["value"] if set(outputs) == {"value"} else dict(outputs)}


def tool_error(exc: CannotDoError) -> dict[str, Any]:
    """Return the error of a tool. Hints for the model are beside the message; the code is for the bank's
    staff."""
    error = {"message": exc.message, "developer_message": f"code {exc.code}", "can_retry": bool(exc.hint)}
    return error | ({"additional_prompt_content": exc.hint, "retry_after_ms": 250} if exc.hint else {})


def challenge(provider: str, host: str) -> dict[str, str]:
    url = f"http://{host}/grant/{provider}"
    return {"id": provider, "url": url, "check_url": f"{url}/status"}


class OxpServer(VendorServer):
    def __init__(
        self,
        port: Port,
        vendor: DemoVendor,
        published_tools: PublishedTools,
        requirements: Mapping[str, Mapping[str, Any]],
    ) -> None:
        super().__init__(port, OxpApi(vendor, published_tools, requirements))
