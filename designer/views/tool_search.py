"""The search over all tools, as the pages ask for it and offer to narrow it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, QueryDict
from django.urls import reverse

from catalog import search
from catalog.models import ToolPicture
from catalog.models.tools import ItemKind, ToolStatus
from catalog.search import FacetValue, Query, ResultPage, meanings
from catalog.search.candidates import MAX_CANDIDATES
from catalog.search.tool_query import ANY_KIND, asked_kinds
from catalog.views.asked import number
from core.compiled_queries import CompiledQuery, named_keys
from core.errors import DomainError
from designer.agents.agent_vendors import AllowedVendors

EVERYTHING = AllowedVendors()
ANY_STATUS = "any"
FACETS = {
    "vendor": "Vendor",
    "tag": "Tag",
    "effect": "Effect",
    "protocol": "Protocol",
    "requirement": "Needs",
    "used": "Use",
    "changed_since": "Changed in the last",
    "kind": "Kind",
    "status": "Status",
}
FILTER_PARAMETERS = ("q", *FACETS, "version", "endpoint")
# Values of a facet that are shown at once, and behind “more”.
FIRST_VALUES, ALL_VALUES = 6, 18
SORTS = {
    "": "Best match",
    "name": "Name",
    "-used": "Most used",
    "-changed": "Changed lately",
    "vendor": "Vendor",
    "tokens": "Fewest tokens",
    "-tokens": "Most tokens",
}
NOUNS = {kind.value: kind.label.lower() for kind in ItemKind} | {ANY_KIND: "item"}
# Values of a drop-down list.
OFFERED = 40
LABELS = {
    "kind": ("Kind", "Tools"),
    "vendor": ("Vendor", "All vendors"),
    "tag": ("Tag", "All tags"),
    "protocol": ("Protocol", "All protocols"),
}


def search_tools(query: Query) -> tuple[ResultPage, str]:
    if not query.q:
        meanings.prepare()
    try:
        return search.search(query), ""
    except DomainError as error:
        # An old address may refer to something that is gone; then the result is empty, with a reason.
        return ResultPage([], None, None, 0, False), next(iter(error.fields.values()), error.message)


def query_of(asked: QueryDict, allowed: AllowedVendors = EVERYTHING) -> Query:
    statuses = tuple(filter(None, asked.getlist("status"))) or (ToolStatus.ACTIVE.value,)
    return Query(
        q=asked.get("q", ""),
        vendor=tuple(filter(None, asked.getlist("vendor"))),
        protocol=tuple(filter(None, asked.getlist("protocol"))),
        tag=tuple(filter(None, asked.getlist("tag"))),
        effect=tuple(filter(None, asked.getlist("effect"))),
        requirement=tuple(filter(None, asked.getlist("requirement"))),
        used=tuple(filter(None, asked.getlist("used"))),
        changed_since=tuple(filter(None, asked.getlist("changed_since"))),
        kind=asked_kinds(list(filter(None, asked.getlist("kind")))),
        status=() if ANY_STATUS in statuses else statuses,
        version=asked.get("version", "").strip(),
        endpoint=number(asked.get("endpoint", "")) if asked.get("endpoint") else None,
        sort=asked.get("sort", ""),
        cursor=asked.get("cursor", ""),
        as_typed=asked.get("as_typed") == "true",
        within=allowed.keys,
    )


def with_pictures(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, each with the digest of its tool's picture; None where there is none."""
    rows = list(rows)
    pictures = dict(_pictures().rows(tools=[row["id"] for row in rows]))
    return [{**row, "picture": pictures.get(row["id"])} for row in rows]


@cache
def _pictures() -> CompiledQuery[tuple[Any, str]]:
    rows = ToolPicture.objects.filter(tool__in=named_keys("tools"), picture__isnull=False)
    return CompiledQuery(rows.values_list("tool", "picture"))


def question_before(request: HttpRequest) -> str:
    """Return the question of the list of tools that the person comes from, "" if there is none."""
    before = urlsplit(request.headers.get("Referer", ""))
    if before.netloc != request.get_host() or before.path != reverse("tool-list"):
        return ""
    return QueryDict(before.query).get("q", "")


def says_count(page: ResultPage, kind: str = "") -> str:
    noun = NOUNS.get(kind, "tool")
    words = f"{page.count:,} {noun}{'' if page.count == 1 else 's'}"
    return f"{words}, the best {MAX_CANDIDATES:,} listed" if page.is_more else words


@dataclass(frozen=True, slots=True)
class Facet:
    """One facet of a list on a page. `more`: values behind a fold."""

    name: str
    label: str
    values: list[FacetValue]
    more: list[FacetValue]


def facets_of(query: Query, page: ResultPage) -> list[Facet]:
    """Return the facets that divide the list, or that the query has values of."""
    counted = search.count_facets(query, page.matches)
    facets = []
    for name, label in FACETS.items():
        values = [each for each in counted[name] if each.count or each.is_chosen]
        is_chosen = name not in ("kind", "status") and any(each.is_chosen for each in values)
        if len(values) < 2 and not is_chosen:
            continue
        values.sort(key=lambda each: not each.is_chosen)
        facets.append(Facet(name, label, values[:FIRST_VALUES], values[FIRST_VALUES:ALL_VALUES]))
    return facets


def filters(
    asked: QueryDict, allowed: AllowedVendors = EVERYTHING
) -> list[tuple[str, str, list[tuple[str, str, bool]]]]:
    """Return drop-down lists of what an agent may use, for the form that adds tools."""
    counted = search.count_facets(Query(kind=(), within=allowed.keys))
    fields = []
    for name, (label, everything) in LABELS.items():
        values = [each for each in counted[name] if each.count][:OFFERED]
        choices = sorted(((each.value, each.label) for each in values), key=lambda each: each[1].casefold())
        if name == "kind":
            choices = [each for each in choices if each[0] != ItemKind.TOOL]
            choices += [(ANY_KIND, "All kinds")] if choices else []
        if len(choices) > 1 or asked.get(name):
            fields.append((name, label, options([("", everything), *choices], asked.get(name, ""))))
    return [*fields, ("sort", "Sort by", options(SORTS.items(), asked.get("sort", "")))]


def options(choices: Iterable[tuple[str, str]], chosen: str) -> list[tuple[str, str, bool]]:
    # The current choice remains available, however rare it is.
    offered = list(choices)
    if chosen and chosen not in dict(offered):
        offered.append((chosen, chosen))
    return [(value, label, value == chosen) for value, label in offered]
