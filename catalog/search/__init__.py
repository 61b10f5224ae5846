"""Query -> ranked tools, and the index behind it."""

from catalog.search.index import index_pending
from catalog.search.listing import Choice, Query, ResultPage, choices, search

__all__ = ["Choice", "Query", "ResultPage", "choices", "index_pending", "search"]
