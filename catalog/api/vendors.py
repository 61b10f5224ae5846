from typing import Any

from django.db.models import QuerySet, URLField
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api.progress import ProgressOutput
from catalog.models import Vendor
from catalog.rules.promises import PROMISES
from catalog.search.progress import progress_of
from catalog.vendors import operations as vendor_operations
from catalog.vendors import report_card
from core.outbound.addresses import MAX_URL_LENGTH
from core.serializers import ModelChange, ModelInput, ModelOutput, valid_data
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import person


# These two describe the address in the schema. `connections` validates it, with better messages.
@extend_schema_field(
    {
        "type": "string",
        "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[A-Za-z0-9_\[][!$%&'()*+,./0-9:;=?@A-Z_a-z~\[\]-]*$",
        "maxLength": MAX_URL_LENGTH,
    }
)
class Address(serializers.CharField):
    """The address of a service: without a user name and without a key in its query."""


@extend_schema_field({"type": "string", "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://\S+$", "maxLength": 500})
class Homepage(serializers.CharField):
    """An address for users; may be empty."""


class VendorInput(ModelInput):
    serializer_field_mapping = ModelInput.serializer_field_mapping | {URLField: Homepage}

    class Meta:
        model = Vendor
        fields = ("name", "slug", "homepage")
        extra_kwargs = {"slug": {"required": False}}


class VendorChange(ModelChange, VendorInput):
    class Meta:
        model = Vendor
        fields = ("name", "homepage")


class VendorOutput(ModelOutput[Vendor]):
    homepage = serializers.CharField(
        read_only=True, help_text="The address of the vendor's website; may be empty."
    )
    endpoints = serializers.IntegerField(source="endpoint_count", read_only=True)
    tools = serializers.IntegerField(source="tool_count", read_only=True)

    class Meta:
        model = Vendor
        fields = ["slug", "name", "homepage", "endpoints", "tools", "created_at"]


class KeptOutput(serializers.Serializer[report_card.PromiseRecord]):
    promise = serializers.ChoiceField(choices=list(PROMISES))
    says = serializers.CharField()
    breaches = serializers.IntegerField()
    last_at = serializers.DateTimeField(allow_null=True)


class OddityOutput(serializers.Serializer[report_card.Oddity]):
    code = serializers.CharField()
    message = serializers.CharField()
    count = serializers.IntegerField()


class PageTimeOutput(serializers.Serializer[report_card.PageTime]):
    median = serializers.IntegerField()
    p95 = serializers.IntegerField()


class ReportCardOutput(serializers.Serializer[report_card.ReportCard]):
    """Counts of enumeration runs since `since`; `rejected` and `oddities` are of each endpoint's last one."""

    promises = KeptOutput(many=True)
    since = serializers.DateTimeField(allow_null=True)
    runs = serializers.IntegerField()
    succeeded = serializers.IntegerField()
    availability = serializers.FloatField(
        allow_null=True, help_text="The share of successful runs, in percent."
    )
    page_ms = PageTimeOutput(allow_null=True)
    added = serializers.IntegerField()
    changed = serializers.IntegerField()
    withdrawn = serializers.IntegerField()
    rejected = serializers.IntegerField()
    oddities = OddityOutput(many=True)


class VendorDetailOutput(VendorOutput):
    report_card = serializers.SerializerMethodField()
    progress = serializers.SerializerMethodField()

    class Meta(VendorOutput.Meta):
        fields = [*VendorOutput.Meta.fields, "report_card", "progress"]

    @extend_schema_field(ReportCardOutput)
    def get_report_card(self, vendor: Vendor) -> Any:
        return ReportCardOutput(report_card.report_card_for(vendor)).data

    @extend_schema_field(ProgressOutput)
    def get_progress(self, vendor: Vendor) -> Any:
        endpoints = vendor.endpoints.filter(removed_at=None).values_list("pk", flat=True)
        return ProgressOutput(progress_of(endpoints)).data


class VendorList(ListAPIView[Vendor]):
    write_role = Role.ADMIN
    serializer_class = VendorOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Vendor]:
        return vendor_operations.vendors_with_counts()

    @extend_schema(request=VendorInput, responses={201: VendorOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(VendorInput(data=request.data))
        vendor = vendor_operations.create_vendor(actor=person(request), **values)
        return Response(VendorOutput(self.get_queryset().get(pk=vendor.pk)).data, status=201)


class VendorDetail(GenericAPIView[Vendor]):
    write_role = Role.ADMIN
    serializer_class = VendorDetailOutput

    def get_queryset(self) -> QuerySet[Vendor]:
        return vendor_operations.vendors_with_counts()

    def vendor(self, slug: str) -> Vendor:
        return get_object_or_404(self.get_queryset(), slug=slug)

    def get(self, request: Request, slug: str) -> Response:
        return self._respond(slug)

    @extend_schema(parameters=[IF_MATCH], request=VendorChange)
    def patch(self, request: Request, slug: str) -> Response:
        changes = valid_data(VendorChange(data=request.data))
        vendor_operations.update_vendor(
            self.vendor(slug), actor=person(request), expected=expected_state(request), **changes
        )
        return self._respond(slug)

    def _respond(self, slug: str) -> Response:
        vendor = self.vendor(slug)
        headers = etag_of(vendor_operations.vendor_facts(vendor))
        return Response(VendorDetailOutput(vendor).data, headers=headers)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        vendor_operations.remove_vendor(self.vendor(slug), actor=person(request))
        return Response(status=204)


def chosen_vendor(slug: Any) -> Vendor:
    """Return the vendor that an input names. Raises a validation error with advice."""
    vendor = Vendor.objects.live().filter(slug=slug).first()
    if vendor is None:
        raise serializers.ValidationError("There is no such vendor. Create it first.")
    return vendor
