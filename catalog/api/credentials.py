from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import connections
from catalog.addresses import LONGEST_URL
from catalog.api.vendors import Address
from catalog.credentials import LONGEST_LIFE
from catalog.models import Credential
from catalog.models.vendors import CredentialKind
from people.inputs import Input
from people.models import Role
from people.permissions import person


class CredentialInput(Input):
    name = serializers.CharField(max_length=100)
    kind = serializers.ChoiceField(choices=CredentialKind.choices)
    url = Address(max_length=LONGEST_URL, help_text="An address of the origin it may be sent to.")
    secret = serializers.CharField(max_length=8_000, write_only=True, trim_whitespace=False)
    header = serializers.CharField(max_length=64, required=False, allow_blank=True)
    username = serializers.CharField(max_length=200, required=False, allow_blank=True)
    parameter = serializers.CharField(
        max_length=64, required=False, allow_blank=True, help_text="The query parameter that carries the key."
    )
    issuer = serializers.CharField(max_length=200, required=False, allow_blank=True)
    subject = serializers.CharField(max_length=200, required=False, allow_blank=True)
    audience = serializers.CharField(max_length=200, required=False, allow_blank=True)
    lifetime_seconds = serializers.IntegerField(
        min_value=30, max_value=LONGEST_LIFE, required=False, help_text="600 unless told."
    )


class SecretInput(Input):
    secret = serializers.CharField(max_length=8_000, write_only=True, trim_whitespace=False)


class CredentialOutput(serializers.ModelSerializer[Credential]):
    """State only; there is no call that gives a secret back."""

    class Meta:
        model = Credential
        fields = [
            "id", "name", "kind", "origin", "header", "username", "parameter", "issuer", "subject",
            "audience", "lifetime_seconds", "fingerprint", "set_at",
        ]  # fmt: skip
        read_only_fields = fields


class CredentialList(ListAPIView[Credential]):
    write_role = Role.ADMIN
    serializer_class = CredentialOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Credential]:
        return Credential.objects.filter(removed_at=None)

    @extend_schema(request=CredentialInput, responses={201: CredentialOutput})
    def post(self, request: Request) -> Response:
        given = CredentialInput(data=request.data)
        given.is_valid(raise_exception=True)
        credential = connections.create_credential(actor=person(request), **given.validated_data)
        return Response(CredentialOutput(credential).data, status=201)


class CredentialDetail(GenericAPIView[Credential]):
    write_role = Role.ADMIN
    serializer_class = CredentialOutput
    queryset = Credential.objects.filter(removed_at=None)
    pagination_class = None

    def get(self, request: Request, pk: Any) -> Response:
        return Response(CredentialOutput(get_object_or_404(self.get_queryset(), pk=pk)).data)

    @extend_schema(request=SecretInput)
    def put(self, request: Request, pk: Any) -> Response:
        given = SecretInput(data=request.data)
        given.is_valid(raise_exception=True)
        credential = get_object_or_404(self.get_queryset(), pk=pk)
        credential = connections.replace_secret(credential, actor=person(request), **given.validated_data)
        return Response(CredentialOutput(credential).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: Any) -> Response:
        credential = get_object_or_404(self.get_queryset(), pk=pk)
        connections.remove_credential(credential, actor=person(request))
        return Response(status=204)
