from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api.retries import RetryChange, RetryStated, nest_retry_members
from catalog.models import Vendor
from catalog.rules import retries
from core import slugs
from core.errors import invalid
from core.serializers import ModelChange, ModelOutput, valid_data
from designer.agents import agent_addresses, agent_vendors, agents
from designer.api.authentication import django_request
from designer.files import agent_copies
from designer.models import Agent
from designer.releases import drafts
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role, Team, User
from people.permissions import key_of, person

MAX_VENDORS = 1_000


class Slugs(serializers.ListField):
    """Read only; null for all there are."""

    def __init__(self, **options: Any) -> None:
        super().__init__(child=serializers.SlugField(), allow_null=True, read_only=True, **options)


class TeamOfUser:
    """An input whose `team` is the slug of one of the user's teams."""

    context: dict[str, Any]

    def validate_team(self, slug: str) -> Team:
        team = Team.objects.open_to(self.context["user"]).filter(slug=slug).first()
        if team is None:
            raise serializers.ValidationError("You are in no such team.")
        return team


class AgentChange(TeamOfUser, RetryChange, ModelChange):
    parent = serializers.SlugField(  # type: ignore[assignment]
        max_length=slugs.MAX_LENGTH, required=False, allow_null=True, help_text="The slug of an agent."
    )
    team = serializers.SlugField(
        max_length=slugs.MAX_LENGTH,
        required=False,
        help_text="The slug of one of your teams. A sub-agent goes with its parent.",
    )
    vendors = serializers.ListField(
        child=serializers.SlugField(max_length=60),
        required=False,
        allow_null=True,
        max_length=MAX_VENDORS,
        help_text="The slugs of the vendors whose tools it may use; null for all. A sub-agent may use what"
        " the agents above it may use too.",
    )

    class Meta:
        model = Agent
        fields = (
            *retries.RetryPolicy.__struct_fields__,
            *("name", "slug", "description", "parent", "team", "vendors"),
        )

    def validate_parent(self, slug: str | None) -> Agent | None:
        if slug is None:
            return None
        parent = Agent.objects.live().visible_to(self.context["user"]).filter(slug=slug).first()
        if parent is None:
            raise serializers.ValidationError("There is no such agent.")
        return parent

    def validate_vendors(self, slugs: list[str] | None) -> list[Vendor] | None:
        if slugs is None:
            return None
        vendors_by_slug = {row.slug: row for row in Vendor.objects.live().filter(slug__in=slugs)}
        if missing := [slug for slug in slugs if slug not in vendors_by_slug]:
            raise serializers.ValidationError(f"There is no vendor “{missing[0]}”.")
        return list(vendors_by_slug.values())


class AgentInput(AgentChange):
    class Meta(AgentChange.Meta):
        extra_kwargs = {"name": {"required": True}}


class AgentCopyInput(ModelChange):
    with_sub_agents = serializers.BooleanField(default=False, help_text=agents.WITH_SUB_AGENTS.help_text)

    class Meta:
        model = Agent
        fields = ("name", "with_sub_agents")
        extra_kwargs = {"name": {"help_text": "“Copy of …” if you leave it out."}}


class AgentOutput(RetryStated, ModelOutput[Agent]):
    parent = serializers.SlugField(  # type: ignore[assignment]
        source="parent.slug", default=None, read_only=True, allow_null=True
    )
    team = serializers.SlugField(source="team.slug", read_only=True)
    pins = serializers.IntegerField(source="pin_count", read_only=True)
    release = serializers.IntegerField(
        source="last_release", read_only=True, allow_null=True, help_text="The number of the newest release."
    )

    is_changed = serializers.BooleanField(
        read_only=True,
        help_text="True if publishing would create another release.",
    )
    vendors = Slugs(help_text="The slugs of its own vendors; null for all.")
    usable_vendors = Slugs(help_text="The `vendors` that the agents above it allow too; null for all.")

    class Meta:
        model = Agent
        fields = [
            "slug",
            "name",
            "description",
            "parent",
            "team",
            "pins",
            "release",
            "is_changed",
            "vendors",
            "usable_vendors",
            *retries.RetryPolicy.__struct_fields__,
            "created_at",
            "archived_at",
        ]


def agents_with_counts(user: User) -> QuerySet[Agent]:
    return Agent.objects.live().visible_to(user).with_counts().select_related("parent", "team")


