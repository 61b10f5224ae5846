"""Configuration of MCP clients for a server: one text to copy for each client."""

import json
from typing import Any

from protocols.server import Snippet

KEY = "PEGBOARD_TOKEN"
_PYTHON_PROGRAM = """\
import asyncio, os
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

async def main():
    headers = {{"Authorization": f"Bearer {{os.environ['{key}']}}"}}
    async with httpx2.AsyncClient(headers=headers, timeout=150) as http:
        server = streamable_http_client("{address}", http_client=http)
        async with Client(server) as client:
            for tool in (await client.list_tools()).tools:
                print(tool.name)

asyncio.run(main())
"""


def build_snippets(address: str, agent: str) -> list[Snippet]:
    """Return the texts. agent: the name of the server in the client."""
    line = f'claude mcp add --transport http {agent} {address} --header "Authorization: Bearer ${KEY}"'
    # The editor asks for the key once, and does not store it in the file.
    key_input = {
        "type": "promptString",
        "id": "pegboard-key",
        "description": "API key of Pegboard",
        "password": True,
    }
    vs_code = {"servers": {agent: _http_server(address, "${input:pegboard-key}")}, "inputs": [key_input]}
    # Such a client starts a program; this one relays its messages. The header is in the environment because
    # some systems split arguments at spaces.
    arguments = ["-y", "mcp-remote", address, "--header", "Authorization:${AUTHORIZATION}"]
    program = {"command": "npx", "args": arguments, "env": {"AUTHORIZATION": "Bearer pgb_…"}}
    programs = {"mcpServers": {agent: program}}
    return [
        Snippet(
            "Cursor",
            "~/.cursor/mcp.json",
            _format_json({"mcpServers": {agent: _http_server(address, f"${{env:{KEY}}}")}}),
        ),
        Snippet("VS Code", ".vscode/mcp.json", _format_json(vs_code)),
        Snippet("Claude Desktop", "claude_desktop_config.json; needs Node.js", _format_json(programs)),
        Snippet("Claude Code", "in a terminal", line),
        Snippet(
            "Other clients", "mcp.json", _format_json({"mcpServers": {agent: _http_server(address, "pgb_…")}})
        ),
        Snippet("Python", "pip install mcp httpx2", _PYTHON_PROGRAM.format(key=KEY, address=address)),
    ]


def _http_server(address: str, key: str) -> dict[str, Any]:
    return {"type": "http", "url": address, "headers": {"Authorization": f"Bearer {key}"}}


def _format_json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)
