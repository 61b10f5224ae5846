"""Facets of the list of tools: the values that narrow it, and the number of tools of each.

The counts of a facet disregard its own values, so that a person sees what another value would add. Tags are
counted with the chosen ones, because a tool has to have all of them.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

import protocols
from catalog.models.tools import ItemKind, ToolStatus
from catalog.search import facet_counts, tags
from catalog.search.facet_counts import Counts, Matches, count_values
from catalog.search.scope import CHANGE_SPANS
from catalog.search.tool_query import EndpointRow, Query, offering_endpoints, scope_of

# The labels that an engine counts for each facet.
LABELS = {
    "vendor": "endpoint",
    "protocol": "endpoint",
    "kind": "item_kind",
    "tag": "tag",
    "effect": "effect",
    "requirement": "requirement",
    "status": "status",
    "changed_since": "changed_since",
}
FACETS = (*LABELS, "used")
# Of each facet, so many values are listed, and those that are chosen.
MAX_VALUES = 100
VALUE_LABELS: dict[str, dict[str, str | Promise]] = {
    "kind": {
        ItemKind.TOOL: gettext_lazy("Tools"),
        ItemKind.PROMPT: gettext_lazy("Prompts"),
        ItemKind.RESOURCE: gettext_lazy("Resources"),
        ItemKind.RESOURCE_TEMPLATE: gettext_lazy("Resource templates"),
    },
    "status": dict(ToolStatus.choices),
    "protocol": dict(protocols.choices()),
    "effect": {
        "reads": gettext_lazy("Only reads"),
        "changes": gettext_lazy("Changes"),
        "destroys": gettext_lazy("May destroy"),
        "unknown": gettext_lazy("Not stated"),
    },
    "changed_since": {
        "day": gettext_lazy("Day"),
        "week": gettext_lazy("Week"),
        "month": gettext_lazy("Month"),
    },
    "requirement": {
        "scopes": gettext_lazy("Permissions"),
        "secrets": gettext_lazy("A secret"),
        "user": gettext_lazy("A user's consent"),
    },
}


@dataclass(frozen=True, slots=True)
class FacetValue:
    value: str
    label: str
    count: int
    is_chosen: bool = False


def count_facets(query: Query, matches: Matches | None = None) -> dict[str, list[FacetValue]]:
    """Return the first values of each facet, the most frequent one first, with the chosen ones also at 0.

    matches: what the question of the query matched, from its result page.
    """
    endpoints = offering_endpoints()
    counts = _count_labels(query, endpoints, matches)
    values = {facet: _values(facet, counts[facet], query, endpoints) for facet in LABELS}
    return values | {"used": _used(query, endpoints, matches)}


def _count_labels(
    query: Query, endpoints: Sequence[EndpointRow], matches: Matches | None
) -> dict[str, dict[str, int]]:
    filtered_facets = {facet for facet in LABELS if facet != "tag" and getattr(query, facet)}
    protocol_names = {row.protocol for row in endpoints if row.protocol}
    if not any(protocols.get(protocol).offers_context for protocol in protocol_names):
        # There are tools alone.
        filtered_facets -= {"kind"}
    base: Counts = count_values(facet_counts.LABELS, scope_of(query, endpoints), matches)
    counts = {}
    for facet, label in LABELS.items():
        if facet in filtered_facets:
            scope = scope_of(query.without(facet), endpoints)
            counts[facet] = count_values((label,), scope, matches).get(label, {})
        else:
            counts[facet] = base.get(label, {})
    for start in set(query.changed_since) - CHANGE_SPANS.keys():
        scope = scope_of(replace(query, changed_since=(start,)), endpoints)
        counts["changed_since"][start] = _total(count_values(("endpoint",), scope, matches))
    return counts


def _values(
    facet: str, counts: dict[str, int], query: Query, endpoints: Sequence[EndpointRow]
) -> list[FacetValue]:
    chosen_values = getattr(query, facet)
    labels = VALUE_LABELS.get(facet, {})
    if facet in ("vendor", "protocol"):
        by_endpoint = {
            str(row.endpoint): (row.slug if facet == "vendor" else row.protocol) for row in endpoints
        }
        summed: Counter[str] = Counter()
        for key, count in counts.items():
            if value := by_endpoint.get(key):
                summed[value] += count
        counts = dict(summed)
        labels = labels or {row.slug: row.name for row in endpoints}
    elif facet == "tag":
        spellings = tags.group_spellings(counts)
        # One spelling for each tag, the chosen one where it is chosen.
        by_key = {tags.tag_key(tag): tag for tag in chosen_values}
        counts = {
            by_key.get(key, each[0]): sum(counts[tag] for tag in each) for key, each in spellings.items()
        }
    counts = dict.fromkeys(chosen_values, 0) | counts
    first_values = _find_most_frequent(counts, labels) if len(counts) > MAX_VALUES else counts
    facet_values = [
        FacetValue(value, str(labels.get(value, value)), counts[value], value in chosen_values)
        for value in {**dict.fromkeys(chosen_values), **dict.fromkeys(first_values)}
    ]
    if facet == "changed_since":
        # The counts of longer spans include those of shorter ones.
        return sorted(facet_values, key=lambda each: CHANGE_SPANS.get(each.value, 0))
    return sorted(facet_values, key=lambda each: (-each.count, each.label.casefold(), each.value))


def _find_most_frequent(counts: Mapping[str, int], labels: Mapping[str, str | Promise]) -> list[str]:
    """Return the values that are listed first; a catalog may have thousands of tags and vendors."""
    least = heapq.nlargest(MAX_VALUES, counts.values())[-1]
    # Labels decide among the values that are as frequent as the last one.
    frequent = [value for value, count in counts.items() if count > least]
    last = [value for value, count in counts.items() if count == least]
    last.sort(key=lambda value: (str(labels.get(value, value)).casefold(), value))
    return [*frequent, *last[: MAX_VALUES - len(frequent)]]


def _used(query: Query, endpoints: Sequence[EndpointRow], matches: Matches | None) -> list[FacetValue]:
    chosen = set(query.used)
    # The counts of the query itself are remembered; others are read for this facet alone.
    count = _total(count_values(facet_counts.LABELS, scope_of(query, endpoints), matches))
    scope = scope_of(query.without("used"), endpoints)
    if chosen == {"true"}:
        used, every = count, _total(count_values(("endpoint",), scope, matches))
    else:
        among_used = scope.among_only(list(query.use_counts))
        used = _total(count_values(("endpoint",), among_used, matches)) if query.use_counts else 0
        every = count + used if chosen == {"false"} else count
    return [
        FacetValue("true", _("Used by an agent"), used, "true" in query.used),
        FacetValue("false", _("Not used yet"), every - used, "false" in query.used),
    ]


def _total(counts: Counts) -> int:
    return sum(counts["endpoint"].values())
