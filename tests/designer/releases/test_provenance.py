"""The user who approved the bytes that a runtime received at a time: one query, always the same answer."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from time_machine import travel

from catalog.models import Finding
from catalog.review import decisions
from designer.agents import agents
from designer.pins import pins, tunings
from designer.releases import provenance, publishing
from people.models import Role
from tests.clients import client_of
from tests.factories import make_agent, make_tool, make_user, make_version
from tests.module_data import module_data
from tests.pages import signed_in, text_of

pytestmark = pytest.mark.django_db
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def hour(count: float) -> datetime:
    return START + timedelta(hours=count)


@module_data
def desk():
    """Two tools of one agent, four people, five hours."""
    ada = make_user(Role.ADMIN, username="ada", name="Ada")
    bob, cleo, dan = (
        make_user(Role.DESIGNER, username=name, name=name.title()) for name in ("bob", "cleo", "dan")
    )
    weather, maps = make_tool(name="weather"), make_tool(name="maps")
    with travel(hour(0), tick=False) as clock:
        agent = agents.create_agent(actor=bob, name="Desk")
        pin = pins.pin_tool(agent, actor=bob, tool=weather)
        clock.move_to(hour(1))
        publishing.publish(agent, actor=cleo, note="The first", channel="live")
        clock.move_to(hour(2))
        held_version = make_version(weather, label="2")
        finding = Finding.objects.create(
            endpoint=weather.endpoint, tool=weather, version=held_version, code="HELD", severity="high",
            subject=held_version.digest, message="Look.", state="open",
        )  # fmt: skip
        decisions.resolve(finding, actor=ada, decision="accept", note="The vendor told us.")
        clock.move_to(hour(2.5))
        pins.move_pin(pin, actor=dan, ordinal=2)
        pins.pin_tool(agent, actor=cleo, tool=maps)
        tunings.tune(pin, actor=cleo, description="Ask for the city first.")
        tunings.tune(maps, actor=bob, description="Our maps.")
        clock.move_to(hour(3))
        publishing.publish(agent, actor=bob, channel="live")
        clock.move_to(hour(4))
        pins.move_pin(pin, actor=bob, ordinal=1)
        tunings.revert(pin, actor=bob)
        publishing.publish(agent, actor=dan, channel="live")
        clock.move_to(hour(5))
        # Later events are in no answer.
        decisions.resolve(finding, actor=bob, decision="block")
        pins.remove_pin(pin, actor=dan)
        return agent


@pytest.fixture
def story(desk, time_machine):
    time_machine.move_to(hour(5), tick=False)
    return desk


def received_release(agent, moment, number=None):
    answer = provenance.find_received_release(agent, received_at=moment, number=number)
    return answer and (
        answer.number,
        answer.published.by,
        {
            tool.name: (
                tool.version,
                *(step and step.by for step in (tool.pinned, tool.accepted, tool.worded)),
            )
            for tool in answer.tools
        },
    )


FIRST = (1, "Cleo", {"weather": ("1", "Bob", None, None)})
SECOND = (2, "Bob", {"weather": ("2", "Dan", "Ada", "Cleo"), "maps": ("1", "Cleo", None, "Bob")})
THIRD = (3, "Dan", {"weather": ("1", "Bob", None, None), "maps": ("1", "Cleo", None, "Bob")})


@pytest.mark.parametrize(
    ("moment", "number", "answer"),
    [
        (0, None, None), (0.99, None, None), (1, None, FIRST), (1.5, None, FIRST), (2.6, None, FIRST),
        (2.99, None, FIRST), (3, None, SECOND), (3.5, None, SECOND), (3.99, None, SECOND), (4, None, THIRD),
        (4.5, None, THIRD), (5, None, THIRD), (99, None, THIRD), (5, 1, FIRST), (5, 2, SECOND), (5, 3, THIRD),
        (3.5, 1, FIRST), (3.5, 3, None), (0, 1, None), (5, 4, None),
    ],
)  # fmt: skip
def test_twenty_questions(story, moment, number, answer):
    assert received_release(story, hour(moment), number) == answer


def test_it_is_one_query_and_says_why(story):
    with CaptureQueriesContext(
        connection,
    ) as queries:
        answer = provenance.find_received_release(story, received_at=hour(3))
    assert len(queries) == 1
    weather = next(tool for tool in answer.tools if tool.name == "weather")
    assert (weather.accepted.why, weather.accepted.at) == ("The vendor told us.", hour(2))
    assert weather.pinned.at == hour(2.5)
    assert provenance.find_received_release(story, received_at=hour(1)).published.why == "The first"


def test_rest_and_page_say_the_same_to_the_people_of_the_team(story):
    api = client_of(make_user(Role.VIEWER))
    address = "/api/v1/agents/desk/received/"
    answer = api.get(address, {"at": hour(3).isoformat()}).json()
    assert (answer["number"], answer["published"]["by"]) == (2, "Bob")
    assert [(tool["name"], tool["pinned"]["by"]) for tool in answer["tools"]] == [
        ("maps", "Cleo"),
        ("weather", "Dan"),
    ]
    assert api.get(address, {"number": 1}).json()["number"] == 1
    assert api.get(address).json()["number"] == 3
    assert api.get(address, {"at": hour(0).isoformat()}).status_code == 404
    assert api.get(address, {"at": "yesterday"}).status_code == 400
    page = text_of(signed_in().get("/agents/desk/received/", {"at": "2026-03-01T15:00:00"}))
    assert "Published by Bob" in page
    assert "Dan 1 Mar 2026, 14:30" in page
    assert "The vendor told us." in page
    assert "Nothing was published at that time" in text_of(
        signed_in().get("/agents/desk/received/?at=2026-01-01T00:00")
    )
    assert signed_in().get("/agents/desk/received/?at=nonsense").status_code == 200


def test_no_byte_reaches_a_runtime_without_a_person_who_pinned_and_published_it(story, runtime_api):
    """A version that waits for review cannot be pinned by any door, and nothing but releases is given out."""
    ada = make_user(Role.ADMIN)
    agent = agents.create_agent(actor=ada, name="Fresh")
    tool = make_tool(name="fresh")
    held_version = make_version(tool, label="2")
    Finding.objects.create(
        endpoint=tool.endpoint, tool=tool, version=held_version, code="HELD", severity="high",
        subject=held_version.digest, message="Look.", state="open",
    )  # fmt: skip
    api = client_of(ada)
    body = {"tool": tool.pk, "version": 2}
    assert api.post("/api/v1/agents/fresh/pins/", body, format="json").json()["code"] == "version_held"
    assert "waits for review" in text_of(api.post(f"/tools/{tool.pk}/pin/", {"agent": "fresh", "ordinal": 2}))
    api.post("/tools/pin/", {"agent": "fresh", "tool": [tool.pk]})
    pin = (
        pins.pin_tool(agent, actor=ada, tool=tool, ordinal=1) if not agent.pins.exists() else agent.pins.get()
    )
    assert pin.version.ordinal == 1
    moved = api.patch(f"/api/v1/agents/fresh/pins/{pin.pk}/", {"version": 2}, format="json")
    assert moved.json()["code"] == "version_held"
    live = "/api/v1/agents/fresh/releases/live"
    for path in (f"{live}/tools/?format=json-schema", f"{live}/bundle/"):
        assert runtime_api.get(path).status_code == 404
    publishing.publish(agent, actor=ada, channel="live")
    for path in ("/api/v1/agents/fresh/pins/", "/api/v1/agents/fresh/", f"/api/v1/tools/{tool.pk}/"):
        assert runtime_api.get(path).status_code == 403
    for owner in (agent, story):
        for number in range(1, owner.releases.count() + 1):
            answer = provenance.find_received_release(owner, received_at=hour(10_000_000), number=number)
            assert answer.published.by
            assert all(received.pinned.by for received in answer.tools)


@pytest.mark.parametrize("is_taken_back", [False, True])
def test_an_acceptance_that_was_taken_back_is_no_approval(is_taken_back):
    ada, agent, tool = make_user(Role.ADMIN, name="Ada"), make_agent(), make_tool()
    finding = Finding.objects.create(
        endpoint=tool.endpoint, tool=tool, version=tool.current, code="DRIFT", severity="medium",
        subject=tool.current.digest, message="Look.",
    )  # fmt: skip
    _, entry = decisions.decide(finding, actor=ada, decision="accept")
    pins.pin_tool(agent, actor=ada, tool=tool)
    if is_taken_back:
        decisions.take_back(entry, actor=ada)
    publishing.publish(agent, actor=ada, accept=["version_waits", "version_held"], reason="It is urgent.")

    (received_tool,) = provenance.find_received_release(agent, received_at=datetime.now(UTC)).tools

    assert (received_tool.accepted is None) is is_taken_back
