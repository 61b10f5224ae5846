"""Tuned texts that replace the vendor's, for one pin or for a tool wherever it is pinned."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from msgspec import UNSET

from catalog.models import Tool, ToolVersion
from catalog.rules.sensitive_values import restore as restore_masked
from catalog.tools import effective_texts
from catalog.tools.effective_texts import Rewrite
from core.canonical_json import canonical
from core.errors import DomainError
from core.outbound.errors import printable
from designer.agents.agents import lock_agent
from designer.models import Pin, Tuning
from designer.pins import masking, token_budget
from designer.signatures import model_names
from designer.signatures.effective import effective, misfits
from designer.signatures.words import (
    NOTHING,
    Stale,
    Words,
    from_members,
    has_vendor_text,
    members,
    merge_words,
    of_vendor,
    stale,
)
from designer.texts import why_not
from people import audit
from people.audit import edit_conflicts
from people.models import AuditEntry, User
from protocols.signature import Signature

MEMBERS = ("title", "description", "parameters", "outputs", "effects")
ACTIONS = ("tune", "revert", "restore", "settle")
Take = Literal["ours", "theirs", "merged"]
MAX_TITLE_LENGTH = 200
# More than any format accepts, so that a text can be written first and shortened later.
MAX_DESCRIPTION_LENGTH = 4_000
MAX_PRESET_LENGTH = 4_000


class _State(NamedTuple):
    """The state of a tuning: its texts, the vendor texts that they replace, and the version that was
    tuned.
    """

    words: Words
    replaced: Words
    against: ToolVersion


@transaction.atomic
def tune(
    target: Pin | Tool,
    *,
    actor: User,
    title: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    outputs: Mapping[str, Mapping[str, Any]] | None = None,
    effects: Mapping[str, bool | None] | None = None,
    expected: str = edit_conflicts.ANY_STATE,
) -> Tuning | None:
    """Replace the tuning of `target`. Returns None if nothing differs from the layer below.

    A masked preset stays as it is. Raises DomainError if there is none now.
    expected: the state that the editor started from (people/audit/edit_conflicts.py).
    """
    target, version = _lock_target(target)
    old, signature = tuning_of(target), version.decoded()
    values = {
        "title": title,
        "description": description,
        "parameters": _restore_presets(parameters or {}, old),
        "outputs": outputs or {},
        "effects": effects or {},
    }
    lower_words = _lower_layer(target)
    inherited = of_vendor(signature) | members(lower_words)
    tuned = {
        path: value
        for path, value in members(_parse_and_check(signature, values, lower_words)).items()
        if not _is_same(value, inherited[path])
    }
    # An unchanged tuned text is still compared with the vendor text that it once replaced.
    old_texts, old_replaced = members(words_of(old)), members(replaced_words(old))
    vendors = of_vendor(signature)
    replaced = {}
    for path, value in tuned.items():
        source = old_replaced if old_texts.get(path) == value else vendors
        if has_vendor_text(path) and (text := source.get(path)) is not None:
            replaced[path] = text
    state = _State(from_members(tuned), from_members(replaced), version)
    return _store_state(target, actor, "tune", old, state, expected)


def parse_words(target: Pin, members: Mapping[str, Any]) -> Words:
    """Return the words that `tune` would store for these members, without storing them. Raises as it does."""
    values = {"title": None, "description": None, "parameters": {}, "outputs": {}, "effects": {}, **members}
    values["parameters"] = _restore_presets(values["parameters"], tuning_of(target))
    return _parse_and_check(target.version.decoded(), values, _lower_layer(target))


@transaction.atomic
def revert(target: Pin | Tool, *, actor: User, expected: str = edit_conflicts.ANY_STATE) -> None:
    """Restore the vendor's texts (for a pin: the catalog-wide tuning, if there is one)."""
    target, version = _lock_target(target)
    _store_state(target, actor, "revert", tuning_of(target), _State(NOTHING, NOTHING, version), expected)


