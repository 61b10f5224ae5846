from collections.abc import Sequence
from typing import Any

import msgspec
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Call
from catalog.models.calls import OUTCOMES
from catalog.rules.sensitive_values import restore
from core.serializers import Input, input_field, valid_data
from designer.api.agents import chosen_agent
from designer.environments import mocks
from designer.environments.mocks import CallFilter, MockedTool
from designer.models import Pin
from designer.pins import pinned_signatures
from execution.activities.config_masking import masked_config
from execution.activities.mocks import answers, assertions, situations
from execution.activities.mocks.answers import MockReply
from execution.activities.mocks.assertions import ASSERTIONS, Assertion
from execution.activities.mocks.situations import SITUATIONS
from execution.api.calls import AskOutput, CallErrorOutput, RetryOutput
from execution.calls import masking, results
from people.api.generics import APIView, GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import person

NAME = OpenApiParameter("name", str, OpenApiParameter.PATH, description="As the agent calls it.")
MAX_ID = 2**63 - 1


class MockExample(Input):
    """An answer for calls with these arguments.

    If several fit a call, the one with the most arguments answers.
    """

    arguments = serializers.DictField(
        required=False,
        help_text="The values by the vendor's names. The example answers calls that have these values.",
    )
    outputs = serializers.DictField(help_text="The values by the vendor's names; they fit the output schema.")


class MockSituation(Input):
    """Each situation accepts `when`, `switch`, `message` and the members that its description lists."""

    name = serializers.ChoiceField(choices=[str(row.__struct_config__.tag) for row in SITUATIONS])
    when = serializers.DictField(
        required=False, help_text="The value of each input. In a text, * matches any characters."
    )
    switch = serializers.BooleanField(
        required=False,
        allow_null=True,
        help_text=(
            "True or false. If it is omitted, the situation applies to the calls that `when` selects."
        ),
    )
    message = serializers.CharField(required=False, allow_blank=True, max_length=500)
    parameter_errors = serializers.DictField(
        child=serializers.CharField(),
        required=False,
        help_text="For invalid_input: the reason by refused input.",
    )
    hint = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=4000,
        help_text="For can_retry and fails_first: the hint for the model.",
    )
    after_ms = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=situations.MAX_SECONDS * 1000,
        help_text="For can_retry and fails_first: the wait in milliseconds.",
    )
    times = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=situations.MAX_TIMES,
        help_text="Of fails_first: the number of calls of one caller that fail before the others succeed.",
    )
    provider = serializers.CharField(
        required=False, max_length=100, help_text="For authorization: the name of the provider."
    )
    polls = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=situations.MAX_POLLS,
        help_text="Of authorization: the number of the continued call at which it is granted.",
    )
    url = serializers.CharField(
        required=False, max_length=2000, help_text="For authorization: the address for the user."
    )
    schema = serializers.DictField(
        required=False, help_text="Of interrupt: the JSON Schema of the answer; yes or no by default."
    )
    retry_after = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=situations.MAX_SECONDS,
        help_text="For unavailable: the wait in seconds.",
    )
    seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=situations.MAX_SECONDS,
        help_text="For slow: the delay in seconds.",
    )


class MockInput(Input):
    """Replaces the mock as a whole. A masked value (`••••`) stays as it is stored."""

    seed = input_field(mocks.SEED)
    examples = serializers.ListField(child=MockExample(), required=False, max_length=answers.MAX_EXAMPLES)
    situations = serializers.ListField(
        child=MockSituation(),
        required=False,
        max_length=answers.MAX_SITUATIONS,
        help_text=(
            "The situations. The first one that applies to a call answers it; `slow` only delays the answer."
        ),
    )


class MockSwitch(Input):
    switch = serializers.DictField(
        child=serializers.BooleanField(), help_text="True or false by the name of a situation."
    )


class MockOutput(serializers.Serializer[Any]):
    tool = serializers.CharField(help_text="The name of the tool that a model sees.")
    pin = serializers.IntegerField()
    activity = serializers.IntegerField(
        allow_null=True, help_text="The id of the mock; null before it is first saved."
    )
    number = serializers.IntegerField(allow_null=True, help_text="The number of times that it was saved.")
    seed = serializers.IntegerField()
    examples = serializers.ListField(child=serializers.DictField())
    situations = serializers.ListField(child=serializers.DictField())
    on = serializers.ListField(
        child=serializers.CharField(), help_text="Sentences about the situations that apply to some call."
    )
    problems = serializers.DictField(
        child=serializers.CharField(),
        help_text="The problems of the mock with the pinned version, by position.",
    )


class MockPreviewInput(MockInput):
    """Omitted members have their stored values."""

    arguments = serializers.DictField(required=False, help_text="The values by the vendor's names.")


