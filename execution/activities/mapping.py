"""Proposes a mapping of inputs and outputs to another vendor's tool for the same job. Pure.

A user reads and completes the proposal. Parameters are paired if they have the same id or name, or words with
the same meaning; each is used once, the most similar first. A required input without a pair is a gap.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from catalog.search.words import name_key, words
from execution.activities import conversions, picking
from execution.activities.picking import ActivityFault, Reach, Source
from protocols.signature import Parameter, Signature

PairingReason = Literal["id", "name", "meaning"]
# A lower similarity would look like nonsense to a reader.
LEAST = 0.3
# Pairs of parameters that are compared by meaning; two tools of 300 parameters have fewer.
MAX_COMPARISONS = 100_000
# Of very many parameters, those of one name that are compared with another parameter.
MAX_NAMESAKES = 10
# Words of parameters that mean the same, as vendors name them.
_ALIKE = (
    "to recipient recipients addressee receiver email mail mailto",
    "from sender origin source",
    "subject title heading headline caption",
    "body text message content note letter html",
    "city town place location municipality",
    "country nation region state",
    "query q search term terms keyword keywords question",
    "limit max maximum count size top quantity amount number",
    "id identifier key uuid ref reference number code",
    "start begin begins since after checkin departure",
    "end until before finish checkout return",
    "date day when time at hour moment",
    "lang language locale",
    "currency money unit",
    "url link address uri href website",
    "phone telephone mobile tel",
    "file attachment document upload",
    "sent accepted success ok delivered done succeeded completed",
    "price cost fee total sum rate",
    "user person customer guest client member patient",
    "status state phase stage",
    "comment remark reason notes why description",
    "lat latitude",
    "lon lng long longitude",
)
_GROUPS = [frozenset(line.split()) for line in _ALIKE]
# Words without a meaning of their own.
_EMPTY_WORDS = (
    "a an and are as be by can for has if in is it its no not of on one only or so such than that the their"
    " them then there these they this value what which who will with without"
)
_EMPTY = frozenset(_EMPTY_WORDS.split())


@dataclass(frozen=True, slots=True)
class ParameterPair:
    """Values of the parameter `of` become values of the parameter `to`. `fit` states whether they are
    converted."""

    of: str
    to: str
    reason: PairingReason
    fit: conversions.Fit


@dataclass(frozen=True, slots=True)
class MappingProposal:
    """A proposed mapping.

    inputs: by the inputs of the other tool. outputs: by those of the interface.
    gaps: faults that prevent it from running. unused: inputs of the interface without a target.
    lacking: outputs of the interface without a source.
    """

    inputs: Mapping[str, Source]
    outputs: Mapping[str, Source]
    pairs: tuple[ParameterPair, ...]
    gaps: tuple[ActivityFault, ...]
    unused: tuple[str, ...]
    lacking: tuple[str, ...]


def propose(interface: Signature, other: Signature) -> MappingProposal:
    """Return how `other` may do the job of `interface`, in one step."""
    input_pairs = tuple(_pair_parameters(interface.inputs, other.inputs))
    output_pairs = tuple(_pair_parameters(other.outputs, interface.outputs))
    sources = {parameter.name: parameter for parameter in interface.inputs}
    targets = {parameter.name: parameter for parameter in other.inputs}
    inputs = {}
    for pair in input_pairs:
        # If a caller may omit an input that the other tool requires, that tool's default is used.
        is_needed = targets[pair.to].required and not sources[pair.of].required
        otherwise = targets[pair.to].default if is_needed else UNSET
        inputs[pair.to] = Source(input=pair.of, otherwise=otherwise)
    outputs = {pair.to: Source(step=1, output=pair.of) for pair in output_pairs}
    reach = Reach(sources, ())
    missing = picking.faults_in_inputs("steps.1.inputs", inputs, other, reach)
    unfit = _find_unfit(interface.inputs, other.inputs, inputs)
    return MappingProposal(
        inputs=inputs,
        outputs=outputs,
        pairs=(*input_pairs, *output_pairs),
        gaps=tuple(unfit.get(gap.place.rpartition(".")[2], gap) for gap in missing),
        unused=tuple(
            parameter.name
            for parameter in interface.inputs
            if parameter.name not in {pair.of for pair in input_pairs}
        ),
        lacking=tuple(parameter.name for parameter in interface.outputs if parameter.name not in outputs),
    )


def config(proposal: MappingProposal, tool: int, ordinal: int) -> dict[str, Any]:
    """Return the configuration of an activity of kind `vendor`, which may be incomplete."""
    step = picking.ActivityStep(tool=tool, ordinal=ordinal, inputs=dict(proposal.inputs))
    stored: dict[str, Any] = msgspec.to_builtins(picking.Steps([step], dict(proposal.outputs)))
    return stored


class _DescribedParameter:
    """A parameter with the words that it is compared by, which are read once."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter
        self.key = name_key(parameter.name)
        self.name_words = _list_meanings(parameter.name)
        self.all_words = _list_meanings(parameter.name, parameter.title, parameter.description)

    def likeness(self, other: "_DescribedParameter") -> tuple[float, PairingReason]:
        """Return the similarity from 0 to 1, and its reason."""
        if self.parameter.id == other.parameter.id:
            return 1.0, "id"
        if self.key and self.key == other.key:
            return 0.95, "name"
        names = _share_of_words(self.name_words, other.name_words)
        return 0.6 * names + 0.3 * _share_of_words(self.all_words, other.all_words), "meaning"


