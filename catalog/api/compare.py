from typing import Any, get_args

import msgspec
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models.tools import ToolStatus
from catalog.tools import comparison
from catalog.tools.comparison import ComparedParameter, ToolComparison
from catalog.tools.effective_texts import ShownInput
from core.errors import invalid
from people.api.generics import APIView
from protocols.signature import Effect

MAX_KEY = 2**63 - 1
TOOLS = OpenApiParameter(
    "tool",
    {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": MAX_KEY},
        "minItems": 1,
        "maxItems": comparison.MAX_TOOLS,
    },
    required=True,
    description=f"The id of a tool; up to {comparison.MAX_TOOLS}.",
)


class ComparedTool(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="tool.pk")
    name = serializers.CharField(source="tool.name")
    description = serializers.CharField(
        source="signature.description", help_text="The description as agents see it."
    )
    vendor = serializers.SlugField(source="tool.endpoint.vendor.slug")
    version = serializers.CharField(
        source="tool.current.label", help_text="The vendor's own name of the current version."
    )
    ordinal = serializers.IntegerField(source="tool.current.ordinal")
    version_name = serializers.CharField(
        source="tool.current.name", help_text="The name of the version that pages show."
    )
    status = serializers.ChoiceField(choices=ToolStatus.choices, source="tool.status")
    tags = serializers.ListField(child=serializers.CharField(), source="tool.tags")
    tokens = serializers.IntegerField(source="tool.tokens")
    effect = serializers.ChoiceField(
        choices=get_args(Effect),
        source="signature.annotations.effect",
        help_text="The most severe effect of a call, after tunings.",
    )


class ComparedCell(serializers.Serializer[Any]):
    """The parameter of one tool in a compared line."""

    parameter = serializers.SerializerMethodField()
    vendors = serializers.CharField(
        allow_null=True, help_text="The vendor's description; empty if no tuned one replaces it."
    )
    is_hidden = serializers.BooleanField()

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_parameter(self, cell: ShownInput) -> Any:
        return msgspec.to_builtins(cell.parameter)


class ComparedLine(serializers.Serializer[Any]):
    name = serializers.CharField()
    differs = serializers.BooleanField(
        help_text="True if the tools differ in this line in more than the name."
    )
    cells = serializers.SerializerMethodField()

    @extend_schema_field(serializers.ListField(child=ComparedCell(allow_null=True)))
    def get_cells(self, line: ComparedParameter) -> list[Any]:
        """Return a cell for each tool, in their order; null if the tool has no such parameter."""
        return [cell and ComparedCell(cell).data for cell in line.cells]


class ComparisonOutput(serializers.Serializer[ToolComparison]):
    tools = ComparedTool(many=True, source="columns")
    differing = serializers.SerializerMethodField(help_text="The facts in which the tools differ.")
    inputs = ComparedLine(many=True)
    outputs = ComparedLine(many=True)

    @extend_schema_field(
        serializers.ListField(child=serializers.ChoiceField(choices=sorted(comparison.FACTS)))
    )
    def get_differing(self, tool_comparison: ToolComparison) -> list[str]:
        return sorted(tool_comparison.differing)


class ToolCompare(APIView):
    """Compare up to four tools, in the requested order. Unknown tools are left out."""

    @extend_schema(operation_id="tools_compare", parameters=[TOOLS], responses=ComparisonOutput)
    def get(self, request: Request) -> Response:
        texts = request.query_params.getlist("tool")
        tool_ids = [int(text) for text in texts if text.isdecimal() and text.isascii() and len(text) < 19]
        if not tool_ids or len(tool_ids) != len(texts) or len(texts) > comparison.MAX_TOOLS or 0 in tool_ids:
            raise invalid(tool=f"Send one to {comparison.MAX_TOOLS} ids of tools.")
        return Response(ComparisonOutput(comparison.compare(tool_ids)).data)
