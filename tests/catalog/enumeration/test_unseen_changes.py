"""A change that no model sees and no call needs makes no version; every other change does."""

import copy
import itertools
import json
from datetime import UTC, datetime, timedelta

import pytest

from catalog.enumeration import one_tool
from catalog.models import Finding, ListedDocument, Run, Tool
from tests.hostile.bench import Bench, as_admin
from tests.hostile.dialects import DIALECTS, encoded
from tests.hostile_vendor import HostileVendor, reply

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)
MINUTE_LATER, NOON = (NOW + timedelta(minutes=1)).isoformat(), "2020-01-01T12:00:00Z"
SCHEMA = {
    "type": "object",
    "properties": {
        "size": {"enum": ["small", "large", None, 1]},
        "grade": {"type": "integer", "enum": [1, 2], "x-enum-varnames": ["LOW", "HIGH"]},
        "when": {"type": "string", "default": NOW.isoformat(), "description": "A time"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"unit": {"enum": ["kg", "g"]}}},
        },
    },
    "required": ["size", "when"],
}


def with_property(name, **members):
    schema = copy.deepcopy(SCHEMA)
    schema["properties"][name] |= members
    return schema


def with_units(units):
    schema = copy.deepcopy(SCHEMA)
    schema["properties"]["lines"]["items"]["properties"]["unit"]["enum"] = units
    return schema


def with_default(value):
    return with_property("when", default=value)


UNSEEN = {
    "order of enum": (SCHEMA, with_property("size", enum=[1, "large", None, "small"])),
    "order of enum below": (SCHEMA, with_units(["g", "kg"])),
    "order of enum with its names": (
        SCHEMA,
        with_property("grade", **{"enum": [2, 1], "x-enum-varnames": ["HIGH", "LOW"]}),
    ),
    "order of required": (SCHEMA, SCHEMA | {"required": ["when", "size"]}),
    "order of members": (SCHEMA, dict(reversed(SCHEMA.items()))),
    "clock": (SCHEMA, with_default(MINUTE_LATER)),
    "epoch": (with_default(int(NOW.timestamp())), with_default(int(NOW.timestamp()) + 3600)),
    "day": (with_default(f"{NOW:%Y-%m-%d}"), with_default(f"{NOW + timedelta(days=1):%Y-%m-%d}")),
    "clock in an example": (
        with_property("when", examples=[NOW.isoformat()]),
        with_property("when", examples=[MINUTE_LATER]),
    ),
    "_meta": (SCHEMA, SCHEMA | {"_meta": {"a": 1}}),
    "_meta below": (with_property("lines", _meta={"a": 1}), with_property("lines", _meta={"a": 2})),
    "extension": (with_property("when", **{"x-seen": "a"}), with_property("when", **{"x-seen": "b"})),
}
SEEN = {
    "a value more": (SCHEMA, with_property("size", enum=["small", "large", None, 1, 2])),
    "a value less": (SCHEMA, with_units(["kg"])),
    "other names of values": (SCHEMA, with_property("grade", **{"x-enum-varnames": ["HIGH", "LOW"]})),
    "a description": (SCHEMA, with_property("when", description="A day")),
    "a type": (SCHEMA, with_property("when", type="integer")),
    "a required input": (SCHEMA, SCHEMA | {"required": ["size"]}),
    "a name": (SCHEMA, SCHEMA | {"properties": {**SCHEMA["properties"], "x-extra": {"type": "string"}}}),
    "a chosen default": (with_default("2019-01-01T12:00:00Z"), with_default(NOON)),
    "a default that becomes the clock": (with_default(NOON), SCHEMA),
    "a default in another notation": (SCHEMA, with_default(f"{NOW:%Y-%m-%d}")),
    "a default that is a word": (with_default("today"), with_default("tomorrow")),
    "a property called as an extension is": (
        SCHEMA | {"properties": {"_meta": {"type": "string"}}, "required": []},
        SCHEMA | {"properties": {"_meta": {"type": "integer"}}, "required": []},
    ),
}
WITH_SCHEMAS = [name for name in DIALECTS if name != "a2t"]


