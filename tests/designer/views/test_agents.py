import html
import re

import pytest

from designer.agents import agents
from designer.models import Agent, Release
from designer.pins import pins, tunings
from designer.procedures import editing
from designer.releases import publishing
from people.models import Role
from tests.designer.exports.formats import OF_TOOLS
from tests.factories import (
    make_agent,
    make_endpoint,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_vendor,
    make_version,
)
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def designer():
    return signed_in(Role.DESIGNER)


@pytest.fixture
def alice():
    return make_user(Role.DESIGNER, username="alice", name="Alice")


@pytest.fixture
def desk():
    return make_agent(slug="desk", name="Desk")


def test_an_agent_is_made_on_the_list(designer):
    response = designer.post("/agents/", {"name": "Travel desk", "slug": "", "description": "", "parent": ""})

    assert response["Location"] == "/agents/travel-desk/"


def test_a_refused_agent_is_explained_beside_the_field(designer, desk):
    response = designer.post("/agents/", {"name": "Desk", "slug": "desk"})

    assert response.context["form"].errors["slug"]


def test_sub_agents_stand_below_their_parents(designer, alice, desk):
    below = agents.create_agent(actor=alice, name="Aardvark", parent=desk)
    agents.create_agent(actor=alice, name="Deeper", parent=below)
    agents.create_agent(actor=alice, name="Zebra")

    rows = designer.get("/agents/").context["agents"]

    assert [(depth, agent.name) for depth, agent in rows] == [
        (0, "Desk"),
        (1, "Aardvark"),
        (2, "Deeper"),
        (0, "Zebra"),
    ]


def test_an_agent_shows_each_pin_with_its_version_and_cost(designer, alice, desk):
    tool = make_tool(name="forecast")
    pins.pin_tool(desk, actor=alice, tool=tool)
    make_version(tool)

    page = designer.get("/agents/desk/")

    assert "Update available" in text_of(page)
    assert page.context["budget"]["total"] > 10


def test_an_agent_tells_which_words_its_vendor_wrote_anew_below_them(designer, alice, desk):
    tool = make_tool(make_signature("forecast"))
    pin = pins.pin_tool(desk, actor=alice, tool=tool)
    tunings.tune(pin, actor=alice, description="Ours", parameters={"city": {"description": "A town"}})
    inputs = (make_parameter("city", description="Which city"),)
    make_version(tool, make_signature("forecast", description="Theirs anew", inputs=inputs))
    assert "you replaced" not in text_of(designer.get("/agents/desk/"))

    pins.move_pin(pin, actor=alice, ordinal=2)
    page = designer.get("/agents/desk/")
    assert "vendor changed 2 texts you replaced" in text_of(page)
    assert f'href="/agents/desk/pins/{pin.pk}/#stale"' in page.content.decode()

    tunings.settle(pin, actor=alice, member="description", take="ours")
    assert "vendor changed 1 text you replaced" in text_of(designer.get("/agents/desk/"))


def test_fifty_pins_make_a_small_and_cheap_page(designer, alice, desk, django_assert_max_num_queries):
    for number in range(50):
        signature = make_signature(
            f"tool_with_a_usual_name_{number}", description="What it does and when. " * 30
        )
        pin = pins.pin_tool(desk, actor=alice, tool=make_tool(signature))
        tunings.tune(pin, actor=alice, title="Ours")
    editing.create_procedure(desk, actor=alice, title="When", body="Ask, then tool_with_a_usual_name_1().")

    designer.get("/agents/desk/")  # from then on the session names this agent
    with django_assert_max_num_queries(13):  # one of them: does the reader follow the agent?
        response = designer.get("/agents/desk/")

    assert len(response.content) < 60_000


def test_the_list_stands_beside_what_is_edited(designer, alice, desk):
    pin = pins.pin_tool(desk, actor=alice, tool=make_tool(make_signature("look_up")))
    procedure = editing.create_procedure(desk, actor=alice, title="When", body="Ask, then look_up().")
    pages = {
        "/agents/desk/": "",
        "/agents/desk/?show=overview": "overview",
        f"/agents/desk/pins/{pin.pk}/": f"pin-{pin.pk}",
        "/agents/desk/procedures/when/": f"procedure-{procedure.pk}",
    }
    for address, selected in pages.items():
        page = designer.get(address).content.decode()
        assert f'id="detail" data-shows="{selected}"' in page
        assert set(re.findall(r'data-item="([^"]*)"', page)) == {*pages.values()} - {""}
        current = re.findall(r'data-item="([^"]*)" aria-current="true"', page)
        assert current == ([selected] if selected else [])
        assert "Tools 1 Procedures 1" in text_of(designer.get(address))
    assert "As the model reads it" in text_of(designer.get("/agents/desk/procedures/when/"))


