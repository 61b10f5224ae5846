"""Precision of the detection of confusable tools, and the effect of a proposed sentence.

`PEGBOARD_CORPUS` names a folder with real tools (see inspection.py); the labels beside this module name them
by their ids. Without it only the speed is measured, on invented tools. The tools of one part and set are in
one agent, and so is each pair for its sentence.
"""

import dataclasses
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from benchmarks import rows
from benchmarks.frame import Figure, seconds
from catalog.search import stemming
from designer.rehearsals import tool_purpose
from designer.rehearsals.confusion import Confusion, append_sentence
from protocols import PROTOCOLS
from protocols.signature import Parameter, Signature

LABELS = Path(__file__).with_name("confusion_labels.txt")
WIDE_LABELS = Path(__file__).with_name("confusion_wide_labels.txt")
# Of these the rules were not made: neither labels nor scores were looked at one by one.
UNSEEN = ("held", "wide")
VENDORS, SETS = "vendors", ("dev_kis", "toolbench", "sealtools", "metatool", "mcpproxy")
AREA, LOWERED = 0.85, 90.0
TOOLS = 300
SHARE = "sentences that lower the score"
Each = TypeVar("Each")


@dataclass(frozen=True, slots=True)
class Tool:
    signature: Signature
    vendor: str


@dataclass(frozen=True, slots=True)
class Labelled:
    part: str
    stratum: str
    tools_of: str
    one: Tool
    other: Tool
    is_confusable: bool


def main() -> Iterator[Figure]:
    dice = random.Random(5)
    yield speed([Tool(rows.signature(number, dice), "") for number in range(TOOLS)])
    if folder := os.environ.get("PEGBOARD_CORPUS"):
        pairs = labelled(read_tools(Path(folder)))
        for part, those in grouped(pairs, lambda pair: pair.part).items():
            yield from figures(part, those)


def figures(part: str, pairs: Sequence[Labelled]) -> Iterator[Figure]:
    scored = list(zip(scores(pairs), pairs, strict=True))
    target = AREA if part in UNSEEN else None
    yield area(f"{part}, {len(pairs)} pairs", scored, target)
    if part == "wide":
        by_stratum = grouped(scored, lambda each: each[1].stratum)
        by_set = grouped(scored, lambda each: each[1].tools_of)
        for name, those in [*by_stratum.items(), *by_set.items()]:
            yes = sum(pair.is_confusable for _, pair in those)
            yield area(f"  {name}, {yes} of {len(those)}", those, None)
    named_count, unnamed = lowered(pairs)
    yield Figure(f"{part}: {SHARE}", named_count, "%", target=LOWERED)
    yield Figure(f"{part}: {SHARE} where the other tool is not named", unnamed, "%", target=LOWERED)


