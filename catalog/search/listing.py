"""The tools that somebody asked for, a page at a time: the one function behind the page and REST.

With words the ranking decides, and at most `candidates.MOST` tools are in it; without words the list is
sorted in the database. Both go on from a row and never by an offset, so the last page costs what the
first one costs.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.core import signing
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Left, Lower

from catalog import protocols
from catalog.models import Endpoint, Tool, Vendor
from catalog.models.search_index import SearchLexeme
from catalog.models.tools import ToolStatus
from catalog.search import candidates, fresh
from catalog.search.candidates import Hit, Scope
from people.errors import DomainError

RELEVANCE = "relevance"
SORTS: Mapping[str, Any] = {
    "name": Lower(Left("name", 100)),
    "-changed": F("changed_at"),
    "vendor": Lower("endpoint__vendor__name"),
    "tokens": F("tokens"),
    "-tokens": F("tokens"),
}
SORT_NAMES = (RELEVANCE, *SORTS)
COUNTED = 1_000
LONGEST_QUESTION = 500
TAGS_OFFERED = 40

COLUMNS = {
    "vendor": F("endpoint__vendor__slug"),
    "vendor_name": F("endpoint__vendor__name"),
    "protocol": F("endpoint__protocol"),
    "version": F("current__label"),
    "ordinal": F("current__ordinal"),
}
PLAIN = (
    *("id", "tool_id", "name", "title", "description", "endpoint", "status", "tags", "tokens", "changed_at"),
)


@dataclass(frozen=True, slots=True)
class Query:
    """`vendor` and `protocol` say any of, `tag` all of.

    Unsorted means by relevance, or by name without `q`.
    """

    q: str = ""
    vendor: tuple[str, ...] = ()
    protocol: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    status: str = ""
    endpoint: int | None = None
    sort: str = ""
    limit: int = 50
    cursor: str = ""

    @property
    def order(self) -> str:
        if self.sort in ("", RELEVANCE):
            return RELEVANCE if self.q.strip() else "name"
        return self.sort


@dataclass(frozen=True, slots=True)
class ResultPage:
    """`count` stops at `COUNTED`; `is_more` says that it did. `unmatched` are words that no tool holds."""

    rows: list[dict[str, Any]]
    next: str | None
    previous: str | None
    count: int
    is_more: bool
    unmatched: list[str] = field(default_factory=list)
    repaired: dict[str, str] = field(default_factory=dict)


class _Place(NamedTuple):
    backwards: bool
    key: Any


def search(query: Query) -> ResultPage:
    """Raises DomainError for a filter, a sort or a cursor that is unknown."""
    _check(query)
    scope = Scope(_endpoints(query), query.tag, ToolStatus(query.status) if query.status else None)
    if not query.q.strip():
        return _sorted(query, _in_scope(scope))
    ranking = candidates.rank(query.q[:LONGEST_QUESTION], scope)
    waiting = fresh.hits(query.q[:LONGEST_QUESTION], scope)
    hits = sorted([*ranking.hits, *waiting])
    # What the index does not know may still stand in the tools that wait for it.
    told = {} if waiting else {"unmatched": ranking.unmatched, "repaired": ranking.repaired}
    if query.order == RELEVANCE:
        return _by_relevance(query, hits, **told)
    found = _in_scope(scope).filter(pk__in=[hit.tool for hit in hits])
    return _sorted(query, found, **told)


def _check(query: Query) -> None:
    if query.sort and query.sort not in SORT_NAMES:
        _refuse("sort", f"Sort by one of: {', '.join(SORT_NAMES)}.")
    if query.status and query.status not in ToolStatus.values:
        _refuse("status", f"A tool's status is one of: {', '.join(ToolStatus.values)}.")
    known = dict(protocols.choices())
    if any(name not in known for name in query.protocol):
        _refuse("protocol", f"There are these protocols: {', '.join(known)}.")


def _refuse(name: str, sentence: str) -> None:
    raise DomainError("invalid", "Please correct what is marked.", fields={name: sentence})


def _endpoints(query: Query) -> list[int] | None:
    if not (query.vendor or query.protocol or query.endpoint is not None):
        return None
    vendors = dict(Vendor.objects.live().filter(slug__in=query.vendor).values_list("slug", "pk"))
    if missing := [slug for slug in query.vendor if slug not in vendors]:
        _refuse("vendor", f"There is no vendor “{missing[0][:60]}”.")
    endpoints = Endpoint.objects.live()
    if query.vendor:
        endpoints = endpoints.filter(vendor__in=vendors.values())
    if query.protocol:
        endpoints = endpoints.filter(protocol__in=query.protocol)
    if query.endpoint is not None:
        endpoints = endpoints.filter(pk=query.endpoint)
    return list(endpoints.values_list("pk", flat=True))


def _in_scope(scope: Scope) -> QuerySet[Tool]:
    tools = Tool.objects.filter(endpoint__removed_at=None, endpoint__vendor__removed_at=None)
    if scope.endpoints is not None:
        tools = tools.filter(endpoint__in=scope.endpoints)
    if scope.tags:
        tools = tools.filter(tags__contains=list(scope.tags))
    return tools.filter(status=scope.status) if scope.status else tools


def _by_relevance(query: Query, hits: Sequence[Hit], **told: Any) -> ResultPage:
    place = _read(query)
    start, end = 0, query.limit
    if place and place.backwards:
        end = bisect_left(hits, Hit(*place.key))
        start = max(end - query.limit, 0)
    elif place:
        start = bisect_right(hits, Hit(*place.key))
        end = start + query.limit
    shown = hits[start:end]
    rows = {row["id"]: row for row in _rows(Tool.objects.filter(pk__in=[hit.tool for hit in shown]))}
    return ResultPage(
        [rows[hit.tool] for hit in shown if hit.tool in rows],
        _write(query, shown[-1], backwards=False) if shown and end < len(hits) else None,
        _write(query, shown[0], backwards=True) if shown and start > 0 else None,
        min(len(hits), COUNTED),
        len(hits) >= COUNTED,
        **told,
    )


def _sorted(query: Query, tools: QuerySet[Tool], **told: Any) -> ResultPage:
    order, place = query.order, _read(query)
    backwards = place is not None and place.backwards
    is_falling = order.startswith("-") != backwards
    sign, beyond = ("-", "lt") if is_falling else ("", "gt")
    listed = tools.annotate(place=SORTS[order]).order_by(f"{sign}place", f"{sign}id")
    if place:
        value, pk = place.key
        after = Q(**{f"place__{beyond}": value}) | Q(**{f"id__{beyond}": pk})
        # Says nothing that `after` does not; it is the condition an index can start from.
        listed = listed.filter(after, **{f"place__{beyond}e": value})
    rows = list(_rows(listed, "place")[: query.limit + 1])
    is_more, rows = len(rows) > query.limit, rows[: query.limit]
    if backwards:
        rows.reverse()
    has_next, has_previous = (True, is_more) if backwards else (is_more, place is not None)
    keys = [(row.pop("place"), row["id"]) for row in rows]
    count = tools.order_by()[: COUNTED + 1].count()
    return ResultPage(
        rows,
        _write(query, keys[-1], backwards=False) if keys and has_next else None,
        _write(query, keys[0], backwards=True) if keys and has_previous else None,
        min(count, COUNTED),
        count > COUNTED,
        **told,
    )


def _rows(tools: QuerySet[Tool], *more: str) -> Any:
    """As REST shows them, without making model instances."""
    return tools.values(*PLAIN, *more, **COLUMNS)


def _salt(query: Query) -> str:
    return f"tools:{query.order}"


def _write(query: Query, key: Sequence[Any], *, backwards: bool) -> str:
    parts = [part.isoformat() if hasattr(part, "isoformat") else part for part in key]
    return signing.dumps([backwards, parts], salt=_salt(query))


def _read(query: Query) -> _Place | None:
    """A cursor fits the order it was made for, and no other."""
    if not query.cursor:
        return None
    try:
        return _Place(*signing.loads(query.cursor, salt=_salt(query)))
    except signing.BadSignature as error:
        sentence = "This page is not known any more. Start from the first page."
        raise DomainError("invalid_cursor", sentence) from error


class Choice(NamedTuple):
    value: str
    label: str


def choices() -> dict[str, list[Choice]]:
    """What the list can be narrowed by: live vendors, protocols in use, the tags on most tools, statuses."""
    endpoints = (
        Endpoint.objects.live()
        .order_by("vendor__name")
        .values_list("vendor__slug", "vendor__name", "protocol")
    )
    used = {protocol for _, _, protocol in endpoints}
    return {
        "vendor": [Choice(slug, name) for slug, name in dict.fromkeys((s, n) for s, n, _ in endpoints)],
        "protocol": [Choice(name, label) for name, label in protocols.choices() if name in used],
        "tag": [Choice(tag, tag) for tag in _common_tags()],
        "status": [Choice(value, label) for value, label in ToolStatus.choices],
    }


def _common_tags() -> list[str]:
    held = SearchLexeme.objects.filter(text__gte="#", text__lt="$", found_in__gt=0)
    texts = held.order_by("-found_in", "text").values_list("text", flat=True)[:TAGS_OFFERED]
    return sorted(text.removeprefix("#") for text in texts)
