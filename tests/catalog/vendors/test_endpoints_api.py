from datetime import timedelta

import pytest
from django.utils import timezone

from catalog.credentials import operations as credential_operations
from catalog.models import Credential, Endpoint, Run
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_tool, make_user, make_vendor

pytestmark = pytest.mark.django_db
URL = "/api/v1/endpoints/"
ADDRESS = "http://127.0.0.1:9100/tools"
NOBODY = "00000000-0000-4000-8000-000000000001"


def refusal(answer) -> tuple[int, str, set[str]]:
    body = answer.json()
    return answer.status_code, body["code"], set(body.get("fields", {}))


def make_credential(url: str = ADDRESS) -> Credential:
    return credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="Key", kind="bearer", url=url, secret="s3cret"
    )


@pytest.fixture
def payload():
    make_vendor(slug="acme")
    return {"vendor": "acme", "protocol": "a2t", "url": ADDRESS}


def test_endpoint_is_connected_with_everything_it_takes(admin_api, payload):
    credential = make_credential()

    created = admin_api.post(
        URL,
        payload
        | {
            "name": "Main",
            "credential": str(credential.pk),
            "interval_minutes": 15,
            "settings": {"page_size": 10},
        },
    )

    row = created.json()
    assert created.status_code == 201
    assert (row["vendor"], row["protocol"], row["url"], row["name"]) == ("acme", "a2t", ADDRESS, "Main")
    assert (row["credential"], row["interval_minutes"]) == (str(credential.pk), 15)
    assert (row["settings"], row["status"], row["error"], row["tools"]) == ({"page_size": 10}, "new", None, 0)
    assert admin_api.get(f"{URL}{row['id']}/").json() == row
    assert AuditEntry.objects.latest("pk").after["credential"] == "Key"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"vendor": "nobody"}, "vendor"),
        ({"vendor": "No Slug"}, "vendor"),
        ({"vendor": None}, "vendor"),
        ({"protocol": "carrier-pigeon"}, "protocol"),
        ({"protocol": 5}, "protocol"),
        ({"url": "not a url"}, "url"),
        ({"url": ""}, "url"),
        ({"url": "https://"}, "url"),
        ({"url": "http://127.0.0.1/#x"}, "url"),
        ({"url": "http://127.0.0.1/" + "a" * 3000}, "url"),
        ({"url": {"host": "x"}}, "url"),
        ({"name": "x" * 300}, "name"),
        ({"credential": NOBODY}, "credential"),
        ({"credential": "not an id"}, "credential"),
        ({"credential": 10**40}, "credential"),
        ({"interval_minutes": 0}, "interval_minutes"),
        ({"interval_minutes": -1}, "interval_minutes"),
        ({"interval_minutes": 10**30}, "interval_minutes"),
        ({"interval_minutes": "60"}, "interval_minutes"),
        ({"interval_minutes": 1.5}, "interval_minutes"),
        ({"settings": ["page_size"]}, "settings"),
        ({"settings": {"page_size": -1}}, "settings"),
        ({"settings": {"page_size": {"deep": 1}}}, "settings"),
        ({"settings": {"unknown": 1}}, "settings"),
    ],
)
def test_bad_member_is_refused_at_its_field(admin_api, payload, body, field):
    assert refusal(admin_api.post(URL, payload | body)) == (400, "invalid", {field})
    assert not Endpoint.objects.exists()


@pytest.mark.parametrize("missing", ["vendor", "protocol", "url"])
def test_missing_member_is_asked_for(admin_api, payload, missing):
    del payload[missing]

    assert refusal(admin_api.post(URL, payload)) == (400, "invalid", {missing})


@pytest.mark.parametrize("body", [b'{"\\u0000": "http://127.0.0.1/"}', b"{", b"null"])
def test_body_that_is_no_plain_json_object_is_refused(admin_api, body):
    answer = admin_api.generic("POST", URL, body, content_type="application/json")

    assert refusal(answer) == (400, "invalid_json", set())


def test_unknown_setting_with_an_endless_name_is_told_shortly(admin_api, payload):
    answer = admin_api.post(URL, payload | {"settings": {"x" * 5000: 1}})

    assert len(answer.json()["fields"]["settings"]) < 200


def test_removed_vendor_takes_no_endpoint(admin_api, payload):
    admin_api.delete("/api/v1/vendors/acme/")

    assert refusal(admin_api.post(URL, payload)) == (400, "invalid", {"vendor"})


def test_credential_for_another_origin_is_refused(admin_api, payload):
    elsewhere = make_credential("http://127.0.0.1:9200/")
    endpoint = make_endpoint(url=ADDRESS)

    response = admin_api.post(URL, payload | {"credential": str(elsewhere.pk)})
    edited = admin_api.patch(f"{URL}{endpoint.pk}/", {"credential": str(elsewhere.pk)})

    assert refusal(response) == refusal(edited) == (400, "invalid", {"credential"})
    endpoint.refresh_from_db()
    assert endpoint.credential is None


def test_endpoint_moved_to_another_origin_drops_its_credential(admin_api):
    endpoint = make_endpoint(url=ADDRESS, credential=make_credential())

    answer = admin_api.patch(f"{URL}{endpoint.pk}/", {"url": "http://127.0.0.1:9300/"})

    assert (answer.status_code, answer.json()["credential"]) == (200, None)


