"""The pages of activities: the list, and one page for each with its settings and uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _

from catalog.models import Activity
from catalog.rules.sensitive_values import has_mask
from catalog.tools import definitions
from catalog.views.asked import number
from designer.environments import environments
from designer.models import Binding
from execution.activities import callees, kinds, operations, reach
from execution.activities.callees import CalleeReference
from execution.activities.config_masking import masked_configs
from execution.activities.picking import ActivityFault
from execution.views import activities as editing
from people.models import AuditEntry, Role
from people.permissions import person, requires

SHOWN = 25
VERSIONS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ActivityRow:
    """One activity of the list; `beside` counts where it is bound for agents of other teams."""

    activity: Activity
    kind: str
    calls: Sequence[str]
    bound: Sequence[Binding]
    beside: int
    faults: Sequence[ActivityFault]


@requires(Role.VIEWER)
def activity_list(request: HttpRequest) -> HttpResponse:
    query, start = request.GET, number(request.GET.get("from", ""))
    rows = Activity.objects.shared().exclude(current=None)
    every = rows.exists()
    if words := query.get("q", "").strip():
        rows = rows.filter(name__icontains=words) | rows.filter(
            current__interface__tool__name__icontains=words
        )
    if query.get("kind") in kinds.KINDS:
        rows = rows.filter(current__kind=query["kind"])
    rows = rows.select_related("current__interface__tool__current")[start : start + SHOWN + 1]
    page_rows = list(rows)
    context = {
        "asked": query,
        "lines": _lines(request, page_rows[:SHOWN]),
        "is_any": every,
        "kinds": kinds.KINDS.values(),
        "before": max(0, start - SHOWN) if start else None,
        "after": start + SHOWN if len(page_rows) > SHOWN else None,
    }
    return render(request, "designer/activities.html", context)


@requires(Role.VIEWER)
def activity(request: HttpRequest, pk: int) -> HttpResponse:
    """The page of an activity. A removed activity has it too, because its calls link here."""
    rows = Activity.objects.filter(agent=None).exclude(current=None)
    row = get_object_or_404(rows.select_related("current__interface__tool__current"), pk=pk)
    now = operations.current(row)
    bound, hidden_count = environments.bindings_to([row], person(request))
    versions = list(row.versions.select_related("interface__tool", "created_by")[:VERSIONS_SHOWN])
    removals = AuditEntry.objects.filter(kind="activity", object_id=str(row.pk), action="remove")
    # It runs by default for definitions that name it, or that have its name.
    definition_rows = definitions.all_of_them().exclude(current=None).select_related("current")
    candidates = definition_rows.filter(name=row.name)
    candidates |= definition_rows.filter(current__raw__contains='"_activity"')
    defined = [
        tool
        for tool in (candidates if row.removed_at is None else ())
        if ((tool.current and definitions.explicit_activity(tool.current)) or tool.name) == row.name
    ]
    context: dict[str, Any] = {
        "activity": row,
        "now": now,
        "kind": kinds.get(now.kind),
        "editor": editing.display_editor(row),
        "raw_config": masked_configs([now])[0],
        "versions": list(zip(versions, masked_configs(versions), strict=True)),
        "steps_of": reach.users_of(row),
        "bound": bound,
        "beside": hidden_count.get(row.pk, 0),
        "defined": defined,
        "faults": operations.faults_now(row),
        "removal": removals.order_by("-id").first() if row.removed_at else None,
        "fresh": next((item for item in bound if item.pk == number(request.GET.get("bound", ""))), None),
    }
    context["is_masked"] = has_mask(context["raw_config"])
    return render(request, "designer/activity.html", context)


def _lines(request: HttpRequest, rows: Sequence[Activity]) -> list[ActivityRow]:
    bound, hidden_count = environments.bindings_to(rows, person(request))
    references: dict[int, list[CalleeReference]] = {}
    for row in rows:
        version = operations.current(row)
        kind = kinds.get(version.kind)
        tools = [CalleeReference(tool=tool, ordinal=ordinal) for tool, ordinal in kind.tools(version.config)]
        activities = [CalleeReference(activity=pk) for pk in kind.activities(version.config)]
        references[row.pk] = tools + activities
    callee_names = callees.find_callees(chain.from_iterable(references.values()))
    lines = []
    for row in rows:
        version = operations.current(row)
        words = [
            callee_names[item].words if item in callee_names else _("a tool that was removed")
            for item in references[row.pk]
        ]
        address = version.config.get("address")
        if not words and isinstance(address, str):
            words = [address]
        bound_here = [item for item in bound if item.activity_id == row.pk]
        label = str(kinds.get(version.kind).label)
        hidden = hidden_count.get(row.pk, 0)
        lines.append(ActivityRow(row, label, words, bound_here, hidden, operations.faults_now(row)))
    return lines
