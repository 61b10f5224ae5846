"""Where texts differ, word by word. Pure."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby

WORDS = re.compile(r"\s+|\w+|[^\w\s]")
ALIKE = 0.4  # less than this in common, and marks on single words only distract
MAX_LENGTH = 4_000  # of all texts together; beyond it a comparison costs more than it helps

# A text in pieces, and whether each differs.
Pieces = list[tuple[str, bool]]


def marked(texts: Sequence[str]) -> list[Pieces]:
    """What the first has and one of the others lacks, and what each of the others has that the first lacks.

    Nothing is marked between two texts that have little in common.
    """
    if sum(map(len, texts)) > MAX_LENGTH:
        return [[(text, False)] for text in texts]
    split = [WORDS.findall(text) for text in texts]
    flags = [[False] * len(words) for words in split]
    for index in range(1, len(split)):
        steps = SequenceMatcher(None, split[0], split[index], autojunk=False).get_opcodes()
        # Without the spaces between words, which any two texts have in common.
        common = sum(_count(split[0][a:b]) for kind, a, b, _, _ in steps if kind == "equal")
        if 2 * common < ALIKE * (_count(split[0]) + _count(split[index])):
            continue
        for kind, start, end, other_start, other_end in steps:
            if kind != "equal":
                flags[0][start:end] = [True] * (end - start)
                flags[index][other_start:other_end] = [True] * (other_end - other_start)
    return [_joined(words, marks) for words, marks in zip(split, flags, strict=True)]


def _count(words: list[str]) -> int:
    return sum(not word.isspace() for word in words)


def _joined(words: list[str], marks: list[bool]) -> Pieces:
    runs = groupby(zip(words, marks, strict=True), key=lambda pair: pair[1])
    return [("".join(word for word, _ in run), is_marked) for is_marked, run in runs]
