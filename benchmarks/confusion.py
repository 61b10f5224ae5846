"""How well confusable tools are told from others, and whether a proposed sentence helps.

`PEGBOARD_CORPUS` names a folder with real tools (see inspection.py); the labels beside this module name them
by their ids. Without it only the speed is measured, on invented tools. All tools of one part stand in one
agent, as does each pair for its sentence.
"""

import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from benchmarks import rows
from benchmarks.frame import Figure, seconds
from catalog.protocols import PROTOCOLS
from catalog.protocols.signature import Signature
from catalog.search import lexicon
from designer.rehearsals import tool_purpose
from designer.rehearsals.confusion import Confusion

LABELS = Path(__file__).with_name("confusion_labels.txt")
AREA, LOWERED = 0.85, 90.0
TOOLS = 300
Labelled = tuple[Signature, Signature, bool]


def main() -> Iterator[Figure]:
    dice = random.Random(5)
    yield speed([rows.signature(number, dice) for number in range(TOOLS)])
    if folder := os.environ.get("PEGBOARD_CORPUS"):
        tools = read(Path(folder))
        for part, pairs in labelled(tools).items():
            yield area(part, pairs)
            yield lowered(part, pairs)


def read(folder: Path) -> dict[str, Signature]:
    """By id; by a name that no other one has, as in an agent."""
    speaks = PROTOCOLS[0]()
    found, taken = {}, set()
    for file in sorted(folder.glob("vendors/*.json")):
        document = json.loads(file.read_text())
        for item in document["items"]:
            signature = speaks.read(item)
            name = signature.name if signature.name not in taken else f"{document['vendor']}_{signature.name}"
            taken.add(name)
            found[item["toolId"]] = replace(signature, name=name)
    return found


def labelled(tools: dict[str, Signature]) -> dict[str, list[Labelled]]:
    parts: dict[str, list[Labelled]] = {}
    for line in LABELS.read_text().splitlines():
        if not line.startswith("#"):
            part, label, one, other = line.split()
            parts.setdefault(part, []).append((tools[one], tools[other], label == "yes"))
    return parts


def area(part: str, pairs: Sequence[Labelled]) -> Figure:
    """Under the curve: how often a confusable pair scores above one that is not."""
    tools = list({each.name: each for one, other, _ in pairs for each in (one, other)}.values())
    judge = confusion(tools)
    scored = [(judge.score(one.name, other.name), label) for one, other, label in pairs]
    yes, no = ([score for score, label in scored if label is wanted] for wanted in (True, False))
    value = sum((a > b) + (a == b) / 2 for a in yes for b in no) / len(yes) / len(no)
    # Of these neither the labels nor the scores were looked at while the rules were made.
    target = AREA if part == "held" else None
    return Figure(f"{part}, {len(pairs)} pairs: area under the curve", value, "", target=target)


def lowered(part: str, pairs: Sequence[Labelled]) -> Figure:
    """Of the sentences for both tools of a confusable pair, how many lower its score where they are added."""
    wanted = [(one, other) for a, b, label in pairs if label for one, other in ((a, b), (b, a))]
    count = 0
    for one, other in wanted:
        judge = confusion([one, other])
        if sentence := judge.sentence(one.name, other.name):
            told = replace(one, description=f"{one.description} {sentence}")
            after = confusion([told, other]).score(one.name, other.name)
            count += after < judge.score(one.name, other.name)
    share = 100 * count / len(wanted)
    return Figure(f"{part}: sentences that lower the score", share, "%", target=LOWERED)


def speed(tools: Sequence[Signature]) -> Figure:
    took = seconds(lambda: confusion(tools).pairs())
    return Figure(f"an agent of {len(tools)} tools", took, "s", target=2, less_is_better=True)


def confusion(tools: Sequence[Signature]) -> Confusion:
    return Confusion(tools, lexicon.stems(tool_purpose.words_of(tools)))
