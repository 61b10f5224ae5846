from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.serializers import ModelInput, input_field, valid_data
from designer.agents import agent_budgets, transfers
from designer.api.agents import chosen_agent
from designer.api.shown_tools import FormatBudgetOutput
from designer.models import Agent, TokenLimit
from designer.overviews import shown_tools
from designer.pins import pinned_signatures, token_budget
from people.api.generics import GenericAPIView
from people.models import Role
from people.permissions import person


class ToolCost(serializers.Serializer[Any]):
    pin = serializers.IntegerField()
    tool = serializers.IntegerField()
    name = serializers.CharField(help_text="The name of the tool that a model sees.")
    tokens = serializers.IntegerField()


class BudgetOutput(serializers.Serializer[Any]):
    limit = serializers.IntegerField(
        allow_null=True, help_text="The token limit of its tools and procedures; null for none."
    )
    stops = serializers.BooleanField(help_text="True if exceeding the limit fails a check of publishing.")
    tokens = serializers.IntegerField(
        help_text="The estimated tokens of all tools and transfers in each request."
    )
    tools = ToolCost(many=True, help_text="The tools, the most costly first.")
    in_format = FormatBudgetOutput(
        allow_null=True, help_text="The costs in the requested format; null if none was requested."
    )


class BudgetInput(ModelInput):
    limit = input_field(
        TokenLimit._meta.get_field("tokens"),
        allow_null=True,
        help_text="The token limit of tools and procedures in each request; null removes it.",
    )

    class Meta:
        model = TokenLimit
        fields = ("limit", "stops")
        extra_kwargs = {"stops": {"help_text": "Whether more fails a check of publishing; else it warns."}}


class AgentBudget(GenericAPIView[Agent]):
    """The tokens that the agent's tools cost a model, with tuned texts."""

    write_role = Role.DESIGNER
    serializer_class = BudgetOutput

    @extend_schema(
        parameters=[OpenApiParameter("format", str, enum=list(shown_tools.TEXTS))], responses=BudgetOutput
    )
    def get(self, request: Request, slug: str) -> Response:
        return self._respond(request, chosen_agent(request, slug))

    @extend_schema(request=BudgetInput, responses=BudgetOutput)
    def put(self, request: Request, slug: str) -> Response:
        """Set how many tokens the agent may use."""
        agent = chosen_agent(request, slug)
        values = valid_data(BudgetInput(data=request.data))
        agent_budgets.set_limit(agent, actor=person(request), **values)
        return self._respond(request, agent)

    def _respond(self, request: Request, agent: Agent) -> Response:
        limit = agent_budgets.limit_of(agent)
        name = request.query_params.get("format")
        in_format = None if name is None else shown_tools.budget(agent, shown_tools.find_text(name))
        pins = pinned_signatures.pins_of_agents([agent])
        costs = sorted(
            ((token_budget.tokens(pinned_signatures.effective_of(pin)), pin) for pin in pins),
            key=lambda cost: (-cost[0], cost[1].name),
        )
        tools = [
            {"pin": pin.pk, "tool": pin.tool_id, "name": pin.name, "tokens": tokens} for tokens, pin in costs
        ]
        handed = transfers.transfers_from([agent])
        total = sum(tokens for tokens, _ in costs)
        total += sum(
            token_budget.tokens_of_transfer(row.name, transfers.description_of(row)) for row in handed
        )
        document = {"tokens": total, "tools": tools, "in_format": in_format}
        document |= {"limit": limit.tokens if limit else None, "stops": bool(limit and limit.stops)}
        return Response(BudgetOutput(document).data)
