"""Outputs of MCP that are no object: as they are since 2026-07-28, and below one member before."""

import json

import pytest

from designer.agents import agents
from designer.pins import pins, tunings
from designer.releases import publishing
from protocols.mcp.client import MCP
from tests.catalog.credentials.test_rotation import make_credential
from tests.factories import make_endpoint, make_tool
from tests.hostile_vendor import json_reply
from tests.serving.serve.test_mcp import modern, old
from tests.serving.serve.test_own_clients import enumerated, session, site
from tests.serving.test_calls import runtime

__all__ = ["site"]
pytestmark = pytest.mark.django_db
CALL = {"name": "tool", "arguments": {}}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
MAYBE = {"type": ["object", "null"], "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OUTPUTS = [
    ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
    ({"type": "string", "title": "What is seen", "description": "In one word."}, "fair"),
    ({"type": ["integer", "null"]}, None),
    ({"oneOf": [{"$ref": "#/$defs/node"}, {"type": "boolean"}], "$defs": {"node": NODE}}, False),
    ({"type": ["object", "null"]}, {"a": 1}),
    (MAYBE, {"a": 1}),
    (MAYBE, None),
    (MAYBE | {"type": ["object", "array"]}, [1]),
]


def answers(value, **members):
    def script(line, request):
        message = request.json()
        result = {"resultType": "complete", "content": [], "structuredContent": value, **members}
        return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result})(line, request)

    return script


def served(owner, tool, slug="desk"):
    """A key for an agent whose one tool is this one."""
    agent = agents.create_agent(actor=owner, name=slug, slug=slug)
    pins.pin_tool(agent, actor=owner, tool=tool, alias="tool")
    publishing.publish(agent, actor=owner, channel="live")
    return runtime(owner, agent)


def returning(owner, vendor, output):
    document = {"name": "tool", "inputSchema": {"type": "object"}, "outputSchema": output}
    return served(
        owner, make_tool(MCP().read(document), endpoint=make_endpoint(url=vendor.url, protocol="mcp"))
    )


def list_tool(ask, client):
    (tool,) = ask(client, "tools/list").json()["result"]["tools"]
    return tool


def call_tool(ask, client):
    return ask(client, "tools/call", CALL).json()["result"]


@pytest.mark.parametrize(("output", "value"), OUTPUTS)
def test_an_output_that_is_no_object_is_shown_and_answered_as_it_is(output, value, owner, vendor):
    client = returning(owner, vendor, output)
    vendor.script = answers(value)
    tool, result = list_tool(modern, client), call_tool(modern, client)
    assert tool["outputSchema"] == output
    assert "_meta" not in tool
    assert "isError" not in result, result
    assert result["structuredContent"] == value
    assert list_tool(old, client)["outputSchema"]["type"] == "object"
    (member,) = list_tool(old, client)["outputSchema"]["properties"]
    assert list_tool(old, client)["_meta"]["pegboard/wire"]["whole_output"] == member
    # A text or a number that is null is one that was left out.
    is_left_out = value is None and output != MAYBE
    assert call_tool(old, client)["structuredContent"] == ({} if is_left_out else {member: value})


@pytest.mark.parametrize("ask", [modern, old])
@pytest.mark.parametrize("value", [{"next": {}}, {}])
def test_an_object_by_a_reference_is_answered_as_what_it_is(ask, value, owner, vendor):
    client = returning(owner, vendor, {"$ref": "#/$defs/node", "$defs": {"node": NODE}})
    vendor.script = answers(value)
    assert list_tool(ask, client)["outputSchema"]["type"] == "object"
    assert call_tool(ask, client)["structuredContent"] == value


def test_a_text_beside_it_says_the_same(owner, vendor):
    client = returning(owner, vendor, {"type": "array"})
    vendor.script = answers([1, 2], content=[{"type": "text", "text": "[1, 2]"}])
    assert [json.loads(block["text"]) for block in call_tool(modern, client)["content"]] == [[1, 2]]


@pytest.mark.parametrize("value", ["many", None])
def test_an_answer_that_is_no_such_output_is_an_error_with_the_answer(value, owner, vendor):
    client = returning(owner, vendor, {"type": "array"})
    vendor.script = answers(value, content=[{"type": "text", "text": "Many."}])
    result = call_tool(modern, client)
    assert (result["isError"], result["_meta"]["pegboard/code"]) == (True, "UNFIT_OUTPUT")
    assert result["content"][-1]["text"] == "Many."


