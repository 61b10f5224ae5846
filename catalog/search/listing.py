"""The tools that a user or a program asked for, a page at a time: the one function behind the page and REST.

With words the ranking decides, and at most `candidates.MAX_CANDIDATES` tools are in it; without words the
list is sorted in the database. Both go on from a row and never by an offset, so the last page costs what
the first one costs.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import msgspec
from django.core import signing
from django.db.models import Case, F, Func, TextField, When

import protocols
from catalog.models import Endpoint, Tool, Vendor
from catalog.models.tools import ItemKind, ToolStatus
from catalog.rules.version_names import version_name
from catalog.search import candidates, fresh, index, orders, question, word_lists
from catalog.search.candidates import Hit, Ranking
from catalog.search.job_words import shipped_job_words
from catalog.search.scope import Scope
from catalog.tools import effective_texts
from core.compiled_queries import CompiledQuery, given_keys
from core.consistent_read import one_moment
from core.errors import DomainError, invalid
from protocols.signature import Annotations, Signature

RELEVANCE = "relevance"
SORT_NAMES = (RELEVANCE, *orders.SORTS)
# Counting stops here; with words, where the exact ranking ends.
COUNTED = 1_000
MAX_QUESTION_LENGTH = question.MAX_LENGTH
TAGS_OFFERED = 40
ANY_KIND = "any"

COLUMNS = {
    "vendor": F("endpoint__vendor__slug"),
    "vendor_name": F("endpoint__vendor__name"),
    "protocol": F("endpoint__protocol"),
    "version": F("current__label"),
    "ordinal": F("current__ordinal"),
    "_rewrite": F("current__rewrite"),
    "_seen": F("current__first_seen_at"),
    # Of the rows that are shown only: PostgreSQL reads the member, and nothing else is sent.
    "_annotations": Func(
        F("current__signature"),
        template="((%(expressions)s)::json -> 'annotations')::text",
        output_field=TextField(),
    ),
    # Nothing of it was let through so far: it is held for review, or blocked.
    "is_stopped": Case(When(stopped=F("current"), then=True), default=False),
}
PLAIN = (
    *("id", "tool_id", "kind", "name", "title", "description", "endpoint", "status", "tags", "tokens"),
    *("is_tuned", "changed_at"),
)


def asked_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of items that a query names: tools where it names none, all for `any`."""
    if ANY_KIND in names:
        return ()
    return tuple(names) or (ItemKind.TOOL,)


