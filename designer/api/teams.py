"""Teams over REST. A user reads those they are in; administrators see all and change them.

An agent is moved by `PATCH agents/{slug}/` with another `team`.
"""

from typing import Any

from django.db.models import Count, Prefetch, Q, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.serializers import ModelChange, ModelInput, ModelOutput, valid_data
from designer.agents import agents
from people import teams
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role, Team, User
from people.permissions import person


class TeamChange(ModelChange):
    class Meta:
        model = Team
        fields = ("name",)


class TeamInput(ModelInput):
    class Meta:
        model = Team
        fields = ("name", "slug")
        extra_kwargs = {"slug": {"required": False}}


class TeamOutput(ModelOutput[Team]):
    agents = serializers.IntegerField(source="agent_count", read_only=True, help_text="The number of agents.")
    members = serializers.SerializerMethodField(
        help_text="The user names of the members; empty for the team of all users."
    )

    class Meta:
        model = Team
        fields = ["slug", "name", "is_everyone", "agents", "members", "created_at"]

    def get_members(self, team: Team) -> list[str]:
        return [user.username for user in team.members.all()]


def teams_of(user: User) -> QuerySet[Team]:
    return (
        Team.objects.open_to(user)
        .annotate(agent_count=Count("agents", filter=Q(agents__removed_at=None)))
        .prefetch_related(Prefetch("members", User.objects.order_by("username")))
    )


class TeamList(ListAPIView[Team]):
    write_role = Role.ADMIN
    serializer_class = TeamOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Team]:
        return teams_of(person(self.request))

    @extend_schema(request=TeamInput, responses={201: TeamOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(TeamInput(data=request.data))
        team = teams.create_team(actor=person(request), **values)
        return Response(TeamOutput(self.get_queryset().get(pk=team.pk)).data, status=201)


class TeamDetail(GenericAPIView[Team]):
    write_role = Role.ADMIN
    serializer_class = TeamOutput

    def get(self, request: Request, slug: str) -> Response:
        return self._respond(request, slug)

    @extend_schema(parameters=[IF_MATCH], request=TeamChange)
    def patch(self, request: Request, slug: str) -> Response:
        team = self._find_team(request, slug)
        values = valid_data(TeamChange(data=request.data))
        if "name" in values:
            name = values["name"]
            teams.rename_team(team, actor=person(request), name=name, expected=expected_state(request))
        return self._respond(request, slug)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Delete the team. The request is refused while agents belong to it."""
        agents.remove_team(self._find_team(request, slug), actor=person(request))
        return Response(status=204)

    def _respond(self, request: Request, slug: str) -> Response:
        team = self._find_team(request, slug)
        return Response(TeamOutput(team).data, headers=etag_of(teams.facts(team)))

    def _find_team(self, request: Request, slug: str) -> Team:
        return get_object_or_404(teams_of(person(request)), slug=slug)


class TeamMember(GenericAPIView[Any]):
    """The membership of a user, by username. Repeated calls change nothing."""

    write_role = Role.ADMIN
    serializer_class = TeamOutput

    @extend_schema(request=None, responses={204: None})
    def put(self, request: Request, slug: str, username: str) -> Response:
        teams.add_member(*self._team_and_user(request, slug, username), actor=person(request))
        return Response(status=204)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, username: str) -> Response:
        teams.remove_member(*self._team_and_user(request, slug, username), actor=person(request))
        return Response(status=204)

    def _team_and_user(self, request: Request, slug: str, username: str) -> tuple[Team, User]:
        team = get_object_or_404(Team.objects.open_to(person(request)), slug=slug)
        return team, get_object_or_404(User, username=username)
