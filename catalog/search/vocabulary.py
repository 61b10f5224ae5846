"""The words of a question as the catalog contains them, and words of the catalog that look like them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from catalog.search import stemming
from catalog.search.engines import Reader
from catalog.search.spelling import edits_allowed, may_mean
from catalog.search.words import typo_distance

MAX_BEGINNINGS, MAX_SIMILAR = 100, 300


@dataclass(frozen=True, slots=True)
class Known:
    """A word of a question: its stem, and how many tools contain that."""

    stem: str
    found_in: int
    is_stop: bool = False

    @property
    def term(self) -> str | None:
        """The stem, None if no tool contains it."""
        return self.stem if self.found_in else None


@dataclass(frozen=True, slots=True)
class Spelling:
    """A word of the catalog for an unknown one, which it begins with when `distance` (in edits) is None."""

    word: str
    term: str
    found_in: int
    distance: int | None


def look_up(words: Collection[str], reader: Reader) -> dict[str, Known]:
    stems = stemming.stems(words)
    counts = reader.holder_counts({stem or word for word, stem in stems.items()})
    return {word: Known(stem or word, counts[stem or word], is_stop=not stem) for word, stem in stems.items()}


def near(typed: Sequence[str], reader: Reader) -> dict[str, list[Spelling]]:
    """Return for each unknown word the words of the catalog that begin with it or resemble it."""
    spellings = {}
    for typed_word in typed:
        distances: dict[str, int | None] = {}
        if edits := edits_allowed(typed_word):
            for word in reader.words_like(typed_word, edits, MAX_SIMILAR):
                distance = typo_distance(typed_word, word, edits)
                if may_mean(typed_word, word, distance):
                    distances[word] = distance
        # A word that begins so is completed, and never counts as a mistake.
        distances |= dict.fromkeys(reader.words_beginning(typed_word, MAX_BEGINNINGS))
        terms = {word: stemming.stem_word(word) or word for word in distances}
        counts = reader.holder_counts(set(terms.values()))
        spellings[typed_word] = [
            Spelling(word, terms[word], counts[terms[word]], edit_count)
            for word, edit_count in distances.items()
            if counts[terms[word]]
        ]
    return spellings
