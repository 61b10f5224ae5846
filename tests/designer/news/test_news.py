"""Notices for designers and runtimes: releases, channels, pins and tools that they follow."""

import json

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Tool
from catalog.models.runs import Trigger
from catalog.notifications import dispatch, outbox, subscriptions, webhooks
from catalog.notifications.models import Delivery, Notice
from catalog.review import decisions
from catalog.tools import definitions
from catalog.vendors import operations
from core.errors import DomainError
from designer.agents import agents
from designer.news import agent_webhooks, following, news
from designer.pins import pins, tunings
from designer.releases import channels, publishing
from people import api_keys, teams
from people.models import Role
from protocols.definition import parts_of
from tests.catalog.notifications.conftest import listener, post_office, reader
from tests.catalog.notifications.test_notices import let_pass, tick
from tests.factories import make_endpoint, make_pin, make_signature, make_tool, make_user, make_version
from tests.pages import text_of
from tests.protocols.test_definition import SEND
from tests.serving.test_calls import stopped
from tests.vendor import Vendor, serving, tools

__all__ = ["listener", "post_office"]
pytestmark = pytest.mark.django_db
with_threads = pytest.mark.django_db(transaction=True)
OF_AGENTS = ["release.published", "channel.moved", "tool.changed", "tool.withdrawn", "pin.behind"]


@pytest.fixture
def ada():
    return make_user(Role.DESIGNER, username="ada")


@pytest.fixture
def ben():
    return make_user(Role.DESIGNER, username="ben")


@pytest.fixture
def desk(ada):
    agent = agents.create_agent(actor=ada, name="Desk")
    pins.pin_tool(agent, actor=ada, tool=make_tool(make_signature("sky")), alias="sky")
    return agent


def hook_of(owner, listener, *agents, events=OF_AGENTS):
    row, _ = agent_webhooks.create(
        actor=owner, name="Runtime", url=listener.url, events=events, agents=agents
    )
    return row


def told_to(user) -> list[str]:
    return sorted(news.notices_of(user).values_list("event", flat=True))


def bodies(listener) -> list[dict]:
    return [json.loads(body) for _, body in listener.requests]


def move_vendor(tool, **fields):
    """The vendor lists another version, as a run records it."""
    with transaction.atomic():
        make_version(tool, make_signature(tool.name, **{"description": "Otherwise."} | fields))
        news.queue_behind_notices([tool.pk])


