"""Find the version that a caller refers to, and the version that another one is compared with."""

from collections.abc import Callable, Collection, Iterable
from functools import cache

from django.db.models import (
    Case,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    TextField,
    Value,
    When,
    Window,
)
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from catalog.models import Finding, Tool, ToolVersion
from catalog.models.findings import FindingQuerySet
from core.compiled_queries import CompiledQuery, named_keys
from core.outbound.errors import printable
from core.pagination import octet_length

# Tokens are counted in decoded signatures, and a tool may have a hundred versions of a megabyte.
MAX_COUNTED_BYTES = 500_000
NEWEST_FIRST = ("-label_key", "-ordinal")

# Functions that return (tool, version, agents): how many agents pin which version. Higher layers register
# them.
PINNED: list[Callable[[Collection[int]], Iterable[tuple[int, int, int]]]] = []
# Functions that are called in the transaction with the tools whose current version changed.
MOVED: list[Callable[[Collection[int]], None]] = []


def notify_moved(tools: Collection[int]) -> None:
    for listener in MOVED if tools else ():
        listener(tools)


def pinned(tools: Collection[int]) -> list[tuple[int, int, int]]:
    return [row for source in PINNED for row in source(tools)] if tools else []


def about_version() -> FindingQuerySet:
    """Return findings about the version of the outer query, or about an identical version of its tool."""
    is_about = Q(version=OuterRef("pk")) | Q(subject=OuterRef("digest"))
    return Finding.objects.filter(is_about, tool=OuterRef("tool"))


def stopping() -> FindingQuerySet:
    """Return findings that hold or block the version of the outer query."""
    return about_version().stopping()


def predecessor(version: ToolVersion, *, is_offered: bool = False) -> ToolVersion | None:
    """Return the predecessor (see `predecessors`), or None. `is_offered`: ignore held and blocked
    versions."""
    predecessor_id = predecessors([version.pk], is_offered=is_offered).get(version.pk)
    return ToolVersion.objects.get(pk=predecessor_id) if predecessor_id else None


def predecessors(versions: Iterable[int], *, is_offered: bool = False) -> dict[int, int]:
    """Return the version that each version is compared with, by primary key. A tool's first version has none.

    A held or blocked version is compared with the current one. Any other is compared with the last one before
    it in the vendor's order, whatever the order in which they were read, and with an allowed one if there
    is any.
    """
    keys = list(versions)
    return dict(_predecessor_query(is_offered).rows(versions=keys)) if keys else {}


@cache
def _predecessor_query(is_offered: bool) -> CompiledQuery[tuple[int, int]]:
    is_before = Q(label_key__lt=OuterRef("label_key")) | Q(
        label_key=OuterRef("label_key"), ordinal__lt=OuterRef("ordinal")
    )
    before = ToolVersion.objects.filter(is_before, tool=OuterRef("tool"))
    before = before.annotate(is_kept_out=Exists(stopping()))
    if is_offered:
        before = before.filter(is_kept_out=False)
    last = Subquery(before.order_by("is_kept_out", "-label_key", "-ordinal").values("pk")[:1])
    in_effect = Case(When(Q(tool__stopped=F("pk")) & ~Q(tool__current=F("pk")), then=F("tool__current")))
    rows = ToolVersion.objects.filter(pk__in=named_keys("versions")).order_by()
    rows = rows.annotate(against=Coalesce(in_effect, last)).filter(against__isnull=False)
    return CompiledQuery(rows.values_list("pk", "against"))


def find_version(tool: Tool, *, version: str = "", ordinal: int | None = None) -> ToolVersion | None:
    """Return the version with the vendor's label `version`, else the one with `ordinal`, else the current
    one.

    If several versions have the label, the one with `ordinal` is returned, else the current one, else the
    last allowed one. If the vendor has no labels, an ordinal is accepted as the label.
    """
    if not version:
        return tool.current if ordinal is None else tool.versions.filter(ordinal=ordinal).first()
    labelled = tool.versions.filter(label=version)
    is_current = Q(pk=tool.current_id or 0)
    priority = Case(
        When(ordinal=ordinal or 0, then=0),
        When(is_current, then=1),
        When(~Exists(stopping()), then=2),
        default=3,
    )
    match = labelled.order_by(priority, "-ordinal").first()
    if match is None and version.isascii() and version.isdecimal() and len(version) < 10:
        return tool.versions.filter(label="", ordinal=int(version)).first()
    return match


def names(tools: Collection[int]) -> dict[tuple[int, int], str]:
    """Return the names of all versions of these tools by (tool, ordinal), for documents that store only
    ordinals."""
    rows = ToolVersion.objects.filter(tool__in=tools).defer("signature", "raw").order_by()
    return {(row.tool_id, row.ordinal): row.name for row in rows}


def with_short_signatures(versions: QuerySet[ToolVersion]) -> QuerySet[ToolVersion]:
    """Select `short_signature` in place of the documents: the signatures of the first versions, as many as
    have `MAX_COUNTED_BYTES` together."""
    total = Window(Sum(octet_length("signature")), order_by=NEWEST_FIRST)
    rows = versions.annotate(bytes_so_far=total).order_by(*NEWEST_FIRST)
    is_short = When(bytes_so_far__lte=MAX_COUNTED_BYTES, then=F("signature"))
    short_signature = Case(is_short, default=Value("", TextField()))
    return rows.annotate(short_signature=short_signature).defer("signature", "raw")


def unknown_version_message(tool: Tool, *, version: str = "", ordinal: int | None = None) -> str:
    """Return an error message for an unknown version, with the versions that exist."""
    if version:
        which = _("“{tool}” has no version “{version}”.").format(tool=tool, version=printable(version, 60))
    elif ordinal is not None:
        which = _("“{tool}” has no version with the ordinal {ordinal}.").format(tool=tool, ordinal=ordinal)
    else:
        return _("“{tool}” has no version yet.").format(tool=tool)
    rows = tool.versions.defer("signature", "raw")[:4]
    existing = [f"“{printable(row.name, 60)}”" for row in rows[:3]]
    if not existing:
        return which
    names = ", ".join(existing)
    has = _("It has {versions} and others.") if len(rows) > 3 else _("It has {versions}.")
    return f"{which} {has.format(versions=names)}"
