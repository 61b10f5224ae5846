from typing import Any

import msgspec
from django.http import Http404, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.negotiation import BaseContentNegotiation, DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.utils.urls import replace_query_param

from catalog.api.calls import (
    AskOutput,
    CallErrorOutput,
    CallInput,
    ResumeInput,
    RetryOutput,
    retry_document,
)
from catalog.calls import invocation, queue
from catalog.models import Call
from catalog.models.calls import OUTCOMES, CallStatus, Mode
from catalog.notifications import callbacks
from catalog.user_grants import end_users
from catalog.user_grants.end_users import OnBehalfOf
from core.errors import DomainError
from core.outbound.addresses import MAX_URL_LENGTH
from core.public_url import public_url
from core.serializers import Input
from designer import exports
from designer.api.agents import chosen_agent
from designer.api.release_agents import SUB
from designer.api.releases import NUMBER, found_release, tell_if_retired
from designer.exports import transfers
from designer.exports.document import ReleasedTool
from designer.models import Agent, Release
from designer.releases import publishing, receipts
from executor import calls, streams
from executor.calls import Answer, UnknownToolError
from executor.serve.base import EVENT_STREAM, JSON
from executor.streams import Told
from people.api.generics import GenericAPIView
from people.models import RUNTIME_SCOPES, Role, Scope
from people.permissions import key_of, person

MAX_WAIT = 60  # seconds, which proxies let a request take
NAME = OpenApiParameter("name", str, OpenApiParameter.PATH, description="As the model knows the tool.")
FORMAT_PARAMETER = OpenApiParameter(
    "format",
    str,
    enum=[format_.name for format_ in exports.FORMATS],
    description="By whose names inputs go in and outputs come back. Without it the names of any format are "
    "taken, and outputs come back by those of `json-schema`.",
)


class OnBehalfOfInput(Input):
    id = serializers.CharField(
        max_length=end_users.MAX_LENGTH,
        trim_whitespace=False,
        help_text="Your own name for the user: one user of this agent, and kept as a keyed digest with the "
        "call. Vendors whose protocol has a place for it (OXP) are told it.",
    )


class RuntimeCallInput(CallInput):
    on_behalf_of = OnBehalfOfInput(required=False, help_text="The user of the agent for whom the tool runs.")
    resume_when_granted = serializers.BooleanField(
        required=False,
        help_text="If the user has to authorize something first, the call goes on once by itself when that "
        "is done: `continued_by` names the call that it becomes.",
    )
    id = serializers.UUIDField(
        required=False,
        help_text="Of your choice. The same call sent again with it does not run again, for at least 24 "
        "hours; another one with it is a 409.",
    )

    mode = serializers.ChoiceField(
        choices=Mode.values,
        required=False,
        help_text="`wait`, which is what happens unless told: the answer is the outcome. `async`: the answer "
        "is 202 at once, and the outcome is found at `calls/{call}/`. `stream`: the answer is a stream of "
        "server-sent events, as at `calls/{call}/events/`.",
    )
    callback = serializers.CharField(
        max_length=MAX_URL_LENGTH,
        required=False,
        help_text="An address that hears of the end of a call that is not waited for: a POST signed as those "
        "of webhooks are, with the `callback_secret` of this answer.",
    )
    deadline_seconds = serializers.IntegerField(
        min_value=1,
        max_value=queue.MAX_LONG_DEADLINE_SECONDS,
        required=False,
        help_text="How long the tool may take. With `wait` 30 unless told and 120 at most, else an hour "
        "unless told and a day at most.",
    )


class NextOutput(serializers.Serializer[Any]):
    """Addresses within the release that the transfer was made in."""

    tools = serializers.URLField()
    procedures = serializers.URLField()


