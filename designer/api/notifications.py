from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tool
from catalog.notifications import kinds, reports, subscriptions, webhooks
from catalog.notifications.models import Delivery, Notice, SendingState, Subscription, Webhook
from core import slugs
from core.public_url import public_url
from core.serializers import Input, ModelChange, ModelInput, ModelOutput, valid_data
from designer.agents import agent_keys
from designer.api.agents import chosen_agent
from designer.models import Agent
from designer.news import agent_webhooks, following, news
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import person
from people.throttling import ReportLimit


class EventList(serializers.ListField):
    child = serializers.ChoiceField(choices=kinds.choices())


class SubscriptionInput(Input):
    event = serializers.ChoiceField(choices=kinds.choices())


class SubscriptionOutput(ModelOutput[Subscription]):
    class Meta:
        model = Subscription
        fields = ["event", "created_at"]


class SubscriptionList(ListAPIView[Subscription]):
    """Your subscriptions by mail. Your address is confirmed on the page /notifications/."""

    write_role = Role.VIEWER
    serializer_class = SubscriptionOutput
    ordering = ("event", "id")

    def get_queryset(self) -> QuerySet[Subscription]:
        return Subscription.objects.filter(user=person(self.request))

    @extend_schema(request=SubscriptionInput, responses={201: SubscriptionOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(SubscriptionInput(data=request.data))
        row = subscriptions.subscribe(person(request), values["event"])
        return Response(SubscriptionOutput(row).data, status=201)


EVENT = OpenApiParameter("event", {"type": "string", "enum": list(kinds.KINDS)}, OpenApiParameter.PATH)


class SubscriptionDetail(GenericAPIView[Subscription]):
    write_role = Role.VIEWER
    serializer_class = SubscriptionOutput

    @extend_schema(parameters=[EVENT], responses={204: None})
    def delete(self, request: Request, event: str) -> Response:
        get_object_or_404(Subscription, user=person(request), event=event)
        subscriptions.unsubscribe(person(request), event)
        return Response(status=204)


class NoticeOutput(ModelOutput[Notice]):
    type = serializers.CharField(source="event", read_only=True)
    timestamp = serializers.DateTimeField(source="told_at", read_only=True)
    url = serializers.SerializerMethodField()
    facts = serializers.DictField(read_only=True, help_text="The facts, as webhooks receive them.")

    class Meta:
        model = Notice
        fields = ["id", "type", "timestamp", "title", "says", "url", "facts"]

    def get_url(self, row: Notice) -> str:
        return public_url(row.path, self.context.get("request"))


class NoticeList(ListAPIView[Notice]):
    """Your notices about agents and tools that you follow, and about your events. The newest first; stored
    for a month.
    """

    serializer_class = NoticeOutput
    ordering = ("-told_at", "-id")

    def get_queryset(self) -> QuerySet[Notice]:
        return news.notices_of(person(self.request))


class FollowsOutput(serializers.Serializer[Any]):
    agents = serializers.ListField(child=serializers.SlugField())
    tools = serializers.ListField(child=serializers.IntegerField())


class Follows(GenericAPIView[Any]):
    """The agents and tools that you follow.

    You follow the agents that you edit, unless you chose otherwise.
    """

    serializer_class = FollowsOutput
    queryset = Agent.objects.none()

    @extend_schema(operation_id="follows_retrieve")
    def get(self, request: Request) -> Response:
        user = person(request)
        followed = {
            "agents": following.followed_agents(user).values_list("slug", flat=True),
            "tools": following.followed_tools(user).values_list("pk", flat=True),
        }
        return Response(FollowsOutput(followed).data)


class AgentFollow(GenericAPIView[Any]):
    write_role = Role.VIEWER
    queryset = Agent.objects.none()

    @extend_schema(request=None, responses={204: None})
    def put(self, request: Request, slug: str) -> Response:
        """Follow this agent."""
        following.follow(person(request), chosen_agent(request, slug), is_following=True)
        return Response(status=204)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        following.follow(person(request), chosen_agent(request, slug), is_following=False)
        return Response(status=204)


class ToolFollow(GenericAPIView[Any]):
    write_role = Role.VIEWER
    queryset = Tool.objects.none()

    @extend_schema(request=None, responses={204: None})
    def put(self, request: Request, pk: int) -> Response:
        """Follow this tool, whether or not an agent that you follow pins it."""
        following.follow(person(request), get_object_or_404(Tool, pk=pk), is_following=True)
        return Response(status=204)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        following.follow(person(request), get_object_or_404(Tool, pk=pk), is_following=False)
        return Response(status=204)


AGENTS = serializers.ListField(
    child=serializers.SlugField(max_length=slugs.MAX_LENGTH),
    required=False,
    max_length=agent_webhooks.MAX_AGENTS,
    help_text="Slugs of agents: events of these, of their parents and of their sub-agents are sent."
    " A designer's webhook names at least one; an administrator's without any gets the "
    "events of all.",
)


class WebhookInput(ModelInput):
    events = EventList(allow_empty=False, max_length=len(kinds.KINDS))
    agents = AGENTS

    class Meta:
        model = Webhook
        fields = ("agents", "name", "url", "events")
        extra_kwargs = {"url": {"required": True, "allow_blank": False}}


class WebhookChange(ModelChange):
    events = EventList(allow_empty=False, max_length=len(kinds.KINDS), required=False)
    agents = AGENTS

    class Meta:
        model = Webhook
        fields = ("agents", "name", "url", "events", "is_paused")
        extra_kwargs = {
            "url": {"allow_blank": False, "help_text": "Another one. Left out, the address stays."}
        }


class WebhookOutput(ModelOutput[Webhook]):
    """A webhook without its secret and its whole address, which no call gives a second time."""

    url = serializers.SerializerMethodField(
        help_text=("The origin of the address, with “/…” if a path follows; empty if it cannot be decrypted.")
    )
    state = serializers.ChoiceField(choices=["active", "failing", "paused"], read_only=True)
    events = EventList(read_only=True)
    owner = serializers.CharField(
        source="owner.username", read_only=True, allow_null=True, default=None,
        help_text="The owner; null for a webhook of the administrators.",
    )  # fmt: skip
    agents = serializers.SerializerMethodField(
        help_text="The agents that are named for it, as far as you may see them; null if it gets the "
        "events of all."
    )

    class Meta:
        model = Webhook
        fields = [
            "id", "name", "owner", "url", "agents", "events", "state", "is_paused", "paused_why",
            "failures", "last_sent_at",
            "created_at",
        ]  # fmt: skip

    def get_url(self, row: Webhook) -> str:
        return webhooks.shown_address(row)

    @extend_schema_field(serializers.ListField(child=serializers.SlugField(), allow_null=True))
    def get_agents(self, row: Webhook) -> list[str] | None:
        return [agent.slug for agent in agent_webhooks.agents_of(row)] if row.is_narrowed else None


class NewWebhookOutput(WebhookOutput):
    secret = serializers.CharField(
        read_only=True, help_text="The secret that signs every delivery. It is shown once."
    )

    class Meta(WebhookOutput.Meta):
        fields = [*WebhookOutput.Meta.fields, "secret"]


class SecretOutput(serializers.Serializer[Any]):
    secret = serializers.CharField(read_only=True, help_text="The new secret. It is shown once.")


class DeliveryOutput(ModelOutput[Delivery]):
    event = serializers.CharField(source="notice.event", read_only=True)
    title = serializers.CharField(source="notice.title", read_only=True)
    state = serializers.ChoiceField(choices=SendingState.choices, read_only=True)

    class Meta:
        model = Delivery
        fields = ["id", "event", "title", "state", "attempts", "status", "error", "created_at", "sent_at"]


class WebhookList(ListAPIView[Webhook]):
    """Your own webhooks, and for administrators all webhooks."""

    read_role = write_role = Role.DESIGNER
    serializer_class = WebhookOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Webhook]:
        return agent_webhooks.visible_to(person(self.request))

    @extend_schema(request=WebhookInput, responses={201: NewWebhookOutput})
    def post(self, request: Request) -> Response:
        entries = valid_data(WebhookInput(data=request.data))
        actor, values = person(request), dict(entries)
        named_agents = agent_keys.find_agents(actor, values.pop("agents", []))
        row, secret = agent_webhooks.create(actor=actor, agents=named_agents, **values)
        answer = {**WebhookOutput(self.get_queryset().get(pk=row.pk)).data, "secret": secret.reveal()}
        return Response(answer, status=201, headers={"Cache-Control": "no-store"})


class OneWebhook(GenericAPIView[Any]):
    read_role = write_role = Role.DESIGNER
    queryset = Webhook.objects.none()

    def find_webhook(self, pk: Any) -> Webhook:
        return get_object_or_404(agent_webhooks.visible_to(person(self.request)), pk=pk)


class WebhookDetail(OneWebhook):
    serializer_class = WebhookOutput

    def get(self, request: Request, pk: Any) -> Response:
        return _respond(self.find_webhook(pk))

    @extend_schema(parameters=[IF_MATCH], request=WebhookChange)
    def patch(self, request: Request, pk: Any) -> Response:
        """`is_paused`: true stores events for up to three days, false sends them."""
        values = valid_data(WebhookChange(data=request.data))
        row, actor, changes = self.find_webhook(pk), person(request), dict(values)
        is_paused, slugs_ = changes.pop("is_paused", None), changes.pop("agents", None)
        named_agents = None if slugs_ is None else agent_keys.find_agents(actor, slugs_)
        agent_webhooks.update(
            row, actor=actor, agents=named_agents, expected=expected_state(request), **changes
        )
        if is_paused is not None:
            (webhooks.pause if is_paused else webhooks.resume)(row, actor=actor)
        return _respond(self.find_webhook(pk))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: Any) -> Response:
        webhooks.remove(self.find_webhook(pk), actor=person(request))
        return Response(status=204)


