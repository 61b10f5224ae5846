"""What the catalog knows of the words in a question, and which words it knows that look like the others."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db import connection

from catalog.search.words import typo_distance

SHORTEST_REPAIRED, SHORTEST_REPAIRED_TWICE = 4, 7
TOO_FAR = 99


@dataclass(frozen=True, slots=True)
class Known:
    """What the catalog knows of one asked word; `lexeme` is None when no tool ever held it."""

    lexeme: int | None
    found_in: int
    is_stop: bool
    stem: str


@dataclass(frozen=True, slots=True)
class Extent:
    """How many documents there are, in all and of the chosen endpoints.

    `sharing` counts those of the chosen that share segments with others', up to `MOST_SHARING` and one more.
    """

    everywhere: int = 0
    chosen: int = 0
    sharing: int = 0


MOST_SHARING = 1_000


def look_up(words: Collection[str], endpoints: Sequence[int] | None) -> tuple[dict[str, Known], Extent]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT w.word, s.stems[1], l.id, coalesce(l.found_in, 0), everywhere.n, chosen.n, sharing.n
            FROM unnest(%(words)s::text[]) w (word)
            CROSS JOIN LATERAL (SELECT ts_lexize('english_stem', w.word) AS stems) s
            CROSS JOIN (SELECT coalesce(sum(documents), 0) AS n FROM catalog_searchsegment) everywhere
            CROSS JOIN (SELECT coalesce(sum(documents), 0) AS n FROM catalog_searchsegment
                WHERE endpoint_id = ANY(%(endpoints)s)) chosen
            CROSS JOIN (SELECT count(*) AS n FROM (SELECT FROM catalog_searchdocument
                WHERE shared_by_id = ANY(%(endpoints)s) LIMIT %(most)s + 1) few) sharing
            LEFT JOIN catalog_searchlexeme l ON l.text = coalesce(s.stems[1], w.word)
            """,
            {"words": list(words), "endpoints": endpoints, "most": MOST_SHARING},
        )
        rows = cursor.fetchall()
    known = {
        word: Known(lexeme if found_in > 0 else None, found_in, stem is None, stem or word)
        for word, stem, lexeme, found_in, *_ in rows
    }
    return known, Extent(*rows[0][4:]) if rows else Extent()


@dataclass(frozen=True, slots=True)
class Spelling:
    """A word of the catalog in place of an unknown one, `distance` edits away; None: it only begins so."""

    word: str
    lexeme: int
    found_in: int
    distance: int | None


def near(typed: Sequence[str]) -> dict[str, list[Spelling]]:
    """For each unknown word those that begin with it, and those spelled nearly like it."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT t.typed, n.word, n.begins, l.id, l.found_in FROM unnest(%s::text[]) t (typed)
            CROSS JOIN LATERAL (
                (SELECT w.word, w.lexeme_id, true AS begins FROM catalog_searchword w
                WHERE w.word > t.typed AND w.word < t.typed || chr(1114111) ORDER BY w.word LIMIT 200)
                UNION ALL SELECT s.word, s.lexeme_id, false FROM catalog_similar_words(t.typed, 50) s
            ) n JOIN catalog_searchlexeme l ON l.id = n.lexeme_id AND l.found_in > 0
            """,
            [list(typed)],
        )
        found: dict[str, list[Spelling]] = {word: [] for word in typed}
        for word, candidate, begins, lexeme, found_in in cursor.fetchall():
            distance = None if begins else _edits(word, candidate)
            if distance != TOO_FAR:
                found[word].append(Spelling(candidate, lexeme, found_in, distance))
        return found


def _edits(typed: str, word: str) -> int:
    """People hardly ever mistype the first letter; they leave it out, or swap it with the second."""
    limit = _edits_allowed(typed)
    if not limit or not (typed[0] == word[0] or typed[1] == word[0] or typed[0] == word[1:2]):
        return TOO_FAR
    distance = typo_distance(typed, word, limit)
    return distance if distance <= limit else TOO_FAR


def _edits_allowed(word: str) -> int:
    if len(word) < SHORTEST_REPAIRED or not word.isalpha():
        return 0
    return 1 if len(word) < SHORTEST_REPAIRED_TWICE else 2
