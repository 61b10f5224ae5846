"""One release holds an agent with all that is below it."""

import hashlib
import io
import json
import threading
import zipfile

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from catalog.models import Finding, Vendor
from catalog.vendors import operations
from core.errors import DomainError
from designer import exports
from designer.agents import agent_keys, agents, transfers, vendor_usage
from designer.exports import document as release_document
from designer.models import Agent, Pin, Release, Tuning
from designer.pins import pins, tunings
from designer.procedures import editing
from designer.releases import drafts, publishing
from people import teams
from people.models import AuditEntry, KeyScope, Role
from tests.clients import client_of
from tests.designer.exports.formats import PROVED, VALIDATORS
from tests.factories import make_agent, make_pin, make_signature, make_tool, make_user, make_version
from tests.module_data import module_data
from tests.pages import signed_in, text_of

URL = "/api/v1/agents/desk/releases/"

pytestmark = pytest.mark.django_db


@module_data
def desk(alice):
    """An agent with two sub-agents, one of which has a sub-agent itself."""
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


@module_data
def release(alice, desk):
    response = client_of(alice).post(URL, {"channel": "live"})
    assert response.status_code == 201, response.json()
    return response.json()


def test_a_release_holds_the_tree(runtime_api, release):
    bundle = runtime_api.get(f"{URL}live/bundle/")

    assert release["tools"] == 4
    assert hashlib.sha256(bundle.content).hexdigest() == release["digest"]
    tree_bundle = bundle.json()
    assert [(agent["slug"], agent["parent"]) for agent in tree_bundle["agents"]] == [
        ("billing", "desk"),
        ("cards", "billing"),
        ("refills", "desk"),
    ]
    refills = tree_bundle["agents"][2]
    assert [tool["signature"]["name"] for tool in refills["tools"]] == ["refill"]
    assert [procedure["text"] for procedure in refills["procedures"]] == ["Call refill()."]
    assert refills["description"] == "Repeats orders."
    assert tree_bundle["transfers"] == [
        {"agent": "billing", "name": "transfer_to_billing", "description": "Hand over to Billing."},
        {
            "agent": "refills",
            "name": "transfer_to_refills",
            "description": "Hand over to Refills: Repeats orders.",
        },
    ]
    assert tree_bundle["procedures"][0]["text"].endswith(
        "When a prescription runs out, transfer_to_refills()."
    )
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
    assert [(agent["slug"], agent["parent"]) for agent in bundle["agents"]] == [("cards", "billing")]
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
    assert [agent["slug"] for agent in bundle["agents"]] == ["refills"]
    assert [transfer["agent"] for transfer in bundle["transfers"]] == ["refills"]


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
    # Exports of sub-agents are written on the first request, so half of them are requested only afterwards.
    before = {address: runtime_api.get(address) for address in addresses[::2]}

    for slug in ("cards", "billing", "refills"):
        agents.remove_agent(agent(slug), actor=alice)
    for vendor in Vendor.objects.all():
        operations.remove_vendor(vendor, actor=make_user(Role.ADMIN))
    Tuning.objects.all().delete()

    assert {reply.status_code for reply in before.values()} <= {200, 409}
    for address, reply in before.items():
        assert runtime_api.get(address).content == reply.content
    decoded = release_document.decode(runtime_api.get(addresses[0]).content)
    cards = next(agent for agent in decoded.agents if agent.slug == "cards")
    assert cards.tools[0].signature.description == "Takes the money."
    for address in addresses:
        assert runtime_api.get(address).status_code in (200, 409)
    tools = runtime_api.get(f"{URL}{number}/agents/cards/tools/?format=mcp").json()["tools"]
    assert [(tool["name"], tool["description"]) for tool in tools] == [("charge", "Takes the money.")]


