"""Lists of tools as each protocol writes them, whole and well.

A dialect knows the shape of one item and of one page, and where an item keeps its name, its words, its
version and its schema, so that one behaviour can be tried on all of them.
"""

import copy
import json
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests import vendor
from tests.hostile_vendor import Request

Document = dict[str, Any]
PAGE = 2


def schema(**properties: Any) -> Document:
    schema_properties = properties or {"city": {"type": "string", "description": "A city"}}
    return {"type": "object", "properties": schema_properties}


class Dialect:
    """`page` is a whole reply; `cursor_of` returns the page that a request asks for ("" is the first)."""

    name: ClassVar[str]
    is_paged: ClassVar[bool]
    has_versions: ClassVar[bool]
    id_member: ClassVar[str]
    list_path: ClassVar[str]
    settings: ClassVar[Document] = {}

    @property
    def root(self) -> str:
        return f"/{self.name}"

    def is_list(self, request: Request) -> bool:
        return request.path == self.root + self.list_path

    def tool(self, number: int) -> Document:
        raise NotImplementedError

    def page(self, items: Sequence[Any], after: str | None, request: Request) -> Any:
        raise NotImplementedError

    def cursor_of(self, request: Request) -> str:
        return ""

    def items_in(self, page: Any) -> list[Any]:
        """The list inside a page, to be changed in place."""
        raise NotImplementedError

    def follow(self, page: Any, cursor: object) -> Any:
        """The page with another cursor after it."""
        raise NotImplementedError

    def extra_reply(self, request: Request, tools: Sequence[Any]) -> Any | None:
        """Return the reply to a request outside of the list; None if the protocol has none."""
        return None

    def id_of(self, tool: Document) -> Any:
        return tool[self.id_member]

    def described(self, tool: Document, words: str) -> Document:
        return tool | {"description": words}

    def with_name(self, tool: Document, name: Any) -> Document:
        return tool | {"name": name}

    def identified(self, tool: Document, tool_id: Any) -> Document:
        return tool | {self.id_member: tool_id}

    def versioned(self, tool: Document, version: Any) -> Document:
        return tool | {"version": version}

    def taking(self, tool: Document, inputs: Any) -> Document:
        """Return the item with these inputs, a JSON Schema."""
        raise NotImplementedError


class A2T(Dialect):
    name, is_paged, has_versions, id_member, list_path = "a2t", True, True, "toolId", "/tools"

    def tool(self, number: int) -> Document:
        return vendor.tool(number)

    def page(self, items: Sequence[Any], after: str | None, request: Request) -> Any:
        paging: Document = {"pageLimit": PAGE} | ({"next": after} if after is not None else {})
        return {"items": list(items), "paging": paging}

    def cursor_of(self, request: Request) -> str:
        return parse_qs(urlsplit(request.target).query).get("pageCursor", [""])[0]

    def items_in(self, page: Any) -> list[Any]:
        return page["items"]

    def follow(self, page: Any, cursor: object) -> Any:
        return page | {"paging": {"next": cursor}}

    def versioned(self, tool: Document, version: Any) -> Document:
        return tool | {"version": version, "currentVersion": version}

    def taking(self, tool: Document, inputs: Any) -> Document:
        parameters = [
            {"id": name, "name": name, "type": "string", "description": "One"}
            for name in inputs["properties"]
        ]
        return tool | {"input_parameters": parameters}


class OXP(Dialect):
    name, is_paged, has_versions, id_member, list_path = "oxp", False, True, "id", "/tools"

    def tool(self, number: int) -> Document:
        return {
            "id": f"Kit.tool_{number}",
            "name": f"tool_{number}",
            "description": f"Does thing {number}.",
            "version": "1.0.0",
            "input_schema": schema(),
            "output_schema": {"type": "string"},
        }

    def page(self, items: Sequence[Any], after: str | None, request: Request) -> Any:
        return {"items": list(items)}

    def items_in(self, page: Any) -> list[Any]:
        return page["items"]

    def versioned(self, tool: Document, version: Any) -> Document:
        return tool | {"version": f"{version}.0.0" if type(version) is int and version > 0 else version}

    def taking(self, tool: Document, inputs: Any) -> Document:
        return tool | {"input_schema": inputs}