@transaction.atomic
def restore(
    target: Pin | Tool, *, actor: User, entry: int, expected: str = edit_conflicts.ANY_STATE
) -> Tuning | None:
    """Restore the exact texts after the change with this number in the audit trail.

    Texts that the current version has no member for are restored too, and `misfits` reports them. A sensitive
    preset, which the audit trail masks, stays as it is. Raises DomainError if there is none now.
    """
    target, version = _lock_target(target)
    old = tuning_of(target)
    texts, change = facts(old), None
    # Entries contain what a change replaced, so each step back undoes one more.
    for change in history(target).order_by("-pk"):
        if change.pk <= entry:
            break
        texts |= change.before or {}
    else:
        change = None
    if change is None or change.pk != entry:
        message = _("There is no such change of this text. Its history lists all changes.")
        raise DomainError("no_such_entry", message, status=404)
    texts["parameters"] = _restore_presets(texts["parameters"], old)
    tool = target.tool if isinstance(target, Pin) else target
    versions_by_name = (row for row in tool.versions.all() if row.name == texts["against"])
    # An entry from before versions had names matches none; then the current version counts.
    tuned_version = next(versions_by_name, version)
    words = msgspec.convert({name: texts[name] for name in MEMBERS if texts[name] not in (None, {})}, Words)
    # Older entries contain the version that was tuned, but not its texts.
    vendor_texts = of_vendor(tuned_version.decoded()) | members(msgspec.convert(texts["replaced"], Words))
    replaced = {
        path: vendor_texts[path]
        for path in members(words)
        if has_vendor_text(path) and vendor_texts.get(path) is not None
    }
    return _store_state(
        target, actor, "restore", old, _State(words, from_members(replaced), tuned_version), expected
    )


@transaction.atomic
def settle(
    target: Pin | Tool, *, actor: User, member: str, take: Take, expected: str = edit_conflicts.ANY_STATE
) -> Tuning | None:
    """Settle one stale member: keep the tuned text, use the vendor's, or use both merged."""
    target, version = _lock_target(target)
    old, vendors = tuning_of(target), of_vendor(version.decoded())
    stale_member = next((row for row in stale_of(old, version.decoded()) if row.member == member), None)
    if old is None or stale_member is None:
        message = _("“{member}” is not outdated. It may have been resolved already.").format(
            member=printable(member, 200)
        )
        raise DomainError("not_stale", message, status=409)
    texts, replaced = members(words_of(old)), members(replaced_words(old))
    replaced.pop(stale_member.path, None)
    if take == "theirs":
        # The user chose the vendor's text. If the words for all agents differ from it, it is stored here.
        lower_text = members(_lower_layer(target)).get(stale_member.path, vendors[stale_member.path])
        del texts[stale_member.path]
        if lower_text != stale_member.now and stale_member.now is not None:
            texts[stale_member.path] = stale_member.now
    elif take == "merged":
        if stale_member.merged is None:
            message = _("Both changed the same place, so there is no merged text. Take a side, or write one.")
            raise DomainError("cannot_merge", message, status=409)
        texts[stale_member.path] = stale_member.merged
    if stale_member.path in texts and stale_member.now is not None:
        replaced[stale_member.path] = stale_member.now
    state = _State(from_members(texts), from_members(replaced), version)
    return _store_state(target, actor, "settle", old, state, expected)


@transaction.atomic
def copy_tuning(tuning: Tuning, pin: Pin, *, actor: User, why: str) -> None:
    """Copy the texts to a pin of the same version that has none yet."""
    texts = {name: getattr(tuning, name) for name in (*MEMBERS, "replaced")}
    new = Tuning.objects.create(pin=pin, against=tuning.against, updated_by=actor, **texts)
    after = masked_facts(pin, facts(new))
    audit.record(actor, "tune", pin, before=facts(None), after=after, why=why, agent=pin.agent_id)


def history(target: Pin | Tool) -> QuerySet[AuditEntry]:
    # The changes of tuned texts, newest first.
    kind = target._meta.model_name or ""
    return AuditEntry.objects.filter(kind=kind, object_id=str(target.pk), action__in=ACTIONS)


