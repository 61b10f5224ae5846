import json
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings

from designer import exports
from designer.exports import document as release_document
from designer.exports.base import carried, remarks
from designer.exports.document import SCHEMA, ReleasedAgent, ReleaseDocument, ReleasedTool, ReleasedVersion
from designer.signatures.effective import effective
from designer.signatures.words import ParameterWords, Words
from protocols.signature import AllowedValue, Annotations
from tests.designer.exports.formats import (
    FORMATS,
    OF_TOOLS,
    PROVED,
    SCHEMA_FORMATS,
    VALIDATORS,
    tools_in_format,
)
from tests.designer.strategies import releases
from tests.factories import make_parameter, make_signature

# Whole releases are large, and each holds several signatures; the storm `formats` walks thousands of tools.
FEW = settings(max_examples=6)


def export(name, release):
    return json.loads(msgspec.json.encode(FORMATS[name].write(release)))


def make_release(*signatures, tool_id="7d2fb3c1-5c3e-4d0b-9a64-6c6d1a1f3c11", label="3", **words):
    tuning = Words(parameters={name: ParameterWords(**facts) for name, facts in words.items()})
    tools = [
        ReleasedTool(
            id=number,
            tool_id=tool_id,
            vendor="acme",
            endpoint="https://tools.example/v1/",
            protocol="a2t",
            version=ReleasedVersion(ordinal=number, label=label, digest="0" * 64),
            signature=effective(signature, name=f"tool_{number}", agent_tuning=tuning),
            tuning={},
        )
        for number, signature in enumerate(signatures, start=1)
    ]
    agent = ReleasedAgent(slug="desk", name="Desk", description="")
    return ReleaseDocument(schema=SCHEMA, agent=agent, number=1, tools=tuple(tools))


def schema_in(name, release):
    """The input schema of the first tool, wherever the format keeps it."""
    return next(tools_in_format(name, export(name, release))).inputs


@pytest.mark.parametrize("name", PROVED)
@FEW
@given(release=releases())
def test_every_export_keeps_its_targets_rules(name, release):
    fitting = carried(release, FORMATS[name].limits).fitting
    if fitting.tools:
        VALIDATORS[name].validate(export(name, fitting))


