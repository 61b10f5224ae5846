"""The search over all tools, as the pages ask for it and offer to narrow it."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, QueryDict
from django.urls import reverse

from catalog import search
from catalog.models import ToolPicture, Vendor
from catalog.models.tools import ItemKind, ToolStatus
from catalog.search import Query, ResultPage
from catalog.search.listing import ANY_KIND, asked_kinds
from catalog.views.asked import number
from core.compiled_queries import CompiledQuery, given_keys
from core.errors import DomainError
from designer.agents.agent_vendors import AllowedVendors

EVERYTHING = AllowedVendors()
ANY_STATUS = "any"
FILTER_PARAMETERS = ("q", "kind", "vendor", "tag", "protocol", "status", "version", "endpoint")
SORTS = {
    "": "Best match",
    "name": "Name",
    "-changed": "Changed lately",
    "vendor": "Vendor",
    "tokens": "Fewest tokens",
    "-tokens": "Most tokens",
}
NOUNS = {kind.value: kind.label.lower() for kind in ItemKind} | {ANY_KIND: "item"}
LABELS = {
    "kind": ("Kind", "Tools"),
    "vendor": ("Vendor", "All vendors"),
    "tag": ("Tag", "All tags"),
    "protocol": ("Protocol", "All protocols"),
}


def search_tools(query: Query) -> tuple[ResultPage, str]:
    try:
        return search.search(query), ""
    except DomainError as error:
        # An old address may refer to something that is gone; then the result is empty, with a reason.
        return ResultPage([], None, None, 0, False), next(iter(error.fields.values()), error.message)


def query_of(asked: QueryDict, allowed: AllowedVendors = EVERYTHING) -> Query:
    status = asked.get("status") or ToolStatus.ACTIVE.value
    return Query(
        q=asked.get("q", ""),
        vendor=tuple(filter(None, asked.getlist("vendor"))),
        protocol=tuple(filter(None, asked.getlist("protocol"))),
        tag=tuple(filter(None, asked.getlist("tag"))),
        kind=asked_kinds(list(filter(None, asked.getlist("kind")))),
        status="" if status == ANY_STATUS else status,
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
    rows = ToolPicture.objects.filter(tool__in=given_keys("tools"), picture__isnull=False)
    return CompiledQuery(rows.values_list("tool", "picture"))


def question_before(request: HttpRequest) -> str:
    """Return the question of the list of tools that the person comes from, "" if there is none."""
    before = urlsplit(request.headers.get("Referer", ""))
    if before.netloc != request.get_host() or before.path != reverse("tool-list"):
        return ""
    return QueryDict(before.query).get("q", "")


def says_count(page: ResultPage, kind: str = "") -> str:
    noun = NOUNS.get(kind, "tool")
    if page.is_more:
        return f"More than {page.count:,} {noun}s"
    return f"{page.count:,} {noun}{'' if page.count == 1 else 's'}"


def filters(
    asked: QueryDict, allowed: AllowedVendors = EVERYTHING
) -> list[tuple[str, str, list[tuple[str, str, bool]]]]:
    offered = search.choices()
    if offered["kind"]:
        offered["kind"].append(search.Choice(ANY_KIND, "All kinds"))
    if allowed.vendors is not None:
        usable = {vendor.slug for vendor in (*allowed.vendors.values(), *Vendor.objects.filter(is_own=True))}
        offered["vendor"] = [choice for choice in offered["vendor"] if choice.value in usable]
    fields = [
        (name, label, _options([("", everything), *offered[name]], asked.get(name, "")))
        for name, (label, everything) in LABELS.items()
        if len(offered[name]) > 1 or asked.get(name)
    ]
    statuses = [("", "Active"), (ToolStatus.WITHDRAWN.value, "Withdrawn"), (ANY_STATUS, "Any status")]
    fields.append(("status", "Status", _options(statuses, asked.get("status", ""))))
    fields.append(("sort", "Sort by", _options(SORTS.items(), asked.get("sort", ""))))
    return fields


def _options(choices: Iterable[tuple[str, str]], chosen: str) -> list[tuple[str, str, bool]]:
    # The current choice remains available, however rare it is.
    offered = list(choices)
    if chosen and chosen not in dict(offered):
        offered.append((chosen, chosen))
    return [(value, label, value == chosen) for value, label in offered]