# The origin of each member of a sub-agent, and a change of it.
CHANGES = {
    "sub_agent.id": lambda by: agents.create_agent(actor=by, name="Other", parent=agent("cards")),
    "sub_agent.slug": lambda by: agents.update_agent(agent("cards"), actor=by, slug="plastic"),
    "sub_agent.name": lambda by: agents.update_agent(agent("cards"), actor=by, name="Plastic"),
    "sub_agent.description": lambda by: agents.update_agent(agent("cards"), actor=by, description="x"),
    "sub_agent.parent": lambda by: agents.update_agent(agent("cards"), actor=by, parent=agent("refills")),
    "sub_agent.tools": lambda by: pins.pin_tool(agent("cards"), actor=by, tool=make_tool(name="other")),
    "sub_agent.context": lambda by: pins.pin_tool(
        agent("cards"), actor=by, tool=make_tool(make_signature("greet", kind="prompt"), kind="prompt")
    ),
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
    assert not drafts.have_changed([desk])[desk.pk]
    assert api.post(URL).json()["code"] == "nothing_changed"

    CHANGES[member](alice)

    assert drafts.have_changed([desk])[desk.pk]
    assert api.get("/api/v1/agents/desk/draft/").json()["is_new"]
    assert api.post(URL).status_code == 201
    assert not drafts.have_changed([desk])[desk.pk]


def archived_under_a_name(by) -> None:
    transfers.word_transfer(agent("refills").transfer, actor=by, name="to_refills")
    agents.archive_agent(agent("refills"), actor=by)


def moved_away(by) -> None:
    agents.update_agent(agent("refills"), actor=by, parent=None)


# Ways in which an agent that a procedure names disappears, and the text afterwards if no transfer names it.
GONE = {
    "its address changes": (
        moved_away,
        lambda by: agents.update_agent(agent("refills"), actor=by, slug="repeats"),
        "transfer_to_repeats().",
    ),
    "another team gets it": (
        moved_away,
        lambda by: agents.update_agent(
            agent("refills"), actor=by, team=teams.create_team(actor=make_user(Role.ADMIN), name="Others")
        ),
        "{agent:",
    ),
    "it is removed for good": (
        archived_under_a_name,
        lambda by: agents.remove_agent(agent("refills"), actor=by),
        "transfer_to_refills().",
    ),
}


@pytest.mark.parametrize("happens", GONE)
def test_a_draft_changes_with_an_agent_that_its_text_names_and_that_is_gone(api, alice, desk, happens):
    goes, then, expected_text = GONE[happens]
    accept = {"accept": ["not_sub_agent", "unknown_reference"], "reason": "It comes back."}
    goes(alice)
    assert api.post(URL, accept).status_code == 201
    assert not drafts.have_changed([desk])[desk.pk]

    then(alice)

    assert api.get("/api/v1/agents/desk/").json()["is_changed"]
    assert api.post(URL, accept).status_code == 201
    assert expected_text in api.get(f"{URL}2/bundle/").json()["procedures"][0]["text"]
    assert not drafts.have_changed([desk])[desk.pk]


def test_a_tree_that_is_archived_together_has_not_changed(alice, desk, release):
    agents.archive_agent(desk, actor=alice)

    assert not drafts.have_changed([agent("desk")])[desk.pk]


def test_a_draft_of_another_tree_is_not_published(api, alice, desk):
    digest = api.get("/api/v1/agents/desk/draft/").json()["digest"]
    agents.update_agent(agent("cards"), actor=alice, parent=agent("refills"))

    refused = api.post(URL, {"seen": digest})

    assert (refused.status_code, refused.json()["code"]) == (409, "draft_changed")
    assert not Release.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("first", ["desk", "billing"])
def test_who_moves_an_agent_waits_for_who_publishes_its_tree(alice, desk, first, monkeypatch):
    # While the release is put together, a sub-agent of it is moved out, and another part is published.
    composed, moving = threading.Event(), threading.Event()
    results, trees = [], publishing.composition.trees

    def slowly(roots):
        trees_read = trees(roots)
        if not composed.is_set():
            composed.set()
            moving.wait(10)
        return trees_read

    def in_thread(work):
        def run():
            try:
                results.append(work())
            except DomainError as error:
                results.append(error)
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

    assert [type(result) for result in results] == [Release, Agent]
    released_agents = json.loads(results[0].document)["agents"]
    assert ("cards", "billing") in [(agent["slug"], agent["parent"]) for agent in released_agents]


@pytest.mark.django_db(transaction=True)
def test_parts_of_one_tree_are_published_at_once(alice, desk):
    numbers = []

    def publish(slug):
        try:
            numbers.append(publishing.publish(agent(slug), actor=alice).number)
        finally:
            connection.close()

    slugs = ("desk", "billing", "cards", "refills")
    threads = [threading.Thread(target=publish, args=[slug]) for slug in slugs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert numbers == [1, 1, 1, 1]


def test_two_publishers_of_one_tree_make_one_release(api, desk, release):
    again = api.post(URL)

    assert (again.status_code, again.json()["code"]) == (409, "nothing_changed")


def test_a_lock_check_knows_a_sub_agent_by_its_identity(api, alice, desk, release):
    lock = api.get(f"{URL}live/lock/").json()

    def check_lock():
        api.post(URL, {"channel": "live"})
        changes = api.post("/api/v1/agents/desk/check/", lock, format="json").json()["changes"]
        return [(change["code"], change["class"], change["message"]) for change in changes]

    agents.update_agent(agent("cards"), actor=alice, slug="plastic")
    moved, transfer, renamed = check_lock()
    assert (moved[0], renamed[:2]) == ("channel_moved", ("agent_renamed", "breaking"))
    assert renamed[2] == "The sub-agent “cards” has the address “plastic” in release 2."
    assert transfer[0] == "transfer_renamed"
    assert "“transfer_to_cards” is called “transfer_to_plastic”" in transfer[2]

    agents.remove_agent(agent("refills"), actor=alice)
    editing.remove_procedure(desk.procedures.get(), actor=alice)
    assert ("agent_removed", "breaking") in {row[:2] for row in check_lock()}


def test_a_lock_file_holds_the_tools_of_the_whole_tree(api, alice, desk, release):
    lock = api.get(f"{URL}live/lock/").json()
    assert [(tool.get("agent"), tool["name"]) for tool in lock["tools"]] == [
        (None, "look_up"),
        ("billing", "invoice"),
        ("cards", "charge"),
        ("refills", "refill"),
    ]

    def check_lock():
        answer = api.post("/api/v1/agents/desk/check/", lock, format="json").json()
        return answer["status"], [(change["code"], change["tool"]) for change in answer["changes"]]

    assert check_lock() == ("current", [])
    make_version(agent("cards").pins.get().tool)
    assert check_lock() == ("behind", [("newer_version", "charge")])
    transfers.word_transfer(agent("refills").transfer, actor=alice, description="When one runs out.")
    tunings.tune(agent("refills").pins.get(), actor=alice, description="Orders again.")
    agents.create_agent(actor=alice, name="New", parent=agent("refills"))
    publishing.publish(desk, actor=alice, channel="live")
    status, changes = check_lock()
    assert status == "behind"
    assert {
        ("transfer_changed", "transfer_to_refills"),
        ("tool_changed", "refill"),
        ("transfer_added", "transfer_to_new"),
        ("agent_added", ""),
    } <= set(changes)
    transfers.word_transfer(agent("cards").transfer, actor=alice, name="to_cards")
    agents.archive_agent(agent("new"), actor=alice)
    publishing.publish(desk, actor=alice, channel="live")
    assert check_lock()[0] == "breaking"
    assert ("transfer_renamed", "transfer_to_cards") in check_lock()[1]
    agents.update_agent(agent("cards"), actor=alice, parent=None)
    publishing.publish(desk, actor=alice, channel="live")
    assert {("agent_removed", ""), ("transfer_removed", "transfer_to_cards")} <= set(check_lock()[1])


def test_who_approved_the_tools_of_sub_agents_is_told(api, alice, desk):
    pins.pin_tool(agent("cards"), actor=alice, tool=make_tool(name="refund"))
    api.post(URL)

    received = api.get("/api/v1/agents/desk/received/").json()["tools"]

    assert [(row["sub_agent"], row["name"]) for row in received] == [
        ("", "look_up"),
        ("billing", "invoice"),
        ("cards", "charge"),
        ("cards", "refund"),
        ("refills", "refill"),
    ]
    assert received[3]["pinned"]["by"] == "alice"
    page = text_of(signed_in(Role.DESIGNER).get("/agents/desk/received/"))
    assert "refund cards" in page


def test_a_vendor_is_used_by_the_release_of_a_tree(desk, release):
    endpoint = agent("cards").pins.get().tool.endpoint

    used = vendor_usage.use_of([endpoint])

    assert (used.releases, used.live_releases) == (1, 1)


def test_checks_name_the_sub_agent_that_they_are_about(api, alice, desk):
    held_version = make_version(agent("cards").pins.get().tool, label="2")
    Finding.objects.create(
        endpoint=held_version.tool.endpoint,
        tool=held_version.tool,
        version=held_version,
        code="HELD",
        severity="high",
        subject=held_version.digest,
        message="Look.",
        state="open",
    )
    Pin.objects.filter(agent=agent("cards")).update(version=held_version)
    editing.create_procedure(agent("cards"), actor=alice, title="Pay", body="Call chrage().")

    refused = api.post(URL)

    assert (refused.status_code, refused.json()["code"]) == (409, "checks_failed")
    errors = {check["code"]: check for check in refused.json()["checks"] if check["severity"] == "error"}
    assert errors.keys() == {"version_held", "unknown_reference"}
    assert all(error["message"].startswith("“Cards”: ") for error in errors.values())
    assert errors["unknown_reference"]["where"] == "/agents/cards/procedures/pay/"
    well = {check["code"] for check in refused.json()["checks"] if check["severity"] == "ok"}
    assert "review" not in well
    assert "names" in well


def test_what_differs_is_told_agent_by_agent(api, alice, desk, release):
    tunings.tune(agent("cards").pins.get(), actor=alice, description="Takes the money.")
    transfers.word_transfer(agent("refills").transfer, actor=alice, description="When one runs out.")
    agents.archive_agent(agent("billing"), actor=alice)
    agents.restore_agent(agent("billing"), actor=alice)
    agents.create_agent(actor=alice, name="New", parent=desk)
    api.post(URL)

    diff = api.get(f"{URL}2/diff/").json()

    assert diff["tools"] == diff["procedures"] == diff["agent"] == []
    assert [(transfer["mark"], transfer["name"]) for transfer in diff["transfers"]] == [
        ("added", "transfer_to_new"),
        ("changed", "transfer_to_refills"),
    ]
    cards, new = diff["agents"]
    assert (cards["slug"], cards["mark"], new["slug"], new["mark"]) == ("cards", "changed", "new", "added")
    (member,) = cards["tools"][0]["members"]
    assert (member["path"], member["after"]) == ("description", "Takes the money.")
    draft = api.get("/api/v1/agents/desk/draft/").json()
    assert (draft["against"], [agent["slug"] for agent in draft["agents"]]) == (1, ["cards", "new"])


def test_the_pages_show_the_tree_of_a_draft_and_of_a_release(alice, desk, release):
    designer = signed_in(Role.DESIGNER)
    agents.create_agent(actor=alice, name="New", parent=agent("refills"))
    tunings.tune(agent("cards").pins.get(), actor=alice, description="Takes the money.")

    review = text_of(designer.get("/agents/desk/publish/"))
    page = text_of(designer.get("/agents/desk/releases/1/"))
    compared = text_of(designer.get("/agents/desk/releases/"))

    assert "One release of 5 agents" in review
    assert "changed Cards sub-agent" in review
    assert "added New sub-agent" in review
    assert "1 tool, 1 transfer and 3 sub-agents changed since release 1" in review
    assert "Tools of 4 agents" in page
    assert "Cards below Billing" in page
    assert "transfer_to_refills transfer Hand over to Refills: Repeats orders." in page
    assert "4" in compared


def test_the_release_of_a_tree_is_read_agent_by_agent(runtime_api, release):
    response = runtime_api.get(f"{URL}live/agents/")
    rows = {row["slug"]: row for row in response.json()["results"]}

    assert list(rows) == ["desk", "billing", "cards", "refills"]
    assert (rows["desk"]["parent"], rows["cards"]["parent"]) == (None, "billing")
    assert (rows["desk"]["tools"], rows["desk"]["procedures"]) == (1, 1)
    assert [transfer["agent"] for transfer in rows["billing"]["transfers"]] == ["cards"]
    of_refills = f"{URL}live/agents/refills/"
    assert runtime_api.get(f"{of_refills}procedures/").json()["results"][0]["text"] == "Call refill()."
    assert runtime_api.get(f"{of_refills}procedures/refill/").content == b"Call refill()."
    own_tools, again = (
        runtime_api.get(f"{URL}live/{part}tools/?format=mcp") for part in ("", "agents/desk/")
    )
    assert own_tools.content == again.content
    for address in ("agents/none/tools/?format=mcp", "agents/none/procedures/", "agents/cards/procedures/x/"):
        assert runtime_api.get(f"{URL}live/{address}").status_code == 404


@pytest.mark.parametrize(
    "below", ["agents/", "agents/refills/tools/?format=mcp", "agents/refills/procedures/"]
)
def test_parts_of_a_release_are_unchanged_like_the_release(runtime_api, release, below):
    first = runtime_api.get(f"{URL}live/{below}")
    tag = first.headers["ETag"]

    again = [runtime_api.get(f"{URL}live/{below}", headers={"If-None-Match": tag})]
    with CaptureQueriesContext(connection) as queries:
        again.append(runtime_api.get(f"{URL}live/{below}", headers={"If-None-Match": tag}))

    # Key and release are read together. An export asks whether it is stored; procedures are in the document.
    assert len(queries) == (1 if below == "agents/" else 2)
    assert tag == f'"{release["digest"]}"'
    assert [(response.status_code, response.content, response.headers["ETag"]) for response in again] == [
        (304, b"", tag)
    ] * 2
    other = runtime_api.get(f"{URL}live/{below}", headers={"If-None-Match": '"other"'})
    assert other.content == first.content


def test_what_a_key_fetched_of_which_agent_is_noted(api, runtime_api, release):
    for below in ("agents/", "agents/cards/tools/?format=mcp", "agents/cards/procedures/"):
        runtime_api.get(f"{URL}live/{below}")

    rows = api.get("/api/v1/agents/desk/receipts/").json()["results"]

    assert {row["surface"] for row in rows} == {"agents", "cards/mcp", "cards/procedures"}


def test_a_key_that_names_the_root_reaches_its_tree_there_and_no_other_way(alice, release):
    _, plain = agent_keys.issue(
        alice, actor=alice, name="Desk", scopes=[KeyScope.RUNTIME], agents=[agent("desk")]
    )
    reads = APIClient(headers={"authorization": f"Bearer {plain}"})

    assert reads.get(f"{URL}live/agents/cards/tools/?format=mcp").status_code == 200
    assert reads.get("/api/v1/agents/cards/releases/").status_code == 404


@pytest.mark.parametrize("format_", PROVED)
def test_every_format_of_tools_shows_transfers(api, release, format_):
    if exports.get(format_).limits.of == "procedures":
        return
    reply = api.get(f"{URL}live/tools/?format={format_}")

    assert list(VALIDATORS[format_].iter_errors(reply.json())) == []
    text = reply.content.decode()
    assert [text.count(f'"{name}"') > 0 for name in ("transfer_to_billing", "transfer_to_refills")] == [
        True
    ] * 2
    assert "Hand over to Refills: Repeats orders." in text
    wires = {format_["name"]: format_["wire"] for format_ in api.get(f"{URL}live/").json()["formats"]}
    assert wires[format_]["transfer_to_refills"] == {"kind": "transfer", "agent": "refills"}


def test_formats_with_a_place_for_it_say_that_it_is_a_transfer(api, release):
    def transfer_in(format_, members):
        tools = api.get(f"{URL}live/tools/?format={format_}").json()[members]
        return next(tool for tool in tools if tool["name"] == "transfer_to_refills")

    way = {"kind": "transfer", "agent": "refills"}
    assert transfer_in("json-schema", "tools")["wire"] == way
    assert transfer_in("mcp", "tools")["_meta"] == {"pegboard/wire": way}
    assert transfer_in("mcp", "tools")["inputSchema"]["properties"] == {}
    assert transfer_in("a2t", "items")["tags"] == ["transfer"]
    assert transfer_in("a2t", "items")["input_parameters"] == []


def test_a_skill_says_when_to_hand_over(api, release):
    packed = zipfile.ZipFile(io.BytesIO(api.get(f"{URL}live/tools/?format=skill").content))

    text = packed.read("greet/SKILL.md").decode()

    assert "- `transfer_to_refills`: Hand over to Refills: Repeats orders." in text


def test_the_address_of_a_released_sub_agent_is_given_to_no_other(alice, release):
    agents.update_agent(agent("cards"), actor=alice, slug="plastic")
    with pytest.raises(DomainError) as refused:
        agents.create_agent(actor=alice, name="Another", slug="cards")
    assert refused.value.code == "slug_taken"


def test_a_release_answers_for_its_own_agent_after_that_was_renamed(api, alice, release):
    agents.update_agent(agent("desk"), actor=alice, slug="help")
    url = "/api/v1/agents/help/releases/1/agents/help/procedures/"
    assert api.get(url).status_code == 200
