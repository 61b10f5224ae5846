"""Finds and ranks the tools that answer a question: by postings first, the best of them then exactly.

Reading every posting of common words would take most of the time and change almost nothing, so each
question may read a budget of them, strongest first. What that leaves imprecise the exact score of the
leading candidates puts right. docs/decisions/0008-search.md has the measurements.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection

from catalog.models.tools import ToolStatus
from catalog.search import question, ranking, vocabulary
from catalog.search.fit import FIRST, Concept, Fit, Reasons, find_reasons, fits_badly, share_of
from catalog.search.job_words import shipped_job_words
from catalog.search.scope import Scope
from catalog.search.segments import SHARED
from catalog.search.vocabulary import Extent
from catalog.search.words import tag_word

# How many postings one question reads: fewer for a single word, whose strongest are the answer already; more
# when a filter then drops most of them.
BUDGET, SHORT_BUDGET, WASTEFUL_BUDGET = 16_000, 4_000, 48_000
# The first pages rank so many tools, exactly; the pages after them and other orders go deeper, less exactly.
EXACT, MAX_CANDIDATES = 200, 1_000
# Of each word at most so many segments, the ones with the strongest postings.
SEGMENTS = 400
NAMESAKES, NAMES_BEGINNING = 200, 50


class Hit(NamedTuple):
    """Sorts best first."""

    other_name: bool
    unlike_name: bool
    inexact: bool
    negative_score: float
    tool: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """The tools that were found, best first.

    concepts: what the question wants.
    vectors: the tools with an exact score.
    stems: the stems of the words to mark in texts.
    """

    hits: list[Hit]
    unmatched: list[str]
    repaired: dict[str, str]
    concepts: list[Concept[int]]
    vectors: dict[int, memoryview]
    stems: frozenset[str]

    def explain(self, tool: int) -> Reasons | None:
        """Return why the tool was found, None if that is not known."""
        if tool not in self.vectors:
            return None
        name, terms = ranking.unpack_terms(self.vectors[tool])
        return find_reasons(self.concepts, name, terms)

    @property
    def fits_badly(self) -> bool:
        """Whether the first tools answer the question badly; False while some of them are not explained."""
        first = self.hits[:FIRST]
        if any(hit.tool not in self.vectors for hit in first):
            return False
        return fits_badly([self._fit(hit) for hit in first])

    def _fit(self, hit: Hit) -> Fit:
        name, terms = ranking.unpack_terms(self.vectors[hit.tool])
        return Fit(share_of(self.concepts, name, terms), not hit.other_name or not hit.unlike_name)


def rank(text: str, scope: Scope, most: int = MAX_CANDIDATES, *, as_typed: bool = False) -> Ranking:
    """Rank the tools of the scope for a text; `as_typed` repairs no words."""
    asked = question.read(text, shipped_job_words())
    known, extent = vocabulary.look_up(asked.words, scope)
    strange = [] if as_typed else question.unknown(asked, known)
    terms = question.weigh(asked, known, vocabulary.near(strange) if strange else {})
    gains = {
        lexeme: stress * ranking.rarity(terms.found_in[lexeme], extent.everywhere)
        for lexeme, stress in terms.stress.items()
    }
    values = {
        **scope.values(),
        "lexemes": list(gains),
        "gains": list(gains.values()),
        "key": asked.key,
        "most": most,
        "exact": EXACT,
        "namesakes": NAMESAKES if asked.key else 0,
        "beginning": NAMES_BEGINNING if len(asked.key) > 1 else 0,
    }
    if extent.is_narrow:
        rows = _read(_ALL.format(scope=scope.condition()), scope, values)
    else:
        counts = {lexeme: min(terms.found_in[lexeme], extent.read) for lexeme in gains}
        rows = _read_postings(counts, scope, extent, values)
    hits, vectors = [], {}
    for tool, is_name, begins, score, vector in rows:
        exact = score if vector is None else ranking.score(vector, gains, terms.stress)
        if exact or is_name or begins:
            is_beginning = begins and terms.is_typing
            hits.append(Hit(not is_name, not is_beginning, vector is None, -round(exact, 5), tool))
            if vector is not None:
                vectors[tool] = vector
    concepts = question.find_concepts(asked, known, terms, extent.everywhere)
    return Ranking(
        sorted(hits),
        terms.unmatched,
        terms.repaired,
        concepts,
        vectors,
        question.find_stems(asked, known, terms),
    )


Row = tuple[int, bool, bool, float, memoryview | None]


def _read_postings(counts: dict[int, int], scope: Scope, extent: Extent, values: dict[str, Any]) -> list[Row]:
    is_of_few = bool(scope.tags or scope.version or scope.has_no_tools)
    drops = is_of_few or scope.status == ToolStatus.WITHDRAWN or extent.has_sharers
    budget = WASTEFUL_BUDGET if drops else BUDGET if len(counts) > 1 else SHORT_BUDGET
    parts = ranking.shares(counts, budget)
    wanted = [
        *(["document IN (SELECT document FROM tagged)"] if scope.tags else []),
        *([_IS_OF_SHARER] if extent.has_sharers else []),
    ]
    tags = [tag_word(tag) for tag in dict.fromkeys(scope.tags)]
    leaders = _LEADERS.format(
        at_home="AND p.home = ANY(%(homes)s)" if scope.endpoints is not None else "",
        with_all="GROUP BY u.document HAVING count(*) = %(tag_count)s" if len(tags) > 1 else "",
        wanted=f"WHERE {' AND '.join(wanted)}" if wanted else "",
    )
    more = {
        "parts": [parts[lexeme] for lexeme in counts],
        "homes": [*(scope.endpoints or ()), *((SHARED,) if extent.has_sharers else ())],
        "tag_words": tags,
        "tag_count": len(tags),
        "segments": SEGMENTS,
    }
    return _read(leaders, scope, {**values, **more})


def _read(candidates: str, scope: Scope, values: dict[str, Any]) -> list[Row]:
    # Candidates in the scope; those that are worth an exact score come with their vectors.
    with connection.cursor() as cursor:
        cursor.execute(_RANKED.format(candidates=candidates, scope=scope.condition()), values)
        rows: list[Row] = cursor.fetchall()
        return rows


# A few tools are all scored, without a look at postings.
_ALL = """
leader AS (
    SELECT d.id AS document, 0 AS score
    FROM catalog_tool t JOIN catalog_searchdocument d ON d.tool_id = t.id WHERE {scope}
)
"""
_IS_OF_SHARER = """(home <> 0 OR document IN (
    SELECT id FROM catalog_searchdocument WHERE shared_by_id = ANY(%(endpoints)s)))"""
_LEADERS = """
asked AS (
    SELECT * FROM unnest(%(lexemes)s::int[], %(gains)s::float4[], %(parts)s::float4[]) a (lexeme, gain, part)
), tagged AS (
    SELECT u.document FROM catalog_searchposting p JOIN catalog_searchlexeme l ON l.id = p.lexeme_id
    CROSS JOIN LATERAL unnest(p.documents) u (document) WHERE l.text = ANY(%(tag_words)s) {with_all}
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
    ) posting {wanted}
    GROUP BY document ORDER BY score DESC LIMIT %(most)s
)
"""
_RANKED = """
WITH {candidates}, named AS (
    (SELECT id FROM catalog_searchdocument WHERE name_key = %(key)s LIMIT %(namesakes)s)
    UNION ALL
    (SELECT id FROM catalog_searchdocument
    WHERE name_key > %(key)s AND name_key < %(key)s || chr(1114111) ORDER BY name_key LIMIT %(beginning)s)
), candidate AS (
    SELECT document, max(score) AS score FROM (
        SELECT document, score FROM leader UNION ALL SELECT id, 0 FROM named
    ) each GROUP BY document
), ranked AS (
    SELECT t.id AS tool, d.name_key = %(key)s AS is_name, starts_with(d.name_key, %(key)s) AS begins,
        c.score / 255 AS score, d.vector, row_number() OVER (ORDER BY c.score DESC, t.id) AS place
    FROM candidate c
    JOIN catalog_searchdocument d ON d.id = c.document JOIN catalog_tool t ON t.id = d.tool_id
    WHERE {scope}
)
SELECT tool, is_name, begins, score::float8,
    CASE WHEN place <= %(exact)s OR score = 0 OR is_name THEN vector END
FROM ranked
"""
