"""Icons of tools whose vendors speak MCP, limited to those that are safe to pass on to a client.

A release contains one icon address per tool, because other formats have room for one only. The others are
read from the version of the tool. A version never changes, so the icons of a release do not change either.

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
# An SVG drawing may contain a script. As a link it is loaded from its vendor; as data it would come from
# Pegboard.
_DATA = re.compile(r"data:image/(?:png|jpe?g|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_TYPE = re.compile(r"image/[a-z0-9.+-]{1,60}")
_SIZE = re.compile(r"[1-9][0-9]{0,4}x[1-9][0-9]{0,4}|any")


def icons_by_tool(tools: Iterable[ReleasedTool]) -> dict[str, list[dict[str, Any]]]:
    """Return the icons by name of the tool. Tools without icons are left out."""
    released = {(tool.id, tool.version.ordinal): tool for tool in tools if tool.protocol == MCP.name}
    if not released:
        return {}
    rows = ToolVersion.objects.filter(tool__in={pk for pk, _ in released})
    rows = rows.filter(ordinal__in={ordinal for _, ordinal in released}).defer("raw")
    icons_by_name = {}
    for row in rows:
        tool = released.get((row.tool_id, row.ordinal))
        if tool and row.digest == tool.version.digest and (icons := _valid_icons(row.decoded().rest or {})):
            icons_by_name[tool.signature.name] = icons
    return icons_by_name


def _valid_icons(document_rest: Mapping[str, Any]) -> list[dict[str, Any]]:
    icons: list[dict[str, Any]] = []
    length = 0
    vendor_icons = document_rest.get("icons")
    for icon in vendor_icons if isinstance(vendor_icons, list) else []:
        src = icon.get("src") if isinstance(icon, dict) else None
        if not isinstance(src, str) or len(src) > MAX_ICON_LENGTH:
            continue
        length += len(src)
        if len(icons) == MAX_ICONS or length > MAX_LENGTH:
            break
        if schema.is_web_address(src) or _DATA.fullmatch(src):
            members: dict[str, Any] = {}
            kind, sizes, theme = (icon.get(member) for member in ("mimeType", "sizes", "theme"))
            if isinstance(kind, str) and _TYPE.fullmatch(kind):
                members["mimeType"] = kind
            if isinstance(sizes, list):
                valid_sizes = [size for size in sizes if isinstance(size, str) and _SIZE.fullmatch(size)]
                members |= {"sizes": valid_sizes[:MAX_ICONS]} if valid_sizes else {}
            if theme in ("light", "dark"):
                members["theme"] = theme
            icons.append({"src": src, **members})
    return icons
