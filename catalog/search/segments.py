"""How documents and postings lie in the database: written a segment at a time, merged, dropped.

A segment never changes. The documents of an endpoint with many tools have segments of their own, so that
searching one vendor reads only that vendor's postings; all others share segments (home None).
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from django.db import connection, transaction

from catalog.search import ranking

# Segments of about one size are merged when there are so many. A merge rewrites at most so many tools,
# because it holds the lock and is one transaction.
FAN, MAX_TOOLS = 8, 5_000
# What postings call home when documents of many endpoints share it.
SHARED = 0
# Any number, as long as no other advisory lock of the product has it: “pegb” in ASCII.
_WRITING = 0x70656762
# While a segment is in memory a posting is one number, impact above document: quick to sort.
_IMPACT = 32
_DOCUMENT = 2**_IMPACT - 1


class State(NamedTuple):
    """What a tool is indexed from: its version, and by when they changed our words and its vendor's name."""

    version: int | None
    worded_at: datetime | None
    renamed_at: datetime | None


class Document(NamedTuple):
    """One tool as indexed; `strengths` repeats what `vector` says."""

    tool: int
    state: State
    endpoint: int
    name_key: str
    vector: bytes
    strengths: Mapping[int, int]


class Segment(NamedTuple):
    """`live` of its documents are still those of their tools."""

    id: int
    documents: int
    live: int


def take_turn() -> None:
    """Waits until no other process writes the index; the turn lasts until the transaction ends."""
    # A batch takes about a second.
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '60s'")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_WRITING])


def add(home: int | None, documents: Sequence[Document]) -> None:
    """A new segment of these documents, in place of whatever was indexed of their tools before."""
    first, segment = _make_room(home, documents)
    empty = "\\N"
    shared_by = empty if home is not None else None
    _copy(
        "catalog_searchdocument"
        " (id, tool_id, version_id, worded_at, renamed_at, segment_id, shared_by_id, name_key, vector)",
        (
            f"{number}\t{each.tool}\t{each.state.version}\t{each.state.worded_at or empty}"
            f"\t{each.state.renamed_at or empty}\t{segment}\t{shared_by or each.endpoint}"
            f"\t{each.name_key}\t\\\\x{each.vector.hex()}\n"
            for number, each in enumerate(documents, first)
        ),
    )
    _post(home, segment, ((number, each.strengths) for number, each in enumerate(documents, first)))


def _make_room(home: int | None, documents: Sequence[Document]) -> tuple[int, int]:
    # The first of as many free document ids, and a new segment.
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM catalog_searchdocument WHERE tool_id = ANY(%s)", [[each.tool for each in documents]]
        )
        # Under the lock no other process draws ids, so the last of so many is also the highest.
        cursor.execute(
            "SELECT max(nextval(pg_get_serial_sequence('catalog_searchdocument', 'id'))) "
            "FROM generate_series(1, %s)",
            [len(documents)],
        )
        (last,) = cursor.fetchone()
    return last - len(documents) + 1, _new_segment(home, len(documents))


def _new_segment(home: int | None, documents: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO catalog_searchsegment (endpoint_id, documents) VALUES (%s, %s) RETURNING id",
            [home, documents],
        )
        return int(cursor.fetchone()[0])


def _post(home: int | None, segment: int, documents: Iterable[tuple[int, Mapping[int, int]]]) -> None:
    postings: defaultdict[int, list[int]] = defaultdict(list)
    for number, strengths in documents:
        for lexeme, impact in strengths.items():
            postings[lexeme].append(impact << _IMPACT | number)
    where = f"{home or SHARED}\t{segment}"
    _copy(
        "catalog_searchposting (lexeme_id, home, segment_id, top, count, documents, impacts)",
        (f"{lexeme}\t{where}\t{_posting(found)}" for lexeme, found in sorted(postings.items())),
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE catalog_searchlexeme l SET found_in = found_in + more.n "
            "FROM unnest(%s::int[], %s::int[]) more (id, n) WHERE l.id = more.id",
            [list(postings), [len(found) for found in postings.values()]],
        )


