"""Our words in place of the vendor's, for one pin or for a tool wherever it is pinned.

A tuning keeps only what differs from the text below it, so that a vendor's better words come
through wherever no designer chose others. Each change is audited on its pin or tool.
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from msgspec import UNSET

from catalog.models import Tool, ToolVersion
from catalog.tools import effective_texts
from catalog.tools.effective_texts import Rewrite
from core.canonical_json import canonical
from core.errors import DomainError
from core.outbound.errors import printable
from designer import token_budget
from designer.agents import locked
from designer.models import Pin, Tuning
from designer.signatures import model_names
from designer.signatures.effective import effective, misfits
from designer.signatures.words import (
    NOTHING,
    Stale,
    Words,
    from_members,
    members,
    merged,
    of_vendor,
    stale,
    stands_for_a_text,
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
# More than any format takes, so that a text can be written first and cut then.
MAX_DESCRIPTION_LENGTH = 4_000
MAX_PRESET_LENGTH = 4_000


class _State(NamedTuple):
    """A tuning to be: our words, what the vendor said in their places, and the version that was tuned."""

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
    """Replaces the tuning of `target`; None when nothing is left that differs from the text below it.

    `expected` is the state that the editor started from (people/audit/edit_conflicts.py).
    """
    target, version = _locked(target)
    old, signature = of(target), version.decoded()
    given = {
        "title": title,
        "description": description,
        "parameters": parameters or {},
        "outputs": outputs or {},
        "effects": effects or {},
    }
    below = _below(target)
    inherited = of_vendor(signature) | members(below)
    ours = {
        path: value
        for path, value in members(_checked(signature, given, below)).items()
        if not _is_same(value, inherited[path])
    }
    # A text of ours that stays as it was goes on to be compared with what it once replaced.
    was, kept = members(words_of(old)), members(replaced_of(old))
    vendors = of_vendor(signature)
    replaced = {}
    for path, value in ours.items():
        source = kept if was.get(path) == value else vendors
        if stands_for_a_text(path) and (text := source.get(path)) is not None:
            replaced[path] = text
    state = _State(from_members(ours), from_members(replaced), version)
    return _written(target, actor, "tune", old, state, expected)


def tried(target: Pin, given: Mapping[str, Any]) -> Words:
    """The words that `tune` would keep of these members, read without keeping them. Raises as it does."""
    named = {"title": None, "description": None, "parameters": {}, "outputs": {}, "effects": {}, **given}
    return _checked(target.version.decoded(), named, _below(target))


@transaction.atomic
def revert(target: Pin | Tool, *, actor: User, expected: str = edit_conflicts.ANY_STATE) -> None:
    """Back to the vendor's words (for a pin: to the catalog-wide tuning, where there is one)."""
    target, version = _locked(target)
    _written(target, actor, "revert", of(target), _State(NOTHING, NOTHING, version), expected)


@transaction.atomic
def restore(
    target: Pin | Tool, *, actor: User, entry: int, expected: str = edit_conflicts.ANY_STATE
) -> Tuning | None:
    """The words to the letter as they were after the change with this number in the audit trail.

    What the version of now has no place for is restored as well, and `misfits` tells of it.
    """
    target, version = _locked(target)
    old = of(target)
    then, change = facts(old), None
    # Entries hold what a change replaced, so going back from now takes off one after another.
    for change in history(target).order_by("-pk"):
        if change.pk <= entry:
            break
        then |= change.before or {}
    else:
        change = None
    if change is None or change.pk != entry:
        message = "There is no such change of these words. Their history lists them all."
        raise DomainError("no_such_entry", message, status=404)
    tool = target.tool if isinstance(target, Pin) else target
    named = (each for each in tool.versions.all() if each.name == then["against"])
    # An entry of before versions had names says none that is found; then the one of now counts.
    against = next(named, version)
    words = msgspec.convert({name: then[name] for name in MEMBERS if then[name] not in (None, {})}, Words)
    # Older entries know the version that was tuned, and not its texts.
    known = of_vendor(against.decoded()) | members(msgspec.convert(then["replaced"], Words))
    replaced = {
        path: known[path]
        for path in members(words)
        if stands_for_a_text(path) and known.get(path) is not None
    }
    return _written(target, actor, "restore", old, _State(words, from_members(replaced), against), expected)


