"""Several calls in one request: each as if it came alone, side by side, within one time."""

import json
import shlex
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from catalog.models import Call
from designer.agents import agents
from designer.environments import environments
from designer.pins import pins
from designer.releases import publishing
from people.models import ApiKey, AuditEntry
from protocols.signature import Annotations
from tests.factories import make_parameter, make_signature, make_tool
from tests.hostile_vendor import json_reply, then_waits
from tests.serving.test_calls import ANSWER, GIVEN, OUTPUTS, desk_with, owner, runtime, sent_inputs, vendor

__all__ = ["owner", "vendor"]
pytestmark = pytest.mark.django_db(transaction=True)
URL = "/api/v1/agents/desk/releases/live/calls/"
DOCUMENT = (Path(__file__).parents[2] / "docs/runtimes.md").read_text()


@pytest.fixture
def desk(owner, vendor):
    return desk_with(owner, vendor)


def calls(*changes, **members):
    return {"calls": [{"tool": "sky", **GIVEN, **change} for change in changes], **members}


def outcomes_of(results) -> list[tuple[int, str]]:
    """Return by index the status, and the outcome or the code of the error."""
    assert [row["index"] for row in results] == list(range(len(results)))
    for row in results:
        assert (row["answer"] is None) != (row["error"] is None)
        assert row["answer"] or row["error"]["message"]
    return [
        (row["status"], row["answer"]["outcome"] if row["answer"] else row["error"]["code"])
        for row in results
    ]


def test_each_call_is_made_and_refused_as_if_it_came_alone(owner, vendor, desk):
    agent, pin = desk
    helper = agents.create_agent(actor=owner, name="helper", slug="helper", parent=agent)
    tool = make_tool(make_signature("help", outputs=OUTPUTS), endpoint=pin.tool.endpoint)
    pins.pin_tool(helper, actor=owner, tool=tool, alias="help")
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)
    changes = [
        {},
        {"tool": "earth"},
        {"arguments": {"Zip_code": 5}},
        {"arguments": 7, "colour": "red"},
        {"mode": "async", "callback": "https://runtime.example/ended"},
        {"tool": "help", "agent": "helper", "arguments": {"city": "Oslo"}},
        {"tool": "transfer_to_helper", "arguments": {}},
        {"mode": "stream"},
        {},
    ]
    body = calls(*changes)
    body["calls"].append("sky")
    first, again = (client.post(URL, body, headers={"Idempotency-Key": "turn 7"}) for _ in range(2))
    results = first.json()["results"]
    assert first.status_code == 200, first.json()
    assert outcomes_of(results) == [
        (200, "ok"),
        (404, "not_found"),
        (200, "invalid_arguments"),
        (400, "invalid"),
        (202, None),
        (200, "ok"),
        (200, "transfer"),
        (400, "invalid"),
        (200, "ok"),
        (400, "invalid"),
    ]
    assert results[0]["answer"]["outputs"] == {"Sky_now": "fair"}
    assert results[3]["error"]["fields"].keys() == {"arguments", "colour"}
    assert results[4]["answer"]["callback_secret"].startswith("whsec_")
    # The same batch again runs nothing again; what is no call is refused and noted as before.
    for before, after in zip(results, again.json()["results"], strict=True):
        assert (before["status"], (before["answer"] or {}).get("call")) == (
            after["status"],
            (after["answer"] or {}).get("call"),
        )
    assert len(vendor.requests) == 3
    assert Call.objects.count() == 4
    assert set(Call.objects.values_list("api_key__name", flat=True)) == {"Desk key"}
    assert AuditEntry.objects.filter(action="run").count() == 4
    assert AuditEntry.objects.get(action="refuse call").after == {"agent": "desk", "tool": "earth"}


