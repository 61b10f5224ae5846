"""REST for activities, which run for a tool instead of its vendor, as on the page “Activities”."""

from typing import Any

import msgspec
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Activity, ActivityVersion, ToolVersion
from core.errors import invalid
from core.serializers import Input, ModelChange, valid_data
from execution.activities import kinds, mapping, operations, reach
from execution.activities.config_masking import masked_configs
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import person

# In the order of the registry, without mocks, which are last and belong to one tool of one agent.
KINDS = list(kinds.KINDS)


class VersionReference(Input):
    tool = serializers.IntegerField(help_text="The id of the tool.")
    ordinal = serializers.IntegerField(min_value=1, help_text="The number of the version, from 1.")


@extend_schema_field({"type": "object", "additionalProperties": True})
class Config(serializers.JSONField):
    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise serializers.ValidationError("Send an object; docs/activities.md lists its members.")
        return super().to_internal_value(data)


class MaskedConfig(Config):
    """The configuration of a version, for a person."""

    def to_representation(self, value: Any) -> Any:
        return super().to_representation(masked_configs([value])[0])


class ActivityChange(ModelChange):
    config = Config(
        required=False, help_text="The settings of this kind. Credentials are named by their ids."
    )
    interface = VersionReference(
        required=False,
        allow_null=True,
        help_text="The version whose inputs it accepts; null for those of any tool.",
    )

    class Meta:
        model = Activity
        fields: tuple[str, ...] = ("name", "config", "interface")


class ActivityInput(ActivityChange):
    kind = serializers.ChoiceField(choices=KINDS)
    config = Config(help_text="The settings of this kind. Credentials are named by their ids.")

    class Meta(ActivityChange.Meta):
        fields = ("name", "config", "interface", "kind")
        extra_kwargs = {"name": {"required": True}}


class InterfaceOutput(serializers.Serializer[Any]):
    tool = serializers.IntegerField(source="tool_id")
    ordinal = serializers.IntegerField()
    name = serializers.CharField(source="tool.name")


class FaultOutput(serializers.Serializer[Any]):
    place = serializers.CharField(help_text="The path in the configuration.")
    code = serializers.CharField()
    message = serializers.CharField()


