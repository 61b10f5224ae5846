"""One release holds an agent with all that is below it."""

import hashlib
import json
import threading

import pytest
from django.db import connection

from catalog.models import Vendor
from catalog.vendors import operations
from core.errors import DomainError
from designer import agents, pins, transfers, tunings
from designer.exports import document as release_document
from designer.models import Agent, Release, Tuning
from designer.procedures import editing
from designer.releases import drafts, publishing
from people.models import AuditEntry, Role
from tests.designer.exports.formats import PROVED
from tests.factories import make_agent, make_pin, make_tool, make_user

URL = "/api/v1/agents/desk/releases/"

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(alice):
    """With two agents below it, one of which has another below itself."""
    desk = make_agent(slug="desk", name="Desk")
    refills = agents.create_agent(actor=alice, name="Refills", parent=desk, description="Repeats orders.")
    billing = agents.create_agent(actor=alice, name="Billing", parent=desk)
    cards = agents.create_agent(actor=alice, name="Cards", parent=billing)
    make_pin(desk, make_tool(name="look_up"))
    make_pin(refills, make_tool(name="refill"))
    make_pin(billing, make_tool(name="invoice"))
    make_pin(cards, make_tool(name="charge"))
    text = f"Call look_up(). When a prescription runs out, {{agent:{refills.pk}}}."
    editing.create_procedure(desk, actor=alice, title="Greet", body=text)
    editing.create_procedure(refills, actor=alice, title="Refill", body="Call refill().")
    return desk


def agent(slug: str) -> Agent:
    return Agent.objects.get(slug=slug)


@pytest.fixture
def release(api, desk):
    made = api.post(URL, {"channel": "live"})
    assert made.status_code == 201, made.json()
    return made.json()


def test_a_release_holds_the_tree(runtime_api, release):
    bundle = runtime_api.get(f"{URL}live/bundle/")

    assert release["tools"] == 4
    assert hashlib.sha256(bundle.content).hexdigest() == release["digest"]
    told = bundle.json()
    assert [(each["slug"], each["parent"]) for each in told["agents"]] == [
        ("billing", "desk"),
        ("cards", "billing"),
        ("refills", "desk"),
    ]
    refills = told["agents"][2]
    assert [tool["signature"]["name"] for tool in refills["tools"]] == ["refill"]
    assert [each["text"] for each in refills["procedures"]] == ["Call refill()."]
    assert refills["description"] == "Repeats orders."
    assert told["transfers"] == [
        {"agent": "billing", "name": "transfer_to_billing", "description": "Hand over to Billing."},
        {
            "agent": "refills",
            "name": "transfer_to_refills",
            "description": "Hand over to Refills: Repeats orders.",
        },
    ]
    assert told["procedures"][0]["text"].endswith("When a prescription runs out, transfer_to_refills().")
    assert AuditEntry.objects.get(action="publish").after["sub_agents"] == ["billing", "cards", "refills"]


def test_an_agent_without_sub_agents_is_written_as_before_there_were_trees(api, alice):
    lone = make_agent(slug="lone")
    make_pin(lone)

    publishing.publish(lone, actor=alice)

    bundle = api.get("/api/v1/agents/lone/releases/1/bundle/").json()
    assert bundle.keys() == {"schema", "agent", "number", "tools", "procedures"}


def test_a_part_of_the_tree_is_published_alone(api, alice, desk):
    publishing.publish(agent("billing"), actor=alice)

    bundle = api.get("/api/v1/agents/billing/releases/1/bundle/").json()
    assert bundle["agent"]["slug"] == "billing"
    assert [(each["slug"], each["parent"]) for each in bundle["agents"]] == [("cards", "billing")]
    assert not Release.objects.filter(agent=desk).exists()


def test_an_agent_that_only_hands_over_can_be_published(api, alice, desk):
    for pin in desk.pins.all():
        pins.remove_pin(pin, actor=alice)
    editing.remove_procedure(desk.procedures.get(), actor=alice)

    assert api.post(URL).status_code == 201
    tools = api.get(f"{URL}1/tools/?format=mcp").json()["tools"]
    assert [tool["name"] for tool in tools] == ["transfer_to_billing", "transfer_to_refills"]


def test_archived_agents_are_no_part_of_a_release(api, alice, desk):
    agents.archive_agent(agent("billing"), actor=alice)

    api.post(URL)

    bundle = api.get(f"{URL}1/bundle/").json()
    assert [each["slug"] for each in bundle["agents"]] == ["refills"]
    assert [each["agent"] for each in bundle["transfers"]] == ["refills"]


def test_nothing_of_a_tree_is_lost_when_all_that_it_was_made_of_is_gone(api, runtime_api, alice, desk):
    tunings.tune(agent("cards").pins.get(), actor=alice, description="Takes the money.")
    number = publishing.publish(desk, actor=alice).number
    addresses = [
        f"{URL}{number}/bundle/",
        f"{URL}{number}/lock/",
        f"{URL}{number}/agents/",
        *[
            f"{URL}{number}/agents/{slug}/{what}"
            for slug in ("desk", "billing", "cards", "refills")
            for what in ("procedures/", *(f"tools/?format={name}&partial=1" for name in PROVED))
        ],
    ]
    # Those of sub-agents are written when they are first asked for, so half is asked for only afterwards.
    before = {address: runtime_api.get(address) for address in addresses[::2]}

    for slug in ("cards", "billing", "refills"):
        agents.remove_agent(agent(slug), actor=alice)
    for vendor in Vendor.objects.all():
        operations.remove_vendor(vendor, actor=make_user(Role.ADMIN))
    Tuning.objects.all().delete()

    assert {reply.status_code for reply in before.values()} <= {200, 409}
    for address, reply in before.items():
        assert runtime_api.get(address).content == reply.content
    kept = release_document.decode(runtime_api.get(addresses[0]).content)
    cards = next(each for each in kept.agents if each.slug == "cards")
    assert cards.tools[0].signature.description == "Takes the money."
    for address in addresses:
        assert runtime_api.get(address).status_code in (200, 409)
    shown = runtime_api.get(f"{URL}{number}/agents/cards/tools/?format=mcp").json()["tools"]
    assert [(tool["name"], tool["description"]) for tool in shown] == [("charge", "Takes the money.")]


