"""Arguments that the shown schema allows are sent unchanged, through every door; unknown ones get a note."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from catalog.models import Call
from designer.agents import agents
from designer.pins import pins, tunings
from designer.releases import publishing
from execution.calls import invocation
from protocols import parameters
from tests.factories import make_endpoint, make_signature, make_tool
from tests.hostile_vendor import HostileVendor, Line, Request, json_reply
from tests.serving.doors import DOORS, Ask
from tests.serving.test_calls import desk_with, owner, runtime, url

__all__ = ["owner"]

pytestmark = pytest.mark.django_db

CITY = {"city": {"type": "string"}}
PLACE = {"type": "object", "properties": CITY}


def an_object(properties: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", **({} if properties is None else {"properties": properties}), **more}


def fields_of(schema: Any) -> dict[str, Any]:
    shape = parameters.read_schema(schema, "schema", whole_name="value")
    return {"inputs": shape.parameters, "schema_rest": shape.rest}


class EchoOfMcp:
    """An MCP vendor of the newest era that notes the arguments of its calls."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.fails = False
        self.url = ""

    def __call__(self, line: Line, request: Request) -> bool | None:
        message = request.json()
        result: dict[str, Any] = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
        result |= {"isError": True} if self.fails else {}
        if message["method"] == "tools/call":
            self.sent.append(message["params"]["arguments"])
        return json_reply({"jsonrpc": "2.0", "id": message.get("id"), "result": result})(line, request)


@pytest.fixture
def vendor():
    echo = EchoOfMcp()
    with HostileVendor(echo) as running:
        echo.url = running.url
        yield echo


def desk_of(owner, vendor, schema: Any):
    return desk_with(owner, vendor, protocol="mcp", outputs=(), **fields_of(schema))


def notes_in(document: Any) -> list[dict[str, str]]:
    """The notes on inputs, wherever a protocol has its notes."""

    def every(value: Any) -> Iterator[Any]:
        for name, child in value.items() if isinstance(value, dict) else ():
            yield from child if name in ("notes", "pegboard/notes") else every(child)

    return [note for note in every(document) if note["code"] == "UNKNOWN_INPUT"]


# The schema, the arguments, and of each note the path and the proposal.
SENT: dict[str, tuple[Any, dict[str, Any], list[tuple[str, str]]]] = {
    "no properties": (an_object(), {"x": 1}, []),
    "no properties, but a number of them": (an_object(minProperties=1), {"x": "y"}, []),
    "empty properties": (an_object({}), {"x": 1}, []),
    "a name that is not described": (an_object(CITY), {"city": "Oslo", "zz": 1}, [("zz", "")]),
    "a slip": (an_object(CITY), {"citty": "Oslo"}, [("citty", "city")]),
    "another spelling": (an_object({"max_rows": {}}), {"maxRows": 3}, [("maxRows", "max_rows")]),
    "a slip below": (an_object({"at": PLACE}), {"at": {"ctiy": "Oslo"}}, [("at.ctiy", "city")]),
    "a slip in a list": (
        an_object({"to": {"type": "array", "items": PLACE}}),
        {"to": [{"city": "Oslo"}, {"cty": "Rome"}]},
        [("to[1].cty", "city")],
    ),
    "a slip behind a reference": (
        an_object({"at": {"$ref": "#/$defs/p"}}, **{"$defs": {"p": PLACE}}),
        {"at": {"citi": "Oslo"}},
        [("at.citi", "city")],
    ),
    "a name of another branch": (
        an_object({"at": {"anyOf": [PLACE, an_object({"zip": {}})]}}),
        {"at": {"zip": "0150"}},
        [],
    ),
    "other names are welcome": (an_object(CITY, additionalProperties=True), {"x": 1}, []),
    "a slip where other names are welcome": (
        an_object(CITY, additionalProperties={}),
        {"citty": "Oslo"},
        [("citty", "city")],
    ),
    "names by a pattern": (an_object(CITY, patternProperties={"^x-": {}}), {"x-a": 1}, []),
    "required without a property": (
        an_object(CITY, required=["city", "gone"]),
        {"city": "Oslo", "gone": 1},
        [],
    ),
    "required without any property": (an_object(required=["gone"]), {"gone": "x"}, []),
    "a whole number as a fraction": (an_object({"n": {"type": "integer"}}), {"n": 5.0}, []),
    "a whole number with an exponent": (
        an_object({"n": {"type": "integer", "maximum": 100}}),
        {"n": 1e2},
        [],
    ),
    "a whole number below": (
        an_object({"n": {"type": "array", "items": {"type": ["integer", "null"]}}}),
        {"n": [5.0, None]},
        [],
    ),
    "null where a reference takes it": (
        an_object({"n": {"$ref": "#/$defs/n"}}, **{"$defs": {"n": {"type": ["null", "string"]}}}),
        {"n": None},
        [],
    ),
}


