from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.serializers import Input, ModelChange, ModelInput, valid_data
from designer.api.agents import chosen_agent
from designer.models import Agent, Gate, Rehearsal, RehearsalPlan, RehearsalRun
from designer.rehearsals import built_in, look_alikes, masking, plans, runs, sentences, shown
from designer.rehearsals.look_alikes import ConfusablePair
from designer.rehearsals.sentences import NewSentence
from designer.releases import rehearsed
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person


class ExpectedInput(Input):
    tool = serializers.CharField(
        max_length=64, help_text="The name of the tool or transfer that a model sees."
    )
    inputs = serializers.DictField(
        required=False,
        help_text=(
            "The expected values by the names that a model sees. Omitted inputs are not checked. "
            "`••••` keeps the stored value."
        ),
    )


class RehearsalInput(ModelInput):
    expects = ExpectedInput()

    class Meta:
        model = Rehearsal
        fields = ("says", "expects")


class RehearsalChange(ModelChange):
    expects = ExpectedInput(required=False)

    class Meta:
        model = Rehearsal
        fields = ("says", "expects")


class ExpectedOutput(serializers.Serializer[Any]):
    tool = serializers.CharField(
        allow_blank=True, help_text="The current name; empty if the agent does not show it any more."
    )
    inputs = serializers.DictField()


class RehearsalOutput(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    says = serializers.CharField()
    expects = ExpectedOutput()
    created_at = serializers.DateTimeField()


class InputAnswerOutput(serializers.Serializer[Any]):
    name = serializers.CharField()
    expected = serializers.JSONField()
    right = serializers.BooleanField()
    message = serializers.CharField(allow_blank=True)


class AnswerOutput(serializers.Serializer[Any]):
    rehearsal = serializers.IntegerField()
    says = serializers.CharField()
    expected = serializers.CharField(allow_blank=True)
    chosen = serializers.CharField(allow_blank=True, help_text="The name of the chosen tool; empty for none.")
    right = serializers.BooleanField()
    margin = serializers.FloatField(
        min_value=-1, max_value=1, help_text="The score of the expected tool above the best other one."
    )
    tries = serializers.IntegerField()
    choices = serializers.DictField(
        child=serializers.IntegerField(), help_text="The number of tries by chosen tool."
    )
    inputs = InputAnswerOutput(many=True)
    message = serializers.CharField(
        allow_blank=True, help_text="The difference from the expected answer; may be empty."
    )
    failed = serializers.CharField(
        allow_blank=True, help_text="The reason why the judge made fewer tries; empty if it made all."
    )


class FlipOutput(serializers.Serializer[Any]):
    says = serializers.CharField()
    expected = serializers.CharField(allow_blank=True)
    chosen = serializers.CharField(allow_blank=True)
    before = serializers.CharField(allow_blank=True, help_text="The earlier choice.")
    better = serializers.BooleanField(help_text="True if the answer is as expected now.")


class FigureOutput(serializers.Serializer[Any]):
    right = serializers.IntegerField()
    total = serializers.IntegerField()


class RehearsedOutput(serializers.Serializer[Any]):
    """The rehearsals of one agent of a draft, beside those of the release that it is compared with."""

    agent = serializers.CharField(help_text="The name of the agent.")
    judge = serializers.CharField()
    gate = serializers.ChoiceField(Gate.values)
    now = FigureOutput(
        allow_null=True, help_text="The result; null if there is none, for the reason in `missing`."
    )
    before = FigureOutput(allow_null=True, help_text="The result of the release; null if it lacks the agent.")
    flips = FlipOutput(many=True)
    missing = serializers.CharField(allow_blank=True)


class GateInput(ModelInput):
    gate = serializers.ChoiceField(
        Gate.values,
        help_text="The effect on publishing: `off` has none, `warn` warns, `refuse` fails a check.",
    )
    judge = serializers.CharField(
        required=False,
        max_length=36,
        help_text=(
            "The judge whose result counts: `built-in`, or its id. If it is omitted, the stored one stays."
        ),
    )

    class Meta:
        model = RehearsalPlan
        fields = ("gate", "at_least", "on_flips", "judge")


class GateOutput(serializers.Serializer[Any]):
    gate = serializers.ChoiceField(Gate.values)
    at_least = serializers.IntegerField(allow_null=True)
    on_flips = serializers.BooleanField()
    judge = serializers.SerializerMethodField()

    def get_judge(self, row: RehearsalPlan) -> str:
        return plans.judge_of(row)


class RehearsalRunOutput(FigureOutput):
    id = serializers.IntegerField()
    judge = serializers.CharField(help_text="`built-in`, or the id of the judge.")
    model = serializers.CharField(allow_blank=True)
    input_tokens = serializers.IntegerField(
        allow_null=True, help_text="The tokens that the judge reports; may be null."
    )
    output_tokens = serializers.IntegerField(allow_null=True)
    status = serializers.ChoiceField(["queued", "running", "succeeded", "failed"])
    message = serializers.CharField(allow_blank=True, help_text="The reason of a failure; may be empty.")
    digest = serializers.CharField(help_text="The digest of everything that the judge was sent.")
    before = FigureOutput(allow_null=True, help_text="The rate of the run before this one by the same judge.")
    flips = FlipOutput(many=True, help_text="The sentences whose answer differs from that of the run before.")
    results = AnswerOutput(many=True)
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class ConfusableToolOutput(serializers.Serializer[Any]):
    tool = serializers.CharField()
    only = serializers.ListField(
        child=serializers.CharField(), help_text="The words that this tool has and the other one lacks."
    )
    sentence = serializers.CharField(
        allow_blank=True,
        help_text="A sentence for its description that distinguishes it from the other one; empty if "
        "nothing does.",
    )


class ConfusablePairOutput(serializers.Serializer[Any]):
    tools = ConfusableToolOutput(many=True, help_text="The two tools.")
    score = serializers.FloatField(
        min_value=0, max_value=1, help_text="The likelihood that a model confuses them."
    )


class ConfusablePairListOutput(serializers.Serializer[Any]):
    results = ConfusablePairOutput(many=True)


class TellApartInput(Input):
    tool = serializers.CharField(max_length=64, help_text="The tool whose description gets the sentence.")
    other = serializers.CharField(max_length=64, help_text="The tool that it is confused with.")


TWO = {"tool": "As a model is shown it.", "other": "The one that it is compared with."}


@extend_schema(tags=["rehearsals"])
class RehearsalList(ListAPIView[Rehearsal]):
    """The sentences that the agent is rehearsed with."""

    write_role = Role.DESIGNER
    serializer_class = RehearsalOutput
    ordering = ("id",)

    def get_queryset(self) -> QuerySet[Rehearsal]:
        return sentences.sentences_of([chosen_agent(self.request, self.kwargs["slug"])])

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset) or []
        return _describe_sentences(chosen_agent(self.request, self.kwargs["slug"]), page)

    @extend_schema(request=RehearsalInput, responses={201: RehearsalOutput})
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(RehearsalInput(data=request.data))
        expects = values["expects"]
        new_sentence = NewSentence(values["says"], expects["tool"], expects.get("inputs", {}))
        rows = sentences.add(agent, actor=person(request), new_sentences=[new_sentence])
        return Response(RehearsalOutput(_describe_sentences(agent, rows)[0]).data, status=201)


