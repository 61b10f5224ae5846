"""The pages on which activities are set up: made, changed and removed."""

from collections.abc import Mapping
from typing import Any

import msgspec
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Activity, ToolVersion
from core.errors import DomainError
from execution.activities import callees, finding, kinds, operations
from execution.activities.callees import CalleeReference
from execution.activities.config_masking import masked_configs
from execution.activities.finding import BoxResults
from execution.forms import activity_fields
from execution.forms.activity_fields import ENTER, ActivityDraft, ActivityEditor
from execution.forms.http_fields import HttpEditor
from execution.forms.mock_fields import MockEditor
from execution.forms.step_fields import StepsEditor
from people.models import Role
from people.permissions import person, requires, requires_post

EDITORS: dict[str, type[ActivityEditor]] = {
    "vendor": StepsEditor,
    "http": HttpEditor,
    "composite": StepsEditor,
    "mock": MockEditor,
}
# `bind` is pressed where an activity is saved and bound at once.
SAVING = (ENTER, "save", "bind")
NOT_TAKEN_OVER = gettext_lazy("The JSON is not applied yet. Apply or discard it.")
ONLY_ADMINISTRATORS = gettext_lazy("Only an administrator can change an implementation with a credential.")


@requires(Role.DESIGNER)
def activity_new(request: HttpRequest) -> HttpResponse:
    """Choose the kind of the new activity, then enter the activity."""
    kind, interface = request.GET.get("kind", ""), CalleeReference.parse(request.GET.get("interface", ""))
    if kind not in EDITORS:
        context = {"kinds": [kinds.get(name) for name in EDITORS], "interface": interface}
        return render(request, "catalog/activity_kind.html", context)
    return _edit_activity(request, None, kind, ActivityDraft("", interface, EDITORS[kind].empty()))


@requires(Role.DESIGNER)
def activity_change(request: HttpRequest, pk: int) -> HttpResponse:
    activity = get_activity(pk)
    return _edit_activity(request, activity, operations.current(activity).kind, draft_of(activity))


@requires_post(Role.DESIGNER)
def activity_remove(request: HttpRequest, pk: int) -> HttpResponse:
    activity = get_activity(pk)
    try:
        operations.remove(activity, actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("activity", pk)
    messages.success(
        request, _("“{activity}” was removed. Its calls stay in the history.").format(activity=activity)
    )
    return redirect("activity-list")


def get_activity(pk: int) -> Activity:
    rows = Activity.objects.shared().select_related("current__interface__tool__current")
    return get_object_or_404(rows, pk=pk)


def draft_of(activity: Activity) -> ActivityDraft:
    """Return the stored activity for a person: a masked value that is sent back stands for the stored one."""
    now = operations.current(activity)
    row = now.interface
    interface = CalleeReference(tool=row.tool_id, ordinal=row.ordinal) if row else None
    config = msgspec.convert(masked_configs([now])[0], type(EDITORS[now.kind].empty()))
    return ActivityDraft(activity.name, interface, config)


def display_editor(activity: Activity) -> ActivityEditor:
    """Return the activity for display."""
    draft = draft_of(activity)
    kind = operations.current(activity).kind
    stored = operations.current(activity).config
    return EDITORS[kind](
        kind, draft, callees.find_callees(draft.references()), stored=stored, shows_faults=False
    )


def _edit_activity(
    request: HttpRequest, activity: Activity | None, kind: str, draft: ActivityDraft
) -> HttpResponse:
    sought: dict[str, BoxResults] = {}
    stored = operations.current(activity).config if activity else {}
    if request.method == "POST":
        editor, sought = editor_after_post(request, kind, stored)
    else:
        known_callees = callees.find_callees(draft.references())
        editor = EDITORS[kind](kind, draft, known_callees, stored=stored, shows_faults=activity is not None)
    if activity:
        editor.head.edits(operations.facts(activity))
    is_saved = request.method == "POST" and not (sought or editor.json_error)
    is_saved = is_saved and editor.act in (ENTER, "save")
    if is_saved and (saved := _save_activity(request, editor, activity)):
        return redirect("activity", saved.pk)
    opens = list(editor.kind.credentials(operations.current(activity).config)) if activity else []
    context: dict[str, Any] = {
        "why_not": ONLY_ADMINISTRATORS if opens and not person(request).can_administer else "",
        "activity": activity,
        "editor": editor,
        "form": editor.head,
        "sought": sought,
        "number": activity.current.number + 1 if activity and activity.current else 1,
    }
    return render(request, "catalog/activity_edit.html", context, status=editor.head.status)


def editor_after_post(
    request: HttpRequest, kind: str, stored: Mapping[str, Any]
) -> tuple[ActivityEditor, dict[str, BoxResults]]:
    """Return the editor with the entered draft after the effect of the pressed button, and the search in
    it. stored: the configuration of the activity, empty for a new one."""
    data, act = request.POST, request.POST.get("act", ENTER)
    reference = CalleeReference.parse(act.rpartition("-")[2])
    known_callees = callees.find_callees(
        activity_fields.references_in(data) | ({reference} if reference else set())
    )
    editor_class = EDITORS[kind]
    draft = editor_class.applied(editor_class.parse_draft(data, known_callees), act, kind, known_callees)
    sought = finding.search_box(data, act, with_activities=kind == "composite")
    is_judged_now = act in (*SAVING, "check") and not sought
    json_error = ""
    if act == "json":
        try:
            draft = activity_fields.from_json(draft, data.get("json", ""))
            known_callees = callees.find_callees(draft.references())
        except DomainError as error:
            json_error = error.fields["json"]
    elif act != "forget" and activity_fields.is_json_typed(data):
        json_error = str(NOT_TAKEN_OVER)
    editor = editor_class(
        kind,
        draft,
        known_callees,
        stored=stored,
        data=data,
        shows_faults=is_judged_now or data.get("judged") == "1",
    )
    editor.act, editor.json_error = act, json_error
    if act not in SAVING:
        editor.head.errors.clear()
    return editor, sought


def _save_activity(
    request: HttpRequest, editor: ActivityEditor, activity: Activity | None
) -> Activity | None:
    actor = person(request)
    if not editor.head.is_valid():
        return None
    name = editor.head.cleaned_data["name"]
    try:
        if activity is None:
            activity = operations.create(
                actor=actor,
                name=name,
                kind=editor.kind.name,
                config=editor.config,
                interface=interface_of(editor),
            )
            messages.success(
                request,
                _("“{activity}” is saved. Choose it in an environment to use it.").format(activity=activity),
            )
            return activity
        # Compare the decoded configurations, whatever their spelling over REST.
        is_same = editor.draft.config == draft_of(activity).config
        has_newer_callees = operations.has_newer_callees(operations.current(activity))
        changed = operations.change(
            activity,
            actor=actor,
            name=name,
            config=None if is_same and not has_newer_callees else editor.config,
            interface=interface_of(editor),
            expected=editor.head.expected,
        )
    except DomainError as error:
        editor.refuse(error)
        return None
    if changed.current == activity.current:
        messages.info(request, _("Saved. The configuration is unchanged, so there is no new version."))
    else:
        message = _(
            "Saved as version {version}. Environments keep their version until you update them under Updates."
        )
        messages.success(request, message.format(version=operations.current(changed).number))
    return changed


def interface_of(editor: ActivityEditor) -> ToolVersion | None:
    """Return the interface that the form names. Raises DomainError if its tool does not exist."""
    if (reference := editor.draft.interface) is None:
        return None
    rows = ToolVersion.objects.select_related("tool")
    return rows.filter(tool=reference.tool, ordinal=reference.ordinal).first()
