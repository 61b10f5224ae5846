import inspect
import json
from itertools import pairwise
from pathlib import Path

import jsonschema_rs
import pytest

from demo import VENDORS
from demo.__main__ import BACKENDS
from demo.signatures import tools_of

SCHEMA = json.loads((Path(__file__).parents[1] / "fixtures/a2t/strict.schema.json").read_text())
STRICT = jsonschema_rs.validator_for(SCHEMA, validate_formats=True)


@pytest.fixture
def histories(client):
    """All versions of each tool, oldest first."""
    return [client.tools(f"/tools/{t['toolId']}/versions")[::-1] for t in client.tools()]


def narrowed(before, after):
    """Return the members that `after` removes from `before`; empty if it only adds."""
    faults = []
    for side in ("input_parameters", "output_parameters"):
        old, new = ({p["id"]: p for p in signature[side]} for signature in (before, after))
        faults += [f"{i} is gone" for i in old.keys() - new.keys()]
        faults += [f"{i} is required" for i in new.keys() - old.keys() if new[i].get("required")]
        for i in old.keys() & new.keys():
            choices = [{c["name"] for c in p[i].pop("allowed-values", [])} for p in (old, new)]
            if old[i] != new[i] or choices[0] - choices[1]:
                faults.append(f"{i} has changed")
    return faults


def test_every_version_of_every_tool_is_strictly_valid(histories):
    faults = [(v["name"], str(e)) for versions in histories for v in versions for e in STRICT.iter_errors(v)]
    assert faults == []


def test_a_version_only_adds_to_the_one_before(histories):
    faults = [narrowed(old, new) for versions in histories for old, new in pairwise(versions)]
    assert [f for f in faults if f] == []


def test_a_version_differs_from_the_one_before(histories):
    numbers = {"version", "currentVersion"}
    compared = [
        [{k: v for k, v in s.items() if k not in numbers} for s in versions] for versions in histories
    ]
    assert all(old != new for versions in compared for old, new in pairwise(versions))


def test_versions_are_numbered_from_one_and_know_the_newest(histories):
    for versions in histories:
        assert [v["version"] for v in versions] == list(range(1, len(versions) + 1))
        assert {v["currentVersion"] for v in versions} == {len(versions)}


def test_names_and_ids_are_unique(histories):
    newest = [versions[-1] for versions in histories]
    assert len({t["name"] for t in newest}) == len({t["toolId"] for t in newest}) == len(newest)
    for tool in newest:
        parameters = tool["input_parameters"] + tool["output_parameters"]
        assert len({p["id"] for p in parameters}) == len({p["name"] for p in parameters}) == len(parameters)


def test_tool_ids_are_unique_over_all_vendors():
    ids = [t.id for backend in BACKENDS.values() for t in tools_of(backend)]
    assert len(ids) == len(set(ids)) >= 48


def test_several_tools_have_come_to_their_third_version():
    ages = [t.current_version for backend in BACKENDS.values() for t in tools_of(backend)]
    assert sum(age >= 2 for age in ages) >= 8
    assert sum(age >= 3 for age in ages) >= 3


def test_every_vendor_of_published_tools_has_a_backend():
    assert {v.slug for v in VENDORS if v.protocol in {"a2t", "oxp"}} == BACKENDS.keys()


def test_the_answering_function_takes_what_the_tool_asks_for(vendor):
    for tool in tools_of(BACKENDS[vendor.slug]):
        takes = list(inspect.signature(tool.run).parameters.values())[1:]
        required = {p.name for p in takes if p.default is p.empty}
        assert {p.key for p in tool.editions[-1].inputs} <= {p.name for p in takes}, tool.name
        assert {p.key for p in tool.editions[0].inputs if p.required} == required, tool.name
