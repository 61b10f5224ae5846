"""Sensitive values on request: once, on a page of their own, with an entry in the audit trail."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from catalog.models import Activity
from catalog.tools import sensitive_values
from designer.environments import mocks
from designer.pins import pinned_signatures, tunings
from designer.rehearsals import masking, sentences, shown
from designer.views.chosen_agent import find_agent
from designer.views.tools import find_tool
from execution.activities import operations
from execution.activities.config_masking import masked_config
from people.models import Role
from people.permissions import person, requires_post


@requires_post(Role.DESIGNER)
def tool_presets_show(request: HttpRequest, pk: int) -> HttpResponse:
    tool = find_tool(pk)
    facts = tunings.facts(tunings.tuning_of(tool))
    back = reverse("tool-tuning", args=[pk])
    return _values_page(request, tool, tunings.masked_facts(tool, facts), facts, back)


@requires_post(Role.DESIGNER)
def pin_presets_show(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    pin = get_object_or_404(pinned_signatures.pins_of_agents([find_agent(request, slug)]), pk=pk)
    facts = tunings.facts(tunings.tuning_of(pin))
    back = reverse("pin", args=[slug, pk])
    return _values_page(request, pin, tunings.masked_facts(pin, facts), facts, back, pin.agent_id)


@requires_post(Role.DESIGNER)
def activity_show(request: HttpRequest, pk: int) -> HttpResponse:
    activity = get_object_or_404(Activity.objects.filter(agent=None).exclude(current=None), pk=pk)
    version = operations.current(activity)
    tool = version.interface.tool_id if version.interface else None
    masked = masked_config(version.kind, version.config, tool)
    return _values_page(request, activity, masked, version.config, reverse("activity", args=[pk]))


@requires_post(Role.DESIGNER)
def mock_show(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    pin = get_object_or_404(pinned_signatures.pins_of_agents([find_agent(request, slug)]), pk=pk)
    config = mocks.mock_of_pin(pin).config
    masked = masked_config("mock", config, pin.tool_id)
    return _values_page(request, pin, masked, config, reverse("mock", args=[slug, pk]), pin.agent_id)


@requires_post(Role.DESIGNER)
def rehearsal_show(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    agent = find_agent(request, slug)
    test = get_object_or_404(sentences.sentences_of([agent]), pk=pk)
    marks = masking.marks_of_tests(shown.tools_of_agents([agent])[agent.pk], [test])
    masked = masking.masked_inputs(test, marks)
    return _values_page(
        request, test, masked, test.inputs, reverse("rehearsal-edit", args=[slug, pk]), agent.pk
    )


def _values_page(
    request: HttpRequest,
    source: Model,
    masked_values: Mapping[str, Any],
    stored: Mapping[str, Any],
    back: str,
    agent: int | None = None,
) -> HttpResponse:
    values = sensitive_values.show_values(source, masked_values, stored, actor=person(request), agent=agent)
    return render(request, "designer/sensitive.html", {"source": source, "values": values, "back": back})
