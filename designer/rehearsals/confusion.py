"""Find the tools of one agent that a reader would confuse, and phrase a sentence that separates them. Pure.

Two tools are confusable if they do the same to the same thing and their texts hardly state when to use which.
docs/decisions/0069-confusable-tools.md has the figures behind the constants.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations
from operator import mul

from designer.rehearsals.tool_purpose import Purpose, Stems, describe_use, one_line, purpose
from protocols.signature import Signature

# A pair is listed from this score on.
CONFUSABLE = 0.5
# Weights of `evidence` on a logistic scale: fitted to labelled pairs of public tools
# (benchmarks/confusion.py). The bias is higher than the fitted one: a superfluous pair costs a look, a missed
# one a wrong call.
_WEIGHTS, _BIAS = (1.5, -1.2, 0.6, 2.8, 0.95), -1.35
# The part of a score that remains when one of the two states when to use the other.
_CONTRAST_FACTOR = 0.4
# How often a call of one action was intended for the other.
_ACTION_SIMILARITY = {
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
_UNKNOWN_ACTION = 0.6
_NO_INPUT_OVERLAP = 0.3
# A set of few tools shows little about which words are common.
_SMOOTHING = 8
MAX_TELLING = 4


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tools by name, the likelihood that a reader confuses them (0 to 1), and the words that only one
    has.
    """

    first: str
    second: str
    score: float
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


