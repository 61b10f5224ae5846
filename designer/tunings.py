"""Our words in place of the vendor's, for one pin or for a tool wherever it is pinned.

A tuning keeps only what differs from the text below it, so that a vendor's better words come
through wherever no designer chose others. Each change is audited on its pin or tool.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from msgspec import UNSET

from catalog.models import Tool, ToolVersion
from catalog.protocols.base import canonical
from catalog.protocols.signature import Signature
from catalog.tools import effective_texts
from core.errors import DomainError
from designer import token_budget
from designer.agents import locked
from designer.models import Pin, Tuning
from designer.signatures.effective import NOTHING, ParameterWords, Words, effective, merged, misfits
from designer.texts import why_not
from people import audit
from people.audit import edit_conflicts
from people.models import AuditEntry, User

MAX_DESCRIPTION_LENGTH = 4_000
MAX_PRESET_LENGTH = 4_000


@transaction.atomic
def tune(
    target: Pin | Tool,
    *,
    actor: User,
    description: str | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    expected: str = edit_conflicts.ANY_STATE,
) -> Tuning | None:
    """Replaces the tuning of `target`; None when nothing is left that differs from the text below it.

    `expected` is the state that the editor started from (people/audit/edit_conflicts.py).
    """
    target, version = _locked(target)
    old = of(target)
    below = words_of(of(target.tool)) if isinstance(target, Pin) else NOTHING
    words = _only_ours(_checked(version, description, parameters or {}, below), version.decoded(), below)
    wanted = facts(None)
    if words != NOTHING:
        ours = msgspec.to_builtins(words.parameters)
        wanted = {"description": words.description, "parameters": ours, "against": version.name}
    edit_conflicts.check(target, expected, now=facts(old), wanted=wanted)
    new = _saved(target, version, words, actor, old) if words != NOTHING else None
    if new is None and old:
        old.delete()
    if facts(old) != facts(new):
        if isinstance(target, Tool):
            effective_texts.changed(target)
        audit.record(actor, "tune", target, before=facts(old), after=facts(new), agent=_agent(target))
    return new


@transaction.atomic
def revert(target: Pin | Tool, *, actor: User, expected: str = edit_conflicts.ANY_STATE) -> None:
    """Back to the vendor's words (for a pin: to the catalog-wide tuning, where there is one)."""
    target, _ = _locked(target)
    old = of(target)
    edit_conflicts.check(target, expected, now=facts(old), wanted=facts(None))
    if old:
        old.delete()
        if isinstance(target, Tool):
            effective_texts.changed(target)
        audit.record(actor, "revert", target, before=facts(old), after=facts(None), agent=_agent(target))


def history(target: Pin | Tool) -> QuerySet[AuditEntry]:
    # The changes of our words, newest first.
    kind = target._meta.model_name or ""
    return AuditEntry.objects.filter(kind=kind, object_id=str(target.pk), action__in=["tune", "revert"])


def of(target: Pin | Tool) -> Tuning | None:
    return Tuning.objects.filter(**_key(target)).select_related("against").first()


def words_of(tuning: Tuning | None) -> Words:
    if tuning is None:
        return NOTHING
    return msgspec.convert({"description": tuning.description, "parameters": tuning.parameters}, Words)


def rewrites(tools: Collection[int]) -> dict[int, Callable[[Signature], Signature]]:
    """What words for all agents make of a signature, of tools that have any (`tools.effective_texts`)."""

    def reworded(words: Words, signature: Signature) -> Signature:
        return token_budget.shown(effective(signature, name=signature.name, catalog_tuning=words))

    found = Tuning.objects.filter(tool__in=tools)
    return {tuning.tool_id: partial(reworded, words_of(tuning)) for tuning in found if tuning.tool_id}


def facts(tuning: Tuning | None) -> dict[str, Any]:
    # A tuning is replaced as a whole, so an audit row says all of it.
    if tuning is None:
        return {"description": None, "parameters": {}, "against": None}
    return {
        "description": tuning.description,
        "parameters": tuning.parameters,
        "against": tuning.against.name,
    }


