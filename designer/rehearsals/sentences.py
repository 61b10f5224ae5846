"""The sentences that an agent is rehearsed with: adding, changing and removing them."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

import msgspec
from django.db import transaction
from django.db.models import QuerySet

from catalog.activities.conversions import UnfitValueError, converted
from core.canonical_json import canonical
from core.errors import DomainError, invalid
from designer import agents, transfers
from designer.models import Agent, Pin, Rehearsal, RehearsalPlan
from designer.texts import checked
from people import audit
from people.models import User
from protocols.signature import Signature

MAX_SENTENCES = 200
# A question to the catalog is as long.
MAX_LENGTH = 1_000
MAX_INPUTS_LENGTH = 4_000
# Between a sentence and its tool on a pasted line; the last one of a line counts.
_ARROW = re.compile(r"\s*(?:=>|->|→|\t)\s*(?!.*(?:=>|->|→|\t))")
# An input of a pasted line. A value that holds a comma stands in quotes.
_PART = re.compile(r"""(?P<name>[^:,]*)(?::\s*(?:"(?P<quoted>[^"]*)"\s*|(?P<plain>[^,]*)))?,""")


@dataclass(frozen=True, slots=True)
class Wanted:
    """`tool` is the name that a model is shown: of a pinned tool or of a transfer."""

    says: str
    tool: str
    inputs: Mapping[str, Any] = field(default_factory=dict)


class Changes(TypedDict, total=False):
    says: str
    tool: str
    inputs: Mapping[str, Any]


def of(agents: Collection[Agent]) -> QuerySet[Rehearsal]:
    """In the order in which they were added, with what `shown.Shown` needs of them."""
    rows = Rehearsal.objects.filter(agent__in=agents).select_related("tool", "child")
    return rows.order_by("agent", "pk")


@transaction.atomic
def add(agent: Agent, *, actor: User, wanted: Iterable[Wanted]) -> list[Rehearsal]:
    """All of them or none. Raises DomainError that names the first that cannot be kept, by its number."""
    agent = agents.locked(agent)
    asked = list(wanted)
    if not asked:
        raise invalid(says="Write a sentence that a user may say.")
    if agent.rehearsals.count() + len(asked) > MAX_SENTENCES:
        message = f"An agent is rehearsed with at most {MAX_SENTENCES} sentences. Remove some first."
        raise DomainError("too_many_rehearsals", message, status=409)
    targets = _targets(agent)
    made = []
    for number, each in enumerate(asked, 1):
        row = Rehearsal(agent=agent, created_by=actor)
        try:
            _apply(row, {"says": each.says, "tool": each.tool, "inputs": each.inputs}, targets)
        except DomainError as error:
            if len(asked) == 1:
                raise
            sentence = " ".join(error.fields.values()) or error.message
            raise invalid(lines=f"Line {number}: {sentence}") from error
        row.save()
        audit.record(actor, "create", row, after=facts(row), agent=agent.pk)
        made.append(row)
    RehearsalPlan.objects.get_or_create(agent=agent)
    return made


@transaction.atomic
def change(row: Rehearsal, *, actor: User, **changes: Unpack[Changes]) -> Rehearsal:
    row = _locked(row)
    before = facts(row)
    _apply(row, changes, _targets(row.agent))
    if facts(row) != before:
        row.save()
        audit.record(actor, "edit", row, before=before, after=facts(row), agent=row.agent_id)
    return row


@transaction.atomic
def remove(row: Rehearsal, *, actor: User) -> None:
    row = _locked(row)
    audit.record(actor, "remove", row, before=facts(row), agent=row.agent_id)
    row.delete()


def read_lines(text: str, tools: Mapping[str, Signature]) -> list[Wanted]:
    """One on each line: the sentence, an arrow, the tool, and after it the inputs if any, as `city: Paris,
    days: 3` or as a JSON object. `tools` are what the agent shows, by name.

    Raises DomainError that names the first line that cannot be understood.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        says, *rest = _ARROW.split(line.strip(), maxsplit=1)
        name, _, inputs = (rest[0] if rest else "").partition(" ")
        if not says or not name:
            message = f"Line {number} names no tool. Write: what a user says => tool_name"
            raise invalid(lines=message)
        try:
            given = _inputs(inputs.strip(), tools.get(name))
        except ValueError as error:
            raise invalid(lines=f"Line {number}: {error}") from error
        found.append(Wanted(says, name, given))
    return found


def _inputs(text: str, tool: Signature | None) -> dict[str, Any]:
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as exc:
            raise ValueError(f"“{text[:100]}” is no JSON object.") from exc
    if not text or tool is None:
        return {}  # That there is no such tool is said of the sentence.
    shown, given = {each.name: each for each in tool.inputs}, {}
    for part in _PART.finditer(f"{text},"):
        name, quoted, plain = part["name"].strip(), part["quoted"], part["plain"]
        if plain is None and quoted is None:
            raise ValueError(f"“{part[0][:100].rstrip(',')}” is no input. Write: city: Paris, days: 3")
        if name not in shown:
            raise ValueError(
                f"“{tool.name}” shows no input “{name}”. It shows: {', '.join(shown) or 'none'}."
            )
        try:
            given[name] = converted(plain.strip() if quoted is None else quoted, shown[name])
        except UnfitValueError as error:
            raise ValueError(f"“{name}” {error}.") from error
    return given


def facts(row: Rehearsal) -> dict[str, Any]:
    """What an audit row says about a sentence."""
    expects = row.tool.tool_id if row.tool else f"transfer to {row.child.slug if row.child else ''}"
    return {"agent": row.agent.slug, "says": row.says, "expects": expects, "inputs": row.inputs}


# By the name that a model is shown: the number of the tool in the catalog, or that of the agent taking over.
Targets = dict[str, tuple[int | None, int | None]]


def _targets(agent: Agent) -> Targets:
    pins = Pin.objects.live().of_tools().filter(agent=agent).values_list("name", "tool_id")
    found: Targets = {each.name: (None, each.child_id) for each in transfers.of([agent])}
    for name, tool in pins:
        found[name] = (tool, None)
    return found


def _locked(row: Rehearsal) -> Rehearsal:
    agent = agents.locked(row.agent)
    found = of([agent]).filter(pk=row.pk).first()
    if found is None:
        raise DomainError("rehearsal_removed", "This sentence was removed meanwhile.", status=409)
    found.agent = agent
    return found


def _apply(row: Rehearsal, changes: Changes, targets: Targets) -> None:
    if "says" in changes:
        row.says = checked(" ".join(changes["says"].split()), field="says", limit=MAX_LENGTH)
        if not row.says:
            raise invalid(says="Write a sentence that a user may say.")
    if "tool" in changes:
        name = changes["tool"].strip()
        if name not in targets:
            message = f"The agent shows no tool “{name}”. It shows: {', '.join(sorted(targets)) or 'none'}."
            raise invalid(tool=message[:MAX_LENGTH])
        row.tool_id, row.child_id = targets[name]
    if "inputs" in changes:
        row.inputs = dict(changes["inputs"])
        if len(canonical(row.inputs)) > MAX_INPUTS_LENGTH or "\\u0000" in canonical(row.inputs).decode():
            raise invalid(
                inputs=f"Give a JSON object of at most {MAX_INPUTS_LENGTH} characters, without NUL."
            )
