"""Makes tools searchable: reads those whose entry in the queue says that their document may be out of date.

Database triggers fill the queue (`IndexQueueEntry`), so an idle minute reads an empty table. A batch is one
transaction, safe to run twice and beside others. Nothing here writes what enumeration writes, so neither
waits for the other's rows.
"""

import math
import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec
from django.db import connection, transaction

from catalog.models import IndexQueueEntry
from catalog.search import ranking, searched_texts, segments, words
from catalog.search.lexicon import Lexicon
from catalog.search.searched_texts import SearchedSignature, Weighted
from catalog.search.segments import Document, State
from catalog.tools import effective_texts
from protocols.signature import from_json, to_json

# Small enough that a batch commits well before the database ends an idle transaction, on a busy machine too.
BATCH = 500
# An endpoint with fewer tools shares its segments with other small ones.
LARGE = 1_000


_decode = msgspec.json.Decoder(SearchedSignature).decode


class _Entry(msgspec.Struct):
    """One tool on its way into the index: its texts by how much a word in them weighs.

    marked: the impacts of its tags and of its groups of everyday words.
    """

    tool: int
    state: State
    endpoint: int
    name: str
    marked: dict[str, int]
    prose: Weighted
    fields: Weighted


class _WrittenBatch(NamedTuple):
    """How many documents a batch wrote, and the homes whose segments it changed."""

    documents: int
    homes: set[int | None]


def index_pending(endpoint_id: int | None = None, *, ends: float = math.inf) -> int:
    """Index the tools in the queue, all or of one endpoint, and return how many documents were written.

    `ends` is a time of `time.monotonic()` after which no other batch begins; the rest stays in the queue.
    """
    lexicon = Lexicon()
    document_count = 0
    while batch := _index_batch(endpoint_id, lexicon):
        document_count += batch.documents
        for home in batch.homes:
            segments.merge(home)
        if time.monotonic() > ends:
            break
    return document_count


@transaction.atomic
def _index_batch(endpoint_id: int | None, lexicon: Lexicon) -> _WrittenBatch | None:
    """Index the tools of the oldest entries that no other worker has, and delete the entries."""
    queue = IndexQueueEntry.objects.select_for_update(skip_locked=True).order_by("id")
    if endpoint_id is not None:
        queue = queue.filter(endpoint_id=endpoint_id)
    queued = dict(queue.values_list("id", "tool_id")[:BATCH])
    if not queued:
        return None
    # The tools are read after the entries, so that a later change has an entry that is not deleted here.
    tool_ids = sorted(set(queued.values()))
    entries = [_entry(*row) for row in _worded(_stale_tools(tool_ids))]
    written = _WrittenBatch(0, set())
    if entries or _hidden_tools(tool_ids):
        segments.take_turn()
        # Meanwhile another worker may have indexed the same tool, or it changed and has a newer entry.
        states = _stale_states(tool_ids)
        written = _write([entry for entry in entries if states.get(entry.tool) == entry.state], lexicon)
        written.homes.update(segments.forget(_hidden_tools(tool_ids)))
    IndexQueueEntry.objects.filter(pk__in=queued).delete()
    return written


def _write(entries: list[_Entry], lexicon: Lexicon) -> _WrittenBatch:
    runs: set[str] = set()
    for entry in entries:
        for _, text in (*entry.prose, *entry.fields):
            runs.update(words.runs(text))
    lexicon.learn(runs, {term for entry in entries for term in entry.marked})
    large = _large({entry.endpoint for entry in entries})
    homes: defaultdict[int | None, list[Document]] = defaultdict(list)
    for entry in entries:
        homes[entry.endpoint if entry.endpoint in large else None].append(_document(entry, lexicon))
    for home, documents in homes.items():
        segments.add(home, documents)
    return _WrittenBatch(len(entries), set(homes))


Row = tuple[int, int, datetime | None, datetime | None, int, str, str]