@pytest.mark.parametrize("kind", SENT)
@pytest.mark.parametrize("door", [door for door in DOORS if door.name != "a2t"], ids=lambda door: door.name)
def test_what_the_schema_accepts_is_sent_as_it_was_given(owner, vendor, door, kind):
    schema, arguments, notes = SENT[kind]
    agent, _ = desk_of(owner, vendor, schema)

    reply = door.ask(runtime(owner, agent), Ask(arguments=arguments))

    assert reply.said.startswith("200"), reply.document
    assert vendor.sent == [arguments]
    assert "." not in json.dumps(vendor.sent[0].get("n"))
    notes_found = notes_in(reply.document)
    assert [(note["input"], note.get("proposal", "")) for note in notes_found] == notes


@pytest.mark.parametrize("kind", ["a slip", "a name that is not described"])
def test_notes_on_inputs_are_in_a_reply_of_a2t_too(owner, vendor, kind):
    schema, arguments, notes = SENT[kind]
    agent, _ = desk_of(owner, vendor, schema)
    (a2t,) = (door for door in DOORS if door.name == "a2t")

    reply = a2t.ask(runtime(owner, agent), Ask(arguments=arguments))

    assert vendor.sent == [arguments]
    assert [(note["input"], note.get("proposal", "")) for note in notes_in(reply.document)] == notes


def test_notes_on_inputs_are_in_the_last_update_of_an_acp_stream(owner, vendor):
    agent, _ = desk_of(owner, vendor, an_object(CITY))
    (acp,) = (door for door in DOORS if door.name == "acp")

    path, headers, body = acp.request(Ask(arguments={"citty": "Oslo"}, mode="stream"))
    client = runtime(owner, agent)
    reply = client.generic("POST", path, json.dumps(body), content_type="application/json", headers=headers)
    invocation.perform_due_calls()

    *_, last = (part for part in reply.streaming_content if b"data: " in part)
    notes = notes_in(json.loads(last.partition(b"data: ")[2]))
    assert [(note["input"], note["proposal"]) for note in notes] == [("citty", "city")]


def test_a_note_is_told_of_a_failure_too_and_to_a_model(owner, vendor):
    agent, _ = desk_of(owner, vendor, an_object(CITY))
    vendor.fails = True

    for door in DOORS:
        reply = door.ask(runtime(owner, agent), Ask(arguments={"citty": "Oslo"}))
        assert [note["proposal"] for note in notes_in(reply.document)] == ["city"], door.name
        if door.protocol == "mcp":
            texts = [block["text"] for block in reply.document["result"]["content"]]
            assert any("“citty”" in text and "“city”" in text for text in texts)


def test_a_person_may_send_what_the_schema_does_not_describe_and_reads_the_note(owner, vendor):
    endpoint = make_endpoint(url=vendor.url, protocol="mcp")
    tool = make_tool(make_signature("Sky", outputs=(), **fields_of(an_object(CITY))), endpoint=endpoint)
    page = Client()
    page.force_login(owner)

    typed = {"ordinal": 1, "json": '{"citty": "Oslo", "n": 1e2}'}
    answer = page.post(f"/tools/{tool.pk}/try/", typed, follow=True)
    invocation.perform_due_calls()

    assert vendor.sent == [{"citty": "Oslo", "n": 100}], answer.content.decode()
    page_html = page.get(f"/tools/{tool.pk}/try/?call={Call.objects.get().pk}").content.decode()
    assert "UNKNOWN_INPUT" in page_html
    assert "“city”" in page_html


