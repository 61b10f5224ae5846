"""The stems of words and the words that carry no meaning. Pure."""

from collections.abc import Collection
from functools import lru_cache

import Stemmer

from catalog.search.words import is_marked, parts, runs, with_compound

# Words of grammar: pronouns, auxiliaries, prepositions and what is left of a contraction.
STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "the",
        "this",
        "that",
        "these",
        "those",
        "i",
        "me",
        "my",
        "myself",
        "we",
        "our",
        "ours",
        "ourselves",
        "you",
        "your",
        "yours",
        "yourself",
        "yourselves",
        "he",
        "him",
        "his",
        "himself",
        "she",
        "her",
        "hers",
        "herself",
        "it",
        "its",
        "itself",
        "they",
        "them",
        "their",
        "theirs",
        "themselves",
        "what",
        "which",
        "who",
        "whom",
        "when",
        "where",
        "why",
        "how",
        "am",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "being",
        "have",
        "has",
        "had",
        "having",
        "do",
        "does",
        "did",
        "doing",
        "can",
        "will",
        "should",
        "and",
        "but",
        "if",
        "or",
        "because",
        "as",
        "until",
        "while",
        "than",
        "so",
        "nor",
        "not",
        "no",
        "only",
        "own",
        "same",
        "too",
        "very",
        "just",
        "don",
        "s",
        "t",
        "of",
        "at",
        "by",
        "for",
        "with",
        "about",
        "against",
        "between",
        "into",
        "through",
        "during",
        "before",
        "after",
        "above",
        "below",
        "to",
        "from",
        "up",
        "down",
        "in",
        "out",
        "on",
        "off",
        "over",
        "under",
        "again",
        "further",
        "then",
        "once",
        "here",
        "there",
        "all",
        "any",
        "both",
        "each",
        "few",
        "more",
        "most",
        "other",
        "some",
        "such",
        "now",
    ]
)
_stemmer = Stemmer.Stemmer("english", 50_000)


def stem_word(word: str) -> str:
    """Return the stem of a lower-case word, "" for a stop word."""
    return "" if word in STOP_WORDS else str(_stemmer.stemWord(word))


@lru_cache(maxsize=50_000)
def stem_run(run: str) -> tuple[tuple[str, str], ...]:
    """Return the words inside a run, and the run in one piece, with their stems."""
    return tuple((word, stem_word(word)) for word in with_compound(run))


def stem_text(text: str) -> list[tuple[str, str]]:
    """Return the words of a text with their stems, without stop words."""
    return [pair for run in runs(text) for pair in _stem_parts(run)]


@lru_cache(maxsize=50_000)
def _stem_parts(run: str) -> tuple[tuple[str, str], ...]:
    """Return the words inside a run with their stems, without stop words."""
    return tuple((word, stem) for word in parts(run) if (stem := stem_word(word)))


def stems(words: Collection[str]) -> dict[str, str]:
    """Return the stem of each word, "" for a stop word. A marked term is its own stem."""
    return {word: word if is_marked(word) else stem_word(word) for word in words}
