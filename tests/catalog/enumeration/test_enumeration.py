import json
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, connections
from django.utils import timezone

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Finding, Run, Tool, ToolVersion
from catalog.models.runs import Trigger
from people.models import AuditEntry, Role
from tests.factories import make_endpoint, make_user
from tests.vendor import Vendor, tool, tools

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def endpoint(vendor: Vendor) -> Endpoint:
    return make_endpoint(url=vendor.url)


def run_enumeration(endpoint: Endpoint, **options) -> Run:
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND, **options)
    return enumeration_runs.perform(run.pk)


def counts(run: Run) -> dict[str, int]:
    names = ["pages", "seen", "added", "changed", "unchanged", "withdrawn", "rejected"]
    return {name: getattr(run, name) for name in names if getattr(run, name)}


def test_first_run_adds_every_tool_with_its_first_version(endpoint):
    run = run_enumeration(endpoint)
    assert (run.status, run.error) == ("succeeded", None)
    assert counts(run) == {"pages": 3, "seen": 25, "added": 25}
    first = Tool.objects.select_related("current").get(name="tool_1")
    assert first.current.ordinal == 1
    assert first.current.label == "1"
    assert first.current.decoded().inputs[0].name == "city"
    assert json.loads(first.current.raw)["description"] == "Does thing 1."


@pytest.mark.parametrize(
    "odd", ["\\", r"\N", r"\.", r"\t", "\t", "\n", "\r", "\r\n", '"', '{"a","b"}', "\\\t\\\\\n", "NULL", ""]
)
def test_words_that_a_copy_could_take_for_its_own_are_kept_exactly(endpoint, vendor, odd):
    texts = [f"{odd}words", f"words{odd}words", f"words{odd}", odd or "none"]
    vendor.listed[:] = [tool(1, description=texts[0], tags=texts), tool(2, description=texts[2])]
    assert counts(run_enumeration(endpoint)) == {"pages": 1, "seen": 2, "added": 2}
    first, second = Tool.objects.select_related("current").order_by("name")
    assert (first.name, first.description, first.tags) == ("tool_1", texts[0], texts)
    assert (second.name, second.description, second.current.decoded().description) == (
        "tool_2",
        texts[2],
        texts[2],
    )
    assert json.loads(first.current.raw) == vendor.listed[0]


def test_second_run_over_the_same_bytes_writes_nothing(endpoint, django_assert_max_num_queries):
    run_enumeration(endpoint)
    before = list(Tool.objects.order_by("pk").values())
    with django_assert_max_num_queries(30):
        run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 25, "unchanged": 25}
    assert list(Tool.objects.order_by("pk").values()) == before
    assert ToolVersion.objects.count() == 25


def test_a_new_version_is_appended_and_becomes_current(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, version=2, description="Does thing 5 better.")
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 25, "changed": 1, "unchanged": 24}
    changed = Tool.objects.get(name="tool_5")
    assert [(v.ordinal, v.label) for v in changed.versions.all()] == [(2, "2"), (1, "1")]
    assert changed.current.ordinal == 2
    assert changed.description == "Does thing 5 better."
    assert not Finding.objects.exists()


def test_a_version_changed_in_place_keeps_both_and_raises_drift(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, description="Does another thing.")
    run_enumeration(endpoint)
    drifted = Tool.objects.get(name="tool_5")
    assert [(v.ordinal, v.label, v.rewrite) for v in drifted.versions.all()] == [(2, "1", 1), (1, "1", 0)]
    finding = Finding.objects.get(code="DRIFT")
    assert (finding.tool, finding.version, finding.against) == (drifted, drifted.stopped, drifted.current)


def test_going_back_to_known_bytes_adds_no_version(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, description="Does another thing.")
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5)
    run_enumeration(endpoint)
    back = Tool.objects.get(name="tool_5")
    assert (back.current.ordinal, back.versions.count(), back.version_count) == (1, 2, 2)
    assert sorted(Finding.objects.values_list("code", flat=True)) == ["DRIFT", "HELD"]


