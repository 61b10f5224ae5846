from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import UserGrant
from catalog.models.user_grants import GrantState
from designer.models import Agent
from execution.user_grants import grants
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person


class GrantOutput(serializers.Serializer[Any]):
    """An authorization that a user of an agent has granted or that was requested from the user. Tokens and
    users' names are not shown.
    """

    id = serializers.UUIDField()
    agent = serializers.SlugField(allow_null=True, help_text="The slug of the agent; null if it was removed.")
    user = serializers.CharField(help_text="The beginning of a keyed digest of the user's name.")
    vendor = serializers.SlugField()
    endpoint = serializers.IntegerField()
    provider = serializers.CharField(help_text="The vendor's name of the provider.")
    scopes = serializers.ListField(
        child=serializers.CharField(),
        help_text="The scopes that are requested of the user, or that the user has authorized.",
    )
    granted_scopes = serializers.ListField(
        child=serializers.CharField(),
        help_text="The scopes of Pegboard's tokens, also while more are requested. Empty if the vendor "
        "stores the authorization.",
    )
    refused_scopes = serializers.ListField(
        child=serializers.CharField(),
        help_text="The scopes that were requested last and that the provider did not grant. Tools that "
        "need none of them run.",
    )
    state = serializers.ChoiceField(choices=GrantState.choices)
    message = serializers.CharField(help_text="The problem that the last check of it met; may be empty.")
    opened_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(
        allow_null=True, help_text="The time until which the user may answer."
    )
    settled_at = serializers.DateTimeField(allow_null=True)
    call = serializers.IntegerField(allow_null=True, help_text="The call that requested it last.")


def document(grant: UserGrant, slugs: dict[int, str]) -> dict[str, Any]:
    return {
        "id": grant.pk,
        "agent": slugs.get(grant.end_user.agent),
        "user": grant.end_user.short,
        "vendor": grant.endpoint.vendor.slug,
        "endpoint": grant.endpoint_id,
        "provider": grant.provider,
        "scopes": grant.scopes.split(),
        "granted_scopes": grant.held_scopes if grant.credential_id else [],
        "refused_scopes": grant.refused_scopes,
        "state": grant.state,
        "message": grant.message,
        "opened_at": grant.opened_at,
        "expires_at": grant.expires_at,
        "settled_at": grant.settled_at,
        "call": grant.call_id,
    }


def slugs_of(rows: list[UserGrant]) -> dict[int, str]:
    agents = Agent.objects.live().filter(pk__in={row.end_user.agent for row in rows})
    return dict(agents.values_list("pk", "slug"))


@extend_schema(tags=["grants"])
class GrantList(ListAPIView[UserGrant]):
    """The authorizations of agents' users at the providers that vendors name, the newest first."""

    serializer_class = GrantOutput
    ordering = ("-opened_at", "id")

    def get_queryset(self) -> QuerySet[UserGrant]:
        return grants.visible_to(person(self.request))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        rows = list(self.paginate_queryset(self.get_queryset()) or ())
        slugs = slugs_of(rows)
        return self.get_paginated_response(
            GrantOutput([document(row, slugs) for row in rows], many=True).data
        )


@extend_schema(tags=["grants"])
class GrantDetail(GenericAPIView[UserGrant]):
    """One authorization. Once it is forgotten, the next call of a tool that needs it asks the user again."""

    write_role = Role.DESIGNER
    serializer_class = GrantOutput
    queryset = UserGrant.objects.none()

    def get(self, request: Request, grant: str) -> Response:
        row = get_object_or_404(grants.visible_to(person(request)), pk=grant)
        return Response(GrantOutput(document(row, slugs_of([row]))).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, grant: str) -> Response:
        """Delete the authorization with its tokens.

        If the provider has a revocation address (RFC 7009), the tokens are revoked there. The audit trail has
        the result.
        """
        row = get_object_or_404(grants.visible_to(person(request)), pk=grant)
        grants.forget(row, actor=person(request))
        return Response(status=204)
