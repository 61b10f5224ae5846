"""The pages of an agent's tests: the phrases, the tool that was chosen for each, and confusable tools."""

from typing import Any

from django.contrib import messages
from django.forms import model_to_dict
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.rules.sensitive_values import has_mask
from catalog.tools import sensitive_values
from core.errors import DomainError
from designer.forms.rehearsals import (
    ExpectedInputsForm,
    RehearsalForm,
    RehearsalGateForm,
    RehearsalLinesForm,
)
from designer.models import Procedure, Rehearsal
from designer.overviews import agent_readiness
from designer.rehearsals import look_alikes, masking, plans, runs, sentences, shown
from designer.rehearsals.current import read_tests
from designer.rehearsals.sentences import NewSentence
from designer.releases import rehearsed
from designer.views.chosen_agent import find_agent
from people.forms import show_errors
from people.models import Role
from people.permissions import person, requires, requires_post


@requires(write=Role.DESIGNER)
def rehearsals(request: HttpRequest, slug: str) -> HttpResponse:
    agent = find_agent(request, slug)
    tests = read_tests(agent)
    names = [signature.name for signature in tests.shown.signatures]
    several = "lines" in request.POST
    form = RehearsalForm(request.POST if request.POST and not several else None, names=names)
    lines = RehearsalLinesForm(request.POST if several else None)
    sent_form: RehearsalForm | RehearsalLinesForm = lines if several else form
    if request.method == "POST" and sent_form.is_valid():
        with sent_form.catch_errors():
            new_sentences = (
                lines.parse_sentences(tests.shown.signatures)
                if several
                else [NewSentence(**form.cleaned_data)]
            )
            rows = sentences.add(agent, actor=person(request), new_sentences=new_sentences)
            message = ngettext(
                "The test was added and runs in a moment.",
                "{count} tests were added and run in a moment.",
                len(rows),
            )
            messages.success(request, message.format(count=len(rows)))
            if "inputs" in request.POST:
                return redirect(f"{reverse('rehearsal-edit', args=[agent.slug, rows[0].pk])}#inputs")
            return redirect("rehearsals", agent.slug)
    marks = masking.marks_of_tests(tests.shown, tests.rows)
    answers = {
        answer.rehearsal: answer for answer in masking.masked_answers([*tests.answers.values()], marks)
    }
    context: dict[str, Any] = {
        "agent": agent,
        "form": form,
        "lines": lines,
        "rows": [
            {
                "row": row,
                "inputs": masking.masked_inputs(row, marks),
                "asked": sentence,
                "answer": answers.get(row.pk),
            }
            for row, sentence in zip(tests.rows, tests.sentences, strict=True)
        ],
        "outcome": tests.outcome,
        "state": agent_readiness.assess_tests(tests),
        "judge": tests.plan.asks,
        "shows_tools": bool(names),
        "procedures": Procedure.objects.live().filter(agent=agent).only("slug", "title"),
        "gate": RehearsalGateForm(
            initial=model_to_dict(tests.plan) | {"judge": plans.judge_of(tests.plan)}, prefix="gate"
        ),
        "confusable": look_alikes.confusable_pairs_of(tests.shown),
    }
    return render(request, "designer/rehearsals.html", context, status=400 if sent_form.errors else 200)


@requires_post(Role.DESIGNER)
def rehearsals_run(request: HttpRequest, slug: str) -> HttpResponse:
    agent = find_agent(request, slug)
    with show_errors(request):
        run = rehearsed.run(agent, actor=person(request))
        if run.asks:
            message = _("“{judge}” runs the tests. Reload this page in a moment.").format(judge=run.asks)
        else:
            message = _("Tests finished: {share} as expected.").format(share=runs.figure_of(run))
        messages.success(request, message)
    return redirect("rehearsals", agent.slug)


@requires_post(Role.DESIGNER)
def rehearsals_gate(request: HttpRequest, slug: str) -> HttpResponse:
    agent = find_agent(request, slug)
    form = RehearsalGateForm(request.POST, prefix="gate")
    if form.is_valid():
        with form.catch_errors():
            plans.set_gate(agent, actor=person(request), **form.cleaned_data)
            messages.success(request, _("Saved. The checks before publishing use it."))
    for message in form.errors.values():
        messages.error(request, _("Not saved: {reasons}").format(reasons=" ".join(map(str, message))))
    return redirect("rehearsals", agent.slug)


