"""The pages of an agent's mocks: their answers, their calls, and the step-by-step run of a procedure."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone

from catalog.rules.sensitive_values import has_mask
from catalog.tools import sensitive_values
from catalog.views.asked import number
from core.errors import DomainError
from core.pagination import Keyset
from core.schema import pointers
from designer.environments import mock_rehearsals, mocks
from designer.environments.mock_rehearsals import MockRehearsal, MockRehearsalStep
from designer.environments.mocks import CallFilter, MockedTool
from designer.forms.mocks import AssertionForm, LogForm, SeedForm, SituationForm
from designer.models import Agent, Procedure
from designer.pins import pinned_signatures
from designer.views.chosen_agent import find_agent
from execution.activities.config_masking import masked_config
from execution.activities.mocks import answers
from execution.activities.mocks.answers import MockReply
from execution.activities.mocks.situations import KINDS
from execution.calls import checks, masking
from execution.forms.argument_forms import ArgumentsForm, OutputsForm, any_inputs
from people.audit import edit_conflicts
from people.forms import show_errors
from people.models import ApiKey, Role
from people.permissions import person, requires, requires_post

CALLS_SHOWN = 50
ANSWERS_OFFERED = 10
# Bytes of the fields of each of the three forms of a mock, and of all steps of a run.
MAX_FORM_BYTES, MAX_STEPS_BYTES = 10_000, 20_000


@requires(write=Role.DESIGNER)
def agent_mocks(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the mocks of an agent, its assertions, and the calls that the assertions check."""
    agent = find_agent(request, slug)
    tool_names = mocks.names(agent)
    names = sorted(set(tool_names.values()))
    asserted = mocks.assertions_of(agent)
    form = AssertionForm(request.POST if "add" in request.POST else None, names=names)
    if request.method == "POST":
        documents = msgspec.to_builtins(asserted)
        if "remove" in request.POST:
            documents = [
                document for index, document in enumerate(documents) if str(index) != request.POST["remove"]
            ]
        elif form.is_valid():
            documents.append(form.assertion())
        if form.is_valid() or "remove" in request.POST:
            with form.catch_errors():
                mocks.set_assertions(agent, actor=person(request), documents=documents)
                return redirect(f"{reverse('mocks', args=[agent.slug])}#assertions")
    key_ids = mocks.calls(agent, CallFilter()).exclude(api_key=None).order_by().values("api_key").distinct()
    keys = list(ApiKey.objects.filter(pk__in=key_ids).values_list("pk", "name"))
    log = LogForm(request.GET or None, names=names, keys=keys)
    call_filter = CallFilter(**log.filters()) if log.is_valid() else CallFilter()
    rows = mocks.calls(agent, call_filter).select_related("api_key").defer("result", "answers")
    page = Keyset(rows, "-id").page(request.GET.get("cursor"), CALLS_SHOWN)
    context = {
        "agent": agent,
        "mocked": mocks.mocked_tools(agent),
        "procedures": Procedure.objects.live().filter(agent=agent).defer("text"),
        "form": form,
        "log": log,
        "is_narrowed": bool(log.is_valid() and log.filters()),
        "verdicts": mocks.check_assertions(agent, asserted, call_filter),
        "page": page,
        "calls": [(call, tool_names.get(call.tool_id, "")) for call in page.rows],
        "now": timezone.localtime().strftime("%Y-%m-%dT%H:%M"),
    }
    return render(request, "designer/mocks.html", context, status=400 if form.errors else 200)


