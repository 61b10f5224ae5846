"""Finds and ranks the tools that answer a question: by postings first, the best of them then exactly.

Reading every posting of common words would take most of the time and change almost nothing, so each
question may read a budget of them, strongest first. What that leaves imprecise the exact score of the
leading candidates puts right. docs/decisions/ranking.md has the measurements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection

from catalog.models.tools import ToolStatus
from catalog.search import question, ranking, vocabulary
from catalog.search.segments import SHARED
from catalog.search.vocabulary import Extent
from catalog.search.words import tag_word

# How many postings one question reads; more when most of them will be filtered away afterwards.
BUDGET, WASTEFUL_BUDGET = 16_000, 80_000
# A first page ranks so many tools, exactly; the pages after it and other orders go deeper, less exactly.
EXACT, MOST = 200, 1_000
# Of each word at most so many segments, the ones with the strongest postings.
SEGMENTS = 400
NAMESAKES, NAMES_BEGINNING = 200, 50


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to search. `endpoints` is None for all that are not removed; every tag must be there."""

    endpoints: Sequence[int] | None = None
    tags: tuple[str, ...] = ()
    status: ToolStatus | None = ToolStatus.ACTIVE


class Hit(NamedTuple):
    """Sorts best first."""

    other_name: bool
    unlike_name: bool
    inexact: bool
    negative_score: float
    tool: int


@dataclass(frozen=True, slots=True)
class Ranking:
    hits: list[Hit]
    unmatched: list[str]
    repaired: dict[str, str]


def rank(text: str, scope: Scope, most: int = MOST) -> Ranking:
    asked = question.read(text)
    known, extent = vocabulary.look_up(asked.words, scope.endpoints)
    strange = question.unknown(asked, known)
    terms = question.weigh(asked, known, vocabulary.near(strange) if strange else {})
    gains = {
        lexeme: stress * ranking.rarity(terms.found_in[lexeme], extent.everywhere)
        for lexeme, stress in terms.stress.items()
    }
    rows = _read(gains, terms.found_in, asked.key, scope, extent, most)
    hits = sorted(hit for row in rows if (hit := _hit(row, gains, terms)))
    return Ranking(hits, terms.unmatched, terms.repaired)


Row = tuple[int, bool, bool, float, memoryview | None]


def _hit(row: Row, gains: dict[int, float], terms: question.Terms) -> Hit | None:
    tool, is_name, begins, score, vector = row
    if vector is not None:
        score = ranking.score(vector, gains, terms.stress)
    if not (score or is_name or begins):
        return None
    return Hit(not is_name, not (begins and terms.is_typing), vector is None, -round(score, 5), tool)


