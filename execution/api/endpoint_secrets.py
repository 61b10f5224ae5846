from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Endpoint, EndpointSecret, ProviderClient
from core.errors import invalid
from core.serializers import Input, ModelInput, ModelOutput, valid_data
from execution.user_grants import providers, vault
from people.api.generics import GenericAPIView
from people.models import Role
from people.permissions import person


class EndpointSecretInput(ModelInput):
    value = serializers.CharField(
        max_length=vault.MAX_LENGTH,
        trim_whitespace=False,
        write_only=True,
        help_text="The secret. It is never shown again, and replaces an earlier one of this name.",
    )

    class Meta:
        model = EndpointSecret
        fields = ("name", "value")


class EndpointSecretOutput(ModelOutput[EndpointSecret]):
    set_by = serializers.CharField(source="set_by.username", default=None, allow_null=True)

    class Meta:
        model = EndpointSecret
        fields = ["id", "name", "fingerprint", "origin", "set_at", "set_by"]


class VaultOutput(serializers.Serializer[Any]):
    secrets = EndpointSecretOutput(many=True)
    missing = serializers.ListField(
        child=serializers.CharField(),
        help_text="The names of secrets that tools require and that are not entered.",
    )


@extend_schema(tags=["endpoint-secrets"])
class EndpointSecretList(GenericAPIView[EndpointSecret]):
    """Secrets that tools of an endpoint need by name. They are sent only to its address and never shown."""

    read_role = Role.ADMIN
    write_role = Role.ADMIN
    serializer_class = EndpointSecretOutput

    @extend_schema(responses={200: VaultOutput})
    def get(self, request: Request, pk: int) -> Response:
        endpoint = live_endpoint(pk)
        rows = vault.secrets_of(endpoint)
        missing = [need.name for need in vault.find_needs(endpoint) if not need.is_there]
        return Response(VaultOutput({"secrets": rows, "missing": missing}).data)

    @extend_schema(request=EndpointSecretInput, responses={200: EndpointSecretOutput})
    def post(self, request: Request, pk: int) -> Response:
        """Enter a secret, or replace the secret of this name."""
        values = valid_data(EndpointSecretInput(data=request.data))
        row = vault.set_secret(live_endpoint(pk), actor=person(request), **values)
        return Response(EndpointSecretOutput(row).data)


@extend_schema(tags=["endpoint-secrets"])
class EndpointSecretDetail(GenericAPIView[EndpointSecret]):
    write_role = Role.ADMIN
    serializer_class = EndpointSecretOutput
    queryset = EndpointSecret.objects.none()

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int, secret: str) -> Response:
        """Delete the secret. Tools that need it are not called from then on."""
        row = get_object_or_404(live_endpoint(pk).secrets.all(), pk=secret)
        vault.forget(row, actor=person(request))
        return Response(status=204)


def live_endpoint(pk: int) -> Endpoint:
    return get_object_or_404(Endpoint.objects.live().select_related("vendor"), pk=pk)


class ProviderInput(Input):
    provider = serializers.CharField(max_length=500, help_text="The vendor's name of the provider.")
    credential = serializers.UUIDField(
        allow_null=True,
        help_text=(
            "A credential of the kind `oauth_users` for the endpoint's address. With null, the "
            "vendor asks its users itself."
        ),
    )


class ProviderOutput(serializers.Serializer[Any]):
    provider = serializers.CharField()
    credential = serializers.UUIDField(allow_null=True)


class ProvidersOutput(serializers.Serializer[Any]):
    providers = ProviderOutput(many=True)


@extend_schema(tags=["endpoint-secrets"])
class EndpointProviders(GenericAPIView[ProviderClient]):
    """The OAuth clients with which users of an endpoint's tools authorize at the providers of these tools."""

    read_role = Role.ADMIN
    write_role = Role.ADMIN
    serializer_class = ProvidersOutput
    queryset = ProviderClient.objects.none()

    def get(self, request: Request, pk: int) -> Response:
        endpoint = live_endpoint(pk)
        client_ids = {row.provider: row.credential_id for row in endpoint.provider_clients.all()}
        names = sorted({*client_ids, *vault.providers_named(endpoint)})
        rows = [{"provider": name, "credential": client_ids.get(name)} for name in names]
        return Response(ProvidersOutput({"providers": rows}).data)

    @extend_schema(request=ProviderInput, responses={200: ProvidersOutput})
    def post(self, request: Request, pk: int) -> Response:
        """Choose the client for a provider, or remove it."""
        values = valid_data(ProviderInput(data=request.data))
        endpoint, provider = live_endpoint(pk), values["provider"]
        credential_id = values["credential"]
        if credential_id is None:
            if row := endpoint.provider_clients.filter(provider=provider).first():
                providers.forget(row, actor=person(request))
        else:
            client = next(
                (candidate for candidate in providers.choices(endpoint) if candidate.pk == credential_id),
                None,
            )
            if client is None:
                raise invalid(credential=str(providers.WRONG_CREDENTIAL))
            providers.choose(endpoint, actor=person(request), provider=provider, credential=client)
        return self.get(request, pk)
