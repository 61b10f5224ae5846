from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.utils.urls import replace_query_param

from catalog.api.versions import MAX_ORDINAL
from catalog.models.calls import OUTCOMES, CallStatus, Mode
from catalog.notifications import callbacks
from catalog.notifications.callbacks import Recipient
from core.errors import invalid
from core.outbound.addresses import MAX_URL_LENGTH
from core.public_url import public_url
from core.serializers import Input
from designer import exports
from designer.exports import transfers
from designer.models import Release
from designer.releases import publishing
from execution.api.calls import (
    AskOutput,
    CallErrorOutput,
    CallInput,
    RetryOutput,
    ask_document,
    retry_document,
)
from execution.calls import requesting
from execution.calls.call_keys import client_call_id
from execution.user_grants.end_users import OnBehalfOf
from protocols.base import MAX_USER_LENGTH
from serving.calls import Answer, CallRequest

MAX_REASONING_LENGTH = 2000
MAX_NAME_LENGTH = 255
FORMAT_PARAMETER = OpenApiParameter(
    "format",
    str,
    enum=[format_.name for format_ in exports.FORMATS],
    description="The format whose names inputs and outputs have. Without it inputs may have the names"
    " of any format, and outputs have those of `json-schema`.",
)


@extend_schema_field({"oneOf": [{"type": "string", "maxLength": 80}, {"type": "object"}]})
class ConfigurationField(serializers.Field[Any, Any, Any, Any]):
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) or (isinstance(data, str) and 0 < len(data) <= 80):
            return data
        raise serializers.ValidationError("Send the name of a configuration, or an object of values.")

    def to_representation(self, value: Any) -> Any:
        return value


class OnBehalfOfInput(Input):
    id = serializers.CharField(
        max_length=MAX_USER_LENGTH,
        trim_whitespace=False,
        help_text="Your own name for the user: one user of this agent, stored as a keyed digest with "
        "the call. Vendors whose protocol has a member for it (OXP) receive it.",
    )


class RuntimeCallInput(CallInput):
    on_behalf_of = OnBehalfOfInput(required=False, help_text="The user of the agent for whom the tool runs.")
    resume_when_granted = serializers.BooleanField(
        required=False,
        help_text="If the user has to authorize something first, the call continues once by itself "
        "afterwards: `continued_by` is the id of the continuation.",
    )
    id = serializers.UUIDField(
        required=False,
        help_text="An id of your choice. The same call with it is not run again, for at least 24 hours;"
        " another call with it is a 409.",
    )
    idempotency_key = serializers.CharField(
        max_length=MAX_NAME_LENGTH,
        required=False,
        help_text="Any text in place of `id`, for callers that have no UUID. Give one of them.",
    )

    ordinal = serializers.IntegerField(
        min_value=1,
        max_value=MAX_ORDINAL,
        required=False,
        help_text="The version that the model saw, as `Pegboard-Signature-Ordinal` states it for a "
        "fresh signature. Without it the version of the release runs.",
    )
    mode = serializers.ChoiceField(
        choices=Mode.values,
        required=False,
        help_text="`wait`, the default: the answer is the outcome. `async`: the answer is 202 at once, "
        "and the outcome is at `calls/{call}/`. `stream`: the answer is a stream of server-"
        "sent events, as at `calls/{call}/events/`.",
    )
    callback = serializers.CharField(
        max_length=MAX_URL_LENGTH,
        required=False,
        help_text="An address that is notified of the end of an asynchronous call: a POST signed like "
        "those of webhooks, with the `callback_secret` of this answer.",
    )
    thread = serializers.UUIDField(
        required=False,
        help_text="A thread of this agent (`threads/`) on which the run continues. One call at a time: "
        "409 `thread_busy`.",
    )
    configuration = ConfigurationField(
        required=False,
        help_text="The configuration of the tool for this call alone: the name of a stored one (`name`,"
        " or `name@3` for its third state), or an object of values. It replaces the one of "
        "the release.",
    )
    reasoning = serializers.CharField(
        max_length=MAX_REASONING_LENGTH,
        allow_blank=True,
        required=False,
        help_text="The model's reason for this call, stored with it for people to read.",
    )
    environment = serializers.CharField(
        max_length=30,
        required=False,
        help_text="The agent's environment in which the tool runs; by default that of the key, or the "
        "default one. An unknown one is a 400 `unknown_environment`.",
    )
    output = serializers.DictField(
        required=False,
        help_text="The model's own output, if the tool is latent. It is validated by the schema of the "
        "tool's output and stored with the call. If something runs for the tool, this is a "
        "409 `not_latent`.",
    )
    deadline_seconds = serializers.IntegerField(
        min_value=1,
        max_value=requesting.MAX_LONG_DEADLINE_SECONDS,
        required=False,
        help_text="The time that the tool may take. With `wait` 30 by default and 120 at most, else an "
        "hour by default and a day at most.",
    )