def test_the_calls_that_a_model_wrote_are_taken_as_they_are(owner, vendor, desk):
    client = runtime(owner, desk[0])
    parameters = client.get(URL.replace("/calls/", "/tools/"), {"format": "tool-system"}).json()
    (branch,) = parameters["calls"]["items"]["anyOf"]
    (zip_code,) = (name for name in branch["required"] if not name.startswith("_"))
    good = {"_tool": "sky", zip_code: "0150"}
    reasoning = "The user asked for the weather."
    written_calls = [
        {"_tool": "sky", "_activity": "sky", "_reasoningForCall": reasoning, zip_code: "0150", "_output": {}},
        {zip_code: "0150"},
        {"_tool": 7, "_mood": "good", "_reasoningForCall": "x" * 2001},
        good | {"_activity": ""},
        good | {"_activity": "by_hand"},
        good | {"colour": "red"},
        ["sky"],
        good,
    ]
    first, again = (client.post(URL, written_calls, headers={"Idempotency-Key": "turn 8"}) for _ in range(2))
    results = first.json()["results"]
    assert outcomes_of(results) == [
        (200, "ok"),
        (400, "invalid"),
        (400, "invalid"),
        (409, "activity_mismatch"),
        (409, "activity_mismatch"),
        (200, "invalid_arguments"),
        (400, "invalid"),
        (200, "ok"),
    ]
    assert [row["error"]["fields"].keys() for row in results[1:5]] == [
        {"_tool"},
        {"_tool", "_mood", "_reasoningForCall"},
        {"_activity"},
        {"_activity"},
    ]
    assert results[4]["error"]["fields"]["_activity"].startswith("“sky” is carried out by “sky”")
    assert results[0]["answer"]["outputs"] == {"Sky_now": "fair"}
    assert [row["answer"]["reasoning"] for row in results if row["answer"]] == [reasoning, "", ""]
    assert outcomes_of(again.json()["results"]) == outcomes_of(results)
    assert sent_inputs(vendor) == [{"Zip code": "0150"}] * 2
    assert list(Call.objects.order_by("pk").values_list("reasoning", flat=True)).count(reasoning) == 1
    stored_call = client.get(f"/api/v1/agents/desk/calls/{results[0]['answer']['call']}/").json()
    assert stored_call["reasoning"] == reasoning


def test_the_whole_answer_of_a_model_is_taken_as_its_calls_are(owner, vendor, desk):
    client = runtime(owner, desk[0])
    written_calls = [{"_tool": "sky", "Zip_code": "0150"}, {"_tool": "earth"}, {"tool": "sky", **GIVEN}]
    for until in ({"until": "any"}, {}):
        answer = client.post(URL, {"calls": written_calls, **until}).json()
        assert outcomes_of(answer["results"])[1:] == [(404, "not_found"), (400, "invalid")]
        assert outcomes_of(answer["results"])[0] == (200, "ok")
        assert answer["first"] == (0 if until else None)
    assert client.post(f"{URL}?until=race", {"calls": written_calls[:1]}).json()["first"] == 0
    # A call written by a model names no environment, and confirms nothing.
    refused = client.post(URL, {"calls": written_calls, "environment": "production"})
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["environment"])
    confirming = client.post(URL, {"calls": [{**written_calls[0], "confirm": True}]}).json()["results"]
    assert outcomes_of(confirming) == [(200, "invalid_arguments")]


