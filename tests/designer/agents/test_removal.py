"""A vendor goes: who uses it is shown first, and nothing that was published changes."""

import pytest
from rest_framework.test import APIClient

from catalog.credentials import operations as credential_operations
from catalog.enumeration import runs as enumeration_runs
from catalog.enumeration import schedule
from catalog.models import Credential, Endpoint, Tool, ToolVersion
from catalog.models.runs import Trigger
from catalog.vendors import operations as vendor_operations
from designer import exports
from designer.agents import agents
from designer.pins import pins
from designer.procedures import editing
from designer.releases import publishing
from people.models import AuditEntry, Role
from tests.clients import client_of
from tests.factories import make_endpoint, make_tool, make_user, make_vendor
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@module_data
def admin():
    return make_user(Role.ADMIN)


@module_data
def shop(admin):
    """A vendor with an endpoint, a secret, a tool, and an agent that has published it."""
    secret = credential_operations.create_credential(
        actor=admin, name="Shop key", kind="bearer", url="http://127.0.0.1:9999/", secret="a-secret"
    )
    vendor = make_vendor(name="Shop", slug="shop")
    endpoint = make_endpoint(
        vendor=vendor, url="http://127.0.0.1:9999/", credential=secret, name="Shop tools"
    )
    agent = agents.create_agent(actor=admin, name="Desk")
    pins.pin_tool(agent, actor=admin, tool=make_tool(name="buy", endpoint=endpoint))
    editing.create_procedure(agent, actor=admin, title="Sell", body="Ask, then use buy().")
    publishing.publish(agent, actor=admin, channel="live")
    return endpoint


def published(api) -> dict[str, object]:
    address = "/api/v1/agents/desk/releases/live"
    answers = {
        format_.name: api.get(f"{address}/tools/?format={format_.name}") for format_ in exports.FORMATS
    } | {"bundle": api.get(f"{address}/bundle/")}
    return {name: (answer.status_code, answer.content, answer["ETag"]) for name, answer in answers.items()}


def test_the_page_says_who_uses_it_and_asks_for_the_name(shop):
    browser = signed_in(Role.ADMIN)
    page = text_of(browser.get("/vendors/shop/remove/"))
    assert "1 agent pins its tools, in 1 place. 1 release contains them, 1 of which runtimes get now." in page
    assert "Desk" in page
    for typed in ("", "shop"):
        assert "Type “Shop”" in text_of(browser.post("/vendors/shop/remove/", {"name": typed}))
    assert Endpoint.objects.live().exists()
    browser.post("/vendors/shop/remove/", {"name": "Shop", "why": "They closed."})
    assert not Endpoint.objects.live().exists()
    audit_entries = AuditEntry.objects.filter(action="remove").values_list("kind", "why")
    assert set(audit_entries) == {("vendor", "They closed."), ("endpoint", "They closed.")}


def test_what_is_not_used_goes_by_one_press(admin):
    make_endpoint(vendor=make_vendor(name="Idle", slug="idle"))
    browser = signed_in(Role.ADMIN)
    assert "No agent and no release uses its tools" in text_of(browser.get("/vendors/idle/remove/"))
    assert browser.post("/vendors/idle/remove/").status_code == 302
    assert browser.get("/vendors/idle/").status_code == 404


def test_a_program_can_ask_first_too(shop):
    use = client_of(make_user(Role.ADMIN)).get("/api/v1/vendors/shop/use/").json()
    assert use == {
        "agents": [{"agent": "desk", "name": "Desk", "pins": 1}],
        "pins": 1,
        "releases": 1,
        "live_releases": 1,
        "credentials": [str(shop.credential_id)],
    }
    same = client_of(make_user(Role.ADMIN)).get(f"/api/v1/endpoints/{shop.pk}/use/").json()
    assert same == use


@pytest.mark.parametrize("is_whole_vendor", [True, False], ids=["vendor", "endpoint"])
@pytest.mark.parametrize("secret_too", [True, False])
def test_a_published_release_answers_the_same_bytes_afterwards(shop, admin, is_whole_vendor, secret_too):
    api = client_of(admin)
    before = published(api)
    assert any(status == 200 for status, _, _ in before.values())
    versions = list(ToolVersion.objects.values())
    address = "/vendors/shop/remove/" if is_whole_vendor else f"/endpoints/{shop.pk}/remove/"
    body = {"name": "Shop" if is_whole_vendor else "Shop tools"} | (
        {"with_credentials": "on"} if secret_too else {}
    )
    assert signed_in(Role.ADMIN).post(address, body).status_code == 302

    assert published(api) == before
    assert list(ToolVersion.objects.values()) == versions
    assert Tool.objects.get().status == "withdrawn"
    assert publishing.verify(agents.Agent.objects.get().releases.get()) == []
    assert Credential.objects.filter(removed_at=None).exists() is not secret_too
    for page in (
        "/agents/desk/",
        "/agents/desk/releases/",
        "/agents/desk/releases/1/",
        "/agents/desk/upgrades/",
    ):
        assert api.get(page).status_code == 200
    assert api.get(f"/tools/{Tool.objects.get().pk}/").status_code == 200


def test_nothing_reads_a_removed_endpoint(shop, admin):
    vendor_operations.remove_endpoint(shop, actor=admin)
    schedule.tick()
    assert not shop.runs.exists()
    shop.refresh_from_db()
    with pytest.raises(enumeration_runs.DomainError, match="was removed"):
        enumeration_runs.request_run(shop, trigger=Trigger.PERSON, actor=admin)


def test_a_secret_that_something_else_uses_stays(shop, admin):
    make_endpoint(vendor=make_vendor(name="Twin", slug="twin"), credential=shop.credential)
    assert client_of(admin).get("/api/v1/vendors/shop/use/").json()["credentials"] == []
    body = {"name": "Shop", "with_credentials": "on"}
    assert signed_in(Role.ADMIN).post("/vendors/shop/remove/", body).status_code == 302
    assert Credential.objects.get().removed_at is None


def test_a_person_who_leaves_loses_their_keys_and_leaves_their_agents(shop, admin):
    api = client_of(admin)
    before = published(api)
    bob = make_user(Role.DESIGNER, username="bob")
    agents.create_agent(actor=bob, name="Bobs")
    key_body = client_of(bob).post("/api/v1/keys/", {"name": "ci", "scopes": ["read"]}, format="json").json()
    assert api.patch(f"/api/v1/users/{bob.pk}/", {"is_active": False}, format="json").status_code == 200
    api.patch(f"/api/v1/users/{bob.pk}/", {"is_active": True}, format="json")
    answer = APIClient().get("/api/v1/tools/", headers={"authorization": f"Bearer {key_body['key']}"})
    assert (answer.status_code, answer.json()["code"]) == (401, "revoked_key")
    assert AuditEntry.objects.get(action="revoke key").why == "bob was deactivated."
    assert api.get("/api/v1/agents/bobs/").status_code == 200
    assert published(api) == before
