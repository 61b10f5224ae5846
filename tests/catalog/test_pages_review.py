import pytest

from catalog.models import Finding
from people.models import AuditEntry, Role
from tests.factories import make_signature, make_tool, make_version
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin():
    return signed_in()


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

    said = text_of(admin.get("/review/"))

    assert "The description of the tool has changed." in said
    assert "Sends a copy elsewhere" in said


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


def test_nothing_ticked_decides_nothing(admin):
    make_finding()

    response = admin.post("/review/", {"decision": "accept"}, follow=True)

    assert "Nothing was ticked" in text_of(response)
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
