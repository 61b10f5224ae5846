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
    to_do = serializers.CharField(help_text="Empty where there is nothing to do.")


class ToolReadinessOutput(serializers.Serializer[Any]):
    agent = serializers.SlugField(help_text="The agent of the tree that shows the tool.")
    tool = serializers.CharField(source="name", help_text="As a model knows it.")
    state = ReadinessStateOutput(help_text="The worst state of the tool there.")


class ToolStatesOutput(ToolReadinessOutput):
    states = ReadinessStateOutput(many=True, help_text="All of them, the worst first.")


class ProcedureStatesOutput(serializers.Serializer[Any]):
    procedure = serializers.SlugField()
    states = ReadinessStateOutput(many=True, help_text="The worst first.")


class AgentReadinessOutput(serializers.Serializer[Any]):
    tools = ToolStatesOutput(many=True, help_text="The pins of the agent and of its sub-agents.")
    procedures = ProcedureStatesOutput(many=True, help_text="Those of the agent itself.")
    tests = ReadinessStateOutput(help_text="About the newest run of the agent's rehearsals.")


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
