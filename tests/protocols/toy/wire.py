from typing import Any
from urllib.parse import quote

LIST = "/catalog.json"
# The status of a call that failed behind the server.
FAILED = 424


def tool_path(tool_id: str) -> str:
    return f"{LIST}/{quote(tool_id, safe='')}"


def run_path(tool_id: str) -> str:
    return f"/run/{quote(tool_id, safe='')}"


def page(tools: list[Any], more: str | None = None) -> dict[str, Any]:
    return {"tools": tools} | ({"more": more} if more else {})
