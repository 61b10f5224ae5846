from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from designer import pinned_signatures, token_budget
from designer.api.agents import chosen_agent
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


class AgentBudget(GenericAPIView[Agent]):
    """What the agent's tools cost a model, counted on what is shown: the words as they are tuned."""

    serializer_class = BudgetOutput
    pagination_class = None

    @extend_schema(responses=BudgetOutput)
    def get(self, request: Request, slug: str) -> Response:
        pins = pinned_signatures.pinned([chosen_agent(request, slug)])
        costs = sorted(
            ((token_budget.tokens(pinned_signatures.effective_of(pin)), pin) for pin in pins),
            key=lambda cost: (-cost[0], cost[1].name),
        )
        tools = [
            {"pin": pin.pk, "tool": pin.tool_id, "name": pin.name, "tokens": tokens} for tokens, pin in costs
        ]
        return Response(BudgetOutput({"tokens": sum(tokens for tokens, _ in costs), "tools": tools}).data)