@pytest.mark.parametrize("name", SCHEMA_FORMATS)
@FEW
@given(release=releases())
def test_schemas_are_schemas_and_presets_fit_them(name, release):
    schema = schema_in(name, release)

    assert jsonschema_rs.meta.is_valid({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert schema["type"] == "object"


@pytest.mark.parametrize("name", SCHEMA_FORMATS)
@FEW
@given(release=releases())
def test_the_stored_document_gives_the_same_export(name, release):
    assert export(name, release_document.decode(release_document.encode(release))) == export(name, release)


@pytest.mark.parametrize("name", SCHEMA_FORMATS)
def test_schema_says_what_the_signature_says(name):
    signature = make_signature(
        inputs=(
            make_parameter("Zip code", max_length=5),
            make_parameter("days", type="int", min=1, max=65535, max_defaulted=True, required=False),
            make_parameter("hourly", type="boolean", required=False),
            make_parameter(
                "unit",
                type="enum",
                description="Which unit",
                allowed_values=(AllowedValue("C", "Celsius"), AllowedValue("F")),
            ),
        )
    )

    assert schema_in(name, make_release(signature)) == {
        "type": "object",
        "properties": {
            "Zip_code": {"type": "string", "description": "The Zip code", "maxLength": 5},
            "days": {"type": "integer", "description": "The days", "minimum": 1, "maximum": 65535},
            "hourly": {"type": "boolean", "description": "The hourly"},
            "unit": {"type": "string", "description": "Which unit\n- C: Celsius", "enum": ["C", "F"]},
        },
        "required": ["Zip_code", "unit"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("name", SCHEMA_FORMATS)
def test_hidden_input_is_in_no_schema_and_a_preset_is_a_default(name):
    signature = make_signature(inputs=(make_parameter("key"), make_parameter("city")))

    schema = schema_in(
        name, make_release(signature, key={"hidden": True, "preset": "k"}, city={"preset": "Oslo"})
    )

    assert schema["properties"] == {"city": {"type": "string", "description": "The city", "default": "Oslo"}}
    assert schema.get("required", []) == []


def test_limits_of_another_type_are_not_written():
    odd = make_parameter(type="boolean", min=1, max=2, max_length=3, allowed_values=(AllowedValue("A"),))

    (schema,) = schema_in("mcp", make_release(make_signature(inputs=(odd,))))["properties"].values()

    assert schema == {"type": "boolean", "description": "The city"}


@pytest.mark.parametrize(
    ("parameter", "is_strict"),
    [
        (make_parameter(), True),
        (make_parameter(type="int", max=65535), True),
        (make_parameter(type="enum", allowed_values=(AllowedValue("A"),)), True),
        (make_parameter(required=False), False),
        (make_parameter(max_length=9), False),
        (make_parameter(type="json", schema={"type": "array"}), False),
        (make_parameter(default="Oslo"), False),
        (
            make_parameter(type="enum", allowed_values=tuple(AllowedValue(f"V{n}") for n in range(1001))),
            False,
        ),
        (
            make_parameter(type="enum", allowed_values=tuple(AllowedValue(f"{n:064}") for n in range(251))),
            False,
        ),
    ],
)
def test_strict_is_said_of_schemas_within_the_strict_subset_only(parameter, is_strict):
    document = export("openai-chat", make_release(make_signature(inputs=(parameter,))))

    assert document[0]["function"]["strict"] is is_strict
    VALIDATORS["openai-chat"].validate(document)


def test_mcp_carries_outputs_hints_and_picture():
    signature = make_signature(
        title="Forecast",
        img="https://img.example/a.png",
        outputs=(make_parameter("Temperature in °C", type="int", max=65535, max_defaulted=True),),
        annotations=Annotations(read_only=True),
    )

    (tool,) = export("mcp", make_release(signature))["tools"]

    assert tool["title"] == "Forecast"
    assert tool["annotations"] == {"readOnlyHint": True}
    assert tool["icons"] == [{"src": "https://img.example/a.png"}]
    assert tool["outputSchema"]["properties"] == {
        "Temperature_in_C": {"type": "integer", "description": "The Temperature in °C"}
    }


def test_json_schema_shows_the_way_back_to_the_wire():
    signature = make_signature("Lookup Weather", inputs=(make_parameter("Due date"), make_parameter("key")))

    document = export("json-schema", make_release(signature, key={"hidden": True, "preset": "k"}))

    assert document["tools"][0]["wire"] == {
        "id": 1,
        "vendor": "acme",
        "endpoint": "https://tools.example/v1/",
        "protocol": "a2t",
        "toolId": "7d2fb3c1-5c3e-4d0b-9a64-6c6d1a1f3c11",
        "version": "3",
        "name": "Lookup Weather",
        "inputs": {"Due_date": "Due date"},
        "outputs": {},
        "presets": {"key": "k"},
    }


def test_a2t_writes_the_vendors_parameter_names_and_only_the_limits_it_sent():
    signature = make_signature(
        inputs=(
            make_parameter("Days ahead", id="d", type="int", min=0, max=65535, max_defaulted=True),
            make_parameter(
                "unit", id="u", type="enum", allowed_values=(AllowedValue("DEGREES_C", "Celsius"),)
            ),
        ),
        outputs=(make_parameter("Temperature", id="t", type="json"),),
        tags=("weather",),
    )

    assert export("a2t", make_release(signature)) == {
        "items": [
            {
                "toolId": "7d2fb3c1-5c3e-4d0b-9a64-6c6d1a1f3c11",
                "name": "tool_1",
                "description": "Tomorrow's weather for a city",
                "version": 3,
                "currentVersion": 3,
                "tags": ["weather"],
                "input_parameters": [
                    {
                        "id": "d",
                        "name": "Days ahead",
                        "type": "int",
                        "description": "The Days ahead",
                        "min": 0,
                        "required": True,
                    },
                    {
                        "id": "u",
                        "name": "unit",
                        "type": "enum",
                        "description": "The unit",
                        "allowed-values": [{"name": "DEGREES_C", "description": "Celsius"}],
                        "required": True,
                    },
                ],
                "output_parameters": [
                    {"id": "t", "name": "Temperature", "type": "json", "description": "The Temperature"}
                ],
            }
        ],
        "paging": {"pageLimit": 1},
    }


def test_a2t_lists_illegal_values_in_words():
    unit = make_parameter(
        "unit", type="enum", allowed_values=(AllowedValue("metric", "Celsius"), AllowedValue("us"))
    )
    release = make_release(make_signature(inputs=(unit,), outputs=(unit,)))

    (tool,) = export("a2t", release)["items"]

    for parameter in (*tool["input_parameters"], *tool["output_parameters"]):
        assert parameter["type"] == "string"
        assert parameter["description"] == "The unit\nAllowed values:\n- metric: Celsius\n- us"
    assert [r.code for r in remarks(release, FORMATS["a2t"].limits)] == ["values_in_words"] * 2


def test_a2t_gives_a_tool_without_outputs_one():
    release = make_release(make_signature())

    (tool,) = export("a2t", release)["items"]

    assert [(o["name"], o["type"]) for o in tool["output_parameters"]] == [("result", "json")]
    assert [r.code for r in remarks(release, FORMATS["a2t"].limits)] == ["output_added"]


def test_a2t_derives_a_uuid_for_an_id_that_is_none():
    one, again = (export("a2t", make_release(make_signature(), tool_id="get_weather")) for _ in range(2))

    assert one == again
    VALIDATORS["a2t"].validate(one)


def test_a2t_tells_two_tools_of_one_id_apart():
    items = export("a2t", make_release(make_signature(), make_signature()))["items"]

    assert len({item["toolId"] for item in items}) == 2


@pytest.mark.parametrize(("label", "version"), [("12", 12), ("", 1), ("0", 1), ("2026-11-21", 1), ("²", 1)])
def test_a2t_version_is_the_vendors_number_or_else_ours(label, version):
    assert export("a2t", make_release(make_signature(), label=label))["items"][0]["version"] == version


@pytest.mark.parametrize(
    ("signature", "code"),
    [
        (make_signature(description="x" * 2000), "description_too_long"),
        (make_signature(inputs=(make_parameter(type="json"),)), "type_not_carried"),
        (make_signature(inputs=(make_parameter(type="json", unsupported_type="list"),)), "unknown_type"),
        (make_signature(inputs=(make_parameter(type="int", max=1.5),)), "bound_not_whole"),
    ],
)
def test_a2t_refuses_what_it_has_no_place_for(signature, code):
    carried_release = carried(make_release(signature), FORMATS["a2t"].limits)

    assert not carried_release.fitting.tools
    assert [remark.code for remark in carried_release.blocking] == [code]


def test_losses_are_listed_and_not_dropped_in_silence():
    signature = make_signature(
        title="T", tags=("a",), outputs=(make_parameter(),), annotations=Annotations(read_only=False)
    )
    release = make_release(signature, city={"hidden": True, "preset": "Oslo"})

    members = {"title", "tags", "outputs", "annotations", "presets"}
    for format_ in OF_TOOLS:
        codes = {remark.code for remark in remarks(release, format_.limits) if remark.level == "loses"}
        assert codes == {f"no_{member}" for member in members - format_.limits.carries}
    assert {r.code for r in remarks(release, FORMATS["mcp"].limits)} == {"no_tags", "no_presets"}


def test_too_many_tools_for_one_request_is_a_warning():
    release = make_release(*[make_signature()] * 129)

    assert "too_many_tools" in {r.code for r in remarks(release, FORMATS["openai-chat"].limits)}


def test_rules_of_the_input_object_go_along_until_an_input_is_renamed():
    schema_rest = {"$defs": {"x": {}}, "dependentRequired": {"a b": ["city"]}}
    signature = make_signature(schema_rest=schema_rest)
    renamed = make_signature(inputs=(make_parameter("a b"),), schema_rest=schema_rest)

    assert schema_in("mcp", make_release(signature))["dependentRequired"] == {"a b": ["city"]}
    assert "dependentRequired" not in schema_in("mcp", make_release(renamed))
    assert "rules_left_out" in {r.code for r in remarks(make_release(renamed), FORMATS["mcp"].limits)}
    assert "no_rules" in {r.code for r in remarks(make_release(signature), FORMATS["a2t"].limits)}


@pytest.mark.parametrize("format_", exports.FORMATS, ids=lambda format_: format_.name)
def test_every_format_says_where_and_when_its_limits_were_read(format_):
    assert format_.limits.source
    assert format_.limits.date >= "2026"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_row_in_the_documentation(name):
    manual = (Path(__file__).parents[3] / "docs/exports.md").read_text()
    assert f"| `{name}` |" in manual
