"""REST for tools that are defined in Pegboard, as on the page “Define a tool”."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import (
    OpenApiParameter,
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tool
from catalog.models.tools import ToolStatus
from catalog.tools import definition_import, definitions
from core.errors import invalid
from core.serializers import Input, input_field, valid_data
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import Role
from people.permissions import person
from protocols.definition import NAME, Parts

CHANGES_SHOWN = 50


# `definitions` validates it and explains the errors.
@extend_schema_field({"type": "string", "pattern": f"^{NAME}$"})
class Name(serializers.CharField):
    pass


@extend_schema_field({"type": "object", "additionalProperties": True})
class SchemaField(serializers.JSONField):
    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise serializers.ValidationError("Send a JSON Schema, which is an object.")
        return super().to_internal_value(data)


class DefinitionChange(Input):
    name = Name(required=False)
    title = input_field(definitions.TITLE)
    description = input_field(definitions.DESCRIPTION, required=False)
    inputs = SchemaField(
        required=False,
        help_text="A JSON Schema of `type: object`. Names that begin with an underscore are refused.",
    )
    output = SchemaField(required=False, help_text="The JSON Schema of the output.")
    activity = serializers.CharField(
        required=False,
        allow_blank=True,
        allow_null=True,
        max_length=100,
        help_text=(
            "The id of the activity that runs for it; empty if the model answers itself. Null "
            "leaves the choice to the environments of agents, or to an activity of the same name."
        ),
    )


class DefinitionInput(DefinitionChange):
    name = Name()
    description = input_field(definitions.DESCRIPTION)
    inputs = SchemaField(
        help_text="A JSON Schema of `type: object`. Names that begin with an underscore are refused."
    )
    output = SchemaField(help_text="The JSON Schema of the output.")


@extend_schema_field({"type": "array", "items": {"type": "object", "additionalProperties": True}})
class ToolsAsSent(serializers.JSONField):
    pass


@extend_schema_field({"type": "object", "additionalProperties": True})
class ComposedCalls(serializers.JSONField):
    pass


class DefinitionsInput(Input):
    tools = ToolsAsSent(
        required=False,
        help_text=f"Up to {definition_import.MAX_TOOLS}: each as `POST definitions/` takes it, or in the "
        "form of the Tool System.",
    )
    calls = ComposedCalls(
        required=False,
        help_text=(
            "The calls as an array in the format `tool-system`; replaces `tools`. Its `_activity` is ignored."
        ),
    )

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        if len(values) != 1:
            raise serializers.ValidationError({"tools": "Send “tools”, or “calls” instead."})
        return values


class DefinitionOutput(serializers.Serializer[Any]):
    """Its `id` is that of a tool: versions, tunings and agents that use it are found below `tools/`."""

    id = serializers.IntegerField(source="tool.pk")
    name = serializers.CharField(source="parts.name")
    title = serializers.CharField(source="parts.title")
    description = serializers.CharField(source="parts.description")
    inputs = SchemaField(source="parts.inputs")
    output = SchemaField(source="parts.output")
    activity = serializers.CharField(source="parts.activity", allow_null=True)
    version = serializers.CharField(source="tool.current.label")
    status = serializers.ChoiceField(source="tool.status", choices=ToolStatus.choices)
    created_at = serializers.DateTimeField(source="tool.first_seen_at")
    changed_at = serializers.DateTimeField(source="tool.changed_at")

    def to_representation(self, tool: Tool) -> dict[str, Any]:
        # Its own words, and not those of a tuning, which the row repeats.
        return super().to_representation({"tool": tool, "parts": definitions.parts_of(tool)})


class DefinitionsOutput(serializers.Serializer[Any]):
    definitions = DefinitionOutput(many=True, help_text="The definitions in the order of the request.")


class ChangeOutput(serializers.Serializer[Any]):
    action = serializers.CharField()
    by = serializers.CharField(source="actor_name")
    at = serializers.DateTimeField()


class DefinitionDetailOutput(DefinitionOutput):
    changes = serializers.SerializerMethodField(
        help_text="The changes of the definition with their authors, the newest first."
    )

    @extend_schema_field(ChangeOutput(many=True))
    def get_changes(self, row: dict[str, Any]) -> Any:
        return ChangeOutput(definitions.history(row["tool"])[:CHANGES_SHOWN], many=True).data


@extend_schema(tags=["definitions"])
class DefinitionList(ListAPIView[Tool]):
    """The tools that are defined in Pegboard. `GET tools/` lists them together with vendors' tools."""

    write_role = Role.DESIGNER
    serializer_class = DefinitionOutput
    ordering = ("name", "id")

    def get_queryset(self) -> QuerySet[Tool]:
        status = self.request.query_params.get("status", ToolStatus.ACTIVE)
        if status not in ToolStatus.values:
            raise invalid(status=f"A status is one of: {', '.join(ToolStatus.values)}.")
        return definitions.all_of_them().filter(status=status).select_related("current")

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "status",
                str,
                enum=ToolStatus.values,
                description="The status of the listed definitions; `active` by default.",
            )
        ]
    )
    def get(self, request: Request) -> Response:
        return super().get(request)

    @extend_schema(request=DefinitionInput, responses={201: DefinitionDetailOutput})
    def post(self, request: Request) -> Response:
        """Define a tool."""
        values = valid_data(DefinitionInput(data=request.data))
        parts = Parts(**{"title": "", "activity": None} | values)
        return _respond(definitions.define(actor=person(request), parts=parts), status=201)


