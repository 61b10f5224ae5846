import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Finding
from people.models import AuditEntry, Role
from tests.factories import make_pin, make_signature, make_tool, make_version
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin():
    return signed_in(Role.ADMIN)


def make_finding(name="forecast", **fields):
    tool = make_tool(name=name)
    drifted = make_version(tool, make_signature(name, description="Sends a copy elsewhere"), label="1")
    return Finding.objects.create(
        **{
            "endpoint": tool.endpoint,
            "tool": tool,
            "version": drifted,
            "code": "DRIFT",
            "severity": "high",
            "subject": drifted.digest,
            "message": f"The vendor changed version 1 of “{name}” in place.",
        }
        | fields
    )


def test_a_finding_shows_what_the_vendor_changed(admin):
    make_finding()

    page_text = text_of(admin.get("/review/"))

    assert "The description of the tool has changed." in page_text
    assert "Sends a copy elsewhere" in page_text


@pytest.mark.parametrize(("decision", "state"), [("accept", "accepted"), ("block", "blocked")])
def test_one_press_decides_one_finding(admin, decision, state):
    finding, other = make_finding(), make_finding("other")

    admin.post("/review/", {decision: finding.pk, f"note-{finding.pk}": "Asked them"})

    finding.refresh_from_db()
    other.refresh_from_db()
    assert (finding.state, finding.note, other.state) == (state, "Asked them", "open")
    assert AuditEntry.objects.filter(kind="finding", action=decision).count() == 1


def test_many_findings_are_decided_at_once(admin):
    ticked = [make_finding(f"tool_{n}").pk for n in range(3)]
    make_finding("not_ticked")

    response = admin.post("/review/", {"finding": ticked, "decision": "block"}, follow=True)

    assert Finding.objects.filter(state="blocked").count() == 3
    assert "3 findings were blocked." in text_of(response)


UNDO = re.compile(r'name="undo" value="([0-9,]+)"')


def test_a_decision_can_be_undone_once_from_its_message(admin):
    finding = make_finding()
    page = admin.post("/review/", {"accept": finding.pk}, follow=True).content.decode()
    (undo,) = UNDO.findall(page)
    make_pin(tool=finding.tool)

    undone = text_of(admin.post("/review/", {"undo": undo}, follow=True))

    finding.refresh_from_db()
    assert finding.state == "open"
    assert "The decision was taken back." in undone
    assert "1 agent that pins the version keeps it." in undone
    again = text_of(admin.post("/review/", {"undo": undo}, follow=True))
    assert "was changed or taken back already" in again
    assert AuditEntry.objects.filter(kind="finding", action="reopen").count() == 1


def test_many_decisions_are_undone_together(admin):
    rows = [make_finding(f"tool_{n}", severity="medium").pk for n in range(3)]
    page = admin.post("/review/", {"finding": rows, "decision": "accept"}, follow=True).content.decode()
    (undo,) = UNDO.findall(page)
    admin.post("/review/", {"block": rows[0]})

    undone = text_of(admin.post("/review/", {"undo": undo}, follow=True))

    assert "2 decisions were taken back." in undone
    assert list(Finding.objects.order_by("pk").values_list("state", flat=True)) == ["blocked", "open", "open"]


@pytest.mark.parametrize("undo", ["", "x", "0", "999999", ",,", "1" * 5_000])
def test_a_made_up_undo_changes_nothing(admin, undo):
    finding = make_finding()
    admin.post("/review/", {"accept": finding.pk})
    answer = admin.post("/review/", {"undo": undo}, follow=True)
    assert answer.status_code == 200
    finding.refresh_from_db()
    assert finding.state == "accepted"


def test_a_decision_about_a_finding_that_is_gone_cannot_be_undone(admin):
    finding = make_finding()
    page = admin.post("/review/", {"accept": finding.pk}, follow=True).content.decode()
    (undo,) = UNDO.findall(page)
    Finding.objects.all().delete()
    answer = admin.post("/review/", {"undo": undo}, follow=True)
    assert "There is no decision to take back." in text_of(answer)


