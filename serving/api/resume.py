from contextlib import ExitStack

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from catalog.models import Call
from catalog.models.calls import Mode
from core.public_url import public_url
from core.serializers import valid_data
from designer.api.asked_releases import report_retirement
from designer.releases import receipts
from execution.api.calls import ResumeInput
from execution.calls import places
from people.api.generics import GenericAPIView
from people.models import Role
from people.permissions import key_of, person
from serving import calls, streams
from serving.api.call_documents import FORMAT_PARAMETER, RuntimeCallOutput, build_response, requested_format
from serving.api.call_events import AnyAccept, event_stream
from serving.api.calls import find_call
from serving.api.invoke import ANSWER_RESPONSES
from serving.calls import Continuation


class RuntimeResumeInput(ResumeInput):
    mode = serializers.ChoiceField(
        choices=Mode.values,
        required=False,
        help_text="The mode of the continuation, as for a call: `wait` by default, `async` or `stream`.",
    )


@extend_schema(tags=["runtime-call-endings"])
class AgentCallResume(GenericAPIView[Call]):
    """Continue a call that stopped with a question, through the release of the call.

    The result is another call, with an outcome of its own. A `stream` has the vendor's events from the answer
    on, and none from before it.
    """

    write_role = Role.DESIGNER
    invokes = True
    serializer_class = RuntimeCallOutput
    content_negotiation_class = AnyAccept
    queryset = Call.objects.none()

    @extend_schema(
        operation_id="agents_calls_resume",
        parameters=[FORMAT_PARAMETER],
        request=RuntimeResumeInput,
        responses=ANSWER_RESPONSES,
    )
    def post(self, request: Request, call: int, slug: str = "") -> HttpResponseBase:
        values = valid_data(RuntimeResumeInput(data=request.data))
        mode = Mode(values.get("mode", Mode.WAIT))
        call_row, release, tool = find_call(request, slug, call)
        # A call that was begun in a retired release may be finished there; headers notify the caller.
        report_retirement(request, release, hands_out=False)
        with (
            streams.reserve_room(places.holder_of(call_row)) if mode == Mode.STREAM else ExitStack() as place
        ):
            answer = calls.resume(
                call_row,
                release,
                tool,
                Continuation(
                    answers=values.get("answers", {}),
                    format_=requested_format(request),
                    site=public_url("/", request).rstrip("/"),
                    mode=mode,
                ),
                actor=person(request),
                key=key_of(request),
            )
            room_stack = place.pop_all()
        with room_stack:
            surface = f"{call_row.sub_agent}/invoke" if call_row.sub_agent else "invoke"
            receipts.record_served(key_of(request), release, surface=surface, name=str(release.number))
            if mode == Mode.STREAM and answer.call:
                return event_stream(answer.call, release, answer.tool, request, place=room_stack)
            return build_response(answer, release, request)


@extend_schema(tags=["runtime-call-endings"])
class RuntimeCallResume(AgentCallResume):
    """Continue a call that stopped with a question. The same as below `agents/{slug}/`."""

    @extend_schema(
        operation_id="calls_resume",
        parameters=[FORMAT_PARAMETER],
        request=RuntimeResumeInput,
        responses=ANSWER_RESPONSES,
    )
    def post(self, request: Request, call: int, slug: str = "") -> HttpResponseBase:
        return super().post(request, call)
