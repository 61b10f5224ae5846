"""MCP over streamable HTTP: a release as an MCP server, in both eras of the protocol and without sessions.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.http import Http404

from core import strict_json
from core.outbound.errors import ProtocolViolationError, printable
from protocols.mcp import wire
from protocols.mcp.server import clients, messages, snippets
from protocols.mcp.server.clients import Client
from protocols.mcp.server.messages import Message, RpcError
from protocols.mcp.wire import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN,
    SERVER_INFO,
    SESSION_HEADER,
    VERSION_HEADER,
    Number,
)
from protocols.server import EVENT_STREAM, Refusal, Reply, Request, Server, Snippet, json_reply
from serving.calls import Answer
from serving.serve.base import Operations
from serving.serve.mcp import (
    about,
    asking,
    completion,
    errors,
    following,
    listening,
    log_levels,
    prompts,
    resources,
    tools,
)
from serving.serve.mcp.following import Wanted

logger = logging.getLogger(__name__)
MAX_BATCH = 20

Handler = Callable[[Request, Operations, Client, Mapping[str, Any]], dict[str, Any]]
IN_BOTH_ERAS: dict[str, Handler] = {
    "tools/list": tools.listed,
    "tools/call": tools.called,
    "prompts/list": prompts.listed,
    "prompts/get": prompts.found,
    "resources/list": resources.listed,
    "resources/templates/list": resources.templates,
    "resources/read": resources.found,
    "completion/complete": completion.completed,
}
MODERN_ALONE: dict[str, Handler] = {"server/discover": about.discovered}
HANDSHAKE_ALONE: dict[str, Handler] = {
    "initialize": about.initialized,
    "ping": about.ping,
    "logging/setLevel": log_levels.set_level,
}
# Of these a client may keep what it read, for no time at all: which release is live may change any moment.
KEPT = (
    *("server/discover", "tools/list", "prompts/list"),
    *("resources/list", "resources/templates/list", "resources/read"),
)


class MCP(Server[Operations]):
    name = "mcp"
    label = "MCP"

    def snippets(self, address: str, agent: str) -> Sequence[Snippet]:
        return snippets.of(address, agent)

    def answer(self, request: Request, operations: Operations) -> Reply:
        if request.path.strip("/"):
            raise Http404
        if request.method != "POST":
            # No stream to open and no session to end: clients of the older era ask for both, and go on.
            refusal = Refusal(405, "method_not_allowed", "Messages of MCP are sent with POST.")
            return replace(self.refusal(refusal, b""), headers={"Allow": "POST"})
        document = request.json()
        try:
            if clients.is_modern(request, document):
                reply = _modern(request, operations, messages.read(document))
            else:
                reply = _of_handshake(request, operations, document)
        except RpcError as error:
            return json_reply(messages.error(wire.id_of(document), error), error.status)
        return _as_events(reply) if clients.takes_events_alone(request) else reply

    def refusal(self, refusal: Refusal, body: bytes) -> Reply:
        try:
            number = wire.id_of(strict_json.loads(body, allow_unstorable=True))
        except ProtocolViolationError:
            number = None
        return json_reply(messages.error(number, messages.of_refusal(refusal)), refusal.status)


PROTOCOL = MCP()


def _as_events(reply: Reply) -> Reply:
    if not isinstance(reply.body, bytes) or not reply.body:
        return reply
    return replace(reply, body=b"event: message\ndata: " + reply.body + b"\n\n", media_type=EVENT_STREAM)


def _modern(request: Request, operations: Operations, message: Message) -> Reply:
    if message.id is None:
        # Nothing that a client tells without asking matters here.
        if request.headers.get(VERSION_HEADER) not in MODERN:
            raise clients.unsupported(request.headers.get(VERSION_HEADER), MODERN)
        return Reply(status=202)
    client = clients.modern(request, message)
    if message.method == "subscriptions/listen":
        return listening.listening(operations, message, message.id)
    number = message.id

    def ended(result: dict[str, Any]) -> Reply:
        kept: dict[str, Any] = {"ttlMs": 0, "cacheScope": "private"} if message.method in KEPT else {}
        meta = {**result.get("_meta", {}), SERVER_INFO: about.server(operations)}
        return json_reply(wire.result(number, {"resultType": "complete", **kept, **result, "_meta": meta}))

    if wanted := following.wanted(request, operations, client, message):
        return _followed(request, operations, client, message, wanted, ended)
    handler = _handler(message.method, IN_BOTH_ERAS | MODERN_ALONE)
    return ended(handler(request, operations, client, message.params))


def _followed(
    request: Request,
    operations: Operations,
    client: Client,
    message: Message,
    wanted: Wanted,
    ended: Callable[[dict[str, Any]], Reply],
) -> Reply:
    """The reply to a call whose client wants to hear how far it is; `ended` is the reply of its result."""

    def last(answer: Answer) -> Reply:
        try:
            return ended(tools.result(answer, operations, client))
        except RpcError as error:
            return json_reply(messages.error(message.id, error))

    begun = following.begun(request, operations, client, message.params, wanted, last)
    return begun if isinstance(begun, Reply) else ended(begun)


def _of_handshake(request: Request, operations: Operations, document: object) -> Reply:
    client = clients.of_handshake(request)
    if isinstance(document, list):
        return _batch(request, operations, client, document)
    if response := messages.response_in(document):
        asking.heard(operations, *response)
        return Reply(status=202)
    message = messages.read(document)
    if message.id is None:
        if message.method == "notifications/cancelled":
            _cancel(operations, client, message.params)
        return Reply(status=202)
    headers = {}
    client = client.marking(message.id)
    if message.method == "initialize":
        client = clients.met(message.params)
        # All that a session is for here: the client says it again with each request.
        headers = {SESSION_HEADER: client.session_id}
    try:
        reply = _handshake_reply(request, operations, client, message, message.id)
    except RpcError as error:
        # Before 2026-07-28 the status of HTTP is about the transport alone.
        reply = json_reply(messages.error(message.id, error))
    return replace(reply, headers={**reply.headers, **headers})


def _handshake_reply(
    request: Request, operations: Operations, client: Client, message: Message, number: Number
) -> Reply:
    def ended(result: dict[str, Any]) -> Reply:
        if result.get("resultType") == "input_required":
            if reply := asking.asking(operations, client.mark, number, result, go_on):
                return reply
            result = tools.unanswered(operations, result.get("requestState"))
        return json_reply(wire.result(number, result))

    def go_on(answers: Mapping[str, Any]) -> Generator[bytes, None, dict[str, Any]]:
        answered = replace(message, params={**message.params, **answers})
        if wanted := following.wanted(request, operations, client, answered):
            return (yield from following.within(request, operations, client, answered.params, wanted))
        return _handled(request, operations, client, answered)

    if wanted := following.wanted(request, operations, client, message):
        return _followed(request, operations, client, message, wanted, ended)
    return ended(_handled(request, operations, client, message))


def _cancel(operations: Operations, client: Client, params: Mapping[str, Any]) -> None:
    """Ends the call that this client asked for under the number `requestId`. One that is not there has ended,
    or is another client's, and nothing is answered either way."""
    if (number := wire.id_of({"id": params.get("requestId")})) is None:
        return
    if mark := client.marking(number).mark:
        # A question ends its call: between the two, the stream that asks it is the one that hears of this.
        asking.cancel(operations, mark)
        operations.cancel_marked(mark)


