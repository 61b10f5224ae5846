"""The search over all tools, as the pages ask for it and offer to narrow it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from catalog import search
from catalog.models import ToolPicture
from catalog.models.tools import ItemKind, ToolStatus
from catalog.search import FacetValue, Query, ResultPage, meanings
from catalog.search.candidates import MAX_CANDIDATES
from catalog.search.tool_query import ANY_KIND, asked_kinds
from catalog.templatetags.display import grouped
from catalog.views.asked import number
from core.compiled_queries import CompiledQuery, named_keys
from core.errors import DomainError
from designer.agents.agent_vendors import AllowedVendors

EVERYTHING = AllowedVendors()
ANY_STATUS = "any"
FACETS = {
    "vendor": gettext_noop("Vendor"),
    "tag": gettext_noop("Tag"),
    "effect": gettext_noop("Effect"),
    "protocol": gettext_noop("Protocol"),
    "requirement": gettext_noop("Needs"),
    "used": gettext_noop("Use"),
    "changed_since": gettext_noop("Changed in the last"),
    "kind": gettext_noop("Kind"),
    "status": gettext_noop("Status"),
}
FILTER_PARAMETERS = ("q", *FACETS, "version", "endpoint")
# Values of a facet that are shown at once, and behind “more”.
FIRST_VALUES, ALL_VALUES = 6, 18
SORTS = {
    "": gettext_noop("Best match"),
    "name": gettext_noop("Name"),
    "-used": gettext_noop("Most used"),
    "-changed": gettext_noop("Changed lately"),
    "vendor": gettext_noop("Vendor"),
    "tokens": gettext_noop("Fewest tokens"),
    "-tokens": gettext_noop("Most tokens"),
}
# Values of a drop-down list.
OFFERED = 40
LABELS = {
    "kind": (gettext_noop("Kind"), gettext_noop("Tools")),
    "vendor": (gettext_noop("Vendor"), gettext_noop("All vendors")),
    "tag": (gettext_noop("Tag"), gettext_noop("All tags")),
    "protocol": (gettext_noop("Protocol"), gettext_noop("All protocols")),
}


def search_tools(query: Query) -> tuple[ResultPage, str]:
    if not query.q:
        meanings.prepare()
    try:
        return search.search(query, with_facets=True), ""
    except DomainError as error:
        # An old address may refer to something that is gone; then the result is empty, with a reason.
        return ResultPage([], None, None, 0, False), next(iter(error.fields.values()), error.message)


def query_of(parameters: QueryDict, allowed_vendors: AllowedVendors = EVERYTHING) -> Query:
    statuses = tuple(filter(None, parameters.getlist("status"))) or (ToolStatus.ACTIVE.value,)
    return Query(
        q=parameters.get("q", ""),
        vendor=tuple(filter(None, parameters.getlist("vendor"))),
        protocol=tuple(filter(None, parameters.getlist("protocol"))),
        tag=tuple(filter(None, parameters.getlist("tag"))),
        effect=tuple(filter(None, parameters.getlist("effect"))),
        requirement=tuple(filter(None, parameters.getlist("requirement"))),
        used=tuple(filter(None, parameters.getlist("used"))),
        changed_since=tuple(filter(None, parameters.getlist("changed_since"))),
        kind=asked_kinds(list(filter(None, parameters.getlist("kind")))),
        status=() if ANY_STATUS in statuses else statuses,
        version=parameters.get("version", "").strip(),
        endpoint=number(parameters.get("endpoint", "")) if parameters.get("endpoint") else None,
        sort=parameters.get("sort", ""),
        cursor=parameters.get("cursor", ""),
        as_typed=parameters.get("as_typed") == "true",
        within=allowed_vendors.keys,
    )


def with_pictures(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, each with the digest of its tool's picture; None where there is none."""
    rows = list(rows)
    pictures = dict(_PICTURES.rows(tools=[row["id"] for row in rows]))
    return [{**row, "picture": pictures.get(row["id"])} for row in rows]


_PICTURES: CompiledQuery[tuple[Any, str]] = CompiledQuery(
    lambda: ToolPicture.objects.filter(tool__in=named_keys("tools"), picture__isnull=False).values_list(
        "tool", "picture"
    )
)


def question_before(request: HttpRequest) -> str:
    """Return the question of the list of tools that the person comes from, "" if there is none."""
    before = urlsplit(request.headers.get("Referer", ""))
    if before.netloc != request.get_host() or before.path != reverse("tool-list"):
        return ""
    return QueryDict(before.query).get("q", "")


def describe_count(page: ResultPage, kind: str = "") -> str:
    count = page.count
    match kind:
        case ItemKind.PROMPT:
            text = ngettext("{count} prompt", "{count} prompts", count)
        case ItemKind.RESOURCE:
            text = ngettext("{count} resource", "{count} resources", count)
        case ItemKind.RESOURCE_TEMPLATE:
            text = ngettext("{count} resource template", "{count} resource templates", count)
        case _ if kind == ANY_KIND:
            text = ngettext("{count} item", "{count} items", count)
        case _:
            text = ngettext("{count} tool", "{count} tools", count)
    items = text.format(count=grouped(count))
    if page.row_count is not None and page.row_count != page.count:
        rows = ngettext("{count} row", "{count} rows", page.row_count)
        items = f"{items}, {rows.format(count=grouped(page.row_count))}"
    if not page.is_more:
        return items
    return _("{items}, the best {count} listed").format(items=items, count=grouped(MAX_CANDIDATES))


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
        values = [facet_value for facet_value in counted[name] if facet_value.count or facet_value.is_chosen]
        is_chosen = name not in ("kind", "status") and any(facet_value.is_chosen for facet_value in values)
        if len(values) < 2 and not is_chosen:
            continue
        values.sort(key=lambda each: not each.is_chosen)
        facets.append(Facet(name, _(label), values[:FIRST_VALUES], values[FIRST_VALUES:ALL_VALUES]))
    return facets


def filters(
    parameters: QueryDict, allowed_vendors: AllowedVendors = EVERYTHING
) -> list[tuple[str, str, list[tuple[str, str, bool]]]]:
    """Return the drop-down lists of the form that adds tools, with the values that the agent may use."""
    counted = search.count_facets(Query(kind=(), within=allowed_vendors.keys))
    fields = []
    for name, (label, everything) in LABELS.items():
        values = [choice for choice in counted[name] if choice.count][:OFFERED]
        choices = sorted(
            ((choice.value, choice.label) for choice in values), key=lambda each: each[1].casefold()
        )
        if name == "kind":
            choices = [choice for choice in choices if choice[0] != ItemKind.TOOL]
            choices += [(ANY_KIND, _("All kinds"))] if choices else []
        if len(choices) > 1 or parameters.get(name):
            fields.append(
                (name, _(label), options([("", _(everything)), *choices], parameters.get(name, "")))
            )
    return [*fields, ("sort", _("Sort by"), options(sort_choices(), parameters.get("sort", "")))]


def sort_choices() -> list[tuple[str, str]]:
    return [(value, _(words)) for value, words in SORTS.items()]


def options(choices: Iterable[tuple[str, str]], selected: str) -> list[tuple[str, str, bool]]:
    # The current choice remains available, however rare it is.
    offered = list(choices)
    if selected and selected not in dict(offered):
        offered.append((selected, selected))
    return [(value, label, value == selected) for value, label in offered]