# Tools of live endpoints whose document is not made of what a search shows of them now.
_STALE = """
    FROM catalog_tool t
    JOIN catalog_toolversion v ON v.id = t.current_id
    JOIN catalog_endpoint e ON e.id = t.endpoint_id AND e.removed_at IS NULL
    JOIN catalog_vendor vendor ON vendor.id = e.vendor_id AND vendor.removed_at IS NULL
    LEFT JOIN catalog_searchdocument d ON d.tool_id = t.id
    WHERE t.id = ANY(%s) AND (d.version_id IS DISTINCT FROM t.current_id
        OR d.worded_at IS DISTINCT FROM t.worded_at OR d.renamed_at IS DISTINCT FROM vendor.renamed_at)
"""


def _stale_tools(tool_ids: list[int]) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT t.id, v.id, t.worded_at, vendor.renamed_at, t.endpoint_id,
                vendor.name || ' ' || vendor.slug, v.signature {_STALE} ORDER BY t.endpoint_id, t.id
            """,
            [tool_ids],
        )
        rows: list[Row] = cursor.fetchall()
        return rows


def _stale_states(tool_ids: list[int]) -> dict[int, State]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT t.id, v.id, t.worded_at, vendor.renamed_at {_STALE}",
            [tool_ids],
        )
        return {tool: State(*state) for tool, *state in cursor.fetchall()}


def _hidden_tools(tool_ids: list[int]) -> list[int]:
    """Return those of a removed endpoint or vendor that still have a document."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT t.id FROM catalog_tool t
            JOIN catalog_searchdocument d ON d.tool_id = t.id
            JOIN catalog_endpoint e ON e.id = t.endpoint_id
            JOIN catalog_vendor vendor ON vendor.id = e.vendor_id
            WHERE t.id = ANY(%s) AND (e.removed_at IS NOT NULL OR vendor.removed_at IS NOT NULL)
            """,
            [tool_ids],
        )
        return [tool_id for (tool_id,) in cursor.fetchall()]


def _worded(rows: list[Row]) -> list[Row]:
    """With our words in the signatures."""
    # They are read after the time by which they are known, never before: words that change meanwhile are
    # indexed once more.
    ours = effective_texts.rewrites([tool for tool, _, worded_at, *_ in rows if worded_at])
    if not ours:
        return rows
    return [
        (*row[:-1], to_json(ours[row[0]].reword(from_json(row[-1]))).decode()) if row[0] in ours else row
        for row in rows
    ]


def _large(endpoints: Iterable[int]) -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT e.id FROM unnest(%s::bigint[]) e (id) WHERE %s <= (
                SELECT count(*) FROM (SELECT FROM catalog_tool t WHERE t.endpoint_id = e.id LIMIT %s) few)
            """,
            [list(endpoints), LARGE, LARGE],
        )
        return {endpoint for (endpoint,) in cursor.fetchall()}


def _entry(
    tool: int,
    version: int,
    worded_at: datetime | None,
    renamed_at: datetime | None,
    endpoint: int,
    vendor: str,
    document: str,
) -> _Entry:
    signature = _decode(document)
    texts = searched_texts.of(signature, vendor)
    return _Entry(
        tool,
        State(version, worded_at, renamed_at),
        endpoint,
        signature.name,
        # Tags can be asked for as they stand; among the words they weigh nothing.
        dict.fromkeys(map(words.tag_word, signature.tags), 1) | searched_texts.group_impacts(signature),
        *texts,
    )


def _document(entry: _Entry, lexicon: Lexicon) -> Document:
    frequencies: defaultdict[int, float] = defaultdict(float)
    for texts, lexemes_of in ((entry.prose, lexicon.prose), (entry.fields, lexicon.fields)):
        for weight, text in texts:
            for run in words.runs(text):
                for lexeme in lexemes_of[run]:
                    frequencies[lexeme] += weight
    strengths = ranking.impacts(frequencies, lexicon.stops)
    strengths |= {lexicon.marked[term]: impact for term, impact in entry.marked.items()}
    name = [lexeme for run in words.runs(entry.name) for lexeme in lexicon.fields[run]]
    vector = ranking.pack(name, strengths)
    key = words.name_key(entry.name)
    return Document(entry.tool, entry.state, entry.endpoint, key, vector, strengths)