def tuning_of(target: Pin | Tool) -> Tuning | None:
    return Tuning.objects.filter(**_key_of(target)).select_related("against").first()


def words_of(tuning: Tuning | None) -> Words:
    if tuning is None:
        return NOTHING
    texts = {name: getattr(tuning, name) for name in MEMBERS}
    return msgspec.convert({name: value for name, value in texts.items() if value not in (None, {})}, Words)


def replaced_words(tuning: Tuning | None) -> Words:
    return NOTHING if tuning is None else msgspec.convert(tuning.replaced, Words)


def stale_of(tuning: Tuning | None, signature: Signature) -> list[Stale]:
    """Return the tuned texts whose vendor text in `signature` differs from the one that they replaced."""
    return stale(words_of(tuning), replaced_words(tuning), signature)


def rewrites(tools: Collection[int]) -> dict[int, Rewrite]:
    """Return, for tools with words for all agents, how these change a signature (`tools.effective_texts`)."""
    # Lists and the search index contain no sensitive preset.
    marked = F("tool__sensitive_values__inputs")
    tuning_rows = Tuning.objects.filter(tool__in=tools).annotate(marked=marked)
    return {
        tuning.tool_id: _rewrite_with(words, tuning.marked or ())
        for tuning in tuning_rows
        if tuning.tool_id and (words := words_of(tuning))
    }


def _rewrite_with(words: Words, marked_members: Collection[str]) -> Rewrite:
    def tune(signature: Signature) -> Signature:
        tuned = effective(signature, name=signature.name, catalog_tuning=words)
        return token_budget.shown_signature(masking.mask_presets(tuned, marked_members))

    def count_tokens(signature: Signature) -> int:
        name = model_names.derive(signature.name)
        return token_budget.tokens(effective(signature, name=name, catalog_tuning=words))

    return Rewrite(tune, count_tokens)


def facts(tuning: Tuning | None) -> dict[str, Any]:
    # A tuning is replaced as a whole, so an audit row contains all of it.
    if tuning is None:
        return {name: None if name in ("title", "description") else {} for name in (*MEMBERS, "replaced")} | {
            "against": None
        }
    texts = {name: getattr(tuning, name) for name in (*MEMBERS, "replaced")}
    return texts | {"against": tuning.against.name}


def masked_facts(target: Pin | Tool, recorded: dict[str, Any]) -> dict[str, Any]:
    """Return the facts for a person, or for the audit trail, whose entries cannot be changed."""
    return recorded | {"parameters": masking.masked_parameters(_tool_of(target), recorded["parameters"])}


def shown_words(target: Pin | Tool, tuning: Tuning | None) -> Words:
    """Return the tuned texts of `target`, or of its tool, for a person."""
    return masking.masked_words(_tool_of(target), words_of(tuning))


def _tool_of(target: Pin | Tool) -> int:
    return target.tool_id if isinstance(target, Pin) else target.pk


def _restore_presets(parameters: Mapping[str, Mapping[str, Any]], old: Tuning | None) -> dict[str, Any]:
    stored, presets = (
        {name: words["preset"] for name, words in rows.items() if "preset" in words}
        for rows in (facts(old)["parameters"], parameters)
    )
    restored = restore_masked(presets, stored)
    return {
        name: {**words, "preset": restored[name]} if name in restored else words
        for name, words in parameters.items()
    }


def _lock_target(target: Pin | Tool) -> tuple[Pin | Tool, ToolVersion]:
    """Return the target and the tuned version, locked until the transaction ends."""
    # A tool's tuned texts are in the search index too.
    if isinstance(target, Tool):
        tool = (
            Tool.objects.select_for_update(of=("self",), no_key=True)
            .select_related("current")
            .get(pk=target.pk)
        )
        if tool.current is None:
            raise DomainError("no_version", _("“{tool}” has no version yet.").format(tool=tool), status=409)
        return tool, tool.current
    # A pin has no lock of its own: every edit of an agent's pins locks the agent.
    agent = lock_agent(target.agent)
    pin = agent.pins.live().select_related("version", "tool").filter(pk=target.pk).first()
    if pin is None:
        raise DomainError(
            "pin_removed", _("“{name}” is not pinned any more.").format(name=target.name), status=409
        )
    pin.agent = agent
    return pin, pin.version


