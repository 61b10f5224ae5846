"""Trying a tool from its page: the form, what came of it, what was tried before."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from django.contrib import messages
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Left
from django.http import Http404, HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import get_language, gettext_noop, override
from django.utils.translation import gettext as _

import protocols
from catalog.credentials import circuit_breaker
from catalog.models import Call, Thread, Tool, ToolVersion
from catalog.models.calls import Asked, Mode
from catalog.rules import retries
from catalog.tools import effective_texts
from catalog.views.asked import number
from core.errors import DomainError
from core.outbound.errors import printable
from core.pagination import Keyset, Page
from core.postgresql.base import give_back
from designer.agents import agent_vendors
from designer.environments import bound_tools, environments
from designer.environments.bound_tools import Subject
from designer.forms.pins import version_choices
from designer.models import Agent, CallEnvironment, Environment
from designer.views.tools import asked_version, find_tool, header
from execution.calls import (
    cancellation,
    checks,
    continuing,
    events,
    examples,
    latent,
    masking,
    places,
    queue,
    requesting,
    results,
)
from execution.calls.call_keys import ClientCallId
from execution.forms.argument_forms import ArgumentsForm, OutputsForm, RunForm
from execution.threads import configurations, threads
from people.forms import show_errors
from people.models import Role, User
from people.permissions import person, requires, requires_post

CALLS_SHOWN = 10
ARGUMENTS_SHOWN = 160
NEW = "new"
THREADS_SHOWN = 20
DEADLINES = {
    30: gettext_noop("30 seconds"),
    60: gettext_noop("One minute"),
    120: gettext_noop("Two minutes"),
}
# Most vendors respond sooner; from here on the page states that it waits.
LONG_WAIT = timedelta(seconds=5)
# A browser comes back after this.
FOLLOWED_SECONDS = 300.0
LOOK_SECONDS = 5.0


@dataclass
class CallQuestions:
    """One thing that a call asks for, with the form for it where there is something to fill in."""

    asked: Asked
    form: ArgumentsForm | None


@requires(write=Role.DESIGNER)
def tool_try(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a version; filled by an earlier call or an example, and beside it what came of a call."""
    row = find_tool(pk)
    if request.method == "POST":
        return _run(request, row)
    call = (
        get_object_or_404(_calls(row, person(request)), pk=number(request.GET["call"]))
        if "call" in request.GET
        else None
    )
    version = _version(row, request.GET.get("version", ""), call)
    form = _run_form(version, initial_values=_initial_arguments(request, row, call)) if version else None
    return _page(request, row, version, form, call)


def _run(request: HttpRequest, row: Tool) -> HttpResponse:
    version = _version(row, request.POST.get("ordinal", ""), None)
    if version is None:
        return redirect("tool-try", row.pk)
    form = _run_form(version, request.POST)
    is_confirmed = "confirm" in request.POST
    place = _place(request, row)
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
                agent_vendors.check_activity(_agents_in(place, row), activity)
            make = latent.request if resolution.runs == "latent" else requesting.request_call
            call = make(
                version,
                actor=person(request),
                arguments=form.arguments,
                deadline_seconds=_deadline(request),
                is_confirmed=is_confirmed,
                call_id=_call_id(request),
                mode=_mode(version) if resolution.runs == "vendor" else Mode.WAIT,
                thread=_thread(request, version) if resolution.runs == "vendor" else None,
                activity=activity,
                environment=place.name if place else "",
            )
            return _to(call, place)
    more: dict[str, Any] = (
        {"must_confirm": confirm_reason, "runs_activity": activity.activity}
        if activity and confirm_reason
        else {}
    )
    return _page(request, row, version, form, None, is_confirmed=is_confirmed, **more)


def _run_form(
    version: ToolVersion, typed: QueryDict | None = None, initial_values: Mapping[str, Any] | None = None
) -> RunForm:
    configuration = configurations.parameter_of(version)
    return RunForm(
        typed, signature=version.decoded(), configuration=configuration, initial_values=initial_values
    )


def _agents_in(place: CallEnvironment, row: Tool) -> list[Agent]:
    # Those whose tool it is where it is tried.
    agent = Environment.objects.select_related("agent").get(pk=place.pk).agent
    return [pin.agent for pin in bound_tools.pins_of(agent) if pin.tool_id == row.pk]