def test_edit_changes_what_it_names_and_nothing_else(admin_api):
    endpoint = make_endpoint(url=ADDRESS, name="Main", settings={"page_size": 5})

    for body in ({"name": "Other"}, {"interval_minutes": 5}, {"is_paused": True}, {"settings": {}}, {}):
        assert admin_api.patch(f"{URL}{endpoint.pk}/", body).status_code == 200

    row = admin_api.get(f"{URL}{endpoint.pk}/").json()
    assert (row["name"], row["interval_minutes"], row["is_paused"]) == ("Other", 5, True)
    assert (row["settings"], row["status"], row["url"]) == ({}, "paused", ADDRESS)
    edits = AuditEntry.objects.filter(action="edit").order_by("pk")
    assert [edit.before for edit in edits] == [
        {"name": "Main"},
        {"interval_minutes": 60},
        {"is_paused": False},
        {"settings": {"page_size": 5}},
    ]


def test_vendor_and_protocol_of_an_endpoint_never_change(admin_api):
    endpoint = make_endpoint(url=ADDRESS)
    other = make_vendor(slug="other")

    answer = admin_api.patch(f"{URL}{endpoint.pk}/", {"vendor": other.slug, "protocol": "carrier-pigeon"})

    assert (answer.status_code, answer.json()["fields"].keys()) == (400, {"vendor", "protocol"})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "nope"}, "url"),
        ({"interval_minutes": None}, "interval_minutes"),
        ({"is_paused": "yes"}, "is_paused"),
        ({"name": None}, "name"),
        ({"settings": {"page_size": 5000}}, "settings"),
    ],
)
def test_bad_edit_changes_nothing(admin_api, body, field):
    endpoint = make_endpoint(url=ADDRESS)
    before = Endpoint.objects.values().get()

    assert refusal(admin_api.patch(f"{URL}{endpoint.pk}/", body)) == (400, "invalid", {field})
    assert Endpoint.objects.values().get() == before


def test_removed_endpoint_is_gone_and_its_tools_stay(admin_api):
    tool = make_tool()
    path = f"{URL}{tool.endpoint_id}/"

    assert admin_api.delete(path).status_code == 204

    for answer in (
        admin_api.get(path),
        admin_api.patch(path, {"name": "x"}),
        admin_api.delete(path),
        admin_api.post(f"{path}enumerate/"),
    ):
        assert refusal(answer) == (404, "not_found", set())
    assert admin_api.get(URL).json()["results"] == []
    assert admin_api.get(f"/api/v1/tools/{tool.pk}/versions/1/").status_code == 200


@pytest.mark.parametrize("pk", ["999999", "0", str(2**63), "9" * 40])
def test_unknown_endpoint_is_not_found(admin_api, pk):
    assert refusal(admin_api.get(f"{URL}{pk}/")) == (404, "not_found", set())


def test_reading_is_asked_for_once_however_often_the_button_is_pressed(admin_api):
    endpoint = make_endpoint()

    answers = [admin_api.post(f"{URL}{endpoint.pk}/enumerate/") for _ in range(3)]

    run = Run.objects.get()
    assert [(answer.status_code, answer.json()) for answer in answers] == [(202, {"run": run.pk})] * 3
    assert (run.status, run.trigger) == ("queued", "person")
    assert [entry.after for entry in AuditEntry.objects.all()] == [{"run": run.pk}]


def test_status_and_failure_are_told(admin_api):
    failing = make_endpoint(failures=2, error_code="AUTH", error_message="The key was refused.")
    endpoint = make_endpoint()
    Endpoint.objects.filter(pk=endpoint.pk).update(
        held_run=Run.objects.create(endpoint=endpoint, status="failed")
    )
    make_endpoint(last_success_at=timezone.now() - timedelta(hours=1))

    rows = admin_api.get(URL).json()["results"]

    assert [row["status"] for row in rows] == ["failing", "held", "ok"]
    assert rows[0]["id"] == failing.pk
    assert rows[0]["error"] == {"code": "AUTH", "message": "The key was refused."}
    assert (rows[0]["failures"], rows[2]["error"]) == (2, None)


def test_designer_reads_and_changes_nothing(designer_api):
    endpoint = make_endpoint()
    path = f"{URL}{endpoint.pk}/"

    assert designer_api.get(path).status_code == 200
    for method, where in (("post", URL), ("patch", path), ("delete", path)):
        assert refusal(getattr(designer_api, method)(where, {})) == (403, "role_required", set())
    assert Endpoint.objects.get() == endpoint


def test_list_pages_and_costs_the_same_however_long(admin_api, django_assert_max_num_queries):
    endpoints = [make_endpoint(url=ADDRESS, credential=make_credential()) for _ in range(7)]
    make_tool(endpoint=endpoints[1])

    with django_assert_max_num_queries(4):
        first = admin_api.get(f"{URL}?limit=4").json()
    second = admin_api.get(first["next"]).json()

    assert [row["id"] for row in first["results"] + second["results"]] == [row.pk for row in endpoints]
    assert [row["tools"] for row in first["results"]] == [0, 1, 0, 0]
    assert second["next"] is None