@transaction.atomic
def settle(
    target: Pin | Tool, *, actor: User, member: str, take: Take, expected: str = edit_conflicts.ANY_STATE
) -> Tuning | None:
    """A user decides about one stale member: our text stays, the vendor's comes, or both are merged."""
    target, version = _locked(target)
    old, vendors = of(target), of_vendor(version.decoded())
    found = next((each for each in stale_of(old, version.decoded()) if each.member == member), None)
    if old is None or found is None:
        message = f"“{printable(member, 200)}” is not stale. It may have been settled already."
        raise DomainError("not_stale", message, status=409)
    said, replaced = members(words_of(old)), members(replaced_of(old))
    replaced.pop(found.path, None)
    if take == "theirs":
        # “The vendor's” is what was chosen; words for all agents say something else, so it is kept here.
        below = members(_below(target)).get(found.path, vendors[found.path])
        del said[found.path]
        if below != found.now and found.now is not None:
            said[found.path] = found.now
    elif take == "merged":
        if found.merged is None:
            message = "Both changed the same place, so there is no merged text. Take a side, or write one."
            raise DomainError("cannot_merge", message, status=409)
        said[found.path] = found.merged
    if found.path in said and found.now is not None:
        replaced[found.path] = found.now
    state = _State(from_members(said), from_members(replaced), version)
    return _written(target, actor, "settle", old, state, expected)


@transaction.atomic
def copy_tuning(tuning: Tuning, pin: Pin, *, actor: User, why: str) -> None:
    """The same words for a pin of the same version that has none yet."""
    said = {name: getattr(tuning, name) for name in (*MEMBERS, "replaced")}
    new = Tuning.objects.create(pin=pin, against=tuning.against, updated_by=actor, **said)
    audit.record(actor, "tune", pin, before=facts(None), after=facts(new), why=why, agent=pin.agent_id)


def history(target: Pin | Tool) -> QuerySet[AuditEntry]:
    # The changes of our words, newest first.
    kind = target._meta.model_name or ""
    return AuditEntry.objects.filter(kind=kind, object_id=str(target.pk), action__in=ACTIONS)


def of(target: Pin | Tool) -> Tuning | None:
    return Tuning.objects.filter(**_key(target)).select_related("against").first()


def words_of(tuning: Tuning | None) -> Words:
    if tuning is None:
        return NOTHING
    said = {name: getattr(tuning, name) for name in MEMBERS}
    return msgspec.convert({name: value for name, value in said.items() if value not in (None, {})}, Words)


def replaced_of(tuning: Tuning | None) -> Words:
    return NOTHING if tuning is None else msgspec.convert(tuning.replaced, Words)


def stale_of(tuning: Tuning | None, signature: Signature) -> list[Stale]:
    """Words of this tuning whose vendor's text differs in `signature` from the one that they replaced."""
    return stale(words_of(tuning), replaced_of(tuning), signature)


def rewrites(tools: Collection[int]) -> dict[int, Rewrite]:
    """What words for all agents make of a signature, of tools that have any (`tools.effective_texts`)."""
    found = Tuning.objects.filter(tool__in=tools)
    return {
        tuning.tool_id: Rewrite(partial(_reworded, words), partial(_tokens, words))
        for tuning in found
        if tuning.tool_id and (words := words_of(tuning))
    }


def _reworded(words: Words, signature: Signature) -> Signature:
    return token_budget.shown(effective(signature, name=signature.name, catalog_tuning=words))


def _tokens(words: Words, signature: Signature) -> int:
    name = model_names.derive(signature.name)
    return token_budget.tokens(effective(signature, name=name, catalog_tuning=words))


