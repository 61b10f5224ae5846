"""The vendor's own numbers are what people and programs see and send, whenever its history was read."""

import pytest
import time_machine

from catalog.models import Call
from designer.pins import pins
from people.models import AuditEntry, Role
from tests.factories import make_agent, make_pin, make_signature, make_tool, make_user, make_version
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
PINS = "/api/v1/agents/desk/pins/"


@pytest.fixture
def designer():
    return signed_in(Role.DESIGNER)


def words(number):
    return make_signature("forecast", description=f"As of version {number}")


@pytest.fixture
def tool():
    """Read in version 1 and then in 4; 2 and 3 came out of the vendor's history."""
    row = make_tool(words(1), tool_id="forecast")
    make_version(row, words(4), label="4")
    make_version(row, words(2), label="2", is_current=False)
    make_version(row, words(3), label="3", is_current=False)
    return row


@pytest.fixture
def pin(tool):
    return make_pin(make_agent(slug="desk", name="Desk"), tool, version=tool.versions.get(label="3"))


def post(client, path, body):
    return client.post(path, body, content_type="application/json")


def test_pins_are_asked_for_and_shown_by_the_vendors_number(designer, tool):
    make_agent(slug="desk")
    body = post(designer, PINS, {"tool": tool.pk, "version": "2"}).json()
    assert (body["version"], body["version_name"], body["current"]) == ("2", "2", "4")
    assert body["ordinal"] == tool.versions.get(label="2").ordinal != 2
    assert body["effective"]["description"] == "As of version 2"


@pytest.mark.parametrize(
    "body", [{"version": "3"}, {"version": 3}, {"ordinal": 4}, {"version": "3", "ordinal": 1}]
)
def test_a_number_in_version_is_the_vendors_and_an_ordinal_has_its_own_member(designer, tool, body):
    make_agent(slug="desk")
    assert post(designer, PINS, {"tool": tool.pk, **body}).json()["version"] == "3"


def test_an_unknown_version_is_refused_with_those_that_are_there(designer, tool):
    make_agent(slug="desk")
    refused = post(designer, PINS, {"tool": tool.pk, "version": "9"}).json()
    assert refused["code"] == "unknown_version"
    assert refused["fields"]["version"] == "“forecast” has no version “9”. It has “4”, “3”, “2” and others."


def test_upgrades_go_from_the_vendors_number_to_the_vendors_number(designer, pin):
    (upgrade,) = designer.get("/api/v1/agents/desk/upgrades/").json()["results"]
    assert (upgrade["from"], upgrade["to"]) == ("3", "4")
    assert "version 3 → 4" in text_of(designer.get("/agents/desk/upgrades/"))


def test_a_move_is_told_in_the_vendors_numbers(designer, pin):
    """The ordinals go from 4 to 2."""
    designer.patch(f"{PINS}{pin.pk}/", {"version": "4"}, content_type="application/json")
    entry = AuditEntry.objects.get(action="move")
    assert (entry.before["version"], entry.after["version"]) == ("3", "4")
    assert "Version changed from “3” to “4”." in text_of(designer.get("/audit/?actor="))
    assert "· version 4 ·" in text_of(designer.get(f"/agents/desk/pins/{pin.pk}/"))


def test_versions_have_addresses_by_label(designer, tool):
    base = f"/api/v1/tools/{tool.pk}/versions"
    body = designer.get(f"{base}/v2/").json()
    assert (body["version"], body["signature"]["description"]) == ("2", "As of version 2")
    assert designer.get(f"{base}/{body['ordinal']}/").json() == body
    assert designer.get(f"{base}/v9/").status_code == 404
    page = text_of(designer.get(f"/tools/{tool.pk}/versions/v4/"))
    assert "As of version 3" in page
    assert "As of version 4" in page
    assert designer.get(f"/tools/{tool.pk}/versions/v9/").status_code == 404


def test_a_label_with_a_slash_has_an_address(designer, tool):
    make_version(tool, label="2026/11")
    assert designer.get(f"/api/v1/tools/{tool.pk}/versions/v2026/11/").json()["version"] == "2026/11"


