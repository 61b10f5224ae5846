import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.http import Http404
from drf_spectacular.utils import (
    OpenApiParameter,
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models.calls import Mode
from core import rate_limits
from core.db_errors import RETRY_AFTER, outage
from core.errors import DomainError, invalid
from core.serializers import Input, refusals, sentences, valid_data
from designer.api.asked_releases import NUMBER, find_release
from designer.exports import tool_system
from designer.exports.tool_system import ACTIVITY, OUTPUT, REASONING, TOOL
from designer.models import Release
from designer.releases import receipts
from execution.calls import call_keys, requesting
from execution.calls.call_keys import client_call_id
from people.api.generics import GenericAPIView
from people.models import ApiKey, KeyScope, Role
from people.permissions import key_of, person
from people.throttling import is_within_limit
from protocols.server import CONFIRM_HEADER, USER_HEADER, ThrottledError, UnknownToolError
from serving import batches, stored_calls
from serving.api.call_documents import (
    FORMAT_PARAMETER,
    MAX_NAME_LENGTH,
    MAX_REASONING_LENGTH,
    RuntimeCallInput,
    RuntimeCallOutput,
    build_call_request,
    document_of,
    requested_format,
)
from serving.batches import BatchCall, Until
from serving.calls import Answer
from serving.serve.base import refusal_of

logger = logging.getLogger(__name__)
# The members of a model's call, with their names in `calls`.
MEMBER_NAMES = {TOOL: "tool", REASONING: "reasoning"}
KNOWN_MEMBERS = (TOOL, ACTIVITY, REASONING, OUTPUT)
UNFIT = "Some members of this call are not valid."
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="A key of your choice. Each call without an `id` gets one from this key and its "
    "position: the same batch with it runs nothing again, for at least 24 hours.",
)


UNTIL = (
    "The calls that the answer waits for: `all`; `any`, until one succeeds; `race`, until the first one "
    "has ended. Then running calls are cancelled, and the others are not sent."
)
ARRAY_PARAMETERS = [
    OpenApiParameter(
        "until", str, enum=list(Until), description="The same as the member `until` beside `calls`."
    ),
    OpenApiParameter(
        "environment", str, description="The agent's environment in which all calls of an array run."
    ),
    OpenApiParameter(
        "mode",
        str,
        enum=[mode for mode in Mode.values if mode != Mode.STREAM],
        description="The mode of all calls of an array.",
    ),
    OpenApiParameter(
        CONFIRM_HEADER,
        str,
        OpenApiParameter.HEADER,
        description="`true`: a person has agreed to the calls of the array.",
    ),
    OpenApiParameter(
        USER_HEADER,
        str,
        OpenApiParameter.HEADER,
        description="The user of the agent for whom all calls of the array run.",
    ),
]


class BatchedCallInput(RuntimeCallInput):
    tool = serializers.CharField(max_length=255, help_text="The name of the tool that a model sees.")
    agent = serializers.SlugField(
        max_length=100,
        required=False,
        help_text="The agent of the release that shows it, where that is a sub-agent.",
    )
    mode = serializers.ChoiceField(
        choices=[mode for mode in Mode.choices if mode[0] != Mode.STREAM],
        required=False,
        help_text=(
            "The mode, as for a single call, but without `stream`: a call can be followed at "
            "`calls/{call}/events/`."
        ),
    )


@extend_schema_field(BatchedCallInput(many=True))
class BatchedCalls(serializers.ListField):
    child = serializers.JSONField()


class BatchInput(Input):
    calls = BatchedCalls(min_length=1, max_length=batches.MAX_CALLS)
    until = serializers.ChoiceField(choices=list(Until), default=Until.ALL, help_text=UNTIL)
    environment = serializers.CharField(
        max_length=30, required=False, help_text="The environment of each call that names none."
    )
    deadline_seconds = serializers.IntegerField(
        min_value=1,
        max_value=requesting.MAX_DEADLINE_SECONDS,
        required=False,
        help_text=f"The time for all of them together; {requesting.MAX_DEADLINE_SECONDS} by default.",
    )


class ModelCallInput(serializers.Serializer[Any]):
    """A call as a model writes it in the format `tool-system`. All other members are inputs of the tool, by
    the names of `format`, by default those of `tool-system`. No input begins with an underscore.
    """

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            TOOL: serializers.CharField(max_length=255, help_text="The name of the tool that a model sees."),
            ACTIVITY: serializers.CharField(
                required=False,
                allow_blank=True,
                help_text=(
                    "The activity that the model was shown. If another one runs now, the call is refused "
                    "with `activity_mismatch`."
                ),
            ),
            REASONING: serializers.CharField(
                max_length=MAX_REASONING_LENGTH,
                allow_blank=True,
                required=False,
                help_text="The model's reason for this call, stored with it.",
            ),
            OUTPUT: serializers.DictField(
                required=False,
                allow_null=True,
                help_text="The model's own output of a latent tool; ignored for others.",
            ),
        }


