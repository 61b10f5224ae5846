"""Which version a caller means, and which one a version is compared with."""

from collections.abc import Callable, Collection, Iterable
from functools import cache

from django.db.models import Case, Exists, F, OuterRef, Q, Subquery, When
from django.db.models.functions import Coalesce

from catalog.models import Finding, Tool, ToolVersion
from catalog.models.findings import FindingQuerySet
from core.compiled_queries import CompiledQuery, given_keys
from core.outbound.errors import printable

# Each says how many agents pin which version: (tool, version, agents). What is above this layer adds itself.
PINNED: list[Callable[[Collection[int]], Iterable[tuple[int, int, int]]]] = []
# Each is told, in the transaction, which tools have another current version from now on.
MOVED: list[Callable[[Collection[int]], None]] = []


def tell_moved(tools: Collection[int]) -> None:
    for each in MOVED if tools else ():
        each(tools)


def pinned(tools: Collection[int]) -> list[tuple[int, int, int]]:
    return [row for source in PINNED for row in source(tools)] if tools else []


def about_version() -> FindingQuerySet:
    """Findings about the version of the outer query, or about the same bytes of its tool."""
    is_about = Q(version=OuterRef("pk")) | Q(subject=OuterRef("digest"))
    return Finding.objects.filter(is_about, tool=OuterRef("tool"))


def stopping() -> FindingQuerySet:
    """Findings that keep out the version of the outer query."""
    return about_version().stopping()


def predecessor(version: ToolVersion, *, is_offered: bool = False) -> ToolVersion | None:
    """See `predecessors`. `is_offered` gives none rather than one that is held or blocked."""
    found = predecessors([version.pk], is_offered=is_offered).get(version.pk)
    return ToolVersion.objects.get(pk=found) if found else None


def predecessors(versions: Iterable[int], *, is_offered: bool = False) -> dict[int, int]:
    """What each version is compared with, by primary key; the first of a tool is left out.

    Of a version that is kept out, that is the one in effect. Of any other, the last one before it in the
    vendor's own order, whenever we read it: one that was let through if there is any.
    """
    keys = list(versions)
    return dict(_against(is_offered).rows(versions=keys)) if keys else {}


@cache
def _against(is_offered: bool) -> CompiledQuery[tuple[int, int]]:
    is_before = Q(label_key__lt=OuterRef("label_key")) | Q(
        label_key=OuterRef("label_key"), ordinal__lt=OuterRef("ordinal")
    )
    before = ToolVersion.objects.filter(is_before, tool=OuterRef("tool"))
    before = before.annotate(is_kept_out=Exists(stopping()))
    if is_offered:
        before = before.filter(is_kept_out=False)
    last = Subquery(before.order_by("is_kept_out", "-label_key", "-ordinal").values("pk")[:1])
    in_effect = Case(When(Q(tool__stopped=F("pk")) & ~Q(tool__current=F("pk")), then=F("tool__current")))
    rows = ToolVersion.objects.filter(pk__in=given_keys("versions")).order_by()
    rows = rows.annotate(against=Coalesce(in_effect, last)).filter(against__isnull=False)
    return CompiledQuery(rows.values_list("pk", "against"))


def named(tool: Tool, *, version: str = "", ordinal: int | None = None) -> ToolVersion | None:
    """The version with the vendor's label `version`, or else with our `ordinal`; the current one for neither.

    A label that the vendor has used for several texts means the one in effect: the current version, or else
    the last one that was let through. `ordinal` beside the label says which of them is meant. Where a vendor
    numbers nothing, the ordinal stands in for a label.
    """
    if not version:
        return tool.current if ordinal is None else tool.versions.filter(ordinal=ordinal).first()
    labelled = tool.versions.filter(label=version)
    is_current = Q(pk=tool.current_id or 0)
    wanted = Case(
        When(ordinal=ordinal or 0, then=0),
        When(is_current, then=1),
        When(~Exists(stopping()), then=2),
        default=3,
    )
    found = labelled.order_by(wanted, "-ordinal").first()
    if found is None and version.isascii() and version.isdecimal() and len(version) < 10:
        return tool.versions.filter(label="", ordinal=int(version)).first()
    return found


def names(tools: Collection[int]) -> dict[tuple[int, int], str]:
    """Of all versions of these tools, by tool and ordinal: for documents that keep only those."""
    rows = ToolVersion.objects.filter(tool__in=tools).defer("signature", "raw").order_by()
    return {(row.tool_id, row.ordinal): row.name for row in rows}


def says_unknown(tool: Tool, *, version: str = "", ordinal: int | None = None) -> str:
    """One sentence for a caller that named a version that is not there, and one that says which are."""
    if version:
        which = f"“{tool}” has no version “{printable(version, 60)}”."
    elif ordinal is not None:
        which = f"“{tool}” has no version with the ordinal {ordinal}."
    else:
        return f"“{tool}” has no version yet."
    rows = tool.versions.defer("signature", "raw")[:4]
    known = [f"“{printable(row.name, 60)}”" for row in rows[:3]]
    more = " and others" if len(rows) > 3 else ""
    return f"{which} It has {', '.join(known)}{more}." if known else which