def test_a_version_going_backwards_is_refused_and_recorded(endpoint, vendor):
    vendor.listed[4] = tool(5, version=7)
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, version=6)
    run = run_enumeration(endpoint)
    assert run.status == "succeeded"
    assert Tool.objects.get(name="tool_5").current.label == "7"
    assert [(r.tool, r.code) for r in run.rejections.all()] == [(vendor.listed[4]["toolId"], "VERSION_BACK")]
    assert Finding.objects.get().code == "VERSION_BACK"


def test_a_breaking_new_version_raises_a_finding_in_words(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[4] = tool(5, version=2, input_parameters=[])
    run_enumeration(endpoint)
    finding = Finding.objects.get()
    assert finding.code == "BREAKING"
    assert "city" in finding.message


def test_a_tool_missing_from_a_complete_listing_is_withdrawn_and_may_return(endpoint, vendor):
    run_enumeration(endpoint)
    removed = vendor.listed.pop()
    run = run_enumeration(endpoint)
    assert counts(run)["withdrawn"] == 1
    assert Tool.objects.get(tool_id=removed["toolId"]).status == "withdrawn"
    vendor.listed.append(removed)
    run = run_enumeration(endpoint)
    assert run.returned == 1
    assert Tool.objects.get(tool_id=removed["toolId"]).status == "active"


def test_a_withdrawn_tool_that_is_listed_again_at_an_older_version_returns_as_it_was(endpoint, vendor):
    vendor.listed[4] = tool(5, version=7)
    run_enumeration(endpoint)
    removed = vendor.listed.pop(4)
    run_enumeration(endpoint)
    vendor.listed.insert(4, tool(5, version=6))
    run = run_enumeration(endpoint)
    back = Tool.objects.get(tool_id=removed["toolId"])
    assert (back.status, back.current.label, run.returned) == ("active", "7", 1)
    assert [rejection.code for rejection in run.rejections.all()] == ["VERSION_BACK"]
    assert Finding.objects.get(code="VERSION_BACK").tool == back
    assert run_enumeration(endpoint).returned == 0


def test_an_empty_listing_is_held_until_a_person_confirms(
    endpoint, vendor, django_capture_on_commit_callbacks
):
    run_enumeration(endpoint)
    vendor.listed = []
    run = run_enumeration(endpoint)
    endpoint.refresh_from_db()
    assert (run.status, run.error_code, run.would_withdraw) == ("failed", "EMPTY_HELD", 25)
    assert endpoint.status == "held"
    assert Tool.objects.filter(status="active").count() == 25

    confirmed = enumeration_runs.perform(enumeration_runs.confirm_held(run, actor=make_user(Role.ADMIN)).pk)
    endpoint.refresh_from_db()
    assert (confirmed.status, confirmed.withdrawn, endpoint.status) == ("succeeded", 25, "ok")


def test_a_held_run_shows_what_it_read(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed = [*tools(9), tool(10, version=-1)]
    run = run_enumeration(endpoint)
    assert (run.error_code, run.would_withdraw) == ("SHRINK_HELD", 15)
    assert counts(run) == {"pages": 1, "seen": 10, "rejected": 1}
    assert [rejection.code for rejection in run.rejections.all()] == ["BAD_VERSION"]


@pytest.mark.parametrize("tools_listed", [[], tools(9)])
def test_a_run_that_is_taken_up_again_shows_only_what_it_read_itself(endpoint, vendor, tools_listed):
    run_enumeration(endpoint)
    vendor.listed = tools_listed
    if not tools_listed:
        vendor.script = lambda number, page: (200, b"no JSON")
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    died = timezone.now() - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(
        status="running", attempt=1, lease_until=died, pages=9, seen=900, rejected=3
    )
    run = enumeration_runs.perform(run.pk)
    assert run.status == "failed"
    assert counts(run) == ({"pages": 1, "seen": 9} if tools_listed else {})


def test_a_confirmation_reaches_a_run_that_is_already_waiting(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed = []
    held_run = run_enumeration(endpoint)
    waiting = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    assert enumeration_runs.confirm_held(held_run, actor=make_user(Role.ADMIN)) == waiting
    assert enumeration_runs.perform(waiting.pk).withdrawn == 25
    assert AuditEntry.objects.get(action="confirm").after == {"run": waiting.pk, "may_withdraw": 25}


def test_an_empty_listing_of_a_vendor_without_tools_is_fine(endpoint, vendor):
    vendor.listed = []
    assert run_enumeration(endpoint).status == "succeeded"


@pytest.mark.parametrize(("tools_left", "outcome"), [(17, "SHRINK_HELD"), (18, "")])
def test_a_listing_that_lost_more_than_thirty_percent_is_held(endpoint, vendor, tools_left, outcome):
    run_enumeration(endpoint)
    vendor.listed = vendor.listed[:tools_left]
    run = run_enumeration(endpoint)
    assert run.error_code == outcome


def test_a_confirmation_covers_no_more_tools_than_the_person_saw(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed = tools(15)
    held_run = run_enumeration(endpoint)
    vendor.listed = tools(5)
    run = enumeration_runs.perform(enumeration_runs.confirm_held(held_run, actor=make_user(Role.ADMIN)).pk)
    assert (run.error_code, run.would_withdraw) == ("SHRINK_HELD", 20)


def test_one_bad_item_costs_only_itself(endpoint, vendor):
    vendor.listed[3] = tool(4, version=-1)
    vendor.listed[7] = {"name": "no id at all"}
    vendor.listed[9] = tool(10, name="")
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 25, "added": 22, "rejected": 3}
    assert {r.code for r in run.rejections.all()} >= {"BAD_VERSION", "BAD_NAME"}
    assert all(r.reason.endswith(".") for r in run.rejections.all())


def test_a_known_tool_whose_new_bytes_are_unreadable_stays_as_it_was(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[3] = tool(4, version=2, name="")
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 25, "unchanged": 24, "rejected": 1}
    kept_tool = Tool.objects.get(name="tool_4")
    assert (kept_tool.status, kept_tool.current.label) == ("active", "1")


def test_the_same_tool_twice_is_noted_and_two_tools_under_one_id_are_both_refused(endpoint, vendor):
    vendor.listed[20] = tool(1)
    vendor.listed[21] = tool(2, description="Another user")
    run = run_enumeration(endpoint)
    assert [r.code for r in run.rejections.all()] == ["DUP_CONFLICT"]
    assert [note["code"] for note in run.notes] == ["DUP_TOOL"]
    assert Tool.objects.filter(name="tool_1").exists()
    assert not Tool.objects.filter(name="tool_2").exists()


def test_what_is_listed_again_after_a_refusal_is_refused_with_it(endpoint, vendor):
    vendor.listed[19], vendor.listed[20], vendor.listed[21] = (
        tool(1, version=-1),
        tool(2, version=-1),
        tool(2),
    )
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 22, "added": 20, "rejected": 2}
    assert {r.code for r in run.rejections.all()} == {"BAD_VERSION"}


def test_every_tool_seen_is_counted_once(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[1] = tool(2, version=2)
    vendor.listed[3] = tool(3, description="Another one under the id before it")
    vendor.listed[5] = tool(6, version=-1)
    vendor.listed[7] = tool(9)
    vendor.listed[12] = tool(13, version=2, name="")
    vendor.listed[20] = {"name": "no id"}
    vendor.listed.append(tool(40))
    run = run_enumeration(endpoint)
    assert counts(run) == {
        "pages": 3,
        "seen": 24,
        "added": 1,
        "changed": 1,
        "unchanged": 18,
        "withdrawn": 3,
        "rejected": 4,
    }


def test_pages_full_of_items_without_an_id_are_no_endless_list(endpoint, vendor):
    vendor.listed[:20] = [{"name": "no id"} for _ in range(20)]
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 25, "added": 5, "rejected": 20}
    assert run.rejections.last().tool == "#10 on page 2"


def test_a_tool_that_lost_its_id_is_not_withdrawn(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[3] = {"name": "tool_4", "version": 1}
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 25, "unchanged": 24, "rejected": 1}
    assert [note["code"] for note in run.notes] == ["MAY_BE_MISSING"]


def test_a_uuid_in_other_letters_is_the_same_tool(endpoint, vendor):
    vendor.listed = [tool(0xABCDEF + number) for number in range(25)]
    run_enumeration(endpoint)
    vendor.listed[3] = {**vendor.listed[3], "toolId": vendor.listed[3]["toolId"].upper()}
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 25, "unchanged": 25}
    assert Tool.objects.filter(tool_id=vendor.listed[3]["toolId"]).exists(), "URLs take the newest spelling"


def test_a_uuid_in_small_and_in_capital_letters_is_listed_twice(endpoint, vendor):
    vendor.listed[20] = tool(0xABCDEF)
    vendor.listed[21] = tool(0xABCDEF, toolId=tool(0xABCDEF)["toolId"].upper())
    assert [r.code for r in run_enumeration(endpoint).rejections.all()] == ["DUP_CONFLICT"]


def test_a_list_that_changes_while_it_is_read_is_read_again(endpoint, vendor):
    run_enumeration(endpoint)
    is_removed = []

    def script(number, document):
        if number == 2 and not is_removed:
            is_removed.append(vendor.listed.pop(0))

    vendor.script = script
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 24, "unchanged": 24, "withdrawn": 1}


