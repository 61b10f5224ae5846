from contextlib import ExitStack

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from catalog.api.calls import ResumeInput
from catalog.calls import invocation
from catalog.models import Call
from catalog.models.calls import Mode
from core.public_url import public_url
from designer.api.asked_releases import tell_if_retired
from designer.releases import receipts
from executor import calls, streams
from executor.api.call_documents import FORMAT_PARAMETER, RuntimeCallOutput, answered, asked_format
from executor.api.call_events import AnyAccept, event_stream
from executor.api.calls import found_call
from executor.api.invoke import ANSWERED
from people.api.generics import GenericAPIView
from people.models import Role
from people.permissions import key_of, person


class RuntimeResumeInput(ResumeInput):
    mode = serializers.ChoiceField(
        choices=Mode.values,
        required=False,
        help_text="How the call that it becomes is made, as for a call: `wait` unless told, `async` or "
        "`stream`.",
    )


@extend_schema(tags=["runtime-call-endings"])
class AgentCallResume(GenericAPIView[Call]):
    """Go on with a call that stopped to ask, through the release that it was made through.

    It becomes another call, with an outcome of its own. A `stream` has what the vendor sends from the answer
    on, and nothing from before it.
    """

    write_role = Role.DESIGNER
    invokes = True
    serializer_class = RuntimeCallOutput
    pagination_class = None
    content_negotiation_class = AnyAccept
    queryset = Call.objects.none()

    @extend_schema(
        operation_id="agents_calls_resume",
        parameters=[FORMAT_PARAMETER],
        request=RuntimeResumeInput,
        responses=ANSWERED,
    )
    def post(self, request: Request, call: int, slug: str = "") -> HttpResponseBase:
        given = RuntimeResumeInput(data=request.data)
        given.is_valid(raise_exception=True)
        mode = Mode(given.validated_data.get("mode", Mode.WAIT))
        found, release, tool = found_call(request, slug, call)
        # What was begun in a retired release may be ended in it; the caller is told.
        tell_if_retired(request, release, hands_out=False)
        with streams.placed(invocation.holder_of(found)) if mode == Mode.STREAM else ExitStack() as place:
            answer = calls.resume(
                found,
                release,
                tool,
                actor=person(request),
                key=key_of(request),
                answers=given.validated_data.get("answers", {}),
                format_=asked_format(request),
                site=public_url("/", request).rstrip("/"),
                mode=mode,
            )
            held = place.pop_all()
        with held:
            surface = f"{found.sub_agent}/invoke" if found.sub_agent else "invoke"
            receipts.note_served(key_of(request), release, surface=surface, name=str(release.number))
            if mode == Mode.STREAM and answer.call:
                return event_stream(answer.call, release, answer.tool, request, place=held)
            return answered(answer, release, request)


@extend_schema(tags=["runtime-call-endings"])
class RuntimeCallResume(AgentCallResume):
    """Go on with a call that stopped to ask, as below an agent."""

    @extend_schema(
        operation_id="calls_resume",
        parameters=[FORMAT_PARAMETER],
        request=RuntimeResumeInput,
        responses=ANSWERED,
    )
    def post(self, request: Request, call: int, slug: str = "") -> HttpResponseBase:
        return super().post(request, call)