class ActivityVersionOutput(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    kind = serializers.CharField()
    config = MaskedConfig(source="*")
    interface = InterfaceOutput(allow_null=True)
    digest = serializers.CharField()
    created_by = serializers.CharField()
    by_administrator = serializers.BooleanField(
        source="is_by_administrator",
        help_text=(
            "True if an administrator saved it, so that it may call the private addresses that "
            "the deployment allows for vendors."
        ),
    )
    created_at = serializers.DateTimeField()


class ActivityOutput(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    kind = serializers.CharField(source="current.kind")
    version = serializers.IntegerField(source="current.number")
    interface = InterfaceOutput(source="current.interface", allow_null=True)
    created_at = serializers.DateTimeField()


class ActivityDetailOutput(ActivityOutput):
    config = MaskedConfig(source="current")
    faults = serializers.SerializerMethodField(
        help_text="The problems that prevent it from running now, by the newest version of its interface."
    )
    used_by = serializers.SerializerMethodField(help_text="Names of activities of which it is a step.")

    @extend_schema_field(FaultOutput(many=True))
    def get_faults(self, activity: Activity) -> Any:
        return FaultOutput(operations.faults_now(activity), many=True).data

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_used_by(self, activity: Activity) -> list[str]:
        return [user_of_activity.name for user_of_activity in reach.users_of(activity)]


class PairOutput(serializers.Serializer[Any]):
    of = serializers.CharField(help_text="The source of the value.")
    to = serializers.CharField(help_text="The target of the value.")
    why = serializers.ChoiceField(choices=["id", "name", "meaning"])
    fit = serializers.ChoiceField(choices=["same", "converted", "perhaps"])


class ProposalInput(Input):
    interface = VersionReference(help_text="The version whose inputs are mapped.")
    tool = VersionReference(help_text="The tool that runs.")


class ProposalOutput(serializers.Serializer[Any]):
    """`config` is that of an activity of kind `vendor`: completed and posted, it is saved."""

    config = Config()
    pairs = PairOutput(many=True)
    gaps = FaultOutput(many=True, help_text="The problems that prevent it from being saved.")
    unused = serializers.ListField(
        child=serializers.CharField(), help_text="The inputs that are mapped to nothing."
    )
    lacking = serializers.ListField(
        child=serializers.CharField(), help_text="The outputs that nothing is mapped to."
    )


@extend_schema(tags=["activities"])
class ActivityList(ListAPIView[Activity]):
    """The shared activities. The mock of one tool in one agent is listed at that tool."""

    write_role = Role.DESIGNER
    serializer_class = ActivityOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Activity]:
        return Activity.objects.shared().select_related("current__interface__tool")

    @extend_schema(request=ActivityInput, responses={201: ActivityDetailOutput})
    def post(self, request: Request) -> Response:
        """Save an activity. One that cannot run is refused with a code and the paths of the faults."""
        values = valid_data(ActivityInput(data=request.data))
        activity = operations.create(
            actor=person(request),
            name=values["name"],
            kind=values["kind"],
            config=values["config"],
            interface=_find_version(values.get("interface"), "interface"),
        )
        return _respond(activity, status=201)


@extend_schema(tags=["activities"])
class ActivityDetail(GenericAPIView[Activity]):
    write_role = Role.DESIGNER
    serializer_class = ActivityDetailOutput

    def get(self, request: Request, pk: int) -> Response:
        return _respond(_get_activity(pk))

    @extend_schema(parameters=[IF_MATCH], request=ActivityChange)
    def patch(self, request: Request, pk: int) -> Response:
        """Change the given members. Another configuration or interface creates the next version."""
        changes = dict(valid_data(ActivityChange(data=request.data)))
        if "interface" in changes:
            changes["interface"] = _find_version(changes["interface"], "interface")
        changed = operations.change(
            _get_activity(pk), actor=person(request), expected=expected_state(request), **changes
        )
        return _respond(changed)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Remove the activity. It no longer runs; its versions and its calls stay."""
        operations.remove(_get_activity(pk), actor=person(request))
        return Response(status=204)


@extend_schema(tags=["activities"])
class ActivityVersionList(ListAPIView[ActivityVersion]):
    """The saved versions, newest first."""

    serializer_class = ActivityVersionOutput
    ordering = ("-number",)

    def get_queryset(self) -> QuerySet[ActivityVersion]:
        return _get_activity(self.kwargs["pk"]).versions.select_related("interface__tool", "created_by")


@extend_schema(tags=["activities"])
class ActivityPropose(GenericAPIView[Activity]):
    """Propose how another vendor's tool could replace this one. Nothing is saved."""

    write_role = Role.DESIGNER
    serializer_class = ProposalOutput

    @extend_schema(request=ProposalInput, responses={200: ProposalOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(ProposalInput(data=request.data))
        interface = _find_version(values["interface"], "interface")
        other = _find_version(values["tool"], "tool")
        if interface is None or other is None:
            raise invalid(tool="Name a version of each tool.")
        proposal = mapping.propose(interface.decoded(), other.decoded())
        return Response(
            {
                "config": mapping.config(proposal, other.tool_id, other.ordinal),
                "pairs": [msgspec.to_builtins(pair) for pair in proposal.pairs],
                "gaps": FaultOutput(proposal.gaps, many=True).data,
                "unused": proposal.unused,
                "lacking": proposal.lacking,
            }
        )


def _find_version(reference: dict[str, int] | None, name: str) -> ToolVersion | None:
    if reference is None:
        return None
    rows = ToolVersion.objects.select_related("tool").filter(**reference)
    if (row := rows.first()) is None:
        raise invalid(**{name: "There is no such version of a tool."})
    return row


def _get_activity(pk: int) -> Activity:
    rows = Activity.objects.shared().select_related("current__interface__tool__current")
    return get_object_or_404(rows, pk=pk)


def _respond(activity: Activity, status: int = 200) -> Response:
    # Read again for the times, which the database sets.
    activity = _get_activity(activity.pk)
    headers = etag_of(operations.facts(activity))
    return Response(ActivityDetailOutput(activity).data, status=status, headers=headers)
