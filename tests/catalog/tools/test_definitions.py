"""Tools that are defined here: defined, changed, withdrawn and pinned over REST."""

import threading

import pytest
from django.db import connection

from catalog import search
from catalog.enumeration import one_tool
from catalog.invariants import check
from catalog.models import Call, Endpoint, Tool, Vendor
from catalog.search import Query
from catalog.tools import definitions
from core.errors import DomainError
from execution.calls import requesting
from execution.calls.checks import ArgumentsError
from people.models import AuditEntry, Role
from protocols.definition import Parts
from tests.clients import signed_in
from tests.factories import make_agent, make_tool, make_user, make_vendor

pytestmark = pytest.mark.django_db
URL = "/api/v1/definitions/"
SEND = {
    "name": "sendEmail",
    "title": "Send a mail",
    "description": "Sends a mail to one person.",
    "inputs": {
        "type": "object",
        "properties": {"recipient": {"type": "string"}, "subject": {"type": "string", "maxLength": 200}},
        "required": ["recipient"],
    },
    "output": {"type": "object", "properties": {"sent": {"type": "boolean"}}, "required": ["sent"]},
}


@pytest.fixture
def api():
    return signed_in(Role.DESIGNER)


def make_definition(api, **changes):
    reply = api.post(URL, SEND | changes, format="json")
    assert reply.status_code == 201, reply.json()
    return reply.json()


def test_a_definition_is_made_changed_and_read_back(api):
    first = make_definition(api)
    assert {name: first[name] for name in SEND} == SEND
    assert (first["version"], first["status"], first["activity"]) == ("1", "active", None)

    url = f"{URL}{first['id']}/"
    before = api.get(url)
    changed = api.patch(
        url,
        {"description": "Sends it.", "activity": ""},
        format="json",
        headers={"If-Match": before["ETag"]},
    ).json()
    assert (changed["version"], changed["description"], changed["activity"]) == ("2", "Sends it.", "")
    assert changed["inputs"] == SEND["inputs"]
    assert [change["action"] for change in changed["changes"]] == ["change definition", "define"]
    again = api.patch(url, {"description": "Sends it."}, format="json").json()
    assert again["version"] == "2", "what is the same is no version"

    late = api.patch(url, {"title": "Mail"}, format="json", headers={"If-Match": before["ETag"]})
    assert (late.status_code, late.json()["code"]) == (409, "changed_meanwhile")
    assert "definition.description" in [change["path"] for change in late.json()["changes"]]

    tool = Tool.objects.get(pk=first["id"])
    assert definitions.explicit_activity(tool.current) == ""
    assert definitions.explicit_activity(tool.versions.get(ordinal=1)) is None
    definition_body = api.get(f"/api/v1/tools/{tool.pk}/").json()
    assert (
        definition_body["protocol"],
        definition_body["description"],
        len(definition_body["versions"]),
    ) == ("definition", "Sends it.", 2)
    diff = api.get(f"/api/v1/tools/{tool.pk}/diff/?from=1&to=2").json()
    assert {change["path"] for change in diff["changes"]} == {"description", "rest"}
    assert check() == []


def test_a_definition_that_is_withdrawn_can_be_offered_again(api):
    first = make_definition(api)
    url, desk = f"{URL}{first['id']}/", make_agent(slug="desk")
    assert api.delete(url).status_code == 204
    assert api.delete(url).status_code == 204
    assert [api.get(url).json()["status"], api.get(URL).json()["results"]] == ["withdrawn", []]
    assert [row["id"] for row in api.get(f"{URL}?status=withdrawn").json()["results"]] == [first["id"]]
    assert api.patch(url, {"title": "Mail"}, format="json").json()["code"] == "definition_withdrawn"
    refused = api.post(f"/api/v1/agents/{desk.slug}/pins/", {"definition": first["id"]}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "tool_withdrawn")
    assert refused.json()["message"] == "“sendEmail” was withdrawn. Choose another tool."
    assert check() == []

    second = make_definition(api)
    refused_restore = api.post(f"{url}restore/")
    assert (refused_restore.status_code, refused_restore.json()["code"]) == (409, "name_taken")
    api.delete(f"{URL}{second['id']}/")
    assert api.post(f"{url}restore/").json()["status"] == "active"
    assert check() == []
    rows = AuditEntry.objects.filter(kind="tool", object_id=str(first["id"])).order_by("pk")
    assert [row.action for row in rows] == ["define", "withdraw", "offer again"]


def test_names_are_unique_among_definitions_alone(api):
    make_tool(name="sendEmail")
    make_definition(api)
    other = make_definition(api, name="sendLetter")
    for reply in (
        api.post(URL, SEND, format="json"),
        api.patch(f"{URL}{other['id']}/", {"name": "sendEmail"}, format="json"),
    ):
        assert (reply.status_code, reply.json()["code"]) == (409, "name_taken")
        assert reply.json()["fields"]["name"].startswith("There is a definition “sendEmail” already.")