@pytest.fixture(params=DIALECTS)
def bench(request):
    with HostileVendor(reply()) as vendor:
        yield Bench(vendor, DIALECTS[request.param], as_admin(), count=2)


def reread(bench, before, after):
    """Return the run, the tool and the number of versions that the second of two forms added."""
    shop = bench.shop
    shop.tools[-1] = before
    bench.enumerate()
    row = Tool.objects.get(endpoint=bench.endpoint, tool_id=bench.dialect.id_of(before))
    count = row.version_count
    shop.tools[-1] = after
    run = bench.enumerate()
    assert run.status == "succeeded", run.error_message
    row.refresh_from_db()
    return run, row, row.version_count - count


def with_inputs(bench, schemas):
    tool = bench.shop.tools[-1]
    return [bench.dialect.taking(copy.deepcopy(tool), copy.deepcopy(schema)) for schema in schemas]


def reread_schemas(bench, schemas_by_case):
    """List both schemas of each case. Return the second run, and by case the tool and its new versions."""
    bench.widen()
    items = {case: bench.dialect.tool(number) for number, case in enumerate(schemas_by_case, 100)}
    usual = bench.shop.tools
    before, after = (
        [
            bench.dialect.taking(copy.deepcopy(item), copy.deepcopy(schemas_by_case[case][form]))
            for case, item in items.items()
        ]
        for form in (0, 1)
    )
    bench.shop.tools = usual + before
    bench.enumerate()
    ids = {case: bench.dialect.id_of(item) for case, item in items.items()}
    rows = {case: Tool.objects.get(endpoint=bench.endpoint, tool_id=ids[case]) for case in items}
    counts = {case: row.version_count for case, row in rows.items()}
    bench.shop.tools = usual + after
    run = bench.enumerate()
    assert run.status == "succeeded", run.error_message
    for row in rows.values():
        row.refresh_from_db()
    return run, rows, {case: row.version_count - counts[case] for case, row in rows.items()}


def has_listed_document(rows):
    return {case: ListedDocument.objects.filter(tool=row).exists() for case, row in rows.items()}


@pytest.mark.parametrize("bench", WITH_SCHEMAS, indirect=True)
def test_an_unseen_change_of_a_schema_makes_no_version(bench):
    run, rows, added = reread_schemas(bench, UNSEEN)
    assert (added, run.changed) == (dict.fromkeys(UNSEEN, 0), 0)
    assert not Finding.objects.filter(run=run).exists()
    written_alike = {"order of required", "order of members"}
    assert has_listed_document(rows) == {case: case not in written_alike for case in UNSEEN}
    again = bench.enumerate()
    assert (again.changed, again.unchanged) == (0, len(bench.shop.tools))
    assert "REST_CHANGED" not in {note["code"] for note in again.notes}


@pytest.mark.parametrize("bench", ["mcp"], indirect=True)
@pytest.mark.parametrize("other", [("$defs", "Day"), ("$defs", "When"), ("definitions", "When")])
def test_definitions_under_another_keyword_or_name_make_no_version(bench, other):
    forms = [
        SCHEMA
        | {
            "properties": SCHEMA["properties"] | {"day": {"$ref": f"#/{keyword}/{name}"}},
            keyword: {name: {"type": "string", "format": "date"}},
        }
        for keyword, name in (("definitions", "Day"), other)
    ]
    run, row, added = reread(bench, *with_inputs(bench, forms))
    assert (added, run.changed) == (0, 0)
    assert ListedDocument.objects.filter(tool=row).exists()


