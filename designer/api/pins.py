from typing import Any, ClassVar, get_args

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api.retries import RetryChange, RetryStated, WhenItFailsOutput, nest_retry_members, when_it_fails
from catalog.api.versions import VersionChoice, VersionOf
from catalog.models import Tool
from catalog.models.tools import ItemKind
from catalog.rules import retries
from catalog.tools import definitions
from core import slugs
from core.errors import DomainError, invalid
from core.serializers import Input, ModelOutput, valid_data
from designer.api.agents import chosen_agent
from designer.models import Agent, Pin, PinQuerySet
from designer.models.pins import PinMode
from designer.pins import pins
from designer.pins.masking import masked_signature
from designer.pins.pinned_signatures import effective_of, misfits_of, pinned_items, retry_of, stale_of
from designer.signatures import effective
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.audit import edit_conflicts
from people.models import Role
from people.permissions import key_of, person
from protocols.signature import Effect

MODE_HELP = (
    "What a runtime gets with `fresh=1`: with `cached` the signature of the release, with "
    "`fresh` the vendor's own of now, while it only adds to that one: new optional "
    "inputs and new outputs. What is there stays worded as it was."
)


# `pins` checks it, because its error proposes an alias that can be had.
@extend_schema_field({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,63}$"})
class Alias(serializers.CharField):
    pass


class PinChange(RetryChange, VersionChoice):
    mode = serializers.ChoiceField(choices=PinMode.values, required=False, help_text=MODE_HELP)
    configuration = serializers.CharField(
        max_length=80,
        required=False,
        allow_null=True,
        help_text="A configuration of the tool: `name` for its newest state, `name@3` for the third. Every "
        "call is made with its values, and a model is not shown that input. Null leaves it to each call.",
    )
    alias = Alias(
        required=False,
        allow_blank=True,
        help_text="An empty text restores the name that is derived from the vendor's.",
    )


class PinInput(PinChange):
    """Either a tool or a definition."""

    tool = serializers.IntegerField(
        min_value=1, max_value=2**63 - 1, required=False, help_text="The id of a tool."
    )
    definition = serializers.IntegerField(
        min_value=1,
        max_value=2**63 - 1,
        required=False,
        help_text="The id of a defined tool; replaces `tool`.",
    )

    def validate_tool(self, pk: int) -> Tool:
        tool = Tool.objects.filter(pk=pk).first()
        if tool is None:
            raise serializers.ValidationError("There is no such tool.")
        return tool

    def validate_definition(self, pk: int) -> Tool:
        tool = definitions.all_of_them().filter(pk=pk).first()
        if tool is None:
            raise serializers.ValidationError("There is no such definition.")
        return tool

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        if ("tool" in values) == ("definition" in values):
            raise serializers.ValidationError({"tool": "Send the id of a tool, or that of a definition."})
        defined = values.pop("definition", None)
        return {"tool": defined, **values} if defined else values


class PinsInput(Input):
    pins = serializers.ListField(child=PinInput(), allow_empty=False, max_length=pins.MAX_PINS_PER_REQUEST)


class PinOutput(RetryStated, VersionOf, ModelOutput[Pin]):
    """`current` is the version that the vendor offers now, and that was let through."""

    tool_id = serializers.CharField(
        source="tool.tool_id", read_only=True, help_text="The vendor's id of the tool."
    )
    kind = serializers.ChoiceField(source="tool.kind", choices=ItemKind.choices, read_only=True)
    vendor = serializers.CharField(source="tool.endpoint.vendor.slug", read_only=True)
    current = serializers.CharField(
        source="tool.current.label", read_only=True, help_text="The vendor's name of the current version."
    )
    current_ordinal = serializers.IntegerField(source="tool.current.ordinal", read_only=True)
    current_name = serializers.CharField(source="tool.current.name", read_only=True)
    status = serializers.CharField(source="tool.status", read_only=True)
    effect = serializers.SerializerMethodField(help_text="The most severe effect of a call.")
    effective = serializers.SerializerMethodField()
    misfits = serializers.SerializerMethodField()
    when_it_fails = serializers.SerializerMethodField()
    configuration = serializers.SerializerMethodField(
        help_text="The configuration as `name@number`; null for none."
    )
    stale = serializers.SerializerMethodField(
        help_text="Members of the agent's words whose vendor's text has changed since."
    )

    class Meta:
        model = Pin
        fields = [
            "id",
            "tool",
            "tool_id",
            "kind",
            "vendor",
            "version",
            "ordinal",
            "version_name",
            "current",
            "current_ordinal",
            "current_name",
            "status",
            "alias",
            "name",
            *retries.RetryPolicy.__struct_fields__,
            "when_it_fails",
            "mode",
            "configuration",
            "effect",
            "effective",
            "misfits",
            "stale",
            "created_at",
        ]

    @extend_schema_field(serializers.ChoiceField(choices=get_args(Effect)))
    def get_effect(self, pin: Pin) -> Effect:
        return effective_of(pin).annotations.effect

    @extend_schema_field({"type": ["string", "null"]})
    def get_configuration(self, pin: Pin) -> str | None:
        return str(pin.configuration) if pin.configuration else None

    @extend_schema_field(WhenItFailsOutput)
    def get_when_it_fails(self, pin: Pin) -> dict[str, Any]:
        return when_it_fails(retry_of(pin))

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_effective(self, pin: Pin) -> Any:
        return effective.as_document(masked_signature(pin.tool_id, effective_of(pin)))

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_misfits(self, pin: Pin) -> list[str]:
        return [misfit.message for misfit in misfits_of(pin)]

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_stale(self, pin: Pin) -> list[str]:
        return [row.member for row in stale_of(pin)]


class NotPinnedOutput(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()
    fields = serializers.DictField(child=serializers.CharField())  # type: ignore[assignment]


class PinnedOutput(serializers.Serializer[Any]):
    """One of the two is null."""

    tool = serializers.IntegerField()
    pin = PinOutput(allow_null=True)
    error = NotPinnedOutput(allow_null=True)


class PinsOutput(serializers.Serializer[Any]):
    results = PinnedOutput(many=True, help_text="The results in the order of the request.")


def pins_at(request: Request, slug: str) -> PinQuerySet:
    """Return the agent's pins of every kind of item."""
    return pinned_items([chosen_agent(request, slug)]).select_related("agent", "tool__current")


def chosen_pin(request: Request, slug: str, pk: int) -> Pin:
    rows = Pin.objects.live().filter(agent=chosen_agent(request, slug))
    return get_object_or_404(rows.select_related("agent", "tool"), pk=pk)


@extend_schema(tags=["pins"])
class PinList(ListAPIView[Pin]):
    """The agent's pins of tools. `prompts/` and `resources/` list those of the other kinds."""

    write_role = Role.DESIGNER
    serializer_class = PinOutput
    ordering = ("name", "id")
    kinds: ClassVar[tuple[ItemKind, ...]] = (ItemKind.TOOL,)
    accepts: ClassVar[tuple[ItemKind, ...]] = tuple(ItemKind)

    def get_queryset(self) -> QuerySet[Pin]:
        return pins_at(self.request, self.kwargs["slug"]).filter(tool__kind__in=self.kinds)

    @extend_schema(request=PinInput, responses={201: PinOutput})
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(PinInput(data=request.data))
        pin_request = _pin_request(values)
        if pin_request.tool.kind not in self.accepts:
            kind = pin_request.tool.get_kind_display().lower()
            raise invalid(tool=f"“{pin_request.tool}” is a {kind}. Pin it in the list of its kind.")
        pin = pins.pin_tool(
            agent,
            actor=person(request),
            tool=pin_request.tool,
            version=pin_request.version,
            ordinal=pin_request.ordinal,
            alias=pin_request.alias,
            retry=pin_request.retry,
            mode=pin_request.mode,
            configuration=pin_request.configuration,
        )
        return Response(PinOutput(pins_at(request, slug).get(pk=pin.pk)).data, status=201)


@extend_schema(tags=["context"])
class PromptList(PinList):
    """The agent's pins of vendors' prompts. A release serves them over MCP."""

    kinds = accepts = (ItemKind.PROMPT,)


@extend_schema(tags=["context"])
class ResourceList(PinList):
    """The agent's pins of vendors' resources and resource templates. A release serves them over MCP."""

    kinds = accepts = (ItemKind.RESOURCE, ItemKind.RESOURCE_TEMPLATE)


@extend_schema(tags=["pins"])
class PinSeveral(GenericAPIView[Pin]):
    """Pin up to a hundred tools in one call. A refused tool does not stop the others."""

    write_role = Role.DESIGNER
    serializer_class = PinsOutput

    @extend_schema(request=PinsInput, responses=PinsOutput)
    def post(self, request: Request, slug: str) -> Response:
        agent = chosen_agent(request, slug)
        values = valid_data(PinsInput(data=request.data))
        pin_requests = [_pin_request(row) for row in values["pins"]]
        answers = pins.pin_several(agent, actor=person(request), pin_requests=pin_requests)
        pinned_now = pins_at(request, slug).in_bulk([row.pk for row in answers if isinstance(row, Pin)])
        results = [
            {"tool": pin_request.tool.pk, "pin": None, "error": answer}
            if isinstance(answer, DomainError)
            else {"tool": pin_request.tool.pk, "pin": pinned_now[answer.pk], "error": None}
            for pin_request, answer in zip(pin_requests, answers, strict=True)
        ]
        return Response(PinsOutput({"results": results}).data)


@extend_schema(tags=["pins"])
class PinDetail(GenericAPIView[Pin]):
    write_role = Role.DESIGNER
    serializer_class = PinOutput

    def get(self, request: Request, slug: str, pk: int) -> Response:
        return _respond(get_object_or_404(pins_at(request, slug), pk=pk))

    @extend_schema(parameters=[IF_MATCH], request=PinChange)
    def patch(self, request: Request, slug: str, pk: int) -> Response:
        pin = chosen_pin(request, slug, pk)
        values = valid_data(PinChange(data=request.data))
        changes = nest_retry_members(values)
        version, ordinal, alias = (changes.get(name) for name in ("version", "ordinal", "alias"))
        actor, etag = person(request), expected_state(request)
        with transaction.atomic():
            if "retry" in changes:
                changed = pins.set_retry(pin, actor=actor, changes=changes["retry"], expected=etag)
                etag = edit_conflicts.etag(pins.facts(changed))
            if "mode" in changes:
                changed = pins.set_mode(pin, actor=actor, mode=changes["mode"], expected=etag)
                etag = edit_conflicts.etag(pins.facts(changed))
            if version or ordinal:
                pins.move_pin(
                    pin, actor=actor, version=version or "", ordinal=ordinal, alias=alias, expected=etag
                )
            elif alias is not None:
                pins.set_alias(pin, actor=actor, alias=alias, expected=etag)
            if "configuration" in changes:
                # Judged by the version that the pin has now.
                etag = edit_conflicts.ANY_STATE if version or ordinal or alias is not None else etag
                configuration_name = changes["configuration"]
                pins.set_configuration(pin, actor=actor, configuration=configuration_name, expected=etag)
        return _respond(pins_at(request, slug).get(pk=pk))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, pk: int) -> Response:
        pins.remove_pin(chosen_pin(request, slug, pk), actor=person(request))
        return Response(status=204)


class PinAgentInput(Input):
    agent = serializers.SlugField(
        max_length=slugs.MAX_LENGTH, help_text="The slug of another agent of the same tree."
    )
    alias = Alias(required=False, allow_blank=True, help_text="A new name, if the name is in use there.")


@extend_schema(tags=["pins"])
class PinAgent(GenericAPIView[Pin]):
    """Move a pin to another agent of the tree, with version, alias and tuning. It gets another id there."""

    write_role = Role.DESIGNER
    serializer_class = PinOutput

    @extend_schema(parameters=[IF_MATCH], request=PinAgentInput)
    def post(self, request: Request, slug: str, pk: int) -> Response:
        pin = chosen_pin(request, slug, pk)
        values = valid_data(PinAgentInput(data=request.data))
        to = Agent.objects.live().visible_to(person(request), key_of(request))
        target = to.filter(slug=values["agent"]).first()
        if target is None:
            raise invalid(agent="There is no such agent.")
        (moved,) = pins.move_to_agent(
            [pin],
            actor=person(request),
            new_agent=target,
            alias=values.get("alias"),
            expected=expected_state(request),
        )
        return _respond(pins_at(request, target.slug).get(pk=moved.pk))


def _pin_request(values: dict[str, Any]) -> pins.PinRequest:
    return pins.PinRequest(**nest_retry_members(values))


def _respond(pin: Pin) -> Response:
    return Response(PinOutput(pin).data, headers=etag_of(pins.facts(pin)))
