"""A query of the list of tools by a person or a program, and the scope that follows from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, get_args

from django.utils.translation import gettext as _

import protocols
from catalog.models import Vendor
from catalog.models.tools import ItemKind, ToolStatus
from catalog.search import facet_counts, orders, question
from catalog.search.scope import CHANGE_SPANS, Scope, start_of_changes
from core.compiled_queries import CompiledQuery
from core.errors import invalid
from protocols.signature import Effect, Requirements

RELEVANCE, BY_USE = "relevance", "-used"
SORT_NAMES = (RELEVANCE, *orders.SORTS, BY_USE)
MAX_QUESTION_LENGTH = question.MAX_LENGTH
ANY_KIND = "any"
EFFECTS: tuple[str, ...] = get_args(Effect)
REQUIREMENTS = tuple(Requirements.__struct_fields__)
USED = ("true", "false")


def asked_kinds(names: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of items that a query names: tools where it names none, all for `any`."""
    if ANY_KIND in names:
        return ()
    return tuple(names) or (ItemKind.TOOL,)


@dataclass(frozen=True, slots=True)
class Query:
    """A tool matches any one of the values of each filter, and all of `tag`.

    status: every status if empty.
    version: the vendor's own text for the current version.
    kind: the kinds of items; empty for all.
    used: "true" for tools that agents use, "false" for the others.
    use_counts: how many agents use a tool, of those that any agent uses.
    changed_since: spans of `CHANGE_SPANS`, or dates; the earliest counts.
    as_typed: no word is repaired.
    is_folded: the same tool at several endpoints of a vendor is one row; never in the order of use, which
    differs between them.
    sort: if empty, by relevance, or by name when there is no `q`.
    within: the keys of the vendors to search at all, beside what is defined here; None for every vendor.
    """

    q: str = ""
    vendor: tuple[str, ...] = ()
    protocol: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    effect: tuple[str, ...] = ()
    requirement: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    changed_since: tuple[str, ...] = ()
    version: str = ""
    kind: tuple[str, ...] = (ItemKind.TOOL,)
    endpoint: int | None = None
    sort: str = ""
    limit: int = 50
    cursor: str = ""
    as_typed: bool = False
    is_folded: bool = False
    within: frozenset[int] | None = None
    use_counts: Mapping[int, int] = field(default_factory=dict)

    @property
    def order(self) -> str:
        if self.sort in ("", RELEVANCE):
            return RELEVANCE if self.q.strip() else "name"
        return self.sort

    def without(self, facet: str) -> "Query":
        """Return the query without its values of one facet."""
        nothing: dict[str, Any] = {facet: ()}
        return replace(self, **nothing)


def check(query: Query) -> None:
    """Raise DomainError for a value that is unknown."""
    _refuse_unknown("sort", (query.sort,) if query.sort else (), SORT_NAMES)
    _refuse_unknown("status", query.status, ToolStatus.values)
    _refuse_unknown("kind", query.kind, ItemKind.values)
    _refuse_unknown("effect", query.effect, EFFECTS)
    _refuse_unknown("requirement", query.requirement, REQUIREMENTS)
    _refuse_unknown("used", query.used, USED)
    for text in query.changed_since:
        try:
            start_of_changes(text)
        except ValueError:
            raise invalid(
                changed_since=_("Choose one of: {spans}, or a date such as 2026-11-01.").format(
                    spans=", ".join(CHANGE_SPANS)
                )
            ) from None
    for name, texts in {"vendor": query.vendor, "tag": query.tag, "version": (query.version,)}.items():
        # PostgreSQL takes no NUL, and UTF-8 no half of a surrogate pair.
        if any("\0" in text or text.encode(errors="ignore").decode() != text for text in texts):
            raise invalid(**{name: _("This contains a character that no text of a tool contains.")})
    _refuse_unknown("protocol", query.protocol, [name for name, _unused in protocols.choices()])


def _refuse_unknown(name: str, values: Sequence[str], known: Sequence[str]) -> None:
    if not set(values) <= set(known):
        raise invalid(**{name: _("Choose one of: {choices}.").format(choices=", ".join(known))})


class EndpointRow(NamedTuple):
    """A vendor with one of its endpoints that is not removed; `endpoint` is None if it has none."""

    vendor: int
    slug: str
    name: str
    is_own: bool
    endpoint: int | None
    protocol: str | None


def offering_endpoints() -> list[EndpointRow]:
    rows = _VENDORS_WITH_ENDPOINTS.rows()
    return [
        EndpointRow(*row[:4], *(row[4:6] if row[6] is None else (None, None)))  # type: ignore[arg-type]
        for row in rows
    ]


_VENDORS_WITH_ENDPOINTS: CompiledQuery[tuple[object, ...]] = CompiledQuery(
    lambda: (
        Vendor.objects.offering()
        .order_by()
        .values_list(
            *("pk", "slug", "name", "is_own", "endpoints", "endpoints__protocol", "endpoints__removed_at")
        )
    )
)


def scope_of(query: Query, endpoints: Sequence[EndpointRow] | None = None) -> Scope:
    """Return where the query looks. `endpoints` are those of `offering_endpoints`, if they were read.

    Raises DomainError for a vendor that is unknown.
    """
    is_narrow = query.vendor or query.protocol or query.endpoint is not None or query.within is not None
    statuses = set(query.status)
    used = list(query.use_counts) if len(set(query.used)) == 1 else None
    rows = offering_endpoints() if is_narrow and endpoints is None else endpoints or ()
    return Scope(
        _find_endpoints(query, rows) if is_narrow else None,
        tuple(facet_counts.spellings(tag) for tag in query.tag),
        effects=query.effect,
        requirements=query.requirement,
        status=ToolStatus(query.status[0]) if len(statuses) == 1 else None,
        among=used if "true" in query.used else None,
        except_for=used or () if "true" not in query.used else (),
        version=query.version,
        kinds=tuple(ItemKind(kind) for kind in query.kind),
        changed_since=min(map(start_of_changes, query.changed_since), default=None),
    )


def _find_endpoints(query: Query, rows: Sequence[EndpointRow]) -> list[int]:
    """Return the ids of the endpoints where the query looks. Raises DomainError for an unknown vendor."""
    if query.endpoint is not None and not query.vendor:
        rows = [row for row in rows if row.endpoint == query.endpoint]
    known_slugs = {row.slug for row in rows}
    if missing := [slug for slug in query.vendor if slug not in known_slugs]:
        raise invalid(vendor=_("There is no vendor “{vendor}”.").format(vendor=missing[0][:60]))
    return [
        row.endpoint
        for row in rows
        if row.endpoint
        and (not query.vendor or row.slug in query.vendor)
        and query.endpoint in (None, row.endpoint)
        and (query.within is None or row.is_own or row.vendor in query.within)
        and (not query.protocol or row.protocol in query.protocol)
    ]