@requires(write=Role.DESIGNER)
def mock(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """The page of one tool's mock; each part has its own form."""
    pins = pinned_signatures.pins_of_agents([find_agent(request, slug)]).select_related("agent")
    mocked = mocks.mock_of_pin(get_object_or_404(pins, pk=pk))
    forms = _MockForms(request, mocked)
    refused = None
    if request.method == "POST" and (change := forms.change(request.POST)):
        expected = request.POST.get("expected", edit_conflicts.ANY_STATE)
        try:
            mocks.edit(mocked.pin, actor=person(request), change=change, expected=expected)
        except DomainError as error:
            refused = error
        else:
            return redirect("mock", slug, pk)
    shown_config = masked_config("mock", mocked.config, mocked.pin.tool_id)
    context = {
        "agent": mocked.pin.agent,
        "pin": mocked.pin,
        "mocked": mocked,
        "is_masked": has_mask(shown_config),
        "shown_mock": answers.read_mock(shown_config),
        "shown_outputs": masking.masked_outputs(mocked.pin.tool_id, forms.reply.outcome.outputs)
        if forms.reply
        else {},
        "forms": forms,
        "refused": refused,
        "expected": edit_conflicts.etag(mocked.facts) if mocked.activity else edit_conflicts.ANY_STATE,
        "answered": mocks.vendor_calls(mocked.pin, person(request))
        .order_by("-pk")
        .defer("result")[:ANSWERS_OFFERED],
        "saved": mocked.pin.tool.examples.visible_to(person(request))[:ANSWERS_OFFERED],
        "opened": request.POST.get("kind") or request.POST.get("act"),
    }
    return render(request, "designer/mock.html", context, status=400 if request.method == "POST" else 200)


class _MockForms:
    """The forms of a mock's page; `act` names the one that was sent."""

    def __init__(self, request: HttpRequest, mocked_tool: MockedTool) -> None:
        signature = mocked_tool.pin.version.decoded()
        data, act = request.POST, request.POST.get("act", "")
        self.seed = SeedForm(data if act == "seed" else None, initial={"seed": mocked_tool.mock.seed})
        kind = data.get("kind", "") if act == "situation" else ""
        self.situations = {
            row: SituationForm(data if row == kind else None, kind=row, signature=signature) for row in KINDS
        }
        # An example begins as what the vendor has answered once, where such a call is chosen.
        call = (
            mocks.vendor_calls(mocked_tool.pin, person(request))
            .filter(pk=number(request.GET.get("call", "")))
            .first()
        )
        example = data if act == "example" else None
        marks = sensitive_values.marks_of([mocked_tool.pin.tool_id]).get(
            mocked_tool.pin.tool_id, sensitive_values.NONE
        )
        self.inputs = ArgumentsForm(
            example,
            signature=any_inputs(signature),
            prefix="inputs",
            max_bytes=MAX_FORM_BYTES,
            initial_values=call.arguments if call else {},
            marked_members=marks.inputs,
        )
        self.outputs = OutputsForm(
            example,
            signature=signature,
            prefix="outputs",
            max_bytes=MAX_FORM_BYTES,
            initial_values=call.decoded().outputs if call else {},
            marked_members=marks.outputs,
        )
        self.begins_as_answered = call is not None
        examples = mocked_tool.pin.tool.examples.visible_to(person(request))
        stored_example = examples.filter(pk=number(request.GET.get("example", ""))).first()
        tried_arguments: Mapping[str, Any] = {}
        if stored_example:
            tried_arguments = masking.drop_masked_inputs(mocked_tool.pin.tool_id, stored_example.arguments)
        self.tried = ArgumentsForm(
            request.GET if "try" in request.GET else None,
            signature=signature,
            prefix="try",
            max_bytes=MAX_FORM_BYTES,
            initial_values=tried_arguments,
        )
        self.reply: MockReply | None = None
        if self.tried.is_bound and self.tried.is_valid() and not mocked_tool.problems:
            self.reply = mocks.preview(mocked_tool.pin, mocked_tool.config, self.tried.arguments)

    def change(self, sent: QueryDict) -> Callable[[dict[str, Any]], Mapping[str, Any]] | None:
        """Return the change of the mock; None if the sent form is invalid."""
        match sent.get("act", ""), self.situations.get(sent.get("kind", "")), self.reply:
            case "seed", _, _ if self.seed.is_valid():
                return lambda now: {**now, "seed": self.seed.cleaned_data["seed"]}
            case "situation", SituationForm() as told, _ if told.is_valid():
                return lambda now: _add_item(now, "situations", told.situation())
            case "example", _, _ if self.inputs.is_valid() and self.outputs.is_valid():
                example = {"arguments": self.inputs.arguments, "outputs": self.outputs.arguments}
                return lambda now: _add_item(now, "examples", example)
            case "keep", _, MockReply() as reply if reply.outcome.outcome == "ok":
                example = {"arguments": self.tried.arguments, "outputs": dict(reply.outcome.outputs)}
                return lambda now: _add_item(now, "examples", example)
            case "remove", _, _:
                member = "examples" if sent.get("of") == "examples" else "situations"
                position = sent.get("at")
                return lambda now: {
                    **now,
                    member: [item for index, item in enumerate(now[member]) if str(index) != position],
                }
            case "switch", _, _:
                position, is_on = sent.get("at"), sent.get("on") == "1"
                return lambda now: {
                    **now,
                    "situations": [
                        {**situation, "switch": is_on} if str(index) == position else situation
                        for index, situation in enumerate(now["situations"])
                    ],
                }
        return None


def _add_item(now: dict[str, Any], member: str, added: Any) -> dict[str, Any]:
    return {**now, member: [*now[member], added]}


@requires(Role.VIEWER)
def mock_rehearsal(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    """A step-by-step run of a procedure, in which the mock of its tool answers each step."""
    agent = find_agent(request, slug)
    row = get_object_or_404(Procedure.objects.live().filter(agent=agent), slug=procedure)
    run = _parse_uuid(request.GET.get("run", ""))
    if run is None:
        return redirect(f"{request.path}?run={uuid.uuid4()}")
    return _render_rehearsal(request, agent, row, run)


@requires_post(Role.DESIGNER)
def mock_rehearsal_run(request: HttpRequest, slug: str, procedure: str) -> HttpResponse:
    """Run the whole procedure, or the remaining steps of a run, against mocks. Missing mocks are created."""
    agent = find_agent(request, slug)
    row = get_object_or_404(Procedure.objects.live().filter(agent=agent), slug=procedure)
    run = _parse_uuid(request.GET.get("run", "")) or uuid.uuid4()
    with show_errors(request):
        mock_rehearsals.run_all_steps(agent, row, run, actor=person(request))
    return redirect(f"{reverse('mock-rehearsal', args=[slug, procedure])}?run={run}")


@requires_post(Role.DESIGNER)
def mock_rehearsal_step(request: HttpRequest, slug: str, procedure: str, step: int) -> HttpResponse:
    agent = find_agent(request, slug)
    row = get_object_or_404(Procedure.objects.live().filter(agent=agent), slug=procedure)
    run = _parse_uuid(request.GET.get("run", ""))
    rehearsal = mock_rehearsals.read_rehearsal(agent, row, run) if run else None
    if run is None or rehearsal is None or not 0 < step <= len(rehearsal.steps):
        return redirect("mock-rehearsal", slug, procedure)
    form = _step_form(rehearsal.steps[step - 1], rehearsal, request.POST)
    if not form.is_valid():
        return _render_rehearsal(request, agent, row, run, sent=(step, form))
    try:
        mock_rehearsals.run_step(agent, row, run, step, actor=person(request), arguments=form.arguments)
    except checks.ArgumentsError as error:
        form.refuse(error)
        return _render_rehearsal(request, agent, row, run, sent=(step, form))
    except DomainError as error:
        messages.error(request, error.message)
    return redirect(f"{reverse('mock-rehearsal', args=[slug, procedure])}?run={run}#step-{step}")


def _render_rehearsal(
    request: HttpRequest,
    agent: Agent,
    row: Procedure,
    run: uuid.UUID,
    sent: tuple[int, ArgumentsForm] | None = None,
) -> HttpResponse:
    rehearsal = mock_rehearsals.read_rehearsal(agent, row, run)
    step_forms = [
        {
            "step": step,
            "result": masking.masked_call(step.call).decoded() if step.call else None,
            "form": sent[1] if sent and sent[0] == step.number else _step_form(step, rehearsal),
        }
        for step in rehearsal.steps
    ]
    context = {"agent": agent, "procedure": row, "rehearsal": rehearsal, "steps": step_forms, "run": run}
    return render(request, "designer/mock_rehearsal.html", context, status=400 if sent else 200)


def _step_form(
    step: MockRehearsalStep, rehearsal: MockRehearsal, sent: QueryDict | None = None
) -> ArgumentsForm:
    calls = [other.call for other in rehearsal.steps if other.call]
    repeated = [pointers.join((name,)) for name in masking.inputs_that_repeat(step.arguments, calls)]
    marks = sensitive_values.marks_of([step.pin.tool_id]).get(step.pin.tool_id, sensitive_values.NONE)
    return ArgumentsForm(
        sent,
        signature=step.signature,
        prefix=f"step-{step.number}",
        initial_values=step.arguments,
        marked_members=[*marks.inputs, *repeated],
        max_bytes=MAX_STEPS_BYTES // len(rehearsal.steps),
    )


def _parse_uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
