from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Call
from core.errors import DomainError
from core.serializers import Input, valid_data
from designer.api.agents import chosen_agent
from designer.exports.document import ReleasedTool
from designer.models import Agent, Release
from execution.calls import call_keys, invocation, masking
from execution.calls.call_keys import ClientCallId, client_call_id
from people.api.generics import GenericAPIView, ListAPIView
from people.models import RUNTIME_SCOPES, Role
from people.permissions import key_of, person
from serving import calls, stored_calls
from serving.api.call_documents import (
    FORMAT_PARAMETER,
    MAX_NAME_LENGTH,
    RuntimeCallOutput,
    answer_document,
    requested_format,
)
from serving.batches import MAX_CALLS

MAX_WAIT = 60  # seconds, which proxies let a request take


def find_call(request: Request, slug: str, pk: int) -> tuple[Call, Release, ReleasedTool]:
    """Return a call that a runtime sent; `slug` is its agent's if the address contains it, else ""."""
    call = get_object_or_404(_visible_calls(request, slug), pk=pk)
    return call, *stored_calls.find_release_and_tool(call)


def _visible_calls(request: Request, slug: str = "") -> QuerySet[Call]:
    rows = Call.objects.select_related("version__tool__endpoint__vendor", "activity__activity", "thread")
    if slug:
        rows = rows.filter(agent=chosen_agent(request, slug).pk)
    else:
        visible_agents = Agent.objects.live().visible_to(person(request), key_of(request))
        rows = rows.filter(agent__in=visible_agents.values("pk"))
    key = key_of(request)
    # A runtime's key finds only its own calls; a user who designs the agent finds all of its calls.
    if key and set(key.scopes) <= RUNTIME_SCOPES:
        rows = rows.filter(api_key=key)
    return rows


IDEMPOTENCY_KEY = OpenApiParameter(
    "idempotency_key",
    str,
    required=True,
    description="The `id`, `idempotency_key`, `Idempotency-Key` or `call_id` that the caller sent.",
)


# A single call, a run and each call of an array have a key of their own.
_PARTS = ("", "run", *map(call_keys.batch_part, range(MAX_CALLS)))


@extend_schema(tags=["runtime-calls"])
class RuntimeCalls(ListAPIView[Call]):
    """Find calls by the id that their caller chose, the newest first."""

    invokes = True
    serializer_class = RuntimeCallOutput
    ordering = ("-id",)
    queryset = Call.objects.none()

    @extend_schema(operation_id="calls_list", parameters=[IDEMPOTENCY_KEY, FORMAT_PARAMETER])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        text = request.query_params.get("idempotency_key", "").strip()
        if not 0 < len(text) <= MAX_NAME_LENGTH or "\0" in text:
            message = f"Name the id of a call in 1 to {MAX_NAME_LENGTH} characters."
            raise DomainError("invalid", message, fields={"idempotency_key": message})
        call_id, format_ = client_call_id(text), requested_format(request)
        rows = _visible_calls(request).filter(idempotency_key=call_id.stored_text)
        page = self.paginate_queryset(rows) or ()
        if not page and not rows.exists():
            # Only the caller's own ids are reported.
            ids = [ClientCallId(call_id.text, part) for part in _PARTS]
            actor, key = person(request), key_of(request)
            if call_keys.knows_id(
                [row for id_ in ids for row in stored_calls.keys_of_caller(id_, actor=actor, key=key)]
            ):
                message = "A call was made with this id, and what came of it is not stored any more."
                raise DomainError("call_forgotten", message, status=409)
        return self.get_paginated_response(
            [
                answer_document(calls.answer_of(call, tool, format_), release, request)
                for call, release, tool in stored_calls.with_releases_and_tools(
                    masking.masked_calls(page, key_of(request))
                )
            ]
        )


WAIT = OpenApiParameter(
    "wait",
    int,
    description=f"Wait for the end, for up to so many seconds: {MAX_WAIT} at most. What is still under way "
    "then is answered as it is.",
)


