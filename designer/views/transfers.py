from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from designer.agents import transfers
from designer.forms.transfers import TransferForm
from designer.models import Agent, Transfer
from people.models import AuditEntry, Role
from people.permissions import person, requires, requires_post

HISTORY_SHOWN = 20


@requires(write=Role.DESIGNER)
def transfer(request: HttpRequest, slug: str, child: str) -> HttpResponse:
    """The name and description of the transfer to one sub-agent."""
    row = _find_transfer(request, slug, child)
    initial = {"name": row.alias, "description": transfers.description_of(row)}
    form = TransferForm(request.POST or None, initial=initial, transfer=row)
    form.edits(transfers.facts(row))
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            transfers.word_transfer(row, actor=person(request), expected=form.expected, **form.cleaned_data)
            messages.success(request, _("Saved. Publish the agent when you want runtimes to get it."))
            return redirect("transfer", slug, child)
    trail = AuditEntry.objects.filter(kind="transfer", object_id=str(row.pk)).select_related("actor")
    context = {
        "transfer": row,
        "agent": row.agent,
        "form": form,
        "is_changed": bool(row.alias or row.description),
        "history": trail[:HISTORY_SHOWN],
    }
    return render(request, "designer/transfer.html", context, status=form.status)


@requires_post(Role.DESIGNER)
def transfer_revert(request: HttpRequest, slug: str, child: str) -> HttpResponse:
    row = _find_transfer(request, slug, child)
    transfers.word_transfer(row, actor=person(request))
    messages.success(request, _("The default name and description were restored."))
    return redirect("transfer", slug, child)


def _find_transfer(request: HttpRequest, slug: str, child: str) -> Transfer:
    rows = Transfer.objects.live().select_related("agent", "child")
    agents = Agent.objects.live().visible_to(person(request))
    return get_object_or_404(rows, agent__in=agents, agent__slug=slug, child__slug=child)
