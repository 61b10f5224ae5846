"""Running a tool over REST: the request makes the call and answers with its outcome."""

import json
from typing import Any

import msgspec
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from catalog.api.versions import VersionChoice, find_version, version_facts
from catalog.models import Activity, Call, Example, Tool, ToolVersion
from catalog.models.calls import OUTCOMES, CallStatus, Result, StoredQuestion
from core.errors import invalid
from core.serializers import Input, ModelOutput, valid_data
from execution.calls import examples, invocation, masking, queue, requesting
from execution.calls.checks import ArgumentsError
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import key_of, person

MAX_LISTED_LENGTH = 200
ATTEMPT_FACTS = ("outcome", "code", "message", "waited_ms", "duration_ms")


class CallInput(Input):
    arguments = serializers.DictField(required=False, help_text="The values by the names of the inputs.")
    confirm = serializers.BooleanField(
        required=False, help_text="True confirms the call; required for a destructive tool."
    )
    deadline_seconds = serializers.IntegerField(
        min_value=1,
        max_value=requesting.MAX_DEADLINE_SECONDS,
        required=False,
        help_text="The time that the tool may take; 30 by default.",
    )


class InvokeInput(CallInput, VersionChoice):
    """The current version runs unless another is named."""

    activity = serializers.IntegerField(
        required=False, help_text="The id of an activity, which runs in place of the vendor."
    )


class ResumeInput(Input):
    answers = serializers.DictField(
        required=False,
        help_text=(
            'The answers by the `id` of the question. Null declines, and `{"pegboard/action": '
            '"cancel"}` states that the user closed the question without a decision. A question '
            "without `schema` needs no answer."
        ),
    )


class VendorErrorOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    description = serializers.CharField(help_text="The vendor's description; may be empty.")


class CallErrorOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()
    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.CharField(), required=False, help_text="The reason by input."
    )
    step = serializers.IntegerField(required=False, help_text="The step of the activity, from 1.")
    vendor = VendorErrorOutput(
        required=False, help_text="The vendor's own code, if it has one. It is not one of Pegboard's codes."
    )


class RetryOutput(serializers.Serializer[Any]):
    can_retry = serializers.BooleanField(
        help_text=(
            "True if the same call may be sent again: the vendor allows it, the tool did not run,"
            " or a second run does no harm."
        )
    )
    after_ms = serializers.IntegerField(allow_null=True, help_text="The time to wait that the vendor states.")
    is_transient = serializers.BooleanField(help_text="True if the failure is expected to pass by itself.")
    hint = serializers.CharField(help_text="The vendor's text for the model before a retry; may be empty.")


class AskOutput(serializers.Serializer[Any]):
    id = serializers.CharField()
    message = serializers.CharField()
    schema = serializers.DictField(allow_null=True)
    url = serializers.CharField(help_text="An address for a person to visit; may be empty.")
    request = serializers.DictField(
        required=False,
        help_text=(
            "The `method` and `params` (as in MCP) of a question to the calling program instead "
            "of its user. The answer is the result of that request."
        ),
    )


class ExchangeOutput(serializers.Serializer[Any]):
    """An exchange, without the credential and with its texts masked. Bodies are truncated at 16 kB."""

    method = serializers.CharField()
    url = serializers.CharField()
    headers = serializers.DictField(child=serializers.CharField())
    body = serializers.CharField()
    status = serializers.IntegerField(help_text="The HTTP status; 0 without a reply.")
    reply_headers = serializers.DictField(child=serializers.CharField())
    reply = serializers.CharField()
    duration_ms = serializers.IntegerField()


class AttemptOutput(serializers.Serializer[Any]):
    """One try of a call.

    Only tools that the vendor marks as read-only or idempotent are tried more than once.
    """

    outcome = serializers.ChoiceField(choices=OUTCOMES)
    code = serializers.CharField()
    message = serializers.CharField()
    waited_ms = serializers.IntegerField()
    duration_ms = serializers.IntegerField()
    exchanges = ExchangeOutput(many=True)


class CallRow(serializers.Serializer[Any]):
    call = serializers.IntegerField(
        allow_null=True, help_text="The id of the call; null if nothing was sent."
    )
    status = serializers.ChoiceField(choices=CallStatus.choices)
    version = serializers.CharField(help_text="The vendor's name of the version; empty if it has none.")
    ordinal = serializers.IntegerField()
    version_name = serializers.CharField(help_text="The name of the version that pages show.")
    outcome = serializers.ChoiceField(
        choices=OUTCOMES, allow_null=True, help_text="The outcome; null until the call has ended."
    )
    duration_ms = serializers.IntegerField(allow_null=True)
    requested_by = serializers.CharField()
    requested_at = serializers.DateTimeField(allow_null=True)
    arguments = serializers.DictField()


