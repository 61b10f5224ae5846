from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.serializers import ModelChange, ModelInput, ModelOutput, input_field, valid_data
from people import users
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role, Team, User
from people.permissions import person


class UserInput(ModelInput):
    password = input_field(users.PASSWORD, write_only=True, trim_whitespace=False)

    class Meta:
        model = User
        fields = ("username", "password", "name", "role")


class UserChange(ModelChange):
    password = input_field(users.PASSWORD, required=False, write_only=True, trim_whitespace=False)

    class Meta:
        model = User
        fields = ("name", "role", "is_active", "password")


class UserOutput(ModelOutput[User]):
    teams = serializers.SerializerMethodField(
        help_text="The slugs of those teams of the user that you are in too."
    )

    class Meta:
        model = User
        fields = ["id", "username", "name", "role", "is_active", "teams", "date_joined", "last_login"]

    @extend_schema_field(serializers.ListField(child=serializers.SlugField()))
    def get_teams(self, user: User) -> list[str]:
        teams: list[Team] = getattr(user, "shown_teams")  # noqa: B009 - set by people_seen_by
        return [team.slug for team in teams]


def people_seen_by(reader: User) -> QuerySet[User]:
    """Return all users, with those of their teams that the reader may see in `shown_teams`."""
    return User.objects.prefetch_related(
        Prefetch("teams", Team.objects.open_to(reader), to_attr="shown_teams")
    )


class UserList(ListAPIView[User]):
    write_role = Role.ADMIN
    serializer_class = UserOutput
    ordering = ("username", "id")

    def get_queryset(self) -> QuerySet[User]:
        return people_seen_by(person(self.request))

    @extend_schema(request=UserInput, responses={201: UserOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(UserInput(data=request.data))
        user = users.add_user(actor=person(request), **values)
        return Response(UserOutput(self.get_queryset().get(pk=user.pk)).data, status=201)


class UserDetail(GenericAPIView[User]):
    """Users are deactivated, never deleted: the audit trail keeps their names."""

    write_role = Role.ADMIN
    serializer_class = UserOutput
    queryset = User.objects.all()

    def get(self, request: Request, pk: int) -> Response:
        return _respond(request, pk)

    @extend_schema(parameters=[IF_MATCH], request=UserChange)
    def patch(self, request: Request, pk: int) -> Response:
        user = get_object_or_404(User, pk=pk)
        changes = dict(valid_data(UserChange(data=request.data)))
        password = changes.pop("password", None)
        with transaction.atomic():
            users.update_user(user, actor=person(request), expected=expected_state(request), **changes)
            if password is not None:
                users.set_password(user, actor=person(request), password=password)
        return _respond(request, pk)


def _respond(request: Request, pk: int) -> Response:
    user = get_object_or_404(people_seen_by(person(request)), pk=pk)
    return Response(UserOutput(user).data, headers=etag_of(users.facts(user)))
