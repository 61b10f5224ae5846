"""Changes of procedures. Each is one change by one user, audited in its transaction."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F, Max, OuterRef, QuerySet, Subquery
from django.utils import timezone
from django.utils.translation import gettext as _

from core import display_names, slugs
from core.compiled_queries import PreparedQuery, is_any_of, named_value
from core.errors import DomainError
from designer.agents import agents
from designer.agents.agents import lock_agent
from designer.models import (
    Agent,
    Pin,
    Procedure,
    ProcedureDraft,
    ProcedureReference,
    ProcedureVersion,
)
from designer.models.procedures import MAX_REASON_LENGTH, MAX_TITLE_LENGTH
from designer.procedures import references, vocabulary
from designer.procedures.references import Piece
from designer.procedures.template import TEMPLATE
from designer.texts import why_not
from people import audit
from people.audit import edit_conflicts
from people.models import User

# About 15,000 tokens; 500 lines of 120 characters.
MAX_TEXT_LENGTH = 60_000
# A model reads all of an agent's procedures.
MAX_PROCEDURES = 100
# A title from a text has so many words, and does not end with a short one, such as “the”.
TITLE_WORDS, MIN_LAST_WORD = 5, 4
# Addresses below an agent's procedures that are not procedures.
RESERVED = {"lint", "new"}


@transaction.atomic
def create_procedure(
    agent: Agent, *, actor: User, title: str, body: str | None = None, slug: str = "", why: str = ""
) -> Procedure:
    """Create a procedure. Without a body it starts with the template. Raises DomainError for invalid
    values.
    """
    agent = lock_agent(agent)
    title = _checked_title(title)
    body = _checked_body(TEMPLATE if body is None else body)
    count = agent.procedures.live().count()
    if count >= MAX_PROCEDURES:
        message = _(
            "“{agent}” has {count} procedures, and {max_procedures} is the most. Remove one first."
        ).format(agent=agent, count=count, max_procedures=MAX_PROCEDURES)
        raise DomainError("too_many_procedures", message, status=409)
    pieces = references.parse(body, vocabulary.vocabulary_of(agent, texts=[body]))
    last = agent.procedures.live().aggregate(last=Max("position"))["last"] or 0
    procedure = Procedure.objects.create(
        agent=agent,
        slug=_free_slug(agent, title, slug),
        title=title,
        text=references.stored_text(pieces),
        position=last + 1,
        created_by=actor,
        updated_by=actor,
    )
    _add_version(procedure, pieces, actor, why)
    audit.record(actor, "create", procedure, after=facts(procedure), why=why, agent=agent.pk)
    return procedure


@transaction.atomic
def create_agent_from_text(*, actor: User, text: str, name: str, **values: Any) -> Procedure:
    """Create an agent with a first procedure of this text. `values`: as of `agents.create_agent`."""
    agent = agents.create_agent(actor=actor, name=name, **values)
    return create_procedure(agent, actor=actor, title=name, body=text)


def title_from(text: str) -> str:
    """Return a title from the first words of a text; "" if it has none."""
    first_line = next((line for line in text.splitlines() if re.search(r"\w", line)), "")
    words = re.split(r"[.,:;!?()]", re.sub(r"^\W*(?:\d+[.)]\s+)?", "", first_line))[0].split()[:TITLE_WORDS]
    while len(words) > 1 and len(words[-1]) < MIN_LAST_WORD:
        words.pop()
    title = " ".join(words)[:MAX_TITLE_LENGTH]
    return title[:1].upper() + title[1:]


@transaction.atomic
def copy_procedures(
    source: Agent, target: Agent, *, actor: User, pins: Mapping[int, int], agents: Mapping[int, int]
) -> None:
    """Copy the procedures to an agent without any, in order. `pins` and `agents` map originals to copies."""
    procedures = list(source.procedures.live())
    names = vocabulary.vocabulary_of(source, texts=[procedure.text for procedure in procedures])
    # References are mapped to the copies first: the text that is parsed below belongs to the new agent.
    texts = [
        references.repoint_text(references.parse(procedure.text, names), pins=pins, agents=agents)
        for procedure in procedures
    ]
    names = vocabulary.vocabulary_of(target, texts=texts)
    reason = f"Copied from “{source}”."
    for procedure, text in zip(procedures, texts, strict=True):
        pieces = references.parse(text, names)
        copy = Procedure.objects.create(
            agent=target,
            slug=procedure.slug,
            title=procedure.title,
            text=references.stored_text(pieces),
            position=procedure.position,
            created_by=actor,
            updated_by=actor,
        )
        _add_version(copy, pieces, actor, reason)
        # A line that was broken in the original is broken in the copy.
        for pin, version in procedure.references.exclude(version=None).values_list("pin", "version"):
            copy.references.filter(pin=pins.get(pin)).update(version=version)
        audit.record(actor, "create", copy, after=facts(copy), why=reason, agent=target.pk)


@transaction.atomic
def save_procedure(
    procedure: Procedure,
    *,
    actor: User,
    title: str | None = None,
    body: str | None = None,
    why: str = "",
    expected: str = edit_conflicts.ANY_STATE,
) -> Procedure:
    """Save the procedure. `expected`: the state that the editor started from
    (people/audit/edit_conflicts.py).

    The actor's draft is deleted; those of other users remain.
    """
    procedure = _lock_procedure(procedure)
    before = facts(procedure)
    why = why.strip()
    if problem := why_not(why, MAX_REASON_LENGTH):
        raise DomainError(
            "invalid",
            _("The reason cannot be saved: {reason}").format(reason=problem),
            fields={"why": problem},
        )
    title = procedure.title if title is None else _checked_title(title)
    body = procedure.text if body is None else _checked_body(body)
    names = vocabulary.vocabulary_of(procedure.agent, texts=[procedure.text, body])
    pieces = references.parse(body, names)
    new_facts = before | {"title": title, "text": references.stored_text(pieces)}
    edit_conflicts.check(procedure, expected, now=before, submitted=new_facts)
    # Deleted before the comparison: the actor is done with the draft in any case.
    procedure.drafts.filter(user=actor).delete()
    if new_facts == before:
        _confirm_lines(procedure, actor)
        return procedure
    procedure.title, procedure.text = title, new_facts["text"]
    procedure.number += 1
    procedure.updated_by, procedure.updated_at = actor, timezone.now()
    procedure.save(update_fields=["title", "text", "number", "updated_by", "updated_at"])
    _add_version(procedure, pieces, actor, why)
    audit.record(
        actor, "edit", procedure, before=before, after=facts(procedure), why=why, agent=procedure.agent_id
    )
    return procedure


def restore_version(
    procedure: Procedure, number: int, *, actor: User, expected: str = edit_conflicts.ANY_STATE
) -> Procedure:
    """Save an earlier text as the newest version. Raises DomainError for an unknown number."""
    version = procedure.versions.filter(number=number).first()
    if version is None:
        message = _("“{procedure}” has no version {number}.").format(procedure=procedure, number=number)
        raise DomainError("unknown_version", message, fields={"version": message})
    return save_procedure(
        procedure,
        actor=actor,
        title=version.title,
        body=version.text,
        why=f"Version {number} restored.",
        expected=expected,
    )


@transaction.atomic
def move_procedure(procedure: Procedure, *, actor: User, position: int) -> None:
    """Move the procedure to a position among its agent's procedures, counted from 1; beyond the last means
    last.
    """
    procedure = _lock_procedure(procedure)
    before = procedure.position
    # Numbered anew from 1, which removes gaps and duplicates.
    others = list(procedure.agent.procedures.live().exclude(pk=procedure.pk))
    others.insert(max(position - 1, 0), procedure)
    for place, row in enumerate(others, 1):
        if row.position != place:
            Procedure.objects.filter(pk=row.pk).update(position=place)
    procedure.refresh_from_db(fields=["position"])
    if procedure.position != before:
        audit.record(
            actor,
            "move",
            procedure,
            before={"position": before},
            after={"position": procedure.position},
            agent=procedure.agent_id,
        )


@transaction.atomic
def remove_procedure(procedure: Procedure, *, actor: User) -> None:
    """Hide the procedure. Its versions remain, and published releases keep its text."""
    procedure = _lock_procedure(procedure)
    procedure.removed_at = timezone.now()
    procedure.save(update_fields=["removed_at"])
    # A pin that only a removed procedure names counts as unused.
    procedure.references.all().delete()
    following = procedure.agent.procedures.live().filter(position__gt=procedure.position)
    following.update(position=F("position") - 1)
    audit.record(actor, "remove", procedure, before=facts(procedure), agent=procedure.agent_id)


def keep_draft(procedure: Procedure, *, user: User, title: str, body: str, based_on: int) -> ProcedureDraft:
    """Store the user's unsaved text, with references by id like a saved text. A draft may have an empty
    title.
    """
    if reason := why_not(title, MAX_TITLE_LENGTH):
        raise DomainError(
            "invalid",
            _("The title cannot be saved: {reason}").format(reason=reason),
            fields={"title": reason},
        )
    body = _checked_body(body)
    names = vocabulary.vocabulary_of(procedure.agent, texts=[procedure.text, body])
    text = references.stored_text(references.parse(body, names))
    return ProcedureDraft.objects.update_or_create(
        procedure=procedure,
        user=user,
        defaults={"title": title, "text": text, "based_on": based_on, "saved_at": timezone.now()},
    )[0]


def pins_made_for(draft: ProcedureDraft) -> QuerySet[Pin]:
    """Return the agent's pins that the user created in the editor while writing this draft."""
    pins = draft.pins_made.filter(removed_at=None, agent=draft.procedure.agent_id)
    return pins.order_by("name")