@extend_schema(tags=["rehearsals"])
class RehearsalDetail(GenericAPIView[Rehearsal]):
    write_role = Role.DESIGNER
    serializer_class = RehearsalOutput

    def get(self, request: Request, slug: str, pk: int) -> Response:
        row = _find_rehearsal(request, slug, pk)
        return Response(RehearsalOutput(_describe_sentences(row.agent, [row])[0]).data)

    @extend_schema(request=RehearsalChange)
    def patch(self, request: Request, slug: str, pk: int) -> Response:
        row = _find_rehearsal(request, slug, pk)
        values = valid_data(RehearsalChange(data=request.data))
        changes = {"says": values["says"]} if "says" in values else {}
        row = sentences.change(row, actor=person(request), **changes, **values.get("expects", {}))
        return Response(RehearsalOutput(_describe_sentences(row.agent, [row])[0]).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, pk: int) -> Response:
        sentences.remove(_find_rehearsal(request, slug, pk), actor=person(request))
        return Response(status=204)


@extend_schema(tags=["rehearsals"])
class RehearsalRunDetail(GenericAPIView[RehearsalRun]):
    """The tool that was chosen for each sentence, by the texts that publishing now would show a model."""

    write_role = Role.DESIGNER
    serializer_class = RehearsalRunOutput

    def get(self, request: Request, slug: str) -> Response:
        """The newest run."""
        return Response(RehearsalRunOutput(_newest_outcome(chosen_agent(request, slug))).data)

    @extend_schema(request=None, responses={201: RehearsalRunOutput})
    def post(self, request: Request, slug: str) -> Response:
        """Run the tests now. An evaluation model runs in the background: see `status`."""
        agent = chosen_agent(request, slug)
        rehearsed.run(agent, actor=person(request))
        return Response(RehearsalRunOutput(_newest_outcome(agent)).data, status=201)