class MockAnswerOutput(serializers.Serializer[Any]):
    because = serializers.CharField(help_text="The reason for this answer.")
    seconds = serializers.FloatField(help_text="The time that a call would wait for it.")
    outcome = serializers.ChoiceField(choices=OUTCOMES)
    outputs = serializers.DictField()
    error = CallErrorOutput(allow_null=True)
    retry = RetryOutput(allow_null=True)
    asks = AskOutput(many=True)


class MockCallOutput(serializers.Serializer[Any]):
    call = serializers.IntegerField(source="pk")
    tool = serializers.SerializerMethodField(
        help_text="As the agent calls it; empty for a tool that the agent no longer has."
    )
    arguments = serializers.DictField()
    outcome = serializers.CharField(help_text="The outcome; empty until the call has ended.")
    environment = serializers.CharField()
    key = serializers.IntegerField(source="api_key_id", allow_null=True)
    requested_by = serializers.CharField(source="requested_name")
    requested_at = serializers.DateTimeField(source="queued_at")
    continues = serializers.IntegerField(source="continues_id", allow_null=True)

    def get_tool(self, call: Call) -> str:
        return str(self.context["names"].get(call.tool_id, ""))


# `is` cannot be the name of a member in Python.
MockAssertion = type(
    "MockAssertion",
    (Input,),
    {
        "__doc__": "`before` takes `other`, and `called` may take `times`.",
        "__module__": __name__,
        "tool": serializers.CharField(
            max_length=assertions.MAX_NAME_LENGTH, help_text="As the agent calls it."
        ),
        "is": serializers.ChoiceField(choices=[str(row.__struct_config__.tag) for row in ASSERTIONS]),
        "other": serializers.CharField(max_length=assertions.MAX_NAME_LENGTH, required=False),
        "times": serializers.IntegerField(required=False, min_value=1, max_value=1000),
    },
)


class AssertionsInput(Input):
    assertions = serializers.ListField(child=MockAssertion(), max_length=assertions.MAX_ASSERTIONS)


class MockCallFilter(serializers.Serializer[Any]):
    key = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_ID, help_text="The id of the API key that sent the call."
    )
    environment = input_field(mocks.ENVIRONMENT)
    tool = input_field(mocks.TOOL, allow_blank=False)
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)


class JudgeInput(Input, MockCallFilter):
    """The calls to judge. Without `assertions`, the kept ones judge them."""

    assertions = serializers.ListField(
        child=MockAssertion(), required=False, max_length=assertions.MAX_ASSERTIONS
    )


class AssertionsOutput(serializers.Serializer[Any]):
    assertions = serializers.ListField(child=serializers.DictField())


class VerdictOutput(serializers.Serializer[Any]):
    assertion = serializers.DictField()
    says = serializers.CharField()
    holds = serializers.BooleanField()
    is_exercised = serializers.BooleanField(
        help_text="False if no call could have broken the rule, so that the result proves nothing."
    )
    why = serializers.CharField()
    calls = serializers.ListField(
        child=serializers.IntegerField(), help_text="The calls that prove the result."
    )


class JudgedOutput(serializers.Serializer[Any]):
    holds = serializers.BooleanField(help_text="True if every assertion holds.")
    verdicts = VerdictOutput(many=True)


def chosen_mock(request: Request, slug: str, name: str) -> MockedTool:
    pins = pinned_signatures.pins_of_agents([chosen_agent(request, slug)]).select_related("agent")
    return mocks.mock_of_pin(get_object_or_404(pins, name=name))


def describe_mock(mocked_tool: MockedTool) -> dict[str, Any]:
    version = mocked_tool.activity.current if mocked_tool.activity else None
    config = masked_config("mock", mocked_tool.config, mocked_tool.pin.tool_id)
    return {
        "tool": mocked_tool.pin.name,
        "pin": mocked_tool.pin.pk,
        "activity": mocked_tool.activity.pk if mocked_tool.activity else None,
        "number": version.number if version else None,
        "seed": 0,
        "examples": [],
        "situations": [],
        **config,
        "on": mocked_tool.active_situations,
        "problems": mocked_tool.problems,
    }


def answer_of(tool: int, reply: MockReply) -> dict[str, Any]:
    outcome = reply.outcome
    return {
        "because": reply.because,
        "seconds": reply.seconds,
        "outcome": outcome.outcome,
        "outputs": masking.masked_outputs(tool, outcome.outputs),
        "error": outcome.error,
        "retry": results.retry(outcome, is_safe=False),
        "asks": outcome.asks,
    }


@extend_schema(tags=["mocks"])
class MockList(GenericAPIView[Pin]):
    """The agent's tools with the answers of their mocks."""

    serializer_class = MockOutput

    @extend_schema(operation_id="agents_mocks_list", responses=MockOutput(many=True))
    def get(self, request: Request, slug: str) -> Response:
        mocked_tools = mocks.mocked_tools(chosen_agent(request, slug))
        return Response(MockOutput([describe_mock(mocked) for mocked in mocked_tools], many=True).data)


