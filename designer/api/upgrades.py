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
    VersionChoice,
    VersionLabel,
    comparison_document,
    find_version,
)
from catalog.models import Tool
from catalog.rules import diff
from core.errors import invalid
from core.serializers import Input, valid_data
from designer.agents import vendor_usage
from designer.api.agents import chosen_agent
from designer.api.pins import NotPinnedOutput
from designer.models import Pin
from designer.pins import pins
from designer.pins.pinned_signatures import pinned_items
from designer.upgrades import upgrades
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person

MAX_AGENTS = 1_000


class ImpactOutput(serializers.Serializer[Any]):
    """`procedure` (its slug) and `line` are null where no line of a procedure is concerned."""

    agent = serializers.SlugField()
    procedure = serializers.CharField(allow_null=True)
    line = serializers.IntegerField(allow_null=True, help_text="The line in the saved text, from 1.")
    message = serializers.CharField()
    breaks = serializers.BooleanField(
        help_text=(
            "True if the line breaks; false if it only has to be read again, because a name in it changes."
        )
    )
    refuses_publishing = serializers.BooleanField(
        help_text="True if the agent cannot be published after the move until its words fit."
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
    "is_safe": serializers.BooleanField(
        help_text="The pin may move, and nothing breaks, becomes riskier, or loses tuned texts."
    ),
    "refusal": serializers.CharField(
        help_text=(
            "The reason why the pin cannot be moved, such as a version that waits for review; may be empty."
        )
    ),
    "impact": ImpactOutput(many=True),
}
# Some of the members are words of Python's, so no class can declare them.
UpgradeOutput = type("UpgradeOutput", (serializers.Serializer,), dict(_MEMBERS))
UpgradeMovedOutput = type(
    "UpgradeMovedOutput",
    (serializers.Serializer,),
    _MEMBERS
    | {
        "new_name": serializers.CharField(help_text="What the model calls the tool after the move."),
        "moved": serializers.BooleanField(
            help_text="True if the pin was moved; in a dry run, if it would be."
        ),
        "error": NotPinnedOutput(allow_null=True),
    },
)
MoveOutput = type("MoveOutput", (serializers.Serializer,), _MEMBERS | {"changes": ChangeOutput})


class WantedMove(VersionChoice):
    pin = serializers.IntegerField(min_value=1, max_value=2**63 - 1)


class UpgradeMovesInput(Input):
    moves = serializers.ListField(child=WantedMove(), required=False, max_length=pins.MAX_PINS_PER_REQUEST)
    all_safe = serializers.BooleanField(
        default=False, help_text="True moves every pin with a safe update, in addition to `moves`."
    )
    dry_run = serializers.BooleanField(default=False, help_text="True to return the same and move nothing.")


class UpgradeMovesOutput(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField()
    results = UpgradeMovedOutput(many=True)


@extend_schema(tags=["upgrades"])
class UpgradeList(ListAPIView[Pin]):
    """The pins with newer versions, and the effects of moving each of them."""

    write_role = Role.DESIGNER
    serializer_class = UpgradeOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Pin]:
        return upgrades.behind_pins([chosen_agent(self.request, self.kwargs["slug"])])

    def list(self, request: Request, slug: str) -> Response:
        page = self.paginate_queryset(self.get_queryset())
        rows = upgrades.to_current(page or ())
        return self.get_paginated_response([_upgrade_row(upgrade, slug) for upgrade in rows])

    @extend_schema(request=UpgradeMovesInput, responses=UpgradeMovesOutput)
    def post(self, request: Request, slug: str) -> Response:
        """Move several pins at once, or try it with `dry_run`. A refused pin does not stop the others."""
        agent = chosen_agent(request, slug)
        values = valid_data(UpgradeMovesInput(data=request.data))
        if not values["all_safe"] and not values.get("moves"):
            raise invalid(moves="Name at least one pin, or set all_safe.")
        moves = upgrades.move(
            agent,
            actor=person(request),
            moves=[upgrades.RequestedMove(**row) for row in values.get("moves", ())],
            all_safe=values["all_safe"],
            is_dry=values["dry_run"],
        )
        results = [
            _upgrade_row(row.upgrade, slug)
            | {"new_name": row.name, "moved": row.error is None}
            | {"error": NotPinnedOutput(row.error).data if row.error else None}
            for row in moves
        ]
        return Response({"dry_run": values["dry_run"], "results": results})


class VersionQuery(serializers.Serializer[Any]):
    """The choice of a version; the vendor's current one where neither is given."""

    version = VersionLabel(required=False, help_text=LABEL_HELP)
    ordinal = serializers.IntegerField(
        min_value=1, max_value=MAX_ORDINAL, required=False, help_text=ORDINAL_HELP
    )


