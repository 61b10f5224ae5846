import uuid

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from catalog.models import Finding, Run
from core import proxy_signs, redis_client
from core.proxy_signs import Sign
from designer.agents import agents
from designer.environments import mock_rehearsals, mocks
from designer.models import HiddenGuide
from designer.pins import pins, tunings
from designer.procedures import editing
from designer.releases import publishing
from people import api_keys, audit, teams
from people.models import KeyScope, Role, User
from tests.factories import make_agent, make_endpoint, make_pin, make_tool, make_user, make_version
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


@pytest.fixture
def alice():
    return make_user(Role.DESIGNER, username="alice")


def make_finding(version, severity="medium") -> Finding:
    return Finding.objects.create(
        endpoint=version.tool.endpoint,
        tool=version.tool,
        version=version,
        code="STEERING",
        severity=severity,
        subject=version.digest,
        message="It steers.",
    )


def browser_of(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def steps_of(page) -> dict[str, bool]:
    return page.get("/").context["guide"].steps


def test_an_administrator_begins_with_a_vendor_and_a_designer_with_an_agent(admin):
    designer = signed_in(Role.DESIGNER)

    assert steps_of(admin) == {"connected": False, "synced": False, "reviewed": False}
    assert steps_of(designer) == {"created": False, "pinned": False, "tuned": False}
    assert "guide" not in signed_in(Role.VIEWER).get("/").context
    assert 'href="/endpoints/new/"' in admin.get("/").text


def test_each_person_takes_the_own_first_steps(alice):
    agent = agents.create_agent(actor=alice, name="Desk")
    pin = pins.pin_tool(agent, actor=alice, tool=make_tool())

    assert steps_of(browser_of(alice)) == {"created": True, "pinned": True, "tuned": False}
    assert steps_of(signed_in(Role.DESIGNER)) == {"created": False, "pinned": False, "tuned": False}

    tunings.tune(pin, actor=alice, description="Call it first.")
    assert set(steps_of(browser_of(alice))) == {"written", "named", "improved"}

    first = editing.create_procedure(agent, actor=alice, title="Sky", body="Look.")
    assert steps_of(browser_of(alice)) == {"written": True, "named": False, "improved": False}
    editing.save_procedure(first, actor=alice, body=f"Look with {pin.name}().")
    assert set(steps_of(browser_of(alice))) == {"mocked", "changed", "ruled"}

    mock_rehearsals.run_all_steps(agent, first, uuid.uuid4(), actor=alice)
    mocks.edit(pin, actor=alice, change=lambda now: {**now, "seed": 2})
    assert steps_of(browser_of(alice)) == {"mocked": True, "changed": True, "ruled": False}
    mocks.set_assertions(agent, actor=alice, documents=[{"is": "never", "tool": pin.name}])
    assert steps_of(browser_of(alice)) == {"published": False, "keyed": False, "fetched": False}


def test_the_steps_end_with_the_first_fetch_of_a_runtime(alice, client):
    agent = make_agent(slug="desk")
    pins.pin_tool(agent, actor=alice, tool=make_tool())
    page = browser_of(alice)
    for name in ("agent", "procedure", "mocks"):
        page.post("/guides/hide/", {"guide": name})
    publishing.publish(agent, actor=alice)
    _, token = api_keys.issue(alice, actor=alice, name="runtime", scopes=[KeyScope.RUNTIME])
    assert steps_of(page) == {"published": True, "keyed": True, "fetched": False}

    client.get("/api/v1/agents/desk/releases/1/", headers={"Authorization": f"Bearer {token}"})

    assert page.get("/").context["guide"] is None
    assert "Nothing needs you" in text_of(page.get("/"))


def test_a_guide_is_hidden_for_one_person(alice):
    page = browser_of(alice)
    page.post("/guides/hide/", {"guide": "agent"})
    page.post("/guides/hide/", {"guide": "no such guide"})

    assert page.get("/").context["guide"].name == "procedure"
    assert signed_in(Role.DESIGNER).get("/").context["guide"].name == "agent"
    assert HiddenGuide.objects.count() == 1


def test_the_steps_of_an_administrator_are_the_own_ones_too(admin):
    user, endpoint = User.objects.get(), make_endpoint()
    with transaction.atomic():
        audit.record(user, "connect", endpoint)
    Run.objects.create(endpoint=make_endpoint(), status="succeeded", requested_by=user)
    Run.objects.create(endpoint=endpoint, status="failed", requested_by=user)
    assert steps_of(admin) == {"connected": True, "synced": False, "reviewed": False}

    Run.objects.create(endpoint=endpoint, status="succeeded")
    assert steps_of(admin) == {"connected": True, "synced": True, "reviewed": False}
    assert not any(steps_of(signed_in(Role.ADMIN)).values())


def test_broken_endpoints_come_first(admin):
    make_endpoint(failures=2, error_message="The vendor did not answer.")

    assert "Endpoints that need action" in text_of(admin.get("/"))
    assert "The vendor did not answer." in text_of(admin.get("/"))


def test_findings_wait_on_the_first_page_and_in_the_navigation(admin):
    tool = make_tool(name="forecast")
    Finding.objects.create(
        endpoint=tool.endpoint, tool=tool, code="DRIFT", severity="high", subject="x", message="It drifted."
    )

    page_text = text_of(admin.get("/"))

    assert "Inbox 1 waiting for review" in page_text
    assert "It drifted." in page_text


def test_what_a_vendor_changed_stays_however_many_syncs_find_nothing(admin):
    endpoint = make_endpoint()
    changes = Run.objects.create(endpoint=endpoint, status="succeeded", returned=2)
    Run.objects.bulk_create(Run(endpoint=endpoint, status="succeeded") for _ in range(600))
    page = admin.get("/")
    assert [run.pk for run in page.context["runs"]] == [changes.pk]


def test_a_newer_version_of_a_pinned_tool_is_mentioned(admin, alice):
    tool = make_tool(name="forecast")
    pins.pin_tool(make_agent(name="Desk"), actor=alice, tool=tool)
    make_version(tool)

    assert "forecast Desk 1 newer version" in text_of(admin.get("/"))


def test_an_agent_that_was_edited_after_its_release_is_mentioned(admin, alice):
    agent = make_agent(name="Desk")
    pin = pins.pin_tool(agent, actor=alice, tool=make_tool())
    publishing.publish(agent, actor=alice)
    assert "Changed since release" not in text_of(admin.get("/"))

    pins.set_alias(pin, actor=alice, alias="another_name")

    assert "Desk 1 tool Changed since release" in text_of(admin.get("/"))


def test_the_first_page_costs_the_same_however_much_waits(admin, alice, django_assert_max_num_queries):
    agent = make_agent()
    for number in range(30):
        tool = make_tool(name=f"tool_{number}")
        pins.pin_tool(agent, actor=alice, tool=tool)
        make_version(tool)
        make_endpoint(failures=1)

    with django_assert_max_num_queries(13):
        admin.get("/")


def test_the_chosen_theme_is_kept_without_a_script(admin):
    response = admin.post("/theme/", {"theme": "dark", "next": "/agents/"})

    assert response["Location"] == "/agents/"
    assert '<html lang="en" data-theme="dark">' in admin.get("/").content.decode()


def test_the_theme_leads_to_no_other_site(admin):
    assert admin.post("/theme/", {"theme": "dark", "next": "https://evil.example/"})["Location"] == "/"


@pytest.mark.parametrize("odd", ["0", "tool", "no such page", "{", "//elsewhere.example"])
def test_choosing_a_theme_leads_home_from_anywhere_odd(admin, odd):
    reply = admin.post("/theme/", {"theme": "dark", "next": odd})

    assert (reply.status_code, reply.url) == (302, "/")


def test_a_withdrawn_tool_that_is_pinned_stands_on_home_and_before_publishing(admin, alice):
    agent, tool = make_agent(name="Desk", slug="desk"), make_tool(name="send_fax")
    pins.pin_tool(agent, actor=alice, tool=tool)
    for path in ("/", "/agents/desk/publish/"):
        assert "withdrawn" not in text_of(admin.get(path))
    tool.status = "withdrawn"
    tool.save()

    assert "Pinned tools that were withdrawn Calls of them may fail send_fax Desk" in text_of(admin.get("/"))
    page_text = text_of(admin.get("/agents/desk/publish/"))
    assert f"“send_fax”: {tool.endpoint.vendor} does not list it any more" in page_text


@pytest.mark.parametrize("expected", ["endpoint", "vendor"])
def test_a_pinned_tool_of_a_removed_vendor_is_gone_too(admin, alice, expected):
    tool = make_tool(name="send_fax")
    pins.pin_tool(make_agent(slug="desk"), actor=alice, tool=tool)
    removed = tool.endpoint if expected == "endpoint" else tool.endpoint.vendor
    removed.removed_at = timezone.now()
    removed.save()

    assert "vendor removed" in text_of(admin.get("/"))
    assert "its vendor was removed from Pegboard" in text_of(admin.get("/agents/desk/publish/"))


def test_what_is_gone_stands_before_publishing_of_its_own_agent_alone(admin, alice):
    tool = make_tool(name="send_fax")
    removed = make_pin(make_agent(slug="desk"), tool)
    make_pin(make_agent(slug="counter"), tool)
    make_pin(make_agent(slug="till"), make_tool(name="other"))
    pins.remove_pin(removed, actor=alice)
    tool.status = "withdrawn"
    tool.save()
    is_shown = [
        "send_fax" in text_of(admin.get(f"/agents/{slug}/publish/")) for slug in ("desk", "counter", "till")
    ]
    assert is_shown == [False, True, False]
    assert text_of(admin.get("/")).count("send_fax") == 1


def test_what_is_gone_from_another_team_s_agent_is_not_told(alice):
    secret = make_agent(name="Secret desk", slug="secret", team=teams.create_team(actor=alice, name="Ours"))
    tool = make_tool(name="send_fax", status="withdrawn")
    make_pin(secret, tool)

    assert "send_fax" not in text_of(signed_in(Role.DESIGNER).get("/"))


def test_what_waits_about_another_team_s_pins_is_not_told(admin, alice):
    secret = make_agent(name="Secret desk", slug="secret", team=teams.create_team(actor=alice, name="Ours"))
    waiting, behind = make_tool(name="send_fax"), make_tool(name="send_telex")
    make_finding(make_pin(secret, waiting, name="our_fax").version)
    make_pin(secret, behind, name="our_telex")
    make_version(behind)

    page_texts = [text_of(client.get("/")) for client in (admin, signed_in(Role.DESIGNER))]
    assert [("our_fax" in page_text, "our_telex" in page_text) for page_text in page_texts] == [
        (True, True),
        (False, False),
    ]


def test_a_trifle_about_what_is_pinned_is_no_news_of_its_agent(admin):
    pin = make_pin(make_agent(slug="desk"), make_tool(name="send_fax"))
    finding = make_finding(pin.version, severity="low")
    words_by_page = {
        "/": "under review",
        "/agents/desk/": "under review",
        "/agents/desk/publish/": "“send_fax” has an open finding",
    }
    words = words_by_page.items()
    assert [word in text_of(admin.get(path)).replace("Under", "under") for path, word in words] == [False] * 3

    finding.severity = "medium"
    finding.save()
    assert [word in text_of(admin.get(path)).replace("Under", "under") for path, word in words] == [True] * 3


def test_each_designer_is_told_of_the_agents_of_their_own_teams(admin):
    """The queries are put together once for a role."""
    designers = {"Fax": make_user(Role.DESIGNER), "Mail": make_user(Role.DESIGNER)}
    for name, user in designers.items():
        team = teams.create_team(actor=user, name=name)
        teams.add_member(team, user, actor=user)
        agent = make_agent(name=f"{name} desk", team=team)
        make_pin(agent, make_tool(name=f"{name} away", status="withdrawn"))
        stale = make_tool(name=f"{name} stale")
        make_pin(agent, stale)
        Finding.objects.create(
            endpoint=stale.endpoint,
            tool=stale,
            version=stale.current,
            code="DRIFT",
            severity="high",
            subject="x",
            message="It drifted.",
        )
        make_version(stale)

    for name in ("Fax", "Mail", "Fax"):
        client = Client()
        client.force_login(designers[name])
        context = client.get("/").context
        for panel in ("gone", "behind", "reviewed"):
            assert {pin.agent.name for pin in context[panel]} == {f"{name} desk"}, panel
        assert [agent.name for agent in context["agents"]] == [f"{name} desk"]
    assert {pin.agent.name for pin in admin.get("/").context["behind"]} == {"Fax desk", "Mail desk"}


@pytest.fixture
def behind_uncounted_proxy(settings, monkeypatch):
    """An installation for others whose proxy is not counted, as a request has shown."""
    settings.LOCAL, settings.NUM_PROXIES = False, 0
    monkeypatch.setattr(proxy_signs, "_noted", {})
    redis_client.client().delete(proxy_signs.KEY)
    proxy_signs.note([Sign.UNCOUNTED_PROXY])
    yield
    redis_client.client().delete(proxy_signs.KEY)


def test_administrators_see_that_the_proxy_is_not_counted(admin, behind_uncounted_proxy, settings):
    page = admin.get("/")
    assert page.context["mismatches"] == [proxy_signs.MISMATCHES[Sign.UNCOUNTED_PROXY]]
    assert "PEGBOARD_PROXIES" in text_of(page)
    settings.NUM_PROXIES = 1
    assert admin.get("/", HTTP_X_FORWARDED_FOR="203.0.113.9").context["mismatches"] == []


@pytest.mark.parametrize("role", [Role.VIEWER, Role.DESIGNER])
def test_others_see_nothing_of_the_proxy(role, behind_uncounted_proxy):
    assert "PEGBOARD_PROXIES" not in text_of(signed_in(role).get("/"))


def test_the_page_opens_without_the_broker(admin, settings):
    settings.LOCAL = False
    settings.REDIS_URL = "redis+socket:///nowhere/valkey.sock?virtual_host=0"
    assert admin.get("/").context["mismatches"] == []