def _batch(request: Request, operations: Operations, client: Client, documents: list[Any]) -> Reply:
    if client.version not in clients.BATCHED or not 1 <= len(documents) <= MAX_BATCH:
        said = f"Send one message at a time, or up to {MAX_BATCH} in a revision of MCP that has batches."
        raise RpcError(INVALID_REQUEST, said)
    answers = []
    for document in documents:
        try:
            message = messages.read(document)
            if message.id is not None:
                result = _handled(request, operations, client.marking(message.id), message)
                answers.append(wire.result(message.id, result))
        except Exception as error:
            # The tools of other messages have run, and a client without their results would run them again.
            told = errors.of_error(error)
            if told is None:
                logger.exception("a message of a batch failed")
                told = errors.our_fault()
            answers.append(messages.error(wire.id_of(document), told))
    return json_reply(answers) if answers else Reply(status=202)


def _handled(request: Request, operations: Operations, client: Client, message: Message) -> dict[str, Any]:
    handler = _handler(message.method, IN_BOTH_ERAS | HANDSHAKE_ALONE)
    return handler(request, operations, client, message.params)


def _handler(method: str, known: Mapping[str, Handler]) -> Handler:
    handler = known.get(method)
    if handler is None:
        raise RpcError(METHOD_NOT_FOUND, f"There is no method “{printable(method, 60)}” here.")
    return handler
