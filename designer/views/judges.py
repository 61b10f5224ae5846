"""The judges over the network that agents may be rehearsed by: administrators set them up."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from core.errors import DomainError
from designer.forms.rehearsals import JudgeForm
from designer.rehearsals import judges
from people.models import Role
from people.permissions import person, requires, requires_post


@requires(Role.ADMIN)
def judge_list(request: HttpRequest) -> HttpResponse:
    form = JudgeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            judge = judges.create(actor=person(request), **form.cleaned_data)
            messages.success(
                request, _("“{judge}” was added. Choose it in the tests of an agent.").format(judge=judge)
            )
            return redirect("judge-list")
    context: dict[str, Any] = {"rows": judges.live(), "form": form}
    return render(request, "designer/judges.html", context, status=400 if form.errors else 200)


@requires(Role.ADMIN)
def judge(request: HttpRequest, pk: UUID) -> HttpResponse:
    row = get_object_or_404(judges.live(), pk=pk)
    form = JudgeForm(request.POST or None, initial=judges.facts(row))
    if row.fingerprint:
        form.fields["key"].help_text = _(
            "A key with the fingerprint {fingerprint} is stored. Leave this empty to keep it. If you "
            "change the address to another server, enter the key again."
        ).format(fingerprint=row.fingerprint)
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            judges.change(row, actor=person(request), **form.cleaned_data)
            messages.success(request, _("Saved."))
            return redirect("judge-list")
    context = {"row": row, "form": form}
    return render(request, "designer/judge.html", context, status=400 if form.errors else 200)


@requires_post(Role.ADMIN)
def judge_remove(request: HttpRequest, pk: UUID) -> HttpResponse:
    try:
        judges.remove(get_object_or_404(judges.live(), pk=pk), actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("judge", pk)
    messages.success(request, _("The evaluation model and its key were removed."))
    return redirect("judge-list")