def _lower_layer(target: Pin | Tool) -> Words:
    return words_of(tuning_of(target.tool)) if isinstance(target, Pin) else NOTHING


def _parse_and_check(signature: Signature, values: Mapping[str, Any], below: Words) -> Words:
    """Parse the words. Raises DomainError that names each invalid field."""
    errors: dict[str, str] = {}
    words = msgspec.convert(_without_empty(values), Words)
    for path, value in members(words).items():
        if path[-1] == "preset":
            encoded = value if isinstance(value, str) else canonical(value).decode()
            reason = why_not(encoded, MAX_PRESET_LENGTH)
        elif path == ("title",):
            # A title may be removed; every other text needs content.
            reason = why_not(value, MAX_TITLE_LENGTH)
        elif path[-1] == "description":
            reason = "" if value.strip() else _("Enter a text, or leave it out to keep the vendor's text.")
            reason = reason or why_not(value, MAX_DESCRIPTION_LENGTH)
        else:
            reason = ""
        if reason:
            errors[".".join(path)] = reason
    if not errors:
        misfit_list = misfits(signature, merge_words(below, words))
        edited_names = values["parameters"].keys() | values["outputs"].keys()
        errors = {misfit.path: misfit.message for misfit in misfit_list if misfit.parameter in edited_names}
    if errors:
        raise DomainError("invalid_tuning", next(iter(errors.values())), fields=errors)
    return words


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Remove empty members. A preset of null is not empty."""
    return {
        name: _without_empty(value) if isinstance(value, Mapping) and name != "preset" else value
        for name, value in values.items()
        if name == "preset" or (value is not None and value != {})
    }


def _is_same(tuned: Any, inherited_value: Any) -> bool:
    if tuned is UNSET or inherited_value is UNSET or inherited_value is None:
        return tuned is inherited_value
    if isinstance(tuned, str) and isinstance(inherited_value, str):
        # A browser sends each line break as two characters.
        return tuned.replace("\r\n", "\n") == inherited_value.replace("\r\n", "\n")
    # Compared by their JSON: to Python, 1 and true are equal.
    return canonical(tuned) == canonical(inherited_value)


def _store_state(
    target: Pin | Tool, actor: User, action: str, old: Tuning | None, state: _State, expected: str
) -> Tuning | None:
    # Replaced as a whole under its own key, so that the page and REST cannot mix two edits.
    new = None
    if state.words != NOTHING:
        texts = msgspec.to_builtins(state.words)
        new = Tuning(pk=old.pk if old else None, **_key_of(target))
        new.title, new.description = state.words.title, state.words.description
        new.parameters, new.outputs = texts.get("parameters", {}), texts.get("outputs", {})
        new.effects, new.replaced = texts.get("effects", {}), msgspec.to_builtins(state.replaced)
        new.against, new.updated_by, new.updated_at = state.against, actor, timezone.now()
    edit_conflicts.check(
        target, expected, now=facts(old), submitted=facts(new), mask=partial(masked_facts, target)
    )
    # Saving without a change adds no audit row and changes no time.
    if facts(old) == facts(new):
        return new and old
    if new:
        new.save()
    elif old:
        old.delete()
    if isinstance(target, Tool):
        effective_texts.update_after_tuning(target)
    audit.record(
        actor,
        action,
        target,
        before=masked_facts(target, facts(old)),
        after=masked_facts(target, facts(new)),
        agent=target.agent_id if isinstance(target, Pin) else None,
    )
    return new


def _key_of(target: Pin | Tool) -> dict[str, Pin | Tool]:
    return {"pin": target} if isinstance(target, Pin) else {"tool": target}
