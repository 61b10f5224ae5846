"""Pages of a list: `{% page_of rows "changes" as page %}`, then `_numbered_pager.html`."""

import html
from collections.abc import Sequence
from typing import Any

import msgspec
from django import template

from core import fitted_pages, numbered_pages
from core.invisible_characters import HIDDEN
from core.numbered_pages import PAGE_SIZE, NumberedPage

register = template.Library()


@register.simple_tag(takes_context=True)
def page_of(
    context: template.Context, rows: Sequence[Any], name: str, size: int = PAGE_SIZE
) -> NumberedPage[Any]:
    """Return the page of these rows that the query parameter `name` of the address selects."""
    query = context["request"].GET
    return numbered_pages.page_of(rows, query.get(name, ""), size=size, name=name)


# Bytes of the markup of a row, of all its texts, and of the chip for an invisible character. Templates cut
# longer texts with `shown_within`.
ROW_BYTES, MAX_ROW_BYTES, CHIP_BYTES = 250, 8_000, 80


@register.simple_tag(takes_context=True)
def fitted_page(
    context: template.Context, rows: Sequence[Any], name: str, max_bytes: int
) -> NumberedPage[Any]:
    """Return the page of these rows, such as inputs, that the query parameter `name` selects. Each page has
    as many rows as fit into `max_bytes`."""
    return fitted_pages.fitted_page_of(
        rows,
        context["request"].GET.get(name, ""),
        count_bytes=count_row_bytes,
        max_bytes=max_bytes,
        name=name,
    )


def count_row_bytes(row: Any) -> int:
    """Return about how many bytes a row with these facts takes on a page."""
    text = msgspec.json.encode(row).decode()
    chip_bytes = CHIP_BYTES * sum(1 for _ in HIDDEN.finditer(text))
    return ROW_BYTES + min(MAX_ROW_BYTES, len(html.escape(text).encode()) + chip_bytes)


@register.simple_tag(takes_context=True)
def page_address(context: template.Context, page: NumberedPage[Any], number: int) -> str:
    """Return the query of the page that begins with this row. A change is open on its own page only."""
    query = context["request"].GET.copy()
    for name in {"change", "parts"} - {page.name} if page.name != "parts" else ():
        query.pop(name, None)
    query[page.name] = str(number)
    return f"?{query.urlencode()}"
