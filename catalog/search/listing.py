"""The tools that a user or a program asked for, a page at a time: the one function behind the page and REST.

With words the ranking decides, and at most `candidates.MAX_CANDIDATES` tools are in it; without words the
list is sorted in the database. Both go on from a row and never by an offset, so the last page costs what
the first one costs.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
from django.core import signing
from django.db.models import Case, F, Func, TextField, When

from catalog.models import Tool
from catalog.models.tools import version_name
from catalog.search import candidates, changes, fresh, index, meanings, orders, variants, word_lists
from catalog.search.candidates import Hit, Ranking
from catalog.search.facet_counts import Matches, count_matches, count_tools, tools_in
from catalog.search.job_words import JobWords, shipped_job_words
from catalog.search.scope import Scope
from catalog.search.tool_query import BY_USE, MAX_QUESTION_LENGTH, RELEVANCE, Query, check, scope_of
from catalog.search.word_groups import current_job_words
from catalog.tools import effective_texts
from core.compiled_queries import CompiledQuery, named_keys
from core.consistent_read import one_moment
from core.content_cache import ContentCache
from core.errors import DomainError
from protocols.signature import Annotations, Signature

# So many tools are read from the index at once; of more, the list is walked in steps.
FEW_TOOLS, WALK_STEP = 10_000, 500

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
    "language": F("texts__language"),
    # Nothing of it was let through so far: it is held for review, or blocked.
    "is_stopped": Case(When(stopped=F("current"), then=True), default=False),
}
PLAIN = (
    *("id", "tool_id", "kind", "name", "title", "description", "endpoint", "status", "tags", "tokens"),
    *("is_tuned", "changed_at"),
)


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A page of tools.

    count: how many tools the query matches.
    row_count: how many rows these are, the same tool at several endpoints being one; None if not counted.
    is_more: only the best of them are listed.
    matches: what the question matched, for counts of facets; None without a question.
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
    matches: Matches | None = None
    row_count: int | None = None

    @property
    def has_matched_words(self) -> bool:
        """Return whether a row has a word of the question. A row that is not explained was found by words."""
        reasons = [row["why"] for row in self.rows]
        return any(why is None or why.name or why.words or why.job_words for why in reasons)


class FirstTools(NamedTuple):
    """The first tools for a text. fits_badly: nothing that was found answers it well."""

    rows: list[dict[str, Any]]
    fits_badly: bool


class FirstMatches(NamedTuple):
    """The result of one search: ids of tools, and whether their meanings were compared."""

    tools: tuple[int, ...]
    fits_badly: bool
    is_by_meaning: bool


@dataclass(frozen=True, slots=True)
class _SearchState:
    """All that decides what a text finds, beside its filters.

    index: the state of the index. recipe: a digest of the everyday words. meanings: the state of the vectors,
    "" where none are compared. is_current: the index lacks no change of the catalog.
    """

    index: str
    recipe: str
    meanings: str
    is_current: bool

    @classmethod
    def read(cls) -> "_SearchState":
        """Return the state of now."""
        state = index.index_state()
        is_current = bool(state and state.filled_through is None and not changes.count_changes(state, 1))
        stored = meanings.read_stored_state() if meanings.is_compared() else None
        vectors = f"{stored.recipe} {stored.state}" if stored and not stored.trouble else ""
        return cls(state.dump() if state else "", index.current_recipe(), vectors, is_current)


# Of some hundred sentences, the few tools that a page proposes.
_first_matches: ContentCache[FirstMatches] = ContentCache(500)


class _RankedTools(NamedTuple):
    """The tools for a question by their ids, best first.

    waiting_count: how many of them the index does not have yet.
    """

    ranking: Ranking
    best: dict[int, Hit]
    waiting_count: int

    @property
    def fits_badly(self) -> bool:
        return not self.waiting_count and self.ranking.fits_badly


class _Place(NamedTuple):
    backwards: bool
    key: Any


def search(query: Query, *, with_facets: bool = False) -> ResultPage:
    """Search tools. Raises DomainError for an unknown filter, sort or cursor.

    with_facets: the caller counts the facets next.
    """
    check(query)
    job_words = _read_job_words() if query.q.strip() else shipped_job_words()
    with one_moment():
        scope = scope_of(query)
        is_folded = query.is_folded and query.order != BY_USE
        folded = variants.fold(scope) if is_folded else scope
        page = _find_page(query, scope, folded, job_words, with_facets=with_facets)
        variants_by_tool = variants.find_variants([row["id"] for row in page.rows], folded)
    for row in page.rows:
        row["variants"] = [variant._asdict() for variant in variants_by_tool.get(row["id"], ())]
    return page


def find_first_tools(texts: Sequence[str], query: Query) -> list[FirstTools]:
    """Return the first tools for each text, with the filters of the query, all as of one moment.

    Each text is searched once until the catalog changes.
    """
    check(query)
    job_words = _read_job_words()
    with one_moment():
        state, scope = _SearchState.read(), scope_of(query)

        def find_matches(text: str) -> FirstMatches:
            limit = candidates.EXACT if query.limit < candidates.EXACT else candidates.MAX_CANDIDATES
            ranked = _rank(replace(query, q=text), scope, limit, job_words, is_current=state.is_current)
            tools = list(ranked.best)[: query.limit]
            reasons = map(ranked.ranking.explain, tools)
            is_by_meaning = any(reason and reason.meaning is not None for reason in reasons)
            return FirstMatches(tuple(tools), ranked.fits_badly, is_by_meaning)

        matches = [
            _first_matches.get(
                (text, query.limit, scope.key, state),
                partial(find_matches, text),
                # A model of meanings that did not answer in time may answer the next time.
                is_kept=lambda match: state.is_current and match.is_by_meaning == bool(state.meanings),
            )
            for text in texts
        ]
        rows = {row["id"]: row for row in _rows(list({tool for match in matches for tool in match.tools}))}
    return [
        FirstTools([rows[tool] for tool in match.tools if tool in rows], match.fits_badly)
        for match in matches
    ]


def _read_job_words() -> JobWords:
    # Not in the transaction, which the database ends when it is idle for long.
    word_lists.load()
    return current_job_words()


def _find_page(
    query: Query, scope: Scope, folded: Scope, job_words: JobWords, *, with_facets: bool
) -> ResultPage:
    """Return a page of the tools of the scope, listed as `folded` has them."""
    if not query.q.strip():
        count = count_tools(scope)
        return _sorted(query, folded, count, row_count=variants.count_rows(folded, count))
    place = _read(query)
    shown_count = place.key[-1] if place and query.order == RELEVANCE else 0
    # How many rows the candidates are is known only after folding.
    is_near = (
        query.order == RELEVANCE and shown_count + query.limit < candidates.EXACT and not folded.is_folded
    )
    limit = candidates.EXACT if is_near else candidates.MAX_CANDIDATES

    def count_early(stems: frozenset[str]) -> None:
        count_matches(scope, Matches(stems, frozenset()), with_labels=with_facets)

    ranking, best, waiting_count = ranked = _rank(query, scope, limit, job_words, count_early=count_early)
    # What the index does not know may still stand in the tools that wait for it.
    page_details: dict[str, Any] = (
        {} if waiting_count else {"unmatched": ranking.unmatched, "repaired": ranking.repaired}
    )
    page_details["matched_stems"] = ranking.stems
    page_details["fits_badly"] = ranked.fits_badly
    matches = page_details["matches"] = Matches(frozenset(ranking.weights), best.keys(), ranking.leaders)
    count = len(best)
    if len(ranking.hits) >= limit:
        count = max(count, count_matches(scope, matches, with_labels=with_facets))
    first = variants.first_variants(list(best), folded)
    page_details["row_count"] = len(first) if count == len(best) else None
    if query.order == RELEVANCE:
        page = _by_relevance(query, place, [best[tool] for tool in first], count, **page_details)
    else:
        page = _sorted(query, scope.among_only(first), count, **page_details)
    for row in page.rows:
        row["why"] = ranking.explain(row["id"])
    return page


def _rank(
    query: Query,
    scope: Scope,
    limit: int,
    job_words: JobWords,
    *,
    is_current: bool = False,
    count_early: Callable[[frozenset[str]], object] | None = None,
) -> _RankedTools:
    """Rank tools for the question. is_current: the index lacks no change of the catalog.

    count_early: as for `candidates.rank`.
    """
    text = query.q[:MAX_QUESTION_LENGTH]
    ranking, state = index.read(
        lambda reader: candidates.rank(
            text,
            scope,
            reader,
            limit,
            job_words=job_words,
            as_typed=query.as_typed,
            count_early=count_early,
        ),
        Ranking(),
    )
    # Only the index knows the labels of tools.
    waiting = [] if is_current or scope.has_labels else fresh.hits(text, scope, state)
    # Best first. A tool whose new version waits for the index may have been found by its old words too.
    best: dict[int, Hit] = {}
    for hit in sorted([*ranking.hits, *waiting]):
        best.setdefault(hit.tool, hit)
    return _RankedTools(ranking, best, len(waiting))


def _by_relevance(
    query: Query, place: _Place | None, hits: Sequence[Hit], count: int, **told: Any
) -> ResultPage:
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
    page_hits = hits[start:end]
    return ResultPage(
        _rows([hit.tool for hit in page_hits]),
        _write(query, [*page_hits[-1], end], backwards=False) if page_hits and end < len(hits) else None,
        _write(query, [*page_hits[0], start], backwards=True) if page_hits and start > 0 else None,
        count,
        count > candidates.MAX_CANDIDATES,
        **told,
    )


def _sorted(query: Query, scope: Scope, count: int, **told: Any) -> ResultPage:
    place = _read(query)
    backwards = place is not None and place.backwards
    keys = _next_keys(query, scope, place, query.limit + 1, backwards=backwards)
    is_more, keys = len(keys) > query.limit, keys[: query.limit]
    if backwards:
        keys.reverse()
    has_next, has_previous = (True, is_more) if backwards else (is_more, place is not None)
    return ResultPage(
        _rows([key.tool for key in keys]),
        _write(query, keys[-1], backwards=False) if keys and has_next else None,
        _write(query, keys[0], backwards=True) if keys and has_previous else None,
        count,
        "matches" in told and count > candidates.MAX_CANDIDATES,
        **told,
    )


def _next_keys(
    query: Query, scope: Scope, place: _Place | None, limit: int, *, backwards: bool
) -> list[orders.Key]:
    """Return the next keys after a place, also of a scope with labels, which only the index knows."""
    if scope.has_labels:
        if count_tools(scope) > FEW_TOOLS:
            # Go through the tools in their order, and keep those that have the labels: many of them do.
            labelled_keys: list[orders.Key] = []
            after: Sequence[Any] | None = place and place.key
            while len(labelled_keys) < limit:
                keys = _keys(query, scope, after, WALK_STEP, backwards=backwards)
                if not keys:
                    break
                labelled = set(tools_in(scope.among_only([key.tool for key in keys]), WALK_STEP))
                labelled_keys += [key for key in keys if key.tool in labelled]
                after = keys[-1]
            return labelled_keys[:limit]
        scope = scope.among_only(tools_in(scope, FEW_TOOLS))
    return _keys(query, scope, place and place.key, limit, backwards=backwards)


def _keys(
    query: Query, scope: Scope, after: Sequence[Any] | None, limit: int, *, backwards: bool
) -> list[orders.Key]:
    if query.order == BY_USE:
        return orders.keys_by_use(query.use_counts, scope, after, limit, backwards=backwards)
    return orders.keys(query.order, scope, after, limit, backwards=backwards)


def _rows(tools: Sequence[int]) -> list[dict[str, Any]]:
    """Return the rows in the order of `tools`, with the members of REST. It builds no model instances."""
    rows: dict[int, dict[str, Any]] = {}
    stated: dict[int, Annotations] = {}
    for row in _TOOL_ROWS.rows(tools=list(tools)):
        rewrite, last_seen_at = row.pop("_rewrite"), row.pop("_seen")
        name = version_name(row["version"], rewrite, last_seen_at) if last_seen_at else ""
        stated[row["id"]] = msgspec.json.decode(row.pop("_annotations") or "{}", type=Annotations)
        rows[row["id"]] = row | {"version_name": name}
    rewrites = effective_texts.rewrites([tool for tool, row in rows.items() if row["is_tuned"]])
    for tool, row in rows.items():
        annotations = stated[tool]
        if tool in rewrites:
            # Words about an effect do not depend on what else a version holds.
            bare = Signature(name="", description="", annotations=annotations)
            annotations = rewrites[tool].reword(bare).annotations
        row["effect"] = annotations.effect
        row["why"] = None
    return [rows[tool] for tool in tools if tool in rows]


_TOOL_ROWS: CompiledQuery[dict[str, Any]] = CompiledQuery(
    lambda: Tool.objects.filter(pk__in=named_keys("tools")).values(*PLAIN, **COLUMNS)
)


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
