"""Two people edit one thing at the same time, over REST and on pages."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from rest_framework.test import APIClient

from catalog.models import Endpoint, Vendor
from catalog.vendors import operations as vendor_operations
from people import api_keys, teams, users
from people.models import Role, User
from tests.factories import make_endpoint, make_user, make_vendor
from tests.pages import signed_in, text_of

ROUNDS = 50


@pytest.fixture
def ada(db) -> User:
    return make_user(Role.ADMIN, name="Ada Berger")


def vendor_form(page) -> dict[str, str]:
    form = page.context["form"]
    return {"name": form["name"].value(), "homepage": form["homepage"].value(), "expected": form.expected}


def test_second_to_save_over_rest_is_told_what_the_first_one_wrote(program, ada):
    vendor = make_vendor(slug="acme", name="Acme", homepage="https://acme.example/")
    client = program(make_user(Role.ADMIN))
    etag = client.get("/api/v1/vendors/acme/").headers["ETag"]
    vendor_operations.update_vendor(vendor, actor=ada, name="Acme Ltd")
    answer = client.patch("/api/v1/vendors/acme/", {"name": "ACME"}, headers={"If-Match": etag})
    assert answer.status_code == 409
    assert answer.json() == {
        "code": "changed_meanwhile",
        "message": "Ada Berger has changed this since you opened it. Look at both, then save again.",
        "changes": [{"path": "name", "before": "Acme", "theirs": "Acme Ltd", "yours": "ACME"}],
    }
    now = client.get("/api/v1/vendors/acme/")
    assert now.json()["name"] == "Acme Ltd"
    again = client.patch("/api/v1/vendors/acme/", {"name": "ACME"}, headers={"If-Match": now.headers["ETag"]})
    assert (again.status_code, again.json()["name"]) == (200, "ACME")
    assert again.headers["ETag"] not in (etag, now.headers["ETag"])


def test_several_changes_back_is_still_known(program, ada):
    endpoint = make_endpoint(name="One", interval_minutes=60)
    client = program(make_user(Role.ADMIN))
    path = f"/api/v1/endpoints/{endpoint.pk}/"
    etag = client.get(path).headers["ETag"]
    for change in (
        {"name": "Two"},
        {"interval_minutes": 5},
        {"policy": {"text": "hold"}},
        {"name": "3"},
    ):
        vendor_operations.update_endpoint(endpoint, actor=ada, **change)
    answer = client.patch(path, {"interval_minutes": 15}, headers={"If-Match": etag}).json()
    changes_by_path = {
        change["path"]: (change["before"], change["theirs"], change["yours"]) for change in answer["changes"]
    }
    assert changes_by_path["interval_minutes"] == (60, 5, 15)
    assert changes_by_path["name"] == ("One", "3", "3")


def test_an_unknown_state_is_late_too(program):
    make_vendor(slug="acme", name="Acme")
    answer = program(make_user(Role.ADMIN)).patch(
        "/api/v1/vendors/acme/", {"name": "ACME"}, headers={"If-Match": '"made-up"'}
    )
    assert answer.status_code == 409
    assert answer.json()["changes"] == [{"path": "name", "before": None, "theirs": "Acme", "yours": "ACME"}]


@pytest.mark.parametrize("header", ["made-up", '"a", "b"', 'W/"a"', '""', '"\u00e4"'])
def test_header_that_is_no_etag_is_explained(program, header):
    make_vendor(slug="acme")
    answer = program(make_user(Role.ADMIN)).patch(
        "/api/v1/vendors/acme/", {"name": "ACME"}, headers={"If-Match": header}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_if_match")


def test_without_the_header_only_what_is_sent_is_replaced(program, ada):
    vendor = make_vendor(slug="acme", name="Acme")
    vendor_operations.update_vendor(vendor, actor=ada, homepage="https://acme.example/")
    answer = program(make_user(Role.ADMIN)).patch("/api/v1/vendors/acme/", {"name": "ACME"}).json()
    assert (answer["name"], answer["homepage"]) == ("ACME", "https://acme.example/")


def test_role_that_another_user_has_changed_is_not_changed_back(program, ada):
    user, client = make_user(Role.VIEWER), program(make_user(Role.ADMIN))
    path = f"/api/v1/users/{user.pk}/"
    etag = client.get(path).headers["ETag"]
    users.update_user(user, actor=ada, role=Role.DESIGNER)
    answer = client.patch(path, {"role": "viewer", "name": "Eve"}, headers={"If-Match": etag})
    assert answer.status_code == 409
    assert {change["path"] for change in answer.json()["changes"]} == {"name", "role"}


def test_page_shows_both_and_saves_what_is_pressed_again(ada):
    vendor = make_vendor(slug="acme", name="Acme", homepage="https://acme.example/")
    client = signed_in(Role.ADMIN)
    form = vendor_form(client.get("/vendors/acme/"))
    vendor_operations.update_vendor(vendor, actor=ada, name="Acme Ltd", homepage="https://acme.example/new")
    late = client.post("/vendors/acme/", form | {"name": "ACME"})
    assert late.status_code == 409
    page_text = text_of(late)
    assert "Ada Berger has changed this since you opened it" in page_text
    assert "When you opened it Acme Ada Berger wrote Acme Ltd You wrote ACME" in page_text
    assert Vendor.objects.get().name == "Acme Ltd"
    offered = vendor_form(late)
    assert offered["name"] == "ACME"  # mine, as I typed it
    assert offered["homepage"] == "https://acme.example/new"  # theirs, as I had left mine alone
    assert client.post("/vendors/acme/", offered).status_code == 302
    assert list(Vendor.objects.values_list("name", "homepage")) == [("ACME", "https://acme.example/new")]


def test_page_of_an_endpoint_tells_apart_settings_and_policy(ada):
    endpoint = make_endpoint(protocol="openapi", name="One", settings={})
    client = signed_in(Role.ADMIN)
    page = client.get(f"/endpoints/{endpoint.pk}/").context["form"]
    form = {name: page[name].value() or "" for name in page.fields} | {"expected": page.expected}
    vendor_operations.update_endpoint(endpoint, actor=ada, policy={"text": "block"}, name="Two")
    late = client.post(f"/endpoints/{endpoint.pk}/", form | {"interval_minutes": "5"})
    assert late.status_code == 409
    offered = late.context["form"]
    assert offered["name"].value() == "Two"
    assert offered["policy-text"].value() == "block"
    assert str(offered["interval_minutes"].value()) == "5"
    again = {name: offered[name].value() or "" for name in offered.fields} | {"expected": offered.expected}
    assert client.post(f"/endpoints/{endpoint.pk}/", again).status_code == 302
    saved = Endpoint.objects.get()
    assert (saved.name, saved.interval_minutes, saved.policy["text"]) == ("Two", 5, "block")


def test_page_of_a_user_keeps_a_box_that_another_user_unticked(ada):
    user, client = make_user(Role.VIEWER, name="Eve"), signed_in(Role.ADMIN)
    form = client.get(f"/users/{user.pk}/").context["form"]
    payload = {"name": "Eva", "role": "viewer", "is_active": "on", "expected": form.expected}
    users.update_user(user, actor=ada, is_active=False)
    late = client.post(f"/users/{user.pk}/", payload)
    assert late.status_code == 409
    assert not late.context["form"]["is_active"].value()
    assert late.context["form"]["name"].value() == "Eva"


def test_team_renamed_meanwhile_is_told_over_rest_and_on_its_page(program, ada):
    team = teams.create_team(actor=ada, name="Weather")
    client, page = program(make_user(Role.ADMIN)), signed_in(Role.ADMIN)
    etag = client.get("/api/v1/teams/weather/").headers["ETag"]
    form = page.get("/teams/weather/").context["form"]
    teams.rename_team(team, actor=ada, name="Climate")
    late = client.patch("/api/v1/teams/weather/", {"name": "Sky"}, headers={"If-Match": etag})
    assert late.status_code == 409
    assert late.json()["changes"] == [
        {"path": "name", "before": "Weather", "theirs": "Climate", "yours": "Sky"}
    ]
    answer = page.post("/teams/weather/", {"name": "Sky", "expected": form.expected})
    assert (answer.status_code, "Ada Berger wrote Climate You wrote Sky" in text_of(answer)) == (409, True)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_save_at_once_one_is_told_and_nothing_acknowledged_is_lost():
    make_vendor(slug="acme", name="Acme 0")
    _, plain = api_keys.issue(make_user(Role.ADMIN), actor=None, name="race", scopes=["admin"])

    reader, first, right = APIClient(), APIClient(), APIClient()
    for client in (reader, first, right):
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")

    def save(client: APIClient, name: str, etag: str) -> int:
        try:
            headers = {"If-Match": etag}
            return client.patch("/api/v1/vendors/acme/", {"name": name}, headers=headers).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        for number in range(ROUNDS):
            page = reader.get("/api/v1/vendors/acme/")
            names = [f"Acme {number} {who}" for who in ("left", "right")]
            statuses = list(pool.map(save, (first, right), names, [page.headers["ETag"]] * 2))
            assert sorted(statuses) == [200, 409]
            assert Vendor.objects.get().name == names[statuses.index(200)]
