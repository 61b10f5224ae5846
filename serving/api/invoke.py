from contextlib import ExitStack
from typing import Any

from django.http import Http404
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from catalog.models.calls import Mode
from core.errors import invalid
from designer.api.asked_releases import NUMBER, find_release
from designer.api.release_agents import SUB
from designer.models import Release
from designer.releases import receipts
from execution.calls import places
from people.api.generics import GenericAPIView
from people.models import KeyScope, Role
from people.permissions import key_of, person
from protocols.server import EVENT_STREAM, JSON, UnknownToolError
from serving import calls, stored_calls, streams
from serving.api.call_documents import (
    FORMAT_PARAMETER,
    MAX_NAME_LENGTH,
    RuntimeCallInput,
    RuntimeCallOutput,
    build_call_request,
    build_response,
)
from serving.api.call_events import AnyAccept, event_stream

NAME = OpenApiParameter(
    "name", str, OpenApiParameter.PATH, description="The name of the tool that a model sees."
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="In place of `idempotency_key` in the body.",
)
# By status and kind of content.
ANSWER_RESPONSES = {
    (200, JSON): RuntimeCallOutput,
    (200, EVENT_STREAM): OpenApiTypes.STR,
    (202, JSON): RuntimeCallOutput,
}


def _with_header_key(options: dict[str, Any], request: Request) -> dict[str, Any]:
    # The header has the same meaning as the member of the body.
    name = request.headers.get("Idempotency-Key", "").strip()
    if not name:
        return options
    if len(name) > MAX_NAME_LENGTH:
        raise invalid(**{"Idempotency-Key": f"has at most {MAX_NAME_LENGTH} characters"})
    if options.get("idempotency_key", name) != name:
        raise invalid(idempotency_key="Send this or the header; the two name different calls.")
    return {**options, "idempotency_key": name}


@extend_schema(tags=["invoke"])
class ReleaseInvoke(GenericAPIView[Release]):
    """Run a tool of a release and wait for the outcome, or let a worker run it: `mode`.

    `arguments` use the names of the format in which the release was read: set it in `format`, and the
    `outputs` use the same names. Presets and hidden inputs are added here. The call is checked against the
    version in the release, and sent to that version. A release runs by its number or digest as long as it is
    stored, so that a session ends with the tools that it began with; a version that review has stopped does
    not run in any. 202: the call is running, in a worker or in another request with the same `id`.
    """

    write_role = Role.DESIGNER
    invokes = True
    serializer_class = RuntimeCallOutput
    content_negotiation_class = AnyAccept
    queryset = Release.objects.none()

    @extend_schema(
        operation_id="agents_releases_tools_invoke",
        parameters=[NUMBER, NAME, FORMAT_PARAMETER, IDEMPOTENCY_KEY],
        request=RuntimeCallInput,
        responses=ANSWER_RESPONSES,
    )
    def post(self, request: Request, slug: str, number: str, name: str) -> HttpResponseBase:
        return self.invoked(request, slug, number, name)

    def invoked(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> HttpResponseBase:
        options, sub = (
            _with_header_key(RuntimeCallInput.parse(request.data), request),
            "" if sub == slug else sub,
        )
        actor, key = person(request), key_of(request)
        try:
            release = find_release(request, slug, number)
            holder = places.holder_for(actor.pk, release.agent_id, key.pk if key else None)
            with streams.reserve_room(holder) if options.get("mode") == Mode.STREAM else ExitStack() as place:
                call_request = build_call_request(options, request, tool=name, sub_agent=sub)
                answer = calls.run(release, call_request, actor=actor, key=key)
                room_stack = place.pop_all()
        except (Http404, UnknownToolError) as error:
            # A key that requests another agent's tools is recorded, and gets the same answer as for an agent
            # that does not exist.
            if key and KeyScope.INVOKE in key.scopes:
                stored_calls.record_refusal(key, actor=actor, agent=slug, tool=name)
            raise Http404 from error
        with room_stack:
            receipts.record_served(key, release, surface=f"{sub}/invoke" if sub else "invoke", name=number)
            if options.get("mode") == Mode.STREAM and answer.call:
                return event_stream(answer.call, release, answer.tool, request, place=room_stack)
            return build_response(answer, release, request, calls_back=bool(options.get("callback")))


@extend_schema(tags=["invoke"])
class ReleaseAgentInvoke(ReleaseInvoke):
    """Run a tool of one agent of a release, or transfer to a sub-agent of it."""

    @extend_schema(
        operation_id="agents_releases_agents_tools_invoke",
        parameters=[NUMBER, SUB, NAME, FORMAT_PARAMETER, IDEMPOTENCY_KEY],
        request=RuntimeCallInput,
        responses=ANSWER_RESPONSES,
    )
    def post(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> HttpResponseBase:
        return self.invoked(request, slug, number, name, sub)
