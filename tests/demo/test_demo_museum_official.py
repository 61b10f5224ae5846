"""The official client finds its way in the museum, in both eras."""

import asyncio

import pytest

from tests.demo.test_demo_museum import museum

pytest.importorskip("mcp")
__all__ = ["museum"]


async def visit(url, mode):
    import mcp_types as types
    from mcp import Client

    async def answer(context, params):
        return types.ElicitResult(action="accept", content={"language": "Dutch"})

    async with Client(url, mode=mode, elicitation_callback=answer) as client:
        first = await client.list_tools()
        found = await client.call_tool("search_objects", {"query": "brig", "limit": 2})
        booked = await client.call_tool("book_visit", {"date": "2027-03-09", "people": 12})
        given = {"object_id": "TM-1042", "condition": "WORN"}
        reported = await client.call_tool("report_condition", given)
    return first, found, booked, reported


def test_the_official_client_reads_and_books(museum):
    first, found, booked, reported = asyncio.run(visit(f"http://127.0.0.1:{museum.port}/mcp", "auto"))
    assert (len(first.tools), first.tools[0].title) == (5, "Search the collection")
    assert found.structured_content["total"] > 2
    assert booked.structured_content["guide_language"] == "Dutch"
    assert not reported.is_error


def test_the_official_client_of_old_does_too(museum):
    first, found, booked, _ = asyncio.run(visit(f"http://127.0.0.1:{museum.port}/mcp", "legacy"))
    assert len(first.tools) == 5
    assert not found.is_error
    assert booked.is_error
