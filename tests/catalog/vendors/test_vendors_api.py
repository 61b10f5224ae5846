import pytest
from rest_framework.test import APIClient

from catalog.models import Vendor
from people import api_keys
from people.models import AuditEntry, Role
from tests.factories import make_agent, make_endpoint, make_pin, make_tool, make_user, make_vendor

pytestmark = pytest.mark.django_db
URL = "/api/v1/vendors/"


def refusal(answer) -> tuple[int, str, set[str]]:
    body = answer.json()
    return answer.status_code, body["code"], set(body.get("fields", {}))


def test_vendor_is_created_shown_edited_and_removed(admin_api):
    response = admin_api.post(URL, {"name": "Acme Weather", "homepage": "https://acme.example/"})
    assert response.status_code == 201
    assert response.json() == {
        "slug": "acme-weather",
        "name": "Acme Weather",
        "homepage": "https://acme.example/",
        "endpoints": 0,
        "tools": 0,
        "created_at": response.json()["created_at"],
    }

    edited = admin_api.patch(f"{URL}acme-weather/", {"name": "Acme"})
    assert (edited.status_code, edited.json()["name"]) == (200, "Acme")
    assert edited.json()["homepage"] == "https://acme.example/"
    assert admin_api.get(f"{URL}acme-weather/").json() == edited.json()

    assert admin_api.delete(f"{URL}acme-weather/").status_code == 204
    assert admin_api.get(f"{URL}acme-weather/").status_code == 404
    assert admin_api.delete(f"{URL}acme-weather/").status_code == 404
    assert admin_api.get(URL).json()["results"] == []
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == [
        "connect",
        "edit",
        "remove",
    ]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 300}, "name"),
        ({"name": 5}, "name"),
        ({"name": None}, "name"),
        ({"name": ["Acme"]}, "name"),
        ({"name": "Acme", "slug": "Not Good"}, "slug"),
        ({"name": "Acme", "slug": "é"}, "slug"),
        ({"name": "Acme", "slug": ""}, "slug"),
        ({"name": "Acme", "slug": "x" * 61}, "slug"),
        ({"name": "Acme", "homepage": "nope"}, "homepage"),
        ({"name": "Acme", "homepage": "ftp://acme.example/"}, "homepage"),
        ({"name": "Acme", "homepage": "x" * 501}, "homepage"),
        ({"name": "Acme", "homepage": True}, "homepage"),
    ],
)
def test_bad_member_is_refused_at_its_field(admin_api, body, field):
    assert refusal(admin_api.post(URL, body)) == (400, "invalid", {field})
    assert not Vendor.objects.exists()


@pytest.mark.parametrize(
    "body", [b"{", b'["Acme"]', b'{"\\u0000": "A"}', b'{"name": "A", "name": "B"}', b'{"name": "\xff"}']
)
def test_body_that_is_no_plain_json_object_is_refused(admin_api, body):
    answer = admin_api.generic("POST", URL, body, content_type="application/json")

    assert refusal(answer) == (400, "invalid_json", set())
    assert not Vendor.objects.exists()


def test_short_name_in_use_is_a_conflict(admin_api):
    make_vendor(slug="acme")

    assert refusal(admin_api.post(URL, {"name": "Other", "slug": "acme"})) == (409, "slug_taken", {"slug"})
    assert refusal(admin_api.post(URL, {"name": "Acme"})) == (409, "slug_taken", {"slug"})


def test_edit_of_a_vendor_takes_no_other_short_name(admin_api):
    make_vendor(slug="acme", name="Acme")

    answer = admin_api.patch(f"{URL}acme/", {"slug": "other"})

    assert (answer.status_code, answer.json()["fields"].keys()) == (400, {"slug"})
    assert not AuditEntry.objects.exists()


def test_bad_edit_changes_nothing(admin_api):
    make_vendor(slug="acme", name="Acme")

    assert refusal(admin_api.patch(f"{URL}acme/", {"name": " "})) == (400, "invalid", {"name"})
    assert refusal(admin_api.patch(f"{URL}acme/", {"homepage": "nope"})) == (400, "invalid", {"homepage"})
    assert Vendor.objects.get().name == "Acme"


def test_designer_reads_and_changes_nothing(designer_api):
    make_vendor(slug="acme")

    assert designer_api.get(f"{URL}acme/").status_code == 200
    for method, path in (("post", URL), ("patch", f"{URL}acme/"), ("delete", f"{URL}acme/")):
        answer = getattr(designer_api, method)(path, {"name": "Mine"})
        assert refusal(answer) == (403, "role_required", set())
        assert "administrator role" in answer.json()["message"]
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(("scope", "reads"), [("read", 200), ("design", 200), ("runtime", 403)])
def test_administrators_token_does_no_more_than_its_scope(scope, reads):
    admin = make_user(Role.ADMIN)
    _, plain = api_keys.issue(admin, actor=admin, name="script", scopes=[scope])
    script = APIClient(headers={"Authorization": f"Bearer {plain}"})

    assert script.get(URL).status_code == reads
    assert refusal(script.post(URL, {"name": "Acme"}))[:2] == (403, "scope_required")
    assert not Vendor.objects.exists()


def test_counts_are_of_what_lives(admin_api):
    vendor = make_vendor(slug="acme")
    endpoint = make_endpoint(vendor=vendor)
    make_tool(endpoint=endpoint)
    make_tool(endpoint=endpoint)
    make_tool(endpoint=endpoint, status="withdrawn")
    make_tool(endpoint=make_endpoint(vendor=vendor))
    make_endpoint(vendor=vendor, removed_at="2026-01-01T00:00Z")
    make_tool()

    row = admin_api.get(f"{URL}acme/").json()

    assert (row["endpoints"], row["tools"]) == (2, 3)


def test_list_pages_by_name_there_and_back(admin_api):
    for name in ("Same", "Same", "Later", "Early", "Same"):
        make_vendor(name=name)
    make_vendor(name="Gone", removed_at="2026-01-01T00:00Z")

    pages, url = [], f"{URL}?limit=2"
    while url:
        pages.append(admin_api.get(url).json())
        url = pages[-1]["next"]

    names = [[row["name"] for row in page["results"]] for page in pages]
    assert names == [["Early", "Later"], ["Same", "Same"], ["Same"]]
    assert len({row["slug"] for page in pages for row in page["results"]}) == 5
    assert admin_api.get(pages[2]["previous"]).json()["results"] == pages[1]["results"]


def test_list_costs_the_same_however_long(admin_api, django_assert_max_num_queries):
    for _ in range(12):
        make_tool()

    with django_assert_max_num_queries(4):
        assert len(admin_api.get(URL).json()["results"]) == 12


def test_removed_vendors_tools_stay_pinned(admin_api):
    tool = make_tool()
    pin = make_pin(agent=make_agent(slug="desk"), tool=tool)

    assert admin_api.delete(f"{URL}{tool.endpoint.vendor.slug}/").status_code == 204

    rows = admin_api.get("/api/v1/agents/desk/pins/").json()["results"]
    assert [row["id"] for row in rows] == [pin.pk]
    versions = admin_api.get(f"/api/v1/tools/{tool.pk}/versions/").json()["results"]
    assert [row["ordinal"] for row in versions] == [1]


def test_length_of_a_text_is_that_of_what_was_sent(admin_api):
    accepted = admin_api.post(URL, {"name": " " + "x" * 119})
    refused = admin_api.post(URL, {"name": " " + "x" * 120})
    assert (accepted.status_code, refused.status_code) == (201, 400)
    assert "120" in refused.json()["fields"]["name"]
