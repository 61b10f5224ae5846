from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

import protocols
from catalog import bounds, twins
from catalog.api.progress import ProgressOutput
from catalog.api.retries import RetryChange, RetryStated, nest_retry_members
from catalog.api.vendors import Address, chosen_vendor
from catalog.enumeration import pace
from catalog.models import Credential, Endpoint, Vendor, VendorRequest
from catalog.models.vendors import EndpointStatus
from catalog.rules import policy as policies
from catalog.rules import retries
from catalog.search.progress import progress_of
from catalog.vendors import operations as vendor_operations
from catalog.vendors import previews, setting_values
from core.outbound.addresses import MAX_URL_LENGTH
from core.serializers import Input, ModelChange, ModelInput, ModelOutput, input_field, valid_data
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import person

# A document of an endpoint's settings, as a text in JSON, where escapes make it longer.
MAX_BODY_BYTES = setting_values.MAX_DOCUMENT_BYTES + 2 * 1024**2


class ErrorOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()


class PolicyOutput(serializers.Serializer[Any]):
    """The action for a new version, by the class of its change. The strictest action applies."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            name: serializers.ChoiceField(choices=list(policies.ACTIONS), help_text=words)
            for name, (words, _) in policies.CLASSES.items()
        }


class PolicyInput(Input):
    """Classes that are left out stay as they are."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            name: serializers.ChoiceField(choices=list(policies.ACTIONS), required=False)
            for name in policies.CLASSES
        }


def chosen_credential(pk: Any) -> Credential | None:
    if pk is None:
        return None
    credential = Credential.objects.filter(pk=pk, removed_at=None).first()
    if credential is None:
        raise serializers.ValidationError("There is no such credential.")
    return credential


class EndpointChange(RetryChange, ModelChange):
    protocol = serializers.ChoiceField(
        choices=protocols.connectable(),
        required=False,
        help_text="The new protocol. It can be changed until the first tool is read.",
    )
    url = Address(max_length=MAX_URL_LENGTH, required=False)
    credential = serializers.UUIDField(required=False, allow_null=True)
    settings = serializers.DictField(required=False)
    policy = PolicyInput(required=False)
    again = input_field(vendor_operations.AGAIN)

    class Meta:
        model = Endpoint
        fields: tuple[str, ...] = (
            *retries.RetryPolicy.__struct_fields__,
            *("protocol", "url", "name", "credential", "interval_minutes", "settings", "policy"),
            *(*vendor_operations.REACH, "is_paused", "again"),
        )

    def validate_credential(self, pk: Any) -> Credential | None:
        return chosen_credential(pk)


class EndpointInput(EndpointChange):
    vendor = serializers.SlugField(max_length=60)
    protocol = serializers.ChoiceField(choices=protocols.connectable())
    url = Address(max_length=MAX_URL_LENGTH)
    vendor_request = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=2**63 - 1,
        help_text=(
            "The id of a vendor request with another address that this endpoint answers. Requests"
            " for the same address are always answered."
        ),
    )

    class Meta(EndpointChange.Meta):
        fields = (
            *(name for name in EndpointChange.Meta.fields if name != "is_paused"),
            *("vendor", "vendor_request"),
        )

    def validate_vendor_request(self, pk: int) -> VendorRequest:
        row = VendorRequest.objects.filter(pk=pk).first()
        if row is None:
            raise serializers.ValidationError("There is no such request.")
        return row

    def validate_vendor(self, slug: str) -> Vendor:
        return chosen_vendor(slug)


