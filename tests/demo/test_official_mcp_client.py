"""The official client meets the museum, and what we export, in both eras."""

import asyncio
import json
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from demo.mcp_server import McpApi
from demo.museum import TOOLS
from designer.exports import FORMATS
from designer.exports.document import SCHEMA, ReleasedAgent, ReleaseDocument, ReleasedTool, ReleasedVersion
from designer.signatures.effective import effective
from protocols.mcp.client import MCP
from tests import one_door
from tests.demo.test_demo_museum import museum

__all__ = ["museum"]


def wait_for(work: Coroutine[Any, Any, Any]) -> Any:
    """Run in a new thread, because an earlier browser test leaves its event loop in the main one."""
    with one_door.other_side(), ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, work).result()


async def visit(url, mode):
    import mcp_types as types
    from mcp import Client

    async def answer(context, params):
        return types.ElicitResult(action="accept", content={"language": "Dutch"})

    async with Client(url, mode=mode, elicitation_callback=answer) as client:
        first = await client.list_tools()
        search_result = await client.call_tool("search_objects", {"query": "brig", "limit": 2})
        booked = await client.call_tool("book_visit", {"date": "2027-03-09", "people": 12})
        arguments = {"object_id": "TM-1042", "condition": "WORN"}
        reported = await client.call_tool("report_condition", arguments)
    return first, search_result, booked, reported


async def list_tools(url, mode):
    from mcp import Client

    async with Client(url, mode=mode) as client:
        result = await client.list_tools()
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in result.tools]


def test_the_official_client_reads_and_books(museum):
    first, search_result, booked, reported = wait_for(visit(f"http://127.0.0.1:{museum.port}/mcp", "auto"))
    assert (len(first.tools), first.tools[0].title) == (5, "Search the collection")
    assert search_result.structured_content["total"] > 2
    assert booked.structured_content["guide_language"] == "Dutch"
    assert not reported.is_error


def test_the_official_client_of_old_does_too(museum):
    first, search_result, booked, _ = wait_for(visit(f"http://127.0.0.1:{museum.port}/mcp", "legacy"))
    assert len(first.tools) == 5
    assert not search_result.is_error
    assert booked.is_error


def exported():
    """All of the museum's tools as an agent's release would publish them."""
    version = ReleasedVersion(ordinal=1, label="", digest="0" * 64)
    signatures = [MCP().read(json.loads(json.dumps(tool.document))) for tool in TOOLS]
    tools = [
        ReleasedTool(
            id=number,
            tool_id=signature.name,
            vendor="tiderow",
            endpoint="https://tiderow-museum.example/mcp",
            protocol="mcp",
            version=version,
            signature=effective(signature, name=signature.name),
            tuning={},
        )
        for number, signature in enumerate(signatures, start=1)
    ]
    agent = ReleasedAgent(slug="desk", name="Desk", description="")
    release = ReleaseDocument(schema=SCHEMA, agent=agent, number=1, tools=tuple(tools))
    format_ = next(format_ for format_ in FORMATS if format_.name == "mcp")
    return json.loads(msgspec.json.encode(format_.write(release)))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_reads_what_we_export(museum, monkeypatch, mode):
    document = exported()
    monkeypatch.setattr(McpApi, "_list_tools", lambda api, params: {"tools": document["tools"]})
    tools = wait_for(list_tools(f"http://127.0.0.1:{museum.port}/mcp", mode))
    assert tools == document["tools"]
    schemas = {tool.name: tool.inputs for tool in TOOLS}
    assert {tool["name"]: tool["inputSchema"] for tool in tools} == schemas
