"""The summary of an agent and of a release: what it may do, where, who approved it and what was tested."""

import pytest
from django.test import Client

from designer.agents import agents
from designer.environments import environments, mocks
from designer.pins import pins
from designer.procedures import editing
from designer.rehearsals import runs, sentences, shown
from designer.releases import publishing
from people.models import Role
from protocols.signature import Annotations
from tests.factories import make_signature, make_tool, make_user
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@module_data
def designer():
    return make_user(Role.DESIGNER, username="ada")


@module_data
def agent(designer):
    row = agents.create_agent(actor=designer, name="Front desk", description="Answers calls.")
    tool = make_tool(make_signature(name="wipe", annotations=Annotations(read_only=False, destructive=True)))
    pins.pin_tool(row, actor=designer, tool=tool, alias="erase_order")
    editing.create_procedure(row, actor=designer, title="Cancel an order", body="Ask first.")
    return row


def viewer() -> Client:
    return signed_in(Role.VIEWER)


def test_a_draft_that_nobody_has_tested_or_published_states_so(agent):
    page = viewer().get(f"/agents/{agent.slug}/read/")
    assert page.status_code == 200
    summary = page.context["summary"]
    assert [one.tool.signature.name for one in summary.tools] == ["erase_order"]
    assert summary.tools[0].tool.signature.annotations.effect == "destroys"
    assert summary.tools[0].approval is None
    assert summary.last_run is None
    assert not page.context["releases"]
    assert summary.destinations[0].host.startswith("127.0.0.1")


def test_a_release_names_who_approved_it_and_what_ran_before(agent, designer):
    sentences.add(agent, actor=designer, new_sentences=[sentences.NewSentence("Erase it", "erase_order")])
    runs.run_built_in(agent, actor=designer)
    release = publishing.publish(agent, actor=designer, note="First", channel="live")
    runs.run_built_in(agent, actor=designer)

    page = viewer().get(f"/agents/{agent.slug}/releases/{release.number}/read/")

    summary = page.context["summary"]
    assert summary.tools[0].approval.pinned.by == str(designer)
    assert summary.last_run.finished_at <= release.created_at
    assert page.context["leading_here"] == ["live"]
    assert [move.release for move, _ in page.context["moves"]] == [release]
    assert "First" in text_of(page)


def test_a_run_of_the_release_itself_counts_more_than_those_before_it(agent, designer):
    sentences.add(agent, actor=designer, new_sentences=[sentences.NewSentence("Erase it", "erase_order")])
    release = publishing.publish(agent, actor=designer)
    path = f"/agents/{agent.slug}/releases/{release.number}/read/"
    assert viewer().get(path).context["summary"].last_run is None

    shown_tools, rows = shown.tools_of_agents([agent])[agent.pk], sentences.read_sentences([agent])
    run = runs.run_and_store(agent, shown_tools, shown_tools.sentences(rows), release=release.number)

    assert viewer().get(path).context["summary"].last_run == run
    # The draft was not tested.
    assert viewer().get(f"/agents/{agent.slug}/read/").context["summary"].last_run is None


def test_each_environment_states_what_runs_there(agent, designer):
    place = environments.create(agent, actor=designer, name="test")
    mocks.bind_all(place, actor=designer)
    one = viewer().get(f"/agents/{agent.slug}/read/").context["summary"].tools[0]
    assert [name for name, _ in one.runs] == ["test", "no environment"]
    assert one.reaches_vendor


def test_a_release_states_what_was_recorded_and_how_today_differs(agent, designer):
    release = publishing.publish(agent, actor=designer, note="First")
    address = f"/agents/{agent.slug}/releases/{release.number}/read/"
    assert viewer().get(address).context["summary"].differences == ""
    place = environments.create(agent, actor=designer, name="test")
    environments.make_default(place, actor=designer)
    mocks.bind_all(place, actor=designer)
    summary = viewer().get(address).context["summary"]
    assert (summary.tools[0].runs, summary.tools[0].reaches_vendor) == ([("", "Vendor")], True)
    assert list(summary.places) == []
    assert "erase_order" in summary.differences
    assert "“test”" in summary.differences
    again = publishing.publish(agent, actor=designer, note="Second")
    summary = viewer().get(f"/agents/{agent.slug}/releases/{again.number}/read/").context["summary"]
    assert [row.name for row in summary.places] == ["test"]
    assert (summary.differences, summary.tools[0].reaches_vendor) == ("", False)


def test_it_offers_no_change(agent, designer):
    """An auditor reads: the page has no form of its own and no greyed field."""
    publishing.publish(agent, actor=designer, note="First")
    for address in (f"/agents/{agent.slug}/read/", f"/agents/{agent.slug}/releases/1/read/"):
        content = viewer().get(address).content.decode().split("<main", 1)[1]
        assert "<form" not in content
        assert "disabled" not in content


def test_the_queries_do_not_grow_with_the_tools(agent, designer, django_assert_max_num_queries):
    browser, address = viewer(), f"/agents/{agent.slug}/read/"
    browser.get(address)
    for number in range(4):
        pins.pin_tool(agent, actor=designer, tool=make_tool(name=f"tool_{number}"))
    with django_assert_max_num_queries(45):
        assert browser.get(address).status_code == 200
