from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tool
from core.serializers import Input, ModelOutput
from designer.api.pins import chosen_pin
from designer.models import Pin, Tuning
from designer.pins import tunings
from designer.signatures import model_names
from designer.signatures.words import less_cautious
from people.api.generics import GenericAPIView, ListAPIView
from people.api.preconditions import IF_MATCH, etag_of, expected_state
from people.models import AuditEntry, Role
from people.permissions import person

TAKES = [("ours", "Ours stays"), ("theirs", "The vendor's now"), ("merged", "Both, merged")]


def _text_field(help_text: str = "") -> serializers.CharField:
    return serializers.CharField(
        required=False, trim_whitespace=False, max_length=tunings.MAX_DESCRIPTION_LENGTH, help_text=help_text
    )


class ValueTuning(Input):
    description = _text_field()
    hidden = serializers.BooleanField(
        required=False, help_text="True if the model does not see the value and must not send it."
    )


class ParameterTuning(Input):
    name = serializers.CharField(
        required=False,
        max_length=model_names.MAX_LENGTH,
        help_text="The model's name for it; the vendor is sent the vendor's name.",
    )
    description = _text_field()
    hidden = serializers.BooleanField(required=False)
    preset = serializers.JSONField(
        required=False,
        help_text=("The value that is sent if the model omits the input, or always if the input is hidden."),
    )
    values = serializers.DictField(
        child=ValueTuning(), required=False, help_text="The tunings by the vendor's value."
    )


class OutputTuning(Input):
    description = _text_field()
    hidden = serializers.BooleanField(required=False, help_text="True if calls do not return the output.")


class EffectsTuning(Input):
    """Our own statement; what is left out keeps the vendor's."""

    read_only = serializers.BooleanField(required=False)  # type: ignore[assignment]
    destructive = serializers.BooleanField(required=False)
    idempotent = serializers.BooleanField(required=False)


class TuningInput(Input):
    """Replaces the tuning as a whole; what is left out keeps the vendor's words."""

    title = serializers.CharField(
        required=False,
        allow_null=True,
        allow_blank=True,
        trim_whitespace=False,
        max_length=tunings.MAX_TITLE_LENGTH,
    )
    description = serializers.CharField(required=False, allow_null=True, trim_whitespace=False)
    parameters = serializers.DictField(
        child=ParameterTuning(), required=False, help_text="The tunings by the vendor's name of the input."
    )
    outputs = serializers.DictField(
        child=OutputTuning(), required=False, help_text="The tunings by the vendor's name of the output."
    )
    effects = EffectsTuning(required=False)


class StaleOutput(serializers.Serializer[Any]):
    """A tuned text whose vendor text has changed since. An effect is true, false or null (not stated)."""

    member = serializers.CharField()
    then = serializers.JSONField(help_text="The vendor's text when the tuned text was written.")
    now = serializers.JSONField()
    ours = serializers.JSONField()
    merged = serializers.CharField(
        allow_null=True, help_text="The merged text; null if both changed the same part."
    )


class TuningOutput(serializers.Serializer[Any]):
    title = serializers.CharField(allow_null=True, read_only=True)
    description = serializers.CharField(allow_null=True, read_only=True)
    parameters = serializers.DictField(child=ParameterTuning(), read_only=True)
    outputs = serializers.DictField(child=OutputTuning(), read_only=True)
    effects = EffectsTuning(read_only=True)
    replaced = serializers.JSONField(
        read_only=True, help_text="The vendor's texts when the tuned texts were written, in the same form."
    )
    against = serializers.CharField(
        allow_null=True, read_only=True, help_text="The name of the version whose words were replaced."
    )
    updated_by = serializers.CharField(allow_null=True, read_only=True)
    updated_at = serializers.DateTimeField(allow_null=True, read_only=True)
    stale = StaleOutput(many=True, read_only=True)
    remarks = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="A warning for people: effects that the tuning states less cautiously than the vendor.",
    )


class TuningRestoreInput(Input):
    entry = serializers.IntegerField(
        min_value=1, max_value=2**63 - 1, help_text="The id of an entry of the history."
    )


class TuningSettleInput(Input):
    member = serializers.CharField(max_length=5_000, help_text="The member that `stale` names.")
    take = serializers.ChoiceField(choices=TAKES)


