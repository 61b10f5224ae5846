from dataclasses import asdict

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import protocols
from catalog import twins
from catalog.api.endpoints import PreviewOutput
from catalog.api.vendors import Address
from catalog.models import VendorRequest
from catalog.models.vendor_requests import RequestState
from catalog.vendors import operations as vendor_operations
from catalog.vendors import vendor_requests
from core.errors import invalid
from core.outbound.addresses import MAX_URL_LENGTH
from core.serializers import Input, ModelInput, ModelOutput, valid_data
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person


class AddressInput(Input):
    protocol = serializers.ChoiceField(choices=protocols.connectable())
    url = Address(max_length=MAX_URL_LENGTH)


class VendorRequestInput(AddressInput, ModelInput):
    class Meta:
        model = VendorRequest
        fields = ("protocol", "url", "vendor_name", "reason")


class DeclineInput(ModelInput):
    class Meta:
        model = VendorRequest
        fields = ("answer",)
        extra_kwargs = {"answer": {"required": True, "allow_blank": False}}


class VendorRequestOutput(ModelOutput[VendorRequest]):
    asked_by = serializers.CharField(source="asked_by.username", default=None, allow_null=True)
    answered_by = serializers.CharField(source="answered_by.username", default=None, allow_null=True)
    endpoint = serializers.IntegerField(
        source="endpoint_id", allow_null=True, help_text="The endpoint that answered the request."
    )

    class Meta:
        model = VendorRequest
        fields = [
            "id",
            "protocol",
            "url",
            "vendor_name",
            "reason",
            "asked_by",
            "asked_at",
            "state",
            "answer",
            "answered_by",
            "answered_at",
            "endpoint",
        ]


def vendor_request_rows() -> QuerySet[VendorRequest]:
    return VendorRequest.objects.select_related("asked_by", "answered_by")


@extend_schema(tags=["vendors"])
class VendorRequestList(ListAPIView[VendorRequest]):
    """Requests of designers for vendors, newest first. An administrator answers one by `POST endpoints/` with
    its address,
    or declines it."""

    write_role = Role.DESIGNER
    serializer_class = VendorRequestOutput
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[VendorRequest]:
        state = self.request.query_params.get("state")
        if state is None:
            return vendor_request_rows()
        if state not in RequestState.values:
            raise invalid(state=f"A request is one of: {', '.join(RequestState.values)}.")
        return vendor_request_rows().filter(state=state)

    @extend_schema(parameters=[OpenApiParameter("state", str, enum=RequestState.values)])
    def get(self, request: Request) -> Response:
        return super().get(request)

    @extend_schema(request=VendorRequestInput, responses={201: VendorRequestOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(VendorRequestInput(data=request.data))
        draft = vendor_operations.draft_endpoint(protocol=values["protocol"], url=values["url"])
        row = vendor_requests.ask(
            draft, actor=person(request), vendor_name=values["vendor_name"], reason=values["reason"]
        )
        return Response(VendorRequestOutput(row).data, status=201)


@extend_schema(tags=["vendors"])
class VendorRequestPreview(GenericAPIView[VendorRequest]):
    """Preview an address without a credential, without saving it; at most ten per minute."""

    write_role = Role.DESIGNER
    takes_idempotency_keys = False
    serializer_class = PreviewOutput
    queryset = VendorRequest.objects.none()

    @extend_schema(
        operation_id="vendor_requests_preview", request=AddressInput, responses={200: PreviewOutput}
    )
    def post(self, request: Request) -> Response:
        values = valid_data(AddressInput(data=request.data))
        draft = vendor_operations.draft_endpoint(**values)
        preview = asdict(vendor_requests.preview(draft, reader=person(request)))
        return Response(PreviewOutput(preview | {"already_connected": twins.already_connected(draft)}).data)


@extend_schema(tags=["vendors"])
class VendorRequestDetail(GenericAPIView[VendorRequest]):
    write_role = Role.DESIGNER
    serializer_class = VendorRequestOutput

    def get(self, request: Request, pk: int) -> Response:
        return Response(VendorRequestOutput(get_object_or_404(vendor_request_rows(), pk=pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Withdraw your own request while it waits: 403 `not_yours`, 409 `request_answered`."""
        vendor_requests.take_back(get_object_or_404(vendor_request_rows(), pk=pk), actor=person(request))
        return Response(status=204)


@extend_schema(tags=["vendors"])
class VendorRequestDecline(GenericAPIView[VendorRequest]):
    write_role = Role.ADMIN
    serializer_class = VendorRequestOutput

    @extend_schema(
        operation_id="vendor_requests_decline", request=DeclineInput, responses=VendorRequestOutput
    )
    def post(self, request: Request, pk: int) -> Response:
        row = get_object_or_404(vendor_request_rows(), pk=pk)
        values = valid_data(DeclineInput(data=request.data))
        vendor_requests.decline(row, actor=person(request), answer=values["answer"])
        return Response(VendorRequestOutput(vendor_request_rows().get(pk=pk)).data)
