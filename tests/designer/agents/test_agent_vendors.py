"""The vendors that an agent may use: narrowed down the tree, obeyed by searching and pinning."""

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from catalog.models import Vendor
from designer.agents import agent_vendors, agents
from designer.agents.agent_vendors import AllowedVendors, VendorLimit
from designer.files import agent_copies, agent_files
from designer.models import Agent
from people import teams
from people.models import AuditEntry
from tests.factories import make_agent, make_endpoint, make_pin, make_tool, make_vendor, make_version
from tests.pages import text_of

URL = "/api/v1/agents/"


@pytest.fixture
def acme(db):
    return make_vendor(name="Acme", slug="acme")


@pytest.fixture
def birch(db):
    return make_vendor(name="Birch", slug="birch")


@pytest.fixture
def sky(acme):
    return make_tool(name="sky", endpoint=make_endpoint(vendor=acme, url="http://acme.example/"))


@pytest.fixture
def mail(birch):
    return make_tool(name="mail", endpoint=make_endpoint(vendor=birch, url="http://birch.example/"))


@pytest.fixture
def desk(db):
    return make_agent(name="Desk", slug="desk")


@pytest.fixture
def refills(desk):
    return make_agent(name="Refills", slug="refills", parent=desk)


def allow(agent, *vendors, actor):
    agents.update_agent(agent, actor=actor, vendors=vendors)


def pin(api, agent, tool):
    return api.post(f"{URL}{agent.slug}/pins/", {"tool": tool.pk})


def test_an_agent_may_use_every_vendor_until_some_are_named(api, desk, sky):
    agent_body = api.get(f"{URL}desk/").json()
    assert (agent_body["vendors"], agent_body["usable_vendors"]) == (None, None)
    assert pin(api, desk, sky).status_code == 201


def test_a_tool_of_another_vendor_is_refused_with_what_to_do(api, desk, sky, mail):
    reply = api.patch(f"{URL}desk/", {"vendors": ["acme"]})
    assert reply.json()["vendors"] == ["acme"]

    refused = pin(api, desk, mail)
    assert (refused.status_code, refused.json()["code"]) == (409, "vendor_not_allowed")
    assert refused.json()["fields"]["tool"] == (
        "“mail” is a tool of “Birch”, a vendor that “Desk” may not use. Choose a tool of “Acme”, or allow the"
        " vendor on the edit page of “Desk”."
    )
    assert pin(api, desk, sky).status_code == 201
    several = api.post(f"{URL}desk/pins/several/", {"pins": [{"tool": mail.pk}]}).json()
    assert several["results"][0]["error"]["code"] == "vendor_not_allowed"


def test_a_sub_agent_may_use_what_every_agent_above_it_may(alice, api, desk, refills, sky, mail):
    allow(desk, sky.endpoint.vendor, actor=alice)
    refused = pin(api, refills, mail).json()
    assert "limited by its parent “Desk”" in refused["message"]

    allow(refills, mail.endpoint.vendor, actor=alice)
    agent_body = api.get(f"{URL}refills/").json()
    assert (agent_body["vendors"], agent_body["usable_vendors"]) == (["birch"], [])
    assert pin(api, refills, sky).status_code == pin(api, refills, mail).status_code == 409

    rows = {row["slug"]: row["usable_vendors"] for row in api.get(URL).json()["results"]}
    assert rows == {"desk": ["acme"], "refills": []}


def test_naming_vendors_is_told_in_the_trail(api, desk, acme):
    api.patch(f"{URL}desk/", {"vendors": ["acme"]})
    entry = AuditEntry.objects.filter(action="edit").latest("pk")
    assert entry.before == {"limits_vendors": False, "vendors": []}
    assert entry.after == {"limits_vendors": True, "vendors": ["acme"]}
    api.patch(f"{URL}desk/", {"vendors": ["acme"]})
    assert AuditEntry.objects.filter(action="edit").count() == 1
    api.patch(f"{URL}desk/", {"vendors": None})
    assert api.get(f"{URL}desk/").json()["vendors"] is None


def test_a_vendor_that_is_not_there_is_refused(api, desk):
    reply = api.patch(f"{URL}desk/", {"vendors": ["nowhere"]})
    assert (reply.status_code, reply.json()["fields"]) == (400, {"vendors": "There is no vendor “nowhere”."})