@extend_schema(tags=["rehearsals"])
class RehearsalGate(GenericAPIView[Agent]):
    """The rule by which tests decide about publishing the agent."""

    write_role = Role.DESIGNER
    serializer_class = GateOutput

    def get(self, request: Request, slug: str) -> Response:
        return Response(GateOutput(plans.plan_of(chosen_agent(request, slug))).data)

    @extend_schema(request=GateInput, responses=GateOutput)
    def put(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(GateInput(data=request.data))
        row = plans.set_gate(agent, actor=person(request), **values)
        return Response(GateOutput(row).data)


@extend_schema(tags=["rehearsals"])
class ConfusablePairs(GenericAPIView[Agent]):
    """Tools of the agent that a model would mix up, the worst first, at most 50 pairs."""

    write_role = Role.DESIGNER
    serializer_class = ConfusablePairListOutput

    @extend_schema(
        operation_id="agents_rehearsals_confusable_list",
        parameters=[OpenApiParameter(name, str, description=help_text) for name, help_text in TWO.items()],
        responses=ConfusablePairListOutput,
    )
    def get(self, request: Request, slug: str) -> Response:
        """Compare tools that may be confused.

        With `tool` and `other` only these two are compared.
        """
        agent, query = chosen_agent(request, slug), request.query_params.dict()
        if not query.keys() & TWO.keys():
            return self._respond(look_alikes.confusable_pairs(agent))
        values = valid_data(TellApartInput(data={name: query[name] for name in TWO if name in query}))
        return self._respond([look_alikes.confusable_pair(agent, **values)])

    @extend_schema(request=TellApartInput, responses=ConfusablePairListOutput)
    def post(self, request: Request, slug: str) -> Response:
        """Add the proposed sentence to the agent's tuned text of `tool`. The answer lists the remaining
        confusable tools.
        """
        agent = chosen_agent(request, slug)
        values = valid_data(TellApartInput(data=request.data))
        look_alikes.add_contrast(agent, actor=person(request), **values)
        return self._respond(look_alikes.confusable_pairs(agent))

    def _respond(self, pairs: Sequence[ConfusablePair]) -> Response:
        documents = [
            {
                "tools": [
                    {"tool": pair.pair.first, "only": pair.pair.only_first, "sentence": pair.for_first},
                    {"tool": pair.pair.second, "only": pair.pair.only_second, "sentence": pair.for_second},
                ],
                "score": pair.pair.score,
            }
            for pair in pairs
        ]
        return Response(ConfusablePairListOutput({"results": documents}).data)


def _find_rehearsal(request: Request, slug: str, pk: int) -> Rehearsal:
    agent = chosen_agent(request, slug)
    row = get_object_or_404(sentences.sentences_of([agent]), pk=pk)
    row.agent = agent
    return row


def _describe_sentences(agent: Agent, rows: Sequence[Rehearsal]) -> list[dict[str, Any]]:
    shown_tools = shown.tools_of_agents([agent])[agent.pk]
    marks = masking.marks_of_tests(shown_tools, rows)
    return [
        {
            "id": row.pk,
            "says": row.says,
            "expects": {"tool": sentence.expected, "inputs": masking.masked_inputs(row, marks)},
            "created_at": row.created_at,
        }
        for row, sentence in zip(rows, shown_tools.sentences(rows), strict=True)
    ]


def _newest_outcome(agent: Agent) -> dict[str, Any]:
    outcome = runs.newest_outcome(plans.plan_of(agent))
    if outcome is None:
        raise runs.never_run()
    run, shown_tools = outcome.run, shown.tools_of_agents([agent])[agent.pk]
    members = ("id", "model", "status", "message", "digest", "right", "total", "created_at", "finished_at")
    return {
        **{name: getattr(run, name) for name in (*members, "input_tokens", "output_tokens")},
        "judge": str(run.asks_id or built_in.NAME),
        "before": outcome.before,
        "flips": outcome.flips,
        "results": masking.masked_answers(
            outcome.answers, masking.marks_of_tests(shown_tools, sentences.sentences_of([agent]))
        ),
    }