class RuntimeCallOutput(serializers.Serializer[Any]):
    """Nothing of the vendor's headers, cookies or addresses; names are those of the format."""

    call = serializers.IntegerField(allow_null=True, help_text="Null when nothing was sent.")
    status = serializers.ChoiceField(choices=CallStatus.choices)
    release = serializers.IntegerField()
    tool = serializers.CharField()
    version = serializers.CharField(
        help_text="The version in the release, as the vendor numbers it; empty where it numbers nothing."
    )
    ordinal = serializers.IntegerField(allow_null=True, help_text="Null for a transfer.")
    outcome = serializers.ChoiceField(
        choices=[*OUTCOMES, transfers.KIND], allow_null=True, help_text="Null until it is finished."
    )
    agent = serializers.SlugField(
        allow_null=True, help_text="The sub-agent that takes over; null unless the outcome is `transfer`."
    )
    next = NextOutput(allow_null=True, help_text="What a model is shown from now on, after a transfer.")
    outputs = serializers.DictField()
    parsed = serializers.DictField(help_text="What those outputs say that are JSON in a text.")
    outputs_cut = serializers.BooleanField(help_text="They were over 1 MB and are not kept.")
    error = CallErrorOutput(allow_null=True)
    retry = RetryOutput(allow_null=True, help_text="Null where another try of the same call would not help.")
    notes = serializers.ListField(child=serializers.DictField(child=serializers.CharField()))
    asks = AskOutput(many=True)
    resume = serializers.URLField(allow_null=True, help_text="Where answers go.")
    continued_by = serializers.IntegerField(
        allow_null=True, help_text="The newest call that goes on where this one stopped to ask."
    )
    duration_ms = serializers.IntegerField(allow_null=True)
    callback_secret = serializers.CharField(
        required=False, help_text="In the answer to a call with a `callback` alone: what signs its POST."
    )


# By status and kind of content.
INVOKED = {
    (200, JSON): RuntimeCallOutput,
    (200, EVENT_STREAM): OpenApiTypes.STR,
    (202, JSON): RuntimeCallOutput,
}


def asked_format(request: Request) -> str:
    """The export format by whose names the caller goes; "" where it does not say."""
    name = request.query_params.get("format")
    return publishing.find_format(name).name if name is not None else ""


def _on_behalf_of(asked: dict[str, Any]) -> OnBehalfOf | None:
    named = asked.get("on_behalf_of")
    return OnBehalfOf(named["id"], asked.get("resume_when_granted", False)) if named else None


def answer_document(answer: Answer, release: Release, request: Request) -> dict[str, Any]:
    call, tool, result = answer.call, answer.tool, answer.result
    resume = continued_by = None
    if call and result.resume is not None:
        continued_by = call.continued_by.order_by("-pk").values_list("pk", flat=True).first()
        at = {"slug": release.agent.slug, "call": call.pk}
        resume = _in_format(reverse("api-agent-call-resume", kwargs=at, request=request), request)
    is_transfer = answer.outcome == transfers.KIND
    return {
        "call": call.pk if call else None,
        "status": call.status if call else CallStatus.FINISHED,
        "release": release.number,
        "tool": tool.signature.name,
        "version": tool.version.label,
        "ordinal": None if tool.signature.kind == transfers.KIND else tool.version.ordinal,
        "outcome": answer.outcome,
        "agent": answer.transfer_to if is_transfer else None,
        "next": _next(release, answer.transfer_to, request) if is_transfer else None,
        "outputs": result.outputs,
        "parsed": result.parsed,
        "outputs_cut": bool(result.cut),
        "error": result.error,
        "retry": retry_document(result),
        "notes": result.notes,
        "asks": [{"id": a.id, "message": a.message, "schema": a.schema, "url": a.url} for a in result.asks],
        "resume": resume,
        "continued_by": continued_by,
        "duration_ms": call.duration_ms if call else 0,
    }


def _next(release: Release, sub_agent: str, request: Request) -> dict[str, str]:
    # By its number, so that the conversation stays within the release in which it was handed over.
    at = {"slug": release.agent.slug, "number": release.number, "sub": sub_agent}
    tools, procedures = (
        reverse(f"api-release-agent-{what}", kwargs=at, request=request) for what in ("tools", "procedures")
    )
    return {"tools": _in_format(tools, request), "procedures": procedures}