def test_a_difference_is_asked_for_by_labels_and_without_them(designer, tool):
    path = f"/api/v1/tools/{tool.pk}/diff/"
    queries = [{"from": "2", "to": "4"}, {}, {"from_ordinal": 3, "to_ordinal": 4}]
    changes = [designer.get(path, query).json()["changes"] for query in queries]
    assert [(change["before"][-1], change["after"][-1]) for (change,) in changes] == [
        ("2", "4"),
        ("3", "4"),
        ("2", "3"),
    ]


def test_a_tool_runs_in_the_version_that_the_vendor_calls_so(designer, tool):
    result = post(designer, f"/api/v1/tools/{tool.pk}/invoke/", {"version": "2", "arguments": {}})
    assert (result.json()["outcome"], result.json()["version"]) == ("invalid_arguments", "2")
    post(
        designer,
        f"/api/v1/tools/{tool.pk}/invoke/",
        {"version": 2, "arguments": {"city": "Bern"}, "deadline_seconds": 1},
    )
    assert Call.objects.get().version.label == "2"
    assert AuditEntry.objects.get(action="run").after["version"] == "2"


def test_a_version_rewritten_in_place_is_named_with_its_day(designer, tool, pin):
    with time_machine.travel("2026-11-22 14:05", tick=False):
        rewritten = make_version(tool, make_signature("forecast", description="Other words"), label="4")
    row = designer.get(f"/api/v1/tools/{tool.pk}/").json()
    assert (row["version"], row["version_name"]) == ("4", "4, rewritten on 22 November 2026")
    pins.move_pin(pin, actor=make_user(Role.DESIGNER), version="4")
    for page in (f"/tools/{tool.pk}/", "/tools/", f"/tools/{tool.pk}/versions/", "/agents/desk/", "/audit/"):
        assert "4, rewritten on 22 November 2026" in text_of(designer.get(page)), page
    assert pin.tool.versions.get(pk=rewritten.pk).ordinal == 5


def test_a_vendor_without_numbers_has_versions_named_by_their_time(designer):
    with time_machine.travel("2026-11-22 14:05", tick=False):
        tool = make_tool(words(1))
        tool.current = tool.versions.create(
            ordinal=2,
            label="",
            digest="2",
            raw="{}",
            signature=tool.current.signature,
        )
        tool.save()
    row = next(row for row in designer.get("/api/v1/tools/").json()["results"] if row["id"] == tool.pk)
    assert (row["version"], row["version_name"]) == ("", "22 November 2026, 14:05")
    make_agent(slug="desk")
    body = post(designer, PINS, {"tool": tool.pk, "ordinal": 2}).json()
    assert (body["version"], body["version_name"]) == ("", "22 November 2026, 14:05")
    assert "Version from 22 November 2026, 14:05" in text_of(designer.get(f"/tools/{tool.pk}/"))


def test_an_entry_from_before_versions_had_names_says_that_it_holds_an_ordinal(designer, pin):
    AuditEntry.objects.create(
        actor_name="Ada", action="move", kind="pin", object_id=str(pin.pk), label="forecast",
        before={"version": 1}, after={"version": 4},
    )  # fmt: skip
    assert "Version (ordinal) changed from 1 to 4." in text_of(designer.get("/audit/?actor="))
    assert "Version (ordinal)" in text_of(designer.get(f"/agents/desk/pins/{pin.pk}/"))


def test_the_history_of_words_names_the_version_they_were_written_against(designer, pin):
    path = f"{PINS}{pin.pk}/tuning/"
    designer.put(path, {"description": "Ours"}, content_type="application/json")
    AuditEntry.objects.create(
        actor_name="Ada", action="revert", kind="pin", object_id=str(pin.pk), label="forecast",
        before={"against": 4}, after={"against": None},
    )  # fmt: skip
    old, new = designer.get(f"{path}history/").json()["results"]
    assert new["after"]["against"] == "3"
    assert old["before"] == {"against_ordinal": 4}
