"""Plug-in point: a search engine is one module here and one line in `ENGINES`.

An engine stores one document per tool, and answers which documents may fit. It knows no ranking of ours:
the caller scores the first candidates itself (`catalog.search.ranking`). An engine may lose everything at
any time; `catalog.search.index` fills it again from PostgreSQL.
"""

from functools import cache
from pathlib import Path

from django.conf import settings

from catalog.search.engines.contract import (
    Candidate,
    Document,
    Engine,
    IndexUnusableError,
    Reader,
    StemCondition,
    Writer,
)
from catalog.search.engines.tantivy_index import TantivyEngine

ENGINES = {"tantivy": TantivyEngine}

__all__ = [
    "Candidate",
    "Document",
    "Engine",
    "IndexUnusableError",
    "Reader",
    "StemCondition",
    "Writer",
    "current_engine",
]


@cache
def current_engine() -> Engine:
    return ENGINES[settings.SEARCH_ENGINE](Path(settings.SEARCH_DIRECTORY))
