"""Which tools changed since this host's index was written: a log in PostgreSQL, read by snapshots.

A change that commits late has a lower id than one that is indexed already. So the index remembers the
snapshot of the database that it covers, and a change is new if that snapshot did not see its transaction.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
from django.db import connection

# Changes are deleted after some days. An index that was not written for so long is built again.
KEPT_DAYS, MAX_INDEX_DAYS = 3, 2


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that an index contains. It is stored in the index, with the documents.

    recipe: what the documents were made with; an index of another recipe is built again.
    source: identifies the database; numbers of its transactions mean nothing to another one.
    snapshot: the changes that it saw are indexed.
    target, through: so are those that the snapshot `target` saw, up to this id.
    own: ids of indexed changes of a transaction that neither snapshot saw, because it made the index itself.
    filled_through: the first filling has reached the tool with this id; None when it is complete.
    written_at: seconds since 1970 by the clock of the database.
    """

    source: str
    snapshot: str
    target: str
    recipe: str = ""
    through: int = 0
    own: tuple[int, ...] = ()
    filled_through: int | None = None
    written_at: float = 0.0

    def dump(self) -> str:
        return msgspec.json.encode(self).decode()


_decode = msgspec.json.Decoder(IndexState).decode


@dataclass(frozen=True, slots=True)
class DatabaseMoment:
    """The database now: which one it is, its snapshot, its clock; whether this transaction has
    written to it."""

    source: str
    snapshot: str
    time: float
    is_writing: bool


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes in the order of their ids: the tools, and which of the changes are of this transaction."""

    tools: list[int]
    last: int
    own: tuple[int, ...]


def read_state(text: str | None) -> IndexState | None:
    """Return the state that an index was written with, None if nothing can be done with it."""
    if text is None:
        return None
    try:
        return _decode(text)
    except msgspec.MsgspecError:
        return None


def database_moment() -> DatabaseMoment:
    # After a restore or a failover the transactions are counted from elsewhere.
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT concat_ws('/', s.system_identifier, c.timeline_id, d.oid), pg_current_snapshot()::text,
                extract(epoch FROM clock_timestamp())::float8, pg_current_xact_id_if_assigned()::text
            FROM pg_control_system() s, pg_control_checkpoint() c, pg_database d
            WHERE d.datname = current_database()
            """
        )
        source, snapshot, time, own = cursor.fetchone()
    return DatabaseMoment(source, snapshot_without(snapshot, own), time, is_writing=own is not None)


def snapshot_without(snapshot: str, transaction: str | None) -> str:
    """Return the snapshot as one that does not see a transaction.

    PostgreSQL does not list the transaction that takes a snapshot among the unfinished ones. As soon as a
    later transaction has ended, its snapshots seem to see all that it will still change.
    """
    first, following, unfinished = snapshot.split(":")
    if transaction is None or int(transaction) >= int(following):
        return snapshot
    numbers = {int(number) for number in (*unfinished.split(","), transaction) if number}
    return f"{first}:{following}:{','.join(map(str, sorted(numbers)))}"


def is_usable(state: IndexState, moment: DatabaseMoment) -> bool:
    return state.source == moment.source and moment.time - state.written_at < MAX_INDEX_DAYS * 86_400


def first_state(moment: DatabaseMoment, recipe: str) -> IndexState:
    """Return the state of an empty index that is going to be filled."""
    # The filling reads the changes of this transaction.
    return IndexState(
        source=moment.source,
        recipe=recipe,
        snapshot=moment.snapshot,
        target=moment.snapshot,
        own=own_changes(),
        filled_through=0,
        written_at=moment.time,
    )


# Changes `c` that the index does not contain. The first comparison is what the index of the table can answer.
NOT_INDEXED = """
    c.transaction >= pg_snapshot_xmin(%(snapshot)s::pg_snapshot)::text::bigint
    AND NOT pg_visible_in_snapshot(c.transaction::text::xid8, %(snapshot)s::pg_snapshot)
    AND NOT (c.id <= %(through)s
        AND pg_visible_in_snapshot(c.transaction::text::xid8, %(target)s::pg_snapshot))
    AND c.id <> ALL(%(own)s)
"""


_BATCH = f"""
SELECT c.id, c.tool_id, NOT is_seen FROM catalog_toolchange c CROSS JOIN LATERAL (SELECT
    pg_visible_in_snapshot(c.transaction::text::xid8, %(target)s::pg_snapshot) AS is_seen) seen
WHERE {NOT_INDEXED} AND (is_seen OR c.transaction = pg_current_xact_id_if_assigned()::text::bigint)
ORDER BY c.id LIMIT %(limit)s
"""  # noqa: S608 - a constant
_COUNT = f"SELECT count(*) FROM (SELECT FROM catalog_toolchange c WHERE {NOT_INDEXED} LIMIT %(limit)s) few"  # noqa: S608


def values_of(state: IndexState) -> dict[str, Any]:
    """Return the parameters of `NOT_INDEXED`."""
    return {
        "snapshot": state.snapshot,
        "target": state.target,
        "through": state.through,
        "own": list(state.own),
    }


def read_batch(state: IndexState, limit: int) -> ChangeBatch:
    """Return the next changes that the target has seen, and those of this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            _BATCH,
            {**values_of(state), "limit": limit},
        )
        rows = cursor.fetchall()
    own = tuple(change for change, _, is_own in rows if is_own)
    last = max((change for change, _, is_own in rows if not is_own), default=state.through)
    return ChangeBatch(sorted({tool for _, tool, _ in rows}), last, own)


def own_changes() -> tuple[int, ...]:
    """Return the ids of the changes of this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM catalog_toolchange"
            " WHERE transaction = pg_current_xact_id_if_assigned()::text::bigint ORDER BY id"
        )
        return tuple(change for (change,) in cursor.fetchall())


def with_next_target(state: IndexState) -> IndexState:
    """Return the state after all changes that its target has seen; its next target is the database now."""
    moment = database_moment()
    return msgspec.structs.replace(
        state,
        snapshot=state.target,
        target=moment.snapshot,
        through=0,
        own=state.own if moment.is_writing else (),
    )


def count_changes(state: IndexState, limit: int) -> int:
    """Return how many changes are not indexed; counting stops at `limit`."""
    with connection.cursor() as cursor:
        cursor.execute(
            _COUNT,
            {**values_of(state), "limit": limit},
        )
        return int(cursor.fetchone()[0])


def delete_old() -> None:
    """Delete the changes that every index which is still used contains."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM catalog_toolchange WHERE changed_at < now() - make_interval(days => %s)",
            [KEPT_DAYS],
        )
