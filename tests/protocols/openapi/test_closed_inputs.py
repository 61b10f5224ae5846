"""Names that an operation cannot carry are refused before a request, also where schemas have references."""

from typing import Any

import pytest
from msgspec.structs import replace

from catalog.rules.diff.signatures import compare
from protocols.calls import arguments
from protocols.signature import Signature
from tests.designer.exports.test_exports import make_release, schema_in
from tests.protocols.openapi.documents import read_signature, takes

NAME = {"$ref": "#/components/schemas/Name"}
COMPONENTS = {"schemas": {"Name": {"type": "string"}}}
CLOSED = {"type": "object", "properties": {"name": NAME}, "additionalProperties": False}
OPEN = {"type": "object", "properties": {"name": NAME}}
QUERY = [{"name": "name", "in": "query", "schema": NAME}]


def read_operation(**members: Any) -> Signature:
    return read_signature({"responses": {"200": {"description": "Good"}}, **members}, components=COMPONENTS)


@pytest.mark.parametrize(
    ("operation", "is_open"),
    [
        ({"requestBody": takes(CLOSED)}, False),
        ({"requestBody": takes({"allOf": [OPEN]})}, False),  # one input with the name `body`
        ({"parameters": QUERY}, False),
        ({"requestBody": takes(OPEN)}, True),
    ],
    ids=["closed body", "whole body", "no body", "open body"],
)
def test_name_that_no_part_of_the_request_carries_is_refused(operation, is_open):
    signature = read_operation(**operation)
    assert signature.schema_rest
    problems = arguments.find_problems(signature, {"nam": "x"})
    assert problems.get("nam") == (None if is_open else arguments.UNKNOWN)
    exported = schema_in("mcp", make_release(signature))
    assert exported.get("additionalProperties", True) is is_open


def test_version_of_an_older_reader_does_not_differ():
    signature = read_operation(requestBody=takes(CLOSED))
    older = replace(signature, is_closed=False)
    assert compare(older, signature).changes == ()


@pytest.mark.parametrize("required", [[{}], [["name"]], [None], "name", {"name": True}, True])
def test_malformed_required_names_cost_no_tool(required):
    signature = read_operation(requestBody=takes(OPEN | {"required": required}))
    assert arguments.find_problems(signature, {"body": {"name": "x"}}) == {}
