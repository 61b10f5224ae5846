"""The official client and Pegboard itself as clients of a served release."""

import asyncio
import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import httpx2
import mcp_types as types
import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from mcp_types.methods import validate_server_result

from catalog.credentials import operations
from catalog.enumeration import runs
from catalog.models import Tool
from catalog.models.runs import Trigger
from designer.agents import access_tokens, agent_keys, agents
from designer.pins import pins, tunings
from designer.procedures import editing
from designer.releases import publishing
from people.models import ApiKey, Identity
from protocols.mcp.client import MCP
from protocols.mcp.transport import HANDSHAKE, MODERN
from protocols.signature import AllowedValue, Annotations
from tests import one_door
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool
from tests.people.sso.test_sign_in import idp
from tests.serving.serve.test_mcp import library, modern, old
from tests.serving.test_calls import desk_with, runtime

__all__ = ["idp"]

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


class Kept:
    """Storage of the client for its sign-in."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def test_the_official_client_signs_its_user_in(owner, vendor, served_at, idp, settings, live_server):
    settings.PUBLIC_URL = live_server.url
    settings.OIDC |= {"runtimes": "marked"}
    access_tokens.clear_cache()
    desk_with(owner, vendor)
    Identity.objects.create(user=owner, issuer=idp.issuer, subject="ada-1")
    opened = []

    async def open_browser(address):
        opened.append(address)

    async def come_back():
        with urllib.request.build_opener(Stays()).open(opened[-1]) as answer:
            query = parse_qs(urlsplit(answer.headers["Location"]).query)
        names = {"code", "state", "iss"} & query.keys()
        return AuthorizationCodeResult(**{name: query[name][0] for name in names})

    async def work():
        about = OAuthClientMetadata(redirect_uris=["http://127.0.0.1:3030/callback"], client_name="test")
        auth = OAuthClientProvider(served_at(), about, Kept(), open_browser, come_back)
        async with (
            httpx2.AsyncClient(auth=auth) as http,
            Client(streamable_http_client(served_at(), http_client=http)) as client,
        ):
            return await client.call_tool("sky", {"Zip_code": "0150"})

    with one_door.other_side(), ThreadPoolExecutor(1) as apart:
        answer = apart.submit(asyncio.run, work()).result()
    assert answer.structured_content == {"Sky_now": "fair"}
    assert len(opened) == 1
    assert ApiKey.objects.get().is_of_signed_in


class Stays(urllib.request.HTTPRedirectHandler):
    def http_error_302(self, request, answer, code, message, headers):
        return answer


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
    MCP().read(
        {
            "name": "wetter-für-später",
            "title": "T" * 300,
            "description": "名前 that are not ASCII, a union at the top, and a result that is a text.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "größe": {"anyOf": [{"type": "integer"}, {"type": "string", "enum": ["groß"]}]},
                    "日": {"type": ["string", "null"], "format": "date"},
                },
                "anyOf": [{"required": ["größe"]}, {"required": ["日"]}],
            },
            "outputSchema": {"type": "string"},
        }
    ),
    MCP().read({"name": "anything", "description": "Says nothing.", "inputSchema": {"type": "object"}}),
    MCP().read(
        {
            "name": "none",
            "description": "Takes nothing, and answers one of two.",
            "inputSchema": {"type": "object", "additionalProperties": False},
            "outputSchema": {
                "oneOf": [{"$ref": "#/$defs/one"}, {"type": "null"}],
                "$defs": {"one": {"type": "object", "properties": {"a": {"type": "integer"}}}},
            },
        }
    ),
]


def list_tools(url, key, mode="auto"):
    async def visit(client):
        return await client.list_tools()

    tools = visited(url, key, mode, visit).tools
    documents = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    return [{name: value for name, value in tool.items() if name != "_meta"} for tool in documents]


REVISIONS = [*MODERN, *HANDSHAKE]


@pytest.mark.parametrize("revision", REVISIONS)
def test_answers_are_what_the_official_models_of_each_revision_take(revision, owner, vendor):
    agent, _ = desk_with(owner, vendor)
    endpoint = make_endpoint(url=vendor.url)
    for signature in SHAPES:
        pins.pin_tool(agent, actor=owner, tool=make_tool(signature, endpoint=endpoint))
    editing.create_procedure(agent, actor=owner, title="Before a trip", body="Ask for the sky first.")
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)
    params_of = {
        "tools/list": {},
        "tools/call": {"name": "sky", "arguments": {"Zip_code": "0150"}},
        "prompts/list": {},
        "prompts/get": {"name": "before-a-trip"},
        "resources/list": {},
        "resources/read": {"uri": "procedure://desk/before-a-trip"},
    }
    for method, params in params_of.items():
        if revision in MODERN:
            name_headers = {"Mcp-Name": params["uri"]} if "uri" in params else {}
            answer = modern(client, method, params, **name_headers)
        else:
            answer = old(client, method, params, version=revision)
        result = answer.json()["result"]
        validate_server_result(method, revision, result)
        if method == "tools/list":
            assert len(result["tools"]) == len(SHAPES) + 1
            for tool in result["tools"]:
                Draft202012Validator.check_schema(tool["inputSchema"])
                # Before 2026-07-28 nothing else than an object is an output.
                output = tool.get("outputSchema", {"type": "object"})
                assert output.get("type") == "object" or revision in MODERN
                assert tool["inputSchema"]["type"] == "object"
    wrong = {"name": "sky", "arguments": {"days": "many"}}
    ask = modern if revision in MODERN else lambda *arguments: old(*arguments, version=revision)
    validate_server_result("tools/call", revision, ask(client, "tools/call", wrong).json()["result"])


# Members that a protocol cannot express.
LOST = {"mcp": set(), "acp": {"title", "annotations"}}


def without_lost_members(tools, protocol):
    tools_of_protocol = [
        {name: value for name, value in tool.items() if name not in LOST[protocol]} for tool in tools
    ]
    for tool in tools_of_protocol:
        # ACP requires a description of each agent's output; this one has none.
        if tool.get("outputSchema") == {"type": "object"}:
            del tool["outputSchema"]
    return sorted(tools_of_protocol, key=lambda tool: tool["name"])


@pytest.mark.parametrize(
    ("name", "memory"),
    [("acp", {}), ("mcp", {}), ("mcp", {"era": "handshake", "version": HANDSHAKE[0]})],
    ids=["acp", "mcp", "mcp of the handshake"],
)
def test_pegboard_reads_itself_and_every_signature_survives(name, memory, owner, vendor, served_at):
    agent, _ = desk_with(owner, vendor)
    endpoint = make_endpoint(url=vendor.url)
    pinned = [
        pins.pin_tool(agent, actor=owner, tool=make_tool(signature, endpoint=endpoint))
        for signature in SHAPES
    ]
    tunings.tune(
        pinned[0],
        actor=owner,
        title="In the designer's words",
        description="What a designer says of it.",
        parameters={"days": {"description": "How many."}, "fast": {"hidden": True}},
        outputs={"Sky now": {"description": "What is seen."}},
        effects={"idempotent": True},
    )
    publishing.publish(agent, actor=owner, channel="live")
    key = key_for(owner, agent)
    own_endpoint = make_endpoint(protocol=name, url=served_at(name), memory=memory)
    own_endpoint.credential = operations.create_credential(
        actor=owner, name="own", kind="bearer", url=own_endpoint.url, secret=key
    )
    own_endpoint.save()
    run = runs.perform(runs.request_run(own_endpoint, trigger=Trigger.COMMAND).pk)
    assert (run.status, run.error_code, run.rejected) == ("succeeded", "", 0)
    own_endpoint.refresh_from_db()
    assert own_endpoint.memory.get("era") == (memory.get("era", "modern") if name == "mcp" else None)
    again = agents.create_agent(actor=owner, name="again", slug="again")
    for tool in Tool.objects.filter(endpoint=own_endpoint).order_by("tool_id"):
        pins.pin_tool(again, actor=owner, tool=tool)
    publishing.publish(again, actor=owner, channel="live", accept=["unreviewed"])
    # Where the reader is shown objects alone, what comes through is what other such readers are shown.
    takes_any = name == "mcp" and not memory
    first = list_tools(served_at(), key, "auto" if takes_any else "legacy")
    second = list_tools(served_at(slug="again"), key_for(owner, again))
    assert without_lost_members(second, name) == without_lost_members(first, name)
    assert len(first) == len(SHAPES) + 1
    (refers,) = [tool["outputSchema"] for tool in second if tool["name"] == "refers"]
    assert refers["type"] == ("array" if takes_any else "object")

    async def visit(client):
        return await client.call_tool("sky", {"Zip_code": "0150"})

    answer = visited(served_at(slug="again"), key_for(owner, again), "auto", visit)
    assert answer.structured_content == {"Sky_now": "fair"}
    assert len(vendor.requests) == 1
