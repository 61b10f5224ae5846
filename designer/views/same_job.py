"""Pages that propose another vendor's tool for the same job in an environment of an agent.

The proposal is an activity of kind `vendor`, which a user completes. The interface that agents have pinned
stays, and with it their signatures, procedures and releases.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.models import Tool, ToolVersion
from catalog.views.asked import number
from core.errors import DomainError, invalid
from designer.environments import environments
from designer.errors import ChecksFailedError
from designer.models import Binding, Environment, Pin
from designer.upgrades import binding_moves
from designer.upgrades.binding_moves import Acceptance
from designer.views.tools import find_tool, header
from execution.activities import callees, finding, operations
from execution.activities.callees import CalleeReference
from execution.activities.picking import Steps
from execution.forms.activity_fields import ActivityDraft, ActivityEditor
from execution.forms.step_fields import StepsEditor
from execution.views import activities as editing
from people.models import Role
from people.permissions import person, requires

KIND = "vendor"
# Of a description, to look for what may do the same: more of it finds less.
WORDS = 12


@dataclass(frozen=True, slots=True)
class SameJobChoice:
    """An environment to bind in, and its present implementation, as `environments.state` names it."""

    place: Environment
    now: str
    implementation: str
    is_chosen: bool


@requires(Role.DESIGNER)
def tool_same_job(request: HttpRequest, pk: int) -> HttpResponse:
    """The user first chooses the tool, then maps inputs and outputs. A POST judges, saves, or saves and
    binds.
    """
    row = find_tool(pk)
    pins = Pin.objects.live().visible_to(person(request)).filter(tool=row).select_related("version")
    version = row.current
    if "pin" in request.GET:
        version = get_object_or_404(pins, pk=number(request.GET["pin"])).version
    if version is None:
        raise Http404
    reference = CalleeReference(tool=row.pk, ordinal=version.ordinal)
    other = CalleeReference.parse(request.GET.get("by", ""))
    if request.method == "POST":
        editor, _ = editing.editor_after_post(request, KIND, {})
        is_saved = editor.act in ("save", "bind") and not editor.json_error
        address, codes = _save_mapping(request, editor, row) if is_saved else ("", ())
        return redirect(address) if address else _render_mapping(request, row, version, editor, codes)
    if other is None:
        words = request.GET.get("q", "").strip()
        hits = finding.tools(words, with_own=False, without=[row.pk]) if words else _find_likely(row, version)
        context = {"version": version, "words": words, "hits": hits, **header(row)}
        return render(request, "designer/same_job.html", context)
    callee_names = callees.find_callees([reference, other])
    if other not in callee_names:
        raise Http404
    name = f"{row.name} by {callee_names[other].vendor}"[: operations.MAX_NAME_LENGTH]
    draft = ActivityDraft(name, reference, StepsEditor.empty())
    draft = StepsEditor.applied(draft, f"add-{other}", KIND, callee_names)
    return _render_mapping(
        request, row, version, StepsEditor(KIND, draft, callee_names, stored={}, shows_faults=True)
    )


def _find_likely(row: Tool, version: ToolVersion) -> list[finding.CalleeHit]:
    """Search by the tool's own words: its name first, then its description."""
    signature = version.decoded()
    name = signature.name.replace("_", " ").replace("-", " ")
    described = " ".join(signature.description.split()[:WORDS])
    hits_by_reference: dict[CalleeReference, finding.CalleeHit] = {}
    for words in (f"{name} {described}", described, name):
        hits = finding.tools(words, with_own=False, without=[row.pk])
        hits_by_reference |= {hit.reference: hit for hit in hits if hit.reference not in hits_by_reference}
    vendor_name = row.endpoint.vendor.name
    # Tools of the same vendor come last, because another vendor's is looked for.
    likely = sorted(hits_by_reference.values(), key=lambda hit: hit.vendor == vendor_name)
    return likely[: finding.SHOWN]


def _render_mapping(
    request: HttpRequest, row: Tool, version: ToolVersion, editor: ActivityEditor, codes: Collection[str] = ()
) -> HttpResponse:
    """Render the mapping after it was saved or refused. `codes` are of failed checks, which a user may
    accept with a reason.
    """
    config, signature = cast(Steps, editor.draft.config), version.decoded()
    picked = [source for step in config.steps for source in step.inputs.values()]
    picked += config.outputs.values()
    places = _list_choices(request, row)
    fault = editor.faults[0].message if editor.faults else ""
    context = {
        "version": version,
        "editor": editor,
        "form": editor.head,
        "other": next(iter(cast(StepsEditor, editor).blocks()), None),
        "gaps": editor.faults,
        "unused": [
            item for item in signature.inputs if item.name not in {mapping.input for mapping in picked}
        ],
        "lacking": [output for output in signature.outputs if output.name not in config.outputs],
        "places": places,
        "codes": codes,
        "why_not_saved": fault,
        "why_not_bound": fault
        or ("" if places else _("No agent that has this tool has an environment yet.")),
        **header(row),
    }
    return render(request, "designer/same_job_mapping.html", context, status=editor.head.status)


def _list_choices(request: HttpRequest, row: Tool) -> list[SameJobChoice]:
    places = environments.environments_using(row, person(request))
    bindings = Binding.objects.filter(environment__in=places, tool=row).select_related("activity")
    bound = {binding.environment_id: binding for binding in bindings}
    environment_id = number(request.POST.get("environment") or request.GET.get("environment", ""))
    return [
        SameJobChoice(
            place,
            environments.state(bound.get(place.pk)),
            environments.describe_binding(bound[place.pk]) if place.pk in bound else "",
            place.pk == environment_id,
        )
        for place in places
    ]


def _save_mapping(request: HttpRequest, editor: ActivityEditor, row: Tool) -> tuple[str, Collection[str]]:
    """Return the address of the next page; "" where something has to be corrected first, which is marked
    then, with the codes of the checks that a user may accept."""
    actor, is_bound = person(request), editor.act == "bind"
    acceptance = Acceptance(request.POST.getlist("accept"), request.POST.get("reason", "").strip())
    if not editor.head.is_valid():
        return "", acceptance.codes
    try:
        with transaction.atomic():
            activity = operations.create(
                actor=actor,
                name=editor.head.cleaned_data["name"],
                kind=KIND,
                config=editor.config,
                interface=editing.interface_of(editor),
            )
            address = reverse("activity", args=[activity.pk])
            if not is_bound:
                return address, ()
            environment_id = number(request.POST.get("environment", ""))
            place = next(
                (
                    item
                    for item in environments.environments_using(row, person(request))
                    if item.pk == environment_id
                ),
                None,
            )
            if place is None:
                raise invalid(environment=_("Choose an environment."))
            expected_state = request.POST.get(f"was-{place.pk}", environments.WHATEVER)
            binding = binding_moves.bind(
                place, row, actor=actor, activity=activity, expected=expected_state, acceptance=acceptance
            )
    except ChecksFailedError as error:
        editor.refuse(error)
        return "", error.failed_codes
    except DomainError as error:
        editor.refuse(error)
        return "", acceptance.codes
    return f"{address}?bound={binding.pk}", ()
