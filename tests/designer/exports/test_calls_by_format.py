"""Every tool of a release is called by the names that each format shows of it, and answers by the same."""

from typing import Any

import pytest
from hypothesis import given, settings
from rest_framework.test import APIClient

from designer import exports
from designer.agents import agents
from designer.exports import document as release_document
from designer.exports import openai_chat, wire
from designer.exports.base import carried
from designer.pins import pins, tunings
from designer.releases import publishing
from designer.signatures.effective import Effective, effective
from designer.signatures.words import ParameterWords, Words
from people.models import Role
from protocols.calls import arguments
from protocols.signature import Parameter, Signature
from tests.designer.exports import real_tools
from tests.designer.exports.formats import FORMATS, PROVED, REFUSING, SCHEMA_FORMATS, names, tools_in_format
from tests.designer.exports.test_exports import export, make_release
from tests.designer.exports.test_schemas import signature_of
from tests.designer.strategies import releases as any_release
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, json_reply


def is_plain(tool: Effective) -> bool:
    """Leave out tools with one input for everything: those have tests of their own."""
    parameters = [
        *(parameter.parameter for parameter in tool.inputs),
        *(output.parameter for output in tool.outputs),
    ]
    has_rules = set(tool.schema_rest or {}) & openai_chat.CONTRACT.keywords_at_top()
    is_odd = (tool.outputs_rest or {}).get("type", "object") != "object"
    return not any(parameter.is_whole for parameter in parameters) and not has_rules and not is_odd


@settings(max_examples=8)  # each in every format
@given(release=any_release())
def test_every_format_is_understood_by_its_own_names_whether_it_is_said_or_not(release):
    for name in PROVED:
        format_ = FORMATS[name]
        for tool in release.tools:
            if not is_plain(tool.signature) or not carried(one(release, tool), format_.limits).is_whole:
                continue
            (shown_tool,) = tools_in_format(name, export(name, one(release, tool)))
            ins, outs = names(shown_tool.inputs), names(shown_tool.outputs)
            codes = {remark.code for remark in carried(one(release, tool), format_.limits).remarks}
            back = format_.wire(tool.signature).inputs
            assert ins == list(back)
            assert "inputs_left_out" in codes or len(ins) == len(tool.signature.inputs)
            values_by_name = {name: index for index, name in enumerate(back.values())}
            arguments = dict(zip(ins, values_by_name.values(), strict=True))
            for format_name in (name, ""):
                wires = exports.wires(tool.signature, format_name)
                assert wire.arguments_for_the_vendor(tool.signature, wires, arguments) == values_by_name
            if outs:
                came = {output.parameter.name: index for index, output in enumerate(tool.signature.outputs)}
                answer = wire.outputs_for_the_caller(tool.signature, format_.wire(tool.signature), came)
                assert list(answer) == outs or (outs, answer) == (["result"], {})


def one(release, tool):
    return type(release)(schema=release.schema, agent=release.agent, number=1, tools=(tool,))


@pytest.fixture
def owner(db):
    return make_user(Role.DESIGNER, username="ada")


@pytest.fixture
def api(owner, settings):
    settings.WRITES_PER_MINUTE = settings.CALLS_PER_MINUTE = 1_000_000

    client = APIClient()
    client.force_login(owner)
    return client


class Echo:
    """An A2T vendor that answers each tool with all the outputs it declares, and notes what it was sent."""

    def __init__(self) -> None:
        self.signatures: dict[str, Signature] = {}
        self.sent: list[dict[str, Any]] = []

    def __call__(self, line, request):
        tool_id = request.path.split("/")[2]
        self.sent.append(
            {
                input_parameter["name"]: input_parameter["value"]
                for input_parameter in request.json()["input_parameters"]
            }
        )
        outputs = self.signatures[tool_id].outputs
        answer = [{"name": output.name, "value": answer_of(output)} for output in outputs]
        return json_reply({"output_parameters": answer})(line, request)


def answer_of(parameter: Parameter) -> Any:
    return {"int": 7, "number": 7, "boolean": True, "json": {"of": parameter.name}}.get(
        parameter.type, f"answer of {parameter.name}"[:50]
    )


def value_of(parameter: Parameter) -> Any:
    match parameter.type:
        case "int" | "number":
            return next((limit for limit in (parameter.min, parameter.max) if limit is not None), 1)
        case "boolean":
            return True
        case "json":
            return {"any": ["value"]}
    if parameter.allowed_values:
        return parameter.allowed_values[0].name
    return "x" * min(1, parameter.max_length if parameter.max_length is not None else 1)


