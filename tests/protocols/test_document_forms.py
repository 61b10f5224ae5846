"""The forms of a document that decide which versions are equal, and the notes about a document, exactly."""

from datetime import UTC, datetime

import protocols
from protocols.a2t import document as a2t_document
from protocols.acp import document as acp_document
from protocols.mcp import document as mcp_document
from protocols.openapi import document as openapi_document
from protocols.oxp import document as oxp_document
from protocols.signature import AllowedValue, Annotations, Requirements
from tests.factories import make_parameter

NOW = datetime(2026, 11, 29, tzinfo=UTC)
MOMENT = {"$moment": "0-0-0"}
UUID = "3fa85f64-5717-4562-b3fc-2c963f66afa6"


def notes(name, document):
    protocol = protocols.get(name)()
    return [(note.code, note.message) for note in protocol.notes(document, protocol.read(document))]


def test_a2t_documents_in_the_form_of_the_drafts():
    assert a2t_document.standard_form(
        {
            "toolID": UUID.upper(),
            "version": "3",
            "name": "sky",
            "description": "W",
            "tags": ["b", "a"],
            "x": 1,
            "input_parameters": [
                {"name": "b", "id": "2", "type": "int"},
                {"name": "a", "id": "1", "type": "integer", "max": 65535, "min": 2},
                {"name": "c", "id": "3", "type": "int", "max": 7},
                {"name": "d", "id": "4", "type": "string", "max": 65535},
            ],
            "output_parameters": [
                {"name": "z", "id": "9", "type": "bool", "required": True},
                {"name": "y", "id": "8", "maxLength": 3},
            ],
        }
    ) == {
        "toolId": UUID,
        "name": "sky",
        "description": "W",
        "version": 3,
        "currentVersion": 3,
        "input_parameters": [
            {"id": "1", "name": "a", "type": "int", "description": "", "min": 2, "required": True},
            {"id": "2", "name": "b", "type": "int", "description": "", "required": True},
            {"id": "3", "name": "c", "type": "int", "description": "", "max": 7, "required": True},
            {"id": "4", "name": "d", "type": "string", "description": "", "max": 65535, "required": True},
        ],
        "output_parameters": [
            {"id": "8", "name": "y", "type": "string", "description": "", "max-length": 3},
            {"id": "9", "name": "z", "type": "boolean", "description": ""},
        ],
        "tags": ["a", "b"],
        "x": 1,
    }
    # An id that is no UUID keeps its letters.
    plain = a2t_document.standard_form({"toolId": "Sky", "version": 1, "name": "sky", "description": ""})
    assert (plain["toolId"], plain["tags"], plain["input_parameters"]) == ("Sky", [], [])


def test_a2t_parameters_as_their_audience_has_them():
    parameter = {"id": "a", "allowed-values": [{"name": "B"}, {"name": "A"}], "default": "2026-11-29"}
    assert a2t_document.audience_form(parameter | {"x-note": 1, "_meta": {}}, NOW) == {
        "id": "a",
        "allowed-values": [{"name": "A"}, {"name": "B"}],
        "default": MOMENT,
    }
    assert a2t_document.audience_form(parameter, None)["default"] == "2026-11-29"
    assert a2t_document.audience_form({"allowed-values": {"B": 1}}, NOW) == {"allowed-values": {"B": 1}}


def test_acp_documents_as_their_audience_has_them():
    interrupt = {
        "interrupt_type": "q",
        "interrupt_payload": {"enum": ["d", "c"]},
        "resume_payload": {"default": "2026-11-29"},
        "other": {"enum": ["z", "y"]},
    }
    assert acp_document.audience_form(
        {
            "agent_id": "x",
            "metadata": {"ref": {"name": "sky"}, "description": "W", "author": "a"},
            "specs": {
                "x-a": 1,
                "input": {"enum": ["b", "a"], "default": "2026-11-29"},
                "config": {"enum": [2, 1], "x-b": 1},
                "capabilities": {"a": ["b", "a"]},
                "interrupts": [{**interrupt, "x-c": 1}, 7],
            },
        },
        NOW,
    ) == {
        "agent_id": "x",
        "metadata": {"ref": {"name": "sky"}, "description": "W"},
        "specs": {
            "input": {"enum": ["a", "b"], "default": MOMENT},
            "config": {"enum": [1, 2]},
            "capabilities": {"a": ["b", "a"]},
            "interrupts": [
                {
                    **interrupt,
                    "interrupt_payload": {"enum": ["c", "d"]},
                    "resume_payload": {"default": MOMENT},
                },
                7,
            ],
        },
    }
    for odd in ({"metadata": 7, "specs": 7}, {"specs": {"interrupts": {"x-a": 1}}}):
        assert acp_document.audience_form(dict(odd), NOW) == odd