def _read(
    gains: dict[int, float], found_in: dict[int, int], key: str, scope: Scope, extent: Extent, most: int
) -> list[Row]:
    """Candidates with the vectors of those that are worth an exact score."""
    chooses = scope.endpoints is not None
    # A few documents that lie among others' are all scored; many are found by their postings.
    lists_sharers = extent.sharing <= vocabulary.MOST_SHARING
    homes = [*(scope.endpoints or ()), *(() if lists_sharers else (SHARED,))]
    drops = bool(scope.tags) or scope.status == ToolStatus.WITHDRAWN or not lists_sharers
    within = (
        min(extent.everywhere, extent.chosen + extent.sharing)
        if chooses and lists_sharers
        else extent.everywhere
    )
    parts = ranking.shares(
        {lexeme: min(found_in[lexeme], within) for lexeme in gains}, WASTEFUL_BUDGET if drops else BUDGET
    )
    wanted = [
        *(["document IN (SELECT document FROM tagged)"] if scope.tags else []),
        *([_IS_CHOSEN] if chooses and not lists_sharers else []),
    ]
    tags = [tag_word(tag) for tag in dict.fromkeys(scope.tags)]
    statement = _STATEMENT.format(
        at_home="AND p.home = ANY(%(homes)s)" if chooses else "",
        is_wanted=f"WHERE {' AND '.join(wanted)}" if wanted else "",
        sharers=_SHARERS if chooses and lists_sharers else "",
        of_endpoint=_OF_CHOSEN if chooses else _OF_LIVING,
        of_status="AND t.status = %(status)s" if scope.status else "",
        of_tags="AND d.id IN (SELECT document FROM tagged)" if tags else "",
    )
    values = {
        "lexemes": list(gains),
        "gains": list(gains.values()),
        "parts": [parts[lexeme] for lexeme in gains],
        "endpoints": scope.endpoints,
        "homes": homes,
        "tags": tags,
        "tag_count": len(tags),
        "status": scope.status,
        "key": key,
        "segments": SEGMENTS,
        "most": most,
        "exact": EXACT,
        "namesakes": NAMESAKES if key else 0,
        "beginning": NAMES_BEGINNING if len(key) > 1 else 0,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


_IS_CHOSEN = """(home <> 0 OR document IN (
    SELECT id FROM catalog_searchdocument WHERE shared_by_id = ANY(%(endpoints)s)))"""
_SHARERS = "UNION ALL SELECT id, 0 FROM catalog_searchdocument WHERE shared_by_id = ANY(%(endpoints)s)"
_OF_CHOSEN = "t.endpoint_id = ANY(%(endpoints)s)"
_OF_LIVING = """t.endpoint_id NOT IN (
    SELECT e.id FROM catalog_endpoint e JOIN catalog_vendor v ON v.id = e.vendor_id
    WHERE e.removed_at IS NOT NULL OR v.removed_at IS NOT NULL)"""

_STATEMENT = """
WITH asked AS (
    SELECT * FROM unnest(%(lexemes)s::int[], %(gains)s::float4[], %(parts)s::float4[]) a (lexeme, gain, part)
), tagged AS (
    SELECT u.document FROM catalog_searchposting p JOIN catalog_searchlexeme l ON l.id = p.lexeme_id
    CROSS JOIN LATERAL unnest(p.documents) u (document)
    WHERE l.text = ANY(%(tags)s) GROUP BY u.document HAVING count(*) = %(tag_count)s
), read AS (
    SELECT a.gain, p.home, p.documents[1:p.part] AS documents, p.impacts[1:p.part] AS impacts
    FROM asked a CROSS JOIN LATERAL (
        SELECT p.home, p.documents, p.impacts, ceil(a.part * p.count)::int AS part
        FROM catalog_searchposting p
        WHERE p.lexeme_id = a.lexeme {at_home} ORDER BY p.top DESC LIMIT %(segments)s
    ) p OFFSET 0
), leader AS (
    SELECT document, sum(gain) AS score FROM (
        SELECT home, unnest(documents) AS document, unnest(impacts) * gain AS gain FROM read
    ) posting {is_wanted}
    GROUP BY document ORDER BY score DESC LIMIT %(most)s
), named AS (
    (SELECT id FROM catalog_searchdocument WHERE name_key = %(key)s LIMIT %(namesakes)s)
    UNION ALL
    (SELECT id FROM catalog_searchdocument
    WHERE name_key > %(key)s AND name_key < %(key)s || chr(1114111) ORDER BY name_key LIMIT %(beginning)s)
), candidate AS (
    SELECT document, max(score) AS score FROM (
        SELECT document, score FROM leader UNION ALL SELECT id, 0 FROM named {sharers}
    ) each GROUP BY document
), ranked AS (
    SELECT t.id AS tool, d.name_key = %(key)s AS is_name, starts_with(d.name_key, %(key)s) AS begins,
        c.score / 255 AS score, d.vector, row_number() OVER (ORDER BY c.score DESC, t.id) AS place
    FROM candidate c
    JOIN catalog_searchdocument d ON d.id = c.document JOIN catalog_tool t ON t.id = d.tool_id
    WHERE {of_endpoint} {of_status} {of_tags}
)
SELECT tool, is_name, begins, score::float8,
    CASE WHEN place <= %(exact)s OR score = 0 OR is_name THEN vector END
FROM ranked
"""