class MCP(Dialect):
    """Revision 2026-07-28, where every request is independent."""

    name, is_paged, has_versions, id_member, list_path = "mcp", True, False, "name", ""

    def tool(self, number: int) -> Document:
        return {
            "name": f"tool_{number}",
            "title": f"Tool {number}",
            "description": f"Does thing {number}.",
            "inputSchema": schema(),
        }

    def page(self, items: Sequence[Any], after: str | None, request: Request) -> Any:
        result: Document = {"tools": list(items)} | ({"nextCursor": after} if after is not None else {})
        return {"jsonrpc": "2.0", "id": number_of(request), "result": result}

    def cursor_of(self, request: Request) -> str:
        return request.json()["params"].get("cursor", "")

    def items_in(self, page: Any) -> list[Any]:
        return page["result"]["tools"]

    def follow(self, page: Any, cursor: object) -> Any:
        return page | {"result": page["result"] | {"nextCursor": cursor}}

    def taking(self, tool: Document, inputs: Any) -> Document:
        return tool | {"inputSchema": inputs}


class ACP(Dialect):
    """`tool` is the descriptor with the agent's id beside it."""

    name, is_paged, has_versions, id_member, list_path = "acp", True, True, "agent_id", "/agents/search"
    settings = {"page_size": PAGE}

    def tool(self, number: int) -> Document:
        return {
            "agent_id": vendor.tool(number)["toolId"],
            "metadata": {
                "ref": {"name": f"agent_{number}", "version": "1.0.0"},
                "description": f"Does thing {number}.",
            },
            "specs": {"capabilities": {}, "input": schema(), "output": {"type": "object"}},
        }

    def page(self, items: Sequence[Any], after: str | None, request: Request) -> Any:
        return [
            {member: item[member] for member in ("agent_id", "metadata") if member in item}
            if isinstance(item, dict)
            else item
            for item in items
        ]

    def cursor_of(self, request: Request) -> str:
        return str(request.json().get("offset") or "")

    def items_in(self, page: Any) -> list[Any]:
        return page

    def extra_reply(self, request: Request, tools: Sequence[Any]) -> Any | None:
        _, _, remainder = request.path.partition("/agents/")
        agent_id, _, what = remainder.partition("/")
        matching_tools = [
            tool for tool in tools if isinstance(tool, dict) and tool.get("agent_id") == agent_id
        ]
        if what != "descriptor" or not matching_tools:
            return None
        return {member: value for member, value in matching_tools[0].items() if member != "agent_id"}

    def described(self, tool: Document, words: str) -> Document:
        return tool | {"metadata": tool["metadata"] | {"description": words}}

    def with_name(self, tool: Document, name: Any) -> Document:
        metadata = tool["metadata"]
        return tool | {"metadata": metadata | {"ref": metadata["ref"] | {"name": name}}}

    def versioned(self, tool: Document, version: Any) -> Document:
        version_text = f"{version}.0.0" if type(version) is int and version > 0 else version
        metadata = tool["metadata"]
        return tool | {"metadata": metadata | {"ref": metadata["ref"] | {"version": version_text}}}

    def taking(self, tool: Document, inputs: Any) -> Document:
        return tool | {"specs": tool["specs"] | {"input": inputs}}


class OpenApi(Dialect):
    """`tool` is an operation; its path goes by its id."""

    name, is_paged, has_versions, id_member, list_path = (
        "openapi",
        False,
        False,
        "operationId",
        "/openapi.json",
    )

    @property
    def root(self) -> str:
        return "/openapi"

    def tool(self, number: int) -> Document:
        return {
            "operationId": f"tool_{number}",
            "summary": f"Thing {number}",
            "description": f"Does thing {number}.",
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema()}}},
            "responses": {"200": {"description": "Good"}},
        }

    def page(self, items: Sequence[Any], after: str | None, request: Request) -> Any:
        paths = {f"/things/{number}": {"post": item} for number, item in enumerate(items)}
        return {"openapi": "3.1.0", "info": {"title": "Things", "version": "1"}, "paths": paths}

    def items_in(self, page: Any) -> list[Any]:
        return [item["post"] for item in page["paths"].values()]

    def with_name(self, tool: Document, name: Any) -> Document:
        return tool | {"operationId": name}

    def taking(self, tool: Document, inputs: Any) -> Document:
        body = {"required": True, "content": {"application/json": {"schema": inputs}}}
        return tool | {"requestBody": body}


DIALECTS = {dialect.name: dialect for dialect in (A2T(), OXP(), MCP(), ACP(), OpenApi())}


def number_of(request: Request) -> Any:
    return request.json().get("id")


def altered(document: Any) -> Any:
    """A copy to change in place."""
    return copy.deepcopy(document)


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()
