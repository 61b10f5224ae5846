"""The cost of a hostile tool in the exports of a release. Work is counted, and no time is measured."""

from collections import Counter

import pytest

from core.schema import bounds, document, merge, subschemas
from core.schema.inlining import Inliner
from core.schema.work import Work
from designer import exports
from protocols.mcp.client import MCP
from tests.designer.exports import real_tools
from tests.hostile_schemas import CASES

# Of all formats together: parts of schemas that are read, levels that are joined, units of work, schemas that
# are walked or copied, schemas in which references are replaced, bytes that are written.
LIMITS = {
    "parts": 80_000,
    "levels": 60_000,
    "units": 60_000,
    "walked": 250_000,
    "inlined": 70_000,
    "bytes": 20_000_000,
}


OUTPUTS = (
    "many parts",
    "two references in anyOf",
    "a cycle through all",
    "large patterns",
    "anchors",
    "shared members",
    "shared texts",
)


@pytest.mark.parametrize(
    ("side", "name"),
    [*(("inputSchema", name) for name in CASES), *(("outputSchema", name) for name in OUTPUTS)],
)
def test_cost_of_a_tool_is_bounded(side, name, monkeypatch):
    signature = MCP().read({"name": "hostile", "inputSchema": {"type": "object"}, side: CASES[name]})
    release = real_tools.release_of([signature])
    counted = Counter()
    require_bounds, flatten, count = bounds.require_bounds, merge.flatten, Work.count
    walk, mapped = subschemas.walk, subschemas.mapped
    without_references = Inliner.without_references

    def count_parts(schema):
        counted["parts"] += bounds.count_parts(schema)
        require_bounds(schema)

    def count_level(schema, follow):
        counted["levels"] += 1
        return flatten(schema, follow)

    def count_work(work, units=1):
        counted["units"] += units
        count(work, units)

    def count_walk(schema):
        for part in walk(schema):
            counted["walked"] += 1
            yield part

    def count_copies(schema, change):
        counted["walked"] += 1
        return mapped(schema, change)

    def count_inlined(*arguments, **options):
        counted["inlined"] += 1
        return without_references(*arguments, **options)

    monkeypatch.setattr(Inliner, "without_references", count_inlined)
    monkeypatch.setattr(subschemas, "walk", count_walk)
    monkeypatch.setattr(subschemas, "mapped", count_copies)
    monkeypatch.setattr(document.bounds, "require_bounds", count_parts)
    monkeypatch.setattr(merge, "flatten", count_level)
    monkeypatch.setattr(Work, "count", count_work)

    for format_, carried in exports.carried_by_format(release):
        if format_ in exports.FORMATS:
            counted["bytes"] += len(format_.body(carried.fitting))

    assert {kind: counted[kind] for kind in LIMITS if counted[kind] > LIMITS[kind]} == {}
