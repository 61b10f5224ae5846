from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.notifications import reports, subscriptions, webhooks
from catalog.notifications.models import Delivery, Event, SendingState, Subscription, Webhook
from core.outbound.addresses import MAX_URL_LENGTH
from core.serializers import Input
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected
from people.models import Role
from people.permissions import person
from people.throttling import ReportLimit


class EventList(serializers.ListField):
    child = serializers.ChoiceField(choices=Event.choices)


class SubscriptionInput(Input):
    event = serializers.ChoiceField(choices=Event.choices)


class SubscriptionOutput(serializers.ModelSerializer[Subscription]):
    class Meta:
        model = Subscription
        fields = ["event", "created_at"]
        read_only_fields = fields


class SubscriptionList(ListAPIView[Subscription]):
    """What you hear of by mail. Your address is confirmed on the page /notifications/."""

    write_role = Role.VIEWER
    serializer_class = SubscriptionOutput
    ordering = ("event", "id")

    def get_queryset(self) -> QuerySet[Subscription]:
        return Subscription.objects.filter(user=person(self.request))

    @extend_schema(request=SubscriptionInput, responses={201: SubscriptionOutput})
    def post(self, request: Request) -> Response:
        given = SubscriptionInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = subscriptions.subscribe(person(request), given.validated_data["event"])
        return Response(SubscriptionOutput(row).data, status=201)


EVENT = OpenApiParameter("event", {"type": "string", "enum": Event.values}, OpenApiParameter.PATH)


class SubscriptionDetail(GenericAPIView[Subscription]):
    write_role = Role.VIEWER
    serializer_class = SubscriptionOutput
    pagination_class = None

    @extend_schema(parameters=[EVENT], responses={204: None})
    def delete(self, request: Request, event: str) -> Response:
        get_object_or_404(Subscription, user=person(request), event=event)
        subscriptions.unsubscribe(person(request), event)
        return Response(status=204)


class WebhookInput(Input):
    name = serializers.CharField(max_length=100)
    url = serializers.CharField(max_length=MAX_URL_LENGTH, help_text="Where deliveries are posted to.")
    events = EventList(allow_empty=False, max_length=len(Event))


class WebhookChange(Input):
    name = serializers.CharField(max_length=100, required=False)
    url = serializers.CharField(
        max_length=MAX_URL_LENGTH, required=False, help_text="Another one. Left out, the address stays."
    )
    events = EventList(allow_empty=False, max_length=len(Event), required=False)
    is_paused = serializers.BooleanField(required=False)


class WebhookOutput(serializers.ModelSerializer[Webhook]):
    """Without its secret and its whole address, which no call gives a second time."""

    url = serializers.SerializerMethodField(
        help_text="Its origin, with “/…” where more follows; empty when it cannot be decrypted any more."
    )
    state = serializers.ChoiceField(choices=["active", "failing", "paused"], read_only=True)
    events = EventList(read_only=True)

    class Meta:
        model = Webhook
        fields = [
            "id", "name", "url", "events", "state", "is_paused", "paused_why", "failures", "last_sent_at",
            "created_at",
        ]  # fmt: skip
        read_only_fields = fields

    def get_url(self, row: Webhook) -> str:
        return webhooks.shown_address(row)


class NewWebhookOutput(WebhookOutput):
    secret = serializers.CharField(read_only=True, help_text="Shown this once; it signs every delivery.")

    class Meta(WebhookOutput.Meta):
        fields = [*WebhookOutput.Meta.fields, "secret"]
        read_only_fields = fields


class SecretOutput(serializers.Serializer[Any]):
    secret = serializers.CharField(read_only=True, help_text="Shown this once.")


class DeliveryOutput(serializers.ModelSerializer[Delivery]):
    event = serializers.CharField(source="notice.event", read_only=True)
    title = serializers.CharField(source="notice.title", read_only=True)
    state = serializers.ChoiceField(choices=SendingState.choices, read_only=True)

    class Meta:
        model = Delivery
        fields = ["id", "event", "title", "state", "attempts", "status", "error", "created_at", "sent_at"]
        read_only_fields = fields


class WebhookList(ListAPIView[Webhook]):
    read_role = write_role = Role.ADMIN
    serializer_class = WebhookOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Webhook]:
        return webhooks.live()

    @extend_schema(request=WebhookInput, responses={201: NewWebhookOutput})
    def post(self, request: Request) -> Response:
        given = WebhookInput(data=request.data)
        given.is_valid(raise_exception=True)
        row, secret = webhooks.create(actor=person(request), **given.validated_data)
        answer = {**WebhookOutput(webhooks.live().get(pk=row.pk)).data, "secret": secret.reveal()}
        return Response(answer, status=201, headers={"Cache-Control": "no-store"})


