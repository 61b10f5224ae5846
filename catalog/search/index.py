"""Makes tools searchable: reads those that are not indexed as they are shown, and counts their words.

A batch is one transaction, safe to run twice and beside others. Nothing here touches what enumeration
writes, so neither waits for the other's rows.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

import msgspec
from django.db import connection, transaction

from catalog.protocols.signature import from_json, to_json
from catalog.search import ranking, searched_texts, segments, words
from catalog.search.lexicon import Lexicon
from catalog.search.searched_texts import SearchedSignature, Weighted
from catalog.search.segments import Document, State
from catalog.tools import effective_texts

BATCH = 5_000
# An endpoint with fewer tools shares its segments with other small ones.
LARGE = 1_000


_decode = msgspec.json.Decoder(SearchedSignature).decode


class _Entry(msgspec.Struct):
    """One tool on its way into the index: its texts by how much a word in them weighs."""

    tool: int
    state: State
    endpoint: int
    name: str
    tags: set[str]
    prose: Weighted
    fields: Weighted


def index_pending(endpoint_id: int | None = None) -> int:
    """Indexes the tools of live endpoints that are not indexed as they are shown, and counts them."""
    lexicon = Lexicon()
    done = 0
    if endpoint_id is None:
        segments.forget_removed()
    while entries := [_entry(*row) for row in _worded(_pending(endpoint_id))]:
        done += _index(entries, lexicon)
    return done


@transaction.atomic
def _index(entries: list[_Entry], lexicon: Lexicon) -> int:
    segments.take_turn()
    # While we waited another worker may have indexed the same tools.
    known = segments.indexed([entry.tool for entry in entries])
    entries = [entry for entry in entries if known.get(entry.tool) != entry.state]
    runs: set[str] = set()
    for entry in entries:
        for _, text in (*entry.prose, *entry.fields):
            runs.update(words.runs(text))
    lexicon.learn(runs, {tag for entry in entries for tag in entry.tags})
    large = _large({entry.endpoint for entry in entries})
    homes: defaultdict[int | None, list[Document]] = defaultdict(list)
    for entry in entries:
        homes[entry.endpoint if entry.endpoint in large else None].append(_document(entry, lexicon))
    for home, documents in homes.items():
        segments.add(home, documents)
        segments.merge(home)
    return len(entries)


Row = tuple[int, int, datetime | None, datetime | None, int, str, str]


def _pending(endpoint: int | None) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT pending.id, v.id, worded_at, renamed_at, pending.endpoint_id, pending.vendor, v.signature
            FROM (
                SELECT t.id, t.current_id, t.worded_at, vendor.renamed_at, t.endpoint_id,
                    vendor.name || ' ' || vendor.slug AS vendor
                FROM catalog_tool t
                JOIN catalog_endpoint e ON e.id = t.endpoint_id AND e.removed_at IS NULL
                JOIN catalog_vendor vendor ON vendor.id = e.vendor_id AND vendor.removed_at IS NULL
                LEFT JOIN catalog_searchdocument d ON d.tool_id = t.id
                WHERE (d.version_id IS DISTINCT FROM t.current_id
                        OR d.worded_at IS DISTINCT FROM t.worded_at
                        OR d.renamed_at IS DISTINCT FROM vendor.renamed_at)
                    AND (%(endpoint)s::bigint IS NULL OR t.endpoint_id = %(endpoint)s)
                ORDER BY t.endpoint_id, t.id LIMIT %(batch)s
            ) pending JOIN catalog_toolversion v ON v.id = pending.current_id
            """,
            {"endpoint": endpoint, "batch": BATCH},
        )
        rows: list[Row] = cursor.fetchall()
        return rows


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
        {words.tag_word(tag) for tag in signature.tags},
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
    # Tags can be asked for as they stand; among the words they weigh nothing.
    strengths |= {lexicon.tags[tag]: 1 for tag in entry.tags}
    name = [lexeme for run in words.runs(entry.name) for lexeme in lexicon.fields[run]]
    vector = ranking.pack(name, strengths)
    key = words.name_key(entry.name)
    return Document(entry.tool, entry.state, entry.endpoint, key, vector, strengths)
