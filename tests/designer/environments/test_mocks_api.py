"""Mocks of an agent's tools over REST: what they answer, and what must be true of what they are asked."""

import pytest

from catalog.models import Activity, ActivityVersion, Call, Endpoint
from execution.activities.mocks import answers
from execution.activities.mocks.situations import KINDS
from execution.calls import invocation
from people.models import AuditEntry, Role
from tests.clients import bearer
from tests.factories import (
    make_agent,
    make_endpoint,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
)

URL = "/api/v1/agents/desk/"
COLD = {"sky": "snow"}


def tool(name: str, endpoint: Endpoint):
    signature = make_signature(name, inputs=(make_parameter("city"),), outputs=(make_parameter("sky"),))
    return make_tool(signature, endpoint=endpoint)


@pytest.fixture
def desk(db):
    agent = make_agent(slug="desk", name="Desk")
    # Nothing listens there.
    endpoint = make_endpoint(url="http://127.0.0.1:9/")
    for name in ("authenticate", "look_up", "create", "delete"):
        make_pin(agent, tool(name, endpoint))
    return agent


def call_tool(desk, name: str, **wish) -> Call:
    """A call that the mock of the tool answers."""
    pin = desk.pins.get(name=name)
    activity = Activity.objects.get(agent=desk.pk, tool=pin.tool)
    return invocation.call_now(
        pin.version,
        actor=make_user(Role.DESIGNER),
        arguments={"city": "Oslo"},
        activity=activity.current,
        **wish,
    )


def test_a_mock_is_saved_shown_and_changed_as_versions_of_an_activity(api, desk):
    before = api.get(f"{URL}mocks/look_up/").json()
    config = {
        "seed": 7,
        "examples": [{"arguments": {"city": "Oslo"}, "outputs": COLD}],
        "situations": [{"name": "unavailable", "when": {"city": "At*"}, "retry_after": 9}],
    }
    saved = api.put(f"{URL}mocks/look_up/", config)
    again = api.put(f"{URL}mocks/look_up/", config).json()

    assert (before["activity"], before["seed"], before["problems"]) == (None, 0, {})
    assert saved.status_code == 200
    assert {name: saved.json()[name] for name in config} == config
    assert saved.json()["on"] == [KINDS["unavailable"].label]
    assert again["number"] == saved.json()["number"] == 1
    activity = Activity.objects.get()
    assert (activity.agent, activity.tool.name, activity.current.kind) == (desk.pk, "look_up", "mock")
    assert AuditEntry.objects.filter(agent=desk.pk, action="create", kind="activity").count() == 1
    mocks_by_tool = {row["tool"]: row["activity"] for row in api.get(f"{URL}mocks/").json()}
    assert mocks_by_tool == {"authenticate": None, "create": None, "delete": None, "look_up": activity.pk}


def test_a_situation_is_switched_on_and_off_and_the_rest_stays(api, desk):
    config = {"seed": 3, "situations": [{"name": "not_found", "when": {"city": "X*"}}]}
    api.put(f"{URL}mocks/look_up/", config)

    switched = api.patch(f"{URL}mocks/look_up/", {"switch": {"withdrawn": True, "not_found": False}}).json()
    off = api.patch(f"{URL}mocks/look_up/", {"switch": {"withdrawn": False}}).json()
    unknown = api.patch(f"{URL}mocks/look_up/", {"switch": {"earthquake": True}})

    assert switched["seed"] == 3
    assert switched["on"] == [KINDS["withdrawn"].label]
    assert off["on"] == []
    assert off["situations"][0] == {"name": "not_found", "when": {"city": "X*"}, "switch": False}
    assert (unknown.status_code, list(unknown.json()["fields"])) == (400, ["switch"])


def test_two_who_edit_a_mock_hear_of_each_other(api, desk):
    first = api.put(f"{URL}mocks/look_up/", {"seed": 1})
    api.put(f"{URL}mocks/look_up/", {"seed": 2})

    late = api.put(f"{URL}mocks/look_up/", {"seed": 3}, headers={"If-Match": first.headers["ETag"]})

    assert (late.status_code, late.json()["code"]) == (409, "changed_meanwhile")
    assert ActivityVersion.objects.count() == 2


@pytest.mark.parametrize(
    ("config", "code", "field"),
    [
        ({"examples": [{"outputs": {"sky": 3}}]}, "invalid_mock", "examples.0.outputs"),
        ({"situations": [{"name": "slow", "hint": "?"}]}, "invalid_mock", "situations.0"),
        ({"situations": [{"name": "slow", "seconds": -1}]}, "invalid", "situations.0.seconds"),
        ({"weather": 1}, "invalid", "weather"),
    ],
)
def test_what_cannot_answer_is_refused_where_it_stands(api, desk, config, code, field):
    reply = api.put(f"{URL}mocks/look_up/", config)

    assert (reply.status_code, reply.json()["code"], list(reply.json()["fields"])) == (400, code, [field])
    assert not Activity.objects.exists()


def test_a_preview_answers_and_keeps_nothing(api, desk):
    api.put(f"{URL}mocks/look_up/", {"seed": 5})
    mocked = api.post(f"{URL}mocks/look_up/preview/", {"arguments": {"city": "Oslo"}}).json()
    again = api.post(f"{URL}mocks/look_up/preview/", {"arguments": {"city": "Oslo"}}).json()
    unfit = api.post(f"{URL}mocks/look_up/preview/", {"arguments": {"town": "Oslo"}}).json()
    away = {"situations": [{"name": "unavailable", "switch": True, "retry_after": 9}]}
    preview = api.post(f"{URL}mocks/look_up/preview/", {"arguments": {"city": "Oslo"}, **away}).json()

    assert mocked == again
    assert mocked.get("outcome") == "ok", mocked
    assert answers.faults_in_outputs(desk.pins.get(name="look_up").version.decoded(), mocked["outputs"]) == []
    assert (unfit["outcome"], set(unfit["error"]["fields"])) == ("invalid_arguments", {"city", "town"})
    assert (preview["outcome"], preview["retry"]["after_ms"]) == ("unavailable", 9000)
    assert not Call.objects.exists()