def test_a_tool_missing_from_one_reading_of_a_list_of_two_pages_is_not_withdrawn(endpoint, vendor):
    vendor.listed = tools(15)
    run_enumeration(endpoint)
    left_out = []

    def script(number, document):
        if number == 2 and not left_out:
            left_out.append(document["items"].pop())

    vendor.script = script
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 2, "seen": 15, "unchanged": 15}
    assert not Tool.objects.filter(status="withdrawn").exists()


def test_a_list_that_changes_whenever_it_is_read_ends_the_run(endpoint, vendor):
    run_enumeration(endpoint)

    def script(number, document):
        if number == 2:
            vendor.listed.pop(0)

    vendor.script = script
    run = run_enumeration(endpoint)
    assert (run.status, run.error_code) == ("failed", "UNSTABLE")
    assert Tool.objects.filter(status="active").count() == 25


def fails(vendor: Vendor, page: int, status: int = 200, body: bytes | None = None, **members) -> None:
    def script(number, document):
        if number != page:
            return None
        document.update(members)
        return status, json.dumps(document).encode() if body is None else body

    vendor.script = script


@pytest.mark.parametrize(
    ("page", "reply", "code"),
    [
        (2, {"status": 500, "body": b"oops"}, "INCOMPLETE"),
        (2, {"body": b"{"}, "JSON_SYNTAX"),
        (2, {"body": b'{"items": [' + b" " * (33 << 20) + b"]}"}, "BODY_TOO_LARGE"),
        (2, {"paging": {"next": "10"}}, "CURSOR_LOOP"),
        (3, {"paging": {"next": "0"}}, "CURSOR_LOOP"),
        (2, {"paging": {"next": "https://elsewhere.example/tools?pageCursor=1"}}, "FOREIGN_NEXT"),
        (1, {"status": 401, "body": b"{}"}, "AUTH"),
        (1, {"status": 302, "body": b""}, "REDIRECT"),
    ],
)
def test_a_listing_that_cannot_be_read_to_its_end_changes_nothing(endpoint, vendor, page, reply, code):
    run_enumeration(endpoint)
    before = list(Tool.objects.order_by("pk").values())
    vendor.listed = [tool(number, version=2) for number in range(1, 26)]
    fails(vendor, page, **reply)
    run = run_enumeration(endpoint)
    endpoint.refresh_from_db()
    assert (run.status, run.error_code) == ("failed", code)
    assert run.error_message.endswith(".")
    assert list(Tool.objects.order_by("pk").values()) == before
    assert (endpoint.status, endpoint.failures) == ("failing", 1)