@extend_schema(tags=["runtime-calls"])
class AgentCall(GenericAPIView[Call]):
    """The state of a call that a runtime of this agent sent."""

    invokes = True
    serializer_class = RuntimeCallOutput
    queryset = Call.objects.none()

    @extend_schema(operation_id="agents_calls_retrieve", parameters=[FORMAT_PARAMETER, WAIT])
    def get(self, request: Request, call: int, slug: str = "") -> Response:
        wait = request.query_params.get("wait", "0")
        if not wait.isascii() or not wait.isdigit() or int(wait) > MAX_WAIT:
            message = f"“wait” is a whole number of seconds, from 0 to {MAX_WAIT}."
            raise DomainError("invalid", message, fields={"wait": message})
        call_row, release, tool = find_call(request, slug, call)
        followed_call = masking.masked_call(invocation.follow(call_row, int(wait)), key_of(request))
        answer = calls.answer_of(followed_call, tool, requested_format(request))
        return Response(answer_document(answer, release, request))


@extend_schema(tags=["runtime-calls"])
class RuntimeCall(AgentCall):
    """The state of a call that a runtime sent."""

    @extend_schema(operation_id="calls_retrieve", parameters=[FORMAT_PARAMETER, WAIT])
    def get(self, request: Request, call: int, slug: str = "") -> Response:
        return super().get(request, call)


@extend_schema(tags=["runtime-call-endings"])
class AgentCallCancel(GenericAPIView[Call]):
    """End a call that is running.

    The vendor is notified if its protocol allows; a request that was sent may have had its effect. 409
    `call_ended`: the call had ended by itself.
    """

    write_role = Role.DESIGNER
    invokes = True
    serializer_class = RuntimeCallOutput
    queryset = Call.objects.none()

    @extend_schema(operation_id="agents_calls_cancel", parameters=[FORMAT_PARAMETER], request=None)
    def post(self, request: Request, call: int, slug: str = "") -> Response:
        call_row, release, tool = find_call(request, slug, call)
        ended = calls.cancel(call_row, release, actor=person(request), key=key_of(request))
        shown_call = masking.masked_call(ended, key_of(request))
        answer = calls.answer_of(shown_call, tool, requested_format(request))
        return Response(answer_document(answer, release, request))


@extend_schema(tags=["runtime-call-endings"])
class RuntimeCallCancel(AgentCallCancel):
    """Cancel a running call. The same as the cancellation below `agents/{slug}/`."""

    @extend_schema(operation_id="calls_cancel", parameters=[FORMAT_PARAMETER], request=None)
    def post(self, request: Request, call: int, slug: str = "") -> Response:
        return super().post(request, call)


class OutputInput(Input):
    output = serializers.DictField(
        help_text="The output, as `output_schema` of the call describes it, by the names of the format."
    )


@extend_schema(tags=["runtime-call-endings"])
class AgentCallOutput(GenericAPIView[Call]):
    """Send the output of a latent call: the answer of the model itself.

    It is checked against the schema of the tool's output and stored with the call, whose outcome becomes
    `ok`. The same output may be sent again; another one is 409 `output_given`.
    """

    write_role = Role.DESIGNER
    invokes = True
    serializer_class = RuntimeCallOutput
    queryset = Call.objects.none()

    @extend_schema(operation_id="agents_calls_output", parameters=[FORMAT_PARAMETER], request=OutputInput)
    def post(self, request: Request, call: int, slug: str = "") -> Response:
        # Checked first: whether the caller may see the call at all.
        call_row, release, tool = find_call(request, slug, call)
        values = valid_data(OutputInput(data=request.data))
        answer = calls.give_output(
            call_row,
            release,
            tool,
            actor=person(request),
            key=key_of(request),
            output=values["output"],
            format_=requested_format(request),
        )
        return Response(answer_document(answer, release, request))


@extend_schema(tags=["runtime-call-endings"])
class RuntimeCallOutputs(AgentCallOutput):
    """Send the output of a latent call. The same as below `agents/{slug}/`."""

    @extend_schema(operation_id="calls_output", parameters=[FORMAT_PARAMETER], request=OutputInput)
    def post(self, request: Request, call: int, slug: str = "") -> Response:
        return super().post(request, call)