def facts(tuning: Tuning | None) -> dict[str, Any]:
    # A tuning is replaced as a whole, so an audit row says all of it.
    if tuning is None:
        return {name: None if name in ("title", "description") else {} for name in (*MEMBERS, "replaced")} | {
            "against": None
        }
    said = {name: getattr(tuning, name) for name in (*MEMBERS, "replaced")}
    return said | {"against": tuning.against.name}


def _locked(target: Pin | Tool) -> tuple[Pin | Tool, ToolVersion]:
    """The target and the version whose text is tuned, locked until the transaction ends."""
    # Words for all agents are searched as well.
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


def _below(target: Pin | Tool) -> Words:
    return words_of(of(target.tool)) if isinstance(target, Pin) else NOTHING


def _checked(signature: Signature, given: Mapping[str, Any], below: Words) -> Words:
    """Raises DomainError that names each field that cannot be kept."""
    wrong: dict[str, str] = {}
    words = msgspec.convert(_without_nothing(given), Words)
    for path, value in members(words).items():
        if path[-1] == "preset":
            sent = value if isinstance(value, str) else canonical(value).decode()
            why = why_not(sent, MAX_PRESET_LENGTH)
        elif path == ("title",):
            # A title may be taken away; every other text has to say something.
            why = why_not(value, MAX_TITLE_LENGTH)
        elif path[-1] == "description":
            why = "" if value.strip() else "Write something, or leave it out to keep the vendor's words."
            why = why or why_not(value, MAX_DESCRIPTION_LENGTH)
        else:
            why = ""
        if why:
            wrong[".".join(path)] = why
    if not wrong:
        found = misfits(signature, merged(below, words))
        mine = given["parameters"].keys() | given["outputs"].keys()
        wrong = {misfit.path: misfit.message for misfit in found if misfit.parameter in mine}
    if wrong:
        raise DomainError("invalid_tuning", next(iter(wrong.values())), fields=wrong)
    return words


def _without_nothing(given: Mapping[str, Any]) -> dict[str, Any]:
    """Without members that say nothing; a preset of null says something."""
    return {
        name: _without_nothing(value) if isinstance(value, Mapping) and name != "preset" else value
        for name, value in given.items()
        if name == "preset" or (value is not None and value != {})
    }


def _is_same(ours: Any, inherited: Any) -> bool:
    if ours is UNSET or inherited is UNSET or inherited is None:
        return ours is inherited
    if isinstance(ours, str) and isinstance(inherited, str):
        # A browser sends each line break as two characters.
        return ours.replace("\r\n", "\n") == inherited.replace("\r\n", "\n")
    # Compared by their JSON: to Python, 1 and true are equal.
    return canonical(ours) == canonical(inherited)


def _written(
    target: Pin | Tool, actor: User, action: str, old: Tuning | None, state: _State, expected: str
) -> Tuning | None:
    # Replaced as a whole under its own key, so that the page and REST cannot leave halves of two edits.
    new = None
    if state.words != NOTHING:
        said = msgspec.to_builtins(state.words)
        new = Tuning(pk=old.pk if old else None, **_key(target))
        new.title, new.description = state.words.title, state.words.description
        new.parameters, new.outputs = said.get("parameters", {}), said.get("outputs", {})
        new.effects, new.replaced = said.get("effects", {}), msgspec.to_builtins(state.replaced)
        new.against, new.updated_by, new.updated_at = state.against, actor, timezone.now()
    edit_conflicts.check(target, expected, now=facts(old), wanted=facts(new))
    # No row in the trail, and no new time, for a press on Save that changed nothing.
    if facts(old) == facts(new):
        return new and old
    if new:
        new.save()
    elif old:
        old.delete()
    if isinstance(target, Tool):
        effective_texts.changed(target)
    audit.record(actor, action, target, before=facts(old), after=facts(new), agent=_agent(target))
    return new


def _agent(target: Pin | Tool) -> int | None:
    return target.agent_id if isinstance(target, Pin) else None


def _key(target: Pin | Tool) -> dict[str, Pin | Tool]:
    return {"pin": target} if isinstance(target, Pin) else {"tool": target}