def test_a_failed_run_says_how_far_it_came(endpoint, vendor):
    vendor.listed[3] = tool(4, version=-1)
    fails(vendor, 3, status=500, body=b"oops")
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 2, "seen": 20, "rejected": 1}
    assert run.error_message.startswith("2 of ? pages were read. Page 3: ")
    assert run.started_at <= run.finished_at


def test_success_clears_the_failure(endpoint, vendor):
    fails(vendor, 1, status=401, body=b"{}")
    run_enumeration(endpoint)
    vendor.script = None
    run_enumeration(endpoint)
    endpoint.refresh_from_db()
    assert (endpoint.status, endpoint.failures, endpoint.error_code) == ("ok", 0, "")


def test_a_page_with_known_bytes_beside_a_changed_one_is_read_right(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed[12] = tool(13, version=2)
    run_enumeration(endpoint)
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 25, "unchanged": 25}
    assert Tool.objects.get(name="tool_13").current.label == "2"


def test_tools_that_move_between_pages_are_neither_lost_nor_doubled(endpoint, vendor):
    run_enumeration(endpoint)
    vendor.listed.insert(0, tool(99))
    run = run_enumeration(endpoint)
    assert counts(run) == {"pages": 3, "seen": 26, "added": 1, "unchanged": 25}


