from contextlib import ExitStack
from typing import Any

import msgspec
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.negotiation import BaseContentNegotiation, DefaultContentNegotiation
from rest_framework.request import Request

from catalog.models import Call
from core.errors import DomainError
from designer.exports.document import ReleasedTool
from designer.models import Release
from execution.calls import masking
from people.api.generics import GenericAPIView
from people.permissions import key_of
from protocols.server import EVENT_STREAM, STREAM_HEADERS
from serving import streams
from serving.api.call_documents import FORMAT_PARAMETER, RuntimeCallOutput, answer_document, requested_format
from serving.api.calls import find_call
from serving.streams import StreamedCall, StreamEvent


class AnyAccept(BaseContentNegotiation):
    """Content negotiation that answers errors in JSON even if the caller accepts only a stream."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return DefaultContentNegotiation().select_parser(request, parsers)

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


def event_stream(
    call: Call,
    release: Release,
    tool: ReleasedTool,
    request: Request,
    after: str = "",
    place: ExitStack | None = None,
) -> StreamingHttpResponse:
    """Return the call as server-sent events; `place` as for `streams.follow`."""
    streamed_call = StreamedCall(call, tool, key_of(request), requested_format(request))
    followed = streams.follow(streamed_call, after=after, place=place)

    def encode(event: StreamEvent) -> bytes:
        if event.condition == "alive":
            return b": alive\n\n"
        document = answer_document(event.answer, release, request) if event.answer else event.partial
        head = f"id: {event.id}\nevent: {event.condition}\ndata: ".encode()
        return head + msgspec.json.encode(document) + b"\n\n"

    body = streams.EncodedStream(followed, encode)
    return StreamingHttpResponse(body, headers=STREAM_HEADERS, content_type=EVENT_STREAM)


LAST_EVENT_ID = OpenApiParameter(
    "Last-Event-ID",
    str,
    OpenApiParameter.HEADER,
    description="The id of the event after which the stream continues.",
)


@extend_schema(tags=["runtime-calls"])
class AgentCallEvents(GenericAPIView[Call]):
    """The progress of a call, in server-sent events.

    `started` comes first, then each `partial` that the vendor sends, and one of `final`, `interrupted` and
    `error` at the end. `data` of a `partial` is an object with `outputs`, which replace earlier ones,
    `progress` or `custom`; all others have the call. A stream ends after 15 minutes: reconnect with the id of
    the last event. Partial results are stored for an hour.
    """

    invokes = True
    serializer_class = RuntimeCallOutput
    content_negotiation_class = AnyAccept
    queryset = Call.objects.none()

    @extend_schema(
        operation_id="agents_calls_events",
        parameters=[FORMAT_PARAMETER, LAST_EVENT_ID],
        responses={(200, EVENT_STREAM): OpenApiTypes.STR},
    )
    def get(self, request: Request, call: int, slug: str = "") -> StreamingHttpResponse:
        call_row, release, tool = find_call(request, slug, call)
        if masking.is_masked(call_row, key_of(request)):
            message = "The call has sensitive values, so only the key that started it follows it. Read it."
            raise DomainError("sensitive_values", message, status=403)
        return event_stream(call_row, release, tool, request, request.headers.get("Last-Event-ID", ""))


@extend_schema(tags=["runtime-calls"])
class RuntimeCallEvents(AgentCallEvents):
    """The progress of a call. The same as `agents/{slug}/calls/{call}/events/`."""

    @extend_schema(
        operation_id="calls_events",
        parameters=[FORMAT_PARAMETER, LAST_EVENT_ID],
        responses={(200, EVENT_STREAM): OpenApiTypes.STR},
    )
    def get(self, request: Request, call: int, slug: str = "") -> StreamingHttpResponse:
        return super().get(request, call)