def test_many_decisions_lock_tools_in_the_order_of_a_reading(admin):
    """Else each might wait for the other."""
    findings = [make_finding(f"tool_{n}") for n in range(3)]
    with CaptureQueriesContext(connection) as queries:
        admin.post("/review/", {"finding": [row.pk for row in findings], "decision": "block"})
    locks = [query["sql"] for query in queries if query["sql"].endswith("FOR NO KEY UPDATE")]
    locked = [re.search(r'"catalog_tool"."id" = (\d+)', sql) for sql in locks]
    assert [int(match[1]) for match in locked if match] == [row.tool_id for row in findings]


def test_nothing_ticked_decides_nothing(admin):
    make_finding()

    response = admin.post("/review/", {"decision": "accept"}, follow=True)

    assert "Nothing was selected" in text_of(response)
    assert Finding.objects.filter(state="open").count() == 1


def test_a_decision_can_be_changed_later(admin):
    finding = make_finding(state="blocked")

    assert "forecast" in text_of(admin.get("/review/?state=blocked"))
    admin.post("/review/?state=blocked", {"accept": finding.pk})

    finding.refresh_from_db()
    assert finding.state == "accepted"


def test_hidden_characters_are_drawn_for_the_reviewer(admin):
    make_finding(message="Harmless\u200b \u202etext\U000e0068\U000e0069")

    page = admin.get("/review/").content.decode()

    assert '<span class="hidden-char" title="zero width space">U+200B</span>' in page
    assert "U+202E" in page
    assert "hidden text: hi" in page


def test_markup_of_a_vendor_is_text(admin):
    make_finding("<img src=x onerror=alert(1)>")

    page = admin.get("/review/").content.decode()

    assert "<img" not in page
    assert "&lt;img src=x" in page


def test_nothing_to_review_says_what_would_appear(admin):
    assert "Nothing to review" in text_of(admin.get("/review/"))


def test_a_viewer_reads_and_does_not_decide():
    finding = make_finding()
    viewer = signed_in(Role.VIEWER)

    assert 'name="finding"' not in viewer.get("/review/").content.decode()
    assert viewer.post("/review/", {"accept": finding.pk}).status_code == 403


def test_what_is_of_high_severity_is_accepted_one_by_one(admin):
    mild, severe = make_finding("mild", severity="medium"), make_finding("severe")

    response = admin.post("/review/", {"finding": [mild.pk, severe.pk], "decision": "accept"}, follow=True)

    mild.refresh_from_db()
    severe.refresh_from_db()
    assert (mild.state, severe.state) == ("accepted", "open")
    assert "One finding of high severity was left" in text_of(response)
    assert "One finding was accepted." in text_of(response)


def test_findings_about_the_same_bytes_are_one_decision(admin):
    finding = make_finding(severity="medium")
    worse = Finding.objects.create(
        endpoint=finding.endpoint,
        tool=finding.tool,
        version=finding.version,
        code="OVERRIDE",
        severity="high",
        subject=finding.subject,
        message="It tells a model to set its instructions aside.",
    )

    page = admin.get("/review/").content.decode()
    assert page.count("<article") == 1
    assert f'name="accept" value="{worse.pk}"' in page

    admin.post("/review/", {"accept": worse.pk})
    assert set(Finding.objects.values_list("state", flat=True)) == {"accepted"}


def test_the_text_is_shown_exactly_with_chips_line_ends_and_spaces(admin):
    tool = make_tool(name="forecast")
    words = "Two  spaces\u202e\nand\ta tab \U000e0068\U000e0069"
    version = make_version(tool, make_signature("forecast", description=words))
    make_finding_about(version)

    page = admin.get("/review/").content.decode()

    assert '<span class="hidden-char">U+202E RLO</span>' in page
    assert '<span class="hidden-char">spells “hi”</span>' in page
    assert 'Two<span class="blank">··</span>spaces' in page
    assert '<span class="blank">↵\n</span>' in page
    assert '<span class="blank">⇥\t</span>' in page


def make_finding_about(version, **fields):
    facts = {"code": "BIDI_CONTROL", "severity": "high", "subject": version.digest, "message": "It hides."}
    return Finding.objects.create(
        endpoint=version.tool.endpoint, tool=version.tool, version=version, **{**facts, **fields}
    )