@extend_schema(tags=["definitions"])
class DefinitionImport(GenericAPIView[Tool]):
    """Define many tools, all or none.

    The body is the array of tools, or an object around it. `fields` of a refusal has the path
    of each fault: `tools.3.inputs` are the inputs of the fourth tool.
    """

    write_role = Role.DESIGNER
    takes_arrays = True
    serializer_class = DefinitionsOutput

    @extend_schema(
        operation_id="definitions_import",
        request=PolymorphicProxySerializer(
            component_name="DefinitionsImport",
            serializers=[DefinitionsInput, DefinitionInput(many=True)],
            resource_type_field_name=None,
            many=False,
        ),
        responses={201: DefinitionsOutput},
    )
    def post(self, request: Request) -> Response:
        document = request.data
        values = valid_data(
            DefinitionsInput(data={"tools": document} if isinstance(document, list) else document)
        )
        created = definition_import.define_all(values, actor=person(request))
        # Read again for the times, which the database sets.
        tools = definitions.all_of_them().select_related("current").in_bulk([tool.pk for tool in created])
        answer = {"definitions": [tools[tool.pk] for tool in created]}
        return Response(DefinitionsOutput(answer).data, status=201)


@extend_schema(tags=["definitions"])
class DefinitionDetail(GenericAPIView[Tool]):
    write_role = Role.DESIGNER
    serializer_class = DefinitionDetailOutput

    def get(self, request: Request, pk: int) -> Response:
        return _respond(chosen_definition(pk))

    @extend_schema(parameters=[IF_MATCH], request=DefinitionChange)
    def patch(self, request: Request, pk: int) -> Response:
        """Create a new version with the given members changed. Pins keep their version."""
        changes = valid_data(DefinitionChange(data=request.data))
        tool = chosen_definition(pk)
        return _respond(
            definitions.change(tool, actor=person(request), changes=changes, expected=expected_state(request))
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Withdraw the definition: it cannot be pinned any more. Existing pins and releases keep it."""
        definitions.withdraw(chosen_definition(pk), actor=person(request))
        return Response(status=204)


@extend_schema(tags=["definitions"])
class DefinitionRestore(GenericAPIView[Tool]):
    """Offer a withdrawn definition again."""

    write_role = Role.DESIGNER
    serializer_class = DefinitionDetailOutput

    @extend_schema(request=None)
    def post(self, request: Request, pk: int) -> Response:
        return _respond(definitions.offer_again(chosen_definition(pk), actor=person(request)))


def chosen_definition(pk: int) -> Tool:
    return get_object_or_404(definitions.all_of_them().select_related("current"), pk=pk)


def _respond(tool: Tool, status: int = 200) -> Response:
    # Read again for the times, which the database sets.
    tool = chosen_definition(tool.pk)
    headers = etag_of(definitions.facts(tool))
    return Response(DefinitionDetailOutput(tool).data, status=status, headers=headers)
