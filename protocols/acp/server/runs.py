"""The runs of ACP: begun, awaited, followed, resumed and found."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, Literal
from uuid import UUID

from core.errors import DomainError
from protocols.acp import wire
from protocols.acp.server import messages, run_options
from protocols.acp.server.agents import find_agent
from protocols.acp.server.messages import object_in, page_of, uuid_of
from protocols.acp.server.release import AcpRelease, RunRequest, ServedRun
from protocols.server import (
    EVENT_STREAM,
    STREAM_HEADERS,
    CallEvents,
    NoSuchAddressError,
    ServerReply,
    ServerRequest,
    json_reply,
)

MAX_MARK_LENGTH = 255
SECRET_HEADER = "Pegboard-Callback-Secret"  # noqa: S105 - a name
# A client that waits longer sends another request.
WAIT_SECONDS = 55.0
CHECK_SECONDS = 5.0  # seconds, to notice a client that has closed its stream
Mode = Literal["wait", "async", "stream"]


def answer_runs(
    request: ServerRequest, release: AcpRelease, path: list[str], thread: UUID | None = None
) -> ServerReply:
    match request.method, path:
        case "POST", []:
            run = _start(request, release, "async", thread)
            document = _document(run, object_in(request))
            return json_reply(document["run"], headers=_secret(release, run, request))
        case "POST", [wire.WAIT]:
            body = object_in(request)
            if not body.get("webhook"):
                return json_reply(_document(_start(request, release, "wait", thread), body))
            run_options.disconnect_check(body, request.has_left)
            # The worker that runs the call notifies the callback.
            with release.reserve_room():
                run = _start(request, release, "async", thread)
                secret = _secret(release, run, request)  # it exists until it is sent
                run = release.read_run(run.run_id, thread, wait=WAIT_SECONDS, has_room=True)
            return json_reply(_document(run), headers=secret)
        case "POST", [wire.STREAM]:
            with release.reserve_room() as room:
                has_left = run_options.disconnect_check(object_in(request), request.has_left)
                run = _start(request, release, "stream", thread)
                secret = _secret(release, run, request)
                reply = _stream(release, run.run_id, room=room, has_left=has_left)
            return replace(reply, headers={**reply.headers, **secret})
        case "POST", [wire.SEARCH] if thread is None:
            return json_reply(_find_marked_run(request, release))
        case _, [run_id, *below]:
            return _answer_run(request, release, uuid_of(run_id), below, thread)
    raise NoSuchAddressError


def _answer_run(
    request: ServerRequest, release: AcpRelease, run: UUID, path: list[str], thread: UUID | None
) -> ServerReply:
    match request.method, path:
        case "GET", []:
            return json_reply(_document(release.read_run(run, thread))["run"])
        case "POST", []:
            body = object_in(request)
            resumed = release.resume_run(
                run, thread, request.call_name, lambda question_ids: messages.answers_of(body, question_ids)
            )
            return json_reply(_document(resumed, body)["run"])
        case "GET", [wire.WAIT]:
            return json_reply(_document(release.read_run(run, thread, wait=WAIT_SECONDS)))
        case "GET", [wire.STREAM]:
            return _stream(release, run, thread, request.headers.get("Last-Event-ID", ""))
        case "POST", [wire.CANCEL]:
            run_options.check_cancelling(request.parameters.get("action"), request.parameters.get("wait", ""))
            release.cancel_run(run, thread)
            return ServerReply(status=204)
        case "DELETE", []:
            release.remove_run(run, thread)
            return ServerReply(status=204)
    raise NoSuchAddressError


def _start(request: ServerRequest, release: AcpRelease, mode: Mode, thread: UUID | None) -> ServedRun:
    body = object_in(request)
    run_options.check(body)
    try:
        agent = find_agent(release, body.get("agent_id"))
    except DomainError:
        release.report_unknown_tool(str(body.get("agent_id")))
        raise
    input_object, webhook, mark = body.get("input"), body.get("webhook"), wire.mark_of(body)
    if input_object is not None and not isinstance(input_object, dict):
        raise DomainError("invalid", "“input” is no object.")
    if webhook is not None and not isinstance(webhook, str):
        raise DomainError("invalid", "“webhook” is no address.")
    return release.start(
        RunRequest(
            agent=agent,
            tool_name=agent.document["name"],
            arguments=input_object or {},
            is_confirmed=request.is_confirmed,
            call_name=request.call_name,
            user=request.user(),
            mode=mode,
            webhook=webhook or "",
            thread=thread,
            creates_thread=body.get("if_not_exists") == "create",
            configuration=messages.configuration_of(body),
            mark=mark,
            has_left=run_options.disconnect_check(body, request.has_left) if mode == "wait" else None,
        )
    )


def _secret(release: AcpRelease, run: ServedRun, request: ServerRequest) -> dict[str, str]:
    # The protocol has no member for the secret that signs callbacks. Without the database nothing can be
    # read.
    if run.outcome == "unknown" or not object_in(request).get("webhook"):
        return {}
    return {SECRET_HEADER: release.callback_secret(run.run_id)}


def _find_marked_run(request: ServerRequest, release: AcpRelease) -> list[dict[str, Any]]:
    # Runs can be found by their mark, and only so.
    body = object_in(request)
    _, offset = page_of(body)
    mark = wire.mark_of(body)
    run = release.find_run(mark) if mark else None
    document = _document(run)["run"] if run else None
    if document is None or not run_options.matches_search(body, document) or offset:
        return []
    return [{**document, "creation": {"metadata": body["metadata"]}}]


def list_runs(release: AcpRelease, thread: UUID, query: Mapping[str, Any]) -> list[dict[str, Any]]:
    limit, offset = page_of(query)
    return [_document(run)["run"] for run in release.runs(thread, offset=offset, limit=limit)]


def _stream(
    release: AcpRelease,
    run: UUID,
    thread: UUID | None = None,
    after: str = "",
    room: ExitStack | None = None,
    has_left: Callable[[], bool] | None = None,
) -> ServerReply:
    """Stream a run. With `has_left`, cancel it once its client has closed the stream."""
    alive_every = CHECK_SECONDS if has_left else None
    events = release.follow_run(run, thread, after=after, room=room, alive_every=alive_every)
    return ServerReply(
        body=_RunStream(release, run, events, has_left), headers=STREAM_HEADERS, media_type=EVENT_STREAM
    )


class _RunStream:
    """The events of a run as bytes. If it has to notice that its client left, it cancels the run then. The
    run continues if the server itself stops.
    """

    def __init__(
        self, release: AcpRelease, run: UUID, events: CallEvents, has_left: Callable[[], bool] | None
    ) -> None:
        self._release, self._run, self._events = release, run, events
        self._has_left = has_left
        self._has_ended = False

    def __iter__(self) -> Iterator[bytes]:
        run_id = str(self._run)
        for event in self._events:
            if isinstance(event.result, ServedRun):
                document = _document(event.result)
                update = wire.update(document["output"], run_id, document["run"]["status"])
                update |= {"notes": document["notes"]} if "notes" in document else {}
            elif event.condition == "started" or "outputs" in (event.partial or {}):
                outputs = (event.partial or {}).get("outputs", {})
                update = wire.update(wire.result(outputs), run_id, "pending")
            else:
                update = None
            if self._has_left and self._has_left():
                return
            yield messages.event(update, event.id) if update else b": alive\n\n"
        # Or the stream has reached its maximal time, and its client reconnects.
        self._has_ended = True

    def close(self) -> None:
        self._events.close()
        if self._has_left and not self._has_ended and self._has_left():
            # A call that has ended stays as it is.
            with suppress(DomainError):
                self._release.cancel_run(self._run)


def _document(run: ServedRun, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a run with its output. body: the request that begins or resumes it."""
    document = wire.run(
        run_id=str(run.run_id),
        thread_id=str(run.thread_id or ""),
        agent_id=run.agent_id,
        created_at=run.created_at.isoformat(),
        updated_at=run.updated_at.isoformat(),
        status=run.status if run.outcome else "pending",
    )
    document["creation"] = dict(body or {}) or ({"metadata": wire.mark(run.mark)} if run.mark else {})
    notes = {"notes": run.notes} if run.notes else {}
    return {"run": document, "output": messages.output_of(run), **notes}
