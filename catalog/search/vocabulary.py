"""What the catalog knows of the words in a question, and which words it knows that look like the others."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db import connection

from catalog.search.scope import Scope
from catalog.search.spelling import edits_allowed, may_mean
from catalog.search.words import typo_distance


@dataclass(frozen=True, slots=True)
class Known:
    """What the catalog knows of one asked word; `lexeme` is None when no tool ever held it."""

    lexeme: int | None
    found_in: int
    is_stop: bool
    stem: str


@dataclass(frozen=True, slots=True)
class Extent:
    """`everywhere` counts all documents, `read` those in the segments that the scope has to read.

    `has_sharers` says that chosen endpoints share segments with others; `is_narrow` that the scope holds at
    most `FEW` tools.
    """

    everywhere: int = 0
    read: int = 0
    has_sharers: bool = False
    is_narrow: bool = False


FEW = 600


def look_up(words: Collection[str], scope: Scope) -> tuple[dict[str, Known], Extent]:
    with connection.cursor() as cursor:
        cursor.execute(
            _LOOK_UP.format(scope=_NARROW.format(scope=scope.condition()) if scope.is_narrowed else "false"),
            {**scope.values(), "words": list(words), "few": FEW},
        )
        rows = cursor.fetchall()
    known = {
        word: Known(lexeme if found_in > 0 else None, found_in, stem is None, stem or word)
        for word, stem, lexeme, found_in, *_ in rows
    }
    return known, Extent(*rows[0][4:]) if rows else Extent()


_NARROW = "(SELECT count(*) FROM (SELECT FROM catalog_tool t WHERE {scope} LIMIT %(few)s + 1) f) <= %(few)s"
_LOOK_UP = """
WITH extent AS (
    SELECT coalesce(sum(s.documents), 0) AS everywhere,
        coalesce(sum(s.documents) FILTER (WHERE %(endpoints)s::bigint[] IS NULL
            OR s.endpoint_id = ANY(%(endpoints)s) OR s.endpoint_id IS NULL AND sharer.is_there), 0) AS read,
        coalesce(bool_or(sharer.is_there), false) AS has_sharers, {scope} AS is_narrow
    FROM catalog_searchsegment s CROSS JOIN (SELECT EXISTS (
        SELECT FROM catalog_searchdocument WHERE shared_by_id = ANY(%(endpoints)s)) AS is_there) sharer
)
SELECT w.word, s.stems[1], l.id, coalesce(l.found_in, 0), extent.*
FROM unnest(%(words)s::text[]) w (word)
CROSS JOIN LATERAL (
    SELECT CASE WHEN starts_with(w.word, '~') THEN ARRAY[w.word]
        ELSE ts_lexize('english_stem', w.word) END AS stems
) s CROSS JOIN extent
LEFT JOIN catalog_searchlexeme l ON l.text = coalesce(s.stems[1], w.word)
"""


@dataclass(frozen=True, slots=True)
class Spelling:
    """A word of the catalog for an unknown one, which it begins with when `distance` (in edits) is None."""

    word: str
    lexeme: int
    found_in: int
    distance: int | None


def near(typed: Sequence[str]) -> dict[str, list[Spelling]]:
    """For each unknown word, the words of the catalog that begin with it or are spelled nearly like it."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT t.typed, n.word, n.begins, l.id, l.found_in FROM unnest(%s::text[]) t (typed)
            CROSS JOIN LATERAL (
                (SELECT w.word, w.lexeme_id, true AS begins FROM catalog_searchword w
                WHERE w.word > t.typed AND w.word < t.typed || chr(1114111) ORDER BY w.word LIMIT 100)
                UNION ALL SELECT s.word, s.lexeme_id, false FROM catalog_similar_words(t.typed, 50) s
            ) n CROSS JOIN LATERAL (
                -- OFFSET keeps this a lookup for each; a hash of all lexemes would take most of the time.
                SELECT * FROM catalog_searchlexeme WHERE id = n.lexeme_id AND found_in > 0 OFFSET 0
            ) l
            """,
            [list(typed)],
        )
        found: dict[str, list[Spelling]] = {word: [] for word in typed}
        for word, candidate, begins, lexeme, found_in in cursor.fetchall():
            distance = None if begins else typo_distance(word, candidate, edits_allowed(word))
            if distance is None or may_mean(word, candidate, distance):
                found[word].append(Spelling(candidate, lexeme, found_in, distance))
        return found