def test_what_a_model_reads_of_a_procedure_follows_what_is_typed(designer, alice, desk):
    editing.create_procedure(desk, actor=alice, title="When", body="Ask.")
    typed = {"title": "When", "body": "Ask for {city}.", "based_on": "1"}
    part = designer.post("/agents/desk/procedures/when/check/", typed).content.decode()
    assert 'id="procedure-seen" hx-swap-oob="true"' in part
    assert ">Ask for city.</pre>" in part


def test_an_agent_is_edited(designer, desk):
    designer.post(
        "/agents/desk/edit/", {"name": "Help desk", "slug": "help", "description": "Helps", "parent": ""}
    )

    desk.refresh_from_db()
    assert (desk.name, desk.slug) == ("Help desk", "help")


def test_an_agent_with_sub_agents_is_not_removed(designer, alice, desk):
    agents.create_agent(actor=alice, name="Below", parent=desk)

    assert "has sub-agents" in text_of(designer.post("/agents/desk/remove/", follow=True))


def test_a_removed_agent_is_gone(designer, desk):
    designer.post("/agents/desk/remove/")

    assert not Agent.objects.live().exists()
    assert designer.get("/agents/desk/").status_code == 404


def test_publishing_leads_to_the_release(designer, alice, desk):
    pins.pin_tool(desk, actor=alice, tool=make_tool())

    response = designer.post("/agents/desk/publish/", {"note": "The first"}, follow=True)

    assert "Release 1 is published." in text_of(response)
    assert Release.objects.get().note == "The first"


def test_publishing_nothing_says_what_is_missing(designer, desk):
    response = designer.post("/agents/desk/publish/", {"note": ""})

    assert "has no tools. Pin one, then publish." in text_of(response)


def test_what_a_format_cannot_carry_is_said_before_publishing(designer, alice, desk):
    pins.pin_tool(desk, actor=alice, tool=make_tool(make_signature(description="long " * 500)))

    page = text_of(designer.get("/agents/desk/publish/"))
    assert "A2T / N-ACT contains only 0 of 1 tools: “" in page
    assert "fit: tune it" in page


def test_a_release_offers_every_format(designer, alice, desk):
    pins.pin_tool(desk, actor=alice, tool=make_tool(name="forecast"))
    publishing.publish(desk, actor=alice)

    page = designer.get("/agents/desk/releases/1/?format=json-schema")

    assert page.content.decode().count("/api/v1/agents/desk/releases/1/tools/?format=") >= 5
    assert '"forecast"' in text_of(page)


def test_a_release_says_which_channels_lead_to_it_and_what_is_live_instead(designer, alice, desk):
    pin = pins.pin_tool(desk, actor=alice, tool=make_tool(name="forecast"))
    publishing.publish(desk, actor=alice, channel="live")
    tunings.tune(pin, actor=alice, description="Ours")
    publishing.publish(desk, actor=alice, channel="canary")

    first, second = (text_of(designer.get(f"/agents/desk/releases/{number}/")) for number in (1, 2))

    assert "Promote to live" not in first
    head = second.partition("Download")[0]
    assert "canary" in head
    assert "Promote to live" in head
    assert "live: release 1" in second


def test_a_release_names_vendors_as_people_do(designer, alice, desk):
    endpoint = make_endpoint(vendor=make_vendor(name="Bramble Pharmacy", slug="bramble"))
    pins.pin_tool(desk, actor=alice, tool=make_tool(name="forecast", endpoint=endpoint))
    publishing.publish(desk, actor=alice)

    for page in ("releases/1/", "received/"):
        assert "Bramble Pharmacy" in text_of(designer.get(f"/agents/desk/{page}"))


def test_an_agent_without_tools_is_not_urged_to_publish(designer, desk):
    page = designer.get("/agents/desk/").content.decode()

    assert page.count("button is-primary") == 1
    assert 'is-primary" href="/agents/desk/add-tools/"' in page


