"""Trying a tool from its page: the form, what came of it, what was tried before."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from django.contrib import messages
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Left
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from catalog import protocols
from catalog.calls import cancellation, examples, queue, results
from catalog.credentials import circuit_breaker
from catalog.models import Call, Tool, ToolVersion
from catalog.models.calls import Asked
from catalog.rules import retries
from catalog.views.asked import number
from core.errors import DomainError
from core.outbound.errors import printable
from core.pagination import Keyset, Page
from designer.argument_forms import ArgumentsForm
from designer.forms import version_choices
from designer.views.tools import asked_version, find_tool, header
from people.models import Role, User
from people.permissions import person, requires

CALLS_SHOWN = 10
ARGUMENTS_SHOWN = 160
DEADLINES = {30: "30 seconds", 60: "One minute", 120: "Two minutes"}
# A vendor that answers does so sooner; from here on the page says that it waits.
LONG_WAIT = timedelta(seconds=5)


@dataclass
class Question:
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
    form = ArgumentsForm(signature=version.decoded(), given=_given(request, row, call)) if version else None
    return _page(request, row, version, form, call)


def _run(request: HttpRequest, row: Tool) -> HttpResponse:
    version = _version(row, request.POST.get("ordinal", ""), None)
    if version is None:
        return redirect("tool-try", row.pk)
    form = ArgumentsForm(request.POST, signature=version.decoded())
    is_confirmed = "confirm" in request.POST
    if form.is_valid() and (is_confirmed or not queue.why_confirm(version)):
        try:
            call = queue.request_call(
                version,
                actor=person(request),
                arguments=form.arguments,
                deadline_seconds=_deadline(request),
                is_confirmed=is_confirmed,
                key=_key(request),
            )
        except DomainError as error:
            form.refuse(error)
        else:
            return _to(call)
    return _page(request, row, version, form, None, is_confirmed=is_confirmed)


def _page(
    request: HttpRequest,
    row: Tool,
    version: ToolVersion | None,
    form: ArgumentsForm | None,
    call: Call | None,
    **more: Any,
) -> HttpResponse:
    # Before the history: the page asks for neither again once the call shows as over.
    told = _told(call) if call else {}
    protocol = protocols.get(row.endpoint.protocol)
    context = {
        "version": version,
        "versions": version_choices(row),
        "form": form,
        "signature": form.signature if form else None,
        "why_not_run": protocol(row.endpoint.settings).why_not_run(form.signature) if form else None,
        "must_confirm": queue.why_confirm(version) if version else "",
        "unavailable_until": circuit_breaker.unavailable_until(row),
        "is_safe": form is not None and retries.is_harmless(form.signature.annotations),
        "key": uuid.uuid4(),
        "deadlines": list(DEADLINES.items()),
        "deadline": call.deadline_seconds if call else _deadline(request),
        "examples": [(example, uuid.uuid4()) for example in row.examples.all()],
        "page": _history(row, request.GET.get("cursor"), person(request)),
        **told,
        **more,
        **header(row),
    }
    return render(request, "designer/tool_try.html", context)


@requires(Role.VIEWER)
def tool_call(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    # What has become of a call: the part of the page that asks again until it is over.
    row = find_tool(pk)
    found = get_object_or_404(_calls(row, person(request)), pk=call)
    if not request.headers.get("HX-Request"):
        return _to(found)
    return render(request, "designer/_call.html", {"tool": row, **_told(found)})


@requires(Role.DESIGNER)
@require_POST
def tool_call_cancel(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    row = find_tool(pk)
    found = get_object_or_404(_calls(row, person(request)), pk=call)
    try:
        cancellation.cancel(found, actor=person(request))
    except DomainError as error:
        messages.info(request, error.message)
    return _to(found)


@requires(Role.DESIGNER)
@require_POST
def tool_call_continue(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    row = find_tool(pk)
    found = get_object_or_404(_calls(row, person(request)), pk=call)
    questions = _questions(found, request.POST)
    is_declined = "decline" in request.POST
    if is_declined or all(question.form is None or question.form.is_valid() for question in questions):
        try:
            answers = {q.asked.id: None if is_declined else _answer(q) for q in questions}
            following = queue.continue_call(found, actor=person(request), answers=answers, key=_key(request))
        except DomainError as error:
            messages.error(request, error.message)
            return _to(found)
        return _to(following)
    form = ArgumentsForm(signature=found.version.decoded(), given=found.arguments)
    return _page(request, row, found.version, form, found, questions=questions)


@requires(Role.DESIGNER)
@require_POST
def tool_example_save(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_tool(pk)
    call = get_object_or_404(_calls(row, person(request)), pk=number(request.POST.get("call", "")))
    try:
        example = examples.save_example(call, actor=person(request), name=request.POST.get("name", ""))
    except DomainError as error:
        messages.error(request, next(iter(error.fields.values()), error.message))
    else:
        messages.success(request, f"“{example}” is kept. It fills the form, or runs again, from the list.")
    return _to(call)


@requires(Role.DESIGNER)
@require_POST
def tool_example_run(request: HttpRequest, pk: int, example: int) -> HttpResponse:
    # One press: the same arguments against the version that is shown.
    row = find_tool(pk)
    kept = get_object_or_404(row.examples, pk=example)
    version = _version(row, request.POST.get("ordinal", ""), None)
    filled = f"{reverse('tool-try', args=[row.pk])}?example={kept.pk}"
    if version is None:
        return redirect(filled)
    try:
        return _to(
            queue.request_call(version, actor=person(request), arguments=kept.arguments, key=_key(request))
        )
    except DomainError as error:
        # There is no form yet to say at its inputs what is wrong with them.
        fields = list(error.fields.items())[:3] if isinstance(error, queue.ArgumentsError) else []
        faults = [f"“{printable(name, 60)}” {why}." for name, why in fields]
        messages.error(request, " ".join([error.message, *faults]))
        return redirect(f"{filled}&version={version.ordinal}")


@requires(Role.DESIGNER)
@require_POST
def tool_example_remove(request: HttpRequest, pk: int, example: int) -> HttpResponse:
    row = find_tool(pk)
    kept = get_object_or_404(row.examples, pk=example)
    examples.remove_example(kept, actor=person(request))
    messages.success(request, f"“{kept.name}” was removed.")
    return redirect("tool-try", row.pk)


def _to(call: Call) -> HttpResponse:
    return redirect(f"{reverse('tool-try', args=[call.tool_id])}?call={call.pk}#call")


def _calls(row: Tool, reader: User) -> QuerySet[Call]:
    return row.calls.visible_to(reader).select_related("version", "tool__endpoint__vendor", "continues")


def _version(row: Tool, asked: str, call: Call | None) -> ToolVersion | None:
    if asked:
        chosen = asked_version(row, asked)
        return get_object_or_404(_versions(row), pk=chosen.pk if chosen else 0)
    if call:
        return get_object_or_404(_versions(row), pk=call.version_id)
    return _versions(row).filter(pk=row.current_id or 0).first()


def _versions(row: Tool) -> QuerySet[ToolVersion]:
    return row.versions.select_related("tool__endpoint__vendor")


def _given(request: HttpRequest, row: Tool, call: Call | None) -> Mapping[str, Any]:
    if call:
        return cast(dict[str, Any], call.arguments)
    if "example" in request.GET:
        example = get_object_or_404(row.examples, pk=number(request.GET["example"]))
        return cast(dict[str, Any], example.arguments)
    return {}


def _deadline(request: HttpRequest) -> int:
    asked = number(request.POST.get("deadline", ""))
    return asked if asked in DEADLINES else queue.DEADLINE


def _key(request: HttpRequest) -> uuid.UUID | None:
    try:
        return uuid.UUID(request.POST.get("key", ""))
    except ValueError:
        return None


def _history(row: Tool, cursor: str | None, reader: User) -> Page[Call]:
    brief = Left(Cast("arguments", TextField()), ARGUMENTS_SHOWN)
    calls = (
        row.calls.visible_to(reader)
        .select_related("version")
        .defer("result", "arguments", "answers", "version__signature")
    )
    rows = cast(QuerySet[Call], calls.defer("version__raw").annotate(brief=brief))
    return Keyset(rows, "-id").page(cursor, CALLS_SHOWN)


def _told(call: Call) -> dict[str, Any]:
    call = queue.settled(call)
    result = call.decoded()
    return {
        "call": call,
        "result": result,
        "declared": call.version.decoded().outputs,
        "questions": _questions(call),
        "may_continue": result.resume is not None and call.agent is None,
        "is_waiting_long": timezone.now() - call.queued_at > LONG_WAIT,
        "continue_key": uuid.uuid4(),
    }


def _questions(call: Call, typed: Any = None) -> list[Question]:
    found = []
    for n, ask in enumerate(call.decoded().asks):
        signature = results.questions(ask)
        form = (
            ArgumentsForm(typed, signature=signature, prefix=f"ask-{n}") if ask.schema is not None else None
        )
        found.append(Question(ask, form))
    return found


def _answer(question: Question) -> Any:
    if question.form is None:
        return {}
    return results.answer_of(question.form.signature, question.form.arguments)
