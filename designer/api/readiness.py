from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from designer.api.agents import chosen_agent
from designer.models import Agent
from designer.overviews import agent_readiness
from designer.readiness.judgement import SEVERITIES
from people.api.generics import GenericAPIView
from people.permissions import person


class ReadinessStateOutput(serializers.Serializer[Any]):
    """One true statement about a tool, a procedure or tests. Nothing is `proven` without evidence."""

    code = serializers.CharField()
    severity = serializers.ChoiceField(choices=SEVERITIES)
    message = serializers.CharField()
    to_do = serializers.CharField(help_text="The step that a user has to take; may be empty.")


class ToolReadinessOutput(serializers.Serializer[Any]):
    agent = serializers.SlugField(help_text="The agent of the tree that shows the tool.")
    tool = serializers.CharField(source="name", help_text="The name of the tool that a model sees.")
    state = ReadinessStateOutput(help_text="The most serious state of the tool.")


class ToolStatesOutput(ToolReadinessOutput):
    states = ReadinessStateOutput(many=True, help_text="All states, the most serious first.")


class ProcedureStatesOutput(serializers.Serializer[Any]):
    procedure = serializers.SlugField()
    states = ReadinessStateOutput(many=True, help_text="All states, the most serious first.")


class AgentReadinessOutput(serializers.Serializer[Any]):
    tools = ToolStatesOutput(many=True, help_text="The pins of the agent and of its sub-agents.")
    procedures = ProcedureStatesOutput(many=True, help_text="The procedures of the agent itself.")
    tests = ReadinessStateOutput(help_text="The states of the newest run of the agent's tests.")


@extend_schema(tags=["channels"])
class AgentReadiness(GenericAPIView[Agent]):
    """The readiness of the agent's tools, procedures and tests in its default environment.

    No request is sent to a vendor.
    """

    serializer_class = AgentReadinessOutput
    queryset = Agent.objects.none()

    @extend_schema(operation_id="agents_readiness_retrieve")
    def get(self, request: Request, slug: str) -> Response:
        assessed = agent_readiness.assess_agent(chosen_agent(request, slug), person(request))
        return Response(AgentReadinessOutput(assessed).data)
