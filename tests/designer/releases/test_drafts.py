"""“Changed since release” compares two documents: what publishing would write, and the last release."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Configuration, Endpoint, Tool, Vendor
from designer.agents import agents
from designer.exports import document as release_document
from designer.models import Draft, Pin, Procedure
from designer.models.pins import PinMode
from designer.pins import pins, tunings
from designer.procedures import editing
from designer.releases import drafts, publishing
from execution.calls import requesting
from people.models import Role
from tests.factories import make_agent, make_endpoint, make_tool, make_user, make_vendor, make_version
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
SAYS = "Changed since release"


@module_data
def desk(alice):
    """A published agent with one tool and one procedure."""
    agent = make_agent(slug="desk", name="Desk")
    pins.pin_tool(agent, actor=alice, tool=make_tool(name="forecast"))
    editing.create_procedure(agent, actor=alice, title="Weather", body="Say what the day brings.")
    publishing.publish(agent, actor=alice)
    return agent


@pytest.fixture
def page():
    return signed_in(Role.DESIGNER)


def is_changed(api, agent) -> bool:
    """Return `is_changed` of the agent over REST, where the list and the agent must agree."""
    changed_by_slug = {row["slug"]: row["is_changed"] for row in api.get("/api/v1/agents/").json()["results"]}
    assert changed_by_slug[agent.slug] == api.get(f"/api/v1/agents/{agent.slug}/").json()["is_changed"]
    return changed_by_slug[agent.slug]


def test_a_run_of_a_tool_changes_no_agent(api, page, alice, desk):
    tool = desk.pins.get().tool
    requesting.request_call(tool.current, actor=alice, arguments={"city": "Oslo"})

    assert not is_changed(api, desk)
    assert SAYS not in text_of(page.get("/agents/"))
    assert SAYS not in text_of(page.get("/agents/desk/"))
    assert SAYS not in text_of(page.get("/"))


def test_an_edited_description_is_a_change_until_it_is_as_it_was(api, page, desk):
    assert not is_changed(api, desk)

    api.patch("/api/v1/agents/desk/", {"description": "Books journeys"}, format="json")

    assert is_changed(api, desk)
    assert SAYS in text_of(page.get("/agents/"))
    assert SAYS in text_of(page.get("/agents/desk/"))
    assert "Desk 1 tool Changed since release" in text_of(page.get("/"))
    api.patch("/api/v1/agents/desk/", {"description": ""}, format="json")
    assert not is_changed(api, desk)


def test_what_was_done_and_undone_is_no_change(api, alice, desk):
    pin = desk.pins.get()
    pins.set_alias(pin, actor=alice, alias="weather")
    assert is_changed(api, desk)

    pins.set_alias(pin, actor=alice, alias="")

    assert not is_changed(api, desk)


def test_words_for_all_agents_change_each_that_pins_the_tool(api, alice, desk):
    tool = desk.pins.get().tool
    other = make_agent(slug="other")
    pins.pin_tool(other, actor=alice, tool=make_tool())
    publishing.publish(other, actor=alice)

    api.put(f"/api/v1/tools/{tool.pk}/tuning/", {"description": "Better words"}, format="json")

    assert is_changed(api, desk)
    assert not is_changed(api, other)


def test_publishing_ends_the_change(api, alice, desk):
    tunings.tune(desk.pins.get(), actor=alice, description="Ours")
    assert is_changed(api, desk)

    publishing.publish(desk, actor=alice)

    assert not is_changed(api, desk)


def test_an_agent_without_a_release_has_changed_once_it_has_a_tool(api, alice):
    agent = make_agent(slug="new")
    assert not is_changed(api, agent)

    pins.pin_tool(agent, actor=alice, tool=make_tool())

    assert is_changed(api, agent)


def save(agent, **changes) -> None:
    editing.save_procedure(agent.procedures.get(), actor=make_user(Role.DESIGNER), **changes)


# The origin of each member of a release, and a change of it. A member that is added to the document
# belongs into the digest of drafts.py, and here.
CHANGES = {
    "agent.slug": lambda agent, pin: agents.update_agent(
        agent, actor=make_user(Role.DESIGNER), slug="elsewhere"
    ),
    "agent.name": lambda agent, pin: agents.update_agent(agent, actor=make_user(Role.DESIGNER), name="Other"),
    "agent.description": lambda agent, pin: agents.update_agent(
        agent, actor=make_user(Role.DESIGNER), description="x"
    ),
    "tool.id": lambda agent, pin: pins.pin_tool(
        agent, actor=make_user(Role.DESIGNER), tool=make_tool(name="other")
    ),
    "tool.tool_id": lambda agent, pin: Tool.objects.filter(pk=pin.tool_id).update(tool_id="other"),
    "tool.vendor": lambda agent, pin: Vendor.objects.update(slug="other"),
    "tool.endpoint": lambda agent, pin: Endpoint.objects.update(url="http://127.0.0.1:1/other"),
    "tool.protocol": lambda agent, pin: Endpoint.objects.update(protocol="oxp"),
    "tool.version": lambda agent, pin: pins.move_pin(
        pin, actor=make_user(Role.DESIGNER), ordinal=make_version(pin.tool).ordinal
    ),
    "tool.signature": lambda agent, pin: pins.set_alias(pin, actor=make_user(Role.DESIGNER), alias="renamed"),
    "tool.tuning": lambda agent, pin: tunings.tune(pin, actor=make_user(Role.DESIGNER), description="Ours"),
    "tool.retry": lambda agent, pin: pins.set_retry(
        pin, actor=make_user(Role.DESIGNER), changes={"retry": "all"}
    ),
    "tool.mode": lambda agent, pin: pins.set_mode(pin, actor=make_user(Role.DESIGNER), mode=PinMode.FRESH),
    "tool.configuration": lambda agent, pin: Pin.objects.update(
        configuration=Configuration.objects.create(
            tool=pin.tool, version=pin.version, name="Warm", number=1, values={}
        )
    ),
    "procedure.slug": lambda agent, pin: Procedure.objects.update(slug="other"),
    "procedure.title": lambda agent, pin: save(agent, title="Other"),
    "procedure.text": lambda agent, pin: save(agent, body="Other words."),
    "procedure.references": lambda agent, pin: save(agent, body="Call forecast()."),
}


def test_every_member_of_a_release_is_listed():
    members = {f"agent.{name}" for name in release_document.ReleasedAgent.__struct_fields__}
    members |= {f"tool.{name}" for name in release_document.ReleasedTool.__struct_fields__}

    members |= {f"procedure.{name}" for name in release_document.ReleasedProcedure.__struct_fields__}

    assert members == CHANGES.keys()
    # Sub-agents are in test_trees.py.
    known_members = {"schema", "agent", "number", "tools", "procedures", "transfers", "agents", "context"}
    assert set(release_document.ReleaseDocument.__struct_fields__) == known_members


@pytest.mark.parametrize("member", CHANGES)
def test_a_change_of_any_member_is_seen_at_once(api, desk, member):
    assert not drafts.have_changed([desk])[desk.pk]

    CHANGES[member](desk, desk.pins.get())

    desk.refresh_from_db()
    assert drafts.have_changed([desk])[desk.pk]


def test_a_retry_policy_of_the_agent_or_an_endpoint_is_a_change_where_it_counts(desk, alice):
    Endpoint.objects.update(retry={"attempts": 7})
    assert drafts.have_changed([desk])[desk.pk]
    pins.set_retry(desk.pins.get(), actor=alice, changes={"attempts": 3})
    assert not drafts.have_changed([desk])[desk.pk]
    desk = agents.update_agent(desk, actor=alice, retry={"retry": "none"})
    assert drafts.have_changed([desk])[desk.pk]


def test_other_code_compares_again(desk, monkeypatch):
    assert not drafts.have_changed([desk])[desk.pk]
    Draft.objects.update(is_changed=True)
    assert drafts.have_changed([desk])[desk.pk], "what was found is kept"

    monkeypatch.setattr(drafts, "_CODE", "other")

    assert not drafts.have_changed([desk])[desk.pk]


def test_lists_cost_the_same_however_many_agents_and_tools(api, page, alice, desk):
    def count(client, url):
        with CaptureQueriesContext(connection) as few:
            client.get(url)
        return len(few)

    before = {
        url: count(client, url) for client, url in ((page, "/"), (page, "/agents/"), (api, "/api/v1/agents/"))
    }
    shop = make_endpoint(vendor=make_vendor())
    for number in range(8):
        agent = make_agent(slug=f"agent-{number}")
        for _ in range(3):
            pins.pin_tool(agent, actor=alice, tool=make_tool(endpoint=shop))
        publishing.publish(agent, actor=alice)
        agents.update_agent(agent, actor=alice, description="Edited")
    first = {
        url: count(client, url) for client, url in ((page, "/"), (page, "/agents/"), (api, "/api/v1/agents/"))
    }
    again = {
        url: count(client, url) for client, url in ((page, "/"), (page, "/agents/"), (api, "/api/v1/agents/"))
    }

    assert all(again[url] <= before[url] for url in before)
    assert all(first[url] <= before[url] + 6 for url in before), "the first look after a change compares"