def procedures_with_drafts(procedures: Iterable[Procedure], user: User) -> set[int]:
    """Return the procedures of these with a draft of the user that differs from the saved text. One query."""
    rows = {row.pk: row for row in procedures}
    drafts = _DRAFT_TEXTS.rows(user=user.pk, procedures=list(rows)) if rows else ()
    return {pk for pk, title, text in drafts if (title, text) != (rows[pk].title, rows[pk].text)}


_DRAFT_TEXTS: PreparedQuery[tuple[int, str, str]] = PreparedQuery(
    lambda: (
        ProcedureDraft.objects.filter(
            is_any_of("designer_proceduredraft.procedure_id", "procedures"), user=named_value("user")
        )
        .order_by()
        .values_list("procedure_id", "title", "text")
    )
)


@transaction.atomic
def discard_draft(procedure: Procedure, *, user: User) -> list[Pin]:
    """Delete the draft. Return the pins that were created only for it: no saved procedure names them."""
    draft = ProcedureDraft.objects.filter(procedure=procedure, user=user).first()
    if draft is None:
        return []
    draft_pins = pins_made_for(draft)
    unused = list(
        draft_pins.exclude(pk__in=ProcedureReference.objects.filter(pin__in=draft_pins).values("pin"))
    )
    draft.delete()
    return unused