class EndpointOutput(RetryStated, ModelOutput[Endpoint]):
    vendor = serializers.CharField(source="vendor.slug", read_only=True)
    credential = serializers.UUIDField(source="credential_id", read_only=True, allow_null=True)
    settings = serializers.DictField(read_only=True)
    status = serializers.ChoiceField(choices=EndpointStatus.choices, read_only=True)
    policy = serializers.SerializerMethodField()
    error = serializers.SerializerMethodField()
    tools = serializers.IntegerField(source="tool_count", read_only=True)
    prompts_and_resources = serializers.IntegerField(source="context_count", read_only=True)
    unavailable_until = serializers.DateTimeField(
        source="circuit.open_until",
        default=None,
        allow_null=True,
        read_only=True,
        help_text=(
            "The time until which calls fail at once, because the vendor did not answer or "
            "required a pause; null for none."
        ),
    )

    class Meta:
        model = Endpoint
        fields = [
            "id",
            "vendor",
            "protocol",
            "url",
            "name",
            "credential",
            "interval_minutes",
            "settings",
            "policy",
            *retries.RetryPolicy.__struct_fields__,
            "requests_per_second",
            "requests_at_once",
            "authorities",
            *bounds.FIELDS,
            "status",
            "is_paused",
            "error",
            "failures",
            "unavailable_until",
            "held_run",
            "tools",
            "prompts_and_resources",
            "next_due_at",
            "last_success_at",
            "created_at",
        ]

    @extend_schema_field(PolicyOutput)
    def get_policy(self, endpoint: Endpoint) -> dict[policies.Class, policies.Action]:
        return policies.with_defaults(endpoint.policy)

    @extend_schema_field(ErrorOutput(allow_null=True))
    def get_error(self, endpoint: Endpoint) -> dict[str, str] | None:
        code = endpoint.error_code
        return {"code": code, "message": endpoint.error_message} if code else None


class SpokenOutput(serializers.Serializer[Any]):
    name = serializers.CharField()
    value = serializers.CharField()


class EndpointDetailOutput(EndpointOutput):
    progress = serializers.SerializerMethodField()
    spoken = serializers.SerializerMethodField(
        help_text="The facts about the protocol of the endpoint, such as the revision."
    )

    class Meta(EndpointOutput.Meta):
        fields = [*EndpointOutput.Meta.fields, "progress", "spoken"]

    @extend_schema_field(SpokenOutput(many=True))
    def get_spoken(self, endpoint: Endpoint) -> list[dict[str, str]]:
        spoken_protocol = protocols.get(endpoint.protocol).detected_properties(endpoint.memory)
        return [{"name": name, "value": value} for name, value in spoken_protocol]

    @extend_schema_field(ProgressOutput)
    def get_progress(self, endpoint: Endpoint) -> Any:
        return ProgressOutput(progress_of([endpoint.pk])).data


class RunStarted(serializers.Serializer[Any]):
    run = serializers.IntegerField()


def endpoints() -> QuerySet[Endpoint]:
    return Endpoint.objects.live().with_status().select_related("vendor", "circuit").with_item_counts()


