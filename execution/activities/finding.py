"""Tools and activities by words, to be chosen for an activity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from catalog import search
from catalog.models import Activity, Tool
from catalog.models.tools import ToolStatus
from catalog.search import Query
from core.errors import DomainError
from execution.activities.callees import Reference

SHOWN = 8
# The boxes of a form: what it stands for, and what a step calls.
BOXES = ("interface", "step")


@dataclass(frozen=True, slots=True)
class Hit:
    """A version of a tool; or an activity, which has no vendor."""

    reference: Reference
    name: str
    vendor: str
    version: str
    description: str

    @property
    def whose(self) -> str:
        return f"{self.vendor}, version {self.version}" if self.vendor else "an activity"


@dataclass(frozen=True, slots=True)
class Found:
    words: str
    hits: list[Hit]


def asked(data: Mapping[str, str], act: str, *, with_activities: bool) -> dict[str, Found]:
    """What is sought in a box: by its button, or by Enter in a box whose words were not sought yet."""
    for box in BOXES:
        words, before = data.get(f"find-{box}", "").strip(), data.get(f"found-{box}", "")
        if act == f"find-{box}" or (act == "enter" and words and words != before):
            is_step = box == "step"
            hits = tools(words, with_own=not is_step)
            return {box: Found(words, [*(activities(words) if is_step and with_activities else ()), *hits])}
    return {}


def tools(words: str, *, with_own: bool, without: Iterable[int] = ()) -> list[Hit]:
    """The likeliest first, each in its current version."""
    try:
        page = search.search(Query(q=words, status=ToolStatus.ACTIVE.value, limit=SHOWN * 3))
    except DomainError:
        return []
    left = [row["id"] for row in page.rows if row["id"] not in set(without)]
    rows = (
        Tool.objects.filter(pk__in=left).exclude(current=None).select_related("endpoint__vendor", "current")
    )
    rows = rows.defer("current__raw", "current__signature")
    known = {row.pk: row for row in rows if with_own or not row.endpoint.vendor.is_own}
    return [
        Hit(
            Reference(tool=row.pk, ordinal=row.current.ordinal),
            row.name,
            row.endpoint.vendor.name,
            row.current.name,
            row.description,
        )
        for pk in left
        if (row := known.get(pk)) and row.current
    ][:SHOWN]


def activities(words: str) -> list[Hit]:
    rows = Activity.objects.shared().filter(name__icontains=words).exclude(current__interface=None)
    return [Hit(Reference(activity=row.pk), row.name, "", "", "") for row in rows[:SHOWN]]