def facts(procedure: Procedure) -> dict[str, Any]:
    """Return the values for an audit row. The text has its references by id."""
    return {
        "agent": procedure.agent.slug,
        "slug": procedure.slug,
        "title": procedure.title,
        "text": procedure.text,
    }


def _lock_procedure(procedure: Procedure) -> Procedure:
    # Every edit of an agent's procedures locks the agent, as for its pins.
    agent = lock_agent(procedure.agent)
    current = agent.procedures.live().filter(pk=procedure.pk).first()
    if current is None:
        raise DomainError(
            "procedure_removed", _("“{procedure}” has been removed.").format(procedure=procedure), status=409
        )
    current.agent = agent
    return current


def _add_version(procedure: Procedure, pieces: Sequence[Piece], actor: User, why: str) -> None:
    ProcedureVersion.objects.create(
        procedure=procedure,
        number=procedure.number,
        title=procedure.title,
        text=procedure.text,
        why=why,
        created_by=actor,
    )
    procedure.references.all().delete()
    versions = dict(Pin.objects.filter(agent=procedure.agent_id).values_list("pk", "version"))
    ProcedureReference.objects.bulk_create(
        ProcedureReference(
            procedure=procedure,
            line=place.line,
            column=place.column,
            kind=place.kind,
            pin_id=None if place.kind == "agent" else place.target,
            version_id=None if place.kind == "agent" else versions.get(place.target or 0),
            agent_id=place.target if place.kind == "agent" else None,
            member=place.member,
        )
        for place in references.flat(pieces)
    )


def _confirm_lines(procedure: Procedure, actor: User) -> None:
    """Record that the user saved the unchanged text: it is right for the versions that are pinned now."""
    moved = procedure.references.exclude(version=F("pin__version")).exclude(version=None)
    names = sorted(set(moved.values_list("pin__name", flat=True)))
    if names:
        pinned_version = Pin.objects.filter(pk=OuterRef("pin")).values("version")
        moved.update(version=Subquery(pinned_version))
        audit.record(actor, "confirm", procedure, after={"tools": names}, agent=procedure.agent_id)


def _checked_title(title: str) -> str:
    title = title.strip()
    if reason := display_names.name_problem(title, MAX_TITLE_LENGTH):
        raise DomainError("invalid", _("Choose another title."), fields={"title": reason})
    return title


def _checked_body(body: str) -> str:
    body = body.replace("\r\n", "\n").replace("\r", "\n")
    if reason := why_not(body, MAX_TEXT_LENGTH):
        raise DomainError(
            "invalid", _("The text cannot be saved: {reason}").format(reason=reason), fields={"body": reason}
        )
    return body


def _free_slug(agent: Agent, title: str, proposal: str) -> str:
    used_slugs = set(agent.procedures.live().values_list("slug", flat=True)) | RESERVED
    if proposal:
        proposal = slugs.parse_slug(proposal)
        if proposal in used_slugs:
            message = _("“{agent}” has a procedure at “{proposal}” already.").format(
                agent=agent, proposal=proposal
            )
            raise DomainError("slug_taken", message, fields={"slug": message}, status=409)
        return proposal
    return slugs.unused_slug(slugs.stem_of(slugs.from_name(title) or "procedure"), used_slugs)
