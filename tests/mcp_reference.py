"""The server that the official conformance suite of MCP expects, in a process of its own, in both eras.

`python -m tests.mcp_reference` prints its port; it serves at /mcp. The tools, prompts and resources are those
that the suite's scenarios name (npm package `@modelcontextprotocol/conformance`).
"""

import asyncio
import hashlib
import hmac
import secrets
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

INVALID_PARAMS, MISSING_CAPABILITY = -32602, -32021
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
PAUSE = 0.05
STATE_KEY = secrets.token_bytes(32)

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
BROAD_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
CONTACT = {
    "type": "object",
    "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
    "required": ["username", "email"],
}
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": title} for n, title in enumerate(("First", "Second", "Third"), 1)]
CHOICES = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def image() -> dict[str, Any]:
    return {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def embedded(uri: str, kind: str, content: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": content}}


def form(message: str, **members: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": members, "required": list(members)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(prompt: str, max_tokens: int = 100) -> dict[str, Any]:
    messages = [{"role": "user", "content": text(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": max_tokens}}


NAME_FORM = form("What is your name?", name={"type": "string"})
OK_FORM = form("Please confirm", ok={"type": "boolean"})
ROOTS: dict[str, Any] = {"method": "roots/list", "params": {}}


def completed(*blocks: dict[str, Any], **members: Any) -> types.CallToolResult:
    return types.CallToolResult.model_validate({"content": list(blocks), **members})


def asking(requests: dict[str, Any], state: str | None = None) -> types.InputRequiredResult:
    state_member = {"requestState": sign(state)} if state else {}
    return types.InputRequiredResult.model_validate(
        {"resultType": "input_required", "inputRequests": requests, **state_member}
    )


def sign(state: str) -> str:
    return f"{state}.{hmac.new(STATE_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def verified(signed: str | None) -> str:
    """Return the state that was signed, "" without one. Raises MCPError for another signature."""
    if signed is None:
        return ""
    state = signed.rpartition(".")[0]
    if not hmac.compare_digest(sign(state), signed):
        raise MCPError(INVALID_PARAMS, "The request state was changed.")
    return state


CONTENT = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "json_schema_2020_12_tool": [text("The arguments fit.")],
    "test_x_mcp_header": [text("The headers fit.")],
    "test_streaming_elicitation": [text("No question is asked outside of the result.")],
}
# Input requests of a tool since 2026-07-28, and the state that comes with them.
QUESTIONS: dict[str, tuple[dict[str, Any], str | None]] = {
    "test_input_required_result_elicitation": ({"user_name": NAME_FORM}, None),
    "test_input_required_result_sampling": (
        {"capital_question": sampling("What is the capital of France?")},
        None,
    ),
    "test_input_required_result_list_roots": ({"client_roots": ROOTS}, None),
    "test_input_required_result_request_state": ({"confirm": OK_FORM}, "asked"),
    "test_input_required_result_tampered_state": ({"confirm": OK_FORM}, "asked"),
    "test_input_required_result_multiple_inputs": (
        {"user_name": NAME_FORM, "greeting": sampling("Generate a greeting", 50), "client_roots": ROOTS},
        "asked",
    ),
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "json_schema_2020_12_tool": BROAD_SCHEMA,
    "test_x_mcp_header": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
    "test_sampling": {
        "type": "object",
        "properties": {"prompt": {"type": "string"}},
        "required": ["prompt"],
    },
    "test_elicitation": {
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
    },
}


class Reference:
    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.tools: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {
            "test_tool_with_logging": self._log,
            "test_logging_tool": self._log,
            "test_error_handling": self._fail,
            "test_tool_with_progress": self._progress,
            "test_sampling": self._sample,
            "test_elicitation": self._elicit_contact,
            "test_elicitation_sep1034_defaults": self._elicit_defaults,
            "test_elicitation_sep1330_enums": self._elicit_choices,
            "test_reconnection": self._reconnect,
            "test_missing_capability": self._need_sampling,
            "test_trigger_tool_change": self._change_tools,
            "test_trigger_prompt_change": self._change_prompts,
            "test_input_required_result_multi_round": self._ask_twice,
            "test_input_required_result_capabilities": self._ask_what_can_be_asked,
        }

    def server(self) -> Server[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            return Server(
                "reference",
                version="1.0.0",
                get_tool_input_schema=lambda name: SCHEMAS.get(name, EMPTY),
                on_list_tools=self.list_tools,
                on_call_tool=self.call_tool,
                on_list_prompts=self.list_prompts,
                on_get_prompt=self.get_prompt,
                on_list_resources=self.list_resources,
                on_list_resource_templates=self.list_templates,
                on_read_resource=self.read_resource,
                on_subscribe_resource=self.acknowledge,
                on_unsubscribe_resource=self.acknowledge,
                on_subscriptions_listen=ListenHandler(self.bus),
                on_completion=self.complete,
                on_set_logging_level=self.acknowledge,
            )

    async def acknowledge(self, context, params):
        return types.EmptyResult()

    async def list_tools(self, context, params):
        names = [*CONTENT, *QUESTIONS, *self.tools]
        tools = [
            {"name": name, "description": f"Tests {name}.", "inputSchema": SCHEMAS.get(name, EMPTY)}
            for name in names
        ]
        return types.ListToolsResult.model_validate({"tools": tools})

    async def call_tool(self, context, params):
        if blocks := CONTENT.get(params.name):
            return completed(*blocks)
        if question := QUESTIONS.get(params.name):
            return self._ask_once(params, *question)
        if run := self.tools.get(params.name):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                return await run(context, params)
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")

    def _ask_once(self, params, requests, state):
        verified(params.request_state)
        responses = params.input_responses or {}
        if not requests.keys() <= responses.keys():
            return asking(requests, state)
        answers = {name: response.model_dump(mode="json") for name, response in responses.items()}
        return completed(text(f"state-ok {answers}"))

    async def _ask_twice(self, context, params):
        state, responses = verified(params.request_state), params.input_responses or {}
        if state == "second" and "step2" in responses:
            return completed(text("Both steps are done."))
        if state == "first" and "step1" in responses:
            second = form("Step 2: What is your favorite color?", color={"type": "string"})
            return asking({"step2": second}, "second")
        return asking({"step1": form("Step 1: What is your name?", name={"type": "string"})}, "first")

    async def _ask_what_can_be_asked(self, context, params):
        can = context.session.client_capabilities or types.ClientCapabilities()
        possible = {
            "user_name": (can.elicitation, NAME_FORM),
            "greeting": (can.sampling, sampling("Generate a greeting")),
            "client_roots": (can.roots, ROOTS),
        }
        requests = {name: request for name, (is_able, request) in possible.items() if is_able is not None}
        if requests and not (params.input_responses or {}):
            return asking(requests)
        return completed(text("Nothing is left to ask."))

    async def _log(self, context, params):
        for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.session.send_log_message("info", message, related_request_id=context.request_id)
            await asyncio.sleep(PAUSE)
        return completed(text("Three messages were logged."))

    async def _fail(self, context, params):
        return completed(text("This tool intentionally returns an error for testing"), isError=True)

    async def _progress(self, context, params):
        for progress in (0, 50, 100):
            await context.session.report_progress(progress, 100)
            await asyncio.sleep(PAUSE)
        return completed(text("The work is done."))

    async def _sample(self, context, params):
        message = types.SamplingMessage(
            role="user", content=types.TextContent(text=params.arguments["prompt"])
        )
        answer = await context.session.create_message(
            [message], max_tokens=100, related_request_id=context.request_id
        )
        return completed(text(f"LLM response: {answer.content.text}"))

    async def _elicit(self, context, message: str, schema: dict[str, Any]):
        answer = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
        return completed(text(f"Elicitation completed: action={answer.action}, content={answer.content}"))

    async def _elicit_contact(self, context, params):
        return await self._elicit(context, params.arguments["message"], CONTACT)

    async def _elicit_defaults(self, context, params):
        return await self._elicit(context, "Please check the defaults.", DEFAULTS)

    async def _elicit_choices(self, context, params):
        return await self._elicit(context, "Please choose.", CHOICES)

    async def _reconnect(self, context, params):
        if context.close_sse_stream:
            await context.close_sse_stream()
        await asyncio.sleep(2 * PAUSE)
        return completed(text("The stream was closed meanwhile."))

    async def _need_sampling(self, context, params):
        can = context.session.client_capabilities
        if can is None or can.sampling is None:
            needed = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_CAPABILITY, "This tool needs sampling.", needed)
        return completed(text("The client can sample."))

    async def _change_tools(self, context, params):
        await self.bus.publish(ToolsListChanged())
        return completed(text("The list of tools has changed."))

    async def _change_prompts(self, context, params):
        await self.bus.publish(PromptsListChanged())
        return completed(text("The list of prompts has changed."))

    async def list_prompts(self, context, params):
        arguments = {
            "test_simple_prompt": [],
            "test_prompt_with_arguments": ["arg1", "arg2"],
            "test_prompt_with_embedded_resource": ["resourceUri"],
            "test_prompt_with_image": [],
            "test_input_required_result_prompt": [],
        }
        prompts = [
            {
                "name": name,
                "description": f"Tests {name}.",
                "arguments": [{"name": name, "description": name, "required": True} for name in needed],
            }
            for name, needed in arguments.items()
        ]
        return types.ListPromptsResult.model_validate({"prompts": prompts})

    async def get_prompt(self, context, params):
        arguments = params.arguments or {}
        match params.name:
            case "test_simple_prompt":
                return prompted(text("This is a simple prompt for testing."))
            case "test_prompt_with_arguments":
                values_text = ", ".join(f"{name}='{arguments.get(name)}'" for name in ("arg1", "arg2"))
                return prompted(text(f"Prompt with arguments: {values_text}"))
            case "test_prompt_with_embedded_resource":
                content = embedded(
                    arguments["resourceUri"], "text/plain", "Embedded resource content for testing."
                )
                return prompted(content, text("Please process the embedded resource above."))
            case "test_prompt_with_image":
                return prompted(image(), text("Please analyze the image above."))
            case "test_input_required_result_prompt":
                if "user_context" not in (params.input_responses or {}):
                    question = form("What context should the prompt use?", context={"type": "string"})
                    return asking({"user_context": question})
                return prompted(text("The context is known."))
        raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")

    async def list_resources(self, context, params):
        resources = [
            {
                "uri": "test://static-text",
                "name": "Static text",
                "description": "A text",
                "mimeType": "text/plain",
            },
            {
                "uri": "test://static-binary",
                "name": "Static picture",
                "description": "A picture",
                "mimeType": "image/png",
            },
            {
                "uri": "test://watched-resource",
                "name": "Watched",
                "description": "A text",
                "mimeType": "text/plain",
            },
        ]
        return types.ListResourcesResult.model_validate({"resources": resources})

    async def list_templates(self, context, params):
        template = {
            "uriTemplate": "test://template/{id}/data",
            "name": "Data",
            "description": "The data of an id",
            "mimeType": "application/json",
        }
        return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": [template]})

    async def read_resource(self, context, params):
        uri = str(params.uri)
        if uri == "test://static-text":
            content = {"mimeType": "text/plain", "text": "This is the content of the static text resource."}
        elif uri == "test://watched-resource":
            content = {"mimeType": "text/plain", "text": "Watched."}
        elif uri == "test://static-binary":
            content = {"mimeType": "image/png", "blob": PIXEL}
        elif uri.startswith("test://template/") and uri.endswith("/data"):
            item_id = uri.removeprefix("test://template/").removesuffix("/data")
            data = f'{{"id":"{item_id}","templateTest":true,"data":"Data for ID: {item_id}"}}'
            content = {"mimeType": "application/json", "text": data}
        else:
            raise MCPError(INVALID_PARAMS, "There is no such resource.", {"uri": uri})
        return types.ReadResourceResult.model_validate({"contents": [{"uri": uri, **content}]})

    async def complete(self, context, params):
        values = [value for value in ("paris", "park", "party") if value.startswith(params.argument.value)]
        return types.CompleteResult.model_validate(
            {"completion": {"values": values, "total": len(values), "hasMore": False}}
        )


def prompted(*contents: dict[str, Any]) -> types.GetPromptResult:
    return types.GetPromptResult.model_validate(
        {"messages": [{"role": "user", "content": content} for content in contents]}
    )


class Events(EventStore):
    """Events in memory, so that a stream which was closed can be read again."""

    def __init__(self) -> None:
        self.events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        number = int(last_event_id)
        stream = self.events[number - 1][0]
        for event_number, (event_stream, message) in enumerate(self.events[number:], number + 1):
            if event_stream == stream and message is not None:
                await send_callback(EventMessage(message, str(event_number)))
        return stream


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    app = Reference().server().streamable_http_app(event_store=Events(), retry_interval=100)
    config = uvicorn.Config(app, log_level="error", lifespan="on")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
