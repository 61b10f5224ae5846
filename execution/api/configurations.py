"""REST for configurations of tools, in protocols that have them."""

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Configuration, Tool
from core.serializers import ModelInput, ModelOutput, valid_data
from execution.threads import configurations
from people.api.generics import GenericAPIView, ListAPIView
from people.models import Role
from people.permissions import person


class ConfigurationInput(ModelInput):
    values = serializers.JSONField(
        help_text="The values, by the vendor's schema of configurations. No secrets."
    )

    class Meta:
        model = Configuration
        fields = ("name", "values")


class ConfigurationOutput(ModelOutput[Configuration]):
    """One state of a configuration. It never changes."""

    values = serializers.JSONField(read_only=True)

    class Meta:
        model = Configuration
        fields = ["name", "number", "values", "created_name", "created_at"]


class ConfigurationStates(ConfigurationOutput):
    states = serializers.SerializerMethodField(help_text="All states of the configuration, the newest first.")

    class Meta(ConfigurationOutput.Meta):
        fields = [*ConfigurationOutput.Meta.fields, "states"]

    @extend_schema_field(ConfigurationOutput(many=True))
    def get_states(self, row: Configuration) -> Any:
        states = configurations.mask_values(row.tool, configurations.states(row.tool, row.name))
        return ConfigurationOutput(states, many=True).data


@extend_schema(tags=["configurations"])
class ConfigurationList(ListAPIView[Configuration]):
    """The newest state of each configuration of a tool."""

    write_role = Role.DESIGNER
    serializer_class = ConfigurationOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Configuration]:
        return configurations.newest(get_object_or_404(Tool, pk=self.kwargs["pk"]))

    def paginate_queryset(self, queryset: Any) -> Any:
        tool = get_object_or_404(Tool, pk=self.kwargs["pk"])
        return configurations.mask_values(tool, super().paginate_queryset(queryset) or ())

    @extend_schema(request=ConfigurationInput, responses={201: ConfigurationOutput})
    def post(self, request: Request, pk: int) -> Response:
        """Store values under a name. Other values under an existing name become its next state."""
        entries = valid_data(ConfigurationInput(data=request.data))
        tool = get_object_or_404(Tool, pk=pk)
        configuration = configurations.save(tool, actor=person(request), **entries)
        (shown,) = configurations.mask_values(tool, [configuration])
        return Response(ConfigurationOutput(shown).data, status=201)


@extend_schema(tags=["configurations"])
class ConfigurationDetail(GenericAPIView[Configuration]):
    write_role = Role.DESIGNER
    serializer_class = ConfigurationStates
    queryset = Configuration.objects.none()

    def get(self, request: Request, pk: int, name: str) -> Response:
        configuration = _get_configuration(pk, name)
        (shown,) = configurations.mask_values(configuration.tool, [configuration])
        return Response(ConfigurationStates(shown).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int, name: str) -> Response:
        """Withdraw the configuration. Agents and releases that use it keep it."""
        configuration = _get_configuration(pk, name)
        configurations.remove(configuration.tool, actor=person(request), name=configuration.name)
        return Response(status=204)


def _get_configuration(pk: int, name: str) -> Configuration:
    configuration = configurations.states(get_object_or_404(Tool, pk=pk), name).first()
    if configuration is None:
        raise Http404
    return configuration
