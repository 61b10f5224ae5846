"""Tools of one agent that a reader would mix up, what tells them apart, and a sentence that says so. Pure.

Two tools are confusable if they do the same to the same thing, and little in their words says when it is the
one and when the other. docs/decisions/0069-confusable-tools.md has the figures behind the constants.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations
from operator import mul

from designer.rehearsals.tool_purpose import Purpose, Stems, doing, one_line, purpose
from protocols.signature import Signature

# From this score on a pair is shown.
CONFUSABLE = 0.5
# What `evidence` counts for, on a logistic scale: fitted to labelled pairs of public tools
# (benchmarks/confusion.py). The bias is higher than the fitted one: a pair too many costs a look, a missed
# one a wrong call.
_WEIGHTS, _BIAS = (1.5, -1.2, 0.6, 2.8, 0.95), -1.35
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
    frozenset(("create", "generate")): 0.7,
    frozenset(("generate", "read")): 0.4,
    frozenset(("generate", "convert")): 0.5,
    frozenset(("check", "analyze")): 0.7,
    frozenset(("read", "analyze")): 0.4,
    frozenset(("read", "compute")): 0.5,
    frozenset(("read", "check")): 0.3,
    frozenset(("analyze", "compute")): 0.5,
    frozenset(("run", "compute")): 0.5,
}
_UNKNOWN = 0.6
_NO_INPUTS = 0.3
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
    """The tools of one agent, by the names that a model is shown; a word is as rare as it is among them.

    `vendors` are the names of their vendors by the names of the tools, as far as there is one to tell.
    """

    def __init__(
        self,
        signatures: Sequence[Signature],
        stems: Mapping[str, str],
        vendors: Mapping[str, str] | None = None,
    ) -> None:
        known = Stems(stems)
        self._vendors = vendors or {}
        # Of several with one name, which no agent shows, the last one counts.
        self._by_name = {each.name: purpose(each, known) for each in signatures}
        self._purposes = list(self._by_name.values())
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
        # Two that share neither a thing nor a word of their names hardly ever score enough: not compared.
        sharing: defaultdict[str, list[int]] = defaultdict(list)
        for place, each in enumerate(self._purposes):
            for stem in each.of_name | {thing[-1] for thing in each.things if thing}:
                sharing[stem].append(place)
        compared = {pair for places in sharing.values() for pair in combinations(places, 2)}
        found = []
        for first, second in sorted(compared):
            one, other = self._purposes[first], self._purposes[second]
            if _action(one, other) and (score := self._score(one, other)) >= CONFUSABLE:
                found.append(self._pair(one, other, score))
        return sorted(found, key=lambda pair: (-pair.score, pair.first, pair.second))

    def pair(self, first: str, second: str) -> Pair:
        """These two, however much they are alike. Raises KeyError."""
        one, other = self._by_name[first], self._by_name[second]
        return self._pair(one, other, self._score(one, other))

    def _pair(self, one: Purpose, other: Purpose, score: float) -> Pair:
        return Pair(one.name, other.name, score, self._telling(one, other), self._telling(other, one))

    def score(self, first: str, second: str) -> float:
        return self._score(self._by_name[first], self._by_name[second])

    def telling(self, first: str, second: str) -> tuple[str, ...]:
        """Words that the first has and the second lacks, as spelled there; the most telling first."""
        return self._telling(self._by_name[first], self._by_name[second])

    def sentence(self, first: str, second: str) -> str:
        """For the description of the first: when the second is meant. Empty if nothing tells them apart."""
        one, other = self._by_name[first], self._by_name[second]
        ours, theirs = self._use(one, other), self._use(other, one)
        if ours == theirs:
            return ""
        if self._is_special(one, other):
            return f"Use this only for {ours}; otherwise use `{other.name}`."
        return f"Use this for {ours}, not for {theirs}; for that use `{other.name}`."

    def _is_special(self, one: Purpose, other: Purpose) -> bool:
        """Whether it says all that the other one says, and more: `get_user_by_email` beside `get_user`."""
        return self._vendor(one) == self._vendor(other) and set() < other.said < one.said

    def _use(self, one: Purpose, other: Purpose) -> str:
        """What the one is for: in its own words, with what tells it from the other where these do not."""
        said = doing(one)
        if (vendor := self._vendor(one)) != self._vendor(other) and vendor:
            return f"{said} with {vendor}"
        if one.leading != other.leading and one.said != other.said:
            return said
        named = [one.spelled[stem] for stem in self._only(one, other) if stem in one.of_name]
        if named:
            return f"{said} ({', '.join(named[:2])})"
        inputs = [f"`{name}`" for name in one.inputs if name not in other.inputs and "`" not in name]
        if inputs:
            return f"{said} with {' and '.join(inputs[:2])}"
        return said

    def _vendor(self, one: Purpose) -> str:
        """Unless the tool is called like it."""
        vendor = one_line(self._vendors.get(one.name, ""))
        return "" if vendor == one.name else vendor

    def _score(self, one: Purpose, other: Purpose) -> float:
        said = sum(map(mul, _WEIGHTS, self.evidence(one, other)))
        score = 1 / (1 + math.exp(-said - _BIAS))
        for mine, theirs in ((one, other), (other, one)):
            score *= 1 - (1 - _TOLD) * self._told(mine, theirs)
        return round(score, 4)

    def _told(self, mine: Purpose, theirs: Purpose) -> float:
        """How far the one says when the other is meant: by its name or vendor, or by what only it is for."""
        if not (mine.told_apart or mine.limits):
            return 0.0
        elsewhere = self._vendor(theirs) if self._vendor(theirs) != self._vendor(mine) else ""
        if any(_names(mine.told_apart, name) for name in (theirs.name, elsewhere) if name):
            return 1.0
        if theirs.said == mine.said:
            inputs = (name for name in theirs.inputs if name not in mine.inputs)
            return float(any(f"`{name}`" in mine.told_apart for name in inputs))
        # Or by what the one is only for, where the other one is for more.
        told = self._part(theirs.said - mine.said, mine.told)
        return max(told, self._part(mine.said - theirs.said, mine.limits))

    def _part(self, wanted: Set[str], said: Set[str]) -> float:
        total = sum(self._rarity.get(stem, 1.0) for stem in wanted)
        return sum(self._rarity.get(stem, 1.0) for stem in wanted & said) / total if total else 0.0

    def evidence(self, one: Purpose, other: Purpose) -> tuple[float, ...]:
        """Between 0 and 1 each. Words and things that are alike count as far as the actions agree."""
        action = _action(one, other)
        return (
            action * self._alike(one, other),
            self._apart(one, other),
            action,
            action * _same_thing(one, other),
            _inputs(one, other),
        )

    def _alike(self, one: Purpose, other: Purpose) -> float:
        mine, theirs = self._vectors[one.name], self._vectors[other.name]
        length = self._lengths[one.name] * self._lengths[other.name]
        return (
            sum(mine[stem] * theirs[stem] for stem in mine.keys() & theirs.keys()) / length if length else 0.0
        )

    def _apart(self, one: Purpose, other: Purpose) -> float:
        # Which part of the words in both names the other tool does not speak of.
        strange = (one.of_name - other.of_name - other.leading) | (other.of_name - one.of_name - one.leading)
        all_words = sum(map(self._rarity.__getitem__, one.of_name | other.of_name))
        return sum(map(self._rarity.__getitem__, strange)) / all_words if all_words else 0.0

    def _telling(self, one: Purpose, other: Purpose) -> tuple[str, ...]:
        """Of its name and first sentence; where these say the same, its inputs, or what it says below."""
        only = self._only(one, other)
        loud = [one.spelled[stem] for stem in only if stem in one.of_name or stem in one.leading]
        inputs = [name for name in one.inputs if name not in other.inputs]
        quiet = [one.spelled[stem] for stem in only if one.spelled[stem].isalpha() and len(stem) > 2]
        return tuple((loud or inputs or quiet)[:MAX_TELLING])

    def _only(self, one: Purpose, other: Purpose) -> list[str]:
        vector = self._vectors[one.name]
        return sorted(vector.keys() - other.words.keys(), key=lambda stem: (-vector[stem], stem))


def described(description: str, sentence: str) -> str:
    """A description with one more sentence. Many end without a full stop."""
    said = description.rstrip()
    return f"{said}{'' if not said or said[-1] in '.!?:;' else '.'} {sentence}".strip()


def _inputs(one: Purpose, other: Purpose) -> float:
    """Which part of the inputs of both both have; two tools without inputs are neither alike nor not."""
    both = len(one.inputs.keys() & other.inputs.keys())
    either = len(one.inputs) + len(other.inputs) - both
    return both / either if either else _NO_INPUTS


def _action(one: Purpose, other: Purpose) -> float:
    if not one.action or not other.action:
        return 1.0 if one.verb and one.verb == other.verb else _UNKNOWN
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
