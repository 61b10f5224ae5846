"""The page on which a tool is tried: its forms, the call that it shows, and the user's earlier calls."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Left
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

import protocols
from catalog.credentials import circuit_breaker
from catalog.models import Call, Thread, Tool, ToolVersion
from catalog.models.calls import Mode, StoredQuestion
from catalog.rules import retries
from catalog.tools import effective_texts
from catalog.views.asked import number
from core.pagination import Keyset, Page
from designer.environments import environments
from designer.forms.pins import version_choices
from designer.models import CallEnvironment
from designer.views.tools import find_requested_version, header
from execution.calls import checks, events, latent, masking, queue, requesting, results
from execution.calls.call_keys import ClientCallId
from execution.forms.argument_forms import ArgumentsForm, OutputsForm, RunForm
from execution.threads import configurations, threads
from people.models import User
from people.permissions import person

CALLS_SHOWN = 10
ARGUMENTS_SHOWN = 160
THREADS_SHOWN = 20
DEADLINES = {
    30: gettext_noop("30 seconds"),
    60: gettext_noop("One minute"),
    120: gettext_noop("Two minutes"),
}
# Most vendors respond sooner; from here on the page states that it waits.
LONG_WAIT = timedelta(seconds=5)


@dataclass
class CallQuestion:
    """One thing that a call asks for, with the form for it where there is something to fill in."""

    stored: StoredQuestion
    form: ArgumentsForm | None


def make_run_form(
    version: ToolVersion, typed: QueryDict | None = None, initial_values: Mapping[str, Any] | None = None
) -> RunForm:
    configuration = configurations.parameter_of(version)
    return RunForm(
        typed, signature=version.decoded(), configuration=configuration, initial_values=initial_values
    )


def render_try_page(
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
        "threads": find_threads(row, person(request))[:THREADS_SHOWN] if has_threads else None,
        "thread": str(call.thread.key) if call and call.thread else request.POST.get("thread", ""),
        "deadlines": [(seconds, _(words)) for seconds, words in DEADLINES.items()],
        "deadline": call.deadline_seconds if call else read_deadline(request),
        "examples": [(example, uuid.uuid4()) for example in row.examples.visible_to(person(request))],
        "page": _history_page(row, request.GET.get("cursor"), person(request)),
        **call_context,
        **more,
        **header(row),
    }
    return render(request, "designer/tool_try.html", context)


def find_threads(row: Tool, user: User) -> QuerySet[Thread]:
    """Return the threads that the user has begun while trying the tool."""
    own_threads = row.threads.filter(requested_by=user, agent=None, removed_at=None)
    return own_threads.order_by("-used_at", "-pk")


def choose_mode(version: ToolVersion) -> Mode:
    # If the vendor may send partial results, they are passed on.
    may_tell = version.tool.endpoint.build_protocol().may_tell_partials(version.decoded())
    return Mode.STREAM if may_tell else Mode.WAIT


def find_environment(request: HttpRequest, row: Tool) -> CallEnvironment | None:
    """Return the environment of an agent that has pinned the tool; None runs the tool outside of all."""
    environment_id = number(request.POST.get("environment", ""))
    if not environment_id:
        return None
    matches = [
        item for item in environments.environments_using(row, person(request)) if item.pk == environment_id
    ]
    if not matches:
        raise Http404
    return CallEnvironment(matches[0].pk, matches[0].name, matches[0].is_default)


def redirect_to_call(call: Call, place: CallEnvironment | None = None) -> HttpResponse:
    # The next call is tried where this one was, unless the user chooses otherwise.
    environment_query = f"&environment={place.pk}" if place else ""
    return redirect(f"{reverse('tool-try', args=[call.tool_id])}?call={call.pk}{environment_query}#call")


def find_calls(row: Tool, reader: User) -> QuerySet[Call]:
    return row.calls.visible_to(reader).select_related(
        "version", "tool__endpoint__vendor", "continues", "thread"
    )


def find_version(row: Tool, version_id: str, call: Call | None) -> ToolVersion | None:
    if version_id:
        version_row = find_requested_version(row, version_id)
        return get_object_or_404(_version_rows(row), pk=version_row.pk if version_row else 0)
    if call:
        return get_object_or_404(_version_rows(row), pk=call.version_id)
    if row.current:
        row.current.tool = row
    return row.current


def _version_rows(row: Tool) -> QuerySet[ToolVersion]:
    return row.versions.select_related("tool__endpoint__vendor")


def read_deadline(request: HttpRequest) -> int:
    seconds = number(request.POST.get("deadline", ""))
    return seconds if seconds in DEADLINES else requesting.DEADLINE


def read_form_key(request: HttpRequest) -> uuid.UUID | None:
    try:
        return uuid.UUID(request.POST.get("key", ""))
    except ValueError:
        return None


def read_call_id(request: HttpRequest) -> ClientCallId | None:
    # A form that is sent twice makes one call.
    key = read_form_key(request)
    return ClientCallId(str(key)) if key else None


def _history_page(row: Tool, cursor: str | None, reader: User) -> Page[Call]:
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
    settled_call = queue.current_call(call)
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
        "questions": make_question_forms(call),
        "is_followed": call.mode == Mode.STREAM,
        "partial": partial,
        "may_continue": result.resume is not None and call.agent is None,
        "is_waiting_long": timezone.now() - call.queued_at > LONG_WAIT,
        "continue_key": uuid.uuid4(),
        "output_form": make_output_form(call) if call.outcome == latent.LATENT.outcome else None,
    }


def make_output_form(call: Call, typed: Any = None) -> OutputsForm:
    return OutputsForm(typed, signature=call.version.decoded(), prefix="output")


def make_question_forms(call: Call, typed: Any = None) -> list[CallQuestion]:
    question_list = []
    for n, ask in enumerate(call.decoded().asks):
        signature = results.questions(ask)
        form = (
            ArgumentsForm(typed, signature=signature, prefix=f"ask-{n}") if ask.schema is not None else None
        )
        question_list.append(CallQuestion(ask, form))
    return question_list
