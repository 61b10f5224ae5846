"""The list of the review page: its groups, filters, pages and addresses."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.formats import number_format
from django.utils.translation import gettext_lazy as _

from catalog.models import Finding
from catalog.models.findings import FindingState, Severity
from catalog.review import inbox
from catalog.review.inbox import PAGE_SIZE, InboxFilter, Waiting
from catalog.rules import causes
from catalog.views.asked import number

MAX_PAGES = 10_000  # of decided findings, which are not counted
CAUSES = {
    "cloaking": _("Different for other clients"),
    "hidden": _("Hidden text"),
    "orders": _("Instructions to a model"),
    "names": _("Misleading name"),
    "markup": _("Markup, links, encoded text"),
    "drift": _("Changed without a new version"),
    "promises": _("Reliability"),
    "refuses": _("Refuses valid inputs"),
    "changes": _("Breaking change"),
    "held": _("Held by policy"),
    "shape": _("Unusual signature"),
    causes.OTHER: _("Other"),
}
FILTERS = {"severity": _("Severity"), "vendor": _("Vendor"), "cause": _("Cause")}
EVERY = {"severity": _("Any severity"), "vendor": _("All vendors"), "cause": _("Any cause")}


@dataclass(frozen=True, slots=True)
class FindingPage:
    rows: list[Finding]
    number: int
    has_next: bool

    @classmethod
    def read(
        cls, waiting: Waiting, inbox_filter: InboxFilter, parameters: QueryDict, total: int
    ) -> "FindingPage":
        """Read the page that the address names, or else the one that contains its item."""
        page_number = number(parameters.get("page", ""))
        if inbox_filter.state != FindingState.OPEN:
            page_number = max(1, min(page_number, MAX_PAGES))
            keys = inbox.decided_finding_ids(inbox_filter, (page_number - 1) * PAGE_SIZE, PAGE_SIZE + 1)
            return cls(inbox.rows(keys[:PAGE_SIZE]), page_number, len(keys) > PAGE_SIZE)
        last = max(1, ceil(total / PAGE_SIZE))  # it empties while its items are decided
        pk = 0 if "page" in parameters else number(parameters.get("item", ""))
        item = inbox.rows([pk]) if pk else []
        position = waiting.position(inbox_filter, item[0]) if item else None
        page_number = min(page_number or 1, last) if position is None else position // PAGE_SIZE + 1
        keys = waiting.page(inbox_filter, (page_number - 1) * PAGE_SIZE, PAGE_SIZE)
        return cls(inbox.rows(keys), page_number, page_number < last)

    @property
    def first(self) -> int:
        return (self.number - 1) * PAGE_SIZE + 1

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one group on this page. `count`: on all pages. `address`: shows only this group."""

    rows: list[Finding]
    severity: str = ""
    vendor: str = ""
    cause: str = ""
    count: int = 0
    address: str = ""

    @property
    def severity_word(self) -> str:
        return str(Severity(self.severity).label)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter above the list. `choices` are (value, words, is chosen)."""

    name: str
    label: str
    choices: list[tuple[str, str, bool]]


def inbox_filter_of(parameters: QueryDict) -> InboxFilter:
    state, severity, cause = (parameters.get(name, "") for name in ("state", "severity", "cause"))
    return InboxFilter(
        state=state if state in FindingState.values else FindingState.OPEN,
        severity=severity if severity in Severity.values else "",
        vendor=parameters.get("vendor", ""),
        cause=cause if cause in causes.CAUSES else "",
    )


def address(inbox_filter: InboxFilter, page: object = None, **parts: object) -> str:
    """Return the query of this list, without default values, which keeps the rows of a long list small."""
    parameters = {
        "state": "" if inbox_filter.state == FindingState.OPEN else inbox_filter.state,
        "severity": inbox_filter.severity,
        "vendor": inbox_filter.vendor,
        "cause": inbox_filter.cause,
        "page": "" if page in (1, "1") else page,
        **parts,
    }
    return f"?{urlencode({name: value for name, value in parameters.items() if value})}"


def context(parameters: QueryDict, inbox_filter: InboxFilter) -> dict[str, Any]:
    is_open = inbox_filter.state == FindingState.OPEN
    waiting = inbox.waiting() if is_open else Waiting(names=inbox.vendors())
    total = waiting.total(inbox_filter)
    page = FindingPage.read(waiting, inbox_filter, parameters, total)
    here = address(inbox_filter, page.number)
    return {
        "asked": inbox_filter,
        "page": page,
        "sections": list(_split_sections(page.rows, waiting, inbox_filter))
        if is_open
        else [Section(page.rows)],
        "total": total,
        "waits": waiting.total(InboxFilter()),
        "newest": waiting.newest(inbox_filter),
        "at_once": inbox.AT_ONCE,
        "can_accept_all": inbox_filter.severity != Severity.HIGH,
        "filters": _build_filters(inbox_filter, waiting, is_open=is_open),
        "is_filtered": inbox_filter != InboxFilter(state=inbox_filter.state),
        "states": FindingState.choices,
        "state": inbox_filter.state,
        "here": here if here == "?" else f"{here}&",
        "list_address": here,
        "all_address": address(InboxFilter(state=inbox_filter.state)),
        "pages": {
            "previous": address(inbox_filter, page.number - 1) if page.number > 1 else "",
            "next": address(inbox_filter, page.number + 1) if page.has_next else "",
        },
        "is_opened": "item" in parameters,
        **_describe_chosen(inbox_filter, page, parameters),
    }


def _describe_chosen(inbox_filter: InboxFilter, page: FindingPage, parameters: QueryDict) -> dict[str, Any]:
    """Return the finding next to the list: the one in the address, or the first.

    Also the targets of the keyboard shortcuts. `beside` is shown after a decision.
    """
    rows, here, item = page.rows, page.number, parameters.get("item", "")
    pk = number(item)
    positions = {row.pk: position for position, row in enumerate(rows)}
    position = len(rows) - 1 if item == "last" else positions.get(pk, -1)
    if position < 0:
        # Linked to from elsewhere, or decided meanwhile.
        others = inbox.rows([pk]) if pk else []
        if others or not rows:
            return {"chosen": others[0] if others else None, "position": None}
        position = 0
    up = address(inbox_filter, here, item=rows[position - 1].pk) if position else ""
    down = address(inbox_filter, here, item=rows[position + 1].pk) if position + 1 < len(rows) else ""
    if not position and here > 1:
        up = address(inbox_filter, here - 1, item="last")
    if not down and page.has_next:
        down = address(inbox_filter, here + 1)
    neighbours = rows[position + 1 : position + 2] or rows[max(0, position - 1) : position]
    return {
        "chosen": rows[position],
        "position": page.first + position,
        "up": up,
        "down": down,
        "up_leaves": not position,
        "down_leaves": position + 1 == len(rows),
        "beside": neighbours[0].pk if neighbours else None,
    }


def _split_sections(
    rows: Iterable[Finding], waiting: Waiting, inbox_filter: InboxFilter
) -> Iterator[Section]:
    for group, members in groupby(rows, key=inbox.group_of):
        alone = InboxFilter(inbox_filter.state, group.severity, group.vendor, group.cause)
        yield Section(
            rows=list(members),
            severity=group.severity,
            vendor=waiting.names.get(group.vendor, group.vendor),
            cause=str(CAUSES[group.cause]),
            count=waiting.groups[group].count if group in waiting.groups else 0,
            address="" if alone == inbox_filter else address(alone),
        )


def _build_filters(inbox_filter: InboxFilter, waiting: Waiting, *, is_open: bool) -> list[Filter]:
    """Return the filters, with counts of waiting findings. Decided findings are not counted."""
    labels = {
        "severity": {value: str(label) for value, label in reversed(Severity.choices)},
        "vendor": dict(sorted(waiting.names.items(), key=lambda item: item[1].casefold())),
        "cause": {cause: str(label) for cause, label in CAUSES.items()},
    }
    filters = []
    for part, words in labels.items():
        counts, selected = waiting.counts(inbox_filter, part), getattr(inbox_filter, part)
        choices = [
            (
                value,
                f"{label} ({number_format(counts[value], force_grouping=True)})" if is_open else label,
                value == selected,
            )
            for value, label in words.items()
            if not is_open or counts[value] or value == selected
        ]
        filters.append(Filter(part, str(FILTERS[part]), [("", str(EVERY[part]), not selected), *choices]))
    return filters
