from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api.versions import (
    LABEL_HELP,
    MAX_ORDINAL,
    ORDINAL_HELP,
    ChangeOutput,
    VersionLabel,
    comparison_document,
    found,
)
from catalog.rules import diff
from designer import upgrades
from designer.api.agents import chosen_agent
from designer.models import Pin
from designer.pinned_signatures import pinned
from people.api.generics import GenericAPIView, ListAPIView


class ImpactOutput(serializers.Serializer[Any]):
    """`procedure` and `line` are null where a tool's own text is concerned."""

    agent = serializers.SlugField()
    procedure = serializers.CharField(allow_null=True)
    line = serializers.IntegerField(allow_null=True)
    message = serializers.CharField()
    refuses_publishing = serializers.BooleanField(
        help_text="Whether the agent cannot be published after the move, until its words fit."
    )


_MEMBERS = {
    "pin": serializers.IntegerField(),
    "name": serializers.CharField(),
    "tool": serializers.IntegerField(),
    "from": serializers.CharField(help_text="The pinned version, as the vendor numbers it."),
    "from_ordinal": serializers.IntegerField(),
    "from_name": serializers.CharField(),
    "to": serializers.CharField(help_text="The vendor's current version, as it numbers it."),
    "to_ordinal": serializers.IntegerField(),
    "to_name": serializers.CharField(),
    "class": serializers.ChoiceField(choices=diff.CLASSES),
    "impact": ImpactOutput(many=True),
}
# Some of the members are words of Python's, so no class can declare them.
UpgradeOutput = type("UpgradeOutput", (serializers.Serializer,), dict(_MEMBERS))
MoveOutput = type("MoveOutput", (serializers.Serializer,), _MEMBERS | {"changes": ChangeOutput})


class UpgradeList(ListAPIView[Pin]):
    """Pins that are behind, and what moving each of them would break."""

    serializer_class = UpgradeOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Pin]:
        return upgrades.behind(chosen_agent(self.request, self.kwargs["slug"]))

    def list(self, request: Request, slug: str) -> Response:
        found = self.paginate_queryset(self.get_queryset())
        rows = [upgrades.to(pin, pin.tool.current) for pin in found or () if pin.tool.current]
        return self.get_paginated_response([_row(upgrade, slug) for upgrade in rows])


class VersionQuery(serializers.Serializer[Any]):
    """Which version; the vendor's current one where neither is given."""

    version = VersionLabel(required=False, help_text=LABEL_HELP)
    ordinal = serializers.IntegerField(
        min_value=1, max_value=MAX_ORDINAL, required=False, help_text=ORDINAL_HELP
    )


class PinMove(GenericAPIView[Pin]):
    """What would change if the pin moved to this version, forwards or back. Nothing moves."""

    serializer_class = MoveOutput
    pagination_class = None

    @extend_schema(parameters=[VersionQuery], responses=MoveOutput)
    def get(self, request: Request, slug: str, pk: int) -> Response:
        given = VersionQuery(data=request.query_params.dict())
        given.is_valid(raise_exception=True)
        pin = get_object_or_404(pinned([chosen_agent(request, slug)]), pk=pk)
        upgrade = upgrades.to(pin, found(pin.tool, **given.validated_data))
        return Response(_row(upgrade, slug) | comparison_document(upgrade.comparison))


def _row(upgrade: upgrades.Upgrade, agent: str) -> dict[str, Any]:
    return {
        "pin": upgrade.pin.pk,
        "name": upgrade.pin.name,
        "tool": upgrade.pin.tool_id,
        "from": upgrade.pin.version.label,
        "from_ordinal": upgrade.pin.version.ordinal,
        "from_name": upgrade.pin.version.name,
        "to": upgrade.version.label,
        "to_ordinal": upgrade.version.ordinal,
        "to_name": upgrade.version.name,
        "class": upgrade.comparison.class_,
        "impact": [
            *(_impact(agent, sentence) for sentence in upgrade.breaking),
            *(_impact(agent, lost.message, refuses=lost.refuses) for lost in upgrade.lost),
        ],
    }


def _impact(agent: str, message: str, *, refuses: bool = False) -> dict[str, Any]:
    where = {"agent": agent, "procedure": None, "line": None}
    return where | {"message": message, "refuses_publishing": refuses}
