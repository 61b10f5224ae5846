"""Pages of a list: `{% page_of rows "changes" as page %}`, then `_numbered_pager.html`."""

from collections.abc import Sequence
from typing import Any

from django import template

from core import numbered_pages
from core.numbered_pages import PAGE_SIZE, NumberedPage

register = template.Library()


@register.simple_tag(takes_context=True)
def page_of(
    context: template.Context, rows: Sequence[Any], name: str, size: int = PAGE_SIZE
) -> NumberedPage[Any]:
    """Return the page of these rows that the query parameter `name` of the address selects."""
    query = context["request"].GET
    return numbered_pages.page_of(rows, query.get(name, ""), size=size, name=name)


@register.simple_tag(takes_context=True)
def page_address(context: template.Context, page: NumberedPage[Any], number: int) -> str:
    """Return the query of the page that begins with this row. A change is open on its own page only."""
    query = context["request"].GET.copy()
    for name in {"change", "parts"} - {page.name} if page.name != "parts" else ():
        query.pop(name, None)
    query[page.name] = str(number)
    return f"?{query.urlencode()}"