class BatchErrorOutput(serializers.Serializer[Any]):
    """The body of the error if the call had been sent alone."""

    code = serializers.CharField()
    message = serializers.CharField()
    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.CharField(), help_text="The reason by member."
    )
    retry_after = serializers.IntegerField(
        allow_null=True, help_text="The time to wait in seconds; null if another attempt would not help."
    )


class BatchedOutput(serializers.Serializer[Any]):
    index = serializers.IntegerField(help_text="The position of the call, from 0.")
    status = serializers.IntegerField(help_text="The status of HTTP that the call alone would have.")
    answer = RuntimeCallOutput(allow_null=True)
    error = BatchErrorOutput(allow_null=True)


class BatchOutput(serializers.Serializer[Any]):
    results = BatchedOutput(many=True)
    first = serializers.IntegerField(
        allow_null=True,
        help_text="The position of the call that ended the wait for the others; null for none.",
    )


@extend_schema(tags=["invoke"])
class ReleaseCalls(GenericAPIView[Release]):
    """Run several tools of a release in parallel, and wait for the outcomes.

    Each call is sent, checked, limited and recorded as if it came alone, and none waits for another that is
    refused. Calls beyond the limit of the key wait for their turn.
    The body is what a model writes in the format `tool-system`: an object with `calls`, or their array alone.
    Or it is an object with `calls` by `tool`, with more members for each call.
    """

    write_role = Role.DESIGNER
    invokes = True
    takes_arrays = True
    serializer_class = BatchOutput
    queryset = Release.objects.none()

    @extend_schema(
        operation_id="agents_releases_calls",
        parameters=[NUMBER, FORMAT_PARAMETER, IDEMPOTENCY_KEY, *ARRAY_PARAMETERS],
        request=PolymorphicProxySerializer(
            component_name="CallsInput",
            serializers=[BatchInput, ModelCallInput(many=True)],
            resource_type_field_name=None,
            many=False,
        ),
        responses={200: BatchOutput},
    )
    def post(self, request: Request, slug: str, number: str) -> Response:
        try:
            release = find_release(request, slug, number)
        except Http404:
            _record_unknown(request, slug, "")
            raise
        document, are_model_calls = _read_document(request)
        values = valid_data(BatchInput(data=document))
        options, actor, key = values, person(request), key_of(request)
        if are_model_calls and "environment" in options:
            message = "A model wrote these calls, so the address says where they run: ?environment=…"
            raise invalid(environment=message)
        until = Until(options["until"])
        if are_model_calls:
            parse = partial(_parse_model_call, _common_options(request))
        else:
            parse = partial(
                _parse_call, {name: options[name] for name in ("environment",) if name in options}
            )
        format_ = requested_format(request) or (tool_system.FORMAT.name if are_model_calls else "")
        builder = _CallBuilder(request, slug, parse, format_, until)
        parsed = [builder.build(index, call) for index, call in enumerate(options["calls"])]
        runs = [index for index, call in enumerate(parsed) if isinstance(call, BatchCall)]
        batch_result = batches.run(
            release,
            [call for call in parsed if isinstance(call, BatchCall)],
            actor=actor,
            key=key,
            seconds=options.get("deadline_seconds", requesting.MAX_DEADLINE_SECONDS),
            until=until,
        )
        answers = iter(batch_result.answers)
        results = []
        for index, call in enumerate(parsed):
            if isinstance(call, BatchCall):
                answer, call_request = next(answers), call.call_request
                calls_back = call_request.callback is not None
                if isinstance(answer, UnknownToolError):
                    _record_unknown(request, slug, call_request.tool)
                surface = f"{call_request.sub_agent}/invoke" if call_request.sub_agent else "invoke"
                receipts.record_served(key, release, surface=surface, name=number)
            else:
                answer, calls_back = call, False
            results.append(
                {"index": index, **_result_document(answer, release, request, format_, calls_back=calls_back)}
            )
        first = None if batch_result.first is None else runs[batch_result.first]
        return Response({"results": results, "first": first})


def _read_document(request: Request) -> tuple[object, bool]:
    # Returns also whether a model wrote the calls: as an array, or as the only member of its answer.
    document = request.data
    if isinstance(document, list):
        document = {"calls": document}
    calls = document.get("calls") if isinstance(document, dict) else None
    has_model_calls = isinstance(calls, list) and any(isinstance(row, dict) and TOOL in row for row in calls)
    if not (isinstance(request.data, list) or has_model_calls):
        return document, False
    until = request.query_params.get("until")
    return {"until": until, **document} if until is not None else document, True


def _parse_call(common: Mapping[str, Any], document: object) -> dict[str, Any]:
    serializer = BatchedCallInput(data={**common, **document} if isinstance(document, dict) else document)
    try:
        serializer.is_valid(raise_exception=True)
    except ValidationError as error:
        general, fields = sentences(error.detail)
        raise DomainError("invalid", general or UNFIT, fields=fields) from error
    call: dict[str, Any] = serializer.validated_data
    return call