class WebhookDetail(GenericAPIView[Webhook]):
    read_role = write_role = Role.ADMIN
    serializer_class = WebhookOutput
    queryset = webhooks.live()
    pagination_class = None

    def get(self, request: Request, pk: Any) -> Response:
        return _answer(get_object_or_404(self.get_queryset(), pk=pk))

    @extend_schema(parameters=[IF_MATCH], request=WebhookChange)
    def patch(self, request: Request, pk: Any) -> Response:
        """`is_paused`: true keeps what happens for up to three days, false sends it."""
        given = WebhookChange(data=request.data)
        given.is_valid(raise_exception=True)
        row = get_object_or_404(self.get_queryset(), pk=pk)
        changes = dict(given.validated_data)
        is_paused = changes.pop("is_paused", None)
        webhooks.update(row, actor=person(request), expected=expected(request), **changes)
        if is_paused is not None:
            (webhooks.pause if is_paused else webhooks.resume)(row, actor=person(request))
        return _answer(get_object_or_404(self.get_queryset(), pk=pk))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: Any) -> Response:
        row = get_object_or_404(self.get_queryset(), pk=pk)
        webhooks.remove(row, actor=person(request))
        return Response(status=204)


class WebhookTest(GenericAPIView[Any]):
    """Sends a delivery of the type “test” at once; `error` says why it was not taken."""

    write_role = Role.ADMIN
    serializer_class = DeliveryOutput
    queryset = webhooks.live()
    pagination_class = None

    @extend_schema(request=None, responses={200: DeliveryOutput})
    def post(self, request: Request, pk: Any) -> Response:
        row = get_object_or_404(self.get_queryset(), pk=pk)
        delivery = webhooks.send_test(row, actor=person(request))
        return Response(DeliveryOutput(delivery).data)


class WebhookSecret(GenericAPIView[Any]):
    """A new secret; the old one signs nothing from now on."""

    write_role = Role.ADMIN
    serializer_class = SecretOutput
    queryset = webhooks.live()
    pagination_class = None

    @extend_schema(request=None, responses={201: SecretOutput})
    def post(self, request: Request, pk: Any) -> Response:
        row = get_object_or_404(self.get_queryset(), pk=pk)
        secret = webhooks.replace_secret(row, actor=person(request))
        return Response({"secret": secret.reveal()}, status=201, headers={"Cache-Control": "no-store"})


class DeliveryList(ListAPIView[Delivery]):
    """The newest first; kept for a month."""

    read_role = Role.ADMIN
    serializer_class = DeliveryOutput
    ordering = ("-created_at", "-id")

    def get_queryset(self) -> QuerySet[Delivery]:
        row = get_object_or_404(webhooks.live(), pk=self.kwargs["pk"])
        return Delivery.objects.filter(webhook=row).select_related("notice")


def _answer(row: Webhook) -> Response:
    return Response(WebhookOutput(row).data, headers=etag_of(webhooks.facts(row)))


class ReportInput(Input):
    key = serializers.CharField(max_length=200, help_text="The whole key, as it was found.")
    place = serializers.CharField(
        max_length=reports.MAX_PLACE_LENGTH, required=False, allow_blank=True, help_text="Where it was found."
    )


class ReportOutput(serializers.Serializer[Any]):
    message = serializers.CharField()


@extend_schema(tags=["keys"])
class KeyReport(GenericAPIView[Any]):
    """Ends a key that leaked. Any caller may send one; to have it is all the proof that is asked for.

    The answer is the same whether there was such a key or not. Its owner is told. 30 reports a minute from
    one address are taken.
    """

    authentication_classes = ()
    permission_classes = (AllowAny,)
    throttle_classes = (ReportLimit,)
    serializer_class = ReportOutput
    queryset = Delivery.objects.none()
    pagination_class = None

    @extend_schema(operation_id="token_report", request=ReportInput, responses={202: ReportOutput})
    def post(self, request: Request) -> Response:
        given = ReportInput(data=request.data)
        given.is_valid(raise_exception=True)
        reports.report(given.validated_data["key"], place=given.validated_data.get("place", ""))
        answer = {"message": "Thank you. If this was a key of this Pegboard, it works no longer."}
        return Response(answer, status=202, headers={"Cache-Control": "no-store"})