class EndpointList(ListAPIView[Endpoint]):
    write_role = Role.ADMIN
    largest_body = MAX_BODY_BYTES
    serializer_class = EndpointOutput
    ordering = ("id",)

    def get_queryset(self) -> QuerySet[Endpoint]:
        return endpoints()

    @extend_schema(request=EndpointInput, responses={201: EndpointDetailOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(EndpointInput(data=request.data))
        endpoint = vendor_operations.create_endpoint(actor=person(request), **nest_retry_members(values))
        return Response(EndpointDetailOutput(endpoints().get(pk=endpoint.pk)).data, status=201)


class PreviewInput(ModelInput):
    protocol = serializers.ChoiceField(choices=protocols.connectable())
    url = Address(max_length=MAX_URL_LENGTH)
    credential = serializers.UUIDField(required=False, allow_null=True)
    settings = serializers.DictField(required=False)

    class Meta:
        model = Endpoint
        fields = (
            *("protocol", "url", "credential", "settings"),
            *("authorities", "max_megabytes", "max_reply_megabytes"),
        )

    def validate_credential(self, pk: Any) -> Credential | None:
        return chosen_credential(pk)


class GroupOutput(serializers.Serializer[Any]):
    name = serializers.CharField()
    tools = serializers.IntegerField()
    tokens = serializers.IntegerField()


class ListedOutput(serializers.Serializer[Any]):
    tool_id = serializers.CharField()
    name = serializers.CharField()
    title = serializers.CharField()
    kind = serializers.CharField()
    tokens = serializers.IntegerField()


class NoteOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()
    count = serializers.IntegerField()


class RefusalOutput(serializers.Serializer[Any]):
    tool = serializers.CharField()
    reason = serializers.CharField()


class ConnectedOutput(serializers.Serializer[Any]):
    """An existing endpoint with this address and protocol."""

    endpoint = serializers.IntegerField(source="endpoint.pk")
    vendor = serializers.CharField(source="endpoint.vendor.slug")
    name = serializers.CharField(source="endpoint.name")
    credential = serializers.UUIDField(source="endpoint.credential_id", allow_null=True)
    is_same = serializers.BooleanField(
        help_text=("True if it has the same credential and settings, so that `again` connects no second one.")
    )
    message = serializers.CharField()


class WantedCredentialOutput(serializers.Serializer[Any]):
    """The credential that the vendor requires according to another document than its list, such as its
    agents' manifest."""

    words = serializers.CharField()
    kind = serializers.CharField(help_text="The kind of the credential; empty if Pegboard has no such kind.")
    name = serializers.CharField(
        help_text="The name of the header or query parameter; empty for other kinds."
    )


class PreviewOutput(serializers.Serializer[Any]):
    tools = serializers.IntegerField()
    tokens = serializers.IntegerField()
    is_complete = serializers.BooleanField()
    tags = GroupOutput(many=True)
    kinds = GroupOutput(many=True)
    first = ListedOutput(many=True)
    needs = serializers.ListField(child=serializers.CharField())
    rejected = serializers.IntegerField()
    rejections = RefusalOutput(many=True)
    notes = NoteOutput(many=True)
    wanted = WantedCredentialOutput(
        allow_null=True,
        help_text="The credential that calls need, if the vendor states one and none was entered.",
    )
    already_connected = ConnectedOutput(
        many=True,
        help_text=(
            "The endpoints with this address. If there are any, connecting is refused with 409 "
            "`already_connected` unless `again` is sent."
        ),
    )
    error = ErrorOutput(allow_null=True)


class EndpointPreview(GenericAPIView[Endpoint]):
    """Preview the tools of an endpoint, without saving it."""

    write_role = Role.ADMIN
    takes_idempotency_keys = False
    serializer_class = PreviewOutput
    largest_body = MAX_BODY_BYTES

    @extend_schema(request=PreviewInput, responses={200: PreviewOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(PreviewInput(data=request.data))
        draft = vendor_operations.draft_endpoint(**values)
        preview = asdict(previews.preview(draft)) | {"already_connected": twins.already_connected(draft)}
        return Response(PreviewOutput(preview).data)


class EndpointDetail(GenericAPIView[Endpoint]):
    write_role = Role.ADMIN
    largest_body = MAX_BODY_BYTES
    serializer_class = EndpointDetailOutput

    def get(self, request: Request, pk: int) -> Response:
        return _respond(pk)

    @extend_schema(parameters=[IF_MATCH], request=EndpointChange)
    def patch(self, request: Request, pk: int) -> Response:
        values = valid_data(EndpointChange(data=request.data))
        endpoint = get_object_or_404(endpoints(), pk=pk)
        vendor_operations.update_endpoint(
            endpoint,
            actor=person(request),
            expected=expected_state(request),
            **nest_retry_members(values),
        )
        return _respond(pk)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        vendor_operations.remove_endpoint(get_object_or_404(endpoints(), pk=pk), actor=person(request))
        return Response(status=204)


def _respond(pk: int) -> Response:
    endpoint = get_object_or_404(endpoints(), pk=pk)
    return Response(
        EndpointDetailOutput(endpoint).data, headers=etag_of(vendor_operations.endpoint_facts(endpoint))
    )


class EndpointEnumerate(GenericAPIView[Endpoint]):
    """Start a run of this endpoint now. Returns the active run if there is one.

    A designer must wait for the endpoint's pace: 429 `too_soon`, with the seconds in `Retry-After`.
    """

    write_role = Role.DESIGNER
    serializer_class = RunStarted

    @extend_schema(request=None, responses={202: RunStarted})
    def post(self, request: Request, pk: int) -> Response:
        endpoint = get_object_or_404(endpoints(), pk=pk)
        run = pace.request_run(endpoint, actor=person(request))
        return Response({"run": run.pk}, status=202)
