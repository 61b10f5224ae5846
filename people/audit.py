"""The audit trail: one row for each change a person makes, in the transaction of the change."""

from typing import Any

from django.db import connection
from django.db.models import Model, QuerySet

from people.models import AuditEntry, User, kind_names

# DISTINCT would read every row of a trail that only grows; this goes from one kind to the next in the index.
KINDS = """
WITH RECURSIVE kinds(kind) AS (
    (SELECT min(kind) FROM people_auditentry)
    UNION ALL
    SELECT (SELECT min(kind) FROM people_auditentry WHERE kind > kinds.kind) FROM kinds WHERE kind IS NOT NULL
)
SELECT kind FROM kinds WHERE kind IS NOT NULL
"""


def record(
    actor: User | None,
    action: str,
    target: Model,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditEntry:
    """`action` is a verb ("pin", "publish"); `before` and `after` hold only the members that differ.

    Must be called inside `transaction.atomic()`; `actor` is None for what the product did by itself.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("an audit row belongs into the transaction of its change")
    before, after = _differing(before, after)
    return AuditEntry.objects.create(
        actor=actor,
        actor_name=str(actor) if actor else "Pegboard",
        action=action,
        kind=target._meta.model_name or "",
        object_id=str(target.pk),
        label=str(target)[:300],
        before=before,
        after=after,
    )


def entries(*, actor: User | None = None, kind: str = "", q: str = "") -> QuerySet[AuditEntry]:
    """Those by one person, of one kind, with `q` in their label."""
    rows = AuditEntry.objects.all()
    if actor:
        rows = rows.filter(actor=actor)
    if kind:
        rows = rows.filter(kind=kind)
    return rows.filter(label__icontains=q) if q else rows


def kinds() -> list[tuple[str, str]]:
    """The kinds of things that were changed so far, each with its name for people."""
    names = kind_names()
    with connection.cursor() as cursor:
        cursor.execute(KINDS)
        return [(kind, names.get(kind, kind)) for (kind,) in cursor.fetchall()]


def _differing(
    before: dict[str, Any] | None, after: dict[str, Any] | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    if before is None or after is None:
        return before, after
    changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    return {k: before.get(k) for k in sorted(changed)}, {k: after.get(k) for k in sorted(changed)}