class CallOutput(CallRow):
    """A call. `parsed` contains the outputs that are JSON in a text. `resume` is the address for answers."""

    outputs = serializers.DictField()
    error = CallErrorOutput(allow_null=True)
    retry = RetryOutput(allow_null=True, help_text="The retry hint; null if another attempt would not help.")
    parsed = serializers.DictField()
    outputs_cut = serializers.BooleanField(help_text="True if the outputs exceed 1 MB and are not stored.")
    notes = serializers.ListField(child=serializers.DictField(child=serializers.CharField()))
    asks = AskOutput(many=True)
    resume = serializers.URLField(allow_null=True)
    vendor_duration_ms = serializers.IntegerField(
        allow_null=True, help_text="The duration that the vendor reports; null if it reports none."
    )
    reasoning = serializers.CharField(help_text="The model's reason for the call; may be empty.")
    attempts = AttemptOutput(many=True)


def call_row(call: masking.VisibleCall) -> dict[str, Any]:
    return {
        "call": call.pk,
        "status": call.status,
        **version_facts(call.version),
        "outcome": call.outcome or None,
        "duration_ms": call.duration_ms,
        "requested_by": call.requested_name,
        "requested_at": call.queued_at.isoformat(),
        "arguments": call.arguments,
    }


def ask_document(ask: StoredQuestion) -> dict[str, Any]:
    document = {"id": ask.id, "message": ask.message, "schema": ask.schema, "url": ask.url}
    return document if ask.request is None else document | {"request": ask.request}


def retry_document(result: Result) -> dict[str, Any] | None:
    return None if result.retry is None else msgspec.structs.asdict(result.retry)


def call_document(call: masking.VisibleCall, request: Request) -> dict[str, Any]:
    result = call.decoded()
    asks = [ask_document(ask) for ask in result.asks]
    can_resume = result.resume is not None
    here = {"pk": call.tool_id, "call": call.pk}
    return {
        **call_row(call),
        "outputs": result.outputs,
        "error": result.error,
        "retry": retry_document(result),
        "parsed": result.parsed,
        "outputs_cut": bool(result.cut),
        "notes": result.notes,
        "asks": asks,
        "resume": reverse("api-call-resume", kwargs=here, request=request) if can_resume else None,
        "vendor_duration_ms": result.vendor_duration_ms,
        "reasoning": call.reasoning,
        "attempts": [
            {
                **{name: getattr(attempt, name) for name in ATTEMPT_FACTS},
                "exchanges": [msgspec.structs.asdict(exchange) for exchange in attempt.exchanges],
            }
            for attempt in result.attempts
        ],
    }


def refused_document(error: ArgumentsError, version: ToolVersion, request: Request) -> dict[str, Any]:
    """Return the response for a request that was refused before sending, in the format of a call."""
    return {
        "call": None,
        "status": CallStatus.FINISHED,
        **version_facts(version),
        "outcome": error.outcome.outcome,
        "duration_ms": 0,
        "requested_by": str(person(request)),
        "requested_at": None,
        "arguments": {},
        "outputs": {},
        "error": dict(error.outcome.error or {}),
        "retry": None,
        "parsed": {},
        "outputs_cut": False,
        "notes": [],
        "asks": [],
        "resume": None,
        "reasoning": "",
        "attempts": [],
    }


def find_tool(pk: int) -> Tool:
    return get_object_or_404(Tool.objects.select_related("endpoint__vendor", "current"), pk=pk)


@extend_schema(tags=["calls"])
class ToolInvoke(GenericAPIView[Tool]):
    """Run a tool with the endpoint's credential and wait for the outcome.

    Invalid arguments are refused before anything is sent. 503 `busy` means that too many calls are running
    and that
    nothing was sent.
    """

    write_role = Role.DESIGNER
    takes_idempotency_keys = False
    serializer_class = CallOutput

    @extend_schema(request=InvokeInput, responses={200: CallOutput})
    def post(self, request: Request, pk: int) -> Response:
        values = valid_data(InvokeInput(data=request.data))
        tool = find_tool(pk)
        version = find_version(tool, version=values.get("version", ""), ordinal=values.get("ordinal"))
        version.tool = tool
        activity = None
        if (activity_id := values.get("activity")) is not None:
            activities = Activity.objects.shared().select_related("current__activity")
            activity = activities.filter(pk=activity_id).first()
            if activity is None:
                raise invalid(activity="There is no such activity.")
        try:
            call = invocation.call_now(
                version,
                actor=person(request),
                arguments=values.get("arguments", {}),
                deadline_seconds=values.get("deadline_seconds"),
                is_confirmed=values.get("confirm", False),
                api_key=key_of(request),
                activity=activity.current if activity else None,
            )
        except ArgumentsError as error:
            return Response(refused_document(error, version, request))
        return Response(call_document(masking.masked_call(call, key_of(request)), request))


