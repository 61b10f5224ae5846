"""Query -> ranked tools, and the index behind it."""

from catalog.search.index import index_pending
from catalog.search.listing import Query, ResultPage, choices, search
from catalog.search.segments import read_again

__all__ = ["Query", "ResultPage", "choices", "index_pending", "read_again", "search"]