class WordsOutput(serializers.Serializer[Any]):
    """A member that a change left as it was is left out."""

    title = serializers.CharField(allow_null=True, required=False)
    description = serializers.CharField(allow_null=True, required=False)
    parameters = serializers.DictField(child=ParameterTuning(), required=False)
    outputs = serializers.DictField(child=OutputTuning(), required=False)
    effects = EffectsTuning(required=False)
    replaced = serializers.JSONField(required=False)
    against = serializers.CharField(
        allow_null=True, required=False, help_text="The name of the version whose words were replaced."
    )
    against_ordinal = serializers.IntegerField(
        required=False, help_text="The version's number, in entries from before versions had names."
    )

    def to_representation(self, instance: dict[str, Any]) -> dict[str, Any]:
        values = dict(instance)
        if isinstance(values.get("against"), int):
            values["against_ordinal"] = values.pop("against")
        document = super().to_representation(values)
        # Null means the vendor's words; it would be read as a change to them.
        return {name: value for name, value in document.items() if name in values}


class TuningChange(ModelOutput[AuditEntry]):
    """One change of the words: what they were and what they became. `entry` is its row in the audit trail."""

    entry = serializers.IntegerField(source="pk", read_only=True)
    by = serializers.CharField(source="actor_name", read_only=True)
    action = serializers.ChoiceField(choices=list(tunings.ACTIONS), read_only=True)
    before = WordsOutput(read_only=True)
    after = WordsOutput(read_only=True)

    class Meta:
        model = AuditEntry
        fields = ["entry", "at", "by", "action", "before", "after"]


def target_of(view: GenericAPIView[Tuning] | ListAPIView[AuditEntry]) -> Pin | Tool:
    """Return the target in the address: a pin of an agent, or a tool wherever it is pinned."""
    if "slug" in view.kwargs:
        return chosen_pin(view.request, view.kwargs["slug"], view.kwargs["pk"])
    return get_object_or_404(Tool, pk=view.kwargs["pk"])


@extend_schema(tags=["tunings"])
class TuningDetail(GenericAPIView[Tuning]):
    """The tuned texts of one pin, or of a tool in all its pins. The texts of a pin take precedence over the
    texts of its tool.
    """

    write_role = Role.DESIGNER
    serializer_class = TuningOutput

    def get(self, request: Request, **named: Any) -> Response:
        target = target_of(self)
        return _respond(tunings.tuning_of(target), target)

    @extend_schema(parameters=[IF_MATCH], request=TuningInput)
    def put(self, request: Request, **named: Any) -> Response:
        return _change_tuning(self, TuningInput, tunings.tune)

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, **named: Any) -> Response:
        tunings.revert(target_of(self), actor=person(request), expected=expected_state(request))
        return Response(status=204)


@extend_schema(tags=["tunings"])
class TuningRestore(GenericAPIView[Tuning]):
    """Restore the tuned texts of an entry of their history."""

    write_role = Role.DESIGNER
    serializer_class = TuningOutput

    @extend_schema(parameters=[IF_MATCH], request=TuningRestoreInput, responses=TuningOutput)
    def post(self, request: Request, **named: Any) -> Response:
        return _change_tuning(self, TuningRestoreInput, tunings.restore)


@extend_schema(tags=["tunings"])
class TuningSettle(GenericAPIView[Tuning]):
    """Decide about one stale text."""

    write_role = Role.DESIGNER
    serializer_class = TuningOutput

    @extend_schema(parameters=[IF_MATCH], request=TuningSettleInput, responses=TuningOutput)
    def post(self, request: Request, **named: Any) -> Response:
        return _change_tuning(self, TuningSettleInput, tunings.settle)


@extend_schema(tags=["tunings"])
class TuningHistory(ListAPIView[AuditEntry]):
    serializer_class = TuningChange
    ordering = ("-id",)

    def get_queryset(self) -> QuerySet[AuditEntry]:
        return tunings.history(target_of(self))


def _change_tuning(
    view: GenericAPIView[Tuning], body: type[Input], change: Callable[..., Tuning | None]
) -> Response:
    target, serializer = target_of(view), body(data=view.request.data)
    serializer.is_valid(raise_exception=True)
    values = serializer.validated_data
    tuning = change(target, actor=person(view.request), expected=expected_state(view.request), **values)
    return _respond(tuning, target)


def _respond(tuning: Tuning | None, target: Pin | Tool) -> Response:
    version = target.version if isinstance(target, Pin) else target.current
    signature = version.decoded() if version and tuning else None
    document = tunings.masked_facts(target, tunings.facts(tuning)) | {
        "updated_by": str(tuning.updated_by) if tuning and tuning.updated_by else None,
        "updated_at": tuning.updated_at if tuning else None,
        "stale": tunings.stale_of(tuning, signature) if signature else [],
        "remarks": less_cautious(tunings.words_of(tuning), signature) if signature else [],
    }
    return Response(TuningOutput(document).data, headers=etag_of(tunings.facts(tuning)))