class WebhookTest(OneWebhook):
    """Send a delivery of the type “test” at once. `error` has the reason if it was refused."""

    takes_idempotency_keys = False
    serializer_class = DeliveryOutput

    @extend_schema(request=None, responses={200: DeliveryOutput})
    def post(self, request: Request, pk: Any) -> Response:
        row = self.find_webhook(pk)
        delivery = webhooks.send_test(row, actor=person(request))
        return Response(DeliveryOutput(delivery).data)


class WebhookSecret(OneWebhook):
    """Create a new secret. It replaces the old one at once."""

    serializer_class = SecretOutput

    @extend_schema(request=None, responses={201: SecretOutput})
    def post(self, request: Request, pk: Any) -> Response:
        row = self.find_webhook(pk)
        secret = webhooks.replace_secret(row, actor=person(request))
        return Response({"secret": secret.reveal()}, status=201, headers={"Cache-Control": "no-store"})


class DeliveryList(ListAPIView[Delivery]):
    """The deliveries of the last month, the newest first."""

    read_role = Role.DESIGNER
    serializer_class = DeliveryOutput
    ordering = ("-created_at", "-id")

    def get_queryset(self) -> QuerySet[Delivery]:
        row = get_object_or_404(agent_webhooks.visible_to(person(self.request)), pk=self.kwargs["pk"])
        return Delivery.objects.filter(webhook=row).select_related("notice")