# The schema, the arguments, and the inputs that are named in the refusal.
REFUSED: dict[str, tuple[Any, dict[str, Any], set[str]]] = {
    "closed": (an_object(CITY, additionalProperties=False), {"city": "x", "zz": 1}, {"zz"}),
    "closed without properties": (an_object(additionalProperties=False), {"zz": 1}, {"zz"}),
    "closed by what is not evaluated": (an_object(CITY, unevaluatedProperties=False), {"zz": 1}, {"zz"}),
    "required without a property": (an_object(CITY, required=["gone"]), {"city": "x"}, {"gone"}),
    "a fraction": (an_object({"n": {"type": "integer"}}), {"n": 5.5}, {"n"}),
    "an anchor": (
        an_object({"p": {"$ref": "#x"}}, **{"$defs": {"A": {"$anchor": "x", "type": "string"}}}),
        {"p": 5},
        {"p"},
    ),
    "a URI of its own": (
        an_object(
            {"p": {"$ref": "s.json#/$defs/A"}, "q": {"$ref": "https://e.test/s.json#/$defs/A"}},
            **{"$id": "https://e.test/s.json", "$defs": {"A": {"type": "string"}}},
        ),
        {"p": 5, "q": 5},
        {"p", "q"},
    ),
    "a name of a definition": (
        an_object({"p": {"$ref": "urn:l"}}, **{"$defs": {"A": {"$id": "urn:l", "type": "string"}}}),
        {"p": 5},
        {"p"},
    ),
    "an anchor of draft-07": (
        an_object(
            {"p": {"$ref": "#x"}},
            **{
                "$schema": "http://json-schema.org/draft-07/schema#",
                "definitions": {"A": {"$id": "#x", "type": "string"}},
            },
        ),
        {"p": 5},
        {"p"},
    ),
    "a dynamic anchor": (
        an_object({"p": {"$dynamicRef": "#n"}, "v": {"type": "integer"}}, **{"$dynamicAnchor": "n"}),
        {"p": {"v": "x"}},
        {"p"},
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_schema_refuses_is_refused_before_it_is_sent(owner, vendor, kind):
    schema, arguments, fields = REFUSED[kind]
    agent, _ = desk_of(owner, vendor, schema)

    refused = runtime(owner, agent).post(url(), {"arguments": arguments}).json()

    assert (refused["outcome"], set(refused["error"]["fields"])) == ("invalid_arguments", fields)
    assert vendor.sent == []


@pytest.mark.parametrize("format_", ["mcp", "json-schema", "openai-chat", "anthropic", "oxp", ""])
def test_hiding_an_input_closes_the_object_in_exports_and_calls(owner, vendor, format_):
    agent, pin = desk_of(owner, vendor, an_object(CITY | {"tenant": {"type": "string"}}))
    tunings.tune(pin, actor=owner, parameters={"tenant": {"hidden": True, "preset": "acme"}})
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)

    query = f"?format={format_}" if format_ else ""
    address = f"/api/v1/agents/desk/releases/live/tools/?format={format_ or 'json-schema'}"
    assert '"additionalProperties":false' in client.get(address).content.decode()
    for name in ("tenant", "tennant"):
        refused = client.post(url() + query, {"arguments": {"city": "Oslo", name: "mine"}}).json()
        assert refused["error"]["fields"] == {name: "is not an input of this tool"}
    assert vendor.sent == []
    client.post(url() + query, {"arguments": {"city": "Oslo"}})
    assert vendor.sent == [{"city": "Oslo", "tenant": "acme"}]


def test_notes_go_by_the_names_that_the_caller_knows_and_by_no_hidden_one(owner, vendor):
    properties = {"due date": {"type": "object", "properties": {"year": {}}}, "token": {"type": "string"}}
    agent, pin = desk_of(owner, vendor, an_object(properties, additionalProperties=True))
    tunings.tune(pin, actor=owner, parameters={"token": {"hidden": True, "preset": "t"}})
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)

    slip = client.post(f"{url()}?format=mcp", {"arguments": {"due_dat": {}}}).json()
    assert [(note["input"], note["proposal"]) for note in notes_in(slip)] == [("due_dat", "due_date")]
    vendor.sent.clear()
    arguments = {"due_date": {"yaer": 1}, "tokenn": 1}
    answer = client.post(f"{url()}?format=mcp", {"arguments": arguments}).json()

    assert answer["outcome"] == "ok"
    assert [(note["input"], note["proposal"]) for note in notes_in(answer)] == [("due_date.yaer", "year")]
    assert vendor.sent == [{"due date": {"yaer": 1}, "tokenn": 1, "token": "t"}]
    assert "“token”" not in json.dumps(notes_in(answer))


def test_a_strict_export_closes_what_it_shows_and_leaves_rules_to_the_vendor(owner, vendor):
    short = an_object({"city": {"type": "string", "minLength": 3}}, required=["city"])
    agent, _ = desk_of(owner, vendor, short)
    client = runtime(owner, agent)

    answer = client.post(f"{url()}?format=openai-strict", {"arguments": {"city": "x"}}).json()
    assert (answer["outcome"], vendor.sent) == ("ok", [{"city": "x"}])
    refused = client.post(f"{url()}?format=mcp", {"arguments": {"city": "x"}}).json()
    assert set(refused["error"]["fields"]) == {"city"}
    refused = client.post(f"{url()}?format=openai-strict", {"arguments": {"city": "x", "zz": 1}}).json()
    assert refused["error"]["fields"] == {"zz": "is not an input of this tool"}
    assert len(vendor.sent) == 1


