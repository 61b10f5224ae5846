"""Groups of words that mean the same: those of this organization to edit, the shipped ones to read."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from catalog.forms.word_group_fields import WordGroupForm
from catalog.models import CustomWordGroup
from catalog.search import word_groups
from catalog.search.progress import pending_progress
from people.models import Role
from people.permissions import person, requires, requires_post

MAX_QUERY_LENGTH = 80
SAVED = gettext_lazy("Saved. Searches use these words now. Tools are indexed again in the background.")


@requires(Role.VIEWER)
@require_safe
def word_group_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "")[:MAX_QUERY_LENGTH]
    context = {
        "groups": list(CustomWordGroup.objects.order_by("words", "pk")),
        "query": query,
        "shipped": word_groups.find_shipped_groups(query),
        "progress": pending_progress(),
    }
    return render(request, "catalog/word_groups.html", context)


@requires(Role.ADMIN)
def word_group_new(request: HttpRequest) -> HttpResponse:
    form = WordGroupForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            word_groups.create_group(actor=person(request), **form.cleaned_data)
            messages.success(request, SAVED)
            return redirect("word-group-list")
    return render(request, "catalog/word_group.html", {"form": form})


@requires(Role.ADMIN)
def word_group(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(CustomWordGroup, pk=pk)
    form = WordGroupForm(request.POST or None, initial={"words": ", ".join(row.words)})
    form.edits(word_groups.group_facts(row))
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            word_groups.update_group(row, actor=person(request), expected=form.expected, **form.cleaned_data)
            messages.success(request, SAVED)
            return redirect("word-group-list")
    return render(request, "catalog/word_group.html", {"form": form, "group": row}, status=form.status)


@requires_post(Role.ADMIN)
def word_group_remove(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(CustomWordGroup, pk=pk)
    word_groups.remove_group(row, actor=person(request))
    messages.success(request, _("The group “{group}” is removed.").format(group=row))
    return redirect("word-group-list")