def _respond(row: Webhook) -> Response:
    return Response(WebhookOutput(row).data, headers=etag_of(webhooks.facts(row)))


class ReportInput(Input):
    key = serializers.CharField(max_length=200, help_text="The complete API key that was found.")
    place = serializers.CharField(
        max_length=reports.MAX_PLACE_LENGTH,
        required=False,
        allow_blank=True,
        help_text="The location where it was found.",
    )


class ReportOutput(serializers.Serializer[Any]):
    message = serializers.CharField()


@extend_schema(tags=["keys"])
class KeyReport(GenericAPIView[Any]):
    """Revoke a leaked key. Any caller may report one; possession of the key is the proof.

    The answer is the same whether the key exists or not. Its owner is notified. 30 reports a minute from one
    address are accepted.
    """

    authentication_classes = ()
    permission_classes = (AllowAny,)
    throttle_classes = (ReportLimit,)
    serializer_class = ReportOutput
    queryset = Delivery.objects.none()

    @extend_schema(operation_id="token_report", request=ReportInput, responses={202: ReportOutput})
    def post(self, request: Request) -> Response:
        values = valid_data(ReportInput(data=request.data))
        reports.report(values["key"], place=values.get("place", ""))
        answer = {"message": "Thank you. If this was a key of this Pegboard, it works no longer."}
        return Response(answer, status=202, headers={"Cache-Control": "no-store"})