@extend_schema(tags=["mocks"], parameters=[NAME])
class MockDetail(GenericAPIView[Pin]):
    """The answers of a tool's mock, for environments that bind the tool to it."""

    write_role = Role.DESIGNER
    serializer_class = MockOutput

    @extend_schema(operation_id="agents_mocks_retrieve", responses=MockOutput)
    def get(self, request: Request, slug: str, name: str) -> Response:
        return self._respond(chosen_mock(request, slug, name))

    @extend_schema(parameters=[IF_MATCH], request=MockInput, responses=MockOutput)
    def put(self, request: Request, slug: str, name: str) -> Response:
        mocked = chosen_mock(request, slug, name)
        values = MockInput.parse(request.data)
        saved = mocks.save(mocked.pin, actor=person(request), config=values, expected=expected_state(request))
        return self._respond(saved)

    @extend_schema(request=MockSwitch, responses=MockOutput)
    def patch(self, request: Request, slug: str, name: str) -> Response:
        """Switch situations on or off. Other members of the mock stay unchanged."""
        mocked = chosen_mock(request, slug, name)
        values = MockSwitch.parse(request.data)
        return self._respond(mocks.switch(mocked.pin, actor=person(request), switches=values["switch"]))

    def _respond(self, mocked_tool: MockedTool) -> Response:
        return Response(MockOutput(describe_mock(mocked_tool)).data, headers=etag_of(mocked_tool.facts))


@extend_schema(tags=["mocks"], parameters=[NAME])
class MockPreview(APIView):
    """The answer that the mock would give. No call is sent, and nothing is stored."""

    write_role = Role.VIEWER
    only_reads = True

    @extend_schema(request=MockPreviewInput, responses=MockAnswerOutput)
    def post(self, request: Request, slug: str, name: str) -> Response:
        mocked = chosen_mock(request, slug, name)
        values = MockPreviewInput.parse(request.data)
        arguments = values.pop("arguments", {})
        config = restore({**mocked.config, **values}, mocked.config)
        reply = mocks.preview(mocked.pin, config, arguments)
        return Response(MockAnswerOutput(answer_of(mocked.pin.tool_id, reply)).data)


@extend_schema(tags=["mocks"])
class MockCallList(ListAPIView[Call]):
    """The calls that the agent's mocks received, the newest first."""

    serializer_class = MockCallOutput
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[Call]:
        agent = chosen_agent(self.request, self.kwargs["slug"])
        values = valid_data(MockCallFilter(data=self.request.query_params.dict()))
        return mocks.calls(agent, CallFilter(**values)).defer("result", "answers")

    def paginate_queryset(self, queryset: Any) -> Any:
        return masking.masked_calls(super().paginate_queryset(queryset) or ())

    def get_serializer_context(self) -> dict[str, Any]:
        names = mocks.names(chosen_agent(self.request, self.kwargs["slug"]))
        return {**super().get_serializer_context(), "names": names}

    @extend_schema(operation_id="agents_mock_calls_list", parameters=[MockCallFilter])
    def get(self, request: Request, slug: str) -> Response:
        return super().get(request, slug)


@extend_schema(tags=["mocks"])
class AgentAssertions(APIView):
    """The assertions about the agent's calls of its mocks."""

    write_role = Role.DESIGNER

    @extend_schema(operation_id="agents_mock_assertions_retrieve", responses=AssertionsOutput)
    def get(self, request: Request, slug: str) -> Response:
        return self._respond(mocks.assertions_of(chosen_agent(request, slug)))

    @extend_schema(request=AssertionsInput, responses=AssertionsOutput)
    def put(self, request: Request, slug: str) -> Response:
        """Replace the stored assertions."""
        agent = chosen_agent(request, slug)
        assertion_values = AssertionsInput.parse(request.data)["assertions"]
        return self._respond(mocks.set_assertions(agent, actor=person(request), documents=assertion_values))

    def _respond(self, assertions: Sequence[Assertion]) -> Response:
        return Response(AssertionsOutput({"assertions": msgspec.to_builtins(assertions)}).data)


@extend_schema(tags=["mocks"])
class MockJudgement(APIView):
    """The result of the assertions, with the calls that prove it. Nothing is stored."""

    write_role = Role.VIEWER
    only_reads = True

    @extend_schema(request=JudgeInput, responses=JudgedOutput)
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = JudgeInput.parse(request.data)
        assertion_values = values.pop("assertions", None)
        asserted = (
            mocks.assertions_of(agent)
            if assertion_values is None
            else mocks.read_assertions(agent, assertion_values)
        )
        verdicts = mocks.check_assertions(agent, asserted, CallFilter(**values))
        document = {
            "holds": all(verdict.holds for verdict in verdicts),
            "verdicts": [
                {
                    "assertion": msgspec.to_builtins(v.assertion),
                    "says": v.assertion.sentence,
                    "holds": v.holds,
                    "is_exercised": v.is_exercised,
                    "why": v.reason,
                    "calls": v.calls,
                }
                for v in verdicts
            ],
        }
        return Response(JudgedOutput(document).data)