@pytest.mark.parametrize("bench", WITH_SCHEMAS, indirect=True)
def test_a_change_that_a_model_sees_makes_a_version(bench):
    run, rows, added = reread_schemas(bench, SEEN)
    assert (added, run.changed) == (dict.fromkeys(SEEN, 1), len(SEEN))
    assert has_listed_document(rows) == dict.fromkeys(SEEN, False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"_meta": {"a": "one"}}, {"_meta": {"a": "another", "b": [1]}}),
        ({}, {"_meta": {"a": 1}}),
        ({"x-served": NOW.isoformat()}, {"x-served": MINUTE_LATER}),
        ({"x-own": {"note": "words"}}, {"x-own": {"note": "other words"}}),
    ],
)
def test_members_that_no_model_sees_make_no_version_and_are_reported(bench, before, after):
    tool = bench.shop.tools[-1]
    run, row, added = reread(bench, copy.deepcopy(tool) | before, copy.deepcopy(tool) | after)
    assert (added, run.changed, run.rejected) == (0, 0, 0)
    assert [note["count"] for note in run.notes if note["code"] == "REST_CHANGED"] == [1]
    path = f"/api/v1/tools/{row.pk}/versions/{row.current.ordinal}/"
    document = ListedDocument.objects.get(tool=row)
    assert bench.rest.get(path).json()["listed_raw"] == json.loads(document.raw)
    page = bench.pages.get(f"/tools/{row.pk}/raw/").content.decode()
    assert "listed-title" in page


@pytest.mark.parametrize("bench", ["mcp"], indirect=True)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"annotations": {"readOnlyHint": True, "x": 1}}, {"annotations": {"readOnlyHint": True, "x": 2}}),
        (
            {"annotations": {"readOnlyHint": True}},
            {"annotations": {"readOnlyHint": True, "_meta": {"n": 1}}},
        ),
        ({"icons": [{"src": "https://a.test/1.png"}]}, {"icons": [{"src": "https://a.test/2.png"}]}),
        ({"version": "1"}, {"version": "2"}),
    ],
)
def test_what_mcp_tells_people_makes_no_version(bench, before, after):
    tool = bench.shop.tools[-1]
    run, _, added = reread(bench, tool | before, tool | after)
    assert (added, run.changed) == (0, 0)