class Confusion:
    """The tools of one agent by the names that a model sees. A word's weight is its rarity among them.

    vendors: vendor names by tool name, where a tool has one.
    """

    def __init__(
        self,
        signatures: Sequence[Signature],
        stems: Mapping[str, str],
        vendors: Mapping[str, str] | None = None,
    ) -> None:
        lexicon = Stems(stems)
        self._vendors = vendors or {}
        # No agent shows two tools with one name; if it happens, the last one counts.
        self._by_name = {signature.name: purpose(signature, lexicon) for signature in signatures}
        self._purposes = list(self._by_name.values())
        tool_count_by_stem = Counter(stem for tool in self._purposes for stem in tool.words)
        count = len(self._purposes) + _SMOOTHING
        self._rarity = {
            stem: math.log(1 + count / (tool_count_by_stem[stem] + 1)) for stem in tool_count_by_stem
        }
        self._vectors = {
            tool.name: {stem: weight * self._rarity[stem] for stem, weight in tool.words.items()}
            for tool in self._purposes
        }
        self._lengths = {name: math.hypot(*vector.values()) for name, vector in self._vectors.items()}

    def pairs(self) -> list[Pair]:
        """Return the confusable pairs, the worst first."""
        # Two tools that share neither a thing nor a word of their names hardly ever score enough, so they are
        # not compared.
        positions_by_stem: defaultdict[str, list[int]] = defaultdict(list)
        for position, tool in enumerate(self._purposes):
            for stem in tool.name_stems | {thing[-1] for thing in tool.things if thing}:
                positions_by_stem[stem].append(position)
        compared = {pair for places in positions_by_stem.values() for pair in combinations(places, 2)}
        confusable = []
        for first, second in sorted(compared):
            one, other = self._purposes[first], self._purposes[second]
            if _compare_actions(one, other) and (score := self._score_pair(one, other)) >= CONFUSABLE:
                confusable.append(self._build_pair(one, other, score))
        return sorted(confusable, key=lambda pair: (-pair.score, pair.first, pair.second))

    def pair(self, first: str, second: str) -> Pair:
        """Return this pair, even with a low score. Raises KeyError."""
        one, other = self._by_name[first], self._by_name[second]
        return self._build_pair(one, other, self._score_pair(one, other))

    def _build_pair(self, one: Purpose, other: Purpose, score: float) -> Pair:
        return Pair(
            one.name,
            other.name,
            score,
            self._distinctive_words(one, other),
            self._distinctive_words(other, one),
        )

    def score(self, first: str, second: str) -> float:
        return self._score_pair(self._by_name[first], self._by_name[second])

    def sentence(self, first: str, second: str) -> str:
        """Phrase, for the first tool, when to use the second one. "" if nothing separates them."""
        one, other = self._by_name[first], self._by_name[second]
        use, other_use = self._describe_purpose(one, other), self._describe_purpose(other, one)
        if use == other_use:
            return ""
        # One's words include all of the other's and more, as `get_user_by_email` those of `get_user`.
        if self._vendor_of(one) == self._vendor_of(other) and set() < other.main_stems < one.main_stems:
            return f"Use this only for {use}; otherwise use `{other.name}`."
        return f"Use this for {use}, not for {other_use}; for that use `{other.name}`."

    def _describe_purpose(self, one: Purpose, other: Purpose) -> str:
        """Return the purpose of the tool in its own words, with a detail that separates it from the rival if
        needed.
        """
        use = describe_use(one)
        if (vendor := self._vendor_of(one)) != self._vendor_of(other) and vendor:
            return f"{use} with {vendor}"
        if one.lead_stems != other.lead_stems and one.main_stems != other.main_stems:
            return use
        name_words = [
            one.spelled[stem] for stem in self._distinct_words(one, other) if stem in one.name_stems
        ]
        if name_words:
            return f"{use} ({', '.join(name_words[:2])})"
        inputs = [f"`{name}`" for name in one.inputs if name not in other.inputs and "`" not in name]
        if inputs:
            return f"{use} with {' and '.join(inputs[:2])}"
        return use

    def _vendor_of(self, one: Purpose) -> str:
        """Return the vendor's name, "" if the tool has the same name."""
        vendor = one_line(self._vendors.get(one.name, ""))
        return "" if vendor == one.name else vendor

    def _score_pair(self, one: Purpose, other: Purpose) -> float:
        evidence = sum(map(mul, _WEIGHTS, self.evidence(one, other)))
        score = 1 / (1 + math.exp(-evidence - _BIAS))
        for tool, rival in ((one, other), (other, one)):
            score *= 1 - (1 - _CONTRAST_FACTOR) * self._contrast_with(tool, rival)
        return round(score, 4)

    def _contrast_with(self, tool: Purpose, rival: Purpose) -> float:
        """Return how far the tool states when to use the rival: by name or vendor, or by the purpose that
        only the rival has (0 to 1).
        """
        if not (tool.contrast or tool.limits):
            return 0.0
        rival_vendor = self._vendor_of(rival) if self._vendor_of(rival) != self._vendor_of(tool) else ""
        names = "|".join(re.escape(name) for name in (rival.name, rival_vendor) if name)
        if re.search(rf"(?<![\w-])(?:{names})(?![\w-])", tool.contrast, re.IGNORECASE):
            return 1.0
        if rival.main_stems == tool.main_stems:
            inputs = (name for name in rival.inputs if name not in tool.inputs)
            return float(any(f"`{name}`" in tool.contrast for name in inputs))
        # A limit counts too: the tool states what alone it is for, and the rival is for more.
        contrast_share = self._weighted_share(rival.main_stems - tool.main_stems, tool.contrast_stems)
        return max(contrast_share, self._weighted_share(tool.main_stems - rival.main_stems, tool.limits))

    def _weighted_share(self, expected: Set[str], present: Set[str]) -> float:
        total = sum(self._rarity.get(stem, 1.0) for stem in expected)
        return sum(self._rarity.get(stem, 1.0) for stem in expected & present) / total if total else 0.0

    def evidence(self, one: Purpose, other: Purpose) -> tuple[float, ...]:
        """Return features from 0 to 1. Similar words and things count as far as the actions agree."""
        action = _compare_actions(one, other)
        pairs = [_compare_things(thing, other_thing) for thing in one.things for other_thing in other.things]
        # The best match of any two phrases, and the match of the phrases in order.
        matches = [
            _compare_things(thing, other_thing)
            for thing, other_thing in zip(one.things, other.things, strict=False)
        ]
        vector, other_vector = self._vectors[one.name], self._vectors[other.name]
        length = self._lengths[one.name] * self._lengths[other.name]
        product = sum(vector[stem] * other_vector[stem] for stem in vector.keys() & other_vector.keys())
        # The share of the words in both names that the other tool's text lacks.
        only_one = one.name_stems - other.name_stems - other.lead_stems
        only_other = other.name_stems - one.name_stems - one.lead_stems
        lacking = sum(map(self._rarity.__getitem__, only_one | only_other))
        all_words = sum(map(self._rarity.__getitem__, one.name_stems | other.name_stems))
        # The share of all inputs that both tools have. Without inputs they are neither alike nor different.
        shared_inputs = len(one.inputs.keys() & other.inputs.keys())
        all_inputs = len(one.inputs.keys() | other.inputs.keys())
        return (
            action * (product / length if length else 0.0),
            lacking / all_words if all_words else 0.0,
            action,
            action * ((max(pairs, default=0.0) + sum(matches) / max(len(matches), 1)) / 2),
            shared_inputs / all_inputs if all_inputs else _NO_INPUT_OVERLAP,
        )

    def _distinctive_words(self, one: Purpose, other: Purpose) -> tuple[str, ...]:
        """Return distinctive words of the name and first sentence, else inputs, else words of the rest."""
        unshared = self._distinct_words(one, other)
        main_words = [one.spelled[stem] for stem in unshared if stem in one.name_stems | one.lead_stems]
        inputs = [name for name in one.inputs if name not in other.inputs]
        other_words = [
            one.spelled[stem] for stem in unshared if one.spelled[stem].isalpha() and len(stem) > 2
        ]
        return tuple((main_words or inputs or other_words)[:MAX_TELLING])

    def _distinct_words(self, one: Purpose, other: Purpose) -> list[str]:
        vector = self._vectors[one.name]
        return sorted(vector.keys() - other.words.keys(), key=lambda stem: (-vector[stem], stem))


def append_sentence(description: str, sentence: str) -> str:
    """Append a sentence to a description, with the full stop that many descriptions lack."""
    text = description.rstrip()
    return f"{text}{'' if not text or text[-1] in '.!?:;' else '.'} {sentence}".strip()


def _compare_actions(one: Purpose, other: Purpose) -> float:
    if not one.action or not other.action:
        return 1.0 if one.verb and one.verb == other.verb else _UNKNOWN_ACTION
    return (
        1.0
        if one.action == other.action
        else _ACTION_SIMILARITY.get(frozenset((one.action, other.action)), 0.0)
    )


def _compare_things(thing: Sequence[str], other_thing: Sequence[str]) -> float:
    """Return the similarity of two noun phrases, 0 to 1: 1 for equal ones, less if one names a kind of the
    other, and little if both name kinds of a third thing.
    """
    if not thing or not other_thing or thing[-1] != other_thing[-1]:
        return 0.0
    extra, other_extra = set(thing) - set(other_thing), set(other_thing) - set(thing)
    return 0.3 if extra and other_extra else 0.8 if extra or other_extra else 1.0