@requires_post(Role.DESIGNER)
def rehearsals_tell_apart(request: HttpRequest, slug: str) -> HttpResponse:
    agent = find_agent(request, slug)
    tool, other = request.POST.get("tool", ""), request.POST.get("other", "")
    try:
        look_alikes.add_contrast(agent, actor=person(request), tool=tool, other=other)
    except DomainError as error:
        messages.error(request, " ".join(dict.fromkeys((error.message, *error.fields.values()))))
    else:
        messages.success(
            request,
            _("The text of “{tool}” now states when “{other}” is meant.").format(tool=tool, other=other),
        )
    return redirect("rehearsals", agent.slug)


@requires(Role.DESIGNER)
def rehearsal_edit(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """A sentence and, in fields of their own, the inputs of the tool for it."""
    row = _find_row(request, slug, pk)
    shown_tools = shown.tools_of_agents([row.agent])[row.agent_id]
    (current_sentence,) = shown_tools.sentences([row])
    tools = {signature.name: signature for signature in shown_tools.signatures}
    initial = {"says": row.says, "tool": request.GET.get("tool", current_sentence.expected)}
    form = RehearsalForm(request.POST or None, initial=initial, names=tools)
    # The tool whose fields were sent or, before that, the selected one.
    tool_name = request.POST.get("inputs_of", "") if request.method == "POST" else initial["tool"]
    expected_inputs = row.inputs if tool_name == current_sentence.expected else {}
    marks = sensitive_values.marks_of([row.tool_id] if row.tool_id and expected_inputs else [])
    inputs = (
        ExpectedInputsForm(
            request.POST or None,
            tool=tools[tool_name],
            initial_values=expected_inputs,
            marked_members=marks[row.tool_id].inputs if row.tool_id in marks else (),
        )
        if tool_name in tools
        else None
    )
    if request.method == "POST" and form.is_valid():
        tool = form.cleaned_data["tool"]
        if _save_sentence(request, row, form, inputs if inputs and inputs.tool == tool else None):
            if tool_name != tool and tools[tool].inputs:
                messages.success(
                    request, _("Saved. Now enter the expected inputs of “{tool}”.").format(tool=tool)
                )
                return redirect(f"{reverse('rehearsal-edit', args=[slug, pk])}#inputs")
            messages.success(request, _("Saved. The test runs again in a moment."))
            return redirect("rehearsals", slug)
    masked = masking.masked_inputs(row, masking.marks_of_tests(shown_tools, [row]))
    context = {
        "agent": row.agent,
        "row": row,
        "asked": current_sentence,
        "form": form,
        "inputs": inputs,
        "is_masked": has_mask(masked),
    }
    refused = form.errors or (inputs is not None and inputs.errors)
    return render(request, "designer/rehearsal_edit.html", context, status=400 if refused else 200)


def _save_sentence(
    request: HttpRequest, row: Rehearsal, form: RehearsalForm, inputs: ExpectedInputsForm | None
) -> bool:
    # Values for another tool than the chosen one are left out: its inputs are others.
    if inputs and not inputs.is_valid():
        return False
    expected_inputs = inputs.arguments if inputs else {}
    try:
        sentences.change(row, actor=person(request), inputs=expected_inputs, **form.cleaned_data)
    except DomainError as error:
        form.refuse(error)
        return False
    return True


@requires_post(Role.DESIGNER)
def rehearsal_remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    with show_errors(request):
        sentences.remove(_find_row(request, slug, pk), actor=person(request))
        messages.success(request, _("The test was removed."))
    return redirect("rehearsals", slug)


def _find_row(request: HttpRequest, slug: str, pk: int) -> Rehearsal:
    agent = find_agent(request, slug)
    row = get_object_or_404(sentences.sentences_of([agent]), pk=pk)
    row.agent = agent
    return row
