from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tool
from catalog.rules.sensitive_values import members_of
from catalog.tools import sensitive_values
from core.serializers import Input
from people.api.generics import APIView
from people.models import Role
from people.permissions import person


def _pointer_list(help_text: str = "") -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(max_length=500), help_text=help_text)


class SensitiveInput(Input):
    inputs = _pointer_list("JSON pointers such as `/customer/ssn`, without the indexes of lists.")
    outputs = _pointer_list()


class SensitiveProposalOutput(serializers.Serializer[Any]):
    side = serializers.ChoiceField(choices=["inputs", "outputs"])
    pointer = serializers.CharField()
    reason = serializers.CharField(help_text="The name or format that suggests the marking.")


class SensitiveOutput(serializers.Serializer[Any]):
    inputs = _pointer_list()
    outputs = _pointer_list()
    proposals = SensitiveProposalOutput(
        many=True, help_text="The members that are proposed for marking; they mask nothing."
    )


@extend_schema(tags=["sensitive-values"])
class SensitiveMembers(APIView):
    """The inputs and outputs that are masked for people. The replies to runtimes are never masked."""

    write_role = Role.DESIGNER

    @extend_schema(operation_id="tools_sensitive_retrieve", responses=SensitiveOutput)
    def get(self, request: Request, pk: int) -> Response:
        return self._respond(_find_tool(pk))

    @extend_schema(operation_id="tools_sensitive_update", request=SensitiveInput, responses=SensitiveOutput)
    def put(self, request: Request, pk: int) -> Response:
        """Mark exactly these members."""
        tool = _find_tool(pk)
        sensitive_values.mark(tool, actor=person(request), **SensitiveInput.parse(request.data))
        return self._respond(tool)

    def _respond(self, tool: Tool) -> Response:
        marks = sensitive_values.marks_of([tool.pk]).get(tool.pk, sensitive_values.NONE)
        signature = tool.current.decoded() if tool.current else None
        sides = {"inputs": signature.inputs, "outputs": signature.outputs} if signature else {}
        proposals = [
            {"side": side, "pointer": member.pointer, "reason": member.reason}
            for side, parameters in sides.items()
            for member in members_of(parameters)
            if member.reason and member.pointer not in getattr(marks, side)
        ]
        return Response(SensitiveOutput({**sensitive_values.facts(marks), "proposals": proposals}).data)


def _find_tool(pk: int) -> Tool:
    return get_object_or_404(Tool.objects.select_related("current"), pk=pk)