def _locked(target: Pin | Tool) -> tuple[Pin | Tool, ToolVersion]:
    """The target and the version whose text is tuned, locked until the transaction ends."""
    if isinstance(target, Tool):
        tool = (
            Tool.objects.select_for_update(of=("self",), no_key=True)
            .select_related("current")
            .get(pk=target.pk)
        )
        if tool.current is None:
            raise DomainError("no_version", f"“{tool}” has no version yet.", status=409)
        return tool, tool.current
    # A pin has no lock of its own: whatever edits the pins of an agent locks the agent.
    agent = locked(target.agent)
    pin = agent.pins.live().select_related("version", "tool").filter(pk=target.pk).first()
    if pin is None:
        raise DomainError("pin_removed", f"“{target.name}” is not pinned any more.", status=409)
    pin.agent = agent
    return pin, pin.version


def _checked(
    version: ToolVersion,
    description: str | None,
    parameters: Mapping[str, Mapping[str, Any]],
    below: Words,
) -> Words:
    """Raises DomainError that names each field that cannot be kept."""
    wrong: dict[str, str] = {}
    if description is not None and (why := _why_not_words(description)):
        wrong["description"] = why
    kept = {}
    for name, given in parameters.items():
        ours = ParameterWords(
            description=given.get("description"),
            hidden=given.get("hidden"),
            preset=given.get("preset", UNSET),
        )
        if ours.description is not None and (why := _why_not_words(ours.description)):
            wrong[f"parameters.{name}.description"] = why
        sent = given.get("preset", "")
        if why := why_not(sent if isinstance(sent, str) else canonical(sent).decode(), MAX_PRESET_LENGTH):
            wrong[f"parameters.{name}.preset"] = why
        kept[name] = ours
    words = Words(description=description, parameters=kept)
    if not wrong:
        found = misfits(version.decoded(), merged(below, words))
        wrong = {f"parameters.{m.parameter}": m.message for m in found if m.parameter in parameters}
    if wrong:
        raise DomainError("invalid_tuning", next(iter(wrong.values())), fields=wrong)
    return words


def _why_not_words(text: str) -> str:
    if not text.strip():
        return "Write something, or leave it out to keep the vendor's words."
    return why_not(text, MAX_DESCRIPTION_LENGTH)


def _only_ours(words: Words, signature: Signature, under: Words) -> Words:
    # Without whatever says the same as the text below it.
    inherited = effective(signature, name="tool", catalog_tuning=under)
    shown = {i.parameter.name: (i.parameter.description, False, i.preset) for i in inherited.inputs}
    hidden = {h.parameter.name: (h.parameter.description, True, h.preset) for h in inherited.hidden}
    parameters = {}
    for name, ours in words.parameters.items():
        description, is_hidden, preset = (shown | hidden)[name]
        # Compared by their JSON: to Python, 1 and true are equal.
        is_set = ours.preset is not UNSET and preset is not UNSET
        is_same = is_set and canonical(ours.preset) == canonical(preset)
        kept = ParameterWords(
            description=_differing(ours.description, description),
            hidden=None if ours.hidden == is_hidden else ours.hidden,
            preset=UNSET if is_same else ours.preset,
        )
        if kept != ParameterWords():
            parameters[name] = kept
    return Words(description=_differing(words.description, inherited.description), parameters=parameters)


def _differing(ours: str | None, inherited: str) -> str | None:
    # `ours`, or None when it says the same: a browser sends each line break as two characters.
    if ours is None:
        return None
    ours = ours.replace("\r\n", "\n")
    return None if ours == inherited.replace("\r\n", "\n") else ours


def _saved(target: Pin | Tool, version: ToolVersion, words: Words, actor: User, old: Tuning | None) -> Tuning:
    # Replaced as a whole under its own key, so that the page and REST cannot leave halves of two edits.
    tuning = Tuning(pk=old.pk) if old else Tuning()
    for name, value in _key(target).items():
        setattr(tuning, name, value)
    tuning.description = words.description
    tuning.parameters = msgspec.to_builtins(words.parameters)
    tuning.against = version
    tuning.updated_by = actor
    tuning.updated_at = timezone.now()
    tuning.save()
    return tuning


def _agent(target: Pin | Tool) -> int | None:
    return target.agent_id if isinstance(target, Pin) else None


def _key(target: Pin | Tool) -> dict[str, Pin | Tool]:
    return {"pin": target} if isinstance(target, Pin) else {"tool": target}
