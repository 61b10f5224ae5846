"""Try a tool from its page: run it, and save, run and remove its examples."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.models import Thread, Tool, ToolVersion
from catalog.models.calls import Mode
from catalog.views.asked import number
from core.errors import DomainError
from core.outbound.errors import printable
from designer.agents import agent_vendors
from designer.environments import bound_tools
from designer.environments.bound_tools import Subject
from designer.models import Environment
from designer.views.tools import find_tool
from designer.views.try_page import (
    choose_mode,
    find_calls,
    find_environment,
    find_threads,
    find_version,
    make_run_form,
    read_call_id,
    read_deadline,
    read_form_key,
    redirect_to_call,
    render_try_page,
)
from execution.calls import checks, examples, latent, masking, requesting
from execution.threads import threads
from people.forms import show_errors
from people.models import Role
from people.permissions import person, requires, requires_post

NEW = "new"


@requires(write=Role.DESIGNER)
def tool_try(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the form of a version, filled from an earlier call or an example, and the result of a call."""
    row = find_tool(pk)
    if request.method == "POST":
        return _run_tool(request, row)
    call = (
        get_object_or_404(find_calls(row, person(request)), pk=number(request.GET["call"]))
        if "call" in request.GET
        else None
    )
    version = find_version(row, request.GET.get("version", ""), call)
    initial_values: Mapping[str, Any] = {}
    if call:
        initial_values = masking.plain_arguments(call)
    elif version and "example" in request.GET:
        visible_examples = row.examples.visible_to(person(request))
        example = get_object_or_404(visible_examples, pk=number(request.GET["example"]))
        initial_values = masking.drop_masked_inputs(row.pk, example.arguments)
    form = make_run_form(version, initial_values=initial_values) if version else None
    return render_try_page(request, row, version, form, call)


def _run_tool(request: HttpRequest, row: Tool) -> HttpResponse:
    version = find_version(row, request.POST.get("ordinal", ""), None)
    if version is None:
        return redirect("tool-try", row.pk)
    form = make_run_form(version, request.POST)
    is_confirmed = "confirm" in request.POST
    place = find_environment(request, row)
    resolution = bound_tools.resolve_all(place, [subject := Subject.of_version(version)])[subject]
    activity = bound_tools.version_of(resolution)
    confirm_reason = (
        checks.why_confirm(version, activity) if resolution.runs in ("vendor", "activity") else ""
    )
    if form.is_valid() and (is_confirmed or not confirm_reason):
        with form.catch_errors():
            if resolution.fault:
                raise resolution.fault
            if activity and place:
                agent = Environment.objects.select_related("agent").get(pk=place.pk).agent
                owners = [pin.agent for pin in bound_tools.pins_of(agent) if pin.tool_id == row.pk]
                agent_vendors.check_activity(owners, activity)
            make = latent.request if resolution.runs == "latent" else requesting.request_call
            call = make(
                version,
                actor=person(request),
                arguments=form.arguments,
                deadline_seconds=read_deadline(request),
                is_confirmed=is_confirmed,
                call_id=read_call_id(request),
                mode=choose_mode(version) if resolution.runs == "vendor" else Mode.WAIT,
                thread=_choose_thread(request, version) if resolution.runs == "vendor" else None,
                activity=activity,
                environment=place.name if place else "",
            )
            return redirect_to_call(call, place)
    more: dict[str, Any] = (
        {"must_confirm": confirm_reason, "runs_activity": activity.activity}
        if activity and confirm_reason
        else {}
    )
    return render_try_page(request, row, version, form, None, is_confirmed=is_confirmed, **more)


@requires_post(Role.DESIGNER)
def tool_thread_end(request: HttpRequest, pk: int, thread: str) -> HttpResponse:
    thread_row = get_object_or_404(find_threads(find_tool(pk), person(request)), key=thread)
    with show_errors(request):
        threads.remove(thread_row, actor=person(request))
        messages.success(request, _("{thread} was deleted, also at its vendor.").format(thread=thread_row))
    return redirect("tool-try", pk)


@requires_post(Role.DESIGNER)
def tool_example_save(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    call = get_object_or_404(find_calls(row, person(request)), pk=number(request.POST.get("call", "")))
    try:
        example = examples.save_example(call, actor=person(request), name=request.POST.get("name", ""))
    except DomainError as error:
        messages.error(request, next(iter(error.fields.values()), error.message))
    else:
        messages.success(
            request,
            _("“{example}” is saved. Choose it in the list to fill the form or to run it again.").format(
                example=example
            ),
        )
    return redirect_to_call(call)


@requires_post(Role.DESIGNER)
def tool_example_run(request: HttpRequest, pk: int, example: int) -> HttpResponse:
    # One press: the same arguments against the version that is shown.
    row = find_tool(pk)
    example_row = get_object_or_404(row.examples.visible_to(person(request)), pk=example)
    version = find_version(row, request.POST.get("ordinal", ""), None)
    filled = f"{reverse('tool-try', args=[row.pk])}?example={example_row.pk}"
    if version is None:
        return redirect(filled)
    try:
        return redirect_to_call(
            requesting.request_call(
                version,
                actor=person(request),
                arguments=example_row.arguments,
                call_id=read_call_id(request),
                mode=choose_mode(version),
            )
        )
    except DomainError as error:
        # No form exists yet that could show the errors at its inputs.
        fields = list(error.fields.items())[:3] if isinstance(error, checks.ArgumentsError) else []
        faults = [f"“{printable(name, 60)}” {reason}." for name, reason in fields]
        messages.error(request, " ".join([error.message, *faults]))
        return redirect(f"{filled}&version={version.ordinal}")


@requires_post(Role.DESIGNER)
def tool_example_remove(request: HttpRequest, pk: int, example: int) -> HttpResponse:
    row = find_tool(pk)
    example_row = get_object_or_404(row.examples.visible_to(person(request)), pk=example)
    examples.remove_example(example_row, actor=person(request))
    messages.success(request, _("“{name}” was removed.").format(name=example_row.name))
    return redirect("tool-try", row.pk)


def _choose_thread(request: HttpRequest, version: ToolVersion) -> Thread | None:
    """Return the thread that the form names, or a new one. Raises DomainError."""
    data = request.POST.get("thread", "")
    if not data:
        return None
    if data == NEW:
        # By the key of the form, so that one that is sent twice begins one thread.
        key = read_form_key(request)
        thread_key = uuid.uuid5(key, NEW) if key else None
        return threads.create(version, actor=person(request), key=thread_key)
    try:
        thread_row = find_threads(version.tool, person(request)).filter(key=uuid.UUID(data)).first()
    except ValueError:
        thread_row = None
    if thread_row is None:
        raise DomainError("thread_removed", _("This thread was removed. Choose another one, or start one."))
    return threads.begin(thread_row, version)
