from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core import slugs
from core.errors import invalid
from core.serializers import ModelChange, ModelInput, ModelOutput, valid_data
from designer.agents import agent_keys
from people import api_keys
from people.api.generics import GenericAPIView, ListAPIView
from people.models import ApiKey, KeyScope, Role
from people.permissions import person


class KeyChange(ModelChange):
    expected_environment = serializers.CharField(
        max_length=30,
        required=False,
        allow_blank=True,
        help_text=("The expiry time that you saw. If it has changed, the answer is 409 `changed_meanwhile`."),
    )

    class Meta:
        model = ApiKey
        fields = ("calls_at_once", "environment", "expected_environment")


class KeyInput(ModelInput):
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=KeyScope.choices), allow_empty=False, max_length=len(KeyScope)
    )
    expires_at = serializers.DateTimeField(
        required=False, help_text="The expiry time, at most 366 days ahead; 90 days by default."
    )
    agents = serializers.ListField(
        child=serializers.SlugField(max_length=slugs.MAX_LENGTH),
        required=False,
        allow_empty=False,
        max_length=agent_keys.MAX_AGENTS,
        help_text=(
            "Slugs of agents: the key reaches these alone. For keys of the scopes `runtime` and `invoke`; "
            "`invoke` needs at least one. Sub-agents are named by themselves."
        ),
    )

    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "expires_at", "agents", "calls_at_once", "environment")
        extra_kwargs = {
            "environment": {
                "allow_blank": False,
                "help_text": "An environment that each of the `agents` has: the key runs their tools there "
                "alone. Without it, a call runs in the environment that it names, or in the default one.",
            }
        }


class KeyOutput(ModelOutput[ApiKey]):
    owner = serializers.CharField(source="user.username", read_only=True)
    state = serializers.ChoiceField(choices=["active", "expired", "revoked"], read_only=True)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=KeyScope.choices), read_only=True)
    is_of_signed_in = serializers.BooleanField(
        read_only=True,
        help_text=("True if the key has no secret, because the identity provider authenticates its clients."),
    )
    agents = serializers.SerializerMethodField(
        help_text="The agents that are named for it, as far as you may see them; null if the key is not"
        " limited to agents."
    )

    class Meta:
        model = ApiKey
        fields = [
            "id", "name", "prefix", "owner", "scopes", "is_of_signed_in", "agents", "calls_at_once",
            "environment", "state", "created_at", "expires_at", "last_used_at", "revoked_at", "reported_at",
        ]  # fmt: skip

    @extend_schema_field(serializers.ListField(child=serializers.SlugField(), allow_null=True))
    def get_agents(self, key: ApiKey) -> list[str] | None:
        return [agent.slug for agent in agent_keys.agents_of(key)] if key.is_narrowed else None


class NewKeyOutput(KeyOutput):
    key = serializers.CharField(
        read_only=True, help_text="The API key. It is shown once; only its digest is stored."
    )

    class Meta(KeyOutput.Meta):
        fields = [*KeyOutput.Meta.fields, "key"]


class KeyList(ListAPIView[ApiKey]):
    """Your own API keys, and for administrators the keys of all users."""

    write_role = Role.VIEWER
    serializer_class = KeyOutput
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[ApiKey]:
        return agent_keys.visible_to(person(self.request))

    @extend_schema(request=KeyInput, responses={201: NewKeyOutput})
    def post(self, request: Request) -> Response:
        entries = valid_data(KeyInput(data=request.data))
        owner, values = person(request), dict(entries)
        key_agents = agent_keys.find_agents(owner, values.pop("agents", []))
        key, plain = agent_keys.issue(owner, actor=owner, agents=key_agents, **values)
        row = self.get_queryset().get(pk=key.pk)
        answer: dict[str, Any] = {**KeyOutput(row).data, "key": plain}
        return Response(answer, status=201, headers={"Cache-Control": "no-store"})


class KeyDetail(GenericAPIView[ApiKey]):
    write_role = Role.VIEWER
    serializer_class = KeyOutput

    def get_queryset(self) -> QuerySet[ApiKey]:
        return agent_keys.visible_to(person(self.request))

    def get(self, request: Request, pk: int) -> Response:
        return Response(KeyOutput(get_object_or_404(self.get_queryset(), pk=pk)).data)

    @extend_schema(request=KeyChange)
    def patch(self, request: Request, pk: int) -> Response:
        """Change the number of tool calls that may run at once with the key, or the environment in which they
        run. Other members cannot be changed.
        """
        entries = valid_data(KeyChange(data=request.data))
        values, actor = entries, person(request)
        key = get_object_or_404(self.get_queryset(), pk=pk)
        if not values.keys() & {"calls_at_once", "environment"}:
            raise invalid(calls_at_once="Send this or “environment”.")
        with transaction.atomic():
            if "environment" in values:
                expected = values.get("expected_environment")
                agent_keys.change_environment(
                    key, actor=actor, environment=values["environment"], expected=expected
                )
            if "calls_at_once" in values:
                api_keys.limit_calls(key, actor=actor, calls_at_once=values["calls_at_once"])
        return Response(KeyOutput(key).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke the key. It stops working at once, and stays in the list."""
        api_keys.revoke(get_object_or_404(self.get_queryset(), pk=pk), actor=person(request))
        return Response(status=204)


class KeyRestore(GenericAPIView[ApiKey]):
    write_role = Role.ADMIN
    serializer_class = KeyOutput

    @extend_schema(request=None, responses={200: KeyOutput})
    def post(self, request: Request, pk: int) -> Response:
        """Enable a revoked key without a secret again. A key with a secret cannot be restored."""
        key = get_object_or_404(agent_keys.visible_to(person(request)), pk=pk)
        api_keys.restore(key, actor=person(request))
        return Response(KeyOutput(key).data)