def browser_of(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_who_edits_an_agent_reads_of_its_release_and_of_its_channel(ada, ben, desk):
    tunings.tune(desk.pins.get(), actor=ben, description="Look at the sky.")
    stranger = make_user(Role.DESIGNER)
    publishing.publish(desk, actor=ada, note="For the summer", channel="live")
    tick()
    assert told_to(ben) == ["channel.moved", "release.published"]
    assert told_to(ada) == told_to(stranger) == [], "not who did it, and not who has no part in it"
    page = text_of(browser_of(ben).get("/notifications/"))
    assert "Release 1 of “Desk” was published" in page
    assert "For the summer" in page
    assert "“live” of “Desk” now points to release 1" in page


@pytest.mark.parametrize(
    ("role", "is_offered"), [(Role.ADMIN, True), (Role.DESIGNER, False), (Role.VIEWER, False)]
)
def test_mail_that_only_administrators_act_on_is_offered_to_them(client, role, is_offered):
    user = make_user(role, username="reader")
    client.force_login(user)
    subscriptions.choose(user, ["review.waiting"])
    page_html = client.get(reverse("notifications")).content.decode()
    assert ('value="vendor.requested"' in page_html) is is_offered
    # Saving replaces the subscriptions, so an earlier one stays on the page.
    assert 'value="review.waiting" checked' in page_html


def test_mail_goes_to_those_who_asked_for_it(ada, ben, desk, post_office):
    for user in (ben, eve := make_user(Role.DESIGNER)):
        following.follow(user, desk, is_following=True)
        reader(user, f"{user}@example.com")
    subscriptions.choose(ben, ["release.published"])
    publishing.publish(desk, actor=ada, channel="live")
    tick()
    let_pass(dispatch.GATHER * 2)
    tick()
    (mail,) = post_office.mails
    assert mail["To"] == "ben@example.com"
    assert "now points to release" not in mail.get_content()
    assert told_to(eve) == ["channel.moved", "release.published"]


def test_networks_that_are_open_to_vendors_are_closed_to_webhooks_of_designers(ada, desk, listener, settings):
    settings.CALLBACK_ALLOW = ""
    with pytest.raises(DomainError) as refused:
        hook_of(ada, listener, desk)
    assert refused.value.fields.keys() == {"url"}
    settings.CALLBACK_ALLOW = "127.0.0.0/8"
    row = hook_of(ada, listener, desk)
    settings.CALLBACK_ALLOW = ""
    # A host name is checked when it is dialled, and so is an address that was open before.
    assert webhooks.send_test(row, actor=ada).error
    assert listener.requests == []
    admin = make_user(Role.ADMIN)
    assert not webhooks.send_test(hook_of(admin, listener), actor=admin).error


def test_a_webhook_that_names_an_agent_hears_of_that_one(ada, ben, desk, listener):
    other = agents.create_agent(actor=ben, name="Other")
    make_pin(other)
    hook_of(ada, listener, desk)
    release = publishing.publish(desk, actor=ben, channel="live")
    publishing.publish(other, actor=ben, channel="live")
    tick()
    published, moved = sorted(bodies(listener), key=lambda body: body["type"], reverse=True)
    assert (published["type"], published["version"]) == ("release.published", 1)
    assert published["data"]["agent"] == {"slug": "desk", "name": "Desk"}
    assert published["data"]["release"]["digest"] == f"sha256:{release.digest}"
    assert moved["data"]["channel"] | {"moved_at": ""} == {
        "name": "live",
        "release": 1,
        "digest": f"sha256:{release.digest}",
        "before": None,
        "moved_by": "ben",
        "moved_at": "",
    }
    assert len({headers["webhook-id"] for headers, _ in listener.requests}) == 2


def test_a_webhook_hears_of_what_its_owner_does_and_its_form_says_so(ada, desk, listener):
    hook_of(ada, listener, desk, events=["release.published"])
    publishing.publish(desk, actor=ada)
    tick()
    assert [body["type"] for body in bodies(listener)] == ["release.published"]
    address = f"/notifications/webhooks/{webhooks.live().get().pk}/"
    for user, page in (
        (ada, "/notifications/webhooks/new/"),
        (ada, address),
        (make_user(Role.ADMIN), address),
    ):
        page_text = text_of(browser_of(user).get(page))
        assert "by any user" in page_text
        assert "you follow" not in page_text
    assert "For agents that you follow, by other users." in text_of(browser_of(ada).get("/notifications/"))


def test_administrators_webhooks_hear_of_all_agents_unless_they_name_some(ada, desk, listener):
    admin = make_user(Role.ADMIN)
    hook_of(admin, listener, events=["release.published"])
    hook_of(admin, listener, agents.create_agent(actor=admin, name="Other"), events=["release.published"])
    publishing.publish(desk, actor=ada)
    tick()
    assert [body["type"] for body in bodies(listener)] == ["release.published"]


def test_an_agent_above_and_those_below_are_told_of_what_concerns_them(ada, ben, desk):
    below = agents.create_agent(actor=ben, name="Refills", parent=desk)
    pin = make_pin(below, make_tool(make_signature("refill")))
    publishing.publish(desk, actor=ada)
    tick()
    assert told_to(ben) == ["release.published"], "the release holds the sub-agent"
    move_vendor(pin.tool)
    let_pass(dispatch.GATHER)
    tick()
    assert told_to(ada) == ["pin.behind"], "the agent above shows what its sub-agent pins"


def test_a_pin_that_is_behind_is_told_with_its_versions(ada, desk, listener):
    hook_of(ada, listener, desk)
    pin = desk.pins.get()
    move_vendor(pin.tool)
    tick()
    assert told_to(ada) == [], "what the inspection holds a moment later is not told"
    let_pass(dispatch.GATHER)
    tick()
    assert told_to(ada) == ["pin.behind"]
    (body,) = bodies(listener)
    (behind,) = body["data"]["pins"]
    assert (behind["name"], body["data"]["count"]) == ("sky", 1)
    assert behind["pinned"] != behind["newest"]
    assert body["data"]["url"].endswith("/agents/desk/upgrades/")


def test_a_pin_that_a_designer_has_moved_meanwhile_is_not_told(ada, desk):
    pin = desk.pins.get()
    move_vendor(pin.tool)
    pin.tool.refresh_from_db()
    pins.move_pin(pin, actor=ada)
    let_pass(dispatch.GATHER)
    tick()
    assert told_to(ada) == []


def test_what_review_lets_through_leaves_pins_behind_from_then_on(ada, desk):
    tool = desk.pins.get().tool
    held_version = make_version(tool, make_signature("sky", description="Otherwise."), is_current=False)
    Tool.objects.filter(pk=tool.pk).update(stopped=held_version)
    finding = stopped(held_version, "open")
    let_pass(dispatch.GATHER)
    tick()
    assert told_to(ada) == []
    decisions.resolve(finding, decision="accept", actor=make_user(Role.ADMIN))
    let_pass(dispatch.GATHER)
    tick()
    assert told_to(ada) == ["pin.behind"]


@with_threads
def test_a_vendor_that_changes_all_its_tools_is_one_message_and_one_statement(ada, listener):
    vendor = Vendor(tools(60))
    agent = agents.create_agent(actor=ada, name="Desk")
    with serving(vendor):
        endpoint = make_endpoint(url=vendor.url)
        read_vendor = lambda: enumeration_runs.perform(  # noqa: E731
            enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk
        )
        read_vendor()
        for tool in endpoint.tools.order_by("pk")[:40]:
            pins.pin_tool(agent, actor=ada, tool=tool)
        follower = make_user(Role.VIEWER)
        following.follow(follower, endpoint.tools.order_by("-pk")[0], is_following=True)
        hook_of(ada, listener, agent)
        for item in vendor.listed:
            item.update(description=f"{item['description']} Now faster.", version=2, currentVersion=2)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            run = read_vendor()
        assert run.changed == 60, run.error_message
        statements = [query["sql"] for query in queries if "notifications_notice" in query["sql"]]
        assert sum(sql.startswith("INSERT") or "\nINSERT" in sql for sql in statements) == 2, statements
        let_pass(dispatch.GATHER)
        tick()
        assert told_to(ada) == ["pin.behind", "tool.changed"]
        assert told_to(follower) == ["tool.changed"]
        by_type = {body["type"]: body["data"] for body in bodies(listener)}
        assert by_type["tool.changed"]["count"] == 60
        assert by_type["pin.behind"]["count"] == 40
        assert all(len(json.dumps(data)) < 5_000 for data in by_type.values())
        vendor.listed = vendor.listed[5:]
        read_vendor()
        let_pass(dispatch.GATHER)
        tick()
    assert "tool.withdrawn" in told_to(ada)
    assert told_to(follower) == ["tool.changed"], "none that they follow is gone"
    (withdrawn,) = [body["data"] for body in bodies(listener) if body["type"] == "tool.withdrawn"]
    assert withdrawn["count"] == 5


def test_a_vendor_that_was_removed_is_told_to_those_who_pin_its_tools(ada, desk):
    operations.remove_endpoint(desk.pins.get().tool.endpoint, actor=make_user(Role.ADMIN))
    let_pass(dispatch.GATHER)
    tick()
    assert told_to(ada) == ["tool.withdrawn"]
    assert "was removed from Pegboard" in text_of(browser_of(ada).get("/notifications/"))


def test_nothing_is_told_of_what_was_rolled_back(ada, ben, desk):
    following.follow(ben, desk, is_following=True)
    # Where the channel leads is looked at after the release is written.
    with pytest.raises(DomainError):
        publishing.publish(desk, actor=ada, channel="live", expected=7)
    assert not Notice.objects.exists()


def test_followers_of_a_definition_hear_that_it_was_changed_and_withdrawn(ada, ben):
    definition = definitions.define(actor=ada, parts=parts_of(SEND))
    following.follow(ben, definition, is_following=True)
    definitions.change(definition, actor=ada, changes={"title": "Mail"})
    let_pass(outbox.GATHER)
    tick()
    notice = news.notices_of(ben).get()
    assert (notice.event, notice.title) == ("tool.changed", "“sendEmail” has a new version")
    assert notice.facts["tools"] == [{"id": definition.pk, "name": "sendEmail", "version": "2", "ordinal": 2}]
    definitions.withdraw(definition, actor=ada)
    let_pass(outbox.GATHER)
    tick()
    assert told_to(ben) == ["tool.changed", "tool.withdrawn"]


def test_following_is_a_button_on_both_pages(ada, ben, desk):
    tool = desk.pins.get().tool
    browser = browser_of(ben)
    for page in ("/agents/desk/", f"/tools/{tool.pk}/"):
        assert "Follow" in text_of(browser.get(page))
        answer = browser.post(f"{page}follow/", {"follow": "1"}, follow=True)
        assert "from now on" in text_of(answer)
        assert "Unfollow" in text_of(answer)
    assert list(following.followed_agents(ben)) == [desk]
    page = text_of(browser.get("/notifications/"))
    assert "Desk" in page
    assert "sky" in page
    browser.post("/agents/desk/follow/", {"follow": "0", "back": "notifications"})
    assert list(following.followed_agents(ben)) == []


def test_who_stops_following_their_own_agent_hears_nothing_of_it(ada, ben, desk):
    assert list(following.followed_agents(ada)) == [desk]
    following.follow(ada, desk, is_following=False)
    assert list(following.followed_agents(ada)) == []
    publishing.publish(desk, actor=ben)
    tick()
    assert told_to(ada) == []


def test_news_over_rest(ada, ben, desk):
    _, plain = api_keys.issue(ben, actor=ben, name="test", scopes=["admin"])
    client = APIClient(headers={"authorization": f"Bearer {plain}"})
    tool = desk.pins.get().tool
    for address in ("/api/v1/agents/desk/follow/", f"/api/v1/tools/{tool.pk}/follow/"):
        assert client.put(address).status_code == 204
        assert client.put(address).status_code == 204
    assert client.get("/api/v1/follows/").json() == {"agents": ["desk"], "tools": [tool.pk]}
    publishing.publish(desk, actor=ada)
    tick()
    (row,) = client.get("/api/v1/notices/").json()["results"]
    assert (row["type"], row["facts"]["release"]["number"]) == ("release.published", 1)
    assert client.delete("/api/v1/agents/desk/follow/").status_code == 204
    assert client.get("/api/v1/follows/").json()["agents"] == []


def test_a_designers_webhook_names_agents_and_hears_of_nothing_else(ada, ben, desk, listener):
    with pytest.raises(DomainError) as refused:
        hook_of(ada, listener)
    assert "agents" in refused.value.fields
    with pytest.raises(DomainError) as refused:
        hook_of(ada, listener, desk, events=["release.published", "endpoint.broken"])
    assert "events" in refused.value.fields
    browser = browser_of(ada)
    form = text_of(browser.get("/notifications/webhooks/new/"))
    assert "A release was published" in form
    assert "An endpoint cannot be synced" not in form
    response = browser.post(
        "/notifications/webhooks/new/",
        {"name": "Mine", "url": listener.url, "events": ["pin.behind"], "agents": ["desk"]},
    )
    assert response.context["plain"].startswith("whsec_")
    row = webhooks.live().get()
    assert row.owner == ada
    address = f"/notifications/webhooks/{row.pk}/"
    assert browser_of(ben).get(address).status_code == 404
    assert browser_of(make_user(Role.ADMIN)).get(address).status_code == 200
    other = agents.create_agent(actor=ada, name="Other")
    changed = {"name": "Mine", "events": ["pin.behind"], "agents": [other.slug]}
    assert browser.post(address, changed).status_code == 302
    assert [agent.slug for agent in agent_webhooks.agents_of(agent_webhooks.visible_to(ada).get())] == [
        "other"
    ]


def test_a_webhook_hears_nothing_of_an_agent_that_its_owner_may_not_see_any_more(ada, ben, listener):
    admin = make_user(Role.ADMIN)
    team = teams.create_team(actor=admin, name="Zebra")
    for user in (ada, ben):
        teams.add_member(team, user, actor=admin)
    agent = agents.create_agent(actor=ada, name="Secret plans", team=team)
    make_pin(agent)
    hook_of(ben, listener, agent)
    following.follow(ben, agent, is_following=True)
    publishing.publish(agent, actor=ada)
    tick()
    assert (told_to(ben), len(listener.requests)) == (["release.published"], 1)
    teams.remove_member(team, ben, actor=admin)
    channels.move(agent, "live", actor=ada, release=agent.releases.get())
    tick()
    assert (told_to(ben), len(listener.requests)) == ([], 1)
    assert "Secret plans" not in browser_of(ben).get("/notifications/").content.decode()


def test_news_of_what_happens_once_go_after_a_month(ada, ben, desk):
    following.follow(ben, desk, is_following=True)
    publishing.publish(desk, actor=ada)
    tick()
    let_pass(dispatch.RETENTION * 2)
    dispatch.forget_old()
    assert not Notice.objects.exists()
    assert not Delivery.objects.exists()
