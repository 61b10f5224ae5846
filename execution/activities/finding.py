"""Search for tools and activities that an activity may use."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from catalog import search
from catalog.models import Activity, Tool
from catalog.models.tools import ToolStatus
from catalog.search import Query
from core.errors import DomainError
from execution.activities.callees import CalleeReference

SHOWN = 8
# The search boxes of a form: for the interface, and for the callee of a step.
BOXES = ("interface", "step")


@dataclass(frozen=True, slots=True)
class CalleeHit:
    """A version of a tool; or an activity, which has no vendor. version: "" without a label of the vendor."""

    reference: CalleeReference
    name: str
    vendor: str
    version: str
    description: str

    @property
    def whose(self) -> str:
        if not self.vendor:
            return _("Implementation")
        if not self.version:
            return self.vendor
        return _("{vendor}, version {version}").format(vendor=self.vendor, version=self.version)


@dataclass(frozen=True, slots=True)
class BoxResults:
    words: str
    hits: list[CalleeHit]


def search_box(data: Mapping[str, str], act: str, *, with_activities: bool) -> dict[str, BoxResults]:
    """Return the results for the box that was submitted: by its button, or by Enter if its words are new."""
    for box in BOXES:
        words, before = data.get(f"find-{box}", "").strip(), data.get(f"found-{box}", "")
        if act == f"find-{box}" or (act == "enter" and words and words != before):
            is_step = box == "step"
            hits = tools(words, with_own=not is_step)
            return {
                box: BoxResults(words, [*(activities(words) if is_step and with_activities else ()), *hits])
            }
    return {}


def tools(words: str, *, with_own: bool, without: Iterable[int] = ()) -> list[CalleeHit]:
    """Search the catalog, and return tools in their current versions, the best match first.

    with_own: include tools that are defined in Pegboard. without: primary keys of tools to leave out.
    """
    try:
        page = search.search(Query(q=words, status=(ToolStatus.ACTIVE,), limit=SHOWN * 3))
    except DomainError:
        return []
    tool_ids = [row["id"] for row in page.rows if row["id"] not in set(without)]
    rows = (
        Tool.objects.filter(pk__in=tool_ids)
        .exclude(current=None)
        .select_related("endpoint__vendor", "current")
    )
    rows = rows.defer("current__raw", "current__signature")
    tools_by_id = {row.pk: row for row in rows if with_own or not row.endpoint.vendor.is_own}
    return [
        CalleeHit(
            CalleeReference(tool=row.pk, ordinal=row.current.ordinal),
            row.name,
            row.endpoint.vendor.name,
            row.current.name if row.current.label else "",
            row.description,
        )
        for pk in tool_ids
        if (row := tools_by_id.get(pk)) and row.current
    ][:SHOWN]


def activities(words: str) -> list[CalleeHit]:
    rows = Activity.objects.shared().filter(name__icontains=words).exclude(current__interface=None)
    return [CalleeHit(CalleeReference(activity=row.pk), row.name, "", "", "") for row in rows[:SHOWN]]
