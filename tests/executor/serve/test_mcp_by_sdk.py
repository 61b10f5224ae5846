"""The official client and Pegboard itself as clients of a served release."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from catalog.credentials import operations
from catalog.enumeration import runs
from catalog.models import Tool
from catalog.models.runs import Trigger
from catalog.protocols.mcp import MCP
from catalog.protocols.signature import AllowedValue, Annotations
from designer import agent_keys, agents, pins, tunings
from designer.procedures import editing
from designer.releases import publishing
from tests import one_door
from tests.executor.serve.test_mcp import library
from tests.executor.test_calls import desk_with
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool

pytestmark = pytest.mark.django_db(transaction=True)


def key_for(owner, agent) -> str:
    scopes = ["runtime", "invoke"]
    return agent_keys.issue(owner, actor=owner, name="Desk key", scopes=scopes, agents=[agent])[1]


def visited(url, key, mode, visit):
    async def work():
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode, elicitation_callback=confirm) as client:
                return await visit(client)

    async def confirm(context, params):
        asks_for_a_branch = "branch" in params.requested_schema["properties"]
        content = {"branch": "Mole End"} if asks_for_a_branch else {"confirm": True}
        return types.ElicitResult(action="accept", content=content)

    with one_door.other_side(), ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, work()).result()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_lists_and_calls(mode, owner, vendor, served_at):
    agent, _ = desk_with(owner, vendor, annotations=Annotations(destructive=True), title="Sky over a place")
    editing.create_procedure(agent, actor=owner, title="Before a trip", body="Ask for the sky first.")
    publishing.publish(agent, actor=owner, channel="live")

    async def visit(client):
        tools = await client.list_tools()
        answer = await client.call_tool("sky", {"Zip_code": "0150"})
        wrong = await client.call_tool("sky", {"days": "many"})
        prompts = await client.list_prompts()
        prompt = await client.get_prompt(prompts.prompts[0].name)
        return client.protocol_version, tools.tools, answer, wrong, prompt

    version, tools, answer, wrong, prompt = visited(served_at(), key_for(owner, agent), mode, visit)
    assert version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
    assert [(tool.name, tool.title) for tool in tools] == [("sky", "Sky over a place")]
    assert tools[0].annotations.destructive_hint is True
    assert answer.structured_content == {"Sky_now": "fair"}
    assert not answer.is_error
    assert wrong.is_error
    assert prompt.messages[0].content.text == "Ask for the sky first."
    assert len(vendor.requests) == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_answers_what_a_tool_asks(mode, owner, vendor, served_at):
    vendor.script = library
    agent, _ = desk_with(owner, vendor, protocol="mcp", inputs=(), outputs=())

    async def visit(client):
        return await client.call_tool("sky", {})

    answer = visited(served_at(), key_for(owner, agent), mode, visit)
    assert json.loads(answer.content[0].text) == {"action": "accept", "content": {"branch": "Mole End"}}


SHAPES = [
    make_signature(
        "shapes",
        title="Every shape",
        inputs=(
            make_parameter("Zip code", max_length=5),
            make_parameter("days", type="int", required=False, min=1, max=14, default=3),
            make_parameter("share", type="number", required=False, max=0.5),
            make_parameter("fast", type="boolean", required=False),
            make_parameter(
                "unit",
                type="enum",
                required=False,
                allowed_values=(AllowedValue("C", "Celsius"), AllowedValue("F", "")),
            ),
            make_parameter("filter", type="json", required=False, schema={"type": ["string", "null"]}),
        ),
        outputs=(make_parameter("Sky now"), make_parameter("code", type="int", required=False)),
        annotations=Annotations(read_only=True, open_world=False),
    ),
    make_signature("plain", inputs=(), outputs=()),
    MCP().read(
        {
            "name": "refers",
            "description": "Its schema refers to itself, and it returns a list.",
            "inputSchema": {
                "type": "object",
                "properties": {"node": {"$ref": "#/$defs/node"}},
                "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
                "additionalProperties": False,
            },
            "outputSchema": {"type": "array", "items": {"type": "integer"}},
            "annotations": {"destructiveHint": True, "idempotentHint": True},
        }
    ),
]


def shown(url, key):
    async def visit(client):
        return await client.list_tools()

    tools = visited(url, key, "auto", visit).tools
    written = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    return [{name: value for name, value in tool.items() if name != "_meta"} for tool in written]


# What a protocol has no place for.
LOST = {"mcp": set(), "acp": {"title", "annotations"}}


def kept(tools, protocol):
    written = [{name: value for name, value in tool.items() if name not in LOST[protocol]} for tool in tools]
    for tool in written:
        # ACP asks every agent for a description of what it returns; this one says nothing.
        if tool.get("outputSchema") == {"type": "object"}:
            del tool["outputSchema"]
    return sorted(written, key=lambda tool: tool["name"])


@pytest.mark.parametrize("name", sorted(LOST))
def test_pegboard_reads_itself_and_every_signature_survives(name, owner, vendor, served_at):
    agent, _ = desk_with(owner, vendor)
    endpoint = make_endpoint(url=vendor.url)
    for signature in SHAPES:
        pin = pins.pin_tool(agent, actor=owner, tool=make_tool(signature, endpoint=endpoint))
    tunings.tune(pin, actor=owner, description="What a designer says of it.")
    publishing.publish(agent, actor=owner, channel="live")
    key = key_for(owner, agent)
    own = make_endpoint(protocol=name, url=served_at(name))
    own.credential = operations.create_credential(
        actor=owner, name="own", kind="bearer", url=own.url, secret=key
    )
    own.save()
    run = runs.perform(runs.request_run(own, trigger=Trigger.COMMAND).pk)
    assert (run.status, run.error_code, run.rejected) == ("succeeded", "", 0)
    again = agents.create_agent(actor=owner, name="again", slug="again")
    for tool in Tool.objects.filter(endpoint=own).order_by("tool_id"):
        pins.pin_tool(again, actor=owner, tool=tool)
    publishing.publish(again, actor=owner, channel="live", accept=["unreviewed"])
    first, second = shown(served_at(), key), shown(served_at(slug="again"), key_for(owner, again))
    assert kept(second, name) == kept(first, name)
    assert len(first) == len(SHAPES) + 1

    async def visit(client):
        return await client.call_tool("sky", {"Zip_code": "0150"})

    answer = visited(served_at(slug="again"), key_for(owner, again), "auto", visit)
    assert answer.structured_content == {"Sky_now": "fair"}
    assert len(vendor.requests) == 1
