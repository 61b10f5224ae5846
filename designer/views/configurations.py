"""Pages of a tool's configurations: the kept states, and a form for another one."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _

from catalog.models.calls import StoredQuestion
from designer.forms.pins import ConfigurationNameForm
from designer.views.tools import find_tool, header
from execution.calls import results
from execution.forms.argument_forms import ArgumentsForm
from execution.threads import configurations
from people.models import Role
from people.permissions import person, requires, requires_post


@requires(write=Role.DESIGNER)
def tool_configurations(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    if row.current is None or (parameter := configurations.parameter_of(row.current)) is None:
        raise Http404
    schema = parameter.schema if isinstance(parameter.schema, dict) else {}
    signature = results.questions(StoredQuestion("values", "", schema))
    text = request.GET.get("from", "")
    begins_as = row.configurations.filter(
        pk=int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0
    ).first()
    initial: Any = begins_as.values if begins_as and isinstance(begins_as.values, dict) else {}
    name = ConfigurationNameForm(request.POST or None, initial={"name": begins_as.name if begins_as else ""})
    values = ArgumentsForm(
        request.POST or None,
        signature=signature,
        prefix="values",
        initial_values=initial,
        marked_members=[
            pointer
            for sensitive in configurations.sensitive_members(row)
            for pointer in ([sensitive] if sensitive else map("/{}".format, initial))
        ],
    )
    if request.method == "POST" and name.is_valid() and values.is_valid():
        with name.catch_errors():
            saved = configurations.save(
                row,
                actor=person(request),
                name=name.cleaned_data["name"],
                values=results.answer_of(signature, values.arguments),
            )
            messages.success(
                request,
                _("Kept as “{name}”. Choose it for a pinned tool, or name it in a call.").format(name=saved),
            )
            return redirect("tool-configurations", row.pk)
    context = {
        "name_form": name,
        "values_form": values,
        "kept": configurations.mask_values(row, configurations.newest(row)),
        "chosen": {
            configuration.pk
            for configuration in row.configurations.filter(pins__removed_at=None, pins__isnull=False)
        },
        **header(row),
    }
    return render(request, "designer/tool_configurations.html", context, status=name.status)


@requires_post(Role.DESIGNER)
def tool_configuration_remove(request: HttpRequest, pk: int, configuration: int) -> HttpResponse:
    row = find_tool(pk)
    saved = get_object_or_404(row.configurations, pk=configuration)
    configurations.remove(row, actor=person(request), name=saved.name)
    messages.success(
        request, _("“{name}” was removed from the list. Pins that use it keep it.").format(name=saved.name)
    )
    return redirect("tool-configurations", row.pk)