def _common_options(request: Request) -> dict[str, Any]:
    # The array is a model's text, so nothing in it confirms a call or names its user.
    confirmed, user = (request.headers.get(name, "").strip() for name in (CONFIRM_HEADER, USER_HEADER))
    common: dict[str, Any] = {"confirm": confirmed.lower() in ("true", "1", "yes")}
    if user:
        common["on_behalf_of"] = {"id": user}
    for name in ("mode", "environment"):
        if value := request.query_params.get(name):
            common[name] = value
    return common


def _parse_model_call(common: Mapping[str, Any], call: object) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise DomainError("invalid", f"A call is an object with “{TOOL}” and the inputs of the tool.")
    faults = refusals(
        (name for name in call if name.startswith("_") and name not in KNOWN_MEMBERS), KNOWN_MEMBERS, "member"
    )
    if not isinstance(call.get(ACTIVITY), str | None):
        faults[ACTIVITY] = "must be a text"
    item = {
        rest_name: call[model_name] for model_name, rest_name in MEMBER_NAMES.items() if model_name in call
    }
    inputs = {name: value for name, value in call.items() if not name.startswith("_")}
    try:
        parsed = _parse_call(common, {**item, "arguments": inputs})
    except DomainError as error:
        model_names = {rest_name: model_name for model_name, rest_name in MEMBER_NAMES.items()}
        faults |= {model_names.get(name, name): message for name, message in error.fields.items()}
    if faults:
        raise DomainError("invalid", UNFIT, fields=faults)
    return parsed | {"activity": call.get(ACTIVITY), "output": call.get(OUTPUT), "is_a_models": True}


@dataclass(frozen=True, slots=True)
class _CallBuilder:
    """Builds the calls of one batch. agent: its slug. parse: converts a call to the options of a call."""

    request: Request
    agent: str
    parse: Callable[[object], dict[str, Any]]
    format_: str
    until: Until

    def build(self, index: int, document: object) -> BatchCall | DomainError:
        """Return the call at `index` of the batch, or the reason why it is invalid.

        document: the call as the caller sent it.
        """
        request = self.request
        try:
            options = self.parse(document)
            if self.until != Until.ALL and options.get("mode", Mode.WAIT) != Mode.WAIT:
                message = "must be “wait” if “until” is “any” or “race”"
                raise DomainError("invalid", UNFIT, fields={"mode": message})
            sub_agent = options.get("agent", "")
            sub_agent = "" if sub_agent == self.agent else sub_agent
            call_request = build_call_request(
                options, request, tool=options["tool"], sub_agent=sub_agent, format_=self.format_
            )
        except DomainError as error:
            return error
        name = request.headers.get("Idempotency-Key", "").strip()
        if len(name) > MAX_NAME_LENGTH:
            message = f"An Idempotency-Key has at most {MAX_NAME_LENGTH} characters."
            return DomainError("invalid", message, fields={"Idempotency-Key": message})
        key = key_of(request)
        if name and call_request.call_id is None:
            call_request = replace(call_request, call_id=client_call_id(name, call_keys.batch_part(index)))

        def admit() -> None:
            # The request itself counts as the first call.
            if index and not is_within_limit("invoke", request.user.pk, key.pk if key else None, time.time()):
                raise ThrottledError(rate_limits.seconds_left(time.time()))

        return BatchCall(call_request=call_request, admit=admit)


def _record_unknown(request: Request, slug: str, tool: str) -> None:
    # As for a single call: the key gets the same answer as for a tool that does not exist.
    key = key_of(request)
    if isinstance(key, ApiKey) and KeyScope.INVOKE in key.scopes:
        stored_calls.record_refusal(key, actor=person(request), agent=slug, tool=tool)


def _result_document(
    result: Answer | Exception, release: Release, request: Request, format_: str, *, calls_back: bool
) -> dict[str, Any]:
    if isinstance(result, Answer):
        document = document_of(result, release, request, calls_back=calls_back, format_=format_)
        is_under_way = result.call is not None and result.call.is_active
        return {"status": 202 if is_under_way else 200, "answer": document, "error": None}
    retry_after = None
    if isinstance(result, DomainError | Http404):
        refusal = refusal_of(result)
        status, code, message, fields = refusal.status, refusal.code, refusal.message, refusal.fields
        retry_after = result.retry_after if isinstance(result, DomainError) else None
    elif outage_error := outage(result):
        status, code, message, fields = 503, outage_error.code, outage_error.message, {}
        retry_after = RETRY_AFTER
    else:
        logger.error("a call of a batch failed", exc_info=result)
        message = "Pegboard failed to make this call. Look for its effect before it is called again."
        status, code, fields = 500, "server_error", {}
    error = {"code": code, "message": message, "fields": dict(fields), "retry_after": retry_after}
    return {"status": status, "answer": None, "error": error}