class NextOutput(serializers.Serializer[Any]):
    """Addresses in the release where the transfer happened."""

    tools = serializers.URLField()
    procedures = serializers.URLField()


class RuntimeCallOutput(serializers.Serializer[Any]):
    """A call in the names of the format, without the vendor's headers, cookies and addresses."""

    call = serializers.IntegerField(
        allow_null=True, help_text="The id of the call; null if nothing was sent."
    )
    idempotency_key = serializers.CharField(
        allow_null=True, help_text="The `id` or `idempotency_key` that the caller sent; null for none."
    )
    status = serializers.ChoiceField(choices=CallStatus.choices)
    release = serializers.IntegerField()
    tool = serializers.CharField()
    version = serializers.CharField(
        help_text="The version that ran, as the vendor numbers it; empty where it numbers nothing."
    )
    ordinal = serializers.IntegerField(
        allow_null=True, help_text="The number of the version; null for a transfer."
    )
    outcome = serializers.ChoiceField(
        choices=[*OUTCOMES, transfers.KIND],
        allow_null=True,
        help_text="The outcome; null until the call has ended.",
    )
    agent = serializers.SlugField(
        allow_null=True, help_text="The sub-agent that takes over; null unless the outcome is `transfer`."
    )
    next = NextOutput(allow_null=True, help_text="The tools that a model sees from now on, after a transfer.")
    outputs = serializers.DictField()
    parsed = serializers.DictField(help_text="The parsed values of those outputs that are JSON in a text.")
    outputs_cut = serializers.BooleanField(help_text="True if the outputs exceed 1 MB and are not stored.")
    error = CallErrorOutput(allow_null=True)
    retry = RetryOutput(allow_null=True, help_text="The retry hint; null if another attempt would not help.")
    notes = serializers.ListField(child=serializers.DictField(child=serializers.CharField()))
    asks = AskOutput(many=True)
    resume = serializers.URLField(allow_null=True, help_text="The address to which the answers are sent.")
    output_schema = serializers.DictField(
        allow_null=True,
        help_text="With the outcome `latent`: the JSON Schema of the output that the model writes, by "
        "the names of the format. The output is sent to `calls/{call}/output/`.",
    )
    environment = serializers.CharField(help_text="The environment in which the call ran; empty for none.")
    activity = serializers.CharField(
        help_text="The name of the activity that ran in place of a vendor; empty for a vendor, and if "
        "nothing ran."
    )
    reasoning = serializers.CharField(help_text="The model's reason for the call; may be empty.")
    thread = serializers.UUIDField(allow_null=True, help_text="The thread on which the call ran.")
    continued_by = serializers.IntegerField(
        allow_null=True, help_text="The newest call that continues this one, which stopped to ask."
    )
    duration_ms = serializers.IntegerField(allow_null=True)
    callback_secret = serializers.CharField(
        required=False,
        help_text="Only in the answer to a call with a `callback`: the secret that signs its POST.",
    )


