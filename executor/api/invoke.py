from contextlib import ExitStack
from typing import Any

from django.http import Http404
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from catalog.calls import invocation
from catalog.models.calls import Mode
from core.errors import invalid
from designer.api.asked_releases import NUMBER, found_release
from designer.api.release_agents import SUB
from designer.models import Release
from designer.releases import receipts
from executor import calls, streams
from executor.api.call_documents import (
    FORMAT_PARAMETER,
    MAX_NAME_LENGTH,
    RuntimeCallInput,
    RuntimeCallOutput,
    answered,
    wished,
)
from executor.api.call_events import AnyAccept, event_stream
from executor.calls import UnknownToolError
from people.api.generics import GenericAPIView
from people.models import Role, Scope
from people.permissions import key_of, person
from protocols.server import EVENT_STREAM, JSON

NAME = OpenApiParameter("name", str, OpenApiParameter.PATH, description="As the model knows the tool.")
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="In place of `idempotency_key` in the body.",
)
# By status and kind of content.
ANSWERED = {
    (200, JSON): RuntimeCallOutput,
    (200, EVENT_STREAM): OpenApiTypes.STR,
    (202, JSON): RuntimeCallOutput,
}


def _named(asked: dict[str, Any], request: Request) -> dict[str, Any]:
    # The header says what the member of the body does.
    name = request.headers.get("Idempotency-Key", "").strip()
    if not name:
        return asked
    if len(name) > MAX_NAME_LENGTH:
        raise invalid(**{"Idempotency-Key": f"has at most {MAX_NAME_LENGTH} characters"})
    if asked.get("idempotency_key", name) != name:
        raise invalid(idempotency_key="Give this or the header; the two name different calls.")
    return {**asked, "idempotency_key": name}


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
        parameters=[NUMBER, NAME, FORMAT_PARAMETER, IDEMPOTENCY_KEY],
        request=RuntimeCallInput,
        responses=ANSWERED,
    )
    def post(self, request: Request, slug: str, number: str, name: str) -> HttpResponseBase:
        return self.invoked(request, slug, number, name)

    def invoked(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> HttpResponseBase:
        asked, sub = _named(RuntimeCallInput.parse(request.data), request), "" if sub == slug else sub
        actor, key = person(request), key_of(request)
        try:
            release = found_release(request, slug, number)
            holder = invocation.holder_for(actor.pk, release.agent_id, key.pk if key else None)
            with streams.placed(holder) if asked.get("mode") == Mode.STREAM else ExitStack() as place:
                wish = wished(asked, request, tool=name, sub_agent=sub)
                answer = calls.run(release, wish, actor=actor, key=key)
                held = place.pop_all()
        except (Http404, UnknownToolError) as error:
            # A key that asks for another agent's tools is noted, and hears what it would of one that is not
            # there.
            if key and Scope.INVOKE in key.scopes:
                calls.note_refusal(key, actor=actor, agent=slug, tool=name)
            raise Http404 from error
        with held:
            receipts.note_served(key, release, surface=f"{sub}/invoke" if sub else "invoke", name=number)
            if asked.get("mode") == Mode.STREAM and answer.call:
                return event_stream(answer.call, release, answer.tool, request, place=held)
            return answered(answer, release, request, calls_back=bool(asked.get("callback")))


@extend_schema(tags=["invoke"])
class ReleaseAgentInvoke(ReleaseInvoke):
    """Run a tool of one agent of a release, or hand over to a sub-agent of it."""

    @extend_schema(
        operation_id="agents_releases_agents_tools_invoke",
        parameters=[NUMBER, SUB, NAME, FORMAT_PARAMETER, IDEMPOTENCY_KEY],
        request=RuntimeCallInput,
        responses=ANSWERED,
    )
    def post(self, request: Request, slug: str, number: str, name: str, sub: str = "") -> HttpResponseBase:
        return self.invoked(request, slug, number, name, sub)