def call_all_by_every_format(api, owner, signatures: list[Signature], slug: str = "desk") -> int:
    echo, calls = Echo(), 0
    with HostileVendor(echo) as vendor:
        endpoint = make_endpoint(url=vendor.url, protocol="a2t")
        agent = agents.create_agent(actor=owner, name=slug, slug=slug)
        for number, signature in enumerate(signatures):
            tool = make_tool(signature, endpoint=endpoint)
            echo.signatures[tool.tool_id] = signature
            pins.pin_tool(agent, actor=owner, tool=tool, alias=f"tool_{number}")
        release = publishing.publish(agent, actor=owner, channel="live")
        by_name = {
            tool.signature.name: tool.signature for tool in release_document.decode(release.document).tools
        }
        address = f"/api/v1/agents/{slug}/releases/1/tools/"
        for name in PROVED:
            shown_tools = list(tools_in_format(name, api.get(f"{address}?format={name}").json()))
            assert len(shown_tools) == len(signatures)
            for tool in shown_tools:
                ins, outs = names(tool.inputs), names(tool.outputs)
                call(api, echo, by_name[tool.name], f"{address}{tool.name}/invoke/?format={name}", ins, outs)
                calls += 1
    return calls


def call(api, echo, tool: Effective, address: str, ins: list[str], outs: list[str]) -> None:
    values_by_name = {parameter.parameter.name: value_of(parameter.parameter) for parameter in tool.inputs}
    values = dict(zip(ins, values_by_name.values(), strict=True))
    answer = api.post(address, {"arguments": values, "confirm": True}).json()
    assert (tool.wire_name, answer["outcome"], answer["error"]) == (tool.wire_name, "ok", None)
    assert echo.sent.pop() == values_by_name
    came = {output.parameter.name: answer_of(output.parameter) for output in tool.outputs}
    if outs == ["result"] and not tool.outputs:
        assert answer["outputs"] == {}
    elif outs:
        assert answer["outputs"] == dict(zip(outs, came.values(), strict=True))


ODD_NAMES = ("Zip code", "zip code", "zip-code", "zip_code", "größe", "天气", "9lives", "a.b", "result")


def test_tools_with_odd_names_are_called_by_the_names_of_every_format(api, owner):
    parameters = tuple(make_parameter(name, required=False) for name in ODD_NAMES)
    signatures = [
        make_signature("All of them", inputs=parameters, outputs=parameters),
        *(
            make_signature(f"{name} tool", inputs=(make_parameter(name),), outputs=parameters[number:][:2])
            for number, name in enumerate(ODD_NAMES[:5])
        ),
        make_signature("Nothing in, nothing out", inputs=()),
    ]
    assert call_all_by_every_format(api, owner, signatures) == len(signatures) * len(PROVED)


def test_recorded_tools_are_called_by_the_names_of_every_format(api, owner):
    signatures = [*real_tools.recorded_tools(), *real_tools.rest_operations()]
    fitting = [
        signature
        for signature in signatures
        if carried(make_release(signature), FORMATS["a2t"].limits).is_whole
        and not arguments.find_problems(
            signature, {parameter.name: value_of(parameter) for parameter in signature.inputs}
        )
    ][:40]
    assert len(fitting) == 40
    assert call_all_by_every_format(api, owner, fitting) == len(fitting) * len(PROVED)


@pytest.fixture
def sky(api, owner):
    """A published tool with an input and an output that no model may be shown by their own names."""
    signature = make_signature(
        "Sky",
        inputs=(make_parameter("Zip code"), make_parameter("trace")),
        outputs=(make_parameter("Sky now"),),
    )
    echo = Echo()
    with HostileVendor(echo) as vendor:
        agent = agents.create_agent(actor=owner, name="Desk", slug="desk")
        tool = make_tool(signature, endpoint=make_endpoint(url=vendor.url, protocol="a2t"))
        echo.signatures[tool.tool_id] = signature
        pin = pins.pin_tool(agent, actor=owner, tool=tool, alias="sky")
        tunings.tune(pin, actor=owner, parameters={"trace": {"hidden": True, "preset": "t"}})
        publishing.publish(agent, actor=owner, channel="live")
        yield echo


INVOKE = "/api/v1/agents/desk/releases/live/tools/sky/invoke/"


