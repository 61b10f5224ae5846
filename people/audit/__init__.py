"""The audit trail: one row for each change by a person or a worker, in the transaction of the change."""

import secrets
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import Model, Q, QuerySet, TextChoices, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from core.compiled_queries import PreparedInsert
from people.audit.hash_chain import CONTENT, digest_of
from people.models import KEY_KINDS, ApiKey, AuditEntry, User, kind_names

# Kinds that administrators alone manage, so that they alone read about them.
ADMINISTRATORS_ONLY = ("team", "webhook")
# Kinds that belong to one user: read by that user and by the actor of the change.
PERSONAL = (*KEY_KINDS, "subscription", "mailaddress")
# Agents are on a floor above people, so designer registers who sees which.
AgentsSeenBy = Callable[[User], QuerySet[Any, Any]]
_agents_seen_by: list[AgentsSeenBy] = []


class Doer(TextChoices):
    PEOPLE = "people", "People"
    WORKERS = "workers", "Pegboard itself"


# DISTINCT would read every row of a trail that only grows; this skips from one kind to the next in the index.
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
    """`action` is a verb ("pin", "publish"); `before` and `after` hold only the members that differ.

    Must be called inside `transaction.atomic()`; `actor` is None for what a worker did by itself, and
    then `why` says which run or rule made it do so. `agent` is the one that the change is about: users
    who may not see it do not read of it.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("an audit row belongs into the transaction of its change")
    entry = _entry(actor, action, target, before=before, after=after, why=why, agent=agent)
    _insert().write(entry)
    return entry


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
    """The same for `run_together`, behind the change itself: written if `only_if`, a condition with its
    values, holds then."""
    condition, values = only_if
    entry = _entry(actor, action, target, before=None, after=after, why=why, agent=agent)
    return _insert(condition).statement(entry, values)


def _entry(
    actor: User | None,
    action: str,
    target: Model,
    *,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    why: str,
    agent: int | None,
) -> AuditEntry:
    before, after = _differing(before, after)
    entry = AuditEntry(
        at=timezone.now(),
        actor=actor,
        actor_name=str(actor) if actor else "Pegboard",
        action=action,
        kind=target._meta.model_name or "",
        object_id=str(target.pk),
        label=str(target)[:300],
        agent=agent,
        before=before,
        after=after,
        why=why,
        salt=secrets.token_hex(16),
    )
    entry.digest = digest_of(content_of(entry))
    return entry


@cache
def _insert(condition: str = "") -> PreparedInsert:
    return PreparedInsert(AuditEntry, where=f"WHERE {condition}" if condition else "")


def content_of(entry: AuditEntry) -> dict[str, Any]:
    """Return what the digest of an entry is computed over."""
    return {name: entry.actor_id if name == "actor" else getattr(entry, name) for name in (*CONTENT, "salt")}


def visible_to(user: User) -> QuerySet[AuditEntry]:
    """Without entries about other teams' agents, other users' keys, and the teams themselves.

    An entry that names an agent is read by those who see the agent, whatever else it is about.
    """
    rows = AuditEntry.objects.all()
    if user.can_administer:
        return rows
    keys = ApiKey.objects.filter(user=user).annotate(text=Cast("pk", TextField())).values("text")
    is_theirs = ~Q(kind__in=PERSONAL) | Q(actor=user) | Q(kind__in=KEY_KINDS, object_id__in=keys)
    return rows.exclude(kind__in=ADMINISTRATORS_ONLY).filter(
        Q(agent__in=agents_seen_by(user)) | (Q(agent=None) & is_theirs)
    )


def entries(
    reader: User, *, actor: User | None = None, by: str = "", kind: str = "", q: str = ""
) -> QuerySet[AuditEntry]:
    """Those that `reader` may see: by one person, or by a `Doer`; of one kind, with `q` in their label."""
    rows = visible_to(reader)
    if actor:
        rows = rows.filter(actor=actor)
    if by:
        rows = rows.filter(actor__isnull=by == Doer.WORKERS)
    if kind:
        rows = rows.filter(kind__in=KEY_KINDS if kind in KEY_KINDS else [kind])
    return rows.filter(label__icontains=q) if q else rows


def kinds() -> list[tuple[str, str]]:
    """The kinds of things that were changed so far, each with its name for people."""
    names = kind_names()
    with connection.cursor() as cursor:
        cursor.execute(KINDS)
        found = {KEY_KINDS[0] if kind in KEY_KINDS else kind for (kind,) in cursor.fetchall()}
    return [(kind, names.get(kind, kind)) for kind in sorted(found)]


def _differing(
    before: dict[str, Any] | None, after: dict[str, Any] | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    if before is None or after is None:
        return before, after
    changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    return {k: before.get(k) for k in sorted(changed)}, {k: after.get(k) for k in sorted(changed)}
