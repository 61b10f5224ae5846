"""The same job at another vendor: which input goes where, and which output comes back as what. Pure rules.

A proposal is for a person to read and complete. What is paired has the same id or the same name, or words
that mean the same; each is paired once, the likeliest first. What cannot be paired is a gap.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from catalog.search.words import name_key, words
from execution.activities import conversions, picking
from execution.activities.picking import Fault, Reach, Source
from protocols.signature import Parameter, Signature

Why = Literal["id", "name", "meaning"]
# Less than this is a guess that a reader would take for nonsense.
LEAST = 0.3
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
# Words that say nothing about what is meant.
_EMPTY_WORDS = (
    "a an and are as be by can for has if in is it its no not of on one only or so such than that the their"
    " them then there these they this value what which who will with without"
)
_EMPTY = frozenset(_EMPTY_WORDS.split())


@dataclass(frozen=True, slots=True)
class Pair:
    """`of` goes to or comes from `to`. `fit` says whether its values have to be converted."""

    of: str
    to: str
    why: Why
    fit: conversions.Fit


@dataclass(frozen=True, slots=True)
class Proposal:
    """`inputs` go by the inputs of the other tool, `outputs` by those of the interface. `gaps` stand against
    it; `unused` are inputs of the interface that go nowhere, and `lacking` outputs that do not come."""

    inputs: Mapping[str, Source]
    outputs: Mapping[str, Source]
    pairs: tuple[Pair, ...]
    gaps: tuple[Fault, ...]
    unused: tuple[str, ...]
    lacking: tuple[str, ...]


def propose(interface: Signature, other: Signature) -> Proposal:
    """How `other` may do the job of `interface`, in one step."""
    taken = tuple(_paired(interface.inputs, other.inputs))
    given = tuple(_paired(other.outputs, interface.outputs))
    inputs = {pair.to: Source(input=pair.of, otherwise=_stand_in(pair, interface, other)) for pair in taken}
    outputs = {pair.to: Source(step=1, output=pair.of) for pair in given}
    reach = Reach({each.name: each for each in interface.inputs}, ())
    missing = picking.faults_in_inputs("steps.1.inputs", inputs, other, reach)
    unfit = _unfit(interface.inputs, other.inputs, inputs)
    return Proposal(
        inputs=inputs,
        outputs=outputs,
        pairs=(*taken, *given),
        gaps=tuple(unfit.get(gap.place.rpartition(".")[2], gap) for gap in missing),
        unused=tuple(each.name for each in interface.inputs if each.name not in {pair.of for pair in taken}),
        lacking=tuple(each.name for each in interface.outputs if each.name not in outputs),
    )


def config(proposal: Proposal, tool: int, ordinal: int) -> dict[str, Any]:
    """That of an activity of kind `vendor`, as far as it goes."""
    step = picking.Step(tool=tool, ordinal=ordinal, inputs=dict(proposal.inputs))
    whole: dict[str, Any] = msgspec.to_builtins(picking.Steps([step], dict(proposal.outputs)))
    return whole


def likeness(one: Parameter, other: Parameter) -> tuple[float, Why]:
    """From 0 to 1, and by what."""
    if one.id == other.id:
        return 1.0, "id"
    if name_key(one.name) and name_key(one.name) == name_key(other.name):
        return 0.95, "name"
    names = _overlap(_meanings(one.name), _meanings(other.name))
    whole = _overlap(
        _meanings(one.name, one.title, one.description), _meanings(other.name, other.title, other.description)
    )
    return 0.6 * names + 0.3 * whole, "meaning"


def _paired(given: Iterable[Parameter], wanted: Collection[Parameter]) -> Iterator[Pair]:
    found = []
    for one in given:
        for other in wanted:
            fit, (score, why) = conversions.fit(one, other), likeness(one, other)
            if fit != "no" and score >= LEAST:
                # What has to be converted comes after what is as likely and fits.
                found.append(
                    (-score, fit != "same", not other.required, Pair(one.name, other.name, why, fit))
                )
    used: set[tuple[str, str]] = set()
    for *_, pair in sorted(found, key=lambda each: each[:3]):
        if used.isdisjoint({("of", pair.of), ("to", pair.to)}):
            used |= {("of", pair.of), ("to", pair.to)}
            yield pair


def _stand_in(pair: Pair, interface: Signature, other: Signature) -> object:
    # Where a caller may leave out what is required there, the other tool's own default.
    source = next(each for each in interface.inputs if each.name == pair.of)
    target = next(each for each in other.inputs if each.name == pair.to)
    return target.default if target.required and not source.required else UNSET


def _unfit(
    given: Iterable[Parameter], wanted: Iterable[Parameter], inputs: Mapping[str, Source]
) -> dict[str, Fault]:
    # Of required inputs without a source: where something means the same and has a type that cannot go there.
    found = {}
    for target in wanted:
        if target.name in inputs or not target.required:
            continue
        alike = [
            (score, source)
            for source in given
            if (score := likeness(source, target)[0]) >= LEAST and conversions.fit(source, target) == "no"
        ]
        if alike:
            source = max(alike, key=lambda each: each[0])[1]
            message = (
                f"“{source.name}” seems to be meant for “{target.name}”, and its type cannot become that."
            )
            found[target.name] = Fault(f"steps.1.inputs.{target.name}", "unfit_type", message)
    return found


def _overlap(one: set[str], other: set[str]) -> float:
    return len(one & other) / min(len(one), len(other)) if one and other else 0.0


def _meanings(name: str, *texts: str) -> set[str]:
    # Each word as itself, or as the groups that it is in. A name says something whatever its words are.
    found = set(words(name)) | {word for text in texts for word in words(text)} - _EMPTY
    groups = {word: [f"#{n}" for n, group in enumerate(_GROUPS) if word in group] for word in found}
    return {meaning for word in found for meaning in (groups[word] or [word])}