@dataclass(frozen=True, slots=True)
class Query:
    """A tool matches any one of `vendor`, any one of `protocol`, and all of `tag`.

    version: the vendor's own text for the current version.
    kind: the kinds of items; empty for all.
    as_typed: no word is repaired.
    sort: if empty, by relevance, or by name when there is no `q`.
    within: the keys of the vendors to search at all, beside what is defined here; None for every vendor.
    """

    q: str = ""
    vendor: tuple[str, ...] = ()
    protocol: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    status: str = ""
    version: str = ""
    kind: tuple[str, ...] = (ItemKind.TOOL,)
    endpoint: int | None = None
    sort: str = ""
    limit: int = 50
    cursor: str = ""
    as_typed: bool = False
    within: frozenset[int] | None = None

    @property
    def order(self) -> str:
        if self.sort in ("", RELEVANCE):
            return RELEVANCE if self.q.strip() else "name"
        return self.sort


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A page of tools.

    is_more: counting stopped at `count`.
    unmatched: words that no tool contains.
    repaired: misspelt words, with the words that were searched instead.
    fits_badly: nothing that was found answers the question well.
    matched_stems: the stems of the words to mark in the rows.
    """

    rows: list[dict[str, Any]]
    next: str | None
    previous: str | None
    count: int
    is_more: bool
    unmatched: list[str] = field(default_factory=list)
    repaired: dict[str, str] = field(default_factory=dict)
    fits_badly: bool = False
    matched_stems: frozenset[str] = frozenset()


class _Place(NamedTuple):
    backwards: bool
    key: Any


def search(query: Query) -> ResultPage:
    """Raises DomainError for a filter, a sort or a cursor that is unknown."""
    _check(query)
    if query.q:
        # Not in the transaction, which the database ends when it is idle for long.
        word_lists.load()
        shipped_job_words()
    with one_moment():
        return _search(query)


def _search(query: Query) -> ResultPage:
    status = ToolStatus(query.status) if query.status else None
    kinds = tuple(ItemKind(kind) for kind in query.kind)
    scope = Scope(_endpoints(query), query.tag, status, version=query.version, kinds=kinds)
    if not query.q.strip():
        return _sorted(query, scope)
    text = query.q[:MAX_QUESTION_LENGTH]
    place = _read(query)
    shown = place.key[-1] if place and query.order == RELEVANCE else 0
    is_near = query.order == RELEVANCE and shown + query.limit < candidates.EXACT
    limit = candidates.EXACT if is_near else candidates.MAX_CANDIDATES
    ranking, state = index.read(
        lambda reader: candidates.rank(text, scope, reader, limit, as_typed=query.as_typed), Ranking()
    )
    waiting = fresh.hits(text, scope, state)
    # Best first. A tool whose new version waits for the index may have been found by its old words too.
    best: dict[int, Hit] = {}
    for hit in sorted([*ranking.hits, *waiting]):
        best.setdefault(hit.tool, hit)
    hits = list(best.values())
    # What the index does not know may still stand in the tools that wait for it.
    told: dict[str, Any] = {} if waiting else {"unmatched": ranking.unmatched, "repaired": ranking.repaired}
    told["matched_stems"] = ranking.stems
    told["fits_badly"] = not waiting and ranking.fits_badly
    if query.order == RELEVANCE:
        page = _by_relevance(query, place, hits, **told)
    else:
        page = _sorted(query, replace(scope, among=[hit.tool for hit in hits]), **told)
    for row in page.rows:
        row["why"] = ranking.explain(row["id"])
    return page


def _check(query: Query) -> None:
    if query.sort and query.sort not in SORT_NAMES:
        _refuse("sort", f"Sort by one of: {', '.join(SORT_NAMES)}.")
    if query.status and query.status not in ToolStatus.values:
        _refuse("status", f"A tool's status is one of: {', '.join(ToolStatus.values)}.")
    if not set(query.kind) <= set(ItemKind.values):
        _refuse("kind", f"There are these kinds: {', '.join(ItemKind.values)}.")
    for name, texts in {"vendor": query.vendor, "tag": query.tag, "version": (query.version,)}.items():
        # PostgreSQL takes no NUL, and UTF-8 no half of a surrogate pair.
        if any("\0" in text or text.encode(errors="ignore").decode() != text for text in texts):
            _refuse(name, "This holds a character that no text here has.")
    known = dict(protocols.choices())
    if any(name not in known for name in query.protocol):
        _refuse("protocol", f"There are these protocols: {', '.join(known)}.")


def _refuse(name: str, sentence: str) -> None:
    raise invalid(**{name: sentence})


def _endpoints(query: Query) -> list[int] | None:
    if not (query.vendor or query.protocol or query.endpoint is not None or query.within is not None):
        return None
    vendors = Vendor.objects.offering()
    if query.vendor:
        vendors = vendors.filter(slug__in=query.vendor)
    rows = vendors.values_list(
        *("pk", "slug", "is_own", "endpoints", "endpoints__protocol", "endpoints__removed_at")
    ).order_by()
    found = list(rows if query.endpoint is None or query.vendor else rows.filter(endpoints=query.endpoint))
    known = {slug for _, slug, *_ in found}
    if missing := [slug for slug in query.vendor if slug not in known]:
        _refuse("vendor", f"There is no vendor “{missing[0][:60]}”.")
    return [
        endpoint
        for vendor, _, is_own, endpoint, protocol, removed_at in found
        if endpoint
        and removed_at is None
        and query.endpoint in (None, endpoint)
        and (query.within is None or is_own or vendor in query.within)
        and (not query.protocol or protocol in query.protocol)
    ]


def _by_relevance(query: Query, place: _Place | None, hits: Sequence[Hit], **told: Any) -> ResultPage:
    # A cursor holds the hit to go on from, and how many come before: that says how deep to rank.
    start, end = 0, query.limit
    if place:
        last = Hit(*place.key[:-1])
        if place.backwards:
            end = bisect_left(hits, last)
            start = max(end - query.limit, 0)
        else:
            start = bisect_right(hits, last)
            end = start + query.limit
    shown = hits[start:end]
    return ResultPage(
        _rows([hit.tool for hit in shown]),
        _write(query, [*shown[-1], end], backwards=False) if shown and end < len(hits) else None,
        _write(query, [*shown[0], start], backwards=True) if shown and start > 0 else None,
        min(len(hits), candidates.EXACT),
        len(hits) >= candidates.EXACT,
        **told,
    )


def _sorted(query: Query, scope: Scope, **told: Any) -> ResultPage:
    place = _read(query)
    backwards = place is not None and place.backwards
    after = place.key if place else None
    keys = orders.keys(query.order, scope, after, query.limit + 1, backwards=backwards)
    is_more, keys = len(keys) > query.limit, keys[: query.limit]
    if backwards:
        keys.reverse()
    has_next, has_previous = (True, is_more) if backwards else (is_more, place is not None)
    count = orders.count(scope, COUNTED + 1)
    return ResultPage(
        _rows([key.tool for key in keys]),
        _write(query, keys[-1], backwards=False) if keys and has_next else None,
        _write(query, keys[0], backwards=True) if keys and has_previous else None,
        min(count, COUNTED),
        count > COUNTED,
        **told,
    )


def _rows(tools: Sequence[int]) -> list[dict[str, Any]]:
    """In the order of `tools`, as REST shows them, without making model instances."""
    rows: dict[int, dict[str, Any]] = {}
    stated: dict[int, Annotations] = {}
    for row in _shown().rows(tools=list(tools)):
        rewrite, seen = row.pop("_rewrite"), row.pop("_seen")
        name = version_name(row["version"], rewrite, seen) if seen else ""
        stated[row["id"]] = msgspec.json.decode(row.pop("_annotations") or "{}", type=Annotations)
        rows[row["id"]] = row | {"version_name": name}
    ours = effective_texts.rewrites([tool for tool, row in rows.items() if row["is_tuned"]])
    for tool, row in rows.items():
        annotations = stated[tool]
        if tool in ours:
            # Words about an effect do not depend on what else a version holds.
            bare = Signature(name="", description="", annotations=annotations)
            annotations = ours[tool].reword(bare).annotations
        row["effect"] = annotations.effect
        row["why"] = None
    return [rows[tool] for tool in tools if tool in rows]


@cache
def _shown() -> CompiledQuery[dict[str, Any]]:
    return CompiledQuery(Tool.objects.filter(pk__in=given_keys("tools")).values(*PLAIN, **COLUMNS))


def _salt(query: Query) -> str:
    return f"tools:{query.order}"


def _write(query: Query, key: Sequence[Any], *, backwards: bool) -> str:
    parts = [part.isoformat() if hasattr(part, "isoformat") else part for part in key]
    return signing.dumps([backwards, parts], salt=_salt(query))


def _read(query: Query) -> _Place | None:
    # The salt makes a cursor fit the order that it was made for, and no other.
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
    endpoints = _used().rows()
    used = {protocol for _, _, protocol in endpoints}
    beside_tools = [Choice(kind.value, f"{kind.label}s") for kind in ItemKind if kind != ItemKind.TOOL]
    return {
        "kind": beside_tools if any(protocols.get(name).offers_context for name in used) else [],
        "vendor": _by_label(Choice(slug, name) for slug, name, _ in endpoints),
        "protocol": [Choice(name, label) for name, label in protocols.choices() if name in used],
        "tag": _by_label(Choice(tag, tag) for tag in _common_tags()),
        "status": [Choice(value, label) for value, label in ToolStatus.choices],
    }


def _by_label(choices: Iterable[Choice]) -> list[Choice]:
    # As a reader looks for a word: capitals make no difference.
    return sorted(set(choices), key=lambda choice: (choice.label.casefold(), choice))


@cache
def _used() -> CompiledQuery[tuple[str, str, str]]:
    used = Endpoint.objects.offering().values_list("vendor__slug", "vendor__name", "protocol")
    return CompiledQuery(used)


def _common_tags() -> list[str]:
    nothing: dict[str, int] = {}
    counts, _ = index.read(lambda reader: reader.facets(("tag",), Scope())["tag"], nothing)
    return sorted(counts, key=lambda tag: (-counts[tag], tag))[:TAGS_OFFERED]
