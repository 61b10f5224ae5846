"""MCP over streamable HTTP: a release as an MCP server, in both eras of the protocol and without sessions.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core import strict_json
from core.outbound.errors import ProtocolViolationError, printable
from protocols.mcp import wire
from protocols.mcp.server import (
    about,
    asking,
    clients,
    completion,
    context,
    following,
    listening,
    log_levels,
    messages,
    results,
    snippets,
    tools,
)
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import Message, RefusedRequestError
from protocols.mcp.server.release import McpRelease
from protocols.mcp.server.streams import encoded_event
from protocols.mcp.server.tools import RequestedNotifications
from protocols.mcp.wire import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN,
    SERVER_INFO,
    SESSION_HEADER,
    VERSION_HEADER,
    Number,
)
from protocols.server import (
    EVENT_STREAM,
    NoSuchAddressError,
    Refusal,
    Server,
    ServerReply,
    ServerRequest,
    Snippet,
    ToolCallResult,
    json_reply,
)

MAX_BATCH = 20

Handler = Callable[[ServerRequest, McpRelease, Client, Mapping[str, Any]], dict[str, Any]]
IN_BOTH_ERAS: dict[str, Handler] = {
    "tools/list": tools.list_tools,
    "tools/call": tools.call_tool,
    "prompts/list": context.list_prompts,
    "prompts/get": context.get_prompt,
    "resources/list": context.list_resources,
    "resources/templates/list": context.list_templates,
    "resources/read": context.read_resource,
    "completion/complete": completion.complete,
}
MODERN_ONLY: dict[str, Handler] = {
    "server/discover": lambda _, release, __, ___: about.discover(release),
}
HANDSHAKE_ONLY: dict[str, Handler] = {
    "initialize": lambda _, release, client, __: about.initialize(release, client.version),
    "ping": lambda _, __, ___, ____: {},
    "logging/setLevel": log_levels.set_level,
}
# The cacheable results, with a lifetime of zero: a channel may move to another release at any moment.
CACHEABLE = (
    *("server/discover", "tools/list", "prompts/list"),
    *("resources/list", "resources/templates/list", "resources/read"),
)


class MCPServer(Server[McpRelease]):
    name = "mcp"
    label = "MCP"

    def snippets(self, address: str, agent: str) -> Sequence[Snippet]:
        return snippets.build_snippets(address, agent)

    def answer(self, request: ServerRequest, release: McpRelease) -> ServerReply:
        if request.path.strip("/"):
            raise NoSuchAddressError
        if request.method != "POST":
            # Clients of the older era try to open a stream (GET) and to end the session (DELETE), and
            # continue without them.
            refusal = Refusal(405, "method_not_allowed", "Messages of MCP are sent with POST.")
            return replace(self.refusal(refusal, b""), headers={"Allow": "POST"})
        document, exchange = request.document, _Exchange(request, release)
        try:
            if clients.is_modern(request, document):
                reply = exchange.modern_reply(messages.read_message(document))
            else:
                reply = exchange.reply_in_session(document)
        except RefusedRequestError as error:
            return json_reply(messages.error(wire.id_of(document), error), error.status)
        if clients.accepts_only_events(request) and isinstance(reply.body, bytes) and reply.body:
            return replace(reply, body=encoded_event(reply.body), media_type=EVENT_STREAM)
        return reply

    def refusal(self, refusal: Refusal, body: bytes) -> ServerReply:
        try:
            number = wire.id_of(strict_json.loads(body, allow_unstorable=True))
        except ProtocolViolationError:
            number = None
        return json_reply(messages.error(number, messages.of_refusal(refusal)), refusal.status)


@dataclass(frozen=True)
class _Exchange:
    """One request of a client to the server of a release."""

    request: ServerRequest
    release: McpRelease

    def modern_reply(self, message: Message) -> ServerReply:
        if message.id is None:
            # No notification of a client has an effect in this era.
            if self.request.headers.get(VERSION_HEADER) not in MODERN:
                raise clients.unsupported_version(self.request.headers.get(VERSION_HEADER), MODERN)
            return ServerReply(status=202)
        client = clients.client_of_request(self.request, message)
        if message.method == "subscriptions/listen":
            return listening.listen(self.release, message, message.id)
        number = message.id

        def format_result(result: dict[str, Any]) -> ServerReply:
            cache_members: dict[str, Any] = (
                {"ttlMs": 0, "cacheScope": "private"} if message.method in CACHEABLE else {}
            )
            meta = {**result.get("_meta", {}), SERVER_INFO: about.server_info(self.release)}
            return json_reply(
                wire.result(number, {"resultType": "complete", **cache_members, **result, "_meta": meta})
            )

        if requested := tools.requested_notifications(self.request, self.release, client, message):
            return self.stream_reply(client, message, requested, format_result)
        handler = _find_handler(message.method, IN_BOTH_ERAS | MODERN_ONLY)
        return format_result(handler(self.request, self.release, client, message.params))

    def stream_reply(
        self,
        client: Client,
        message: Message,
        requested: RequestedNotifications,
        format_result: Callable[[dict[str, Any]], ServerReply],
    ) -> ServerReply:
        """Return the reply to a call with notifications. `format_result` makes the one with the result."""

        def last_reply(result: ToolCallResult) -> ServerReply:
            try:
                return format_result(results.format_result(result, self.release, client))
            except RefusedRequestError as error:
                return json_reply(messages.error(message.id, error))

        reply = following.begin(self.request, self.release, client, message.params, requested, last_reply)
        return reply if isinstance(reply, ServerReply) else format_result(reply)

    def reply_in_session(self, document: object) -> ServerReply:
        client = clients.client_in_session(self.request)
        if isinstance(document, list):
            return self.batch(client, document)
        if response := messages.response_in(document):
            asking.store_response(self.release, *response)
            return ServerReply(status=202)
        message = messages.read_message(document)
        if message.id is None:
            if message.method == "notifications/cancelled":
                self.cancel(client, message.params)
            return ServerReply(status=202)
        headers = {}
        client = client.marking(message.id)
        if message.method == "initialize":
            client = clients.client_of_handshake(message.params)
            # The client repeats the id with each request, and it contains what the handshake settled.
            headers = {SESSION_HEADER: client.session_id}
        try:
            reply = self.reply_after_handshake(client, message, message.id)
        except RefusedRequestError as error:
            # Before 2026-07-28 the status of HTTP is about the transport alone.
            reply = json_reply(messages.error(message.id, error))
        return replace(reply, headers={**reply.headers, **headers})

    def reply_after_handshake(self, client: Client, message: Message, request_id: Number) -> ServerReply:
        """Answer a request of a client that uses the handshake, the form of MCP before 2026-07-28.

        Such a client cannot repeat a call with answers, so the server sends the questions of a call as
        requests on the stream of the reply.
        """

        def format_result(result: dict[str, Any]) -> ServerReply:
            if result.get("resultType") == "input_required":
                if reply := asking.stream_questions(
                    self.release, client.mark, request_id, result, continue_call
                ):
                    return reply
                result = tools.result_without_answer(self.release, result.get("requestState"))
            return json_reply(wire.result(request_id, result))

        def continue_call(answers: Mapping[str, Any]) -> Generator[bytes, None, dict[str, Any]]:
            answered = replace(message, params={**message.params, **answers})
            if requested := tools.requested_notifications(self.request, self.release, client, answered):
                return (
                    yield from following.stream_within(
                        self.request, self.release, client, answered.params, requested
                    )
                )
            return self.handle(client, answered)

        if requested := tools.requested_notifications(self.request, self.release, client, message):
            return self.stream_reply(client, message, requested, format_result)
        return format_result(self.handle(client, message))

    def cancel(self, client: Client, params: Mapping[str, Any]) -> None:
        """Cancel the call that this client requested with the id `requestId`. A call that has ended or
        belongs to another client is left alone. A notification has no response.
        """
        if (number := wire.id_of({"id": params.get("requestId")})) is None:
            return
        if mark := client.marking(number).mark:
            # While a question is open no call is running: then the stream of the question is cancelled.
            asking.cancel(self.release, mark)
            self.release.cancel_marked(mark)

    def batch(self, client: Client, documents: list[Any]) -> ServerReply:
        if client.version not in clients.BATCHED or not 1 <= len(documents) <= MAX_BATCH:
            message_text = (
                f"Send one message at a time, or up to {MAX_BATCH} in a revision of MCP that has batches."
            )
            raise RefusedRequestError(INVALID_REQUEST, message_text)
        answers = []
        for document in documents:
            try:
                message = messages.read_message(document)
                if message.id is not None:
                    result = self.handle(client.marking(message.id), message)
                    answers.append(wire.result(message.id, result))
            except Exception as error:  # noqa: BLE001 - it is logged
                # The tools of other messages have run, and a client without their results would run them
                # again.
                answers.append(messages.error_for(wire.id_of(document), error, self.release.refusal_for))
        return json_reply(answers) if answers else ServerReply(status=202)

    def handle(self, client: Client, message: Message) -> dict[str, Any]:
        handler = _find_handler(message.method, IN_BOTH_ERAS | HANDSHAKE_ONLY)
        return handler(self.request, self.release, client, message.params)


def _find_handler(method: str, handlers: Mapping[str, Handler]) -> Handler:
    handler = handlers.get(method)
    if handler is None:
        raise RefusedRequestError(METHOD_NOT_FOUND, f"This server has no method “{printable(method, 60)}”.")
    return handler