def test_an_agent_is_made_with_its_vendors(api, acme):
    response = api.post(URL, {"name": "Desk", "vendors": ["acme"]})
    assert (response.status_code, response.json()["vendors"]) == (201, ["acme"])


def test_a_search_from_within_an_agent_finds_what_it_may_use(alice, api, client, desk, sky, mail):
    allow(desk, sky.endpoint.vendor, actor=alice)
    rows = api.get("/api/v1/tools/", {"agent": "desk"}).json()["results"]
    assert [row["name"] for row in rows] == ["sky"]
    assert api.get("/api/v1/tools/", {"agent": "desk", "vendor": "birch"}).json()["results"] == []
    assert api.get("/api/v1/tools/", {"agent": "elsewhere"}).status_code == 400
    assert len(api.get("/api/v1/tools/").json()["results"]) == 2

    client.force_login(alice)
    page = client.get(reverse("add-tools", args=["desk"])).content.decode()
    assert "sky" in page
    assert ">mail<" not in page
    assert 'value="birch"' not in page
    assert f"{reverse('agent-edit', args=['desk'])}#vendors" in page


def test_another_teams_agent_is_not_searched_from(alice, bobs_api, desk):
    Agent.objects.filter(pk=desk.pk).update(team=teams.create_team(actor=alice, name="Closed"))
    assert bobs_api.get("/api/v1/tools/", {"agent": "desk"}).status_code == 400


def test_a_pin_from_before_stays_is_shown_and_stops_publishing(alice, api, client, desk, mail):
    pin = make_pin(desk, mail)
    allow(desk, make_vendor(name="Cedar"), actor=alice)
    client.force_login(alice)
    page = client.get(reverse("agent", args=["desk"])).content.decode()
    assert "1 pinned tool is of a vendor that Desk may not use" in page
    assert "Vendor not allowed" in page

    checks = api.get(f"{URL}desk/draft/").json()["checks"]
    check = next(check for check in checks if check["severity"] == "error")
    assert check["code"] == "vendor_not_allowed"
    assert check["where"] == f"{reverse('agent-edit', args=['desk'])}#vendors"
    assert "Unpin it" in check["message"]
    refused = api.post(f"{URL}desk/releases/", {})
    assert refused.json()["code"] == "checks_failed"
    accepted = {"accept": ["vendor_not_allowed"], "reason": "Until Friday."}
    assert api.post(f"{URL}desk/releases/", accepted).status_code == 201

    newer = make_version(mail)
    moved = api.patch(f"{URL}desk/pins/{pin.pk}/", {"ordinal": newer.ordinal})
    assert (moved.status_code, moved.json()["code"]) == (409, "vendor_not_allowed")
    assert api.delete(f"{URL}desk/pins/{pin.pk}/").status_code == 204


def test_a_tool_does_not_move_to_an_agent_that_may_not_use_it(alice, api, desk, refills, sky, mail):
    pin = make_pin(desk, mail)
    allow(refills, sky.endpoint.vendor, actor=alice)
    reply = api.post(f"{URL}desk/pins/{pin.pk}/agent/", {"agent": "refills"})
    assert (reply.status_code, reply.json()["code"]) == (409, "vendor_not_allowed")
    assert desk.pins.live().count() == 1


def test_a_copy_of_a_sub_agent_keeps_the_limits_from_above(alice, api, desk, refills, sky, mail):
    allow(desk, sky.endpoint.vendor, actor=alice)
    copy = agent_copies.copy_agent(refills, actor=alice)
    assert api.get(f"{URL}{copy.slug}/").json()["vendors"] == ["acme"]

    make_pin(refills, mail)
    refused = api.post(f"{URL}refills/copy/", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "vendor_not_allowed")
    assert Agent.objects.filter(name__startswith="Copy").count() == 1


