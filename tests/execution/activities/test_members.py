"""Parts of a value that a designer can pick, whatever the spelling of its schema."""

import pytest

from execution.activities.members import members
from protocols import parameters

CITY = {"type": "object", "properties": {"name": {"type": "string"}}}
LINES = {"type": "array", "items": {"type": "object", "properties": {"price": {}}}}


def members_of(schema, **keywords):
    schema_of_output = {"type": "object", "properties": {"a": schema}, **keywords}
    shape = parameters.read_schema(schema_of_output, "outputSchema", whole_name="output")
    return members(shape.parameters[0], shape.rest)


@pytest.mark.parametrize(
    ("schema", "keywords", "pointers"),
    [
        (CITY, {}, ["/name"]),
        ({"type": "object", "properties": {"a/b": LINES}}, {}, ["/a~1b", "/a~1b/0", "/a~1b/0/price"]),
        ({"$ref": "#/$defs/X"}, {"$defs": {"X": {"$ref": "#/$defs/Y"}, "Y": CITY}}, ["/name"]),
        ({"$ref": "#city"}, {"$defs": {"X": {**CITY, "$anchor": "city"}}}, ["/name"]),
        ({"allOf": [CITY, {"properties": {"zip": {}}}]}, {}, ["/name", "/zip"]),
        ({"type": "object", "properties": {"never": False}}, {}, []),
        ({"type": "string"}, {}, []),
    ],
    ids=str,
)
def test_members_are_listed_wherever_the_schema_states_them(schema, keywords, pointers):
    assert members_of(schema, **keywords) == pointers