def test_a_mock_that_fits_no_more_says_so(api, desk):
    api.put(f"{URL}mocks/look_up/", {"examples": [{"outputs": COLD}]})
    pin = desk.pins.get(name="look_up")
    signature = make_signature("look_up", outputs=(make_parameter("weather"),))
    pin.version = make_tool(signature, endpoint=pin.tool.endpoint).current
    pin.save(update_fields=["version"])

    problems = api.get(f"{URL}mocks/look_up/").json()["problems"]

    assert "weather is required" in problems["examples.0.outputs"]


SAID = [
    {"is": "before", "tool": "authenticate", "other": "look_up"},
    {"is": "called", "tool": "create", "times": 1},
    {"is": "never", "tool": "delete"},
]


def judge(client, payload):
    response = client.post(f"{URL}mock-assertions/judge/", payload, format="json")
    assert response.status_code == 200, response.content
    return response.json()


def test_assertions_are_kept_and_judged_with_the_calls_that_show_it(api, desk):
    for name in ("authenticate", "look_up", "create", "delete"):
        api.put(f"{URL}mocks/{name}/", {"seed": 1})
    early, login, late, first, second = (
        call_tool(desk, name) for name in ("look_up", "authenticate", "look_up", "create", "create")
    )
    saved = api.put(f"{URL}mock-assertions/", {"assertions": SAID})
    verdict_body = judge(api, {})
    later = {"since": late.queued_at.isoformat(), "assertions": [{"is": "never", "tool": "authenticate"}]}

    assert saved.json() == api.get(f"{URL}mock-assertions/").json() == {"assertions": SAID}
    assert not verdict_body["holds"]
    assert [v["is_exercised"] for v in verdict_body["verdicts"]] == [True, True, True]
    assert [(v["says"], v["holds"], v["calls"]) for v in verdict_body["verdicts"]] == [
        ("authenticate before look_up", False, [early.pk]),
        ("create called once", False, [first.pk, second.pk]),
        ("never delete", True, []),
    ]
    assert judge(api, later)["holds"]
    assert [row["call"] for row in api.get(f"{URL}mock-calls/", {"tool": "look_up"}).json()["results"]] == [
        late.pk,
        early.pk,
    ]
    assert login.outcome == "ok"
    entry = AuditEntry.objects.filter(kind="agent", action="edit").get()
    assert entry.after == {"mock_assertions": [v["says"] for v in verdict_body["verdicts"]]}


def test_a_call_that_was_gone_on_with_counts_once(api, desk):
    api.put(f"{URL}mocks/create/", {"situations": [{"name": "interrupt", "switch": True}]})
    stopped = call_tool(desk, "create")
    invocation.continue_now(stopped, actor=stopped.requested_by, answers={"answer": {"approved": True}})

    payload = {"assertions": [{"is": "called", "tool": "create", "times": 1}]}
    verdict_body = judge(api, payload)

    assert Call.objects.count() == 2
    assert verdict_body["verdicts"][0]["calls"] == [stopped.pk]


def test_the_log_is_told_apart_by_key_environment_and_agent(api, desk):
    api.put(f"{URL}mocks/create/", {})
    staging, other = call_tool(desk, "create", environment="staging"), call_tool(desk, "create")
    elsewhere = make_agent(slug="elsewhere")
    make_pin(elsewhere, desk.pins.get(name="create").tool)

    def list_calls(agent="desk", **filters):
        rows = api.get(f"/api/v1/agents/{agent}/mock-calls/", filters).json()["results"]
        return [(row["call"], row["tool"]) for row in rows]

    assert list_calls() == [(other.pk, "create"), (staging.pk, "create")]
    assert list_calls(environment="staging") == [(staging.pk, "create")]
    assert list_calls(key=1) == []
    assert list_calls(agent="elsewhere") == []


@pytest.mark.parametrize(
    ("assertion", "expected_text"),
    [
        ({"is": "never", "tool": "fly"}, "The agent has no tool “fly”."),
        ({"is": "before", "tool": "create"}, "other"),
        ({"is": "never", "tool": "create", "times": 2}, "times"),
    ],
)
def test_an_assertion_that_says_nothing_is_refused(api, desk, assertion, expected_text):
    reply = api.put(f"{URL}mock-assertions/", {"assertions": [assertion]})

    assert reply.status_code == 400
    assert expected_text in reply.json()["fields"]["assertions.0"]


def test_an_assertion_about_a_tool_that_was_renamed_does_not_hold(api, desk):
    api.put(f"{URL}mock-assertions/", {"assertions": [{"is": "never", "tool": "delete"}]})
    desk.pins.filter(name="delete").update(name="erase")

    verdict_body = judge(api, {})

    assert verdict_body["verdicts"][0]["why"] == "The agent has no tool “delete” any more."
    assert not verdict_body["holds"]


def test_a_key_that_only_reads_judges_and_does_not_save(desk):
    reader = bearer(make_user(Role.DESIGNER), "read")

    judge(reader, {"assertions": []})
    assert reader.put(f"{URL}mocks/create/", {}, format="json").status_code == 403
