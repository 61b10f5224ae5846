"""The changes of an audit entry as people read them."""

import re
from typing import Any

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Field
from django.utils.translation import gettext

from core.readable_changes import ReadableChange, describe_facts, is_structure, label_of
from core.translatable import mark
from core.translating import translate
from people.models import KEY_KINDS, AuditEntry

SUMMARIZED = 4
_DIGEST = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)")
# Members that are no field and no plain words.
LABELS = {
    "replaced": mark("Vendor text at that time"),
    "against": mark("Tuned version"),
    "retry": mark("Retries"),
    "runs": mark("Implementation"),
    "mock_assertions": mark("Rules"),
    "limits_vendors": mark("Only selected vendors"),
    "activity_version": mark("Version of the implementation"),
    "alias": mark("Name for the model"),
    "asked": mark("Requested scopes"),
    "authorities": mark("Certificates of your own authority"),
    "authorization_url": mark("Sign-in address"),
    "bindings": mark("Implementations"),
    "calls_at_once": mark("Concurrent calls"),
    "child": mark("Sub-agent"),
    "config": mark("Configuration"),
    "expects": mark("Expected tool"),
    "interval_minutes": mark("Minutes between syncs"),
    "may_withdraw": mark("Tools that may be withdrawn"),
    "numbers_used": mark("Release numbers in use"),
    "only_named_agents": mark("Only selected agents"),
    "rehearsal_gate": mark("If too few tests pass"),
    "rehearsal_gate_at_least": mark("Tests that must pass"),
    "rehearsal_gate_on_flips": mark("Also if a test fails that passed in the last release"),
    "rehearsal_judge": mark("Evaluation model"),
    "says": mark("What a user says"),
    "slug": mark("Address"),
    "sub_agents": mark("Sub-agents"),
    "sunset_at": mark("Available to API keys until (UTC)"),
    "token_limit_stops": mark("Block publishing above the limit"),
    "token_url": mark("Token address"),
    "tries": mark("Attempts for each test"),
    "url": mark("Address"),
    "username": mark("User name"),
    "would_withdraw": mark("Tools that would be withdrawn"),
}

# Values that are stored as the code of a state.
VALUES = {("runs", "latent"): mark("Simulated by the model")}


def read_entry(entry: AuditEntry) -> list[ReadableChange]:
    """Describe each change of an entry, with the labels of the model's fields and of their choices."""
    return describe_facts(*_labelled_facts(entry))


def summarize_entry(entry: AuditEntry) -> list[str]:
    """Return the sentences that a row of the trail has space for.

    For a created or removed object, only its outermost values are included: the page of the entry shows all
    of them.
    """
    before, after = _labelled_facts(entry)
    if not (before and after):
        before, after = (
            {label: value for label, value in facts.items() if not is_structure(value)}
            for facts in (before, after)
        )
    sentences = (translate(change.sentence) for change in describe_facts(before, after))
    return [text for text in sentences if text.endswith(".") and not _DIGEST.search(text)][:SUMMARIZED]


def _labelled_facts(entry: AuditEntry) -> tuple[dict[str, Any], dict[str, Any]]:
    before, after = entry.facts
    # The ordinal of a version with a label tells a reader nothing more.
    is_named = any("version" in facts for facts in (before, after))
    labelled_before, labelled_after = (
        dict(
            _label_fact(entry.kind, name, value)
            for name, value in sorted(facts.items())
            if not (is_named and name == "ordinal")
        )
        for facts in (before, after)
    )
    return labelled_before, labelled_after


def _label_fact(kind: str, name: str, value: Any) -> tuple[str, Any]:
    # Old entries about API keys have a kind that is no model now.
    kind = KEY_KINDS[0] if kind in KEY_KINDS else kind
    # An entry may also contain facts that are not fields of the model.
    model = next((model for model in apps.get_models() if model._meta.model_name == kind), None)
    try:
        field = model._meta.get_field(name) if model else None
    except FieldDoesNotExist:
        field = None
    if isinstance(value, str) and (name, value) in VALUES:
        value = gettext(VALUES[name, value])
    if name in LABELS or not isinstance(field, Field):
        return gettext(LABELS.get(name, label_of(name))), value
    choices = dict(field.flatchoices) if isinstance(value, str) else {}
    return gettext(label_of(str(field.verbose_name))), str(choices.get(value, value)) if choices else value