@pytest.mark.parametrize("name", ["Zip code", "Zip_code"])
def test_names_of_any_format_work_where_none_is_said(api, sky, name):
    answer = api.post(INVOKE, {"arguments": {name: "0150"}}).json()
    assert (answer["outcome"], answer["outputs"]) == ("ok", {"Sky_now": "answer of Sky now"})
    assert sky.sent == [{"Zip code": "0150", "trace": "t"}]


def test_a_format_that_is_said_takes_its_own_names_alone(api, sky):
    for format_name, name, other in (("a2t", "Zip code", "Zip_code"), ("mcp", "Zip_code", "Zip code")):
        assert (
            api.post(f"{INVOKE}?format={format_name}", {"arguments": {name: "1"}}).json()["outcome"] == "ok"
        )
        refused = api.post(f"{INVOKE}?format={format_name}", {"arguments": {other: "1"}}).json()
        assert refused["outcome"] == "invalid_arguments"
        assert refused["error"]["fields"].keys() >= {other}
    assert len(sky.sent) == 2


@pytest.mark.parametrize("query", ["", "?format=a2t", "?format=mcp", "?format=openai-chat"])
def test_hidden_inputs_are_unknown_by_any_name(api, sky, query):
    refused = api.post(INVOKE + query, {"arguments": {"trace": "mine"}}).json()
    assert refused["error"]["fields"] == {"trace": "is not an input of this tool"}
    assert sky.sent == []


def test_an_input_is_not_given_by_two_names_at_once(api, sky):
    refused = api.post(INVOKE, {"arguments": {"Zip_code": "1", "Zip code": "2"}}).json()
    assert (refused["outcome"], list(refused["error"]["fields"])) == ("invalid_arguments", ["Zip code"])
    assert "“Zip_code” is the same input" in refused["error"]["fields"]["Zip code"]
    assert sky.sent == []


@pytest.mark.parametrize(
    ("query", "name"),
    [("", "Zip code"), ("", "Zip_code"), ("?format=a2t", "Zip code"), ("?format=mcp", "Zip_code")],
)
def test_what_is_wrong_is_told_by_the_names_that_were_given(api, sky, query, name):
    refused = api.post(INVOKE + query, {"arguments": {name: 5}}).json()
    assert refused["error"]["fields"] == {name: "must be text"}


def test_format_that_is_none_is_refused_before_anything_is_sent(api, sky):
    refused = api.post(f"{INVOKE}?format=soap", {"arguments": {"Zip code": "1"}})
    assert (refused.status_code, refused.json()["code"]) == (400, "unknown_format")
    assert sky.sent == []


def test_call_is_looked_at_by_the_names_of_the_format_too(api, sky):
    number = api.post(INVOKE, {"arguments": {"Zip code": "1"}}).json()["call"]
    for query, name in (("", "Sky_now"), ("?format=a2t", "Sky now"), ("?format=mcp", "Sky_now")):
        answer = api.get(f"/api/v1/agents/desk/calls/{number}/{query}").json()
        assert answer["outputs"] == {name: "answer of Sky now"}


def test_release_shows_the_way_back_of_every_format_that_alters_a_name(api, sky):
    formats = {
        format_["name"]: format_
        for format_ in api.get("/api/v1/agents/desk/releases/live/").json()["formats"]
    }
    altered = {"inputs": {"Zip_code": "Zip code"}, "outputs": {"Sky_now": "Sky now"}}
    assert formats["a2t"]["wire"] == {}
    assert all(formats[name]["wire"] == {"sky": altered} for name in SCHEMA_FORMATS)


def test_null_in_a_strict_call_is_sent_to_no_vendor(api, owner):
    """Though the vendor's own schema takes it, and other formats send it."""
    schema = {
        "type": "object",
        "properties": {"zip": {"type": ["string", "null"]}, "city": {"type": "string"}},
    }
    signature = make_signature(
        "Sky",
        inputs=(make_parameter("place", type="json", schema=schema, required=False),),
    )
    echo = Echo()
    with HostileVendor(echo) as vendor:
        agent = agents.create_agent(actor=owner, name="Desk", slug="desk")
        tool = make_tool(signature, endpoint=make_endpoint(url=vendor.url, protocol="a2t"))
        echo.signatures[tool.tool_id] = signature
        pins.pin_tool(agent, actor=owner, tool=tool, alias="sky")
        publishing.publish(agent, actor=owner, channel="live")
        arguments = {"place": {"zip": None, "city": "Oslo"}}
        for query in ("?format=openai-strict", "?format=openai-chat"):
            assert api.post(INVOKE + query, {"arguments": arguments}).json()["outcome"] == "ok"
    assert echo.sent == [{"place": {"city": "Oslo"}}, arguments]
    formats = {
        format_["name"]: format_ for format_ in api.get("/api/v1/agents/desk/releases/1/").json()["formats"]
    }
    assert formats["openai-strict"]["wire"] == {"sky": {"null_is_absent": True}}


