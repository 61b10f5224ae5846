"""Serves AGNTCY's ACP 0.2: each tool of a release is an agent that clients find, describe and run.

Schemas and the names of inputs and outputs are those of the export for MCP, which requires objects too.
Threads, questions and configurations are those of tools that are agents at their vendor. A transfer is not an
agent that could run here.
https://github.com/agntcy/acp-spec
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from django.http import Http404

from catalog.models import Call
from catalog.models.calls import Mode
from catalog.notifications import callbacks
from catalog.notifications.callbacks import Recipient
from core.errors import DomainError
from execution.calls.call_keys import ClientCallId
from execution.calls.results import notes_on_inputs
from execution.calls.runtime import CallerSide
from protocols.acp import run_options, wire
from protocols.acp import server as acp_server
from protocols.server import (
    EVENT_STREAM,
    STREAM_HEADERS,
    Refusal,
    Reply,
    Request,
    Server,
    Snippet,
    json_reply,
)
from serving import streams
from serving import threads as threads_of_runtimes
from serving.calls import Answer, Wish
from serving.serve import acp_agents, acp_threads
from serving.serve.base import Operations, on_behalf_of, read_call_id
from serving.streams import CallStream, StreamEvent

MAX_MARK_LENGTH = 255
SECRET_HEADER = "Pegboard-Callback-Secret"  # noqa: S105 - a name
# A client that waits longer sends another request.
WAIT_SECONDS = 55.0
CHECK_SECONDS = 5.0  # seconds, to notice a client that has closed its stream


class ACP(Server[Operations]):
    name = "acp"
    label = "ACP (AGNTCY)"

    def snippets(self, address: str, agent: str) -> Sequence[Snippet]:
        # The protocol lists agents by a search with POST.
        everything = """-H "Content-Type: application/json" -d '{}'"""
        return super().snippets(f"{everything} {address}/agents/search", agent)

    def answer(self, request: Request, operations: Operations) -> Reply:
        kind, *path = request.path.strip("/").split("/")
        handlers = {"agents": _answer_agents, "runs": _answer_runs, "threads": _answer_threads}
        answer = handlers.get(kind)
        if answer is None:
            raise Http404
        return answer(request, operations, path)

    def refusal(self, refusal: Refusal, body: bytes) -> Reply:
        return acp_server.refusal(refusal)


PROTOCOL = ACP()


def _answer_agents(request: Request, operations: Operations, path: list[str]) -> Reply:
    match request.method, path:
        case "POST", ["search"]:
            return json_reply(acp_agents.search_agents(operations, _object(request)))
        case "GET", [agent_id]:
            return json_reply(acp_agents.summary(operations, acp_agents.find_agent(operations, agent_id)))
        case "GET", [agent_id, "descriptor"]:
            return json_reply(acp_agents.descriptor(operations, acp_agents.find_agent(operations, agent_id)))
        case "GET", [agent_id, "manifest"]:
            return json_reply(acp_agents.manifest(operations, acp_agents.find_agent(operations, agent_id)))
    raise Http404


def _answer_threads(request: Request, operations: Operations, path: list[str]) -> Reply:
    match request.method, path:
        case "POST", []:
            return json_reply(acp_threads.create_thread(operations, _object(request)))
        case "POST", ["search"]:
            return json_reply(acp_threads.search_threads(operations, _object(request)))
        case "GET", [thread]:
            return json_reply(acp_threads.read_thread(operations, _uuid(thread)))
        case "DELETE", [thread]:
            operations.remove_thread(_uuid(thread))
            return Reply(status=204)
        case "GET", [thread, "history"]:
            return json_reply(acp_threads.history(operations, _uuid(thread), request.parameters))
        case "GET", [thread, "runs"]:
            return json_reply(_list_runs(operations, _uuid(thread), request.parameters))
        case _, [thread, "runs", *below]:
            return _answer_runs(request, operations, below, _uuid(thread))
    raise Http404


def _answer_runs(
    request: Request, operations: Operations, path: list[str], thread: uuid.UUID | None = None
) -> Reply:
    match request.method, path:
        case "POST", []:
            started = _run(request, operations, Mode.ASYNC, thread)
            return json_reply(started["run"], headers=_secret(operations, started))
        case "POST", ["wait"]:
            return _run_and_wait(request, operations, thread)
        case "POST", ["stream"]:
            with streams.reserve_room(operations.holder) as place:
                has_left = run_options.disconnect_check(_object(request), request.has_left)
                started = _run(request, operations, Mode.STREAM, thread)
                secret = _secret(operations, started)
                reply = _stream_run(
                    operations, _uuid(started["run"]["run_id"]), place=place, has_left=has_left
                )
            return replace(reply, headers={**reply.headers, **secret})
        case "POST", ["search"] if thread is None:
            return json_reply(_find_marked_run(request, operations))
        case _, [run, *below]:
            return _answer_run(request, operations, _uuid(run), below, thread)
    raise Http404


def _answer_run(
    request: Request, operations: Operations, run: uuid.UUID, path: list[str], thread: uuid.UUID | None
) -> Reply:
    match request.method, path:
        case "GET", []:
            return json_reply(_read_run(operations, run, thread)["run"])
        case "POST", []:
            return json_reply(_resume_run(operations, run, thread, request)["run"])
        case "GET", ["wait"]:
            return json_reply(_read_run(operations, run, thread, WAIT_SECONDS))
        case "GET", ["stream"]:
            after = request.headers.get("Last-Event-ID", "")
            return _stream_run(operations, run, thread, after)
        case "POST", ["cancel"]:
            run_options.check_cancelling(request.parameters.get("action"), request.parameters.get("wait", ""))
            operations.cancel(operations.newest(run, thread).pk)
            return Reply(status=204)
        case "DELETE", []:
            operations.remove(operations.newest(run, thread).pk)
            return Reply(status=204)
    raise Http404


def _run(
    request: Request, operations: Operations, mode: Mode = Mode.WAIT, thread: uuid.UUID | None = None
) -> dict[str, Any]:
    body = _object(request)
    run_options.check(body)
    try:
        agent = acp_agents.find_agent(operations, body.get("agent_id"))
    except Http404:
        operations.note_unknown(str(body.get("agent_id")))
        raise
    input_object, webhook, mark = body.get("input"), body.get("webhook"), wire.mark_of(body)
    if input_object is not None and not isinstance(input_object, dict):
        raise DomainError("invalid", "“input” is no object.")
    if webhook is not None and not isinstance(webhook, str):
        raise DomainError("invalid", "“webhook” is no address.")
    configuration = acp_server.configuration_of(body)
    call_id = read_call_id(request) or _id_of_marked(mark)
    if thread and not operations.threads().filter(key=thread).exists():
        if body.get("if_not_exists") == "create":
            operations.begin_thread(thread)
        elif not operations.has_made(call_id):
            raise Http404
    wish = Wish(
        tool=agent.document["name"],
        arguments=input_object or {},
        format_=acp_agents.FORMAT,
        is_confirmed=request.is_confirmed,
        call_id=call_id,
        on_behalf_of=on_behalf_of(request.user()),
        mode=mode,
        callback=Recipient(webhook, run_of=str(agent.version.uuid)) if webhook else None,
        thread=thread,
        configuration=configuration,
        mark=mark if len(mark) <= MAX_MARK_LENGTH else "",
        side=CallerSide(
            has_left=run_options.disconnect_check(body, request.has_left) if mode == Mode.WAIT else None
        ),
    )
    return _run_document(operations, agent, operations.run(wish), body)


def _run_and_wait(request: Request, operations: Operations, thread: uuid.UUID | None) -> Reply:
    if not _object(request).get("webhook"):
        return json_reply(_run(request, operations, thread=thread))
    run_options.disconnect_check(_object(request), request.has_left)
    # The worker that runs the call notifies the callback.
    with streams.reserve_room(operations.holder):
        started = _run(request, operations, Mode.ASYNC, thread)
        secret = _secret(operations, started)  # it exists until it is sent
        run = _uuid(started["run"]["run_id"])
        document = _read_run(operations, run, thread, WAIT_SECONDS, has_room=True)
    return json_reply(document, headers=secret)


def _secret(operations: Operations, started: Mapping[str, Any]) -> dict[str, str]:
    # The protocol has no member for the secret that signs callbacks. Without the database nothing can be
    # read.
    is_unknown = started["output"].get("errcode") == wire.ERRORS["unknown"]
    if is_unknown or not started["run"]["creation"].get("webhook"):
        return {}
    return {SECRET_HEADER: operations.callback_secret(_uuid(started["run"]["run_id"]))}


def _id_of_marked(mark: str) -> ClientCallId | None:
    # This id differs from an Idempotency-Key with the same text.
    return ClientCallId(mark, part="run") if mark else None


def _find_marked_run(request: Request, operations: Operations) -> list[dict[str, Any]]:
    # Runs can be found by their mark, and only so.
    body = _object(request)
    _, offset = acp_server.page_of(body)
    call_id = _id_of_marked(wire.mark_of(body))
    call = operations.made_with(call_id) if call_id else None
    if call is None:
        return []
    try:
        run = _read_run(operations, call.key)["run"]
    except Http404:
        return []
    if not run_options.matches_search(body, run) or offset:
        return []
    return [{**run, "creation": {"metadata": body["metadata"]}}]


def _list_runs(operations: Operations, thread: uuid.UUID, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, offset = acp_server.page_of(body)
    run_rows = threads_of_runtimes.runs(
        operations.thread(thread), offset=offset, limit=limit, format_=acp_agents.FORMAT
    )
    return [
        _run_document(operations, _agent_of(operations, answer), answer, {}, run)["run"]
        for run, answer in run_rows
    ]


def _stream_run(
    operations: Operations,
    run: uuid.UUID,
    thread: uuid.UUID | None = None,
    after: str = "",
    place: ExitStack | None = None,
    has_left: Callable[[], bool] | None = None,
) -> Reply:
    """Stream a run. With `has_left`, cancel it once its client has closed the stream."""
    call = operations.newest(run, thread)
    options = {"alive_every": CHECK_SECONDS} if has_left else {}
    followed = operations.follow(call.pk, format_=acp_agents.FORMAT, after=after, place=place, **options)
    if has_left:
        body: streams.EncodedStream = _Cancelling(operations, call.pk, followed, str(run), has_left)
    else:
        body = streams.EncodedStream(
            followed, lambda stream_event: _update(operations, stream_event, str(run))
        )
    return Reply(body=body, headers=STREAM_HEADERS, media_type=EVENT_STREAM)


class _Cancelling(streams.EncodedStream):
    """Cancels the run when the server closes the stream because the client left. The run continues if the
    server itself stops.
    """

    def __init__(
        self,
        operations: Operations,
        call: int,
        followed: CallStream,
        run_id: str,
        has_left: Callable[[], bool],
    ) -> None:
        super().__init__(followed, lambda stream_event: _update(operations, stream_event, run_id))
        self._operations, self._call, self._has_left = operations, call, has_left
        self._has_ended = False

    def __iter__(self) -> Iterator[bytes]:
        for chunk in super().__iter__():
            if self._has_left():
                return
            yield chunk
        # Or the stream has reached its maximal time, and its client reconnects.
        self._has_ended = True

    def close(self) -> None:
        super().close()
        if not self._has_ended and self._has_left():
            # A call that has ended stays as it is.
            with suppress(DomainError):
                self._operations.cancel(self._call)


def _update(operations: Operations, stream_event: StreamEvent, run_id: str) -> bytes:
    if stream_event.answer and stream_event.condition != "started":
        document = _run_document(operations, None, stream_event.answer, {})
        update = wire.update(document["output"], run_id, document["run"]["status"])
        update |= {"notes": document["notes"]} if "notes" in document else {}
    elif stream_event.condition == "started" or "outputs" in (stream_event.partial or {}):
        update = wire.update(wire.result((stream_event.partial or {}).get("outputs", {})), run_id, "pending")
    else:
        return b": alive\n\n"
    return acp_server.event(update, stream_event.id)


def _read_run(
    operations: Operations,
    run: uuid.UUID,
    thread: uuid.UUID | None = None,
    wait: float = 0.0,
    *,
    has_room: bool = False,
) -> dict[str, Any]:
    call = operations.newest(run, thread)
    answer = operations.read_call(call.pk, format_=acp_agents.FORMAT, wait=wait, has_room=has_room)
    return _run_document(operations, _agent_of(operations, answer), answer, {})


def _resume_run(
    operations: Operations, run: uuid.UUID, thread: uuid.UUID | None, request: Request
) -> dict[str, Any]:
    body = _object(request)
    call = operations.newest(run, thread)
    if call.continues and _is_repeated(call, operations, request, body):
        call = call.continues
    answer_before = operations.read_call(call.pk, format_=acp_agents.FORMAT)
    agent = _agent_of(operations, answer_before)
    if agent is None:
        raise Http404
    answers = acp_server.answers_of(body, [ask.id for ask in answer_before.result.asks])
    name = answer_before.tool.signature.name
    # Clients send one name with each step of a run, and each step is a call here.
    call_id = read_call_id(request, str(call.key))
    answer = operations.resume(call.pk, name, answers, format_=acp_agents.FORMAT, call_id=call_id)
    return _run_document(operations, agent, answer, body)


def _is_repeated(call: Call, operations: Operations, request: Request, body: Mapping[str, Any]) -> bool:
    """Return whether the request repeats the answer that created `call`: its client did not get the reply."""
    before = call.continues
    call_id = read_call_id(request, str(before.key)) if before else None
    if before is None or call_id is None:
        return False
    question_ids = [ask.id for ask in before.decoded().asks]
    return operations.made_with(call_id) == call and call.answers == acp_server.answers_of(body, question_ids)


def _agent_of(operations: Operations, answer: Answer) -> acp_agents.Agent | None:
    # None if the served release no longer has such a tool.
    name = answer.tool.signature.name
    return next(
        (agent for agent in acp_agents.list_agents(operations) if agent.document["name"] == name), None
    )


def _run_document(
    operations: Operations,
    agent: acp_agents.Agent | None,
    answer: Answer,
    body: Mapping[str, Any],
    first: Call | None = None,
) -> dict[str, Any]:
    """Return a run with its output. Raises DomainError if nothing was sent, so that there is no run.

    For its client a run that was answered is the same run; `first` is the call that it began with.
    """
    call, result = answer.call, operations.result_of(answer)
    if call is None:
        code = result.code or "refused"
        raise DomainError(code, result.message, fields=dict(result.fields))
    status = callbacks.run_status(answer.outcome, answer.result)
    first = first or call
    while first.continues:
        first = first.continues
    run = wire.run(
        run_id=str(first.key),
        thread_id=str(call.thread.key) if call.thread else "",
        agent_id=str(agent.version.uuid) if agent else "",
        created_at=first.queued_at.isoformat(),
        updated_at=(call.finished_at or call.queued_at).isoformat(),
        status=status if answer.outcome else "pending",
    )
    run["creation"] = dict(body) or ({"metadata": wire.mark(first.mark)} if first.mark else {})
    kind = acp_agents.kind_of(answer.result.asks[0], call) if status == "interrupted" else ""
    output = acp_server.output_of(result, run_id=run["run_id"], status=status, interrupt_kind=kind)
    notes = notes_on_inputs(answer.result)
    return {"run": run, "output": output, **({"notes": notes} if notes else {})}


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise Http404 from None


def _object(request: Request) -> dict[str, Any]:
    document = request.json()
    if not isinstance(document, dict):
        raise DomainError("invalid_json", "The body must be a JSON object.")
    return document
