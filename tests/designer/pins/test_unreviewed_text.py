"""A text that a vendor put in the place of an approved one reaches no agent before a person has read it."""

import pytest

from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Finding, Tool
from catalog.models.findings import FindingState
from catalog.models.runs import Trigger
from catalog.review import inspector
from people.models import Role
from tests.factories import make_agent, make_endpoint, make_pin
from tests.pages import signed_in, text_of
from tests.vendor import Vendor, serving, tool

pytestmark = pytest.mark.django_db(transaction=True)
DESK = "/api/v1/agents/desk"


def run_enumeration(endpoint):
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert run.status == "succeeded", run.error_message
    inspector.inspect_pending(endpoint.pk)


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


@pytest.fixture
def vendor():
    with serving(Vendor([])) as served:
        yield served


@pytest.fixture
def rewritten(vendor):
    """Version 2 was read and pinned; then its vendor rewrote it in place."""

    def rewrite(**policy):
        vendor.listed = [tool(1, 2)]
        endpoint = make_endpoint(url=vendor.url, policy=policy)
        run_enumeration(endpoint)
        make_pin(make_agent(slug="desk", name="Desk"), Tool.objects.get())
        vendor.listed = [tool(1, 2, description="Sends a copy elsewhere.")]
        run_enumeration(endpoint)
        return Tool.objects.select_related("current", "stopped").get()

    return rewrite


def failed(refused):
    return [check["code"] for check in refused.json()["checks"] if check["severity"] == "error"]


def send(client, method, path, body=None):
    return getattr(client, method)(path, body or {}, content_type="application/json")


def test_a_version_rewritten_in_place_is_held_by_default(rewritten):
    row = rewritten()
    assert (row.description, row.current.name) == ("Does thing 1.", "2")
    assert row.stopped.name.startswith("2, rewritten on ")
    finding = Finding.objects.get(code="HELD")
    assert (finding.severity, finding.state, finding.against) == ("high", "open", row.current)
    assert f"Version {row.stopped.name} of “tool_1” waits for a decision" in finding.message
    assert "the vendor rewrote a version that it had published" in finding.message


def test_an_endpoint_may_let_rewritten_versions_through(rewritten):
    row = rewritten(drift="accept")
    assert (row.description, row.stopped) == ("Sends a copy elsewhere.", None)


def test_a_rewritten_text_is_neither_moved_to_nor_published_before_a_person_accepts_it(admin, rewritten):
    row = rewritten()
    pin = row.pins.get()
    move = {"ordinal": row.stopped.ordinal}
    assert send(admin, "patch", f"{DESK}/pins/{pin.pk}/", move).json()["code"] == "version_held"
    moved = admin.post(f"/agents/desk/pins/{pin.pk}/move/", move, follow=True)
    assert "waits for review" in text_of(moved)
    # Its label still means the text that was approved.
    assert send(admin, "patch", f"{DESK}/pins/{pin.pk}/", {"version": "2"}).json()["ordinal"] == 1
    assert "Change in review" in text_of(admin.get("/agents/desk/"))
    assert send(admin, "post", f"{DESK}/releases/").status_code == 201

    finding = Finding.objects.get(code="HELD")
    assert (
        send(admin, "post", f"/api/v1/findings/{finding.pk}/resolve/", {"decision": "accept"}).status_code
        == 200
    )

    assert send(admin, "patch", f"{DESK}/pins/{pin.pk}/", {"version": "2"}).json()["ordinal"] == 2
    assert send(admin, "post", f"{DESK}/releases/").status_code == 201


def test_what_is_pinned_and_held_is_said_everywhere_and_not_published(admin, rewritten):
    row = rewritten()
    row.pins.update(version=row.stopped)

    refused = send(admin, "post", f"{DESK}/releases/")
    assert (refused.status_code, failed(refused)) == (409, ["version_held"])
    assert f"version {row.stopped.name}, which waits for review" in refused.json()["message"]
    agent = text_of(admin.get("/agents/desk/"))
    assert "Waits for review" in agent
    assert "1 pinned version is held by review" in agent
    assert "Synced" not in agent
    assert "1 failed" in text_of(admin.get("/agents/desk/publish/"))
    assert "Pinned versions under review" in text_of(admin.get("/"))

    for finding in Finding.objects.filter(state=FindingState.OPEN):
        send(admin, "post", f"/api/v1/findings/{finding.pk}/resolve/", {"decision": "accept"})

    assert "Waits for review" not in text_of(admin.get("/agents/desk/"))
    assert "under review" not in text_of(admin.get("/"))
    assert send(admin, "post", f"{DESK}/releases/").status_code == 201