@pytest.mark.parametrize(("output", "value"), OUTPUTS)
def test_pegboard_reads_it_from_itself_and_passes_it_on(output, value, owner, vendor, site):
    inner = returning(owner, vendor, output)
    vendor.script = answers(value)
    key = inner._credentials["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    with session(site, inner, "/serve/desk/live/mcp") as opened:
        item = enumerated(MCP(), opened)["tool"]
    signature = MCP().read(item.document)
    assert signature.outputs == MCP().read({**item.document, "outputSchema": output}).outputs
    endpoint = make_endpoint(
        protocol="mcp", url=f"{site}/serve/desk/live/mcp", credential=make_credential(key, url=site)
    )
    outer = served(owner, make_tool(signature, endpoint=endpoint, tool_id="tool"), slug="outer")

    def ask(client, method, params=None):
        return modern(client, method, params, at="/serve/outer/live/mcp")

    assert list_tool(ask, outer)["outputSchema"] == output
    assert call_tool(ask, outer)["structuredContent"] == value


FAILURE = {"code": "RATE", "retry_after": 5}
SCHEMAS = [None, {"type": "object", "properties": {"due": {"type": "string"}}}, {"type": "array"}]


def tool_with(owner, vendor, output, slug="desk"):
    document = {"name": "tool", "inputSchema": {"type": "object"}}
    document |= {} if output is None else {"outputSchema": output}
    endpoint = make_endpoint(url=vendor.url, protocol="mcp")
    return served(owner, make_tool(MCP().read(document), endpoint=endpoint), slug)


@pytest.mark.parametrize("ask", [modern, old])
@pytest.mark.parametrize("output", SCHEMAS)
@pytest.mark.parametrize("content", [[], [{"type": "text", "text": "Too many requests."}]])
def test_a_failure_keeps_its_structure_and_a_text_has_it_too(ask, output, content, owner, vendor):
    client = tool_with(owner, vendor, output)
    vendor.script = answers(FAILURE, content=content, isError=True)
    result = call_tool(ask, client)
    assert (result["isError"], result["structuredContent"]) == (True, FAILURE)
    texts = [block["text"] for block in result["content"]]
    assert json.loads(texts[-1]) == FAILURE
    assert texts[:-1] == ([block["text"] for block in content] or texts[:1])


def test_a_text_that_has_the_failure_is_not_repeated(owner, vendor):
    client = tool_with(owner, vendor, None)
    content = [{"type": "text", "text": json.dumps(FAILURE)}]
    vendor.script = answers(FAILURE, content=content, isError=True)
    assert call_tool(modern, client)["content"] == content


def test_a_failure_shows_no_hidden_output(owner, vendor):
    output = {"type": "object", "properties": {"code": {"type": "string"}, "secret": {"type": "string"}}}
    document = {"name": "tool", "inputSchema": {"type": "object"}, "outputSchema": output}
    tool = make_tool(MCP().read(document), endpoint=make_endpoint(url=vendor.url, protocol="mcp"))
    agent = agents.create_agent(actor=owner, name="desk", slug="desk")
    pin = pins.pin_tool(agent, actor=owner, tool=tool, alias="tool")
    tunings.tune(pin, actor=owner, outputs={"secret": {"hidden": True}})
    publishing.publish(agent, actor=owner, channel="live")
    vendor.script = answers({"code": "RATE", "secret": "s3cr3t"}, isError=True)
    result = call_tool(modern, runtime(owner, agent))
    assert result["structuredContent"] == {"code": "RATE"}
    assert "s3cr3t" not in json.dumps(result)


def test_a_failure_keeps_its_structure_in_a2t_and_oxp(owner, vendor):
    client = tool_with(owner, vendor, None)
    vendor.script = answers(FAILURE, isError=True)
    (tool,) = client.get("/serve/desk/live/a2t/tools").json()["items"]
    body = {"input_parameters": []}
    failed = client.post(f"/serve/desk/live/a2t/tools/{tool['toolId']}:invoke", body, format="json")
    assert failed.status_code == 424
    (output,) = failed.json()["output_parameters"]
    assert output["value"].items() >= FAILURE.items()
    (tool,) = client.get("/serve/desk/live/oxp/tools").json()["items"]
    body = {"tool_id": tool["id"], "input": {}}
    failed = client.post("/serve/desk/live/oxp/tools/call", body, format="json").json()
    assert failed["success"] is False
    assert failed["error"]["value"].items() >= FAILURE.items()
    assert json.loads(failed["error"]["additional_prompt_content"]) == failed["error"]["value"]
    (found,) = client.post("/serve/desk/live/acp/agents/search", {}, format="json").json()
    body = {"agent_id": found["agent_id"], "input": {}}
    failed = client.post("/serve/desk/live/acp/runs/wait", body, format="json").json()
    assert failed["output"]["type"] == "error"
    assert json.dumps(FAILURE, separators=(",", ":"))[1:-1] in failed["output"]["description"]


@pytest.mark.parametrize("value", [[1, 2], None, 0, False, "", "fair", {"output": 5}, {}])
@pytest.mark.parametrize("is_error", [False, True])
def test_a_structure_without_a_schema_is_passed_on_as_it_is(value, is_error, owner, vendor):
    client = tool_with(owner, vendor, None)
    vendor.script = answers(value, **({"isError": True} if is_error else {}))
    result = call_tool(modern, client)
    assert result["structuredContent"] == value
    before = call_tool(old, client).get("structuredContent", {})
    assert before == (value if isinstance(value, dict) else {"output": value})
