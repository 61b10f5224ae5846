"""The environments of an agent: the implementation of each tool in each environment, and the forms that
change it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.models import Activity, ActivityVersion
from catalog.views.asked import number
from core.errors import DomainError
from core.stored_sentences import translate_sentence
from designer.environments import bound_tools, environments, mocks
from designer.environments.bound_tools import BoundTool
from designer.errors import ChecksFailedError
from designer.forms.environments import EnvironmentForm
from designer.models import Agent, Environment, Pin
from designer.overviews import agent_readiness
from designer.readiness.judgement import State
from designer.upgrades import binding_moves
from designer.upgrades.binding_moves import Acceptance
from designer.views.chosen_agent import find_agent
from execution.activities import kinds
from people.forms import show_errors
from people.models import ApiKey, Role
from people.permissions import person, requires, requires_post

TOOLS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Cell:
    """One tool in one environment.

    binding: the stored one. choice: the one in the form. Both are as `environments.state` names them.
    implementation: the name of what runs.
    states: the tool's states there, the worst first.
    activity: the activity that is bound or runs, with its `version` and the address of its `page`.
    """

    place: Environment
    name: str
    binding: str
    choice: str
    implementation: str
    states: Sequence[State]
    activity: Activity | None
    version: ActivityVersion | None
    page: str


@dataclass(frozen=True, slots=True)
class EnvironmentRow:
    """One tool. `choices` are the choices of each cell, by the value that a form sends."""

    pin: Pin
    choices: Sequence[tuple[str, str]]
    cells: Sequence[Cell]


@requires(write=Role.DESIGNER)
def agent_environments(request: HttpRequest, slug: str) -> HttpResponse:
    """The matrix of tools and environments. A POST adds an environment, or saves the choices."""
    agent = find_agent(request, slug)
    form = EnvironmentForm(request.POST if request.POST.get("do") == "add" else None)
    pins, places = bound_tools.pins_of(agent), list(agent.environments.all())
    start = number(request.GET.get("from", ""))
    page_pins = pins[start : start + TOOLS_SHOWN]
    refusal, codes = "", set(request.POST.getlist("accept"))
    if request.method == "POST":
        try:
            if "do" not in request.POST:
                changed = _save_changes(request, page_pins, places)
                messages.success(request, _saved_message(changed))
                return redirect(request.get_full_path())
            if form.is_valid():
                created = binding_moves.create_environment(agent, actor=person(request), **form.cleaned_data)
                messages.success(
                    request,
                    _("“{name}” was created. Tools run as by default until you choose.").format(
                        name=created.name
                    ),
                )
                return redirect("agent-environments", slug)
        except DomainError as error:
            if "do" in request.POST:
                form.refuse(error)
            refusal = " ".join(map(translate_sentence, (error.message, *error.fields.values())))
            if isinstance(error, ChecksFailedError):
                codes = set(error.failed_codes)
    rows = _build_rows(agent, page_pins, places, request)
    keys = ApiKey.objects.filter(named__agent=agent, revoked_at=None).exclude(environment="")
    context = {
        "agent": agent,
        "form": form,
        "places": places,
        "rows": rows,
        "refusal": refusal if "do" not in request.POST else "",
        "codes": sorted(codes),
        "refused_default": next((row for row in places if row.name == request.GET.get("default")), None),
        "default_codes": request.GET.getlist("accept"),
        # How many API keys that work run in each environment.
        "keys": dict(Counter(keys.values_list("environment", flat=True))),
        "before": max(0, start - TOOLS_SHOWN) if start else None,
        "after": start + TOOLS_SHOWN if start + TOOLS_SHOWN < len(pins) else None,
        "tool_count": len(pins),
    }
    status = 409 if refusal else 400 if form.errors else 200
    return render(request, "designer/environments.html", context, status=status)


@requires_post(Role.DESIGNER)
def environment_default(request: HttpRequest, slug: str, env: str) -> HttpResponse:
    row = _find_environment(request, slug, env)
    is_default = request.POST.get("is_default", "1") == "1"
    acceptance = Acceptance(request.POST.getlist("accept"), request.POST.get("reason", "").strip())
    page = reverse("agent-environments", args=[slug])
    try:
        binding_moves.make_default(row, actor=person(request), is_default=is_default, acceptance=acceptance)
    except DomainError as error:
        messages.error(request, " ".join(map(translate_sentence, (error.message, *error.fields.values()))))
        codes = error.failed_codes if isinstance(error, ChecksFailedError) else acceptance.codes
        query = urlencode({"default": row.name, "accept": codes}, doseq=True)
        return redirect(f"{page}?{query}" if codes else page)
    if is_default:
        messages.success(request, _("“{name}” is now the default.").format(name=row.name))
    else:
        messages.success(request, _("No environment is the default now."))
    return redirect(page)


@requires_post(Role.DESIGNER)
def environment_protect(request: HttpRequest, slug: str, env: str) -> HttpResponse:
    row = _find_environment(request, slug, env)
    is_protected = request.POST.get("is_protected", "1") == "1"
    with show_errors(request):
        environments.protect(row, actor=person(request), is_protected=is_protected)
        message = (
            _(
                "Only an administrator or a second person can change the implementations in “{name}” "
                "from now on."
            )
            if is_protected
            else _("Every designer can change the implementations in “{name}” from now on.")
        )
        messages.success(request, message.format(name=row.name))
    return redirect("agent-environments", slug)


@requires_post(Role.DESIGNER)
def environment_remove(request: HttpRequest, slug: str, env: str) -> HttpResponse:
    row = _find_environment(request, slug, env)
    environments.remove(row, actor=person(request))
    messages.success(
        request, _("“{name}” was removed. Calls and keys that select it are refused.").format(name=row.name)
    )
    return redirect("agent-environments", slug)


@requires_post(Role.DESIGNER)
def environment_mocks(request: HttpRequest, slug: str, env: str) -> HttpResponse:
    row = _find_environment(request, slug, env)
    try:
        count = mocks.bind_all(row, actor=person(request))
    except DomainError as error:
        sentences = (error.message, *list(error.fields.values())[:3])
        messages.error(request, " ".join(map(translate_sentence, sentences)))
    else:
        message = ngettext(
            "One tool now uses mocks. No tool in “{name}” calls a vendor.",
            "{count} tools now use mocks. No tool in “{name}” calls a vendor.",
            count,
        )
        messages.success(request, message.format(count=count, name=row.name))
    return redirect("agent-environments", slug)


def _find_environment(request: HttpRequest, slug: str, env: str) -> Environment:
    rows = Environment.objects.select_related("agent")
    return get_object_or_404(rows, agent=find_agent(request, slug), name=env)


def _build_rows(
    agent: Agent, pins: Sequence[Pin], places: Sequence[Environment], request: HttpRequest
) -> list[EnvironmentRow]:
    bound_rows = bound_tools.bindings_by_environment(places, pins) if places else {}
    ready = agent_readiness.assess_places(agent, pins, places)
    offered, usual = environments.fitting_activities(pins), bound_tools.unbound_in(agent, pins)
    rows = []
    for index, pin in enumerate(pins):
        choices = [
            ("", _("Default ({implementation})").format(implementation=_describe_binding(usual[index]))),
            ("latent", _("Simulated by the model")),
        ]
        choices += [(str(row.pk), f"{kind_of(row)}: {row}") for row in offered[pin]]
        values, cells = {value for value, _ in choices}, []
        for place in places:
            bound, name = bound_rows[place.pk][index], _field_name(pin, place)
            binding = environments.state(bound.binding)
            if binding not in values:
                choices.append(
                    (binding, _("{implementation} (cannot run)").format(implementation=bound.activity))
                )
                values.add(binding)
            page = ""
            if bound.activity and bound.activity.agent is None:
                page = reverse("activity", args=[bound.activity.pk])
            elif bound.activity and not bound.activity.removed_at:
                page = reverse("mock", args=[pin.agent.slug, pin.pk])
            cells.append(
                Cell(
                    place,
                    name,
                    binding,
                    choice=request.POST.get(name, binding),
                    implementation=_describe_binding(bound),
                    states=ready[place.pk][index].states,
                    activity=bound.activity,
                    version=bound.version,
                    page=page,
                )
            )
        rows.append(EnvironmentRow(pin, choices, cells))
    return rows


def _describe_binding(bound: BoundTool) -> str:
    """Return a short description of the implementation."""
    match bound.resolution.runs:
        case "vendor":
            return _("vendor")
        case "latent":
            return _("simulated by the model")
        case "activity" if bound.activity:
            return f"{kind_of(bound.activity).lower()} “{bound.activity}”"
    return _("nothing")


def _field_name(pin: Pin, place: Environment) -> str:
    return f"{pin.pk}-{place.pk}"


@transaction.atomic
def _save_changes(request: HttpRequest, pins: Sequence[Pin], places: Sequence[Environment]) -> int:
    """Save all changes or none: a user sees one table. Untouched cells stay as they are now."""
    changed = 0
    acceptance = Acceptance(request.POST.getlist("accept"), request.POST.get("reason", "").strip())
    for pin in pins:
        for place in places:
            name = _field_name(pin, place)
            choice, binding = request.POST.get(name), request.POST.get(f"was-{name}", environments.WHATEVER)
            if choice is None or choice == binding:
                continue
            changed += 1
            if choice == "":
                binding_moves.unbind(
                    place, pin.tool, actor=person(request), expected=binding, acceptance=acceptance
                )
                continue
            activity = None
            if choice != "latent":
                activity = (
                    Activity.objects.select_related("current__interface").filter(pk=number(choice)).first()
                )
                if activity is None:
                    raise DomainError("unknown_activity", _("This implementation was removed."), status=409)
            binding_moves.bind(
                place,
                pin.tool,
                actor=person(request),
                activity=activity,
                expected=binding,
                acceptance=acceptance,
            )
    return changed


def _saved_message(changed_count: int) -> str:
    if not changed_count:
        return _("No changes.")
    return ngettext(
        "{count} change was saved. They apply from the next call on. Signatures and releases did not change.",
        "{count} changes were saved. They apply from the next call on. "
        "Signatures and releases did not change.",
        changed_count,
    ).format(count=changed_count)


def kind_of(activity: Activity) -> str:
    return str(kinds.get(activity.current.kind).label) if activity.current else ""
