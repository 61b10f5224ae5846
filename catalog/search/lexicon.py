"""The words of the catalog as they are learnt: which lexeme each one is, how many documents hold it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from django.db import connection

from catalog.search.words import is_marked, parts, with_compound


@dataclass(slots=True)
class Lexicon:
    """The lexemes of each run of letters that one indexing has met.

    In prose an identifier counts in one piece too, and stop words count; in fields neither does.
    """

    prose: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fields: dict[str, tuple[int, ...]] = field(default_factory=dict)
    marked: dict[str, int] = field(default_factory=dict)
    stops: set[int] = field(default_factory=set)

    def learn(self, runs: Iterable[str], marked: Iterable[str]) -> None:
        """Give words and marked terms their lexemes. Only one process at a time may do this."""
        new_runs = set(runs) - self.prose.keys()
        new_marked = set(marked) - self.marked.keys()
        if not new_runs and not new_marked:
            return
        split = {run: with_compound(run) for run in new_runs}
        ids, stops = _assign({word for found in split.values() for word in found} | new_marked)
        self.marked |= {term: ids[term] for term in new_marked}
        self.stops |= {ids[word] for word in stops}
        for run, found in split.items():
            self.prose[run] = tuple(ids[word] for word in found)
            self.fields[run] = tuple(ids[word] for word in parts(run) if word not in stops)


def _assign(words: set[str]) -> tuple[dict[str, int], set[str]]:
    # The lexeme of each word, and which of them are stop words.
    with connection.cursor() as cursor:
        cursor.execute("SELECT word, lexeme_id FROM catalog_searchword WHERE word = ANY(%s)", [list(words)])
        known = dict(cursor.fetchall())
    stemmed_words = stems(words - known.keys())
    lexemes = _lexemes({stem or word for word, stem in stemmed_words.items()})
    found = {word: lexemes[stem or word] for word, stem in stemmed_words.items()}
    if stemmed := {word: found[word] for word, stem in stemmed_words.items() if stem}:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO catalog_searchword (word, lexeme_id) "
                "SELECT * FROM unnest(%s::text[], %s::int[])",
                [list(stemmed), list(stemmed.values())],
            )
    return known | found, {word for word, stem in stemmed_words.items() if not stem}


def stems(words: Collection[str]) -> dict[str, str]:
    """The stem of each word, "" for a stop word. A marked term is its own stem."""
    if not words:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT word, coalesce((ts_lexize('english_stem', word))[1], '') FROM unnest(%s::text[]) word",
            [[word for word in words if not is_marked(word)]],
        )
        return dict(cursor.fetchall()) | {word: word for word in words if is_marked(word)}


def _lexemes(texts: Collection[str]) -> dict[str, int]:
    if not texts:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO catalog_searchlexeme (text, found_in) "
            "SELECT text, 0 FROM unnest(%s::text[]) text ON CONFLICT DO NOTHING",
            [sorted(texts)],
        )
        cursor.execute("SELECT text, id FROM catalog_searchlexeme WHERE text = ANY(%s)", [list(texts)])
        return dict(cursor.fetchall())