def test_calls_are_made_side_by_side_as_far_as_the_key_may(owner, vendor, desk):
    client = runtime(owner, desk[0])
    together = threading.Barrier(3)

    def answers(line, request):
        together.wait(10)
        return ANSWER(line, request)

    vendor.script = answers
    assert outcomes_of(client.post(URL, calls({}, {}, {})).json()["results"]) == [(200, "ok")] * 3
    # One at a time, and nothing later than the batch may take.
    ApiKey.objects.update(calls_at_once=1)
    vendor.script = ANSWER
    assert outcomes_of(client.post(URL, calls({}, {}, {})).json()["results"]) == [(200, "ok")] * 3
    vendor.script = then_waits(b"")
    late = client.post(URL, calls({}, {}, deadline_seconds=1)).json()["results"]
    assert outcomes_of(late) == [(200, "unavailable"), (503, "no_time")]
    assert late[0]["answer"]["error"]["code"] == "DEADLINE"
    assert late[1]["error"]["retry_after"] == 1
    assert len(vendor.requests) == 7


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "calls"),
        ([], "calls"),
        ([{"_tool": "sky", "Zip_code": "0150"}] * 21, "calls"),
        ({"calls": []}, "calls"),
        ({"calls": {"tool": "sky"}}, "calls"),
        (calls(*[{}] * 21), "calls"),
        (calls({}, deadline_seconds=121), "deadline_seconds"),
        (calls({}, first=True), "first"),
    ],
)
def test_what_is_no_batch_runs_nothing(owner, vendor, desk, body, where):
    answer = runtime(owner, desk[0]).post(URL, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert where in answer.json()["fields"]
    assert vendor.requests == []
    assert runtime(owner, desk[0]).post(URL, "sky").json()["code"] == "invalid_json"


def test_the_batch_of_the_document_runs(owner, vendor, desk):
    sent_by = [block for block in DOCUMENT.split("```") if "/calls/" in block and "curl" in block]
    bodies, path = [], ""
    for command in sent_by:
        words = shlex.split(command)
        bodies.append(json.loads(dict(pairwise(words))["-d"]))
        path = next(word for word in words if word.startswith("$PEGBOARD_URL")).removeprefix("$PEGBOARD_URL")
    agent = agents.create_agent(actor=owner, name="Front desk", slug="front-desk")
    signature = make_signature("check", inputs=(make_parameter("medicines"),), outputs=OUTPUTS)
    tool = make_tool(signature, endpoint=desk[1].tool.endpoint)
    pins.pin_tool(agent, actor=owner, tool=tool, alias="check_drug_interactions")
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)
    models, own_results = (client.post(path, body).json()["results"] for body in bodies)
    assert (outcomes_of(models), outcomes_of(own_results)) == ([(200, "ok")] * 2, [(200, "ok"), (202, None)])
    assert [arguments["medicines"] for arguments in sent_inputs(vendor)].count("lisinopril, ibuprofen") == 2


def test_what_a_model_writes_confirms_nothing_and_the_request_does(owner, vendor):
    agent, _ = desk_with(owner, vendor, annotations=Annotations(destructive=True))
    agents.create_agent(actor=owner, name="helper", slug="helper", parent=agent)
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)
    call = {"_tool": "sky", "Zip_code": "0150"}
    transfer = {"_tool": "transfer_to_helper"}
    answer = client.post(URL, [call, call | {"_confirm": True}, transfer]).json()["results"]
    assert outcomes_of(answer) == [(409, "confirm_needed"), (400, "invalid"), (200, "transfer")]
    assert answer[2]["answer"]["next"]["tools"].endswith("/agents/helper/tools/?format=tool-system")
    assert vendor.requests == []
    headers = {"Pegboard-Confirm": "true", "Pegboard-On-Behalf-Of": "u-1"}
    confirmed = client.post(URL, [call], headers=headers).json()["results"]
    assert outcomes_of(confirmed) == [(200, "ok")]
    assert Call.objects.get().on_behalf_of
    later = client.post(f"{URL}?mode=async", [call], headers=headers).json()["results"]
    assert outcomes_of(later) == [(202, None)]
    assert outcomes_of(client.post(f"{URL}?mode=stream", [call]).json()["results"]) == [(400, "invalid")]


def by_city(**scripts):
    """Scripts of the vendor by city."""

    def script(line, request):
        (input_parameter,) = request.json()["input_parameters"]
        scripts[input_parameter["value"]](line, request)

    return script


def to(*cities, **members):
    return calls(*({"arguments": {"Zip_code": city}} for city in cities), **members)


FAILS = json_reply({"message": "No such place."}, status=422)