def test_notes_about_an_a2t_document():
    name, shown = "SkyTool" * 40, "“SkyToolSkyToolSkyToolSkyToolSkyToolSkyToolSkyToolSkyToolSkyT…”"
    values = ["lower", "A" * 256, {"name": "C", "description": "x" * 2001}]
    document = {
        "toolId": "sky",
        "version": 3,
        "name": name,
        "description": "Wetter für die Stadt und das Land" * 70,
        "input_parameters": [
            {"name": "n", "type": "int", "min": 5, "max": 1},
            {"name": "u", "type": "blob", "id": "u"},
            {"name": "e", "id": "e", "type": "enum", "allowed-values": values},
            {"name": "f", "id": "f", "type": "int", "min": 5, "max": 5},
        ],
        "output_parameters": [{"name": "o", "id": "1"}, {"name": "o", "id": "2"}],
    }
    assert notes("a2t", document) == [
        ("NOT_A_UUID", f"The id of {shown} is not a UUID."),
        ("LONG_NAME", f"The name of {shown} is longer than 254 characters."),
        ("LONG_DESCRIPTION", f"The description of {shown} is longer than 1999 characters."),
        ("NOT_SNAKE_CASE", f"The name {shown} is not in snake case."),
        ("NOT_ENGLISH", f"The name or the description of {shown} is not in English."),
        ("SAME_OUTPUT_NAME", f"{shown} has two outputs with the same name."),
        ("NO_VALUE_FITS", f"“n” of {shown} has a minimum above its maximum, so no value fits."),
        ("UNSUPPORTED_TYPE", f"“u” of {shown} is of type “blob”, which cannot be used there."),
        *[("LONG_VALUE", f"An allowed value of “e” of {shown} is longer than the drafts permit.")] * 2,
        ("VALUE_NOT_CAPITAL", f"An allowed value of “e” of {shown} is not in capital snake case."),
        ("NO_PARAMETER_ID", f"“n” of {shown} has no id; its name is used."),
    ]
    plain = {"toolId": UUID, "version": 3, "name": "get_sky", "description": "Returns the weather of a town."}
    assert notes("a2t", plain) == [("NO_OUTPUTS", "“get_sky” names no output.")]
    exact = plain | {
        "name": "a" * 254,
        "description": "The " + "a" * 1995,
        "output_parameters": [{"name": "o"}],
    }
    assert [code for code, _ in notes("a2t", exact)] == ["NO_PARAMETER_ID"]


def test_notes_about_an_acp_document():
    nulls = {"type": "object", "properties": None, "a": {"type": "string"}}
    document = {
        "metadata": {"ref": {"name": "sky"}, "description": "W"},
        "specs": {"input": nulls, "output": nulls, "config": nulls},
    }
    assert notes("acp", document) == [
        ("NO_VERSION", "“sky” has no version; Pegboard distinguishes its versions by their content."),
        *(
            ("NO_PROPERTIES", f"The {member} of “sky” has “properties” that are null.")
            for member in ("input", "output", "config")
        ),
    ]


def test_parts_of_an_acp_signature():
    specs = {
        "capabilities": {"streaming": {"values": True}, "threads": True, "callbacks": 1},
        "interrupts": [{"interrupt_type": "q", "a": 1}, {"interrupt_type": 7}, 7],
        "thread_state": {"type": "object"},
        "input": {"type": "string"},
        "config": {"type": "object", "description": "How."},
    }
    signature = protocols.get("acp")().read({"metadata": {"ref": {"name": "sky"}}, "specs": specs})
    assert acp_document.capabilities(signature) == specs["capabilities"]
    assert acp_document.has_capability(signature, "threads") is True
    assert acp_document.has_capability(signature, "callbacks") is False
    assert acp_document.streams(signature) is True
    assert acp_document.interrupts(signature) == {"q": {"interrupt_type": "q", "a": 1}}
    assert acp_document.thread_state_schema(signature) == {"type": "object"}
    assert acp_document.configuration(signature).description == "How."
    # With a configuration, the whole input is one member of the arguments.
    assert [(one.name, one.is_whole, one.rest) for one in acp_document.own_inputs(signature)] == [
        ("input", False, {"in": "input"})
    ]
    assert acp_document.is_whole(acp_document.own_inputs(signature))
    assert acp_document.write(signature, "2")["specs"] == specs
    for odd in ({}, {"capabilities": [], "interrupts": {}, "thread_state": [1]}):
        signature = protocols.get("acp")().read({"metadata": {"ref": {"name": "sky"}}, "specs": odd})
        assert acp_document.capabilities(signature) == {}
        assert acp_document.streams(signature) is False
        assert acp_document.interrupts(signature) == {}
        assert acp_document.thread_state_schema(signature) is None


