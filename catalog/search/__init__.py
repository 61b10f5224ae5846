"""Query -> ranked tools, and the index behind it."""

from catalog.search.facets import FacetValue, count_facets
from catalog.search.index import index_pending
from catalog.search.listing import ResultPage, search
from catalog.search.tool_query import Query

__all__ = ["FacetValue", "Query", "ResultPage", "count_facets", "index_pending", "search"]