def _page(
    request: HttpRequest,
    row: Tool,
    version: ToolVersion | None,
    form: RunForm | None,
    call: Call | None,
    *,
    is_shown: bool = False,
    **more: Any,
) -> HttpResponse:
    # Before the history: the page asks for neither again once the call shows as over.
    call_context = _call_context(call, is_shown=is_shown) if call else {}
    protocol = protocols.get(row.endpoint.protocol)
    has_threads = version is not None and threads.can_have(version)
    data = request.POST or request.GET
    context = {
        "version": version,
        "versions": version_choices(row),
        "form": form,
        "signature": form.signature if form else None,
        # A definition is answered by an activity, or by the model.
        "why_not_run": protocol(row.endpoint.settings).why_not_run(form.signature)
        if form and not protocol.is_own
        else None,
        "is_own": protocol.is_own,
        "places": environments.environments_using(row, person(request)),
        "place": number(data.get("environment", "")),
        "must_confirm": checks.why_confirm(version) if version else "",
        "unavailable_until": circuit_breaker.unavailable_until(row),
        "is_safe": form is not None and retries.is_harmless(effective_texts.effects(row, form.signature)),
        "key": uuid.uuid4(),
        "threads": _threads(row, person(request))[:THREADS_SHOWN] if has_threads else None,
        "thread": str(call.thread.key) if call and call.thread else request.POST.get("thread", ""),
        "deadlines": [(seconds, _(words)) for seconds, words in DEADLINES.items()],
        "deadline": call.deadline_seconds if call else _deadline(request),
        "examples": [(example, uuid.uuid4()) for example in row.examples.visible_to(person(request))],
        "page": _history(row, request.GET.get("cursor"), person(request)),
        **call_context,
        **more,
        **header(row),
    }
    return render(request, "designer/tool_try.html", context)


@requires_post(Role.DESIGNER)
def tool_thread_end(request: HttpRequest, pk: int, thread: str) -> HttpResponse:
    thread_row = get_object_or_404(_threads(find_tool(pk), person(request)), key=thread)
    with show_errors(request):
        threads.remove(thread_row, actor=person(request))
        messages.success(request, _("{thread} was deleted, also at its vendor.").format(thread=thread_row))
    return redirect("tool-try", pk)