def _posting(found: list[int]) -> str:
    # Columns of one row: the strongest impact, how many, the documents and their impacts.
    found.sort(reverse=True)
    documents = str([each & _DOCUMENT for each in found])[1:-1]
    impacts = str([each >> _IMPACT for each in found])[1:-1]
    return f"{found[0] >> _IMPACT}\t{len(found)}\t{{{documents}}}\t{{{impacts}}}\n"


def _copy(table: str, lines: Iterable[str]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
        copy.write("".join(lines))


@transaction.atomic
def merge(home: int | None) -> None:
    """Rewrite segments of a home so that they stay few and most of their documents are live."""
    take_turn()
    segments = _segments(home)
    dead = [each.id for each in segments if not each.live]
    worn = choose_worn([each for each in segments if each.live])
    if worn:
        _rewrite(home, worn)
    _drop([*dead, *worn])


def choose_worn(segments: Collection[Segment]) -> list[int]:
    """Ids of the segments to rewrite: those that are more than half dead, else `FAN` of about one size.

    Together they have at most `MAX_TOOLS` live documents, or they are one segment that is half dead.
    """
    half_gone = [each for each in segments if each.live * 2 < each.documents]
    if half_gone:
        return _smallest(half_gone) or [half_gone[0].id]
    sizes: defaultdict[int, list[Segment]] = defaultdict(list)
    for each in segments:
        if each.live * 2 <= MAX_TOOLS:
            sizes[int(math.log(each.live, FAN))].append(each)
    return next((_smallest(same) for same in sizes.values() if len(same) >= FAN), [])


def _smallest(segments: Collection[Segment]) -> list[int]:
    """Return the ids of the smallest, as many as have at most `MAX_TOOLS` live documents together."""
    by_size = sorted(segments, key=lambda each: each.live)
    totals = accumulate(each.live for each in by_size)
    return [each.id for each, total in zip(by_size, totals, strict=True) if total <= MAX_TOOLS]


def _segments(home: int | None) -> list[Segment]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT s.id, s.documents, count(d.id) FROM catalog_searchsegment s
            LEFT JOIN catalog_searchdocument d ON d.segment_id = s.id
            WHERE s.endpoint_id IS NOT DISTINCT FROM %s GROUP BY s.id
            """,
            [home],
        )
        return [Segment(*row) for row in cursor.fetchall()]


def _rewrite(home: int | None, worn: list[int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, vector FROM catalog_searchdocument WHERE segment_id = ANY(%s)", [worn])
        documents = [(number, ranking.unpack(vector)) for number, vector in cursor.fetchall()]
        segment = _new_segment(home, len(documents))
        cursor.execute(
            "UPDATE catalog_searchdocument SET segment_id = %s WHERE segment_id = ANY(%s)", [segment, worn]
        )
    _post(home, segment, documents)


def _drop(segments: list[int]) -> None:
    if not segments:
        return
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM catalog_searchsegment WHERE id = ANY(%s)", [segments])
        cursor.execute(
            """
            WITH dropped AS (
                DELETE FROM catalog_searchposting WHERE segment_id = ANY(%s) RETURNING lexeme_id, count
            ), less AS (SELECT lexeme_id, sum(count) AS n FROM dropped GROUP BY lexeme_id)
            UPDATE catalog_searchlexeme l SET found_in = found_in - less.n
            FROM less WHERE l.id = less.lexeme_id
            """,
            [segments],
        )


def forget(tools: list[int]) -> list[int | None]:
    """Remove the documents of these tools and return the homes of their segments. The caller has the turn."""
    if not tools:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH gone AS (DELETE FROM catalog_searchdocument WHERE tool_id = ANY(%s) RETURNING segment_id)
            SELECT DISTINCT s.endpoint_id FROM gone JOIN catalog_searchsegment s ON s.id = gone.segment_id
            """,
            [tools],
        )
        return [home for (home,) in cursor.fetchall()]