def test_a_version_row_refuses_to_change_even_with_sql(endpoint):
    from django.db import DatabaseError, connection

    run_enumeration(endpoint)
    for statement in ("UPDATE catalog_toolversion SET raw = 'x'", "DELETE FROM catalog_toolversion"):
        with pytest.raises(DatabaseError, match="never change"), connection.cursor() as cursor:
            cursor.execute(statement)


def test_a_bad_secret_key_ends_the_run_in_plain_words(endpoint, settings):
    from catalog.credentials import operations as credential_operations

    credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="Key", kind="bearer", url=endpoint.url, secret="s3cret"
    )
    Endpoint.objects.update(credential=credential)
    settings.KEYS = ["k2:" + "A" * 43 + "="]
    run = run_enumeration(endpoint)
    assert run.error_code == "CREDENTIAL_LOCKED"


def test_the_credential_travels_to_its_own_origin_only(endpoint, vendor):
    from catalog.credentials import operations as credential_operations

    credential = credential_operations.create_credential(
        actor=make_user(Role.ADMIN),
        name="Key",
        kind="header",
        header="X-Key",
        url=endpoint.url,
        secret="s3cret",
    )
    Endpoint.objects.update(credential=credential)
    run_enumeration(endpoint)
    assert {headers.get("x-key") for headers in vendor.headers} == {"s3cret"}
    Endpoint.objects.update(url=endpoint.url.replace("127.0.0.1", "127.0.0.2"))
    vendor.headers.clear()
    assert run_enumeration(endpoint).error_code == "CREDENTIAL_ELSEWHERE"
    assert not vendor.headers


def test_a_database_that_goes_away_while_tools_are_staged_ends_no_run(endpoint, vendor):
    """The run keeps its lease: no process may mark it as failed, and another worker repeats it."""
    vendor.listed, vendor.page_size = tools(250), 100
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    backend = connection.connection.info.backend_pid

    def progress(pages, tools_seen, rejected):
        if pages == 2:
            with connections.create_connection("default").cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
                cursor.db.close()

    with pytest.raises(OperationalError):
        enumeration_runs.perform(run.pk, progress)
    connection.close()
    assert (Run.objects.get(pk=run.pk).status, endpoint.tools.count()) == ("running", 0)
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert enumeration_runs.perform(run.pk).added == 250
