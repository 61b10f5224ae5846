"""One letter changed in any member of a published tool is seen in the same reading, and moves no pin (V2).

At least 40 kinds of member in each of the five protocols, unknown members included. A member that no model
sees and no call needs makes no version: the vendor's new text is stored beside it, and the run reports it.
"""

import pytest

from catalog.models import Finding, ListedDocument, Tool, ToolVersion
from designer.models import Pin
from tests.factories import make_agent, make_pin
from tests.hostile.bench import Bench, as_admin
from tests.hostile.dialects import DIALECTS, altered
from tests.hostile_vendor import HostileVendor, reply

pytestmark = pytest.mark.django_db

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "Order",
    "description": "What to order",
    "properties": {
        "name": {"type": "string", "description": "A name", "minLength": 1, "maxLength": 80},
        "mail": {"type": "string", "format": "email", "pattern": "^.+@.+$", "title": "Mail"},
        "count": {"type": "integer", "minimum": 1, "maximum": 99, "multipleOf": 2, "default": 4},
        "price": {"type": "number", "exclusiveMinimum": 0.5, "exclusiveMaximum": 9.5, "examples": [1.25]},
        "gift": {"type": "boolean", "default": False, "deprecated": True},
        "size": {"enum": ["small", "large"], "description": "How large"},
        "kind": {"const": "order", "$comment": "fixed"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
        "to": {"$ref": "#/$defs/place", "description": "Where to"},
        "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
    },
    "required": ["name", "mail"],
    "additionalProperties": False,
    "x-note": "own words",
    "$defs": {"place": {"type": "object", "properties": {"zip": {"type": "string"}}}},
}
PARAMETERS = [
    {
        "id": "p1",
        "name": "city",
        "type": "string",
        "description": "A city",
        "required": True,
        "max-length": 9,
    },
    {"id": "p2", "name": "days", "type": "int", "description": "How many", "min": 1, "max": 7},
    {
        "id": "p3",
        "name": "unit",
        "type": "enum",
        "description": "Of what",
        "allowed-values": [{"name": "C", "description": "Celsius"}, {"name": "F", "description": "Other"}],
        "x-note": "own words",
    },
    {"id": "p4", "name": "exact", "type": "boolean", "description": "To the grade", "required": False},
    {
        "id": "p5",
        "name": "scale",
        "type": "number",
        "description": "How fine",
        "default": 0.5,
        "title": "Scale",
    },
]
RESULTS = [
    {"id": "o1", "name": "sky", "type": "string", "description": "The sky", "max-length": 80, "title": "Sky"},
    {
        "id": "o2",
        "name": "wind",
        "type": "enum",
        "description": "From where",
        "allowed-values": [{"name": "N", "description": "North"}],
        "x-note": "own words",
    },
    {"id": "o3", "name": "warmth", "type": "number", "description": "In grades", "min": 1, "max": 50},
]
OWN = {
    "note": "words",
    "number": 3,
    "list": ["a"],
    "flag": True,
    "deep": {"er": {"still": "here", "count": 0.5}, "rows": [{"cell": "a"}]},
}
MARKS = {
    "x-rows": [{"cell": "a"}],
    "annotations": {"readOnlyHint": True, "title": "Weather", "audience": ["user"]},
    "x-team": "sky",
}
KINDS = 40
# Members that identify the tool and its version; another value makes another tool, or another version.
IDENTITY = {"toolId", "version", "currentVersion", "agent_id", "id", "operationId"}


def rich(dialect, number):
    tool = dialect.tool(number)
    if dialect.name == "a2t":
        members = {"input_parameters": PARAMETERS, "output_parameters": RESULTS, "x-own": OWN, **MARKS}
        return tool | altered(members) | {"img": "https://vendor.example/a.png"}
    schema = altered(SCHEMA)
    if dialect.name == "openapi":  # where a reference starts at the top of the whole document
        del schema["properties"]["to"]
    return dialect.taking(tool, schema) | {"x-own": altered(OWN)}


