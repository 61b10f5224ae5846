"""The status of a run and of an endpoint is one word on every surface."""

import pytest

from catalog.credentials import operations as credential_operations
from catalog.models import Endpoint, Grant, Run
from people.models import Role
from tests.factories import make_endpoint, make_user, make_vendor
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


@pytest.fixture
def held_run():
    endpoint = make_endpoint(vendor=make_vendor(name="Fair Weather", slug="weather"))
    run = Run.objects.create(endpoint=endpoint, status="failed", error_code="SHRINK_HELD", would_withdraw=3)
    endpoint.held_run = run
    endpoint.save()
    return run


def test_a_held_run_waits_for_a_decision_on_every_page(admin, held_run):
    for path in ("/", "/vendors/", "/vendors/weather/", f"/runs/{held_run.pk}/"):
        assert "Waiting for your decision" in text_of(admin.get(path)), path
    page_text = text_of(admin.get(f"/endpoints/{held_run.endpoint_id}/"))
    assert page_text.count("Waiting for your decision") == 2
    assert "Failed" not in page_text


def test_a_reading_that_fails_after_a_held_one_is_told_apart_from_it(admin, held_run):
    Run.objects.filter(pk=held_run.pk).update(
        error_message="3 of 4 tools are missing from the vendor's list."
    )
    Endpoint.objects.update(failures=1, error_code="CONNECT", error_message="It could not be reached.")

    page_text = text_of(admin.get(f"/endpoints/{held_run.endpoint_id}/"))
    home = text_of(admin.get("/"))

    assert "A sync waits for your decision 3 of 4 tools are missing from the vendor's list." in page_text
    assert "The last sync failed It could not be reached." in page_text
    assert "It could not be reached." not in home
    assert f'href="/runs/{held_run.pk}/">Decide</a>' in admin.get("/").content.decode()


def test_a_reading_that_is_held_has_not_failed_beside_that(admin, held_run):
    failure = {"error_code": "SHRINK_HELD", "error_message": "3 of 4 tools are missing."}
    Run.objects.filter(pk=held_run.pk).update(**failure)
    Endpoint.objects.update(failures=2, **failure)

    assert "syncs failed" not in text_of(admin.get(f"/endpoints/{held_run.endpoint_id}/"))


def test_a_held_run_waits_for_a_decision_over_rest(admin, held_run):
    row = admin.get(f"/api/v1/runs/{held_run.pk}/").json()

    assert (row["status"], row["state"]) == ("failed", "held")
    assert admin.get("/api/v1/runs/").json()["results"][0]["state"] == "held"
    assert admin.get(f"/api/v1/endpoints/{held_run.endpoint_id}/").json()["status"] == "held"


def test_a_run_that_was_held_once_has_not_failed(admin, held_run):
    Endpoint.objects.update(held_run=None)

    page_text = text_of(admin.get(f"/endpoints/{held_run.endpoint_id}/"))

    assert "Held back" in page_text
    assert "Failed" not in page_text
    assert admin.get(f"/api/v1/runs/{held_run.pk}/").json()["state"] == "was_held"


def test_other_runs_of_a_held_endpoint_are_as_they_were(admin, held_run):
    for code in ("HTTP_503", "EMPTY_HELD"):
        Run.objects.create(endpoint=held_run.endpoint, status="failed", error_code=code)
    rows = admin.get("/api/v1/runs/").json()["results"]
    assert [row["state"] for row in rows] == ["was_held", "failed", "held"]


@pytest.fixture
def signed_out():
    """An endpoint whose credential has no sign-in yet."""
    credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN),
        name="Weather",
        kind="oauth_code",
        url="http://127.0.0.1:9000/",
        secret="a-secret",
        client_id="pegboard",
        token_url="http://127.0.0.1:9000/token",
        authorization_url="http://127.0.0.1:9000/authorize",
    )
    vendor = make_vendor(name="Fair Weather", slug="weather")
    return make_endpoint(vendor=vendor, credential=credential, is_paused=True)


def test_an_endpoint_that_waits_for_a_sign_in_says_so_everywhere(admin, signed_out):
    paths = ("/", "/vendors/", "/vendors/weather/", f"/endpoints/{signed_out.pk}/")
    for path in (*paths, f"/credentials/{signed_out.credential_id}/"):
        page_text = text_of(admin.get(path))
        assert "Waiting for a sign-in" in page_text, path
        assert "Paused" not in page_text, path
    assert "1 endpoint needs action" in text_of(admin.get("/audit/"))
    assert admin.get(f"/api/v1/endpoints/{signed_out.pk}/").json()["status"] == "needs_sign_in"


def test_a_sign_in_that_is_over_is_waited_for_again(admin, signed_out):
    signed_out.is_paused, signed_out.failures, signed_out.error_code = False, 2, "NEEDS_SIGN_IN"
    signed_out.save()

    assert "Waiting for a sign-in" in text_of(admin.get("/vendors/"))


def test_after_a_sign_in_nothing_is_waited_for(admin, signed_out):
    Grant.objects.update(access_token="v1:k1:sealed")

    assert "Waiting for a sign-in" not in text_of(admin.get("/vendors/"))
    assert "Endpoints that need action" not in text_of(admin.get("/"))


def test_the_list_of_vendors_costs_the_same_however_many_sign_in(
    admin, signed_out, django_assert_max_num_queries
):
    for _ in range(5):
        make_endpoint(credential=signed_out.credential)
    with django_assert_max_num_queries(7):
        admin.get("/vendors/")


def test_all_runs_of_an_endpoint_are_paged(admin):
    endpoint = make_endpoint()
    runs = [Run.objects.create(endpoint=endpoint, status="succeeded", seen=n) for n in range(45)]
    path, pks = f"/endpoints/{endpoint.pk}/", []

    while path:
        page = admin.get(path).context["runs"]
        pks += [run.pk for run in page.rows]
        path = page.next and f"/endpoints/{endpoint.pk}/?cursor={page.next}"

    assert pks == [run.pk for run in reversed(runs)]


def test_runs_that_changed_something_are_found_among_many(admin):
    endpoint = make_endpoint()
    rows = [{"changed": 3}, {"added": 1}, {"withdrawn": 1}, {"returned": 1}, *[{"unchanged": 9}] * 40]
    runs = [Run.objects.create(endpoint=endpoint, status="succeeded", **row) for row in rows]
    path = f"/endpoints/{endpoint.pk}/"
    assert f"/runs/{runs[0].pk}/" not in admin.get(path).content.decode()

    response = admin.get(f"{path}?runs=changes")

    assert [run.pk for run in response.context["runs"].rows] == [run.pk for run in reversed(runs[:4])]
    assert f"{path}?runs=changes#runs" in admin.get(path).content.decode()
    answer = admin.get(f"/api/v1/runs/?endpoint={endpoint.pk}&with_changes=true").json()
    assert [row["id"] for row in answer["results"]] == [run.pk for run in reversed(runs[:4])]


def test_an_endpoint_without_changes_says_so():
    endpoint = make_endpoint()
    Run.objects.create(endpoint=endpoint, status="succeeded", unchanged=3)

    page_text = text_of(signed_in(Role.VIEWER).get(f"/endpoints/{endpoint.pk}/?runs=changes"))

    assert "No sync with changes" in page_text
