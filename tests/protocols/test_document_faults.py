"""An item that cannot be read is rejected; the reason names the member, its value and what it must be."""

import copy

import pytest

import protocols
from protocols.a2t import document as a2t_document
from protocols.list_pages import UnreadableItemError
from protocols.oxp import document as oxp_document

DOCUMENTS = {
    "a2t": {
        "toolId": "sky",
        "version": 3,
        "name": "sky",
        "description": "Weather.",
        "tags": ["a"],
        "input_parameters": [{"id": "town", "name": "town", "type": "string", "description": "A town."}],
        "output_parameters": [{"id": "sky", "name": "sky", "type": "string", "description": "The sky."}],
    },
    "acp": {
        "metadata": {"ref": {"name": "sky", "version": "1.0.0"}, "description": "Weather."},
        "specs": {
            "input": {"type": "object", "properties": {"town": {"type": "string"}}},
            "output": {"type": "object", "properties": {}},
            "config": {"type": "object", "properties": {"unit": {"type": "string"}}},
        },
    },
    "mcp": {
        "name": "sky",
        "inputSchema": {"type": "object", "properties": {"town": {"type": "string"}}},
        "annotations": {},
    },
    "oxp": {
        "id": "Kit.Sky@1.2.0",
        "name": "sky",
        "description": "Weather.",
        "version": "1.2.0",
        "input_schema": {"type": "object", "properties": {}},
        "output_schema": {"type": "object", "properties": {}},
        "requirements": {
            "authorization": [{"id": "maps", "oauth2": {"scopes": ["read"]}}],
            "secrets": [{"id": "key"}],
            "user_id": True,
        },
    },
}
# The members that identify a tool are read before the others.
READ_BEFORE = {
    ("a2t", "toolId"): a2t_document.read_tool_id,
    ("a2t", "version"): a2t_document.read_version,
    ("oxp", "id"): oxp_document.read_tool_id,
    ("oxp", "version"): oxp_document.read_version,
}
FAULTS = [
    (
        "a2t",
        ("toolId",),
        "a/b",
        "BAD_TOOL_ID",
        "“toolId” is “a/b”; it must be text of 1 to 255 characters without / ? # and control characters.",
    ),
    (
        "a2t",
        ("toolId",),
        7,
        "BAD_TOOL_ID",
        "“toolId” is 7; it must be text of 1 to 255 characters without / ? # and control characters.",
    ),
    ("a2t", ("version",), 0, "BAD_VERSION", "“version” is 0; it must be a whole number from 1 up."),
    ("a2t", ("version",), "two", "BAD_VERSION", "“version” is “two”; it must be a whole number from 1 up."),
    ("a2t", ("name",), "", "BAD_NAME", "“name” is blank; it must be text of 1 to 1,024 characters."),
    ("a2t", ("description",), 7, "SHAPE", "“description” is 7; it must be text."),
    ("a2t", ("img",), 7, "SHAPE", "“img” is 7; it must be text."),
    ("a2t", ("tags",), "a", "SHAPE", "“tags” is “a”; it must be an array."),
    ("a2t", ("tags",), ["a", 7], "SHAPE", "“tags[1]” is 7; it must be text of at most 255 characters."),
    (
        "a2t",
        ("tags",),
        ["a", "b" * 256],
        "SHAPE",
        "“tags[1]” is “bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…”; it"
        " must be text of at most 255 characters.",
    ),
    ("a2t", ("input_parameters",), "x", "SHAPE", "“input_parameters” is “x”; it must be an array."),
    ("a2t", ("output_parameters",), {}, "SHAPE", "“output_parameters” is an object; it must be an array."),
    ("a2t", ("input_parameters", 0), 7, "SHAPE", "“input_parameters[0]” is 7; it must be an object."),
    (
        "a2t",
        ("input_parameters", 0, "name"),
        None,
        "SHAPE",
        "“input_parameters[0].name” is missing; it must be text of 1 to 1,024 characters.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "id"),
        "",
        "SHAPE",
        "“input_parameters[0].id” is blank; it must be text of 1 to 1,024 characters.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "required"),
        "yes",
        "SHAPE",
        "“input_parameters[0].required” is “yes”; it must be true or false.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "type"),
        7,
        "SHAPE",
        "“input_parameters[0].type” is 7; it must be text of 1 to 1,024 characters.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "description"),
        7,
        "SHAPE",
        "“input_parameters[0].description” is 7; it must be text.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "min"),
        "1",
        "SHAPE",
        "“input_parameters[0].min” is “1”; it must be a number.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "max"),
        [],
        "SHAPE",
        "“input_parameters[0].max” is an array; it must be a number.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "max-length"),
        -1,
        "SHAPE",
        "“input_parameters[0].max-length” is -1; it must be 0 or more.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "max_length"),
        1.5,
        "SHAPE",
        "“input_parameters[0].max_length” is 1.5; it must be a whole number.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "type"),
        "enum",
        "SHAPE",
        "“input_parameters[0].allowed-values” is missing; it must be there for an enum, and not empty.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "allowed-values"),
        7,
        "SHAPE",
        "“input_parameters[0].allowed-values” is 7; it must be an array.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "allowed-values"),
        ["A", 7],
        "SHAPE",
        "“input_parameters[0].allowed-values[1]” is 7; it must be an object or text.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "allowed-values"),
        [{"name": ""}],
        "SHAPE",
        "“input_parameters[0].allowed-values[0].name” is blank; it must be text of 1 to 1,024 characters.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "allowed-values"),
        ["A", "A"],
        "SHAPE",
        "“input_parameters[0].allowed-values” is “A” twice.",
    ),
    (
        "a2t",
        ("input_parameters", 0, "allowed-values"),
        [{"name": "A", "description": 7}],
        "SHAPE",
        "“input_parameters[0].allowed-values[0].description” is 7; it must be text.",
    ),
    (
        "a2t",
        ("input_parameters",),
        [{"name": "a", "id": "x"}, {"name": "b", "id": "x"}],
        "SHAPE",
        "“input_parameters.id” is “x” twice.",
    ),
    (
        "a2t",
        ("input_parameters",),
        [{"name": "a", "id": "x"}, {"name": "a", "id": "y"}],
        "SHAPE",
        "“input_parameters.name” is “a” twice.",
    ),
    (
        "a2t",
        ("output_parameters",),
        [{"name": "a", "id": "x"}, {"name": "b", "id": "x"}],
        "SHAPE",
        "“output_parameters.id” is “x” twice.",
    ),
    (
        "a2t",
        ("output_parameters", 0, "min"),
        "1",
        "SHAPE",
        "“output_parameters[0].min” is “1”; it must be a number.",
    ),
    ("acp", ("metadata",), 7, "SHAPE", "“metadata” is 7; it must be an object."),
    ("acp", ("specs",), None, "SHAPE", "“specs” is missing; it must be an object."),
    ("acp", ("metadata", "ref"), [], "SHAPE", "“metadata.ref” is an array; it must be an object."),
    (
        "acp",
        ("metadata", "ref", "version"),
        7,
        "BAD_VERSION",
        "“metadata.ref.version” is 7; it must be text of at most 100 characters.",
    ),
    (
        "acp",
        ("metadata", "ref", "version"),
        "1" * 101,
        "BAD_VERSION",
        "“metadata.ref.version” is “111111111111111111111111111111111111111111111111111111111111…”; it"
        " must be text of at most 100 characters.",
    ),
    (
        "acp",
        ("metadata", "ref", "name"),
        "",
        "BAD_NAME",
        "“metadata.ref.name” is blank; it must be text of 1 to 1,024 characters.",
    ),
    ("acp", ("metadata", "description"), 7, "SHAPE", "“metadata.description” is 7; it must be text."),
    ("acp", ("specs", "input"), 7, "BAD_SCHEMA", "“specs.input” is 7; it must be a JSON Schema."),
    ("acp", ("specs", "output"), "x", "BAD_SCHEMA", "“specs.output” is “x”; it must be a JSON Schema."),
    ("acp", ("specs", "config"), 7, "BAD_SCHEMA", "“specs.config” is 7; it must be a JSON Schema."),
    (
        "acp",
        ("specs", "config"),
        {"$ref": "https://x.example/y"},
        "REMOTE_REF",
        "“specs.config” refers to another document (“https://x.example/y”), and those are never fetched.",
    ),
    (
        "mcp",
        ("name",),
        "",
        "BAD_TOOL_ID",
        "“name” is blank; it must be text of 1 to 255 characters without control characters.",
    ),
    (
        "mcp",
        ("name",),
        7,
        "BAD_TOOL_ID",
        "“name” is 7; it must be text of 1 to 255 characters without control characters.",
    ),
    (
        "mcp",
        ("inputSchema",),
        None,
        "BAD_SCHEMA",
        "“inputSchema” is missing; it must be a JSON Schema of type “object”.",
    ),
    (
        "mcp",
        ("inputSchema",),
        {"type": "string"},
        "BAD_SCHEMA",
        "“inputSchema” is a schema of type “string”; it must be a JSON Schema of type “object”.",
    ),
    ("mcp", ("annotations",), [1], "SHAPE", "“annotations” is an array; it must be an object."),
    ("mcp", ("annotations",), {"title": 7}, "SHAPE", "“annotations.title” is 7; it must be text."),
    ("mcp", ("title",), 7, "SHAPE", "“title” is 7; it must be text."),
    ("mcp", ("description",), 7, "SHAPE", "“description” is 7; it must be text."),
    ("mcp", ("outputSchema",), 7, "BAD_SCHEMA", "“outputSchema” is 7; it must be a JSON Schema."),
    (
        "oxp",
        ("id",),
        "sky",
        "BAD_TOOL_ID",
        "“id” is “sky”; it must be of the form Toolkit.Tool or Toolkit.Tool@1.0.0.",
    ),
    (
        "oxp",
        ("id",),
        7,
        "BAD_TOOL_ID",
        "“id” is 7; it must be of the form Toolkit.Tool or Toolkit.Tool@1.0.0.",
    ),
    ("oxp", ("version",), "1", "BAD_VERSION", "“version” is “1”; it must be three numbers such as 1.0.0."),
    ("oxp", ("version",), 7, "BAD_VERSION", "“version” is 7; it must be three numbers such as 1.0.0."),
    ("oxp", ("version",), "2.0.0", "BAD_VERSION", "“id” names version 1.2.0, but “version” is 2.0.0."),
    ("oxp", ("name",), None, "BAD_NAME", "“name” is missing; it must be text of 1 to 1,024 characters."),
    ("oxp", ("description",), 7, "SHAPE", "“description” is 7; it must be text."),
    ("oxp", ("input_schema",), 7, "BAD_SCHEMA", "“input_schema” is 7; it must be a JSON Schema."),
    ("oxp", ("output_schema",), 7, "BAD_SCHEMA", "“output_schema” is 7; it must be a JSON Schema."),
    ("oxp", ("requirements",), 7, "SHAPE", "“requirements” is 7; it must be an object."),
    (
        "oxp",
        ("requirements", "authorization"),
        7,
        "SHAPE",
        "“requirements.authorization” is 7; it must be an array.",
    ),
    (
        "oxp",
        ("requirements", "authorization"),
        [7],
        "SHAPE",
        "“requirements.authorization” is 7; it must be an array of objects.",
    ),
    (
        "oxp",
        ("requirements", "secrets"),
        {},
        "SHAPE",
        "“requirements.secrets” is an object; it must be an array.",
    ),
    (
        "oxp",
        ("requirements", "secrets"),
        ["key"],
        "SHAPE",
        "“requirements.secrets” is “key”; it must be an array of objects.",
    ),
    (
        "oxp",
        ("requirements", "secrets"),
        [{}],
        "SHAPE",
        "“requirements.secrets.id” is missing; it must be text of 1 to 1,024 characters.",
    ),
    (
        "oxp",
        ("requirements", "user_id"),
        "yes",
        "SHAPE",
        "“requirements.user_id” is “yes”; it must be true or false.",
    ),
    (
        "oxp",
        ("requirements", "authorization", 0, "oauth2", "scopes"),
        "read",
        "SHAPE",
        "“requirements.authorization.oauth2.scopes” is “read”; it must be an array.",
    ),
    (
        "oxp",
        ("requirements", "authorization", 0, "oauth2", "scopes"),
        ["read", 7],
        "SHAPE",
        "“requirements.authorization.oauth2.scopes” is an array; it must be an array of text.",
    ),
    (
        "oxp",
        ("requirements", "authorization", 0),
        {"id": 7},
        "SHAPE",
        "“requirements.authorization.id” is 7; it must be text of 1 to 1,024 characters.",
    ),
]


def changed(name, path, value):
    document = copy.deepcopy(DOCUMENTS[name])
    part = document
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return document


IDS = [f"{number}-{row[0]}-{row[1][-1]}" for number, row in enumerate(FAULTS)]


@pytest.mark.parametrize(("name", "path", "value", "code", "reason"), FAULTS, ids=IDS)
def test_reason_names_the_member(name, path, value, code, reason):
    read = READ_BEFORE.get((name, path[0]), protocols.get(name)().read)
    with pytest.raises(UnreadableItemError) as caught:
        read(changed(name, path, value))
    assert (caught.value.code, caught.value.reason) == (code, reason)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_unchanged_documents_are_readable(name):
    assert protocols.get(name)().read(DOCUMENTS[name]).name == "sky"