def leaves(value, path=()):
    if isinstance(value, dict):
        for name, child in value.items():
            yield from leaves(child, (*path, name))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from leaves(child, (*path, number))
    else:
        yield path, value


def kind_of(path):
    """Return the kind of place in a tool, the same for each of several parameters or values."""
    return tuple("*" if isinstance(step, int) else step for step in path)


def changed_by_a_letter(tool, path):
    """The tool with that one value changed as little as can be."""
    tool = altered(tool)
    holder = tool
    for step in path[:-1]:
        holder = holder[step]
    value = holder[path[-1]]
    if isinstance(value, bool):
        holder[path[-1]] = not value
    elif isinstance(value, str):
        holder[path[-1]] = value[:-1] + ("x" if value[-1:] != "x" else "y")
    else:
        holder[path[-1]] = value + 1
    return tool


def is_pullable(dialect, path, value):
    if value is None or path[0] in IDENTITY:
        return False
    if dialect.name == "mcp" and path == ("name",):
        return False
    # A wrong value there costs the tool, which is reported as a rejection.
    return path[-1] != "version" and "$ref" not in path and not (path[-1] == "type" and len(path) < 3)


def is_unseen(dialect, path):
    """No model sees the member and no call needs it: extensions, unused definitions, members for people."""
    is_for_people = dialect.name == "a2t" and path[0] in ("img", "annotations")
    is_unused = dialect.name == "openapi" and "$defs" in path  # `rich` has removed the reference to it
    return is_for_people or is_unused or any(isinstance(step, str) and step.startswith("x-") for step in path)


@pytest.mark.parametrize("protocol", DIALECTS)
def test_one_letter_anywhere_is_found_and_moves_no_pin(protocol):
    dialect = DIALECTS[protocol]
    with HostileVendor(reply()) as vendor:
        bench = Bench(vendor, dialect, as_admin())
        paths = [path for path, value in leaves(rich(dialect, 7)) if is_pullable(dialect, path, value)]
        assert len({kind_of(path) for path in paths}) >= KINDS
        bench.widen()
        bench.shop.tools += [rich(dialect, number) for number in range(7, 7 + len(paths))]
        assert bench.enumerate().added == len(paths)
        agent = make_agent()
        ids = [dialect.id_of(tool) for tool in bench.shop.tools[6:]]
        tools = {tool.tool_id: tool for tool in Tool.objects.filter(endpoint=bench.endpoint)}
        pins = [make_pin(agent, tools[tool_number], name=f"pin_{n}") for n, tool_number in enumerate(ids)]
        served = {pin.pk: pin.version_id for pin in pins}
        before = dict(ToolVersion.objects.values_list("pk", "raw"))

        bench.shop.tools[6:] = [
            changed_by_a_letter(tool, path) for tool, path in zip(bench.shop.tools[6:], paths, strict=True)
        ]
        run = bench.enumerate()
        assert run.status == "succeeded", run.error_message
        refused = set(run.rejections.values_list("tool", flat=True))
        tool_ids = set(ListedDocument.objects.values_list("tool__tool_id", flat=True))
        seen_otherwise = [
            path
            for path, tool_id in zip(paths, ids, strict=True)
            if (tools[tool_id].versions.count() == 1 and tool_id not in refused)
            is not is_unseen(dialect, path)
            or (tool_id in tool_ids) is not is_unseen(dialect, path)
        ]
        assert seen_otherwise == []
        noted = sum(note["count"] for note in run.notes if note["code"] == "REST_CHANGED")
        assert noted == len(tool_ids) > 0
        assert run.changed + run.rejected + noted == len(paths)
        assert run.rejected <= len(paths) // 8
        if dialect.has_versions:
            drifted = Finding.objects.filter(endpoint=bench.endpoint, code="DRIFT", run=run)
            said_otherwise = run.changed - drifted.count()
            assert said_otherwise <= len(paths) // 4  # written otherwise and saying the same
        assert dict(Pin.objects.filter(pk__in=served).values_list("pk", "version_id")) == served
        assert {pk: raw for pk, raw in ToolVersion.objects.values_list("pk", "raw") if pk in before} == before