ROOT_RULE = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}},
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
}


def tool_of(inputs: Any, outputs: Any = None) -> Effective:
    return make_release(signature_of(inputs, outputs)).tools[0].signature


def test_inputs_below_one_are_taken_out_again():
    tool, arguments = tool_of(ROOT_RULE), {"a": "1"}
    for format_name, values in (*((name, {"input": arguments}) for name in REFUSING), ("mcp", arguments)):
        assert wire.arguments_for_the_vendor(tool, exports.wires(tool, format_name), values) == arguments
        assert wire.arguments_for_the_vendor(tool, exports.wires(tool), values) == arguments


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"a": "1"}, {"a": "is not an input of this tool", "input": "is required"}),
        ({"input": 5}, {"input": "must be an object"}),
        ({"input": {}, "b": 1}, {"b": "is not an input of this tool"}),
        ({}, {"input": "is required"}),
    ],
)
def test_inputs_that_are_not_below_the_one_are_refused(arguments, fields):
    tool = tool_of(ROOT_RULE)
    with pytest.raises(wire.UnfitError) as refused:
        wire.arguments_for_the_vendor(tool, exports.wires(tool, "anthropic"), arguments)
    assert refused.value.fields == fields


def test_what_is_wrong_below_the_one_is_told_by_its_path():
    tool = tool_of(ROOT_RULE)
    wires = exports.wires(tool)
    faults = wire.faults_for_the_caller(tool, wires, {"a": "must be text", "": "No."}, {"input": {"a": 1}})
    assert faults == {"input.a": "must be text", "input": "No."}
    assert wire.faults_for_the_caller(tool, wires, {"a": "must be text"}, {"a": 1}) == {"a": "must be text"}


def test_input_that_stands_for_all_is_taken_as_each_format_shows_it():
    """One that is an object all the same is shown by mcp as what it is."""
    tool = tool_of({"type": "object", "properties": {" ": {"type": "string"}}})
    value = {" ": "x"}
    for format_name, values in (("json-schema", {"input": value}), ("mcp", value)):
        for wires in (exports.wires(tool, format_name), exports.wires(tool)):
            assert wire.arguments_for_the_vendor(tool, wires, values) == {"input": value}
    assert wire.faults_for_the_caller(tool, exports.wires(tool, "mcp"), {"input": "No."}, value) == {
        "": "No."
    }


@pytest.mark.parametrize(
    ("outputs", "came", "answers"),
    [
        (
            {"type": "array"},
            {"value": [1], "content": []},
            {"mcp": {"value": [1], "content": []}, "json-schema": {"value": [1], "content": []}},
        ),
        (
            {"$ref": "#/$defs/row", "$defs": {"row": {"type": "object"}}},
            {"value": {"a": 1}, "content": []},
            {"mcp": {"a": 1, "content": []}, "json-schema": {"value": {"a": 1}, "content": []}},
        ),
        (
            {"type": ["object", "null"], "properties": {"a": {}}},
            {"a": 1, "content": []},
            {"mcp": {"value": {"a": 1}, "content": []}},
        ),
        (None, {"content": []}, {"a2t": {"result": {"content": []}}, "mcp": {"content": []}}),
        (None, {}, {"a2t": {}, "mcp": {}}),
    ],
)
def test_outputs_come_back_in_the_form_that_each_format_shows(outputs, came, answers):
    tool = tool_of({"type": "object"}, outputs)
    for format_name, answer in answers.items():
        (format_wire,) = exports.wires(tool, format_name)
        assert wire.outputs_for_the_caller(tool, format_wire, came) == answer


def test_nothing_is_said_of_hidden_inputs():
    inputs = (make_parameter("city"), make_parameter("trace"))
    words = Words(parameters={"trace": ParameterWords(hidden=True, preset="t")})
    tool = effective(make_signature(inputs=inputs), name="t", agent_tuning=words)
    faults = wire.faults_for_the_caller(
        tool, [wire.by_alias(tool)], {"city": "is required", "trace": "is long"}
    )
    assert faults == {"city": "is required"}