# What each member of what is below an agent comes from, and how that is changed.
CHANGES = {
    "sub_agent.id": lambda by: agents.create_agent(actor=by, name="Other", parent=agent("cards")),
    "sub_agent.slug": lambda by: agents.update_agent(agent("cards"), actor=by, slug="plastic"),
    "sub_agent.name": lambda by: agents.update_agent(agent("cards"), actor=by, name="Plastic"),
    "sub_agent.description": lambda by: agents.update_agent(agent("cards"), actor=by, description="x"),
    "sub_agent.parent": lambda by: agents.update_agent(agent("cards"), actor=by, parent=agent("refills")),
    "sub_agent.tools": lambda by: pins.pin_tool(agent("cards"), actor=by, tool=make_tool(name="other")),
    "sub_agent.procedures": lambda by: editing.create_procedure(
        agent("cards"), actor=by, title="Pay", body="Call charge()."
    ),
    "sub_agent.transfers": lambda by: agents.archive_agent(agent("cards"), actor=by),
    "transfer.agent": lambda by: agents.remove_agent(agent("cards"), actor=by),
    "transfer.name": lambda by: transfers.word_transfer(agent("cards").transfer, actor=by, name="to_cards"),
    "transfer.description": lambda by: transfers.word_transfer(
        agent("cards").transfer, actor=by, description="When they pay by card."
    ),
}


def test_every_member_of_what_is_below_is_listed():
    members = {f"sub_agent.{name}" for name in release_document.ReleasedSubAgent.__struct_fields__}
    members |= {f"transfer.{name}" for name in release_document.ReleasedTransfer.__struct_fields__}
    assert members == CHANGES.keys()


@pytest.mark.parametrize("member", CHANGES)
def test_a_change_below_is_a_change_of_the_draft(api, alice, desk, release, member):
    assert not drafts.changed([desk])[desk.pk]
    assert api.post(URL).json()["code"] == "nothing_changed"

    CHANGES[member](alice)

    assert drafts.changed([desk])[desk.pk]
    assert api.get("/api/v1/agents/desk/draft/").json()["is_new"]
    assert api.post(URL).status_code == 201
    assert not drafts.changed([desk])[desk.pk]


def test_a_tree_that_is_archived_together_has_not_changed(alice, desk, release):
    agents.archive_agent(desk, actor=alice)

    assert not drafts.changed([agent("desk")])[desk.pk]


def test_a_draft_of_another_tree_is_not_published(api, alice, desk):
    seen = api.get("/api/v1/agents/desk/draft/").json()["digest"]
    agents.update_agent(agent("cards"), actor=alice, parent=agent("refills"))

    refused = api.post(URL, {"seen": seen})

    assert (refused.status_code, refused.json()["code"]) == (409, "draft_changed")
    assert not Release.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("first", ["desk", "billing"])
def test_who_moves_an_agent_waits_for_who_publishes_its_tree(alice, desk, first, monkeypatch):
    # While the release is put together, a sub-agent of it is moved out, and another part is published.
    composed, moving = threading.Event(), threading.Event()
    made, trees = [], publishing.composition.trees

    def slowly(roots):
        found = trees(roots)
        if not composed.is_set():
            composed.set()
            moving.wait(10)
        return found

    def in_thread(work):
        def run():
            try:
                made.append(work())
            except DomainError as error:
                made.append(error)
            finally:
                connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    monkeypatch.setattr(publishing.composition, "trees", slowly)
    publisher = in_thread(lambda: publishing.publish(agent(first), actor=alice))
    composed.wait(10)
    cards = agent("cards")
    mover = in_thread(lambda: agents.update_agent(cards, actor=alice, parent=agent("refills")))
    mover.join(0.5)
    assert mover.is_alive(), "the tree is locked"
    moving.set()
    for thread in (publisher, mover):
        thread.join(20)

    assert [type(each) for each in made] == [Release, Agent]
    told = json.loads(made[0].document)["agents"]
    assert ("cards", "billing") in [(each["slug"], each["parent"]) for each in told]


@pytest.mark.django_db(transaction=True)
def test_parts_of_one_tree_are_published_at_once(alice, desk):
    made = []

    def publish(slug):
        try:
            made.append(publishing.publish(agent(slug), actor=alice).number)
        finally:
            connection.close()

    slugs = ("desk", "billing", "cards", "refills")
    threads = [threading.Thread(target=publish, args=[slug]) for slug in slugs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert made == [1, 1, 1, 1]


def test_two_publishers_of_one_tree_make_one_release(api, desk, release):
    again = api.post(URL)

    assert (again.status_code, again.json()["code"]) == (409, "nothing_changed")