def _pairs_to_compare(
    sources: Iterable[Parameter], targets: Iterable[Parameter]
) -> Iterator[tuple[_DescribedParameter, _DescribedParameter]]:
    """Yield the pairs to compare: all, or those of equal ids or names if there are very many."""
    described_sources = [_DescribedParameter(parameter) for parameter in sources]
    described_targets = [_DescribedParameter(parameter) for parameter in targets]
    if len(described_sources) * len(described_targets) <= MAX_COMPARISONS:
        yield from product(described_sources, described_targets)
        return
    equal: dict[tuple[str, str], list[_DescribedParameter]] = {}
    for target in described_targets:
        for mark in {("id", target.parameter.id), ("name", target.key)}:
            equal.setdefault(mark, []).append(target)
    for source in described_sources:
        alike = [*equal.get(("id", source.parameter.id), ()), *equal.get(("name", source.key), ())]
        yield from ((source, target) for target in alike[:MAX_NAMESAKES])


def _pair_parameters(sources: Iterable[Parameter], targets: Iterable[Parameter]) -> Iterator[ParameterPair]:
    candidates = []
    for source, target in _pairs_to_compare(sources, targets):
        one, other = source.parameter, target.parameter
        fit, (score, reason) = conversions.conversion_fit(one, other), source.likeness(target)
        if fit != "no" and score >= LEAST:
            # Among equally similar ones, a pair that fits comes before one that is converted.
            candidates.append(
                (-score, fit != "same", not other.required, ParameterPair(one.name, other.name, reason, fit))
            )
    used: set[tuple[str, str]] = set()
    for *_, pair in sorted(candidates, key=lambda candidate: candidate[:3]):
        if used.isdisjoint({("of", pair.of), ("to", pair.to)}):
            used |= {("of", pair.of), ("to", pair.to)}
            yield pair


def _find_unfit(
    sources: Iterable[Parameter], targets: Iterable[Parameter], inputs: Mapping[str, Source]
) -> dict[str, ActivityFault]:
    # Required inputs without a source: a similar one exists, but its type cannot be converted.
    lacking = [target for target in targets if target.name not in inputs and target.required]
    best: dict[str, tuple[float, Parameter, Parameter]] = {}
    for one, other in _pairs_to_compare(sources, lacking):
        score, source, target = one.likeness(other)[0], one.parameter, other.parameter
        is_better = score >= LEAST and (target.name not in best or score > best[target.name][0])
        if is_better and conversions.conversion_fit(source, target) == "no":
            best[target.name] = score, source, target
    faults_by_name = {}
    for _, source, target in best.values():
        message = f"“{source.name}” seems to be meant for “{target.name}”, and its type cannot become that."
        faults_by_name[target.name] = ActivityFault(f"steps.1.inputs.{target.name}", "unfit_type", message)
    return faults_by_name


def _share_of_words(one: set[str], other: set[str]) -> float:
    return len(one & other) / min(len(one), len(other)) if one and other else 0.0


def _list_meanings(name: str, *texts: str) -> set[str]:
    # Each word, or the groups that contain it. Words of a name count even if they have no meaning of their
    # own.
    all_words = set(words(name)) | {word for text in texts for word in words(text)} - _EMPTY
    groups = {word: [f"#{n}" for n, group in enumerate(_GROUPS) if word in group] for word in all_words}
    return {group for word in all_words for group in (groups[word] or [word])}
