"""Written otherwise and saying the same is one version, in every protocol."""

import copy

import pytest

from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Finding, Tool, ToolVersion
from catalog.models.runs import Trigger
from core.schema.normalization import normalized
from tests.factories import make_endpoint
from tests.hostile.bench import Bench, as_admin
from tests.hostile.dialects import DIALECTS
from tests.hostile_vendor import HostileVendor, reply
from tests.vendor import Vendor, serving, tool


def run_enumeration(endpoint):
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    return enumeration_runs.perform(run.pk)


def test_what_says_nothing_makes_no_difference():
    one = {"type": ["string", "null"], "required": ["b", "a"], "minimum": 7.0, "title": None}
    assert normalized(one) == {"type": ["null", "string"], "required": ["a", "b"], "minimum": 7}
    assert normalized({"properties": {"x": one}}) == {"properties": {"x": normalized(one)}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"default": None}, {}),
        ({"const": None}, {}),
        ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}),
        ({"enum": [None]}, {"enum": []}),
        ({"default": {"required": ["b", "a"]}}, {"default": {"required": ["a", "b"]}}),
        ({"default": {"x": None}}, {"default": {}}),
        ({"minimum": 7.5}, {"minimum": 7}),
        ({"minimum": True}, {"minimum": 1}),
    ],
)
def test_what_says_something_else_stays_apart(one, other):
    assert repr(normalized(one)) != repr(normalized(other))


INPUTS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "day": {"type": ["integer", "null"], "minimum": 1}},
    "required": ["city", "day"],
}
OTHERWISE = {
    "title": None,
    "type": "object",
    "properties": {
        "day": {"type": ["null", "integer"], "minimum": 1.0},
        "city": {"type": "string", "description": None},
    },
    "required": ["day", "city"],
}
A2T_INPUTS = [
    {"id": "p1", "name": "city", "type": "string", "description": "A city", "required": True},
    {"id": "p2", "name": "day", "type": "int", "description": "A day"},
]


def as_a2t(tool):
    """Return the tool written as an A2T document, its inputs in several forms that the drafts allow."""
    first, second = tool["input_parameters"]
    return {
        "toolID": tool["toolId"].upper(),
        "version": "1",
        "currentVersion": "1",
        "name": tool["name"],
        "description": tool["description"],
        "img": None,
        "tags": ["b", "a"],
        "input_parameters": [
            {**second, "type": "integer", "max": 65535.0},
            {"id": first["id"], "name": first["name"], "description": first["description"]},
        ],
        "output_parameters": [{**output, "required": True} for output in tool["output_parameters"]],
    }


# How a tool is written first, and then.
FORMS = {
    "a2t": (lambda tool: tool | {"tags": ["a", "b"], "input_parameters": A2T_INPUTS}, as_a2t),
    "oxp": (
        lambda tool: tool | {"input_schema": INPUTS},
        lambda tool: (
            tool
            | {"id": f"{tool['id']}@1.0.0", "input_schema": {"parameters": OTHERWISE}, "requirements": None}
        ),
    ),
    "mcp": (
        lambda tool: tool | {"inputSchema": INPUTS},
        lambda tool: {
            "name": tool["name"],
            "description": tool["description"],
            "annotations": {"title": tool["title"]},
            "inputSchema": OTHERWISE,
            "outputSchema": None,
        },
    ),
    "acp": (
        lambda tool: tool | {"specs": tool["specs"] | {"input": INPUTS}},
        lambda tool: tool | {"specs": tool["specs"] | {"input": OTHERWISE, "config": None}},
    ),
    "openapi": (
        lambda tool: DIALECTS["openapi"].taking(tool, INPUTS),
        lambda tool: DIALECTS["openapi"].taking(tool, OTHERWISE) | {"deprecated": None},
    ),
}


@pytest.fixture(params=DIALECTS)
def bench(request, db):
    with HostileVendor(reply()) as vendor:
        yield Bench(vendor, DIALECTS[request.param], as_admin())


def test_another_form_makes_neither_a_version_nor_a_finding(bench):
    usual, otherwise = FORMS[bench.dialect.name]
    bench.shop.tools = [usual(tool) for tool in bench.shop.tools]
    assert bench.enumerate().changed == 6
    Finding.objects.all().delete()
    versions = set(ToolVersion.objects.values_list("pk", flat=True))
    tools = list(Tool.objects.order_by("pk").values())

    bench.shop.tools = [otherwise(copy.deepcopy(tool)) for tool in bench.shop.tools]
    run = bench.enumerate()
    assert (run.status, run.changed, run.unchanged, run.rejected) == ("succeeded", 0, 6, 0)
    assert set(ToolVersion.objects.values_list("pk", flat=True)) == versions
    assert list(Tool.objects.order_by("pk").values()) == tools
    assert not Finding.objects.exists()
    assert bench.enumerate().unchanged == 6

    bench.shop.tools[0] = bench.dialect.described(bench.shop.tools[0], "Does something else.")
    assert bench.enumerate().changed == 1, "and what is said in that form is still heard"


@pytest.mark.django_db(transaction=True)
def test_an_older_version_in_another_form_is_the_one_we_hold():
    first = tool(1)
    with serving(Vendor([first])) as vendor:
        endpoint = make_endpoint(url=vendor.url)
        run_enumeration(endpoint)
        vendor.listed = [tool(1, version=2, description="Better.")]
        run_enumeration(endpoint)
        vendor.history[first["toolId"]] = [{**first, "version": "1", "img": None}, *vendor.listed]
        older_versions.read_all(endpoint.pk)
    assert list(ToolVersion.objects.order_by("pk").values_list("label", "rewrite")) == [("1", 0), ("2", 0)]
    assert not Finding.objects.filter(code="DRIFT").exists()


@pytest.mark.django_db(transaction=True)
def test_going_back_to_an_older_wording_in_another_form_adds_no_version():
    with serving(Vendor([tool(1)])) as vendor:
        endpoint = make_endpoint(url=vendor.url)
        run_enumeration(endpoint)
        vendor.listed = [tool(1, description="Does another thing.")]
        run_enumeration(endpoint)
        vendor.listed = [{**tool(1), "version": "1"}]
        run = run_enumeration(endpoint)
    assert (run.changed, Tool.objects.get().current.ordinal, ToolVersion.objects.count()) == (1, 1, 2)