def test_a_new_tool_is_shown_in_full(admin):
    tool = make_tool(make_signature("forecast", description="All of it"))
    make_finding_about(tool.current)

    page_text = text_of(admin.get("/review/"))

    assert "The whole text, exactly as a model reads it" in page_text
    assert "Description of the input “city”" in page_text


def test_a_held_version_is_compared_with_the_one_in_effect(admin):
    tool = make_tool(name="forecast")
    make_version(tool, make_signature("forecast", description="Held before"), is_current=False)
    held_version = make_version(tool, make_signature("forecast", description="Held now"), is_current=False)
    tool.stopped = held_version
    tool.save()
    make_finding_about(held_version, code="HELD")

    page_text = text_of(admin.get("/review/"))

    assert "Tomorrow's weather for a city" in page_text
    assert "Held now" in page_text
    assert "Held before" not in page_text


def test_a_version_is_compared_with_the_vendors_one_before_whatever_was_read_last(admin):
    """Version 4 was listed first; 2 and 3 came out of the vendor's history; then 5 is listed."""
    tool = make_tool(name="forecast")
    for label in ("4", "2", "3"):
        make_version(tool, make_signature("forecast", description=f"Words of {label}"), label=label)
    make_finding_about(make_version(tool, make_signature("forecast", description="New"), label="5"))

    page_text = text_of(admin.get("/review/"))

    assert "Version 4, first seen" in page_text
    assert "Words of 4" in page_text
    assert "Words of 3" not in page_text


def test_the_page_compares_with_what_the_finding_was_compared_with(admin):
    """A vendor without version numbers goes back to what it had listed first."""
    tool = make_tool(make_signature("forecast", description="As at first"))
    between = make_version(tool, make_signature("forecast", description="In between"))
    make_finding_about(tool.versions.get(ordinal=1), code="CHANGED", against=between)

    page_text = text_of(admin.get("/review/"))

    assert "In between" in page_text
    assert "As at first" in page_text


def test_what_agents_pin_is_compared_too_where_it_is_another_version(admin):
    tool = make_tool(make_signature("forecast", description="What the agent reads"))
    make_pin(tool=tool)
    make_version(tool, make_signature("forecast", description="Never pinned"))
    held_version = make_version(tool, make_signature("forecast", description="Held now"))
    make_finding_about(held_version, code="HELD")

    page_text = text_of(admin.get("/review/"))

    assert "Compared with version 1, which 1 agent pins" in page_text
    assert "What the agent reads" in page_text
    assert "Never pinned" in page_text
    assert "have pinned this version" not in page_text


def test_a_version_under_review_that_agents_have_pinned_says_so(admin):
    finding = make_finding()
    make_pin(tool=finding.tool, version=finding.version)

    assert "1 agent has pinned this version already" in text_of(admin.get("/review/"))


def test_the_page_says_what_rules_cannot_find(admin):
    page_text = text_of(admin.get("/review/"))

    assert "They do not find polite text that misleads" in page_text
    assert "approves an exact version" in page_text


def test_one_severity_can_be_looked_at_alone(admin):
    make_finding("mild", severity="medium")
    make_finding("severe")

    page_text = text_of(admin.get("/review/?severity=high"))

    assert "severe" in page_text
    assert "mild" not in page_text


def test_a_removed_endpoint_leaves_nothing_to_review(admin):
    finding = make_finding()

    admin.post(f"/endpoints/{finding.endpoint_id}/remove/")

    assert "Nothing to review" in text_of(admin.get("/review/"))


def test_a_tool_that_was_not_let_through_is_listed_and_marked(admin):
    tool = make_tool(name="forecast")
    tool.stopped = tool.current
    tool.save()
    make_finding_about(tool.current, code="HELD")

    assert "Not released by review" in text_of(admin.get("/tools/"))
    assert "New version waits for review" in text_of(admin.get(f"/tools/{tool.pk}/"))
    assert "waits for review" in text_of(admin.get(f"/tools/{tool.pk}/versions/"))
