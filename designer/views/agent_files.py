from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from designer.files import agent_files
from designer.files.agent_files import AgentFile, ImportResult
from designer.forms.agents import AgentImportForm
from people.models import Role
from people.permissions import person, requires


@requires(Role.DESIGNER)
def agent_import(request: HttpRequest) -> HttpResponse:
    """The first press shows the agents that the file would create and its missing parts; the second press
    creates them.
    """
    actor = person(request)
    form = AgentImportForm(request.POST or None, request.FILES or None, actor=actor)
    result: ImportResult | None = None
    text = ""
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            body = form.document()
            filed = agent_files.read_file(body)
            result, text = _brought_in(form, filed, is_dry_run=True), body.decode()
            if form.cleaned_data["act"] == "import":
                done = _brought_in(form, filed, is_dry_run=False)
                first = next(iter(done.agents.values()))
                messages.success(
                    request,
                    _("“{agent}” was imported. Check its tools and texts, then publish.").format(agent=first),
                )
                return redirect("agent", first.slug)
    context = {"form": form, "found": result, "text": text}
    return render(request, "designer/agent_import.html", context)


def _brought_in(form: AgentImportForm, filed: AgentFile, *, is_dry_run: bool) -> ImportResult:
    values = form.cleaned_data
    return agent_files.import_file(
        filed,
        actor=form.actor,
        team=values.get("team"),
        is_dry_run=is_dry_run,
        accept_missing=values["accept_missing"],
    )
