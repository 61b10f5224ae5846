"""Counts the real tools that raise an alarm, and the cost of inspecting.

`PEGBOARD_CORPUS` names a folder: `vendors/*.json` hold {"vendor", "items"} in the first protocol's form,
`search/corpus_*.jsonl` one tool in each line. Without it, only invented tools are measured. The floor of
the speed is one search for a few words in the same text, about as little as a rule can do.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.enumeration import endpoint_at, run, vendor
from benchmarks.frame import Figure, seconds
from benchmarks.vendor import COUNT
from catalog.models import ToolVersion
from catalog.review import inspector
from catalog.rules import inspection
from catalog.rules.inspection.mentions import find_mentions
from protocols import PROTOCOLS
from protocols.signature import Parameter, Signature, to_json

# Of a hundred tools, one may ask a person to look; of a thousand, about one severely.
ALARMING, SEVERE = 1.0, 0.125
WORDS = re.compile("ignore (?:all )?previous|do not tell|<!--")

Tools = list[tuple[str, Signature]]  # each with its vendor


def main() -> Iterator[Figure]:
    yield after_a_run()
    folder = os.environ.get("PEGBOARD_CORPUS")
    corpora = read_tools(Path(folder)) if folder else {}
    owners = owners_of(tool for tools in corpora.values() for tool in tools)
    for name, tools in corpora.items():
        yield from alarms(name, tools, owners)
    if corpora:
        yield speed([signature for tools in corpora.values() for _, signature in tools])


def after_a_run() -> Figure:
    """Measure inspection with findings, look-alikes and mentions, beside the rules alone."""
    with vendor() as port:
        endpoint = endpoint_at(f"http://127.0.0.1:{port}/plain")
        run(endpoint)
    signatures = [version.decoded() for version in ToolVersion.objects.filter(tool__endpoint=endpoint)]
    floor = seconds(lambda: [inspection.inspect(signature) for signature in signatures])
    took = seconds(lambda: inspector.inspect_pending(endpoint.pk))
    name = f"inspecting {COUNT:,} new tools after a run"
    return Figure(name, took, "s", floor=floor, target=4, less_is_better=True)


def read_tools(folder: Path) -> dict[str, Tools]:
    speaks = PROTOCOLS[0]()
    corpora: dict[str, Tools] = {}
    for file in sorted(folder.glob("vendors/*.json")):
        document = json.loads(file.read_text())
        tools = [(document["vendor"], speaks.read(item)) for item in document["items"]]
        corpora.setdefault("tools of public APIs", []).extend(tools)
    for file in sorted(folder.glob("search/corpus_*.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        corpora[file.stem] = [(row.get("vendor") or file.stem, described(row)) for row in rows]
    return corpora


def described(row: dict[str, Any]) -> Signature:
    return Signature(
        name=row["name"],
        description=row.get("description") or "",
        tags=tuple(row.get("tags") or ()),
        inputs=tuple(map(parameter, row.get("input_parameters") or ())),
        outputs=tuple(map(parameter, row.get("output_parameters") or ())),
    )


def parameter(row: dict[str, Any]) -> Parameter:
    name, text = row["name"], row.get("description") or ""
    return Parameter(id=name, name=name, type="string", required=bool(row.get("required")), description=text)


def owners_of(tools: Iterator[tuple[str, Signature]]) -> dict[str, set[str]]:
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for owner, signature in tools:
        owners[signature.name].add(owner)
    return owners


def alarms(name: str, tools: Tools, owners: dict[str, set[str]]) -> Iterator[Figure]:
    """A mention counts as an alarm when other vendors have a tool of that name and this one has not."""
    severities = [inspection.worst(inspection.inspect(signature)) for _, signature in tools]
    mentions = [
        any(word in owners and owner not in owners[word] for word in find_mentions(signature))
        for owner, signature in tools
    ]
    alarming = sum(
        worst in ("medium", "high") or strays for worst, strays in zip(severities, mentions, strict=True)
    )
    for text, count, target in (
        ("medium or more", alarming, ALARMING),
        ("high", severities.count("high"), SEVERE),
    ):
        share = 100 * count / len(tools)
        yield Figure(f"{name}, {len(tools):,} tools: {text}", share, "%", target=target, less_is_better=True)


def speed(signatures: list[Signature]) -> Figure:
    encoded = [to_json(signature) for signature in signatures]
    took = seconds(lambda: [inspection.inspect(signature) for signature in signatures])
    floor = seconds(lambda: [WORDS.search(text.decode()) for text in encoded])
    count = len(signatures)
    return Figure("inspecting", count / took, "tools/s", floor=count / floor)
