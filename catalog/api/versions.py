from typing import Any

import msgspec
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tool, ToolVersion
from catalog.review.holds import ReviewState, with_review_state
from catalog.rules import diff
from catalog.tools import versions
from core.errors import DomainError
from core.pagination import octet_length
from core.serializers import Input, ModelOutput, valid_data
from people.api.generics import GenericAPIView, ListAPIView
from protocols.losses import Loss

MAX_ORDINAL = 2**31 - 1
MAX_LABEL_LENGTH = 100
LABEL = {"type": "string", "minLength": 1, "maxLength": MAX_LABEL_LENGTH}
ORDINAL = {"type": "integer", "minimum": 1, "maximum": MAX_ORDINAL}


@extend_schema_field({"oneOf": [{"type": "string", "maxLength": 100}, {"type": "integer"}]})
class VersionLabel(serializers.Field[str, Any, str, Any]):
    """A vendor's name of a version, as text. A number is accepted too."""

    def to_internal_value(self, data: Any) -> str:
        if isinstance(data, bool) or not isinstance(data, str | int):
            raise serializers.ValidationError("Send a text in quotes, as the vendor numbers the version.")
        if len(label := str(data).strip()) > MAX_LABEL_LENGTH:
            raise serializers.ValidationError(f"A version has up to {MAX_LABEL_LENGTH} characters.")
        return label

    def to_representation(self, value: str) -> str:
        return value


LABEL_HELP = (
    "As the vendor numbers the version. A label that stands for several texts means the one in effect; "
    "`ordinal` beside it names another."
)
ORDINAL_HELP = "Ours, in the order of first sight. `version` wins where the two mean different versions."


class VersionChoice(Input):
    """The choice of a tool's version; the current one where neither is given."""

    version = VersionLabel(required=False, help_text=LABEL_HELP)
    ordinal = serializers.IntegerField(
        min_value=1, max_value=MAX_ORDINAL, required=False, help_text=ORDINAL_HELP
    )


class VersionOf(serializers.Serializer[Any]):
    """The version in rows of other resources. `version`: "" without a vendor's label."""

    version = serializers.CharField(
        source="version.label", read_only=True, help_text="The vendor's name of the version."
    )
    ordinal = serializers.IntegerField(source="version.ordinal", read_only=True)
    version_name = serializers.CharField(
        source="version.name",
        read_only=True,
        help_text="The name of the version that pages show: “2”, or “2, rewritten on 22 November 2026”.",
    )


def version_facts(version: ToolVersion) -> dict[str, Any]:
    """Return the members of `VersionOf`."""
    return {"version": version.label, "ordinal": version.ordinal, "version_name": version.name}


class VersionRow(ModelOutput[ToolVersion]):
    version = serializers.CharField(
        source="label", read_only=True, help_text="The vendor's name of the version."
    )
    version_name = serializers.CharField(
        source="name",
        read_only=True,
        help_text="The name of the version that pages show: “2”, or “2, rewritten on 22 November 2026”.",
    )
    tokens = serializers.IntegerField(
        read_only=True, help_text="The estimated tokens of the vendor's texts, without tunings."
    )
    first_seen = serializers.DateTimeField(source="first_seen_at", read_only=True)
    is_current = serializers.SerializerMethodField()
    review_state = serializers.ChoiceField(choices=ReviewState.choices, read_only=True)

    class Meta:
        model = ToolVersion
        fields = [
            *(
                "version",
                "version_name",
                "ordinal",
                "label",
                "digest",
                "tokens",
                "is_current",
                "review_state",
            ),
            "first_seen",
        ]

    def get_is_current(self, version: ToolVersion) -> bool:
        return version.tool.current_id == version.pk


class VersionOutput(VersionRow):
    """A version. `raw`: the vendor's document. `signature`: its parsed form.

    `listed_raw`: the document as the vendor lists it now, if it differs from the version only in parts that
    affect no
    model and no call; else null.
    """

    signature = serializers.SerializerMethodField()
    raw = serializers.SerializerMethodField()
    listed_raw = serializers.SerializerMethodField()

    class Meta(VersionRow.Meta):
        fields = [*VersionRow.Meta.fields, "signature", "raw", "listed_raw"]

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_signature(self, version: ToolVersion) -> Any:
        return signature_document(version)

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_raw(self, version: ToolVersion) -> Any:
        return msgspec.json.decode(version.raw)

    def get_listed_raw(self, version: ToolVersion) -> dict[str, Any] | None:
        listed_document = version.listed_document
        return msgspec.json.decode(listed_document.raw) if listed_document else None


class LossOutput(serializers.Serializer[Loss]):
    """`path` is a JSON Pointer into `raw`."""

    path = serializers.CharField()
    message = serializers.CharField()


