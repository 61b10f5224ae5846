"""The icon of an MCP tool that suits a page best.

https://modelcontextprotocol.io/specification/2026-07-28/basic/index
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_ICON_LENGTH = 32 * 1024
# Pixels in which Pegboard shows icons: larger ones lose nothing, and smaller ones do.
_SIDE = 96
_SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", re.IGNORECASE)
_RASTER = re.compile(r"image/(?:png|jpe?g|webp|gif)", re.IGNORECASE)
_ENDING = re.compile(r"\.(?:png|jpe?g|webp|gif)(?:[?#]|$)", re.IGNORECASE)
_DRAWING = re.compile(r"image/svg\+xml|\.svg(?:[?#]|$)", re.IGNORECASE)


def best_icon(icons: object) -> str:
    """Return the address of the best icon, "" where there is none. The first one of equals counts.

    A raster image is better than one of unknown type, and both are better than a drawing (SVG). Then an icon
    for every theme is better than one for the light theme, and that better than another. Then the size
    decides: the smallest that is large enough, else the largest.
    """
    usable = [
        icon
        for icon in (icons if isinstance(icons, Sequence) else [])
        if isinstance(icon, Mapping)
        and isinstance(src := icon.get("src"), str)
        and 0 < len(src) <= MAX_ICON_LENGTH
    ]
    return str(min(usable, key=_rank)["src"]) if usable else ""


def _rank(icon: Mapping[str, Any]) -> tuple[int, int, tuple[int, int]]:
    src, mime_type, theme, sizes = (
        str(icon["src"]),
        icon.get("mimeType"),
        icon.get("theme"),
        icon.get("sizes"),
    )
    # An image in its address states its type there.
    stated_type = src[:40] if src[:5].lower() == "data:" else mime_type if isinstance(mime_type, str) else ""
    ending = src if not stated_type else ""
    type_rank = 0 if _RASTER.search(stated_type) or _ENDING.search(ending) else 1
    if _DRAWING.search(stated_type) or _DRAWING.search(ending):
        type_rank = 2
    theme_rank = 0 if theme is None else 1 if theme == "light" else 2
    texts = sizes if isinstance(sizes, list) else sizes.split() if isinstance(sizes, str) else []
    sides = [min(map(int, size.groups())) for text in texts if (size := _SIZE.fullmatch(str(text)))]
    if large := [side for side in sides if side >= _SIDE]:
        return type_rank, theme_rank, (0, min(large))
    # Without a size it may be of any; that is better than one that is known to be small.
    return type_rank, theme_rank, (2, -max(sides)) if sides else (1, 0)