def test_configuration_of_an_acp_agent_gets_a_free_name():
    inputs = {name: {"type": "string"} for name in ("config", "agent_config", "agent_config_2")}
    for taken, expected in ((0, "config"), (1, "agent_config"), (2, "agent_config_2"), (3, "agent_config_3")):
        specs = {
            "input": {"type": "object", "properties": dict(list(inputs.items())[:taken])},
            "config": {"type": "object", "properties": {"unit": {"type": "string"}}},
        }
        signature = protocols.get("acp")().read({"metadata": {"ref": {"name": "sky"}}, "specs": specs})
        config = acp_document.configuration(signature)
        assert (config.id, config.name, config.description) == (expected, expected, acp_document.CONFIG)
        assert (config.required, config.type, config.schema) == (False, "json", specs["config"])
    specs["config"] = acp_document.NO_CONFIG
    signature = protocols.get("acp")().read({"metadata": {"ref": {"name": "sky"}}, "specs": specs})
    assert acp_document.configuration(signature) is None


def test_ids_and_names_of_openapi_operations_without_their_own():
    path = "/a(b)/{id}/" + "x" * 300
    tool_id = openapi_document._id_of(path, "get")
    assert len(tool_id) == 255
    assert tool_id.startswith("GET:/a%28b%29/(id)/xxx")
    assert tool_id[-17] == "~"
    assert openapi_document._id_of("/a/{id}", "get") == "GET:/a/(id)"
    assert openapi_document.name_of("/a/{id}", "get", {}) == "get_a_id"
    assert openapi_document.name_of("/a", "get", {"operationId": "Look up!"}) == "Look_up"
    assert len(openapi_document.name_of("/" + "a" * 99, "get", {})) == 64
    assert openapi_document.name_of("/…", "get", {}).startswith("get_")


def test_an_mcp_tool_is_read_and_written_whole():
    document = {
        "name": "sky",
        "title": "Sky",
        "description": "W",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}, "x-y": 1},
        "outputSchema": {"type": "object", "properties": {"b": {"type": "integer"}}},
        "annotations": {
            "title": "T",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": "yes",
        },
        "_meta": {"k": 1},
        "icons": [{"src": "https://x.example/i.png"}],
    }
    signature = mcp_document.read_signature(document)
    assert (signature.name, signature.title, signature.img) == ("sky", "Sky", "https://x.example/i.png")
    assert signature.annotations == Annotations(read_only=True, destructive=False)
    assert (signature.schema_rest, signature.outputs_rest) == ({"x-y": 1}, {})
    assert signature.rest == {
        "annotations": {"title": "T", "idempotentHint": "yes"},
        "_meta": {"k": 1},
        "icons": [{"src": "https://x.example/i.png"}],
    }
    assert mcp_document.write(signature) == document


def test_an_mcp_tool_with_little_is_written_with_little():
    schema = {"type": "object"}
    for document in (
        {"name": "sky", "inputSchema": schema},
        {"name": "sky", "inputSchema": schema, "annotations": {}},
        {"name": "sky", "inputSchema": schema, "annotations": None},
        {"name": "sky", "inputSchema": schema, "annotations": {"title": "T"}},
        {"name": "sky", "inputSchema": schema, "annotations": {"openWorldHint": True}},
        {"name": "sky", "inputSchema": schema, "outputSchema": {"type": "string"}, "title": ""},
    ):
        assert mcp_document.write(mcp_document.read_signature(document)) == document
    titled = {"name": "sky", "inputSchema": schema, "annotations": {"title": "T"}}
    assert mcp_document.read_signature(titled).title == "T"


def test_notes_about_an_mcp_document():
    schema, task = {"type": "object"}, {"taskSupport": "required"}
    assert notes("mcp", {"name": "sky/€", "inputSchema": schema}) == [
        ("ODD_NAME", "“sky/€” has characters that a tool's name should not have.")
    ]
    assert notes("mcp", {"name": "a" * 129, "inputSchema": schema}) == [
        ("LONG_NAME", f"The name of {'a' * 60}… is longer than 128 characters.")
    ]
    assert notes("mcp", {"name": "a" * 128, "inputSchema": schema, "execution": task}) == [
        ("NEEDS_TASK", f"{'a' * 60}… runs as a task only, which cannot be started here.")
    ]
    assert notes("mcp", {"name": "sky", "inputSchema": schema, "execution": {"taskSupport": "no"}}) == []


