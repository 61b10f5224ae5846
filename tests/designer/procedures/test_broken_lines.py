"""Lines that a move of a pin breaks, from Updates to the moment when the text is saved again."""

import pytest
from rest_framework.test import APIClient

from catalog.models import Tool
from designer.files import agent_copies
from designer.models import Agent, Pin
from designer.pins import pins
from people.models import AuditEntry, Role
from tests.factories import (
    make_agent,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
    make_version,
)

pytestmark = pytest.mark.django_db
TEXT = "1. Ask for the city.\n2. Call forecast().\n3. Tell the caller the result."


@pytest.fixture
def client() -> APIClient:
    client = APIClient()
    client.force_login(make_user(Role.DESIGNER))
    return client


@pytest.fixture
def tool() -> Tool:
    return make_tool(make_signature("forecast", inputs=(make_parameter("city"),)))


@pytest.fixture
def pin(client: APIClient, tool: Tool) -> Pin:
    pin = make_pin(make_agent(), tool)
    response = client.post(path(pin.agent), {"title": "Weather", "body": TEXT}, format="json")
    assert response.status_code == 201
    return pin


def path(agent: Agent, below: str = "") -> str:
    return f"/api/v1/agents/{agent.slug}/procedures/{below}"


def require_day(tool: Tool) -> None:
    """Make a new version that requires an input for which no word of the agent asks."""
    inputs = (make_parameter("city"), make_parameter("zone_code"))
    make_version(tool, make_signature("forecast", inputs=inputs))


def move(pin: Pin, ordinal: int) -> None:
    (moved,) = pins.move_several(
        pin.agent, actor=make_user(Role.DESIGNER), requests=[pins.MoveRequest(pin, ordinal=ordinal)]
    )
    assert isinstance(moved, Pin)


def broken(client: APIClient, agent: Agent, slug: str = "weather") -> list[int]:
    remarks = client.get(path(agent, f"{slug}/")).json()["lint"]
    return [remark["line"] for remark in remarks if remark["code"] == "line_broken"]


def lines_of_update(client: APIClient, agent: Agent) -> list[int]:
    (update,) = client.get(f"/api/v1/agents/{agent.slug}/upgrades/").json()["results"]
    return [row["line"] for row in update["impact"] if row.get("line") and row["breaks"]]


def test_the_lines_that_updates_names_stay_open_after_the_pin_has_moved(client, pin, tool):
    require_day(tool)
    assert lines_of_update(client, pin.agent) == [2]
    assert broken(client, pin.agent) == []
    move(pin, 2)
    assert broken(client, pin.agent) == [2]
    checks = client.get(f"/api/v1/agents/{pin.agent.slug}/draft/").json()["checks"]
    assert [check["severity"] for check in checks if check["code"] == "line_broken"] == ["error"]


def test_the_undo_of_the_move_closes_them(client, pin, tool):
    require_day(tool)
    move(pin, 2)
    pin.refresh_from_db()
    move(pin, 1)
    assert broken(client, pin.agent) == []


def test_a_line_that_was_mended_is_not_remarked_while_it_is_typed(client, pin, tool):
    require_day(tool)
    move(pin, 2)
    mended = TEXT.replace("forecast()", "forecast(zone_code)")
    for body, lines in ((TEXT, [2]), (mended, [])):
        payload = {"body": body, "procedure": "weather"}
        remarks = client.post(path(pin.agent, "lint/"), payload, format="json").json()["lint"]
        assert [warning["line"] for warning in remarks if warning["code"] == "line_broken"] == lines


@pytest.mark.parametrize("body", [TEXT, f"{TEXT}\n4. Say goodbye."])
def test_a_text_that_is_saved_again_has_no_broken_line(client, pin, tool, body):
    require_day(tool)
    move(pin, 2)
    assert (
        client.put(path(pin.agent, "weather/"), {"title": "Weather", "body": body}, format="json").status_code
        == 200
    )
    assert broken(client, pin.agent) == []


def test_saving_the_text_as_it_stands_is_audited_once(client, pin, tool):
    require_day(tool)
    move(pin, 2)
    for _ in range(2):
        client.put(path(pin.agent, "weather/"), {"title": "Weather", "body": TEXT}, format="json")
    entry = AuditEntry.objects.get(action="confirm")
    assert entry.after == {"tools": ["forecast"]}


def test_a_copy_of_an_agent_has_the_open_lines_too(client, pin, tool):
    require_day(tool)
    move(pin, 2)
    copy = agent_copies.copy_agent(pin.agent, actor=make_user(Role.DESIGNER), name="Copy")
    assert broken(client, copy) == [2]


def test_a_version_that_breaks_no_line_opens_none(client, pin, tool):
    inputs = (make_parameter("city"), make_parameter("unit", required=False))
    make_version(tool, make_signature("forecast", inputs=inputs))
    move(pin, 2)
    assert broken(client, pin.agent) == []