def _in_format(url: str, request: Request) -> str:
    format_ = asked_format(request)
    return replace_query_param(url, "format", format_) if format_ else url


def _answered(answer: Answer, release: Release, request: Request) -> Response:
    is_under_way = answer.call is not None and answer.call.is_active
    return Response(answer_document(answer, release, request), status=202 if is_under_way else 200)


class AnyAccept(BaseContentNegotiation):
    """A caller that asks for a stream is answered in JSON where there is none, such as by an error."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return DefaultContentNegotiation().select_parser(request, parsers)

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


def event_stream(
    call: Call, release: Release, tool: ReleasedTool, request: Request, after: str = ""
) -> StreamingHttpResponse:
    """The call as server-sent events. Raises NoRoomError."""
    followed = streams.follow(call, tool, asked_format(request), after)
    body = streams.Written(followed, lambda told: _event(told, release, request))
    return StreamingHttpResponse(body, headers=streams.HEADERS, content_type=EVENT_STREAM)


def _event(told: Told, release: Release, request: Request) -> bytes:
    if told.condition == "alive":
        return b": alive\n\n"
    document = answer_document(told.answer, release, request) if told.answer else told.partial
    head = f"id: {told.id}\nevent: {told.condition}\ndata: ".encode()
    return head + msgspec.json.encode(document) + b"\n\n"


@extend_schema(tags=["invoke"])
class ReleaseInvoke(GenericAPIView[Release]):
    """Run a tool of a release and wait for the outcome, or let a worker run it: `mode`.

    `arguments` go by the names of the format that the release was read in: say which in `format`, and the
    `outputs` come back by the same. Presets and hidden inputs are added here. The call is checked against the
    version that the release holds, and made to that version. A release runs by its number or digest as
    long as it is kept, so that a session ends with the tools that it began with; what review has stopped does
    not run in any. 202 says that the call is under way: a worker makes it, or another request with the
    same `id`.
    """

    write_role = Role.DESIGNER
    invokes = True
    serializer_class = RuntimeCallOutput
    pagination_class = None
    content_negotiation_class = AnyAccept
    queryset = Release.objects.none()

    @extend_schema(
        operation_id="agents_releases_tools_invoke",
        parameters=[NUMBER, NAME, FORMAT_PARAMETER],
        request=RuntimeCallInput,
        responses=INVOKED,
    )
    def post(self, request: Request, slug: str, number: str, name: str) -> HttpResponseBase:
        return self.invoked(request, slug, number, name)

    def invoked(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> HttpResponseBase:
        given = RuntimeCallInput(data=request.data)
        given.is_valid(raise_exception=True)
        asked, sub = given.validated_data, "" if sub == slug else sub
        actor, key = person(request), key_of(request)
        try:
            release = found_release(request, slug, number)
            answer = calls.run(
                release,
                name,
                asked.get("arguments", {}),
                actor=actor,
                key=key,
                sub_agent=sub,
                format_=asked_format(request),
                deadline_seconds=asked.get("deadline_seconds"),
                is_confirmed=asked.get("confirm", False),
                call_id=asked.get("id"),
                on_behalf_of=_on_behalf_of(asked),
                site=public_url("/", request).rstrip("/"),
                mode=Mode(asked.get("mode", Mode.WAIT)),
                callback=asked.get("callback", ""),
            )
        except (Http404, UnknownToolError) as error:
            # A key that asks for another agent's tools is noted, and hears what it would of one that is not
            # there.
            if key and Scope.INVOKE in key.scopes:
                calls.note_refusal(key, actor=actor, agent=slug, tool=name)
            raise Http404 from error
        receipts.note_served(key, release, surface=f"{sub}/invoke" if sub else "invoke", name=number)
        if asked.get("mode") == Mode.STREAM and answer.call:
            return event_stream(answer.call, release, answer.tool, request)
        reply = _answered(answer, release, request)
        if asked.get("callback") and answer.call:
            reply.data["callback_secret"] = callbacks.secret_of(answer.call)
        return reply


@extend_schema(tags=["invoke"])
class ReleaseAgentInvoke(ReleaseInvoke):
    """Run a tool of one agent of a release, or hand over to a sub-agent of it."""

    @extend_schema(
        operation_id="agents_releases_agents_tools_invoke",
        parameters=[NUMBER, SUB, NAME, FORMAT_PARAMETER],
        request=RuntimeCallInput,
        responses=INVOKED,
    )
    def post(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> HttpResponseBase:
        return self.invoked(request, slug, number, name, sub)


def found_call(request: Request, slug: str, pk: int) -> tuple[Call, Release, ReleasedTool]:
    """A call that a runtime made; `slug` is its agent's where the address names it, else ""."""
    rows = Call.objects.select_related("version__tool__endpoint__vendor")
    if slug:
        rows = rows.filter(agent=chosen_agent(request, slug).pk)
    else:
        seen = Agent.objects.live().visible_to(person(request), key_of(request))
        rows = rows.filter(agent__in=seen.values("pk"))
    key = key_of(request)
    # A key of a runtime finds what it called itself; a user who designs the agent finds all of its calls.
    if key and set(key.scopes) <= RUNTIME_SCOPES:
        rows = rows.filter(api_key=key)
    call = get_object_or_404(rows, pk=pk)
    return call, *calls.made_through(call)


