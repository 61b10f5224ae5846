"""Records searches without the people who made them, and finds the needs that no vendor meets.

A record has the day and the words, and no more: addresses and long numbers are taken out of the words.
"""

import logging
import re
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, F, Max, Min, Sum
from django.utils import timezone

from catalog.models import RecordedSearch, SearchChoice, Tool
from catalog.models.tools import ToolStatus
from catalog.search import index
from catalog.search.engines import IndexUnusableError
from catalog.search.listing import search
from catalog.search.tool_query import Query
from core import portions

logger = logging.getLogger(__name__)

MAX_LENGTH = 200
# How many needs one hour looks for an answer to.
_CHECKED = 200
_PERSONAL = re.compile(r"\S*@\S*|https?://\S*|\+?\d[\d ()./-]{4,}\d")


def normalize_words(text: str) -> str:
    """Return the words to record: in small letters, without what may name a person."""
    return " ".join(_PERSONAL.sub(" ", text.replace("\0", " ")).lower().split())[:MAX_LENGTH].strip()


def record_search(text: str, *, is_unmet: bool) -> None:
    words = normalize_words(text)
    if not words or not settings.KEEP_SEARCHES_DAYS:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO catalog_recordedsearch AS r (day, words, asked, unmet) VALUES (%s, %s, 1, %s)
            ON CONFLICT (day, words) DO UPDATE SET asked = r.asked + 1, unmet = r.unmet + excluded.unmet
            """,
            [timezone.now().date(), words, int(is_unmet)],
        )


def record_choice(text: str, tools: Sequence[int], *, is_pinned: bool = False) -> None:
    """Record that these tools were opened, or pinned, after a search."""
    words = normalize_words(text)
    if not words or not settings.KEEP_SEARCHES_DAYS:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO catalog_searchchoice AS c (day, words, tool_id, opened, pinned)
            SELECT %s, %s, id, %s, %s FROM catalog_tool WHERE id = ANY(%s)
            ON CONFLICT (day, words, tool_id) DO UPDATE
            SET opened = c.opened + excluded.opened, pinned = c.pinned + excluded.pinned
            """,
            [timezone.now().date(), words, int(not is_pinned), int(is_pinned), list(tools)],
        )


def unmet_needs(limit: int) -> list[dict[str, Any]]:
    """Return the words without a good fit: those without a vendor first, the most searched first."""
    rows = RecordedSearch.objects.filter(unmet__gt=0).values("words")
    counted = rows.annotate(
        searches=Sum("unmet"),
        days=Count("id"),
        first=Min("day"),
        last=Max("day"),
        vendor_slug=Max("vendor__slug"),
        vendor_name=Max("vendor__name"),
    )
    ordered = counted.order_by(F("vendor_slug").asc(nulls_first=True), "-searches", "words")
    return [dict(row) for row in ordered[:limit]]


def find_answers() -> int:
    """Search again for needs without a vendor; name the vendor of the first tool that fits by now.

    Returns how many records have an answer now. A worker in a container of its own has an index of its own,
    which may take several of these calls to be complete.
    """
    ends = time.monotonic() + portions.SECONDS
    try:
        index.index_pending(ends=ends)
    except IndexUnusableError:
        logger.warning("Unmet needs are not answered: the search index cannot be written", exc_info=True)
        return 0
    state = index.index_state()
    if state is None or state.filled_through is not None:
        return 0
    open_needs = RecordedSearch.objects.filter(unmet__gt=0, vendor=None)
    words = open_needs.values("words").annotate(last=Max("day")).order_by("-last", "words")
    answered = 0
    for need in words[:_CHECKED]:
        page = search(Query(q=need["words"], status=(ToolStatus.ACTIVE,), limit=1))
        if page.rows and not page.fits_badly:
            tool = Tool.objects.select_related("endpoint").get(pk=page.rows[0]["id"])
            answered += open_needs.filter(words=need["words"]).update(vendor=tool.endpoint.vendor_id)
    return answered


def delete_old() -> int:
    """Delete what is older than it is kept."""
    oldest = timezone.now().date() - timedelta(days=settings.KEEP_SEARCHES_DAYS)
    deleted = 0
    for model in (RecordedSearch, SearchChoice):
        count, _ = model.objects.filter(day__lt=oldest).delete()
        deleted += count
    return deleted
