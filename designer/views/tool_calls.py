"""The pages of one call of a tool: its state, its events, its questions, and its outputs."""

import json
import time
from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.template.loader import render_to_string
from django.utils.translation import get_language, override

from catalog.models import Call
from core.errors import DomainError
from core.postgresql.base import give_back
from designer.views.tools import find_tool
from designer.views.try_page import (
    _call_context,
    find_calls,
    find_environment,
    make_output_form,
    make_question_forms,
    make_run_form,
    read_call_id,
    redirect_to_call,
    render_try_page,
)
from execution.calls import cancellation, continuing, events, latent, masking, places, queue, results
from people.forms import show_errors
from people.models import Role
from people.permissions import person, requires, requires_post

# A browser comes back after this.
FOLLOWED_SECONDS = 300.0
LOOK_SECONDS = 5.0


@requires(Role.VIEWER)
def tool_call(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    """Return the state of a call: the part of the page that polls until the call has ended."""
    row = find_tool(pk)
    call_row = get_object_or_404(find_calls(row, person(request)), pk=call)
    if not request.headers.get("HX-Request"):
        return redirect_to_call(call_row)
    return render(request, "designer/_call.html", {"tool": row, **_call_context(call_row)})


@requires(Role.VIEWER)
def tool_call_events(request: HttpRequest, pk: int, call: int) -> HttpResponseBase:
    """Stream the state of a call, each time as the part of the page that shows it."""
    call_row = get_object_or_404(find_calls(find_tool(pk), person(request)), pk=call)
    return StreamingHttpResponse(
        CallEventStream(call_row),
        headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
        content_type="text/event-stream",
    )


class CallEventStream:
    """The events of a call. It occupies a thread of the process until it is closed. Raises NoRoomError."""

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
            is_active = queue.current_call(self._call).is_active
            give_back()
            new_events = events.events_after(self._call.key, last_id, LOOK_SECONDS if is_active else 0.01)
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
    call_row = get_object_or_404(find_calls(row, person(request)), pk=call)
    shown_call = masking.show_call(call_row, actor=person(request))
    form = make_run_form(call_row.version, initial_values=call_row.arguments)
    return render_try_page(request, row, call_row.version, form, shown_call, is_shown=True)


@requires_post(Role.DESIGNER)
def tool_call_cancel(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    row = find_tool(pk)
    call_row = get_object_or_404(find_calls(row, person(request)), pk=call)
    try:
        cancellation.cancel(call_row, actor=person(request))
    except DomainError as error:
        messages.info(request, error.message)
    return redirect_to_call(call_row)


@requires_post(Role.DESIGNER)
def tool_call_continue(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    row = find_tool(pk)
    call_row = get_object_or_404(find_calls(row, person(request)), pk=call)
    questions = make_question_forms(call_row, request.POST)
    is_declined = "decline" in request.POST
    if is_declined or all(question.form is None or question.form.is_valid() for question in questions):
        try:
            answers: dict[str, Any] = {question.stored.id: None for question in questions}
            for question in [] if is_declined else questions:
                form = question.form
                answers[question.stored.id] = (
                    results.answer_of(form.signature, form.arguments) if form else {}
                )
            following = continuing.continue_call(
                call_row, actor=person(request), answers=answers, call_id=read_call_id(request)
            )
        except DomainError as error:
            messages.error(request, error.message)
            return redirect_to_call(call_row)
        return redirect_to_call(following)
    form = make_run_form(call_row.version, initial_values=masking.plain_arguments(call_row))
    return render_try_page(request, row, call_row.version, form, call_row, questions=questions)


@requires_post(Role.DESIGNER)
def tool_call_output(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    """Store a user's answer to a latent call, in place of the model's."""
    row = find_tool(pk)
    call_row = get_object_or_404(find_calls(row, person(request)), pk=call)
    form = make_output_form(call_row, request.POST)
    if form.is_valid():
        output = latent.output_outcome(form.arguments, answerer=latent.BY_PERSON)
        with show_errors(request):
            latent.answer(call_row, actor=person(request), output=output)
        return redirect_to_call(call_row, find_environment(request, row))
    inputs = make_run_form(call_row.version, initial_values=masking.plain_arguments(call_row))
    return render_try_page(request, row, call_row.version, inputs, call_row, output_form=form)
