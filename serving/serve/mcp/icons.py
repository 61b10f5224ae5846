"""Icons of tools whose vendors speak MCP, as far as a client may be handed them.

A release holds one address for each tool, which is all that other formats have a place for. All icons are in
the version of the tool, which never changes, so they are as much of the release.

https://modelcontextprotocol.io/specification/2026-07-28/basic/index
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from catalog.models import ToolVersion
from designer.exports import schema
from designer.exports.document import ReleasedTool
from protocols.mcp.client import MCP
from protocols.mcp.icons import MAX_ICON_LENGTH

MAX_ICONS = 10
MAX_LENGTH = 64 * 1024  # of all addresses of a tool
# A drawing (SVG) may hold a program. Its address says whose it is; within a reply it would be ours.
_DATA = re.compile(r"data:image/(?:png|jpe?g|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_TYPE = re.compile(r"image/[a-z0-9.+-]{1,60}")
_SIZE = re.compile(r"[1-9][0-9]{0,4}x[1-9][0-9]{0,4}|any")


def of(tools: Iterable[ReleasedTool]) -> dict[str, list[dict[str, Any]]]:
    """By the name of each tool that has any."""
    released = {(tool.id, tool.version.ordinal): tool for tool in tools if tool.protocol == MCP.name}
    if not released:
        return {}
    rows = ToolVersion.objects.filter(tool__in={pk for pk, _ in released})
    rows = rows.filter(ordinal__in={ordinal for _, ordinal in released}).defer("raw")
    told = {}
    for row in rows:
        tool = released.get((row.tool_id, row.ordinal))
        if tool and row.digest == tool.version.digest and (icons := _fit(row.decoded().rest or {})):
            told[tool.signature.name] = icons
    return told


def _fit(rest: Mapping[str, Any]) -> list[dict[str, Any]]:
    icons: list[dict[str, Any]] = []
    length = 0
    listed = rest.get("icons")
    for each in listed if isinstance(listed, list) else []:
        src = each.get("src") if isinstance(each, dict) else None
        if not isinstance(src, str) or len(src) > MAX_ICON_LENGTH:
            continue
        length += len(src)
        if len(icons) == MAX_ICONS or length > MAX_LENGTH:
            break
        if schema.is_web_address(src) or _DATA.fullmatch(src):
            icons.append({"src": src, **_members(each)})
    return icons


def _members(icon: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    kind, sizes, theme = (icon.get(member) for member in ("mimeType", "sizes", "theme"))
    if isinstance(kind, str) and _TYPE.fullmatch(kind):
        said["mimeType"] = kind
    if isinstance(sizes, list):
        known = [size for size in sizes if isinstance(size, str) and _SIZE.fullmatch(size)][:MAX_ICONS]
        said |= {"sizes": known} if known else {}
    if theme in ("light", "dark"):
        said["theme"] = theme
    return said
