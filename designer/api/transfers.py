from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core import slugs
from core.serializers import ModelInput, valid_data
from designer.agents import transfers
from designer.api.agents import chosen_agent
from designer.models import Transfer
from people.api.generics import GenericAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import person

CHILD = OpenApiParameter("child", str, OpenApiParameter.PATH, description="The slug of a sub-agent.")


# `transfers` checks it, because its error proposes a name that can be had.
@extend_schema_field({"type": "string", "pattern": "^([A-Za-z_][A-Za-z0-9_-]{0,63})?$"})
class TransferName(serializers.CharField):
    pass


class TransferInput(ModelInput):
    """The name and words of a transfer.

    Both are replaced; what is left out or empty goes back to the default.
    """

    name = TransferName(required=False, allow_blank=True, help_text="The name that a model sees.")

    class Meta:
        model = Transfer
        fields = ("name", "description")


class TransferOutput(serializers.Serializer[Any]):
    agent = serializers.SlugField(source="agent.slug", max_length=slugs.MAX_LENGTH)
    child = serializers.SlugField(source="child.slug", max_length=slugs.MAX_LENGTH)
    name = serializers.CharField(help_text="The name that a model sees.")
    description = serializers.SerializerMethodField(help_text="The description that a model reads.")
    alias = serializers.CharField(
        allow_blank=True, help_text="The name that a designer chose; empty for the default."
    )
    is_worded = serializers.SerializerMethodField(help_text="True if a designer wrote the description.")
    updated_by = serializers.CharField(source="updated_by.username", default=None, allow_null=True)
    updated_at = serializers.DateTimeField()

    def get_description(self, row: Transfer) -> str:
        return transfers.description_of(row)

    def get_is_worded(self, row: Transfer) -> bool:
        return bool(row.description)


class TransferListOutput(serializers.Serializer[Any]):
    results = TransferOutput(many=True, help_text="All transfers, by name.")


def chosen_transfer(request: Request, slug: str, child: str) -> Transfer:
    rows = Transfer.objects.live().select_related("agent", "child", "updated_by")
    return get_object_or_404(rows, agent=chosen_agent(request, slug), child__slug=child)


@extend_schema(tags=["transfers"])
class TransferList(GenericAPIView[Transfer]):
    """The transfers of an agent to its sub-agents. A transfer comes and goes with the sub-agent."""

    serializer_class = TransferListOutput
    queryset = Transfer.objects.none()

    @extend_schema(operation_id="agents_transfers_list", responses=TransferListOutput)
    def get(self, request: Request, slug: str) -> Response:
        rows = transfers.transfers_from([chosen_agent(request, slug)])
        return Response(TransferListOutput({"results": rows}).data)


@extend_schema(tags=["transfers"])
class TransferDetail(GenericAPIView[Transfer]):
    """The transfer of an agent to one sub-agent. A DELETE restores the default name and text."""

    write_role = Role.DESIGNER
    serializer_class = TransferOutput

    @extend_schema(parameters=[CHILD])
    def get(self, request: Request, slug: str, child: str) -> Response:
        return _respond(chosen_transfer(request, slug, child))

    @extend_schema(parameters=[CHILD, IF_MATCH], request=TransferInput)
    def put(self, request: Request, slug: str, child: str) -> Response:
        row = chosen_transfer(request, slug, child)
        values = valid_data(TransferInput(data=request.data))
        return _respond(
            transfers.word_transfer(row, actor=person(request), expected=expected_state(request), **values)
        )

    @extend_schema(parameters=[CHILD, IF_MATCH], responses={204: None})
    def delete(self, request: Request, slug: str, child: str) -> Response:
        row = chosen_transfer(request, slug, child)
        transfers.word_transfer(row, actor=person(request), expected=expected_state(request))
        return Response(status=204)


def _respond(row: Transfer) -> Response:
    return Response(TransferOutput(row).data, headers=etag_of(transfers.facts(row)))
