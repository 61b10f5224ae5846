"""An MCP server of the official SDK, in a process of its own: python -m tests.mcp_judge

It prints its port. Each path serves the same tools in another way; see `WAYS`.
"""

import asyncio
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import PurePosixPath

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

# By path: whether the handshake is the only way in, and the options of the SDK's own app.
WAYS = {
    "/modern": (False, {"json_response": True}),
    "/modern-stream": (False, {}),
    "/handshake": (True, {"json_response": True}),
    "/handshake-stream": (True, {}),
    "/stateless": (True, {"json_response": True, "stateless_http": True}),
}
LOAN = {
    "type": "object",
    "properties": {
        "loan": {"type": "string", "pattern": "^L-[0-9]+$", "x-mcp-header": "Loan"},
        "days": {"type": "integer", "minimum": 1, "maximum": 28, "default": 14},
    },
    "required": ["loan"],
    "$defs": {"unused": {"$ref": "#/$defs/unused"}},
    "additionalProperties": False,
}
LEND = {
    "type": "object",
    "properties": {
        "loan": {"type": "string", "x-mcp-header": "Loan"},
        "reader": {
            "type": "object",
            "properties": {"card": {"type": "boolean", "x-mcp-header": "Reader-Card"}},
        },
    },
}
DUE = {"type": "object", "properties": {"due": {"type": "string"}}, "required": ["due"]}
TOOLS = [
    types.Tool(
        name="renew_loan",
        title="Renew a loan",
        description="Renews a loan.",
        input_schema=LOAN,
        output_schema=DUE,
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=False, title="Renewal"),
        icons=[types.Icon(src="https://library.example/loan.png", sizes=["48x48"])],
        _meta={"library.example/desk": 3},
    ),
    types.Tool(name="fail", input_schema={"type": "object"}),
    types.Tool(name="break_promise", input_schema={"type": "object"}, output_schema=DUE),
    types.Tool(name="ask_first", input_schema={"type": "object"}),
    types.Tool(name="ask_meanwhile", input_schema={"type": "object"}),
    types.Tool(name="lend", input_schema=LEND),
    types.Tool(
        name="bad_header",
        input_schema={"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}},
    ),
    types.Tool(
        name="elsewhere",
        input_schema={"type": "object", "$defs": {"unused": {"$ref": "http://192.0.2.1/never-asked.json"}}},
    ),
]
WHICH = "Which branch?"
BRANCH = {"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]}
QUESTION = types.ElicitRequest(params=types.ElicitRequestFormParams(message=WHICH, requested_schema=BRANCH))


class Library:
    def __init__(self, *, is_chatty: bool) -> None:
        self.is_chatty = is_chatty

    async def list_tools(self, context, params):
        await self._chat(context)
        start = int(params.cursor) if params and params.cursor else 0
        if start > len(TOOLS):
            raise MCPError(-32602, "This cursor is not one of ours.")
        after = str(start + 2) if start + 2 < len(TOOLS) else None
        return types.ListToolsResult(tools=TOOLS[start : start + 2], next_cursor=after)

    async def call_tool(self, context, params):
        await self._chat(context)
        if params.name == "ask_first":
            return self._answered(params)
        if params.name == "ask_meanwhile":
            answer = await context.session.elicit_form(WHICH, BRANCH, related_request_id=context.request_id)
            return types.CallToolResult(content=[text(answer_text(answer))])
        if params.name == "lend":
            return types.CallToolResult(content=[text(params.arguments["loan"])])
        if params.name == "fail":
            return types.CallToolResult(content=[text("Somebody waits for it.")], is_error=True)
        if params.name == "break_promise":
            return types.CallToolResult(content=[], structured_content={"due": 7})
        if params.name != "renew_loan":
            raise MCPError(-32602, f"Unknown tool: {params.name}")
        due = f"{params.arguments['loan']} in {params.arguments.get('days', 14)} days"
        return types.CallToolResult(content=[text(due)], structured_content={"due": due})

    def _answered(self, params):
        if params.request_state != "asked once":
            return types.InputRequiredResult(input_requests={"branch": QUESTION}, request_state="asked once")
        return types.CallToolResult(content=[text(answer_text(params.input_responses["branch"]))])

    async def _chat(self, context) -> None:
        """A notification before the reply makes the SDK stream both."""
        if self.is_chatty:
            await context.session.send_progress_notification(
                "token", 0.5, related_request_id=str(context.request_id)
            )


def answer_text(answer: types.ElicitResult) -> str:
    return answer.content["branch"] if answer.action == "accept" else answer.action


def text(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def app_of(way: str, options: dict[str, bool]):
    library = Library(is_chatty=way == "/modern-stream")
    server = Server("library", on_list_tools=library.list_tools, on_call_tool=library.call_tool)
    return server.streamable_http_app(streamable_http_path=way, **options)


class Ways:
    """Sends each path to its app; the handshake's ones know nothing of a newer revision."""

    def __init__(self) -> None:
        self.apps = {way: app_of(way, options) for way, (_, options) in WAYS.items()}

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        way = str(PurePosixPath(scope["path"]))
        version = dict(scope["headers"]).get(b"mcp-protocol-version", b"")
        if WAYS[way][0] and version >= b"2026":
            body = b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32000,"message":"Bad Request"}}'
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await self.apps[way](scope, receive, send)

    async def _live(self, receive, send) -> None:
        async with AsyncExitStack() as stack:
            await receive()
            for app in self.apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(Ways(), log_level="error", lifespan="on")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
