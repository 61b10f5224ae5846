"""The difference of texts, word by word. Pure."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter

WORDS = re.compile(r"\s+|\w+|[^\w\s]")
ALIKE = 0.4  # with less in common, marked words only distract
MAX_LENGTH = 4_000  # total length; longer comparisons cost too much

# The pieces of a text, and whether each of them differs.
Pieces = list[tuple[str, bool]]


def mark_differences(texts: Sequence[str]) -> list[Pieces]:
    """Mark the words of the first text that another one lacks, and the words of each other text that the
    first one lacks.

    Nothing is marked between two texts that have little in common.
    """
    if sum(map(len, texts)) > MAX_LENGTH:
        return [[(text, False)] for text in texts]
    split = [WORDS.findall(text) for text in texts]
    flags = [[False] * len(words) for words in split]
    for index in range(1, len(split)):
        steps = SequenceMatcher(None, split[0], split[index], autojunk=False).get_opcodes()
        # Spaces do not count, because any two texts have them in common.
        common = sum(_count_words(split[0][a:b]) for kind, a, b, _, _ in steps if kind == "equal")
        if 2 * common < ALIKE * (_count_words(split[0]) + _count_words(split[index])):
            continue
        for kind, start, end, other_start, other_end in steps:
            if kind != "equal":
                flags[0][start:end] = [True] * (end - start)
                flags[index][other_start:other_end] = [True] * (other_end - other_start)
    pieces_by_text = []
    for words, marks in zip(split, flags, strict=True):
        runs = groupby(zip(words, marks, strict=True), key=itemgetter(1))
        pieces_by_text.append([("".join(word for word, _ in run), is_marked) for is_marked, run in runs])
    return pieces_by_text


def _count_words(words: list[str]) -> int:
    return sum(not word.isspace() for word in words)
