from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Finding, LastReply, Run, ToolVersion
from catalog.models.findings import FindingState
from catalog.models.runs import RunStatus
from catalog.search.progress import progress_of
from catalog.vendors import onboarding
from core.errors import DomainError
from people.models import Role
from people.permissions import person, requires, requires_post

SHOWN = 25


@requires(Role.VIEWER)
def run(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the page of a run, or only its changing part if the page requests that."""
    row = get_object_or_404(_run_rows(), pk=pk)
    template = "catalog/_run.html" if request.headers.get("HX-Request") else "catalog/run.html"
    context: dict[str, Any] = {"run": row, "progress": progress_of([row.endpoint_id])}
    if row.is_active:
        return render(request, template, context)
    versions = ToolVersion.objects.filter(run=row).select_related("tool").order_by("pk")
    versions = versions.defer("signature", "raw")
    # Notes are on the page of their tool.
    findings = Finding.objects.filter(run=row).exclude(state=FindingState.NOTED)
    others = onboarding.other_protocols(row)
    # The time of the automatic retry of a failed run. None without one, or if there was another run since.
    endpoint = row.endpoint
    is_last = not Run.objects.of_lists().filter(endpoint=endpoint, pk__gt=row.pk).exists()
    is_waiting = row.status == RunStatus.FAILED and is_last and endpoint.is_live and not endpoint.is_paused
    context |= {
        "is_held": endpoint.held_run_id == row.pk,
        "has_reply": LastReply.objects.filter(run=row).exists(),
        "next_try": endpoint.next_due_at if is_waiting else None,
        "other_protocols": others,
        "recognized_protocol": next((choice for choice in others if choice[0] == row.spoken_protocol), None),
        "added": versions.filter(ordinal=1)[:SHOWN] if row.added else [],
        "changed": versions.filter(ordinal__gt=1)[:SHOWN] if row.changed else [],
        "withdrawn": row.withdrawals.select_related("tool")[:SHOWN] if row.withdrawn else [],
        "returned": row.returns.select_related("tool")[:SHOWN] if row.returned else [],
        "rejections": row.rejections.all()[:SHOWN] if row.rejected else [],
        "findings": findings.decisions().weighed().select_related("tool")[:SHOWN],
        "shown": SHOWN,
    }
    return render(request, template, context)


@requires(Role.ADMIN)
@require_safe
def run_reply(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the vendor's last reply before the failure, for administrators only: it may contain anything."""
    reply = get_object_or_404(LastReply.objects.select_related("run__endpoint__vendor"), run=pk)
    return render(request, "catalog/run_reply.html", {"reply": reply, "run": reply.run})


@requires_post(Role.ADMIN)
def run_confirm(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(_run_rows(), pk=pk)
    try:
        next_run = enumeration_runs.confirm_held(row, actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("run", row.pk)
    return redirect("run", next_run.pk)


@requires_post(Role.ADMIN)
def run_protocol(request: HttpRequest, pk: int) -> HttpResponse:
    """Read an address that has never listed a tool in another protocol."""
    row, actor = get_object_or_404(_run_rows(), pk=pk), person(request)
    try:
        next_run = onboarding.read_in_protocol(row.endpoint, request.POST.get("protocol", ""), actor=actor)
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("run", row.pk)
    return redirect("run", next_run.pk)


def _run_rows() -> QuerySet[Run]:
    return Run.objects.select_related("endpoint__vendor", "requested_by")