def chosen_agent(request: HttpRequest | Request, slug: str) -> Agent:
    """Return the agent for views below its address. Raises Http404 for other teams' agents, and for one that
    the key does not name.
    """
    agent = Agent.objects.live().visible_to(person(request), key_of(request)).filter(slug=slug).first()
    agent = agent or find_moved_agent(request, slug)
    if agent is None:
        raise Http404
    return agent


def find_moved_agent(request: HttpRequest | Request, slug: str) -> Agent | None:
    """Return the agent that was published at this address and has another one now; the response states
    that.
    """
    moved_agent = agent_addresses.find_moved(slug, person(request), key_of(request))
    if moved_agent is None:
        return None
    django_request(request).moved_agent = moved_agent  # type: ignore[attr-defined]
    return moved_agent.agent


class AgentList(ListAPIView[Agent]):
    """The agents of your teams, and for administrators all agents. Archived agents have a list of their own
    (`archived=1`).
    """

    write_role = Role.DESIGNER
    serializer_class = AgentOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Agent]:
        archived = self.request.query_params.get("archived", "0")
        if archived not in ("0", "1"):
            raise invalid(archived="Send 1 for the archived agents, or 0 for the others.")
        rows = agents_with_counts(person(self.request))
        return rows.filter(archived_at__isnull=archived == "0")

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "archived", str, enum=["0", "1"], description="1 lists the archived agents, and no others."
            )
        ]
    )
    def get(self, request: Request) -> Response:
        return super().get(request)

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset)
        return page if page is None else _with_details(page)

    @extend_schema(request=AgentInput, responses={201: AgentOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(AgentInput(data=request.data, context={"user": person(request)}))
        agent = agents.create_agent(actor=person(request), **nest_retry_members(values))
        (created,) = _with_details(self.get_queryset().filter(pk=agent.pk))
        return Response(AgentOutput(created).data, status=201)


class AgentDetail(GenericAPIView[Agent]):
    write_role = Role.DESIGNER
    serializer_class = AgentOutput

    def get(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        return _respond_with(agent.pk, request)

    @extend_schema(parameters=[IF_MATCH], request=AgentChange)
    def patch(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(AgentChange(data=request.data, context={"user": person(request)}))
        agent = agents.update_agent(
            agent,
            actor=person(request),
            expected=expected_state(request),
            **nest_retry_members(values),
        )
        return _respond_with(agent.pk, request)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        agents.remove_agent(chosen_agent(request, slug), actor=person(request))
        return Response(status=204)


@extend_schema(tags=["agents"])
class AgentArchive(GenericAPIView[Agent]):
    """Archive an agent and all agents below it. Runtimes still get its releases."""

    write_role = Role.DESIGNER
    serializer_class = AgentOutput

    @extend_schema(request=None, responses=AgentOutput)
    def post(self, request: Request, slug: str) -> Response:
        agent = agents.archive_agent(chosen_agent(request, slug), actor=person(request))
        return _respond_with(agent.pk, request)


@extend_schema(tags=["agents"])
class AgentRestore(GenericAPIView[Agent]):
    """Restore an archived agent, with the agents that were archived together with it."""

    write_role = Role.DESIGNER
    serializer_class = AgentOutput

    @extend_schema(request=None, responses=AgentOutput)
    def post(self, request: Request, slug: str) -> Response:
        agent = agents.restore_agent(chosen_agent(request, slug), actor=person(request))
        return _respond_with(agent.pk, request)


@extend_schema(tags=["agents"])
class AgentCopy(GenericAPIView[Agent]):
    """Duplicate an agent: its tools, tuned texts and procedures, without its releases."""

    write_role = Role.DESIGNER
    serializer_class = AgentOutput

    @extend_schema(request=AgentCopyInput, responses={201: AgentOutput})
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(AgentCopyInput(data=request.data))
        copy = agent_copies.copy_agent(agent, actor=person(request), **values)
        (created,) = _with_details(agents_with_counts(person(request)).filter(pk=copy.pk))
        return Response(AgentOutput(created).data, status=201)


def _with_details(rows: Iterable[Agent]) -> list[Agent]:
    # Adds what is not stored in the rows of the agents.
    return agent_vendors.with_vendors(drafts.with_is_changed(rows))


def _respond_with(pk: int, request: Request) -> Response:
    agent = get_object_or_404(agents_with_counts(person(request)), pk=pk)
    _with_details([agent])
    return Response(AgentOutput(agent).data, headers=etag_of(agents.facts(agent)))
