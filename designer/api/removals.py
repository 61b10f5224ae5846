from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Endpoint, Vendor
from designer.agents import vendor_usage
from people.api.generics import GenericAPIView
from people.models import Role


class UsingAgent(serializers.Serializer[Any]):
    agent = serializers.SlugField()
    name = serializers.CharField()
    pins = serializers.IntegerField()


class UseOutput(serializers.Serializer[Any]):
    """The effects of a removal. Releases stay unchanged, byte for byte."""

    agents = UsingAgent(many=True)
    pins = serializers.IntegerField()
    releases = serializers.IntegerField()
    live_releases = serializers.IntegerField(help_text="The releases that runtimes receive now.")
    credentials = serializers.ListField(
        child=serializers.CharField(), help_text="The ids of the credentials that nothing else uses."
    )


def _respond(use: vendor_usage.VendorUse) -> Response:
    document = {
        "agents": [{"agent": row.slug, "name": row.name, "pins": count} for row, count in use.agents],
        "pins": use.pins,
        "releases": use.releases,
        "live_releases": use.live_releases,
        "credentials": [str(row.pk) for row in use.credentials],
    }
    return Response(UseOutput(document).data)


class VendorUsage(GenericAPIView[Any]):
    """The agents and releases that use a vendor's tools; read it before you remove the vendor."""

    read_role = Role.ADMIN
    serializer_class = UseOutput

    @extend_schema(operation_id="vendors_use_retrieve", responses={200: UseOutput})
    def get(self, request: Request, slug: str) -> Response:
        vendor = get_object_or_404(Vendor.objects.live(), slug=slug)
        return _respond(vendor_usage.use_of(vendor.endpoints.filter(removed_at=None)))


class EndpointUse(GenericAPIView[Any]):
    """The agents and releases that use an endpoint's tools; read it before you remove the endpoint."""

    read_role = Role.ADMIN
    serializer_class = UseOutput

    @extend_schema(operation_id="endpoints_use_retrieve", responses={200: UseOutput})
    def get(self, request: Request, pk: int) -> Response:
        return _respond(vendor_usage.use_of([get_object_or_404(Endpoint.objects.live(), pk=pk)]))