def build_call_request(
    options: dict[str, Any], request: Request, *, tool: str, sub_agent: str, format_: str | None = None
) -> CallRequest:
    """Build the request of a call. Raises DomainError for two ids, and for an unknown format."""
    ids = {client_call_id(str(options[name])) for name in ("idempotency_key", "id") if options.get(name)}
    if len(ids) > 1:
        raise invalid(idempotency_key="Send this or “id”; the two name different calls.")
    user = options.get("on_behalf_of")
    on_behalf_of = OnBehalfOf(user["id"], options.get("resume_when_granted", False)) if user else None
    return CallRequest(
        tool=tool,
        sub_agent=sub_agent,
        arguments=options.get("arguments", {}),
        format_=requested_format(request) if format_ is None else format_,
        deadline_seconds=options.get("deadline_seconds"),
        is_confirmed=options.get("confirm", False),
        call_id=next(iter(ids), None),
        on_behalf_of=on_behalf_of,
        site=public_url("/", request).rstrip("/"),
        mode=Mode(options.get("mode", Mode.WAIT)),
        callback=Recipient(options["callback"]) if options.get("callback") else None,
        thread=options.get("thread"),
        ordinal=options.get("ordinal"),
        configuration=options.get("configuration"),
        reasoning=options.get("reasoning", ""),
        environment=options.get("environment", ""),
        activity=options.get("activity"),
        output=options.get("output"),
        is_a_models=options.get("is_a_models", False),
    )


def requested_format(request: Request) -> str:
    """Return the export format whose names the caller uses, "" if not stated."""
    name = request.query_params.get("format")
    return publishing.find_format(name).name if name is not None else ""


def answer_document(
    answer: Answer, release: Release, request: Request, format_: str | None = None
) -> dict[str, Any]:
    """Return the document of a call's result. `format_` overrides the format of the request."""
    format_ = requested_format(request) if format_ is None else format_
    call, tool, result = answer.call, answer.tool, answer.result
    resume = continued_by = None
    if call and result.resume is not None:
        continued_by = call.continued_by.order_by("-pk").values_list("pk", flat=True).first()
        url_kwargs = {"slug": release.agent.slug, "call": call.pk}
        resume = _in_format(reverse("api-agent-call-resume", kwargs=url_kwargs, request=request), format_)
    is_transfer, next_addresses = answer.outcome == transfers.KIND, None
    if is_transfer:
        # Addressed by number, so that the conversation stays within the release of the transfer.
        url_kwargs = {"slug": release.agent.slug, "number": release.number, "sub": answer.transfer_to}
        tools, procedures = (
            reverse(f"api-release-agent-{part}", kwargs=url_kwargs, request=request)
            for part in ("tools", "procedures")
        )
        next_addresses = {"tools": _in_format(tools, format_), "procedures": procedures}
    return {
        "call": call.pk if call else None,
        "idempotency_key": call.idempotency_key if call else None,
        "status": call.status if call else CallStatus.FINISHED,
        "release": release.number,
        "tool": tool.signature.name,
        "version": tool.version.label,
        "ordinal": None if tool.signature.kind == transfers.KIND else tool.version.ordinal,
        "outcome": answer.outcome,
        "agent": answer.transfer_to if is_transfer else None,
        "next": next_addresses,
        "outputs": result.outputs,
        "parsed": result.parsed,
        "outputs_cut": bool(result.cut),
        "error": result.error,
        "retry": retry_document(result),
        "notes": result.notes,
        "asks": [ask_document(ask) for ask in result.asks],
        "resume": resume,
        "output_schema": answer.output_schema,
        "environment": call.environment if call else "",
        "activity": str(call.activity.activity) if call and call.activity else "",
        "reasoning": call.reasoning if call else "",
        "thread": str(call.thread.key) if call and call.thread else None,
        "continued_by": continued_by,
        "duration_ms": call.duration_ms if call else 0,
    }


def _in_format(url: str, format_: str) -> str:
    return replace_query_param(url, "format", format_) if format_ else url


def document_of(
    answer: Answer, release: Release, request: Request, *, calls_back: bool, format_: str | None = None
) -> dict[str, Any]:
    """Return the answer to a call that may have a callback."""
    document = answer_document(answer, release, request, format_)
    if calls_back and answer.call and answer.outcome != "unknown":
        document["callback_secret"] = callbacks.secret_of(answer.call)
    return document


def build_response(
    answer: Answer, release: Release, request: Request, *, calls_back: bool = False
) -> Response:
    is_under_way = answer.call is not None and answer.call.is_active
    document = document_of(answer, release, request, calls_back=calls_back)
    return Response(document, status=202 if is_under_way else 200)