def test_an_oxp_tool_is_read_and_written_whole():
    document = {
        "id": "Kit.Sky@1.2.0",
        "name": "sky",
        "description": "W",
        "version": "1.2.0",
        "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}},
        "output_schema": {"type": "object", "properties": {"b": {"type": "integer"}}},
        "requirements": {
            "authorization": [{"id": "maps", "oauth2": {"scopes": ["read", "write"]}}, {"id": "mail"}, {}],
            "secrets": [{"id": "key"}],
            "user_id": True,
        },
        "extra": 1,
    }
    signature = oxp_document.read_signature(document)
    needed = Requirements(scopes=("read", "write", "mail"), secrets=("key",), user=True)
    assert signature.requirements == needed
    assert signature.rest == {"requirements": document["requirements"], "extra": 1}
    assert oxp_document.write(signature, "Kit.Sky", "1.2.0") == document
    assert oxp_document.write_requirements(needed) == {"secrets": [{"id": "key"}], "user_id": True}
    assert oxp_document.write_requirements(Requirements()) is None


def test_an_oxp_schema_of_the_early_draft():
    def read(schema):
        return oxp_document.read_signature(
            {"id": "Kit.Sky", "name": "sky", "version": "1.2.0", "input_schema": schema}
        )

    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    wrapped = read({"parameters": inner})
    assert ([one.name for one in wrapped.inputs], wrapped.rest["input_schema"]) == (["a"], {"parameters": {}})
    written = oxp_document.write(wrapped, "Kit.Sky", "1.2.0")
    assert (written["id"], written["input_schema"]) == ("Kit.Sky", {"parameters": inner})
    # Without a type, properties show that it is a schema.
    assert [one.name for one in read({"parameters": {"properties": {"a": {}}}}).inputs] == ["a"]
    for empty in (None, {}, {"parameters": {}}):
        assert (read(empty).inputs, read(empty).schema_rest) == ((), None)
    # An object of other members, or with a member beside it, is the schema itself.
    assert [one.is_whole for one in read({"parameters": {"a": 1}}).inputs] == [True]
    assert [one.is_whole for one in read({"parameters": inner, "title": "T"}).inputs] == [True]
    assert oxp_document.standard_form(
        {"id": "Kit.Sky@1.2.0", "version": "1.2.0", "input_schema": {"parameters": inner}, "x": 1}
    ) == {"id": "Kit.Sky@1.2.0", "version": "1.2.0", "input_schema": inner, "x": 1}
    plain = oxp_document.standard_form({"id": "Kit.Sky", "version": "1.2.0", "input_schema": {}})
    assert plain == {"id": "Kit.Sky@1.2.0", "version": "1.2.0", "input_schema": None}


def test_ids_and_versions_of_oxp_tools():
    assert oxp_document.tool_of("Kit.Sky") == oxp_document.tool_of("Kit.Sky@1.2.0") == "Kit.Sky"
    assert oxp_document.tool_of("K." + "a" * 253) == "K." + "a" * 253
    for odd in ("Kit.Sky@1.2", "Kit", "Kit.Sky.Sun", "K." + "a" * 254, 7, None):
        assert oxp_document.tool_of(odd) is None
    for tool_id in ("Kit.Sky@2", "Kit.Sky@2.0.0", "Kit.Sky@02.0.0", "Kit.Sky"):
        assert oxp_document.read_version({"id": tool_id, "version": "2.0.0"}) == "2.0.0"


def test_a2t_values_without_descriptions_have_none():
    values = (AllowedValue("DAY"), AllowedValue("WEEK", "Seven days"))
    parameter = make_parameter("unit", type="enum", allowed_values=values)

    assert a2t_document.write_parameter(parameter, is_input=False)["allowed-values"] == [
        {"name": "DAY"},
        {"name": "WEEK", "description": "Seven days"},
    ]


def test_acp_reference_keeps_only_what_a_signature_lacks():
    reference = {"name": "mailer", "version": "1.0.0", "url": "https://agents.example"}
    document = {"agent_id": "a", "metadata": {"ref": reference, "description": "M"}, "specs": {}}

    assert acp_document.read_signature(document).rest["metadata"] == {
        "ref": {"url": "https://agents.example"}
    }
