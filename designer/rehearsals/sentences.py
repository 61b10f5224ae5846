"""Add, change and remove the sentences that test an agent."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

import msgspec
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from catalog.rules.sensitive_values import restore
from core.canonical_json import canonical
from core.compiled_queries import PreparedQueryByKeys
from core.errors import DomainError, invalid
from designer.agents import agents, transfers
from designer.models import Agent, Pin, Rehearsal, RehearsalPlan
from designer.models.rehearsals import MAX_SENTENCE_LENGTH, MAX_SENTENCES
from designer.rehearsals import masking, shown
from designer.texts import validated_text
from execution.activities.conversions import UnfitValueError, convert_value
from people import audit
from people.models import User
from protocols.signature import Signature

# The same limit as for a question to the catalog.
MAX_INPUTS_LENGTH = 4_000
# Between a sentence and its tool on a pasted line. The last arrow of a line counts.
_ARROW = re.compile(r"\s*(?:=>|->|→|\t)\s*(?!.*(?:=>|->|→|\t))")
# An input of a pasted line. A value with a comma has to be quoted.
_PART = re.compile(r"""(?P<name>[^:,]*)(?::\s*(?:"(?P<quoted>[^"]*)"\s*|(?P<plain>[^,]*)))?,""")


@dataclass(frozen=True, slots=True)
class NewSentence:
    """A sentence that is added to the tests of an agent. tool: the name of a pinned tool or a transfer, as a
    model sees it.
    """

    says: str
    tool: str
    inputs: Mapping[str, Any] = field(default_factory=dict)


class SentenceChanges(TypedDict, total=False):
    says: str
    tool: str
    inputs: Mapping[str, Any]


def sentences_of(agents: Collection[Agent]) -> QuerySet[Rehearsal]:
    """Return the agents' sentences in the order in which they were added, with the rows that `shown.Shown`
    needs.
    """
    return _with_targets(Rehearsal.objects.filter(agent__in=agents))


def read_sentences(agents: Iterable[Agent]) -> list[Rehearsal]:
    """Return the rows of `sentences_of`."""
    return _TESTS_OF_AGENTS.rows([agent.pk for agent in agents])


_TESTS_OF_AGENTS: PreparedQueryByKeys[Rehearsal] = PreparedQueryByKeys(
    "designer_rehearsal.agent_id", lambda is_of_agents: _with_targets(Rehearsal.objects.filter(is_of_agents))
)


def _with_targets(rows: QuerySet[Rehearsal]) -> QuerySet[Rehearsal]:
    return rows.select_related("tool", "child").order_by("agent", "pk")


@transaction.atomic
def add(agent: Agent, *, actor: User, new_sentences: Iterable[NewSentence]) -> list[Rehearsal]:
    """Add all sentences or none. Raises DomainError that names the first invalid one by its number."""
    agent = agents.lock_agent(agent)
    additions = list(new_sentences)
    if not additions:
        raise invalid(says=_("Enter a phrase that a user may say."))
    if agent.rehearsals.count() + len(additions) > MAX_SENTENCES:
        message = _("An agent has at most {max_sentences} tests. Remove some first.").format(
            max_sentences=MAX_SENTENCES
        )
        raise DomainError("too_many_rehearsals", message, status=409)
    targets = _find_targets(agent)
    rows = []
    for number, addition in enumerate(additions, 1):
        row = Rehearsal(agent=agent, created_by=actor)
        try:
            _apply_changes(
                row, {"says": addition.says, "tool": addition.tool, "inputs": addition.inputs}, targets
            )
        except DomainError as error:
            if len(additions) == 1:
                raise
            sentence = " ".join(error.fields.values()) or error.message
            raise invalid(
                lines=_("Line {number}: {reason}").format(number=number, reason=sentence)
            ) from error
        row.save()
        audit.record(actor, "create", row, after=_masked_facts(row), agent=agent.pk)
        rows.append(row)
    RehearsalPlan.objects.get_or_create(agent=agent)
    return rows


@transaction.atomic
def change(row: Rehearsal, *, actor: User, **changes: Unpack[SentenceChanges]) -> Rehearsal:
    row = _lock_sentence(row)
    before, masked_before = facts(row), _masked_facts(row)
    _apply_changes(row, changes, _find_targets(row.agent))
    if facts(row) != before:
        row.save()
        after = _masked_facts(sentences_of([row.agent]).get(pk=row.pk))
        audit.record(actor, "edit", row, before=masked_before, after=after, agent=row.agent_id)
    return row


@transaction.atomic
def remove(row: Rehearsal, *, actor: User) -> None:
    row = _lock_sentence(row)
    audit.record(actor, "remove", row, before=_masked_facts(row), agent=row.agent_id)
    row.delete()


