from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from designer import pinned_signatures, shown_tools, token_budget
from designer.api.agents import chosen_agent
from designer.api.shown_tools import FormatBudgetOutput
from designer.models import Agent
from people.api.generics import GenericAPIView


class ToolCost(serializers.Serializer[Any]):
    pin = serializers.IntegerField()
    tool = serializers.IntegerField()
    name = serializers.CharField(help_text="As the model knows it.")
    tokens = serializers.IntegerField()


class BudgetOutput(serializers.Serializer[Any]):
    tokens = serializers.IntegerField(help_text="What all tools of the agent cost in each request, about.")
    tools = ToolCost(many=True, help_text="The most costly first.")
    in_format = FormatBudgetOutput(allow_null=True, help_text="Null where no format is asked for.")


class AgentBudget(GenericAPIView[Agent]):
    """What the agent's tools cost a model, counted on what is shown: the words as they are tuned."""

    serializer_class = BudgetOutput
    pagination_class = None

    @extend_schema(
        parameters=[OpenApiParameter("format", str, enum=list(shown_tools.TEXTS))], responses=BudgetOutput
    )
    def get(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        name = request.query_params.get("format")
        in_format = None if name is None else shown_tools.budget(agent, shown_tools.find_text(name))
        pins = pinned_signatures.pinned([agent])
        costs = sorted(
            ((token_budget.tokens(pinned_signatures.effective_of(pin)), pin) for pin in pins),
            key=lambda cost: (-cost[0], cost[1].name),
        )
        tools = [
            {"pin": pin.pk, "tool": pin.tool_id, "name": pin.name, "tokens": tokens} for tokens, pin in costs
        ]
        total = sum(tokens for tokens, _ in costs)
        return Response(BudgetOutput({"tokens": total, "tools": tools, "in_format": in_format}).data)