@extend_schema(tags=["upgrades"])
class PinMove(GenericAPIView[Pin]):
    """The effects of moving the pin to this version, forwards or back. Nothing moves."""

    serializer_class = MoveOutput

    @extend_schema(parameters=[VersionQuery], responses=MoveOutput)
    def get(self, request: Request, slug: str, pk: int) -> Response:
        values = valid_data(VersionQuery(data=request.query_params.dict()))
        pin = get_object_or_404(pinned_items([chosen_agent(request, slug)]), pk=pk)
        upgrade = upgrades.upgrade_to(pin, find_version(pin.tool, **values))
        return Response(_upgrade_row(upgrade, slug) | comparison_document(upgrade.comparison))


class ToolImpactQuery(serializers.Serializer[Any]):
    to = VersionLabel(required=False, help_text=LABEL_HELP.replace("`ordinal`", "`to_ordinal`"))
    to_ordinal = serializers.IntegerField(
        min_value=1,
        max_value=MAX_ORDINAL,
        required=False,
        help_text=ORDINAL_HELP.replace("`version`", "`to`"),
    )


class AgentImpactOutput(UpgradeOutput):  # type: ignore[misc, valid-type] # made from a table
    agent = serializers.SlugField()
    agent_name = serializers.CharField()


class ToolImpactOutput(serializers.Serializer[Any]):
    """The agents that use the tool; those whose lines or words the version would break come first."""

    tool = serializers.IntegerField()
    to = serializers.CharField(help_text="The vendor's name of the version.")
    to_ordinal = serializers.IntegerField()
    to_name = serializers.CharField()
    pins = serializers.IntegerField(help_text="The number of pins with another version.")
    broken = serializers.IntegerField(help_text="The number of pins that lose a line or tuned texts.")
    left_off = serializers.IntegerField(help_text="The number of pins beyond the first thousand.")
    used_by_others = serializers.IntegerField(help_text="The number of other teams' agents that use it.")
    results = AgentImpactOutput(many=True)


@extend_schema(tags=["upgrades"])
class ToolImpact(GenericAPIView[Tool]):
    """The lines and texts that break, by agent, if all users of the tool move to one version: by default the
    vendor's current one.
    """

    serializer_class = ToolImpactOutput

    @extend_schema(parameters=[ToolImpactQuery], responses=ToolImpactOutput)
    def get(self, request: Request, pk: int) -> Response:
        entries = valid_data(ToolImpactQuery(data=request.query_params.dict()))
        tool = get_object_or_404(Tool.objects.select_related("current", "tuning", "endpoint__vendor"), pk=pk)
        values = entries
        version = find_version(tool, version=values.get("to", ""), ordinal=values.get("to_ordinal"))
        rows = upgrades.upgrades_of_tool(tool, version, person(request))
        results = [
            _upgrade_row(row, row.pin.agent.slug)
            | {"agent": row.pin.agent.slug, "agent_name": row.pin.agent.name}
            for row in rows[:MAX_AGENTS]
        ]
        return Response(
            {
                "tool": tool.pk,
                "to": version.label,
                "to_ordinal": version.ordinal,
                "to_name": version.name,
                "pins": len(rows),
                "broken": sum(row.is_felt for row in rows),
                "left_off": max(len(rows) - MAX_AGENTS, 0),
                "used_by_others": vendor_usage.used_by_others(tool, person(request)),
                "results": results,
            }
        )


def _upgrade_row(upgrade: upgrades.Upgrade, agent: str) -> dict[str, Any]:
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
        "is_safe": upgrade.is_safe,
        "refusal": upgrade.refusal,
        "impact": [
            *(_impact_row(agent, sentence) for sentence in upgrade.breaking),
            *(
                _impact_row(agent, change.sentence, breaks=False)
                for change in upgrade.comparison.changes
                if change.ends_confirmation
            ),
            *(
                _impact_row(agent, lost_words.message, refuses=lost_words.refuses)
                for lost_words in upgrade.lost
            ),
            *(
                _impact_row(agent, line.message, breaks=line.breaks)
                | {"procedure": line.procedure.slug, "line": line.line}
                for line in upgrade.lines
            ),
        ],
    }


def _impact_row(agent: str, message: str, *, breaks: bool = True, refuses: bool = False) -> dict[str, Any]:
    where = {"agent": agent, "procedure": None, "line": None}
    return where | {"message": message, "breaks": breaks, "refuses_publishing": refuses}
