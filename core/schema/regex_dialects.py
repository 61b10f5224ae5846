"""The dialects in which a regular expression compiles. Pure.

ecma: ECMA-262, the dialect of JSON Schema (core, 6.4). python: the module `re`. linear: without look-around
and references back, as in every engine of linear time. re2: RE2 of Google.
"""

import re
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Literal

import jsonschema_rs

Dialect = Literal["ecma", "python", "linear", "re2"]
# To compile a longer one takes too much time and memory; no dialect is claimed for it.
MAX_PATTERN = 10_000  # characters
MAX_BYTES = 10 * 1024 * 1024  # the engines' own limit
# How many patterns of one schema are compiled with so many bytes at most. A pattern that needs more bytes is
# compiled with the next limit, and one with 10 MB takes up to 60 ms. A long pattern counts as several: one of
# 1,000 characters takes 15 ms in two dialects.
ATTEMPTS = ((20_000, 1_000), (500_000, 30), (MAX_BYTES, 4))
CHARACTERS_PER_COUNT = 25
_ENGINES: dict[Dialect, type[jsonschema_rs.FancyRegexOptions | jsonschema_rs.RegexOptions]] = {
    "ecma": jsonschema_rs.FancyRegexOptions,
    "linear": jsonschema_rs.RegexOptions,
    "re2": jsonschema_rs.RegexOptions,
}
# A quantifier after another one, or an atomic group: no dialect here has either, but some engines do.
_POSSESSIVE = re.compile(
    r"""\\. | \[\^?(?:\\.|[^\]\\])*+\] | (?P<atomic>\(\?>) | \(\?
      | (?:[*+?]|\{\d+(?:,\d*+)?+\})\??+(?P<again>[*+?]|\{\d)?+""",
    re.DOTALL | re.VERBOSE,
)
# https://github.com/google/re2/wiki/Syntax: at most 1,000 repetitions, and no escape of a code unit.
_REPETITION = re.compile(r"(?<!\\)\{(\d*),?(\d*)\}")
MAX_RE2_REPETITIONS = 1_000


@lru_cache(maxsize=2_000)
def compiles(pattern: str, dialect: Dialect, max_bytes: int = MAX_BYTES) -> bool:
    """Return whether a pattern compiles, and takes at most so many bytes of memory."""
    if len(pattern) > MAX_PATTERN:
        return False
    if any(match["atomic"] or match["again"] for match in _POSSESSIVE.finditer(pattern)):
        return False
    if dialect == "re2" and (
        r"\u" in pattern
        or max((int(count or 0) for counts in _REPETITION.findall(pattern) for count in counts), default=0)
        > MAX_RE2_REPETITIONS
    ):
        return False
    if dialect == "python":
        with warnings.catch_warnings():
            # `re` warns of what may mean something else in a later version.
            warnings.simplefilter("ignore")
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError):
                return False
        return True
    try:
        jsonschema_rs.Draft202012Validator(
            {"pattern": pattern}, pattern_options=_ENGINES[dialect](size_limit=max_bytes)
        )
    except jsonschema_rs.ValidationError:
        return False
    return True


def unreadable_patterns(patterns: Iterable[str], dialects: Sequence[Dialect]) -> frozenset[str]:
    """Return the patterns of one schema that do not compile in each dialect, or that are too many large ones
    to be compiled."""
    unreadable = list(dict.fromkeys(patterns))
    for attempt, (max_bytes, count) in enumerate(ATTEMPTS):
        costs = [1 if attempt else 1 + len(pattern) // CHARACTERS_PER_COUNT for pattern in unreadable]
        unreadable = [
            pattern
            for pattern, cost_so_far in zip(unreadable, accumulate(costs), strict=True)
            if cost_so_far > count or not all(compiles(pattern, dialect, max_bytes) for dialect in dialects)
        ]
    return frozenset(unreadable)