class VersionDetailOutput(VersionOutput):
    """`losses` names the members of `raw` that the signature cannot express."""

    losses = LossOutput(many=True, read_only=True)

    class Meta(VersionOutput.Meta):
        fields = [*VersionOutput.Meta.fields, "losses"]


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
    to = VersionLabel(required=False)
    from_ordinal = serializers.IntegerField(min_value=1, max_value=MAX_ORDINAL, required=False)
    to_ordinal = serializers.IntegerField(min_value=1, max_value=MAX_ORDINAL, required=False)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # "from" is a word of Python's, so it cannot be declared above.
        return {"from": VersionLabel(required=False), **super().get_fields()}


def signature_document(version: ToolVersion) -> dict[str, Any]:
    """Return the signature for programs, including empty lists."""
    return {"tags": [], "inputs": [], "outputs": [], **msgspec.json.decode(version.signature)}


class VersionList(ListAPIView[ToolVersion]):
    """The versions, the newest first by the vendor's labels if it has labels."""

    serializer_class = VersionOutput
    ordering = ("-label_key", "-id")
    row_bytes = octet_length("signature") + octet_length("raw")

    def get_queryset(self) -> QuerySet[ToolVersion]:
        tool = get_object_or_404(Tool, pk=self.kwargs["pk"])
        return with_review_state(ToolVersion.objects.filter(tool=tool).select_related("tool__listed"))


class VersionDetail(GenericAPIView[ToolVersion]):
    """One version, by its ordinal."""

    serializer_class = VersionDetailOutput

    def get(self, request: Request, pk: int, ordinal: int) -> Response:
        return _respond(find_version(get_object_or_404(Tool, pk=pk), ordinal=ordinal))


class LabelledVersion(GenericAPIView[ToolVersion]):
    """One version, by the vendor's label after a `v`. If several have the label, the current one."""

    serializer_class = VersionDetailOutput

    @extend_schema(operation_id="tools_versions_labelled_retrieve")
    def get(self, request: Request, pk: int, label: str) -> Response:
        return _respond(find_version(get_object_or_404(Tool, pk=pk), version=label))


def _respond(version: ToolVersion) -> Response:
    rows = with_review_state(ToolVersion.objects.select_related("tool__endpoint"))
    return Response(VersionDetailOutput(rows.get(pk=version.pk)).data)


class VersionDiff(GenericAPIView[ToolVersion]):
    """The changes between two versions of a tool, in either direction.

    By default `to` is the current version, and `from` is the one that a review compares with.
    """

    queryset = ToolVersion.objects.none()

    @extend_schema(
        operation_id="tools_diff_retrieve",
        parameters=[
            OpenApiParameter("from", LABEL, description=LABEL_HELP.replace("`ordinal`", "`from_ordinal`")),
            OpenApiParameter("to", LABEL, description=LABEL_HELP.replace("`ordinal`", "`to_ordinal`")),
            OpenApiParameter(
                "from_ordinal", ORDINAL, description=ORDINAL_HELP.replace("`version`", "`from`")
            ),
            OpenApiParameter("to_ordinal", ORDINAL, description=ORDINAL_HELP.replace("`version`", "`to`")),
        ],
        responses=ComparisonOutput,
    )
    def get(self, request: Request, pk: int) -> Response:
        tool = get_object_or_404(Tool, pk=pk)
        parameters = valid_data(DiffQuery(data=request.query_params.dict()))
        new = find_version(tool, version=parameters.get("to", ""), ordinal=parameters.get("to_ordinal"))
        old: ToolVersion | None
        if parameters.get("from") or parameters.get("from_ordinal"):
            old = find_version(
                tool, version=parameters.get("from", ""), ordinal=parameters.get("from_ordinal")
            )
        elif (old := versions.predecessor(new)) is None:
            message = f"Version {new.name} is the first of “{tool}”. Say with `from` what to compare it with."
            raise DomainError("unknown_version", message, status=404)
        return Response(comparison_document(diff.compare(old.decoded(), new.decoded())))


def comparison_document(comparison: diff.SignatureDifference) -> dict[str, Any]:
    changes = [{**msgspec.to_builtins(change), "sentence": change.sentence} for change in comparison.changes]
    return {"class": comparison.class_, "changes": changes}


def find_version(tool: Tool, *, version: str = "", ordinal: int | None = None) -> ToolVersion:
    """Return the version as `versions.find_version` does. Raises DomainError if there is none."""
    row = versions.find_version(tool, version=version, ordinal=ordinal)
    if row is None:
        message = versions.unknown_version_message(tool, version=version, ordinal=ordinal)
        raise DomainError("unknown_version", message, fields={"version": message}, status=404)
    return row
