from typing import Any

import msgspec
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import diff
from catalog.errors import CatalogError
from catalog.holds import Standing, with_standing
from catalog.models import Tool, ToolVersion
from catalog.protocols.losses import Loss
from people.api.generics import GenericAPIView, ListAPIView

LARGEST_ORDINAL = 2**31 - 1
ORDINAL = {"type": "integer", "minimum": 1, "maximum": LARGEST_ORDINAL}


class VersionRow(serializers.ModelSerializer[ToolVersion]):
    first_seen = serializers.DateTimeField(source="first_seen_at", read_only=True)
    is_current = serializers.SerializerMethodField()
    standing = serializers.ChoiceField(choices=Standing.choices, read_only=True)

    class Meta:
        model = ToolVersion
        fields = ["ordinal", "label", "digest", "tokens", "is_current", "standing", "first_seen"]
        read_only_fields = fields

    def get_is_current(self, version: ToolVersion) -> bool:
        return version.tool.current_id == version.pk


class VersionOutput(VersionRow):
    """`raw` is the vendor's own document, `signature` what we read out of it."""

    signature = serializers.SerializerMethodField()
    raw = serializers.SerializerMethodField()

    class Meta(VersionRow.Meta):
        fields = [*VersionRow.Meta.fields, "signature", "raw"]
        read_only_fields = fields

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_signature(self, version: ToolVersion) -> Any:
        return signature_document(version)

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_raw(self, version: ToolVersion) -> Any:
        return msgspec.json.decode(version.raw)


class LossOutput(serializers.Serializer[Loss]):
    """`path` is a JSON Pointer into `raw`."""

    path = serializers.CharField()
    message = serializers.CharField()


class VersionDetailOutput(VersionOutput):
    """`losses` names what the signature cannot give back of `raw`."""

    losses = LossOutput(many=True, read_only=True)

    class Meta(VersionOutput.Meta):
        fields = [*VersionOutput.Meta.fields, "losses"]
        read_only_fields = fields


_CLASS = serializers.ChoiceField(choices=list(diff.CLASSES))
# Only for the schema. A JSONField is any value, null too; one that "allows null" would count null twice.
ChangeOutput = inline_serializer(
    "Change",
    {
        "path": serializers.CharField(),
        "kind": serializers.CharField(),
        "class": _CLASS,
        "effect": serializers.ChoiceField(choices=list(diff.EFFECTS)),
        "before": serializers.JSONField(),
        "after": serializers.JSONField(),
        "sentence": serializers.CharField(),
    },
    many=True,
)
ComparisonOutput = inline_serializer("Comparison", {"class": _CLASS, "changes": ChangeOutput})


class DiffQuery(serializers.Serializer[Any]):
    to = serializers.IntegerField(min_value=1, max_value=LARGEST_ORDINAL, help_text="An ordinal.")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # "from" is a word of Python's, so it cannot be declared above.
        ordinal = serializers.IntegerField(min_value=1, max_value=LARGEST_ORDINAL, help_text="An ordinal.")
        return {"from": ordinal, **super().get_fields()}


def signature_document(version: ToolVersion) -> dict[str, Any]:
    """For scripts: no list is left out for being empty."""
    return {"tags": [], "inputs": [], "outputs": [], **msgspec.json.decode(version.signature)}


class VersionList(ListAPIView[ToolVersion]):
    """Newest first, by the vendor's labels where there are any."""

    serializer_class = VersionOutput
    ordering = ("-label_key", "-id")

    def get_queryset(self) -> QuerySet[ToolVersion]:
        tool = get_object_or_404(Tool, pk=self.kwargs["pk"])
        return with_standing(ToolVersion.objects.filter(tool=tool).select_related("tool"))


class VersionDetail(GenericAPIView[ToolVersion]):
    serializer_class = VersionDetailOutput
    pagination_class = None

    def get(self, request: Request, pk: int, ordinal: int) -> Response:
        versions = with_standing(ToolVersion.objects.select_related("tool__endpoint"))
        return Response(VersionDetailOutput(get_object_or_404(versions, tool=pk, ordinal=ordinal)).data)


class VersionDiff(GenericAPIView[ToolVersion]):
    """What changed between two versions of a tool, in either direction."""

    pagination_class = None
    queryset = ToolVersion.objects.none()

    @extend_schema(
        operation_id="tools_diff_retrieve",
        parameters=[
            OpenApiParameter("from", ORDINAL, required=True, description="An ordinal."),
            OpenApiParameter("to", ORDINAL, required=True, description="An ordinal."),
        ],
        responses=ComparisonOutput,
    )
    def get(self, request: Request, pk: int) -> Response:
        tool = get_object_or_404(Tool, pk=pk)
        given = DiffQuery(data=request.query_params.dict())
        given.is_valid(raise_exception=True)
        old, new = (version_at(tool, given.validated_data[name]) for name in ("from", "to"))
        return Response(comparison_document(diff.compare(old.decoded(), new.decoded())))


def comparison_document(comparison: diff.Comparison) -> dict[str, Any]:
    changes = [{**msgspec.to_builtins(change), "sentence": change.sentence} for change in comparison.changes]
    return {"class": comparison.class_, "changes": changes}


def version_at(tool: Tool, ordinal: int) -> ToolVersion:
    version = tool.versions.filter(ordinal=ordinal).first()
    if version is None:
        raise CatalogError("unknown_version", f"“{tool}” has no version {ordinal}.", status=404)
    return version