@requires(Role.VIEWER)
def tool_call(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    # The state of a call: the part of the page that polls until it is over.
    row = find_tool(pk)
    call_row = get_object_or_404(_calls(row, person(request)), pk=call)
    if not request.headers.get("HX-Request"):
        return _to(call_row)
    return render(request, "designer/_call.html", {"tool": row, **_call_context(call_row)})


@requires(Role.VIEWER)
def tool_call_events(request: HttpRequest, pk: int, call: int) -> HttpResponseBase:
    """Stream the state of a call, each time as the part of the page that shows it."""
    call_row = get_object_or_404(_calls(find_tool(pk), person(request)), pk=call)
    return StreamingHttpResponse(
        _Followed(call_row),
        headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
        content_type="text/event-stream",
    )


class _Followed:
    """Holds a place among the threads of the process until it is closed. Raises NoRoomError."""

    def __init__(self, call: Call) -> None:
        self._room = places.room(places.holder_of(call))
        self._room.__enter__()
        self._call = call
        self._is_held = True
        # The events are read after the request, whose language has ended then.
        self._language = get_language()

    def __iter__(self) -> Iterator[bytes]:
        last_id, ends = events.FIRST, time.monotonic() + FOLLOWED_SECONDS
        while time.monotonic() < ends:
            is_active = queue.settled(self._call).is_active
            give_back()
            new_events = events.after(self._call.key, last_id, LOOK_SECONDS if is_active else 0.01)
            newest = [event for event in new_events if event.kind == events.PARTIAL][-1:]
            for event in newest:
                partial = masking.masked_partial(self._call, event.data)
                with override(self._language):
                    part = render_to_string("designer/_call_partial.html", {"partial": partial})
                yield f"event: partial\ndata: {json.dumps(part)}\n\n".encode()
            last_id = new_events[-1].id if new_events else last_id
            if not is_active and not new_events:
                yield b"event: ended\ndata: {}\n\n"
                return
            # A reader who has left is noticed by this.
            yield b": alive\n\n"

    def close(self) -> None:
        if self._is_held:
            self._is_held = False
            self._room.__exit__(None, None, None)


@requires_post(Role.DESIGNER)
def tool_call_show(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    """Show a call without masks, once. The audit trail records who has requested it."""
    row = find_tool(pk)
    call_row = get_object_or_404(_calls(row, person(request)), pk=call)
    shown_call = masking.show_call(call_row, actor=person(request))
    form = _run_form(call_row.version, initial_values=call_row.arguments)
    return _page(request, row, call_row.version, form, shown_call, is_shown=True)


@requires_post(Role.DESIGNER)
def tool_call_cancel(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    row = find_tool(pk)
    call_row = get_object_or_404(_calls(row, person(request)), pk=call)
    try:
        cancellation.cancel(call_row, actor=person(request))
    except DomainError as error:
        messages.info(request, error.message)
    return _to(call_row)


@requires_post(Role.DESIGNER)
def tool_call_continue(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    row = find_tool(pk)
    call_row = get_object_or_404(_calls(row, person(request)), pk=call)
    questions = _questions(call_row, request.POST)
    is_declined = "decline" in request.POST
    if is_declined or all(question.form is None or question.form.is_valid() for question in questions):
        try:
            answers: dict[str, Any] = {question.asked.id: None for question in questions}
            for question in [] if is_declined else questions:
                form = question.form
                answers[question.asked.id] = results.answer_of(form.signature, form.arguments) if form else {}
            following = continuing.continue_call(
                call_row, actor=person(request), answers=answers, call_id=_call_id(request)
            )
        except DomainError as error:
            messages.error(request, error.message)
            return _to(call_row)
        return _to(following)
    form = _run_form(call_row.version, initial_values=masking.plain_arguments(call_row))
    return _page(request, row, call_row.version, form, call_row, questions=questions)


@requires_post(Role.DESIGNER)
def tool_call_output(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    """Store a user's answer to a latent call, in place of the model's."""
    row = find_tool(pk)
    call_row = get_object_or_404(_calls(row, person(request)), pk=call)
    form = _output_form(call_row, request.POST)
    if form.is_valid():
        output = latent.output_outcome(form.arguments, by=latent.BY_PERSON)
        with show_errors(request):
            latent.answer(call_row, actor=person(request), output=output)
        return _to(call_row, _place(request, row))
    inputs = _run_form(call_row.version, initial_values=masking.plain_arguments(call_row))
    return _page(request, row, call_row.version, inputs, call_row, output_form=form)


@requires_post(Role.DESIGNER)
def tool_example_save(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    call = get_object_or_404(_calls(row, person(request)), pk=number(request.POST.get("call", "")))
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
    return _to(call)


@requires_post(Role.DESIGNER)
def tool_example_run(request: HttpRequest, pk: int, example: int) -> HttpResponse:
    # One press: the same arguments against the version that is shown.
    row = find_tool(pk)
    example_row = get_object_or_404(row.examples.visible_to(person(request)), pk=example)
    version = _version(row, request.POST.get("ordinal", ""), None)
    filled = f"{reverse('tool-try', args=[row.pk])}?example={example_row.pk}"
    if version is None:
        return redirect(filled)
    try:
        return _to(
            requesting.request_call(
                version,
                actor=person(request),
                arguments=example_row.arguments,
                call_id=_call_id(request),
                mode=_mode(version),
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


def _threads(row: Tool, user: User) -> QuerySet[Thread]:
    """Return the threads that the user has begun while trying the tool."""
    own_threads = row.threads.filter(requested_by=user, agent=None, removed_at=None)
    return own_threads.order_by("-used_at", "-pk")


def _thread(request: HttpRequest, version: ToolVersion) -> Thread | None:
    """Raises DomainError."""
    data = request.POST.get("thread", "")
    if not data:
        return None
    if data == NEW:
        # By the key of the form, so that one that is sent twice begins one thread.
        key = _key(request)
        thread_key = uuid.uuid5(key, NEW) if key else None
        return threads.create(version, actor=person(request), key=thread_key)
    try:
        thread_row = _threads(version.tool, person(request)).filter(key=uuid.UUID(data)).first()
    except ValueError:
        thread_row = None
    if thread_row is None:
        raise DomainError("thread_removed", _("This thread was removed. Choose another one, or start one."))
    return threads.begin(thread_row, version)


def _mode(version: ToolVersion) -> Mode:
    # If the vendor may send partial results, they are passed on.
    may_tell = version.tool.endpoint.speak().may_tell_partials(version.decoded())
    return Mode.STREAM if may_tell else Mode.WAIT


def _place(request: HttpRequest, row: Tool) -> CallEnvironment | None:
    # The environment of an agent that has pinned the tool; None runs the tool outside of all.
    environment_id = number(request.POST.get("environment", ""))
    if not environment_id:
        return None
    matches = [
        item for item in environments.environments_using(row, person(request)) if item.pk == environment_id
    ]
    if not matches:
        raise Http404
    return CallEnvironment(matches[0].pk, matches[0].name, matches[0].is_default)


def _to(call: Call, place: CallEnvironment | None = None) -> HttpResponse:
    # The next call is tried where this one was, unless the user chooses otherwise.
    environment_query = f"&environment={place.pk}" if place else ""
    return redirect(f"{reverse('tool-try', args=[call.tool_id])}?call={call.pk}{environment_query}#call")


def _calls(row: Tool, reader: User) -> QuerySet[Call]:
    return row.calls.visible_to(reader).select_related(
        "version", "tool__endpoint__vendor", "continues", "thread"
    )


def _version(row: Tool, asked: str, call: Call | None) -> ToolVersion | None:
    if asked:
        version_row = asked_version(row, asked)
        return get_object_or_404(_versions(row), pk=version_row.pk if version_row else 0)
    if call:
        return get_object_or_404(_versions(row), pk=call.version_id)
    if row.current:
        row.current.tool = row
    return row.current


def _versions(row: Tool) -> QuerySet[ToolVersion]:
    return row.versions.select_related("tool__endpoint__vendor")


def _initial_arguments(request: HttpRequest, row: Tool, call: Call | None) -> Mapping[str, Any]:
    if call:
        return masking.plain_arguments(call)
    if "example" in request.GET:
        examples = row.examples.visible_to(person(request))
        example = get_object_or_404(examples, pk=number(request.GET["example"]))
        return masking.without_masked(row.pk, example.arguments)
    return {}


def _deadline(request: HttpRequest) -> int:
    seconds = number(request.POST.get("deadline", ""))
    return seconds if seconds in DEADLINES else requesting.DEADLINE


def _key(request: HttpRequest) -> uuid.UUID | None:
    try:
        return uuid.UUID(request.POST.get("key", ""))
    except ValueError:
        return None


def _call_id(request: HttpRequest) -> ClientCallId | None:
    # A form that is sent twice makes one call.
    key = _key(request)
    return ClientCallId(str(key)) if key else None


def _history(row: Tool, cursor: str | None, reader: User) -> Page[Call]:
    brief = Left(Cast("arguments", TextField()), ARGUMENTS_SHOWN)
    calls = (
        row.calls.visible_to(reader)
        .select_related("version")
        .defer("result", "arguments", "answers", "version__signature")
    )
    rows = cast(QuerySet[Call], calls.defer("version__raw").annotate(brief=brief))
    page = Keyset(rows, "-id").page(cursor, CALLS_SHOWN)
    for call, shown_call in zip(page.rows, masking.masked_calls(page.rows), strict=True):
        if shown_call is not call:
            arguments = json.dumps(shown_call.arguments, ensure_ascii=False)
            vars(call)["brief"] = arguments[:ARGUMENTS_SHOWN]
    return page


def _call_context(call: Call, *, is_shown: bool = False) -> dict[str, Any]:
    settled_call = queue.settled(call)
    call = settled_call if is_shown else masking.masked_call(settled_call)
    result = call.decoded()
    partial = None
    if call.is_active and call.mode == Mode.STREAM:
        partial = masking.masked_partial(settled_call, events.last_partial(call.key))
    return {
        "call": call,
        "is_masked": call is not settled_call,
        "result": result,
        "declared": call.version.decoded().outputs,
        "questions": _questions(call),
        "is_followed": call.mode == Mode.STREAM,
        "partial": partial,
        "may_continue": result.resume is not None and call.agent is None,
        "is_waiting_long": timezone.now() - call.queued_at > LONG_WAIT,
        "continue_key": uuid.uuid4(),
        "output_form": _output_form(call) if call.outcome == latent.LATENT.outcome else None,
    }


def _output_form(call: Call, typed: Any = None) -> OutputsForm:
    return OutputsForm(typed, signature=call.version.decoded(), prefix="output")


def _questions(call: Call, typed: Any = None) -> list[CallQuestions]:
    question_list = []
    for n, ask in enumerate(call.decoded().asks):
        signature = results.questions(ask)
        form = (
            ArgumentsForm(typed, signature=signature, prefix=f"ask-{n}") if ask.schema is not None else None
        )
        question_list.append(CallQuestions(ask, form))
    return question_list
