"""Tools as the designer sees them: those an agent may use, and the catalog's facts with who uses each."""

from typing import Any, get_args

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api import tools as catalog_tools
from catalog.api.findings import FindingOutput
from catalog.api.versions import VersionOf, VersionRow, signature_document
from catalog.models import Tool
from catalog.review.holds import with_review_state
from catalog.tools.versions import MAX_COUNTED_BYTES, NEWEST_FIRST
from core.errors import invalid
from core.pagination import limit_bytes, octet_length
from core.serializers import ModelOutput
from designer.agents import agent_vendors, vendor_usage
from designer.models import Agent, Pin
from designer.pins import pinned_signatures, tool_use
from designer.pins.masking import masked_signature
from designer.signatures.effective import as_document
from people.api.generics import GenericAPIView
from people.permissions import key_of, person
from protocols.signature import Effect

VERSIONS = 50
FINDINGS = 50
USERS = 200
AGENT = OpenApiParameter(
    "agent", catalog_tools.SOME_TEXT, description="The slug of an agent: only tools that it may use."
)


class PinnableToolList(catalog_tools.ToolList):
    """Searches names, titles, descriptions, tags, vendors and parameters of all tools at once."""

    @extend_schema(
        operation_id="tools_list",
        parameters=[*catalog_tools.PARAMETERS, AGENT],
        responses=catalog_tools.ToolRows,
    )
    def get(self, request: Request) -> Response:
        return super().get(request)

    def within(self, request: Request) -> frozenset[int] | None:
        if "agent" not in request.query_params:
            return None
        visible_agents = Agent.objects.live().visible_to(person(request), key_of(request))
        agent = visible_agents.filter(slug=request.query_params["agent"]).first()
        if agent is None:
            raise invalid(agent="There is no such agent.")
        return agent_vendors.allowed_vendors_of(agent).keys

    def use_counts(self) -> dict[int, int]:
        return tool_use.agents_by_tool()


class UsedByOutput(VersionOf, ModelOutput[Pin]):
    agent = serializers.SlugField(source="agent.slug", read_only=True)
    agent_name = serializers.CharField(source="agent.name", read_only=True)
    pin = serializers.IntegerField(source="pk", read_only=True)

    class Meta:
        model = Pin
        fields = ["agent", "agent_name", "pin", "name", "version", "ordinal", "version_name"]


class ToolDetailOutput(ModelOutput[Tool]):
    """`versions`, `findings` and `used_by` are the newest 50 (fewer if they are large), 50 and 200; the lists
    have them all."""

    vendor = serializers.CharField(source="endpoint.vendor.slug", read_only=True)
    protocol = serializers.CharField(source="endpoint.protocol", read_only=True)
    version = serializers.CharField(source="current.label", read_only=True)
    ordinal = serializers.IntegerField(source="current.ordinal", read_only=True)
    version_name = serializers.CharField(source="current.name", read_only=True)
    description = serializers.CharField(read_only=True, help_text="The tuned description, or the vendor's.")
    language = serializers.SerializerMethodField(
        help_text="The language tag of the vendor's texts (BCP 47); empty if unknown."
    )
    tokens = serializers.IntegerField(read_only=True, help_text="The estimated tokens of `effective`.")
    is_tuned = serializers.BooleanField(read_only=True)
    effect = serializers.SerializerMethodField(help_text="The most severe effect of a call.")
    signature = serializers.SerializerMethodField(help_text="The vendor's signature of the current version.")
    effective = serializers.SerializerMethodField(help_text="The signature before the tunings of agents.")
    versions = serializers.SerializerMethodField()
    findings = serializers.SerializerMethodField()
    used_by = serializers.SerializerMethodField()
    unavailable_until = serializers.DateTimeField(
        source="circuit.open_until",
        default=None,
        allow_null=True,
        read_only=True,
        help_text=(
            "The time until which calls of this tool fail at once, because the vendor required a "
            "pause or did not answer five calls in a row; null for none."
        ),
    )
    used_by_others = serializers.SerializerMethodField(
        help_text="The number of other teams' agents that use it."
    )

    class Meta:
        model = Tool
        fields = [
            "id",
            "tool_id",
            "kind",
            "name",
            "title",
            "description",
            "language",
            "vendor",
            "endpoint",
            "protocol",
            "version",
            "ordinal",
            "version_name",
            "status",
            "tags",
            "tokens",
            "is_tuned",
            "effect",
            "unavailable_until",
            "first_seen_at",
            "changed_at",
            "signature",
            "effective",
            "versions",
            "findings",
            "used_by",
            "used_by_others",
        ]

    def get_language(self, tool: Tool) -> str:
        return tool.texts.language if hasattr(tool, "texts") else ""

    @extend_schema_field(serializers.ChoiceField(choices=get_args(Effect)))
    def get_effect(self, tool: Tool) -> Effect:
        signature = pinned_signatures.effective_of_tool(tool)
        return signature.annotations.effect if signature else "unknown"

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_signature(self, tool: Tool) -> Any:
        return signature_document(tool.current) if tool.current else None

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_effective(self, tool: Tool) -> Any:
        signature = pinned_signatures.effective_of_tool(tool)
        return as_document(masked_signature(tool.pk, signature)) if signature else None

    @extend_schema_field(VersionRow(many=True))
    def get_versions(self, tool: Tool) -> Any:
        rows = with_review_state(tool.versions.select_related("tool").defer("raw"))
        # Tokens are counted in whole signatures.
        rows = limit_bytes(rows, NEWEST_FIRST, octet_length("signature"), max_bytes=MAX_COUNTED_BYTES)
        return VersionRow(rows[:VERSIONS], many=True).data

    @extend_schema_field(FindingOutput(many=True))
    def get_findings(self, tool: Tool) -> Any:
        rows = tool.findings.select_related("tool", "version", "resolved_by")
        return FindingOutput(rows.defer("version__signature", "version__raw")[:FINDINGS], many=True).data

    @extend_schema_field(UsedByOutput(many=True))
    def get_used_by(self, tool: Tool) -> Any:
        users = Pin.objects.live().filter(tool=tool).visible_to(self.context["user"])
        users = users.select_related("agent", "version").defer("version__signature", "version__raw")
        users = users.order_by("agent__name", "pk")
        return UsedByOutput(users[:USERS], many=True).data

    def get_used_by_others(self, tool: Tool) -> int:
        return vendor_usage.used_by_others(tool, self.context["user"])


class ToolDetail(GenericAPIView[Tool]):
    serializer_class = ToolDetailOutput

    def get(self, request: Request, pk: int) -> Response:
        tools = Tool.objects.select_related("endpoint__vendor", "current", "circuit", "tuning", "texts")
        return Response(
            ToolDetailOutput(get_object_or_404(tools, pk=pk), context={"user": person(request)}).data
        )
