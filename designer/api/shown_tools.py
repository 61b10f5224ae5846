from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from designer.api.pins import chosen_pin
from designer.models import Pin
from designer.overviews import shown_tools
from people.api.generics import GenericAPIView

FORMAT = OpenApiParameter("format", str, required=True, enum=list(shown_tools.TEXTS))


class PartOutput(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=["name", "description", "input", "outputs", "rest"])
    name = serializers.CharField(help_text="The name of the input in the format; else empty.")
    tokens = serializers.IntegerField()


class LimitOutput(serializers.Serializer[Any]):
    what = serializers.CharField()
    has = serializers.IntegerField()
    allows = serializers.IntegerField()
    state = serializers.ChoiceField(
        choices=["ok", "warn", "bad"],
        help_text="The state: met, refused by some users of the format, or broken.",
    )


class ToolRemarkOutput(serializers.Serializer[Any]):
    level = serializers.ChoiceField(choices=["blocks", "warns", "loses"])
    code = serializers.CharField()
    message = serializers.CharField()


class SavingOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    path = serializers.ListField(
        child=serializers.CharField(), help_text="The path of the member of the tuning."
    )
    message = serializers.CharField()
    text = serializers.CharField(allow_blank=True, help_text="The shorter text for this member.")
    tokens = serializers.IntegerField(help_text="The number of tokens that it saves.")


class FormatBudgetOutput(serializers.Serializer[Any]):
    """The tokens of all tools of the agent in a format, as publishing now would write it."""

    format = serializers.CharField(source="format.name")
    tokens = serializers.IntegerField()
    tools = serializers.IntegerField(help_text="The number of tools that the format can represent.")
    left_out = serializers.ListField(
        child=serializers.CharField(), help_text="The names of the tools that it cannot represent."
    )
    advised = serializers.IntegerField(
        allow_null=True,
        help_text="The number of tools that users of the format accept in one request; null if unknown.",
    )


class ShownToolOutput(serializers.Serializer[Any]):
    format = serializers.CharField(source="format.name")
    text = serializers.SerializerMethodField(
        help_text="The exact text of the tool in the export; empty if the format cannot represent it."
    )
    tokens = serializers.IntegerField()
    parts = PartOutput(many=True, help_text="The parts of the tool, whose tokens add up to `tokens`.")
    source = serializers.CharField(source="format.limits.source", help_text="The source of the limits.")  # type: ignore[assignment]
    date = serializers.CharField(
        source="format.limits.date", help_text="The date on which the source was read."
    )
    limits = LimitOutput(many=True)
    remarks = ToolRemarkOutput(many=True)
    savings = SavingOutput(many=True, help_text="The possible savings, the largest first.")
    agent = FormatBudgetOutput(source="budget")

    def get_text(self, tool: shown_tools.ShownTool) -> str:
        return tool.text.decode()


@extend_schema(tags=["pins"])
class PinShown(GenericAPIView[Pin]):
    """The text of this tool for a model if the agent were published now."""

    serializer_class = ShownToolOutput
    queryset = Pin.objects.none()

    @extend_schema(operation_id="agents_pins_shown_retrieve", parameters=[FORMAT], responses=ShownToolOutput)
    def get(self, request: Request, slug: str, pk: int) -> Response:
        pin = chosen_pin(request, slug, pk)
        format_ = shown_tools.find_text(request.query_params.get("format", ""))
        return Response(ShownToolOutput(shown_tools.shown_tool(pin, format_)).data)