def read_lines(text: str, tools: Mapping[str, Signature]) -> list[NewSentence]:
    """Parse one sentence per line: the text, an arrow, the tool, and optionally the inputs, as `city: Paris,
    days: 3` or as a JSON object.

    tools: the tools that the agent shows, by name.
    Raises DomainError that names the first invalid line.
    """
    new_sentences = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        phrase, *remainder = _ARROW.split(line.strip(), maxsplit=1)
        name, inputs = (remainder[0] if remainder else "").partition(" ")[::2]
        if not phrase or not name:
            message = _("Line {number} names no tool. Write: what a user says => tool_name").format(
                number=number
            )
            raise invalid(lines=message)
        try:
            input_values = _parse_inputs(inputs.strip(), tools.get(name))
        except ValueError as error:
            raise invalid(lines=_("Line {number}: {reason}").format(number=number, reason=error)) from error
        new_sentences.append(NewSentence(phrase, name, input_values))
    return new_sentences


def _parse_inputs(text: str, tool: Signature | None) -> dict[str, Any]:
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as exc:
            raise ValueError(_("“{text}” is not a JSON object.").format(text=text[:100])) from exc
    if not text or tool is None:
        return {}  # The unknown tool is reported for the sentence.
    input_values: dict[str, Any] = {}
    inputs = {tool_input.name: tool_input for tool_input in tool.inputs}
    for part in _PART.finditer(f"{text},"):
        name, quoted, plain = part["name"].strip(), part["quoted"], part["plain"]
        if plain is None and quoted is None:
            raise ValueError(
                _("“{text}” is not an input. Write: city: Paris, days: 3").format(
                    text=part[0][:100].rstrip(",")
                )
            )
        if name not in inputs:
            raise ValueError(
                _("“{tool}” has no input “{name}”. It has: {choices}.").format(
                    tool=tool.name, name=name, choices=", ".join(inputs) or _("none")
                )
            )
        try:
            input_values[name] = convert_value(plain.strip() if quoted is None else quoted, inputs[name])
        except UnfitValueError as error:
            raise ValueError(_("“{name}” {reason}.").format(name=name, reason=error)) from error
    return input_values


def facts(row: Rehearsal) -> dict[str, Any]:
    """Return the values of a test, by which a change is noticed."""
    expects = row.tool.tool_id if row.tool else f"transfer to {row.child.slug if row.child else ''}"
    return {"agent": row.agent.slug, "says": row.says, "expects": expects, "inputs": row.inputs}


def _masked_facts(row: Rehearsal) -> dict[str, Any]:
    # Entries of the audit trail cannot be changed, so sensitive values are masked before they are written.
    if not row.inputs:
        return facts(row)
    marks = masking.marks_of_tests(shown.tools_of_agents([row.agent])[row.agent_id], [row])
    return facts(row) | {"inputs": masking.masked_inputs(row, marks)}


# By the name that a model sees: the id of the catalog tool, or that of the sub-agent.
Targets = dict[str, tuple[int | None, int | None]]


def _find_targets(agent: Agent) -> Targets:
    pins = Pin.objects.live().of_tools().filter(agent=agent).values_list("name", "tool_id")
    targets: Targets = {
        transfer.name: (None, transfer.child_id) for transfer in transfers.transfers_from([agent])
    }
    for name, tool in pins:
        targets[name] = (tool, None)
    return targets


def _lock_sentence(row: Rehearsal) -> Rehearsal:
    agent = agents.lock_agent(row.agent)
    current = sentences_of([agent]).filter(pk=row.pk).first()
    if current is None:
        raise DomainError("rehearsal_removed", _("Another user removed this test."), status=409)
    current.agent = agent
    return current


def _apply_changes(row: Rehearsal, changes: SentenceChanges, targets: Targets) -> None:
    if "says" in changes:
        row.says = validated_text(" ".join(changes["says"].split()), field="says", limit=MAX_SENTENCE_LENGTH)
        if not row.says:
            raise invalid(says=_("Enter a phrase that a user may say."))
    stored_inputs, target = row.inputs, (row.tool_id, row.child_id)
    if "tool" in changes:
        name = changes["tool"].strip()
        if name not in targets:
            message = _("The agent has no tool “{name}”. It has: {choices}.").format(
                name=name, choices=", ".join(sorted(targets)) or _("none")
            )
            raise invalid(tool=message[:MAX_SENTENCE_LENGTH])
        row.tool_id, row.child_id = targets[name]
        # A mask stands for a value of the same tool.
        stored_inputs = row.inputs if targets[name] == target else {}
    if "inputs" in changes:
        row.inputs = restore(dict(changes["inputs"]), stored_inputs)
        if len(canonical(row.inputs)) > MAX_INPUTS_LENGTH or "\\u0000" in canonical(row.inputs).decode():
            raise invalid(
                inputs=_(
                    "Enter a JSON object of at most {max_inputs_length} characters, without NUL."
                ).format(max_inputs_length=MAX_INPUTS_LENGTH)
            )