@extend_schema(tags=["calls"])
class CallList(ListAPIView[Call]):
    """The calls of this tool with their users and arguments, newest first. The newest 500 are stored.

    Long `arguments` are truncated here; each call has its own completely.
    """

    serializer_class = CallRow
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[Call]:
        tool = get_object_or_404(Tool, pk=self.kwargs["pk"])
        calls = tool.calls.visible_to(person(self.request)).select_related("version")
        return calls.defer("result", "version__signature", "version__raw")

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        calls = self.paginate_queryset(self.get_queryset())
        rows = [call_row(call) for call in masking.masked_calls(calls or (), key_of(request))]
        for row in rows:
            row["arguments"] = dict(row["arguments"])
            for name, value in row["arguments"].items():
                text = json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
                if isinstance(text, str) and len(text) > MAX_LISTED_LENGTH:
                    row["arguments"][name] = f"{text[:MAX_LISTED_LENGTH]}…"
        return self.get_paginated_response(rows)


@extend_schema(tags=["calls"])
class CallDetail(GenericAPIView[Call]):
    serializer_class = CallOutput
    queryset = Call.objects.none()

    def get(self, request: Request, pk: int, call: int) -> Response:
        calls = Call.objects.visible_to(person(request)).select_related("version__tool")
        row = get_object_or_404(calls, tool=pk, pk=call)
        call_row = masking.masked_call(queue.current_call(row), key_of(request))
        return Response(call_document(call_row, request))


@extend_schema(tags=["calls"])
class CallShow(GenericAPIView[Call]):
    """The call without masks in place of sensitive values. The audit trail records who has requested it."""

    write_role = Role.DESIGNER
    serializer_class = CallOutput
    queryset = Call.objects.none()

    @extend_schema(request=None, responses={200: CallOutput})
    def post(self, request: Request, pk: int, call: int) -> Response:
        calls = Call.objects.visible_to(person(request)).select_related("version__tool", "tool")
        row = get_object_or_404(calls, tool=pk, pk=call)
        shown_call = masking.show_call(queue.current_call(row), actor=person(request))
        return Response(call_document(shown_call, request))


@extend_schema(tags=["calls"])
class CallResume(GenericAPIView[Call]):
    """Continue a call that stopped with a question. This creates another call with its own outcome."""

    write_role = Role.DESIGNER
    takes_idempotency_keys = False
    serializer_class = CallOutput
    queryset = Call.objects.none()

    @extend_schema(request=ResumeInput, responses={200: CallOutput})
    def post(self, request: Request, pk: int, call: int) -> Response:
        values = valid_data(ResumeInput(data=request.data))
        calls = Call.objects.visible_to(person(request)).select_related("version__tool__endpoint__vendor")
        earlier = get_object_or_404(calls, tool=pk, pk=call)
        answers = values.get("answers", {})
        try:
            following = invocation.continue_now(
                earlier, actor=person(request), api_key=key_of(request), answers=answers
            )
        except ArgumentsError as error:
            return Response(refused_document(error, earlier.version, request))
        return Response(call_document(masking.masked_call(following, key_of(request)), request))


class ExampleInput(Input):
    call = serializers.IntegerField(
        min_value=1, max_value=2**63 - 1, help_text="The id of the call whose arguments are stored."
    )
    name = serializers.CharField(max_length=examples.MAX_NAME_LENGTH)


class ExampleOutput(ModelOutput[Example]):
    arguments = serializers.SerializerMethodField()

    class Meta:
        model = Example
        fields = ["id", "name", "arguments", "created_name", "created_at"]

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_arguments(self, example: Example) -> Any:
        return masking.masked_arguments(example.tool_id, example.arguments)


@extend_schema(tags=["calls"])
class ExampleList(ListAPIView[Example]):
    """Arguments of earlier calls that were stored under a name."""

    write_role = Role.DESIGNER
    serializer_class = ExampleOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Example]:
        return get_object_or_404(Tool, pk=self.kwargs["pk"]).examples.visible_to(person(self.request))

    @extend_schema(request=ExampleInput, responses={201: ExampleOutput})
    def post(self, request: Request, pk: int) -> Response:
        values = valid_data(ExampleInput(data=request.data))
        calls = Call.objects.visible_to(person(request)).select_related("tool")
        call = get_object_or_404(calls, tool=pk, pk=values["call"])
        example = examples.save_example(call, actor=person(request), name=values["name"])
        return Response(ExampleOutput(example).data, status=201)


def _find_example(request: Request, pk: int, example: int) -> Example:
    return get_object_or_404(Example.objects.visible_to(person(request)), tool=pk, pk=example)


@extend_schema(tags=["calls"])
class ExampleDetail(GenericAPIView[Example]):
    write_role = Role.DESIGNER
    serializer_class = ExampleOutput
    queryset = Example.objects.none()

    def get(self, request: Request, pk: int, example: int) -> Response:
        return Response(ExampleOutput(_find_example(request, pk, example)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int, example: int) -> Response:
        examples.remove_example(_find_example(request, pk, example), actor=person(request))
        return Response(status=204)
