"""The pages of activities: the list, and one page for each with its settings and uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _

from catalog.models import Activity, ActivityVersion, Tool
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
        "defined": _named_by_definitions(row) if row.removed_at is None else [],
        "faults": operations.faults_now(row),
        "removal": removals.order_by("-id").first() if row.removed_at else None,
        "fresh": next((item for item in bound if item.pk == number(request.GET.get("bound", ""))), None),
    }
    context["is_masked"] = has_mask(context["raw_config"])
    return render(request, "designer/activity.html", context)


def _lines(request: HttpRequest, rows: Sequence[Activity]) -> list[ActivityRow]:
    bound, hidden_count = environments.bindings_to(rows, person(request))
    references_by_activity = {row.pk: _calls(operations.current(row)) for row in rows}
    callee_names = callees.find_callees(
        reference for references in references_by_activity.values() for reference in references
    )
    return [
        ActivityRow(
            row,
            str(kinds.get(operations.current(row).kind).label),
            [
                (callee_names[item].words if item in callee_names else _("a tool that was removed"))
                for item in references_by_activity[row.pk]
            ]
            or _address(operations.current(row)),
            [item for item in bound if item.activity_id == row.pk],
            hidden_count.get(row.pk, 0),
            operations.faults_now(row),
        )
        for row in rows
    ]


def _calls(version: ActivityVersion) -> list[CalleeReference]:
    kind = kinds.get(version.kind)
    tools = [CalleeReference(tool=tool, ordinal=ordinal) for tool, ordinal in kind.tools(version.config)]
    return tools + [CalleeReference(activity=row) for row in kind.activities(version.config)]


def _address(version: ActivityVersion) -> list[str]:
    address = version.config.get("address")
    return [address] if isinstance(address, str) else []


def _named_by_definitions(row: Activity) -> list[Tool]:
    """Return the definitions that it runs for by default: they name it, or have its name."""
    rows = definitions.all_of_them().exclude(current=None).select_related("current")
    candidates = rows.filter(name=row.name) | rows.filter(current__raw__contains='"_activity"')
    activity_by_tool = {
        tool: tool.current and definitions.explicit_activity(tool.current) for tool in candidates
    }
    return [tool for tool, explicit in activity_by_tool.items() if (explicit or tool.name) == row.name]
