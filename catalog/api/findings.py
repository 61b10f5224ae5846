from typing import Any

import msgspec
from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api.versions import ComparisonOutput, comparison_document
from catalog.models import Finding, OtherAnswer, ToolVersion
from catalog.models.findings import FindingState, Severity
from catalog.models.second_looks import OtherClient
from catalog.review import decisions
from catalog.rules import causes, diff
from core.serializers import Input, ModelOutput, valid_data
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person

WEIGHT, NEWEST = "weight", "newest"


class FindingOutput(ModelOutput[Finding]):
    """`cause` puts `code` into one of a few drawers, as the review page has them."""

    tool_name = serializers.CharField(source="tool.name", read_only=True)
    cause = serializers.SerializerMethodField()
    version = serializers.CharField(
        source="version.label",
        read_only=True,
        allow_null=True,
        default=None,
        help_text="The vendor's name of the version; null if the finding is about no version.",
    )
    ordinal = serializers.IntegerField(
        source="version.ordinal", read_only=True, allow_null=True, default=None
    )
    version_name = serializers.CharField(source="version.name", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Finding
        fields = [
            "id",
            "code",
            "cause",
            "severity",
            "message",
            "state",
            "endpoint",
            "tool",
            "tool_name",
            "version",
            "ordinal",
            "version_name",
            "run",
            "note",
            "raised_at",
            "resolved_at",
        ]

    @extend_schema_field(serializers.ChoiceField(choices=list(causes.CAUSES)))
    def get_cause(self, finding: Finding) -> str:
        return causes.cause_of(finding.code)


class FindingFilter(serializers.Serializer[Any]):
    state = serializers.ChoiceField(choices=FindingState.choices, required=False)
    severity = serializers.ChoiceField(choices=Severity.choices, required=False)
    code = serializers.CharField(required=False, max_length=40)
    cause = serializers.ChoiceField(choices=list(causes.CAUSES), required=False)
    vendor = serializers.SlugField(required=False, max_length=60)
    tool = serializers.IntegerField(required=False, min_value=1, max_value=2**63 - 1)
    endpoint = serializers.IntegerField(required=False, min_value=1, max_value=2**63 - 1)
    sort = serializers.ChoiceField(
        choices=[WEIGHT, NEWEST],
        default=WEIGHT,
        help_text="The order: by severity and then the newest first, or the newest first.",
    )


class DecisionInput(Input):
    decision = serializers.ChoiceField(choices=["accept", "block"])
    note = serializers.CharField(required=False, allow_blank=True, max_length=2000)


class FindingList(ListAPIView[Finding]):
    serializer_class = FindingOutput

    def get_queryset(self) -> QuerySet[Finding]:
        filters = dict(valid_data(FindingFilter(data=self.request.query_params.dict())))
        self.ordering = ("-weight",) if filters.pop("sort") == WEIGHT else ("-id",)
        cause, vendor = filters.pop("cause", ""), filters.pop("vendor", "")
        rows = Finding.objects.filter(**filters).weighed().select_related("tool", "version")
        rows = rows.defer("version__signature", "version__raw")
        rows = rows.filter(endpoint__vendor__slug=vendor) if vendor else rows
        return rows.of_cause(cause) if cause else rows

    @extend_schema(parameters=[FindingFilter])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class FindingResolve(GenericAPIView[Finding]):
    write_role = Role.ADMIN
    serializer_class = FindingOutput

    @extend_schema(request=DecisionInput, responses={200: FindingOutput})
    def post(self, request: Request, pk: int) -> Response:
        values = valid_data(DecisionInput(data=request.data))
        finding = get_object_or_404(Finding, pk=pk)
        return Response(FindingOutput(decisions.resolve(finding, actor=person(request), **values)).data)


class FindingReopen(GenericAPIView[Finding]):
    """Take back the caller's decision, if it is the last one about the finding."""

    write_role = Role.ADMIN
    serializer_class = FindingOutput

    @extend_schema(request=None, responses={200: FindingOutput})
    def post(self, request: Request, pk: int) -> Response:
        finding = get_object_or_404(Finding, pk=pk)
        entry = decisions.last_decision(finding)
        return Response(FindingOutput(decisions.take_back(entry, actor=person(request))).data)


class DocumentOutput(serializers.Serializer[Any]):
    digest = serializers.CharField()
    document = serializers.DictField()


class EvidenceOutput(serializers.Serializer[Any]):
    """The evidence of a finding. `theirs`: the document for the other client. `ours`: the document for
    Pegboard."""

    client = serializers.ChoiceField(choices=OtherClient.choices)
    theirs = DocumentOutput()
    ours = DocumentOutput()
    comparison = ComparisonOutput


class FindingEvidence(GenericAPIView[Finding]):
    """The two documents of a finding CLOAKING, as the vendor sent them; other findings have none."""

    serializer_class = EvidenceOutput

    def get(self, request: Request, pk: int) -> Response:
        other = get_object_or_404(OtherAnswer.objects.select_related("finding__version"), finding=pk)
        own_version = other.finding.version
        if own_version is None:
            raise Http404
        compared = diff.compare(other.decoded(), own_version.decoded())
        return Response(
            {
                "client": other.client,
                "theirs": _version_document(other),
                "ours": _version_document(own_version),
                "comparison": comparison_document(compared),
            }
        )


def _version_document(row: OtherAnswer | ToolVersion) -> dict[str, Any]:
    return {"digest": row.digest, "document": msgspec.json.decode(row.raw)}