WAIT = OpenApiParameter(
    "wait",
    int,
    description=f"Wait for the end, for up to so many seconds: {MAX_WAIT} at most. What is still under way "
    "then is answered as it is.",
)


@extend_schema(tags=["runtime-calls"])
class AgentCall(GenericAPIView[Call]):
    """What became of a call that a runtime of this agent made."""

    invokes = True
    serializer_class = RuntimeCallOutput
    pagination_class = None
    queryset = Call.objects.none()

    @extend_schema(operation_id="agents_calls_retrieve", parameters=[FORMAT_PARAMETER, WAIT])
    def get(self, request: Request, call: int, slug: str = "") -> Response:
        asked = request.query_params.get("wait", "0")
        if not asked.isascii() or not asked.isdigit() or int(asked) > MAX_WAIT:
            message = f"“wait” is a whole number of seconds, from 0 to {MAX_WAIT}."
            raise DomainError("invalid", message, fields={"wait": message})
        found, release, tool = found_call(request, slug, call)
        answer = calls.answer_of(invocation.follow(found, int(asked)), tool, asked_format(request))
        return Response(answer_document(answer, release, request))


@extend_schema(tags=["runtime-calls"])
class RuntimeCall(AgentCall):
    """What became of a call that a runtime made."""

    @extend_schema(operation_id="calls_retrieve", parameters=[FORMAT_PARAMETER, WAIT])
    def get(self, request: Request, call: int, slug: str = "") -> Response:
        return super().get(request, call)


LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID", str, OpenApiParameter.HEADER, description="Go on after this event."
)


@extend_schema(tags=["runtime-calls"])
class AgentCallEvents(GenericAPIView[Call]):
    """A call as it goes, in server-sent events.

    `started` comes first, then each `partial` that the vendor sends, and one of `final`, `interrupted` and
    `error` at the end. `data` of a `partial` is an object with `outputs`, which replace those before,
    `progress` or `custom`; all others have the call. A stream ends after 15 minutes: come back with the id of
    the last event. Partial results are kept for an hour.
    """

    invokes = True
    serializer_class = RuntimeCallOutput
    pagination_class = None
    content_negotiation_class = AnyAccept
    queryset = Call.objects.none()

    @extend_schema(
        operation_id="agents_calls_events",
        parameters=[FORMAT_PARAMETER, LAST_EVENT_ID],
        responses={(200, EVENT_STREAM): OpenApiTypes.STR},
    )
    def get(self, request: Request, call: int, slug: str = "") -> StreamingHttpResponse:
        found, release, tool = found_call(request, slug, call)
        return event_stream(found, release, tool, request, request.headers.get("Last-Event-ID", ""))


