import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Rejection, Run
from catalog.models.runs import Trigger
from people.models import AuditEntry
from tests.factories import make_endpoint
from tests.vendor import tool

pytestmark = pytest.mark.django_db
URL = "/api/v1/runs/"


def refusal(answer) -> tuple[int, str, set[str]]:
    body = answer.json()
    return answer.status_code, body["code"], set(body.get("fields", {}))


def make_run(endpoint: Endpoint | None = None, *, rejections: int = 0, **fields) -> Run:
    run_fields = {"status": "succeeded", **fields}
    run = Run.objects.create(endpoint=endpoint or make_endpoint(), rejected=rejections, **run_fields)
    Rejection.objects.bulk_create(
        Rejection(run=run, tool=f"tool-{number}", code="BAD_NAME", reason="It has no name.")
        for number in range(rejections)
    )
    return run


@pytest.mark.django_db(transaction=True)
def test_run_tells_what_it_did_and_what_it_refused(admin_api, vendor):
    vendor.listed[3] = tool(4, version=-1)
    vendor.listed[5] = tool(6, toolId="six")
    endpoint = make_endpoint(url=vendor.url)
    pk = admin_api.post(f"/api/v1/endpoints/{endpoint.pk}/enumerate/").json()["run"]
    assert admin_api.get(f"{URL}{pk}/").json()["status"] == "queued"

    enumeration_runs.perform(pk)

    row = admin_api.get(f"{URL}{pk}/").json()
    assert (row["id"], row["endpoint"], row["status"], row["trigger"]) == (
        pk,
        endpoint.pk,
        "succeeded",
        "person",
    )
    counts = ["pages", "seen", "added", "changed", "unchanged", "withdrawn", "returned", "rejected"]
    assert [row[name] for name in counts] == [3, 25, 24, 0, 0, 0, 0, 1]
    assert row["error"] is None
    (rejection,) = row["rejections"]
    assert (rejection["tool"], rejection["code"]) == (tool(4)["toolId"], "BAD_VERSION")
    assert rejection["reason"].endswith(".")
    (note,) = row["notes"]
    assert (note["code"], note["count"]) == ("NOT_A_UUID", 1)
    assert row["queued_at"] < row["started_at"] < row["finished_at"]


@pytest.mark.django_db(transaction=True)
def test_failed_run_says_why(admin_api, vendor):
    vendor.script = lambda number, document: (200, b"{")
    run = enumeration_runs.request_run(make_endpoint(url=vendor.url), trigger=Trigger.COMMAND)
    enumeration_runs.perform(run.pk)

    row = admin_api.get(f"{URL}{run.pk}/").json()

    assert row["status"] == "failed"
    assert row["error"]["code"] == "JSON_SYNTAX"
    assert row["error"]["message"].endswith(".")


def test_list_shows_the_newest_first_and_filters_by_endpoint(admin_api):
    first, other, last = make_run(), make_run(), make_run(rejections=2)
    again = make_run(first.endpoint)

    def list_ids(query: str) -> list[int]:
        return [row["id"] for row in admin_api.get(URL + query).json()["results"]]

    assert list_ids("") == [again.pk, last.pk, other.pk, first.pk]
    assert list_ids(f"?endpoint={first.endpoint_id}") == [again.pk, first.pk]
    assert list_ids("?endpoint=999999") == []


@pytest.mark.parametrize("value", ["x", "0", "-1", "1.5", str(2**63), "9" * 2000, "1,2", ""])
def test_what_is_no_endpoint_is_refused(admin_api, value):
    assert refusal(admin_api.get(URL, {"endpoint": value})) == (400, "invalid", {"endpoint"})


def test_list_pages_through_what_rejected_something(admin_api, django_assert_max_num_queries):
    endpoint = make_endpoint()
    runs = [make_run(endpoint, rejections=25) for _ in range(5)]

    pages, url = [], f"{URL}?endpoint={endpoint.pk}&limit=2"
    while url:
        with django_assert_max_num_queries(5):
            pages.append(admin_api.get(url).json())
        url = pages[-1]["next"]

    rows = [row for page in pages for row in page["results"]]
    assert [row["id"] for row in rows] == [run.pk for run in reversed(runs)]
    assert {(row["rejected"], len(row["rejections"])) for row in rows} == {(25, 20)}
    assert len(admin_api.get(f"{URL}{runs[0].pk}/").json()["rejections"]) == 25


def test_held_run_is_confirmed_once_by_an_administrator(admin_api, designer_api):
    held_run = make_run(status="failed", error_code="EMPTY_HELD", would_withdraw=25)
    Endpoint.objects.update(held_run=held_run)
    path = f"{URL}{held_run.pk}/confirm/"
    assert refusal(designer_api.post(path)) == (403, "role_required", set())

    answer = admin_api.post(path)

    run = Run.objects.latest("pk")
    assert (answer.status_code, answer.json()) == (202, {"run": run.pk})
    assert (run.may_withdraw, run.trigger, run.status) == (25, "person", "queued")
    assert AuditEntry.objects.get().action == "confirm"


def test_run_that_waits_for_nothing_is_not_confirmed(admin_api):
    run = make_run()

    assert refusal(admin_api.post(f"{URL}{run.pk}/confirm/")) == (409, "not_held", set())
    assert refusal(admin_api.post(f"{URL}999999/confirm/")) == (404, "not_found", set())


def test_everybody_reads_runs_and_nobody_writes_them(admin_api, designer_api):
    path = f"{URL}{make_run().pk}/"

    assert designer_api.get(path).status_code == designer_api.get(URL).status_code == 200
    for method in ("post", "put", "patch", "delete"):
        assert getattr(admin_api, method)(path, {}).status_code in (403, 405)
    assert Run.objects.count() == 1
