"""A version that waits for review cannot be pinned, and a policy that is set later counts for it."""

import pytest

from catalog.models import Finding
from catalog.models.findings import HELD, FindingState
from people.models import AuditEntry
from tests.factories import make_agent, make_signature, make_tool, make_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def tool():
    return make_tool(make_signature("send_money"))


@pytest.fixture
def desk():
    return make_agent(slug="desk")


def waits(tool, *, severity="medium", code="OVERRIDE"):
    version = tool.current
    return Finding.objects.create(
        endpoint=tool.endpoint,
        tool=tool,
        version=version,
        code=code,
        severity=severity,
        subject=version.digest,
        message="It asks a model to ignore its instructions.",
    )


def pin(api, tool, **members):
    return api.post("/api/v1/agents/desk/pins/", {"tool": tool.pk, **members}, format="json")


def set_policy(api, tool, **policy):
    response = api.patch(f"/api/v1/endpoints/{tool.endpoint_id}/", {"policy": policy}, format="json")
    assert response.status_code == 200
    return response


def review_state(api, tool):
    return api.get(f"/api/v1/tools/{tool.pk}/versions/").json()["results"][0]["review_state"]


def test_a_version_that_waits_for_review_is_not_pinned_whatever_the_policy(designer_api, tool, desk):
    finding = waits(tool)
    assert pin(designer_api, tool).json()["code"] == "version_held"
    assert pin(designer_api, tool, ordinal=1).json()["code"] == "version_held"
    assert review_state(designer_api, tool) == "held"

    Finding.objects.filter(pk=finding.pk).update(state=FindingState.ACCEPTED)
    assert pin(designer_api, tool).status_code == 201


def test_a_note_of_low_severity_keeps_no_version_from_being_pinned(designer_api, tool, desk):
    waits(tool, severity="low")
    assert pin(designer_api, tool).status_code == 201


def test_an_upgrade_to_a_version_that_waits_is_refused_and_not_safe(designer_api, tool, desk):
    assert pin(designer_api, tool).status_code == 201
    make_version(tool, make_signature("send_money", description="Sends money."))
    tool.refresh_from_db()
    waits(tool)
    (upgrade,) = designer_api.get("/api/v1/agents/desk/upgrades/").json()["results"]
    assert upgrade["refusal"]
    assert not upgrade["is_safe"]


@pytest.mark.parametrize(("action", "state"), [("hold", FindingState.OPEN), ("block", FindingState.BLOCKED)])
def test_a_policy_counts_for_a_version_that_waits_already(admin_api, tool, action, state):
    waits(tool)
    set_policy(admin_api, tool, alarm_medium=action)
    assert Finding.objects.get(code=HELD).state == state
    tool.refresh_from_db()
    assert tool.stopped_id == tool.current_id
    entry = AuditEntry.objects.get(action="edit")
    assert entry.after["waiting_versions_stopped"] == 1


def test_a_held_version_is_blocked_by_a_policy_that_blocks(admin_api, tool, desk):
    waits(tool)
    set_policy(admin_api, tool, alarm_medium="hold")
    set_policy(admin_api, tool, alarm_medium="block")
    assert Finding.objects.get(code=HELD).state == FindingState.BLOCKED
    assert pin(admin_api, tool).json()["code"] == "version_blocked"


def test_a_policy_for_changes_counts_for_a_change_that_waits(admin_api, tool):
    make_version(tool, make_signature("send_money", inputs=()))
    tool.refresh_from_db()
    waits(tool)
    set_policy(admin_api, tool, breaks_callers="hold")
    assert Finding.objects.get(code=HELD).version == tool.current
    tool.refresh_from_db()
    assert tool.current.ordinal == 1


def test_a_policy_leaves_what_was_decided_and_what_does_not_wait(admin_api, tool):
    finding = waits(tool)
    Finding.objects.filter(pk=finding.pk).update(state=FindingState.ACCEPTED)
    set_policy(admin_api, tool, alarm_medium="block", new_tool="block")
    assert not Finding.objects.filter(code=HELD).exists()