@extend_schema(tags=["runtime-calls"])
class RuntimeCallEvents(AgentCallEvents):
    """A call as it goes, as below an agent."""

    @extend_schema(
        operation_id="calls_events",
        parameters=[FORMAT_PARAMETER, LAST_EVENT_ID],
        responses={(200, EVENT_STREAM): OpenApiTypes.STR},
    )
    def get(self, request: Request, call: int, slug: str = "") -> StreamingHttpResponse:
        return super().get(request, call)


@extend_schema(tags=["runtime-calls"])
class AgentCallCancel(GenericAPIView[Call]):
    """End a call that is under way.

    The vendor is told where its protocol can; what had been sent may have done its work. 409 `call_ended`
    says that the call had ended by itself.
    """

    write_role = Role.DESIGNER
    invokes = True
    serializer_class = RuntimeCallOutput
    pagination_class = None
    queryset = Call.objects.none()

    @extend_schema(operation_id="agents_calls_cancel", parameters=[FORMAT_PARAMETER], request=None)
    def post(self, request: Request, call: int, slug: str = "") -> Response:
        found, release, tool = found_call(request, slug, call)
        ended = calls.cancel(found, release, actor=person(request), key=key_of(request))
        answer = calls.answer_of(ended, tool, asked_format(request))
        return Response(answer_document(answer, release, request))


@extend_schema(tags=["runtime-calls"])
class RuntimeCallCancel(AgentCallCancel):
    """End a call that is under way, as below an agent."""

    @extend_schema(operation_id="calls_cancel", parameters=[FORMAT_PARAMETER], request=None)
    def post(self, request: Request, call: int, slug: str = "") -> Response:
        return super().post(request, call)


@extend_schema(tags=["runtime-calls"])
class AgentCallResume(GenericAPIView[Call]):
    """Go on with a call that stopped to ask, through the release that it was made through.

    It becomes another call, with an outcome of its own.
    """

    write_role = Role.DESIGNER
    invokes = True
    serializer_class = RuntimeCallOutput
    pagination_class = None
    queryset = Call.objects.none()

    @extend_schema(
        operation_id="agents_calls_resume",
        parameters=[FORMAT_PARAMETER],
        request=ResumeInput,
        responses={200: RuntimeCallOutput, 202: RuntimeCallOutput},
    )
    def post(self, request: Request, call: int, slug: str = "") -> Response:
        given = ResumeInput(data=request.data)
        given.is_valid(raise_exception=True)
        format_ = asked_format(request)
        found, release, tool = found_call(request, slug, call)
        # What was begun in a retired release may be ended in it; the caller is told.
        tell_if_retired(request, release, hands_out=False)
        answer = calls.resume(
            found,
            release,
            tool,
            actor=person(request),
            key=key_of(request),
            answers=given.validated_data.get("answers", {}),
            format_=format_,
            site=public_url("/", request).rstrip("/"),
        )
        surface = f"{found.sub_agent}/invoke" if found.sub_agent else "invoke"
        receipts.note_served(key_of(request), release, surface=surface, name=str(release.number))
        return _answered(answer, release, request)


@extend_schema(tags=["runtime-calls"])
class RuntimeCallResume(AgentCallResume):
    """Go on with a call that stopped to ask, as below an agent."""

    @extend_schema(
        operation_id="calls_resume",
        parameters=[FORMAT_PARAMETER],
        request=ResumeInput,
        responses={200: RuntimeCallOutput, 202: RuntimeCallOutput},
    )
    def post(self, request: Request, call: int, slug: str = "") -> Response:
        return super().post(request, call)
