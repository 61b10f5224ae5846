from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tool
from core.serializers import Input
from designer import tunings
from designer.api.pins import chosen_pin
from designer.models import Pin, Tuning
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected
from people.models import AuditEntry, Role
from people.permissions import person


class ParameterTuning(Input):
    description = serializers.CharField(required=False, trim_whitespace=False)
    hidden = serializers.BooleanField(required=False)
    preset = serializers.JSONField(
        required=False, help_text="Sent when the model gives nothing; always, when the input is hidden."
    )


class TuningInput(Input):
    """Replaces the tuning as a whole; what is left out keeps the vendor's words."""

    description = serializers.CharField(required=False, allow_null=True, trim_whitespace=False)
    parameters = serializers.DictField(
        child=ParameterTuning(), required=False, help_text="By the vendor's parameter name."
    )


class TuningOutput(serializers.Serializer[Any]):
    description = serializers.CharField(allow_null=True, read_only=True)
    parameters = serializers.DictField(child=ParameterTuning(), read_only=True)
    against = serializers.CharField(
        allow_null=True, read_only=True, help_text="The name of the version whose words were replaced."
    )
    updated_by = serializers.CharField(allow_null=True, read_only=True)
    updated_at = serializers.DateTimeField(allow_null=True, read_only=True)


class WordsOutput(serializers.Serializer[Any]):
    """A member that a change left as it was is left out."""

    description = serializers.CharField(allow_null=True, required=False)
    parameters = serializers.DictField(child=ParameterTuning(), required=False)
    against = serializers.CharField(
        allow_null=True, required=False, help_text="The name of the version whose words were replaced."
    )
    against_ordinal = serializers.IntegerField(
        required=False, help_text="In its place, in entries from before versions went by their names."
    )

    def to_representation(self, instance: dict[str, Any]) -> dict[str, Any]:
        given = dict(instance)
        if isinstance(given.get("against"), int):
            given["against_ordinal"] = given.pop("against")
        shown = super().to_representation(given)
        # Null means the vendor's words; it would be read as a change to them.
        return {name: value for name, value in shown.items() if name in given}


class TuningChange(serializers.ModelSerializer[AuditEntry]):
    """One change of the words: what they were and what they became. `entry` is its row in the audit trail."""

    entry = serializers.IntegerField(source="pk", read_only=True)
    by = serializers.CharField(source="actor_name", read_only=True)
    action = serializers.ChoiceField(choices=["tune", "revert"], read_only=True)
    before = WordsOutput(read_only=True)
    after = WordsOutput(read_only=True)

    class Meta:
        model = AuditEntry
        fields = ["entry", "at", "by", "action", "before", "after"]
        read_only_fields = fields


class PinTuning(GenericAPIView[Tuning]):
    """Our words for one pin. They go before those for all agents."""

    write_role = Role.DESIGNER
    serializer_class = TuningOutput
    pagination_class = None

    def get(self, request: Request, slug: str, pk: int) -> Response:
        return _answer(tunings.of(chosen_pin(request, slug, pk)))

    @extend_schema(parameters=[IF_MATCH], request=TuningInput)
    def put(self, request: Request, slug: str, pk: int) -> Response:
        return _tuned(chosen_pin(request, slug, pk), request)

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, slug: str, pk: int) -> Response:
        return _reverted(chosen_pin(request, slug, pk), request)


class ToolTuning(GenericAPIView[Tuning]):
    """Our words for a tool wherever it is pinned. Those of an agent's own tuning go before them."""

    write_role = Role.DESIGNER
    serializer_class = TuningOutput
    pagination_class = None

    def get(self, request: Request, pk: int) -> Response:
        return _answer(tunings.of(get_object_or_404(Tool, pk=pk)))

    @extend_schema(parameters=[IF_MATCH], request=TuningInput)
    def put(self, request: Request, pk: int) -> Response:
        return _tuned(get_object_or_404(Tool, pk=pk), request)

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        return _reverted(get_object_or_404(Tool, pk=pk), request)


class PinTuningHistory(ListAPIView[AuditEntry]):
    serializer_class = TuningChange
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[AuditEntry]:
        return tunings.history(chosen_pin(self.request, self.kwargs["slug"], self.kwargs["pk"]))


class ToolTuningHistory(ListAPIView[AuditEntry]):
    serializer_class = TuningChange
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[AuditEntry]:
        return tunings.history(get_object_or_404(Tool, pk=self.kwargs["pk"]))


def _tuned(target: Pin | Tool, request: Request) -> Response:
    given = TuningInput(data=request.data)
    given.is_valid(raise_exception=True)
    words = given.validated_data
    return _answer(tunings.tune(target, actor=person(request), expected=expected(request), **words))


def _reverted(target: Pin | Tool, request: Request) -> Response:
    tunings.revert(target, actor=person(request), expected=expected(request))
    return Response(status=204)


def _answer(tuning: Tuning | None) -> Response:
    shown = tunings.facts(tuning) | {
        "updated_by": str(tuning.updated_by) if tuning and tuning.updated_by else None,
        "updated_at": tuning.updated_at if tuning else None,
    }
    return Response(TuningOutput(shown).data, headers=etag_of(tunings.facts(tuning)))