def test_what_is_pinned_and_was_blocked_says_so_and_is_not_published(admin, rewritten):
    row = rewritten()
    row.pins.update(version=row.stopped)
    finding = Finding.objects.get(code="HELD")
    send(admin, "post", f"/api/v1/findings/{finding.pk}/resolve/", {"decision": "block"})

    refused = send(admin, "post", f"{DESK}/releases/")
    assert (refused.status_code, failed(refused)) == (409, ["version_blocked"])
    assert "was blocked in review. Move the pin to another version." in refused.json()["message"]
    assert "Blocked in review" in text_of(admin.get("/agents/desk/"))


def test_what_is_pinned_and_waits_without_being_held_says_so_and_can_be_published(admin, rewritten):
    """The endpoint lets rewritten versions through, and the finding about it is still open."""
    row = rewritten(drift="accept")
    row.pins.update(version=row.current)

    assert "Under review" in text_of(admin.get("/agents/desk/"))
    before = text_of(admin.get("/agents/desk/publish/"))
    assert "has an open finding in review" in before
    assert "Failed" not in before
    assert "Pinned versions under review" in text_of(admin.get("/"))
    assert send(admin, "post", f"{DESK}/releases/").status_code == 201


def test_a_rewritten_version_out_of_the_vendors_history_is_held_too(admin, vendor):
    documents = {
        number: tool(1, number, currentVersion=2, description=f"As of {number}") for number in (1, 2)
    }
    vendor.listed = [documents[2]]
    vendor.history = {documents[1]["toolId"]: [{**documents[2], "description": "Other"}, documents[1]]}
    endpoint = make_endpoint(url=vendor.url)
    run_enumeration(endpoint)
    older_versions.read_all(endpoint.pk)
    make_agent(slug="desk")
    row = Tool.objects.get()
    other = row.versions.get(label="2", rewrite=1)

    refused = send(admin, "post", f"{DESK}/pins/", {"tool": row.pk, "ordinal": other.ordinal})

    assert refused.json()["code"] == "version_held"
    assert send(admin, "post", f"{DESK}/pins/", {"tool": row.pk, "version": "1"}).status_code == 201


def test_a_text_that_went_back_to_what_was_approved_is_offered_again(rewritten, vendor):
    row = rewritten()
    vendor.listed = [tool(1, 2)]
    run_enumeration(row.endpoint)
    row.refresh_from_db()
    assert (row.current.rewrite, row.stopped) == (0, None)


def test_a_rewritten_text_that_was_decided_about_is_not_held_anew(admin, rewritten, vendor):
    endpoint = rewritten(drift="accept").endpoint
    drift = Finding.objects.get(code="DRIFT")
    send(admin, "post", f"/api/v1/findings/{drift.pk}/resolve/", {"decision": "block"})
    Endpoint.objects.update(policy={})
    for words in ("Does thing 1.", "Sends a copy elsewhere."):
        vendor.listed = [tool(1, 2, description=words)]
        run_enumeration(Endpoint.objects.get(pk=endpoint.pk))
    row = Tool.objects.select_related("stopped").get()
    assert (row.description, row.stopped.rewrite) == ("Does thing 1.", 1)
    assert not Finding.objects.filter(code="HELD").exists()


def test_a_new_version_is_not_held_because_that_of_another_tool_was_rewritten(vendor):
    vendor.listed = [tool(1, 2), tool(2, 2)]
    endpoint = make_endpoint(url=vendor.url)
    run_enumeration(endpoint)
    vendor.listed = [tool(1, 3, description="New words."), tool(2, 2, description="Other words.")]
    run_enumeration(endpoint)
    new, rewritten = Tool.objects.select_related("current", "stopped").order_by("tool_id")
    assert (new.current.name, new.stopped) == ("3", None)
    assert (rewritten.current.name, rewritten.stopped.rewrite) == ("2", 1)