def test_a_file_names_the_vendors_by_their_addresses(alice, api, desk, refills, sky, mail):
    allow(desk, sky.endpoint.vendor, mail.endpoint.vendor, actor=alice)
    allow(refills, sky.endpoint.vendor, actor=alice)
    file = api.get(f"{URL}desk/file/").json()
    assert [agent["vendors"] for agent in file["agents"]] == [
        [
            {"vendor": "acme", "endpoints": ["http://acme.example/"]},
            {"vendor": "birch", "endpoints": ["http://birch.example/"]},
        ],
        [{"vendor": "acme", "endpoints": ["http://acme.example/"]}],
    ]
    # A sub-agent by itself takes along what holds above it.
    agents.update_agent(refills, actor=alice, vendors=None)
    alone = api.get(f"{URL}refills/file/").json()
    assert [vendor["vendor"] for vendor in alone["agents"][0]["vendors"]] == ["acme", "birch"]

    # Where it goes, one vendor has another name and the other is missing.
    Vendor.objects.filter(slug="acme").update(slug="acme-inc")
    Vendor.objects.filter(slug="birch").update(removed_at="2026-01-01T00:00Z")
    mail.endpoint.removed_at = "2026-01-01T00:00Z"
    mail.endpoint.save()
    result = api.post(f"{URL}import/", {"file": file, "dry_run": True}).json()
    assert [missing["code"] for missing in result["missing"]] == ["vendor_missing"]
    slugs = api.post(f"{URL}import/", {"file": file, "accept_missing": True}).json()["agents"]
    assert [api.get(f"{URL}{slug}/").json()["vendors"] for slug in slugs] == [["acme-inc"], ["acme-inc"]]


def test_a_file_without_any_of_its_vendors_allows_none(alice, desk, acme):
    filed = agent_files.parse_file(
        {
            "schema": agent_files.SCHEMA,
            "agents": [
                {"slug": "a", "name": "A", "description": "", "parent": None, "pins": [], "procedures": []}
                | {"vendors": [{"vendor": "far", "endpoints": ["http://far.example/"]}]}
            ],
        }
    )
    done = agent_files.import_file(filed, actor=alice, is_dry_run=False, accept_missing=True)
    assert agent_vendors.allowed_vendors_of(done.agents["a"]).vendors == {}


def test_the_form_names_vendors_and_says_what_changed_meanwhile(alice, client, desk, acme, birch):
    client.force_login(alice)
    url = reverse("agent-edit", args=["desk"])
    page = client.get(url)
    state = page.context["form"].expected
    payload = {"name": "Desk", "slug": "desk", "description": ""}
    refused = client.post(url, {**payload, "vendors": ["acme"], "expected": state})
    assert "Select “Only selected vendors” too" in text_of(refused)
    assert agent_vendors.allowed_vendors_of(desk).vendors is None
    saved = client.post(url, {**payload, "limits_vendors": "on", "vendors": ["acme"], "expected": state})
    assert saved.status_code == 302
    assert agent_vendors.allowed_vendors_of(desk).names == "“Acme”"

    late = client.post(url, {**payload, "description": "Answers", "expected": state})
    assert late.status_code == 409
    form = late.context["form"]
    assert form["limits_vendors"].value()
    assert [vendor.slug for vendor, ticked in form.ticks() if ticked] == ["acme"]

    again = {**payload, "limits_vendors": "on", "vendors": ["acme", "birch"], "expected": form.expected}
    assert client.post(url, again).status_code == 302
    assert agent_vendors.allowed_vendors_of(desk).names == "“Acme”, “Birch”"
    client.post(url, payload)
    assert agent_vendors.allowed_vendors_of(desk).vendors is None


@given(st.lists(st.none() | st.sets(st.integers(1, 5)), min_size=1, max_size=5))
def test_what_may_be_used_is_what_all_on_the_way_name(path):
    rows = {key: Vendor(pk=key, name=f"V{key}", slug=f"v{key}") for key in range(1, 6)}
    limits = [VendorLimit("a", "A", {key: rows[key] for key in key}) for key in path if key is not None]
    allowed = AllowedVendors(tuple(limits))
    usable = {key for key in rows if all(keys is None or key in keys for keys in path)}

    assert (allowed.vendors is None) == (not limits)
    assert set(rows if allowed.vendors is None else allowed.vendors) == usable
    assert {key for key, row in rows.items() if allowed.excluding_limit(row) is None} == usable


def test_the_tree_is_read_in_two_queries(alice, desk, refills, acme, django_assert_num_queries):
    allow(desk, acme, actor=alice)
    deeper = [refills]
    for number in range(5):
        deeper.append(make_agent(name=f"Deep {number}", parent=deeper[-1]))
    with django_assert_num_queries(2):
        allowed_by_agent = agent_vendors.allowed_by_agent(deeper)
    assert {allowed.keys for allowed in allowed_by_agent.values()} == {frozenset([acme.pk])}
