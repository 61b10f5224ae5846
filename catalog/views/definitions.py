"""The pages on which a tool is defined, and changed: in rows, or as JSON; or many at once."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.forms.definition_fields import BLANK, SIDES, Editor
from catalog.forms.definition_list_fields import DefinitionListForm
from catalog.models import Tool
from catalog.tools import definition_import, definitions
from catalog.views.asked import next_path
from core.errors import DomainError
from people.forms import show_errors
from people.models import Role
from people.permissions import person, requires, requires_post
from protocols.definition import Parts


@requires(Role.DESIGNER)
def definition_new(request: HttpRequest) -> HttpResponse:
    return _edit_definition(request, None)


@requires(Role.DESIGNER)
def definition_import_page(request: HttpRequest) -> HttpResponse:
    """Define many tools from one JSON document, all or none."""
    form = DefinitionListForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        document = None
        try:
            document = form.document()
            tools = definition_import.define_all(document, actor=person(request))
        except DomainError as error:
            form.refuse_all(error, document)
        else:
            template = ngettext(
                "“{tool}” is defined. Pin them to an agent, as you pin a vendor's tools.",
                "{count} tools are defined. Pin them to an agent, as you pin a vendor's tools.",
                len(tools),
            )
            messages.success(request, template.format(tool=tools[0], count=len(tools)))
            return redirect(f"{reverse('tool-list')}?protocol=definition")
    return render(request, "catalog/definition_import.html", {"form": form})


@requires(Role.DESIGNER)
def definition_change(request: HttpRequest, pk: int) -> HttpResponse:
    return _edit_definition(request, get_definition(pk))


@requires_post(Role.DESIGNER)
def definition_withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_definition(pk)
    definitions.withdraw(row, actor=person(request))
    messages.success(request, _("“{tool}” was withdrawn. Existing pins and releases stay.").format(tool=row))
    return redirect("tool", row.pk)


@requires_post(Role.DESIGNER)
def definition_restore(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_definition(pk)
    with show_errors(request):
        definitions.offer_again(row, actor=person(request))
        messages.success(request, _("“{tool}” can be pinned again.").format(tool=row))
    return redirect("tool", row.pk)


def get_definition(pk: int) -> Tool:
    return get_object_or_404(definitions.all_of_them().select_related("current"), pk=pk)


def _edit_definition(request: HttpRequest, tool: Tool | None) -> HttpResponse:
    parts = definitions.parts_of(tool) if tool else BLANK
    data = request.POST if request.method == "POST" else None
    editor = Editor(data, parts, is_json="json" in request.GET)
    if tool:
        editor.head.edits(definitions.facts(tool))
    if data is not None:
        if (side := editor.act.removeprefix("more-")) in SIDES:
            editor.make_room(data, side)
        elif (typed := editor.entered_parts()) and editor.act in ("json", "rows"):
            other = Editor(None, typed, is_json=editor.act == "json")
            other.head.expected = editor.head.expected
            editor = other
        elif typed and (saved := _save_definition(request, editor, tool, typed)):
            return redirect(next_path(request) or reverse("tool", args=[saved.pk]))
    context: dict[str, Any] = {
        "tool": tool,
        "editor": editor,
        "form": editor.head,
    }
    return render(request, "catalog/definition.html", context, status=editor.head.status)


def _save_definition(
    request: HttpRequest, editor: Editor, tool: Tool | None, typed_parts: Parts
) -> Tool | None:
    actor = person(request)
    try:
        if tool is None:
            tool = definitions.define(actor=actor, parts=typed_parts)
            messages.success(
                request,
                _("“{tool}” is defined. Pin it to an agent, as you pin a vendor's tool.").format(tool=tool),
            )
            return tool
        changes = {name: getattr(typed_parts, name) for name in Parts.__slots__}
        changed = definitions.change(tool, actor=actor, changes=changes, expected=editor.head.expected)
    except DomainError as error:
        editor.refuse(error)
        return None
    if changed.current == tool.current:
        messages.info(request, _("No changes, so there is no new version."))
    else:
        template = _("Saved as version {version}. Agents keep their pinned version until you update them.")
        messages.success(request, template.format(version=changed.current))
    return changed
