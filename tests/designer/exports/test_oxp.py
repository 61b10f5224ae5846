"""OXP's list of tools, as our own reader of the protocol and any other one finds it."""

import pytest

import protocols
from designer.exports import oxp
from designer.exports.document import ReleaseDocument
from protocols.signature import Requirements
from tests.designer.exports.test_exports import export, make_release
from tests.designer.exports.test_schemas import signature_of
from tests.factories import make_parameter, make_signature

A = {"type": "string"}


def write_items(release: ReleaseDocument, **members):
    """The items of a release whose tools have these members."""
    tools = tuple(
        type(tool)(**{**{m: getattr(tool, m) for m in tool.__struct_fields__}, **members})
        for tool in release.tools
    )
    document = export("oxp", type(release)(schema=release.schema, agent=release.agent, number=1, tools=tools))
    return document["items"]


def test_a_tool_is_defined_with_both_schemas():
    signature = make_signature(
        inputs=(make_parameter("Due date"),), outputs=(make_parameter("sky"),), tags=("weather",)
    )

    assert export("oxp", make_release(signature)) == {
        "items": [
            {
                "id": "acme.tool_1@3.0.0",
                "name": "tool_1",
                "description": signature.description,
                "version": "3.0.0",
                "input_schema": {
                    "type": "object",
                    "properties": {"Due_date": {"type": "string", "description": "The Due date"}},
                    "required": ["Due_date"],
                    "additionalProperties": False,
                },
                "output_schema": {
                    "type": "object",
                    "properties": {"sky": {"type": "string", "description": "The sky"}},
                },
            }
        ]
    }


def test_tool_without_outputs_may_answer_anything():
    assert write_items(make_release(make_signature()))[0]["output_schema"] == {}


@pytest.mark.parametrize(
    ("label", "version"),
    [
        ("1.2.3", "1.2.3"),
        ("7", "7.0.0"),
        ("", "1.0.0"),
        ("2026-11-22", "1.0.0"),
        ("1.2", "1.0.0"),
        ("²", "1.0.0"),
    ],
)
def test_version_has_three_numbers(label, version):
    (item,) = write_items(make_release(make_signature(), label=label))
    assert (item["version"], item["id"]) == (version, f"acme.tool_1@{version}")


@pytest.mark.parametrize(
    ("protocol", "tool_id", "identity"),
    [
        ("oxp", "Calculator.Add", "Calculator.Add"),
        ("oxp", "Calculator", "big_vendor.tool_1"),
        ("a2t", "Calculator.Add", "big_vendor.tool_1"),
        ("mcp", "tools/é", "big_vendor.tool_1"),
    ],
)
def test_id_is_the_vendors_own_where_it_is_one_of_this_protocol(protocol, tool_id, identity):
    (item,) = write_items(
        make_release(make_signature()), protocol=protocol, tool_id=tool_id, vendor="big-vendor"
    )
    assert item["id"] == f"{identity}@3.0.0"


def test_ids_that_two_tools_want_both_get_a_tail():
    one, other = make_release(make_signature(), make_signature()).tools
    release = make_release(make_signature())
    shared = [
        type(one)(
            **{
                **{m: getattr(signature, m) for m in signature.__struct_fields__},
                "protocol": "oxp",
                "tool_id": tool_id,
            }
        )
        for signature, tool_id in ((one, "Sky.Now"), (other, "sky.now"))
    ]
    document = export(
        "oxp", type(release)(schema=release.schema, agent=release.agent, number=1, tools=tuple(shared))
    )
    ids = [item["id"] for item in document["items"]]
    assert len({identifier.lower() for identifier in ids}) == 2
    assert ids[0].startswith("Sky.Now_")


def test_what_a_call_needs_beside_its_inputs_is_told():
    needs = Requirements(scopes=("read",), secrets=("token",), user=True)
    (item,) = write_items(make_release(make_signature(requirements=needs)))
    assert item["requirements"] == {"secrets": [{"id": "token"}], "user_id": True}


def test_our_own_reader_takes_what_is_written():
    inputs = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}, "n": {"type": "integer", "minimum": 1}},
        "required": ["a"],
        "anyOf": [{"required": ["a"]}, {"required": ["n"]}],
        "$defs": {"a": {"type": "array", "items": A}},
    }
    (item,) = write_items(make_release(signature_of(inputs, {"type": "object", "properties": {"b": A}})))

    signature = protocols.get("oxp")({}).read(item)

    assert (signature.name, [parameter.name for parameter in signature.inputs]) == ("tool_1", ["a", "n"])
    assert signature.inputs[0].schema == {"type": "array", "items": A}
    assert signature.schema_rest == {"anyOf": inputs["anyOf"]}
    assert [output.name for output in signature.outputs] == ["b"]


def test_limits_say_where_they_come_from():
    assert "OpenExecProtocol" in oxp.LIMITS.source