def test_every_fault_is_told_at_its_member(api):
    payload = {
        "name": "_send",
        "title": "A\u202etitle",
        "description": "",
        "inputs": {"type": "object", "properties": {"_to": {"type": "string"}}},
        "output": {"type": "objekt"},
    }
    reply = api.post(URL, payload | {"description": "Sends."}, format="json")
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid")
    assert sorted(reply.json()["fields"]) == ["inputs", "name", "output", "title"]
    assert api.post(URL, payload, format="json").json()["fields"].keys() == {"description"}
    lacking = {name: value for name, value in SEND.items() if name != "output"}
    assert api.post(URL, lacking, format="json").json()["fields"].keys() == {"output"}
    assert not Vendor.objects.exists()


def test_a_definition_is_pinned_like_a_vendors_tool(api):
    desk, trusted = make_agent(slug="desk"), make_vendor(slug="trusted")
    reply = api.patch("/api/v1/agents/desk/", {"vendors": [trusted.slug]}, format="json")
    assert reply.status_code == 200, reply.json()
    first = make_definition(api)
    pinned = api.post("/api/v1/agents/desk/pins/", {"definition": first["id"]}, format="json")
    assert pinned.status_code == 201, pinned.json()
    assert (pinned.json()["tool"], pinned.json()["name"]) == (first["id"], "sendEmail")
    results = api.get("/api/v1/tools/?agent=desk&q=mail").json()["results"]
    assert [row["name"] for row in results] == ["sendEmail"]

    api.patch(f"{URL}{first['id']}/", {"description": "Sends it."}, format="json")
    pin = desk.pins.get()
    assert (pin.version.label, pin.tool.current.label) == ("1", "2")

    vendors = make_tool()
    assert api.post("/api/v1/agents/desk/pins/", {"definition": vendors.pk}, format="json").status_code == 400
    both = {"definition": first["id"], "tool": first["id"]}
    assert api.post("/api/v1/agents/desk/pins/", both, format="json").json()["fields"].keys() == {"tool"}
    assert api.post("/api/v1/agents/desk/pins/", {}, format="json").json()["fields"].keys() == {"tool"}
    assert api.get(f"{URL}{vendors.pk}/").status_code == 404


def test_definitions_are_found_among_all_tools_and_by_themselves(api):
    make_definition(api)
    make_tool(name="send_letter", description="Sends a mail by post")
    search.index_pending()
    both = {row["name"] for row in search.search(Query(q="send a mail")).rows}
    assert both == {"sendEmail", "send_letter"}
    slug = Vendor.objects.get(is_own=True).slug
    for query in (Query(q="send a mail", vendor=(slug,)), Query(protocol=("definition",))):
        assert [row["name"] for row in search.search(query).rows] == ["sendEmail"]
    vendors = search.count_facets(Query())["vendor"]
    assert (slug, "Defined here") in {(each.value, each.label) for each in vendors}


def test_what_definitions_belong_to_is_no_vendor(api):
    make_definition(api)
    endpoint = definitions.own_endpoint()
    admin = signed_in(Role.ADMIN)
    assert admin.get("/api/v1/vendors/").json()["results"] == []
    assert admin.get("/api/v1/endpoints/").json()["results"] == []
    for address in (f"vendors/{endpoint.vendor.slug}/", f"endpoints/{endpoint.pk}/"):
        for method in (admin.get, admin.delete):
            assert method(f"/api/v1/{address}").status_code == 404
    Endpoint.objects.filter(pk=endpoint.pk).update(is_paused=False)
    assert not Endpoint.objects.due().exists()
    payload = {"vendor": "x", "protocol": "definition", "url": "https://x.example/"}
    assert "protocol" in admin.post("/api/v1/endpoints/", payload, format="json").json()["fields"]


def test_a_call_of_a_definition_goes_nowhere(api):
    tool = Tool.objects.select_related("current", "endpoint__vendor").get(pk=make_definition(api)["id"])
    with pytest.raises(ArgumentsError) as refused:
        requesting.request_call(
            tool.current, actor=make_user(Role.DESIGNER), arguments={"recipient": "a@b.example"}
        )
    assert refused.value.outcome.error["code"] == "NO_ACTIVITY"
    assert not Call.objects.exists()
    assert one_tool.fetch(tool).error_code == ""


def test_a_vendors_tool_is_not_changed_as_a_definition():
    actor = make_user(Role.DESIGNER)
    for act in (definitions.withdraw, definitions.offer_again):
        with pytest.raises(DomainError, match="is a vendor's tool"):
            act(make_tool(), actor=actor)


@pytest.mark.django_db(transaction=True)
def test_two_who_define_the_first_tool_at_once_share_one_home():
    actor = make_user(Role.DESIGNER)
    at_once, outcomes = threading.Barrier(2), []

    def define(name):
        parts = Parts(name, "", "Sends.", {"type": "object"}, {"type": "string"})
        at_once.wait()
        try:
            outcomes.append(definitions.define(actor=actor, parts=parts))
        except DomainError as error:
            outcomes.append(error.code)
        connection.close()

    for names in (("one", "two"), ("same", "same")):
        threads = [threading.Thread(target=define, args=[name]) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert Vendor.objects.filter(is_own=True).count() == 1
    assert sorted(tool.name for tool in definitions.all_of_them()) == ["one", "same", "two"]
    assert outcomes.count("name_taken") == 1
