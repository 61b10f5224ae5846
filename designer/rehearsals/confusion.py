"""Tools of one agent that a reader would mix up, what tells them apart, and a sentence that says so. Pure.

Two tools are confusable if they do the same to the same thing, and little in their words says when it is the
one and when the other. docs/decisions/0069-confusable-tools.md has the figures behind the constants.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from catalog.protocols.signature import Signature
from designer.rehearsals.tool_purpose import Purpose, Stems, doing, purpose

# From this score on a pair is shown.
CONFUSABLE = 0.5
# The logistic scale of the score: fitted to labelled pairs of public tools (benchmarks/confusion.py).
_WEIGHTS, _BIAS = (1.5, -0.9, 1.8, 3.7), -3.5
# How much of a score is left when one of the two says when the other is meant.
_TOLD = 0.4
# How often a call for the one is meant for the other, for actions that are not the same.
_KINDRED = {
    frozenset(("list", "search")): 0.9,
    frozenset(("list", "read")): 0.4,
    frozenset(("read", "search")): 0.5,
    frozenset(("create", "send")): 0.4,
    frozenset(("create", "copy")): 0.3,
    frozenset(("create", "update")): 0.25,
}
_UNKNOWN = 0.6
# Sets of a few tools say little about which words are common.
_SMOOTHING = 8
MAX_TELLING = 4


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tools by their names, how likely a reader mixes them up (0 to 1), and words that only one has."""

    first: str
    second: str
    score: float
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


class Confusion:
    """The tools of one agent, by the names that a model is shown; a word is as rare as it is among them."""

    def __init__(self, signatures: Sequence[Signature], stems: Mapping[str, str]) -> None:
        known = Stems(stems)
        self._purposes = [purpose(each, known) for each in signatures]
        self._by_name = {each.name: each for each in self._purposes}
        held = Counter(stem for each in self._purposes for stem in each.words)
        count = len(self._purposes) + _SMOOTHING
        self._rarity = {stem: math.log(1 + count / (held[stem] + 1)) for stem in held}
        self._vectors = {
            each.name: {stem: loud * self._rarity[stem] for stem, loud in each.words.items()}
            for each in self._purposes
        }
        self._lengths = {name: math.hypot(*vector.values()) for name, vector in self._vectors.items()}

    def pairs(self) -> list[Pair]:
        """Those that are confusable, the worst first."""
        # Two that share no thing never score enough, so only those that do are compared.
        sharing: defaultdict[str, set[int]] = defaultdict(set)
        for place, each in enumerate(self._purposes):
            for thing in each.things:
                sharing[thing[-1] if thing else ""].add(place)
        compared = {pair for places in sharing.values() for pair in combinations(sorted(places), 2)}
        found = []
        for first, second in sorted(compared):
            one, other = self._purposes[first], self._purposes[second]
            if _action(one, other) and (score := self._score(one, other)) >= CONFUSABLE:
                found.append(
                    Pair(one.name, other.name, score, self._telling(one, other), self._telling(other, one))
                )
        return sorted(found, key=lambda pair: (-pair.score, pair.first, pair.second))

    def score(self, first: str, second: str) -> float:
        return self._score(self._by_name[first], self._by_name[second])

    def telling(self, first: str, second: str) -> tuple[str, ...]:
        """Words that the first has and the second lacks, as spelled there; the most telling first."""
        return self._telling(self._by_name[first], self._by_name[second])

    def sentence(self, first: str, second: str) -> str:
        """For the description of the first: when the second is meant. Empty if nothing tells them apart."""
        one, other = self._by_name[first], self._by_name[second]
        ours, theirs = doing(one.gist), doing(other.gist)
        # The same in other words tells nothing, so what does tell stands behind it.
        if one.leading == other.leading or not (ours and theirs):
            only = self._telling(one, other), self._telling(other, one)
            if not any(only):
                return ""
            ours, theirs = (
                " ".join(filter(None, (said, f"({', '.join(telling[:2])})" if said and telling else "")))
                or ", ".join(telling)
                for said, telling in zip((ours, theirs), only, strict=True)
            )
        if not (ours and theirs):
            return ""
        return f"Use this for {ours}, not for {theirs}; for that use `{other.name}`."

    def _score(self, one: Purpose, other: Purpose) -> float:
        evidence = self.evidence(one, other)
        said = sum(weight * each for weight, each in zip(_WEIGHTS, evidence, strict=True))
        score = 1 / (1 + math.exp(-said - _BIAS))
        for mine, theirs in ((one, other), (other, one)):
            if _names(mine.told_apart, theirs.name):
                score *= _TOLD
        return round(score, 4)

    def evidence(self, one: Purpose, other: Purpose) -> tuple[float, ...]:
        action = _action(one, other)
        return self._alike(one, other), self._apart(one, other), action, action * _same_thing(one, other)

    def _alike(self, one: Purpose, other: Purpose) -> float:
        mine, theirs = self._vectors[one.name], self._vectors[other.name]
        length = self._lengths[one.name] * self._lengths[other.name]
        return (
            sum(mine[stem] * theirs[stem] for stem in mine.keys() & theirs.keys()) / length if length else 0.0
        )

    def _apart(self, one: Purpose, other: Purpose) -> float:
        # Which part of the words in both names the other tool does not speak of.
        strange = (one.of_name - other.of_name - other.leading) | (other.of_name - one.of_name - one.leading)
        all_words = sum(self._rarity[stem] for stem in one.of_name | other.of_name)
        return sum(self._rarity[stem] for stem in strange) / all_words if all_words else 0.0

    def _telling(self, one: Purpose, other: Purpose) -> tuple[str, ...]:
        """Of its name and first sentence; where these say the same, its inputs, or what it says below."""
        vector = self._vectors[one.name]
        only = sorted(vector.keys() - other.words.keys(), key=lambda stem: (-vector[stem], stem))
        loud = [one.spelled[stem] for stem in only if stem in one.of_name or stem in one.leading]
        inputs = [name for name in one.inputs if name not in other.inputs]
        quiet = [one.spelled[stem] for stem in only if one.spelled[stem].isalpha() and len(stem) > 2]
        return tuple((loud or inputs or quiet)[:MAX_TELLING])


def _action(one: Purpose, other: Purpose) -> float:
    if not one.action or not other.action:
        return _UNKNOWN
    return 1.0 if one.action == other.action else _KINDRED.get(frozenset((one.action, other.action)), 0.0)


def _same_thing(one: Purpose, other: Purpose) -> float:
    pairs = [_same(mine, theirs) for mine in one.things for theirs in other.things]
    # In the sentence, and in the name.
    alike = [_same(mine, theirs) for mine, theirs in zip(one.things, other.things, strict=False)]
    return (max(pairs, default=0.0) + sum(alike) / max(len(alike), 1)) / 2


def _same(mine: Sequence[str], theirs: Sequence[str]) -> float:
    """1 for the same thing, less for a kind of it, and little for two kinds."""
    if not mine or not theirs or mine[-1] != theirs[-1]:
        return 0.0
    only_mine, only_theirs = set(mine) - set(theirs), set(theirs) - set(mine)
    return 0.3 if only_mine and only_theirs else 0.8 if only_mine or only_theirs else 1.0


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None
