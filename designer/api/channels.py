from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.serializers import ModelInput, ModelOutput, valid_data
from designer.api.agents import chosen_agent
from designer.api.asked_releases import EXPECTED, chosen_release
from designer.models import Agent, Channel, ChannelMove
from designer.releases import channels
from people.api.generics import GenericAPIView
from people.models import Role
from people.permissions import person

CHANNEL = OpenApiParameter("channel", str, OpenApiParameter.PATH, description="Its name: `live`, `canary`.")
MOVES_SHOWN = 50
MAX_NAME_LENGTH = 80


class ChannelMoveOutput(ModelOutput[ChannelMove]):
    """`action` is `promote`, `roll back` or `close`."""

    before = serializers.IntegerField(source="before.number", default=None, allow_null=True)
    release = serializers.IntegerField(source="release.number", default=None, allow_null=True)
    moved_by = serializers.CharField(source="moved_by.username")
    action = serializers.SerializerMethodField()

    class Meta:
        model = ChannelMove
        fields = ["action", "before", "release", "note", "moved_by", "moved_at"]

    def get_action(self, row: ChannelMove) -> str:
        return channels.direction(row.before, row.release)


class ChannelOutput(serializers.Serializer[Any]):
    name = serializers.CharField()
    release = serializers.IntegerField(
        source="release.number",
        default=None,
        allow_null=True,
        help_text="The release that it points to; null for none.",
    )
    digest = serializers.CharField(source="release.digest", default=None, allow_null=True)
    moved_by = serializers.CharField(source="last_move.moved_by.username", default=None, allow_null=True)
    moved_at = serializers.DateTimeField(source="last_move.moved_at", default=None, allow_null=True)
    note = serializers.CharField(source="last_move.note", default="")


class ChannelDetailOutput(ChannelOutput):
    history = ChannelMoveOutput(many=True, help_text="The last 50 moves, the newest first.")


class ChannelListOutput(serializers.Serializer[Any]):
    results = ChannelOutput(many=True, help_text="The channels, `live` first, then by name; at most 20.")


@extend_schema_field({"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 80}]})
class ReleaseField(serializers.Field[str, int | str, str, str]):
    """Named as in an address; a number may be written as one."""

    def to_internal_value(self, data: int | str) -> str:
        if type(data) not in (int, str) or len(str(data)) > MAX_NAME_LENGTH:
            raise serializers.ValidationError("Send a release's number, sha256:DIGEST, or a channel's name.")
        return str(data)

    def to_representation(self, value: str) -> str:
        return value


class ChannelMoveInput(ModelInput):
    release = ReleaseField(
        allow_null=True,
        help_text="A number, `sha256:` with a digest, or another channel's name. Null closes the channel.",
    )
    expected = EXPECTED

    class Meta:
        model = ChannelMove
        fields: tuple[str, ...] = ("expected", "release", "note")


class NamedMoveInput(ChannelMoveInput):
    channel = serializers.RegexField(f"^{channels.NAME.pattern}$", max_length=30)

    class Meta(ChannelMoveInput.Meta):
        fields = ("expected", "release", "note", "channel")


def move_channel(request: Request, agent: Agent, name: str, values: dict[str, Any]) -> Response:
    release_name = values.pop("release")
    release = None if release_name is None else chosen_release(agent.releases.defer("document"), release_name)
    channels.move(agent, name, actor=person(request), release=release, **values)
    return Response(ChannelDetailOutput(detail(agent, name)).data)


def detail(agent: Agent, name: str) -> dict[str, Any]:
    now = channels.state(agent, name)
    history = channels.moves(agent).filter(channel__name=name)[:MOVES_SHOWN]
    return {"name": now.name, "release": now.release, "last_move": now.last_move, "history": history}


@extend_schema(tags=["channels"])
class ChannelList(GenericAPIView[Channel]):
    """The channels of an agent. `live` always exists. It points to no release until one is promoted to it."""

    write_role = Role.DESIGNER
    runtime = True
    serializer_class = ChannelListOutput
    queryset = Channel.objects.none()

    @extend_schema(operation_id="agents_channels_list", responses=ChannelListOutput)
    def get(self, request: Request, slug: str) -> Response:
        rows = channels.states(chosen_agent(request, slug))
        return Response(ChannelListOutput({"results": rows}).data)

    @extend_schema(operation_id="agents_channels_move", request=NamedMoveInput, responses=ChannelDetailOutput)
    def put(self, request: Request, slug: str) -> Response:
        """Move the channel that `channel` names."""
        agent = chosen_agent(request, slug)
        values = valid_data(NamedMoveInput(data=request.data))
        name = values.pop("channel")
        return move_channel(request, agent, name, values)


@extend_schema(tags=["channels"])
class ChannelDetail(GenericAPIView[Channel]):
    """One channel and its moves. A PUT moves it, and creates it if it does not exist."""

    write_role = Role.DESIGNER
    runtime = True
    serializer_class = ChannelDetailOutput
    queryset = Channel.objects.none()

    @extend_schema(parameters=[CHANNEL])
    def get(self, request: Request, slug: str, channel: str) -> Response:
        channel_detail = detail(chosen_agent(request, slug), channels.check_channel_name(channel))
        return Response(ChannelDetailOutput(channel_detail).data)

    @extend_schema(parameters=[CHANNEL], request=ChannelMoveInput, responses=ChannelDetailOutput)
    def put(self, request: Request, slug: str, channel: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(ChannelMoveInput(data=request.data))
        return move_channel(request, agent, channels.check_channel_name(channel), values)