def test_a_release_offers_nothing_that_would_be_refused(designer, alice, desk):
    """The page names the tools that a format leaves out; a format that can carry none is not offered."""
    pins.pin_tool(desk, actor=alice, tool=make_tool(make_signature("long", description="long " * 500)))
    publishing.publish(desk, actor=alice)
    pins.pin_tool(desk, actor=alice, tool=make_tool(name="forecast"))
    publishing.publish(desk, actor=alice)

    for number in (1, 2):
        page = designer.get(f"/agents/desk/releases/{number}/?format=a2t")
        offered = re.findall(r"/api/v1/agents/desk/releases/\d/tools/\?[a-z0-9=&;-]+", page.content.decode())
        assert len(offered) >= len(OF_TOOLS)
        for address in offered:
            assert designer.get(html.unescape(address)).status_code == 200, address
    assert "Without 1 of 2 tools" in text_of(page)
    assert "“long” has a description of" in text_of(page)
    assert "Without long , which A2T / N-ACT does not support." in text_of(page)
    first = designer.get("/agents/desk/releases/1/?format=a2t").content.decode()
    assert 'id="export"' not in first
    assert "?format=a2t#export" not in first


def test_a_release_says_what_differs_from_the_one_before(designer, alice, desk):
    stays = pins.pin_tool(desk, actor=alice, tool=make_tool(name="stays"))
    goes = pins.pin_tool(desk, actor=alice, tool=make_tool(name="goes"))
    publishing.publish(desk, actor=alice)
    make_version(stays.tool)
    pins.move_pin(stays, actor=alice, ordinal=2)
    pins.remove_pin(goes, actor=alice)
    pins.pin_tool(desk, actor=alice, tool=make_tool(name="comes"))
    publishing.publish(desk, actor=alice)

    sentences = {
        (change.mark, change.subject): change.sentence
        for change in designer.get("/agents/desk/releases/2/").context["changes"]
    }

    assert sentences == {
        ("removed", "goes"): "",
        ("added", "comes"): "",
        ("changed", "stays"): "Version 1 became version 2. What a model reads differs: Description.",
    }


def test_a_release_is_compared_with_any_other_of_the_agent(designer, alice, desk):
    pin = pins.pin_tool(desk, actor=alice, tool=make_tool(name="stays"))
    for words in ("First words", "Second words", "Third words"):
        tunings.tune(pin, actor=alice, description=words)
        publishing.publish(desk, actor=alice)

    page = designer.get("/agents/desk/releases/3/?against=1").content.decode()

    assert "<del>First</del> words" in page
    assert "<ins>Third</ins> words" in page
    assert "Your texts changed." in page
    assert "This is the first release" in designer.get("/agents/desk/releases/1/").content.decode()


def test_an_unknown_format_shows_no_export(designer, alice, desk):
    pins.pin_tool(desk, actor=alice, tool=make_tool())
    publishing.publish(desk, actor=alice)

    assert "format" not in designer.get("/agents/desk/releases/1/?format=nothing").context


def test_a_viewer_reads_and_does_not_publish(alice, desk):
    make_pin(desk)
    viewer = signed_in(Role.VIEWER)

    assert 'id="publish"' not in viewer.get("/agents/desk/publish/").content.decode()
    assert viewer.post("/agents/desk/publish/", {"note": ""}).status_code == 403


def test_one_press_publishes_what_the_page_showed_and_nothing_else(designer, alice, desk):
    pin = pins.pin_tool(desk, actor=alice, tool=make_tool(name="stays"))
    digest = designer.get("/agents/desk/publish/").context["review"].digest
    tunings.tune(pin, actor=alice, description="Written after the page was opened")

    late = designer.post("/agents/desk/publish/", {"note": "My note", "seen": digest})

    assert "has changed since this page was opened" in late.content.decode()
    assert "My note" in late.content.decode()
    assert not Release.objects.exists()
    again = designer.post("/agents/desk/publish/", {"note": "My note", "seen": late.context["review"].digest})
    assert again["Location"] == "/agents/desk/releases/1/"
    assert Release.objects.get().digest == late.context["review"].digest


def test_the_publish_page_shows_what_publishing_changes(designer, alice, desk):
    pin = pins.pin_tool(desk, actor=alice, tool=make_tool(name="stays"))
    assert "Contents of the release" in designer.get("/agents/desk/publish/").content.decode()
    publishing.publish(desk, actor=alice)
    assert "No changes: release 1 contains everything." in text_of(designer.get("/agents/desk/publish/"))
    tunings.tune(pin, actor=alice, description="Our text")
    assert "Your texts changed." in text_of(designer.get("/agents/desk/publish/"))