@pytest.mark.parametrize(
    ("until", "first", "came"),
    [
        ("any", 2, [(200, "invalid_arguments"), (200, "cancelled"), (200, "ok"), (400, "invalid")]),
        ("race", 0, [(200, "invalid_arguments"), (200, "cancelled"), (200, "cancelled"), (400, "invalid")]),
    ],
)
def test_others_are_cancelled_once_one_has_come_first(owner, vendor, desk, until, first, came):
    client = runtime(owner, desk[0])
    failed = threading.Event()
    barrier = threading.Barrier(3)

    def fails(line, request):
        barrier.wait(20)
        FAILS(line, request)
        failed.set()

    def works(line, request):
        barrier.wait(20)
        if until == "any":
            failed.wait(20)
            ANSWER(line, request)
        else:
            line.wait(20)

    def waits(line, request):
        barrier.wait(20)
        line.wait(20)

    vendor.script = by_city(a=fails, b=waits, c=works)
    body = to("a", "b", "c", until=until)
    body["calls"].append({"tool": 7})
    headers = {"Idempotency-Key": "turn 9"}
    answer = client.post(URL, body, headers=headers).json()
    assert outcomes_of(answer["results"]) == came
    assert answer["first"] == first
    cancelled_count = sum(outcome == "cancelled" for _, outcome in came)
    assert AuditEntry.objects.filter(action="cancel").count() == cancelled_count
    assert "came first" in AuditEntry.objects.filter(action="cancel").first().why
    again = client.post(URL, body, headers=headers).json()
    assert (outcomes_of(again["results"]), again["first"]) == (came, first)
    assert len(vendor.requests) == Call.objects.count() == 3


def test_what_has_had_no_turn_when_another_comes_first_is_not_made(owner, vendor, desk):
    client = runtime(owner, desk[0])
    ApiKey.objects.update(calls_at_once=1)
    headers = {"Idempotency-Key": "turn 10"}
    for _ in range(2):
        answer = client.post(URL, to("a", "b", "c", until="race"), headers=headers).json()
        assert answer["first"] == 0
        assert outcomes_of(answer["results"]) == [(200, "ok"), (409, "cancelled"), (409, "cancelled")]
    assert len(vendor.requests) == Call.objects.count() == 1
    # If none succeeds, each reports its error.
    vendor.script = FAILS
    none = client.post(URL, to("a", "b", until="any")).json()
    assert none["first"] is None
    assert outcomes_of(none["results"]) == [(200, "invalid_arguments")] * 2


def test_the_array_of_a_model_is_raced_and_runs_in_an_environment(owner, vendor, desk):
    agent, pin = desk
    place = environments.create(agent, actor=owner, name="prototype")
    environments.bind(place, pin.tool, actor=owner, activity=None)
    client = runtime(owner, agent)
    written_calls = [{"_tool": "sky", "Zip_code": zip_code} for zip_code in ("a", "b")]
    latent = client.post(f"{URL}?environment=prototype&until=race", written_calls).json()
    # A latent call waits for its output, so it has not ended.
    assert (outcomes_of(latent["results"]), latent["first"]) == ([(200, "latent")] * 2, None)
    assert vendor.requests == []
    completed_calls = [written_calls[0], written_calls[1] | {"_output": {"Sky_now": "clear"}}]
    answered = client.post(f"{URL}?environment=prototype&until=any", completed_calls).json()
    assert answered["first"] == 1
    assert answered["results"][1]["answer"]["outputs"] == {"Sky_now": "clear"}
    results_outside = client.post(URL, calls({}, environment="prototype")).json()["results"]
    assert outcomes_of(results_outside) == [(200, "latent")]
    results_of_unknown = client.post(URL, calls({"environment": "nowhere"}, environment="prototype")).json()[
        "results"
    ]
    assert outcomes_of(results_of_unknown) == [(400, "unknown_environment")]
    for odd in ("?until=first", "?until="):
        assert client.post(URL + odd, written_calls).json()["fields"].keys() == {"until"}
    later = client.post(f"{URL}?until=any&mode=async", written_calls).json()["results"]
    assert outcomes_of(later) == [(400, "invalid")] * 2
    assert vendor.requests == []