def grouped(items: Iterable[Each], key: Callable[[Each], str]) -> dict[str, list[Each]]:
    groups: dict[str, list[Each]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def read_tools(folder: Path) -> dict[tuple[str, str], Tool]:
    """Return the tools by set and id, each with a name that is unique in its set, as in an agent."""
    speaks = PROTOCOLS[0]()
    tools: dict[tuple[str, str], Tool] = {}
    used_names = set()
    for tools_of, number, vendor, signature in [
        *((VENDORS, item["toolId"], vendor, speaks.read(item)) for vendor, item in vendors(folder)),
        *(
            (name, row["id"], row["vendor"], signature_of(row))
            for name in SETS
            for row in corpus(folder, name)
        ),
    ]:
        name = (
            signature.name if (tools_of, signature.name) not in used_names else f"{vendor}_{signature.name}"
        )
        used_names.add((tools_of, name))
        tools[tools_of, number] = Tool(replace(signature, name=name), vendor)
    return tools


def vendors(folder: Path) -> Iterator[tuple[str, Any]]:
    for file in sorted(folder.glob("vendors/*.json")):
        document = json.loads(file.read_text())
        yield from ((document["vendor"], item) for item in document["items"])


def corpus(folder: Path, name: str) -> Iterator[Any]:
    with (folder / "search" / f"corpus_{name}.jsonl").open() as lines:
        yield from map(json.loads, lines)


def signature_of(row: Any) -> Signature:
    inputs, outputs = (
        tuple(
            Parameter(id=name, name=name, type="string", required=False, description="")
            for name in dict.fromkeys(entry["name"] for entry in row[member] or ())
        )
        for member in ("input_parameters", "output_parameters")
    )
    return Signature(name=row["name"], description=row["description"] or "", inputs=inputs, outputs=outputs)


def labelled(tools: dict[tuple[str, str], Tool]) -> list[Labelled]:
    pairs = []
    for line in LABELS.read_text().splitlines():
        if not line.startswith("#"):
            part, label, one, other = line.split()
            pair = tools[VENDORS, one], tools[VENDORS, other]
            pairs.append(Labelled(part, "", VENDORS, *pair, label == "yes"))
    for line in WIDE_LABELS.read_text().splitlines():
        if not line.startswith("#"):
            part, stratum, label, tools_of, one, other = line.split("\t")
            pair = tools[tools_of, one], tools[tools_of, other]
            pairs.append(Labelled(part, stratum, tools_of, *pair, label == "yes"))
    return pairs


def scores(pairs: Sequence[Labelled]) -> list[float]:
    judges = {
        tools_of: confusion(
            list({tool.signature.name: tool for pair in those for tool in (pair.one, pair.other)}.values())
        )
        for tools_of, those in grouped(pairs, lambda pair: pair.tools_of).items()
    }
    return [judges[pair.tools_of].score(pair.one.signature.name, pair.other.signature.name) for pair in pairs]


def area(name: str, scored: Sequence[tuple[float, Labelled]], target: float | None) -> Figure:
    """Under the curve: how often a confusable pair scores above one that is not."""
    yes, no = (
        [score for score, pair in scored if pair.is_confusable is is_confusable]
        for is_confusable in (True, False)
    )
    value = sum((a > b) + (a == b) / 2 for a in yes for b in no) / max(len(yes) * len(no), 1)
    return Figure(f"{name}: area under the curve", value, "", target=target)


def lowered(pairs: Sequence[Labelled]) -> tuple[float, float]:
    """Return how many sentences for the tools of a confusable pair lower its score: as they are, and
    without the name of the other tool."""
    confusable_pairs = [
        (one, other)
        for pair in pairs
        if pair.is_confusable
        for one, other in ((pair.one, pair.other), (pair.other, pair.one))
    ]
    named_count = unnamed = 0
    for one, other in confusable_pairs:
        names = one.signature.name, other.signature.name
        judge = confusion([one, other])
        before, sentence = judge.score(*names), judge.sentence(*names)
        without = sentence.rpartition("; ")[0]
        named_count += bool(sentence) and score_with_sentence(one, other, sentence) < before
        unnamed += bool(sentence) and score_with_sentence(one, other, f"{without}.") < before
    return 100 * named_count / len(confusable_pairs), 100 * unnamed / len(confusable_pairs)


def score_with_sentence(one: Tool, other: Tool, sentence: str) -> float:
    """Return the score of two tools when the sentence is appended to the first description."""
    signature = replace(one.signature, description=append_sentence(one.signature.description, sentence))
    judge = confusion([dataclasses.replace(one, signature=signature), other])
    return judge.score(one.signature.name, other.signature.name)


def speed(tools: Sequence[Tool]) -> Figure:
    took = seconds(lambda: confusion(tools).pairs())
    return Figure(f"an agent of {len(tools)} tools", took, "s", target=2, less_is_better=True)


def confusion(tools: Sequence[Tool]) -> Confusion:
    signatures = [tool.signature for tool in tools]
    stems = stemming.stems(tool_purpose.words_of(signatures))
    return Confusion(signatures, stems, {tool.signature.name: tool.vendor for tool in tools})
