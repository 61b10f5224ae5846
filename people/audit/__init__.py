"""The audit trail: one row for each change by a person or a worker, in the transaction of the change."""

import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from functools import cache
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import CharField, DateField, Model, Q, QuerySet, TextChoices, TextField
from django.db.models.functions import Cast
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import override

from core.compiled_queries import PreparedInsert
from people.audit import words
from people.audit.hash_chain import CONTENT, digest_of
from people.models import KEY_KINDS, ApiKey, AuditEntry, User, kind_names

# Only administrators manage these kinds, so only they read about them.
ADMINISTRATORS_ONLY = ("team", "webhook")
# These kinds belong to one user. That user and the actor of the change read about them.
PERSONAL = (*KEY_KINDS, "subscription", "mailaddress", "example", "thread")
ENTRIES_AT_ONCE = 500
# The package `designer` is above this one, so it registers the rule that decides who sees which agents.
AgentsSeenBy = Callable[[User], QuerySet[Any, Any]]
_agents_seen_by: list[AgentsSeenBy] = []


# The inputs of a filter of entries: a text in their label, and their days.
TEXT: "CharField[str, str]" = CharField(max_length=200, blank=True)
FIRST_DAY: "DateField[date, date]" = DateField(blank=True)
LAST_DAY: "DateField[date, date]" = DateField(blank=True)


class Doer(TextChoices):
    PEOPLE = "people", _("People")
    WORKERS = "workers", _("Pegboard itself")


# DISTINCT would read every row of the trail; this skips from one kind to the next in the index.
KINDS = """
WITH RECURSIVE kinds(kind) AS (
    (SELECT min(kind) FROM people_auditentry)
    UNION ALL
    SELECT (SELECT min(kind) FROM people_auditentry WHERE kind > kinds.kind) FROM kinds WHERE kind IS NOT NULL
)
SELECT kind FROM kinds WHERE kind IS NOT NULL
"""


def agents_are_seen_by(rule: AgentsSeenBy) -> None:
    _agents_seen_by[:] = [rule]


def agents_seen_by(user: User) -> QuerySet[Any, Any]:
    (rule,) = _agents_seen_by
    return rule(user)


def record(
    actor: User | None,
    action: str,
    target: Model,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    why: str = "",
    agent: int | None = None,
) -> AuditEntry:
    """Write an audit entry. Must be called inside `transaction.atomic()`.

    actor: None for a change by a worker; then `why` names the run or the rule that caused it.
    action: a verb ("pin", "publish").
    before, after: only the members that differ are stored.
    agent: the agent that the change concerns; users who may not see it cannot read the entry.
    """
    _refuse_outside_of_transaction()
    entry = _build_entry(actor, action, target, before, after, why=why, agent=agent)
    _insert_statement().write(entry)
    return entry


class ObjectChange(NamedTuple):
    """A change of one of many objects, with the facts as in `record`."""

    action: str
    target: Model
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def record_many(actor: User | None, changes: Iterable[ObjectChange], *, why: str = "") -> None:
    """Write the entries that `record` would write, in few statements. Must be called in the same way."""
    _refuse_outside_of_transaction()
    entries = (_build_entry(actor, *change, why=why, agent=None) for change in changes)
    AuditEntry.objects.bulk_create(entries, batch_size=ENTRIES_AT_ONCE)


def _refuse_outside_of_transaction() -> None:
    if not connection.in_atomic_block:
        raise RuntimeError("an audit entry has to be written in the transaction of its change")


def statement(
    actor: User | None,
    action: str,
    target: Model,
    *,
    after: dict[str, Any],
    why: str = "",
    agent: int | None = None,
    only_if: tuple[str, Sequence[object]],
) -> tuple[str, list[object]]:
    """Return the statement that writes an entry after a change in the same round trip, and its values.

    only_if: a condition in SQL with its values; the entry is written if the condition is true then.
    """
    condition, values = only_if
    entry = _build_entry(actor, action, target, None, after, why=why, agent=agent)
    return _insert_statement(condition).statement(entry, values)


def _build_entry(
    actor: User | None,
    action: str,
    target: Model,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    *,
    why: str,
    agent: int | None,
) -> AuditEntry:
    if before is not None and after is not None:
        changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        before, after = ({key: facts.get(key) for key in changed} for facts in (before, after))
    with override("en"):  # an entry cannot be changed, and is the same for every reader
        label = str(target)[:300]
    entry = AuditEntry(
        at=timezone.now(),
        actor=actor,
        actor_name=str(actor) if actor else "Pegboard",
        action=action,
        kind=target._meta.model_name or "",
        object_id=str(target.pk),
        label=label,
        agent=agent,
        before=before,
        after=after,
        why=why,
        salt=secrets.token_hex(16),
    )
    entry.digest = digest_of(content_of(entry))
    return entry


@cache
def _insert_statement(condition: str = "") -> PreparedInsert:
    return PreparedInsert(AuditEntry, where=f"WHERE {condition}" if condition else "")


def content_of(entry: AuditEntry) -> dict[str, Any]:
    """Return the members of an entry that its digest covers."""
    return {name: entry.actor_id if name == "actor" else getattr(entry, name) for name in (*CONTENT, "salt")}


def visible_to(user: User) -> QuerySet[AuditEntry]:
    """Return the entries that `user` may read: none about other teams' agents, other users' keys, or teams.

    Users who see an agent read all entries that name the agent.
    """
    rows = AuditEntry.objects.all()
    if user.can_administer:
        return rows
    keys = ApiKey.objects.filter(user=user).annotate(text=Cast("pk", TextField())).values("text")
    is_readable = ~Q(kind__in=PERSONAL) | Q(actor=user) | Q(kind__in=KEY_KINDS, object_id__in=keys)
    return rows.exclude(kind__in=ADMINISTRATORS_ONLY).filter(
        Q(agent__in=agents_seen_by(user)) | (Q(agent=None) & is_readable)
    )


def entries(
    reader: User,
    *,
    actor: User | None = None,
    by: str = "",
    kind: str = "",
    q: str = "",
    first_day: date | None = None,
    last_day: date | None = None,
) -> QuerySet[AuditEntry]:
    """Return entries that `reader` may see: by one user or a `Doer`, of one kind, with `q` in the label.

    first_day, last_day: both are included, in the time zone of the installation.
    """
    rows = visible_to(reader)
    if first_day:
        rows = rows.filter(at__gte=timezone.make_aware(datetime.combine(first_day, time.min)))
    if last_day:
        rows = rows.filter(at__lte=timezone.make_aware(datetime.combine(last_day, time.max)))
    if actor:
        rows = rows.filter(actor=actor)
    if by:
        rows = rows.filter(actor__isnull=by == Doer.WORKERS)
    if kind:
        rows = rows.filter(kind__in=KEY_KINDS if kind in KEY_KINDS else [kind])
    return rows.filter(label__icontains=q) if q else rows


def kinds() -> list[tuple[str, str]]:
    """Return the kinds of objects that have entries, each with its name on pages."""
    names = kind_names()
    with connection.cursor() as cursor:
        cursor.execute(KINDS)
        kinds_in_use = {KEY_KINDS[0] if kind in KEY_KINDS else kind for (kind,) in cursor.fetchall()}
    return [(kind, words.kind_name(names.get(kind, kind))) for kind in sorted(kinds_in_use)]
