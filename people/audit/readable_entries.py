"""The changes of an audit entry as people read them."""

from typing import Any

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Field

from core.readable_changes import ReadableChange, describe_facts, label_of
from people.models import KEY_KINDS, AuditEntry

# Members that are no field and no plain words.
LABELS = {"replaced": "Vendor text at that time", "against": "Tuned version", "retry": "Retries"}


def read_entry(entry: AuditEntry) -> list[ReadableChange]:
    """Describe each change of an entry, with the labels of the model's fields and of their choices."""
    before, after = entry.facts
    # The ordinal of a version with a label tells a reader nothing more.
    is_named = any("version" in facts for facts in (before, after))
    before, after = (
        dict(
            _labelled(entry.kind, name, value)
            for name, value in sorted(facts.items())
            if not (is_named and name == "ordinal")
        )
        for facts in (before, after)
    )
    return describe_facts(before, after)


def _labelled(kind: str, name: str, value: Any) -> tuple[str, Any]:
    field = _field(kind, name)
    if name in LABELS or field is None:
        return LABELS.get(name, label_of(name)), value
    choices = dict(field.flatchoices) if isinstance(value, str) else {}
    return label_of(str(field.verbose_name)), str(choices.get(value, value)) if choices else value


def _field(kind: str, name: str) -> "Field[Any, Any] | None":
    """Return the field of the changed row that an entry names, if there is one."""
    kind = KEY_KINDS[0] if kind in KEY_KINDS else kind
    for model in apps.get_models():
        if model._meta.model_name == kind:
            try:
                field = model._meta.get_field(name)
            except FieldDoesNotExist:
                return None
            return field if isinstance(field, Field) else None
    return None