@pytest.mark.parametrize("bench", ["mcp"], indirect=True)
def test_an_extension_that_a_call_reads_makes_a_version(bench):
    schemas = [
        {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": header_name}}}
        for header_name in ("Region", "Tenant")
    ]
    _, _, added = reread(bench, *with_inputs(bench, schemas))
    assert added == 1


OPERATION = {
    "tags": ["a", "b"],
    "parameters": [
        {"name": "q", "in": "query", "schema": {"type": "string"}, "example": "x", "x-a": 1},
        {"name": "x-key", "in": "header", "schema": {"type": "string"}},
    ],
    "servers": [{"url": "/v1"}, {"url": "/v2"}],
    "externalDocs": {"url": "https://a.test/"},
}


@pytest.mark.parametrize("bench", ["openapi"], indirect=True)
@pytest.mark.parametrize(
    "after",
    [
        {"tags": ["b", "a"]},
        {"parameters": [OPERATION["parameters"][1], OPERATION["parameters"][0]]},
        {
            "parameters": [
                OPERATION["parameters"][0] | {"example": "y", "x-a": 2},
                OPERATION["parameters"][1],
            ]
        },
        {"servers": [{"url": "/v1", "description": "First"}]},
        {"externalDocs": {"url": "https://b.test/"}},
    ],
)
def test_what_an_operation_tells_people_makes_no_version(bench, after):
    tool = bench.shop.tools[-1] | OPERATION
    run, _, added = reread(bench, tool, copy.deepcopy(tool) | after)
    assert (added, run.changed) == (0, 0)


@pytest.mark.parametrize("bench", ["openapi"], indirect=True)
@pytest.mark.parametrize(
    "after",
    [
        {"tags": ["b"]},
        {"servers": [{"url": "/v2"}, {"url": "/v1"}]},
        {"security": [{"x-key": []}]},
        {"summary": "Another thing"},
        {"parameters": [OPERATION["parameters"][0]]},
    ],
)
def test_what_a_call_of_an_operation_needs_makes_a_version(bench, after):
    tool = bench.shop.tools[-1] | OPERATION
    _, _, added = reread(bench, tool, copy.deepcopy(tool) | after)
    assert added == 1


@pytest.mark.parametrize("bench", ["a2t"], indirect=True)
def test_the_image_of_an_a2t_tool_and_the_order_of_its_values_make_no_version(bench):
    parameter = {"id": "p", "name": "unit", "type": "enum", "description": "Of what"}
    values = [{"name": "C", "description": "Celsius"}, {"name": "F"}]
    tool = bench.shop.tools[-1] | {"img": "https://a.test/1.png"}
    before = tool | {"input_parameters": [parameter | {"allowed-values": values}]}
    after = tool | {
        "img": "https://a.test/2.png",
        "input_parameters": [parameter | {"allowed-values": values[::-1], "x-note": "a"}],
    }
    run, _, added = reread(bench, before, after)
    assert (added, run.changed) == (0, 0)


def test_a_document_that_is_as_its_version_again_is_stored_beside_it_no_more(bench):
    tool = bench.shop.tools[-1]
    _, row, added = reread(bench, tool, tool | {"x-trace": {"a": 1}})
    assert (added, ListedDocument.objects.filter(tool=row).count()) == (0, 1)
    bench.shop.tools[-1] = tool
    assert bench.enumerate().changed == 0
    assert not ListedDocument.objects.filter(tool=row).exists()


def test_a_new_version_takes_the_place_of_the_listed_document(bench):
    tool = bench.shop.tools[-1]
    _, row, _ = reread(bench, tool, tool | {"x-trace": {"a": 1}})
    bench.shop.tools[-1] = bench.dialect.described(tool, "Does another thing.")
    assert bench.enumerate().changed == 1
    assert not ListedDocument.objects.filter(tool=row).exists()


def with_new_nonces(bench):
    """Let each list hold another nonce in each tool."""
    counter = itertools.count()

    def stamped(number, page):
        for item in bench.dialect.items_in(page):
            item["x-nonce"] = next(counter)
        return page

    bench.shop.turn = stamped


@pytest.mark.parametrize("bench", ["a2t", "mcp", "oxp", "openapi"], indirect=True)
def test_a_list_with_a_nonce_in_each_reading_is_stable(bench):
    bench.shop.tools += [bench.dialect.tool(number) for number in range(3, 8)]
    with_new_nonces(bench)
    first = bench.enumerate()
    assert (first.status, first.added) == ("succeeded", 5)
    second = bench.enumerate()
    assert (second.status, second.changed, second.unchanged) == ("succeeded", 0, 7)
    del bench.shop.tools[2]
    bench.shop.tools.append(bench.dialect.tool(9))
    third = bench.enumerate()
    assert (third.status, third.added, third.withdrawn) == ("succeeded", 1, 1)


@pytest.mark.parametrize("bench", ["mcp", "a2t"], indirect=True)
def test_a_runtime_that_reads_one_tool_makes_no_version_of_an_unseen_change(bench):
    tool = bench.shop.tools[-1]
    row = Tool.objects.get(endpoint=bench.endpoint, tool_id=bench.dialect.id_of(tool))
    bench.shop.tools[-1] = tool | {"x-trace": {"a": 1}}
    bench.shop.beside = lambda line, request: reply(encoded(bench.shop.tools[-1]))(line, request)
    count = Run.objects.count()
    assert one_tool.fetch(row) == one_tool.FetchResult()
    row.refresh_from_db()
    assert (row.version_count, Run.objects.count()) == (1, count)
    assert ListedDocument.objects.filter(tool=row).count() == 1
    assert bench.enumerate().unchanged == len(bench.shop.tools)


@pytest.mark.parametrize("bench", ["mcp"], indirect=True)
@pytest.mark.parametrize("after", [{"annotations": {"destructiveHint": False}}, {"annotations": {}}, {}])
def test_caution_that_is_withdrawn_is_held_where_risk_is(bench, after):
    tool = bench.dialect.tool(9)
    bench.shop.tools.append(tool | {"annotations": {"destructiveHint": True}})
    bench.enumerate()
    bench.endpoint.policy = {"widens_risk": "hold"}
    bench.endpoint.save()
    bench.shop.tools[-1] = tool | after
    bench.enumerate()
    row = Tool.objects.get(endpoint=bench.endpoint, tool_id=tool["name"])
    assert row.version_count == 2
    assert row.stopped_id not in (None, row.current_id)
    assert Finding.objects.filter(tool=row, code="HELD", state="open").count() == 1