def test_a_strict_export_closes_inner_objects_for_calls_too(owner, vendor):
    lines = {"type": "array", "items": PLACE}
    agent, _ = desk_of(owner, vendor, an_object({"at": PLACE, "to": lines}))
    client = runtime(owner, agent)

    arguments = {"at": {"city": "Oslo", "zz": 1}, "to": [{"city": "Rome", "cty": "x"}]}
    refused = client.post(f"{url()}?format=openai-strict", {"arguments": arguments}).json()
    assert (refused["outcome"], set(refused["error"]["fields"])) == ("invalid_arguments", {"at", "to"})
    assert vendor.sent == []
    assert client.post(f"{url()}?format=mcp", {"arguments": arguments}).json()["outcome"] == "ok"


names = st.sampled_from(["a", "b", "due date", "größe", "max_rows", "$ref", "x/y"])
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


@st.composite
def shown_values(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, Any], Any]:
    """A schema, and a value that it accepts."""
    kinds = ["string", "integer", "boolean", "null", "enum", "any"] + (
        ["object", "array", "union"] * (depth > 0)
    )
    match draw(st.sampled_from(kinds)):
        case "integer":
            value = draw(st.integers(-1000, 1000))
            number = float(value) if draw(st.booleans()) else value
            return {"type": "integer", "minimum": value - draw(st.integers(0, 3))}, number
        case "boolean":
            return {"type": "boolean"}, draw(st.booleans())
        case "null":
            return {"type": ["string", "null"]}, None
        case "enum":
            choices = draw(st.lists(texts | st.integers() | st.none(), min_size=1, max_size=3))
            return {"enum": choices}, draw(st.sampled_from(choices))
        case "any":
            return {}, draw(texts | st.integers() | st.dictionaries(texts, texts, max_size=2))
        case "object":
            return draw(shown_objects(depth - 1))
        case "array":
            schema, value = draw(shown_values(depth - 1))
            return {"type": "array", "items": schema}, [value] * draw(st.integers(0, 2))
        case "union":
            schema, value = draw(shown_values(depth - 1))
            return {"anyOf": [{"type": "string", "maxLength": 0}, schema]}, value
    value = draw(texts)
    return {"type": "string", "maxLength": len(value)}, value


@st.composite
def shown_objects(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, Any], dict[str, Any]]:
    members = draw(st.dictionaries(names, shown_values(depth), max_size=3))
    schema = an_object({name: member_schema for name, (member_schema, _) in members.items()})
    value = {name: member_value for name, (_, member_value) in members.items() if draw(st.booleans())}
    if draw(st.booleans()):
        value["another name"] = draw(texts)
    else:
        schema["additionalProperties"] = draw(st.sampled_from([False, True]))
    schema["required"] = draw(st.lists(st.sampled_from([*value]), unique=True)) if value else []
    if draw(st.booleans()):
        schema |= {"$defs": {"whole": {"$anchor": "here", **schema}}} if depth == 2 else {}
    return schema, value


def wholes(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_float=lambda text: int(float(text)))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=shown_objects())
def test_what_an_export_accepts_is_sent_as_it_was_given(owner, settings, drawn):
    """The rule of this module as a property: through REST and MCP, to a vendor of MCP."""
    settings.WRITES_PER_MINUTE = settings.CALLS_PER_MINUTE = 1_000_000
    schema, arguments = drawn
    echo, slug = EchoOfMcp(), f"desk-{uuid.uuid4()}"
    with HostileVendor(echo) as vendor:
        endpoint = make_endpoint(url=vendor.url, protocol="mcp")
        signature = make_signature("Sky", outputs=(), **fields_of(schema))
        agent = agents.create_agent(actor=owner, name=slug, slug=slug)
        pins.pin_tool(agent, actor=owner, tool=make_tool(signature, endpoint=endpoint), alias="sky")
        publishing.publish(agent, actor=owner, channel="live")
        client = APIClient()
        client.force_login(owner)
        (tool,) = client.get(f"/api/v1/agents/{slug}/releases/live/tools/?format=mcp").json()["tools"]
        described = list(dict.fromkeys([*schema["properties"], *schema["required"]]))
        by_alias = dict(zip(described, tool["inputSchema"].get("properties", {}), strict=True))
        call_arguments = {by_alias.get(name, name): value for name, value in arguments.items()}
        for door in (door for door in DOORS if door.name in ("rest", "mcp")):
            reply = door.ask(runtime(owner, agent), Ask(slug=slug, arguments=call_arguments))
            assert reply.said in ("200", "200 ok"), (reply.document, schema, call_arguments)
            assert echo.sent.pop() == wholes(arguments)
