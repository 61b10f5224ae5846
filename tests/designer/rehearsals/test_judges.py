"""Judges over the network: set up by administrators, asked by workers, over real sockets."""

import json

import pytest
from django.utils import timezone

from designer.models import RehearsalJudge, RehearsalRun
from designer.rehearsals import judges, outside, sentences
from designer.rehearsals.sentences import NewSentence
from designer.releases import publishing
from designer.tasks import ask_judge
from people.models import AuditEntry, Role
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, drips, in_turn, json_reply, reply
from tests.pages import text_of

URL = "/api/v1/judges/"
DESK = "/api/v1/agents/desk/"
KEY = "sk-a-secret-of-ours"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sent_tasks(monkeypatch):
    messages = []
    monkeypatch.setattr(
        "celery.current_app.send_task", lambda name, args, **_: messages.append((name, *args))
    )
    return messages


@pytest.fixture
def desk(alice):
    agent = make_agent(slug="desk", name="Front desk")
    forecast = make_signature("forecast", inputs=(make_parameter(),))
    refill = make_signature("refill_prescription", description="Orders a medicine again", inputs=())
    for signature in (forecast, refill):
        make_pin(agent, make_tool(signature), name=signature.name)
    new_sentences = [
        NewSentence("The weather in Oslo", "forecast", {"city": "Oslo"}),
        NewSentence("Order a medicine", "refill_prescription"),
    ]
    sentences.add(agent, actor=alice, new_sentences=new_sentences)
    return agent


def calls(name, arguments="{}"):
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
    usage = {"prompt_tokens": 100, "completion_tokens": 7}
    return json_reply({"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}], "usage": usage})


def obeys(line, request):
    """Chooses as it should."""
    prompt = json.loads(request.body)["messages"][0]["content"]
    name, arguments = (
        ("forecast", '{"city": "oslo"}') if "weather" in prompt else ("refill_prescription", "{}")
    )
    calls(name, arguments)(line, request)


SPEAKS = json_reply({"choices": [{"message": {"role": "assistant", "content": "I can help with that."}}]})


def run_judge(api, actor, script, *, tries=1, seconds=2, passes=1):
    """Set up, chosen, run and worked off; the run over REST, and what the endpoint was sent."""
    with HostileVendor(script) as server:
        judge = judges.create(
            actor=actor,
            name="Big model",
            url=f"{server.url}/v1",
            model="big-1",
            key=KEY,
            tries=tries,
            seconds=seconds,
        )
        rules = {"gate": "refuse", "judge": str(judge.pk)}
        assert api.put(f"{DESK}rehearsals/gate/", rules, format="json").json()["judge"] == str(judge.pk)
        started = api.post(f"{DESK}rehearsals/run/")
        assert (started.status_code, started.json()["status"]) == (201, "queued")
        assert server.requests == []  # no request asks it
        for _ in range(passes):
            work()
        return api.get(f"{DESK}rehearsals/run/").json(), server.requests


def work():
    RehearsalRun.objects.filter(due_at__gt=timezone.now()).update(due_at=timezone.now())
    ask_judge()


@pytest.fixture
def ada():
    return make_user(Role.ADMIN, username="ada")


def test_it_is_sent_the_exported_tools_and_its_calls_are_read(api, ada, desk, alice):
    released = publishing.publish(desk, actor=alice, channel="live")
    exported = json.loads(publishing.export(released, "openai-chat")[0])
    run, requests = run_judge(api, ada, obeys, tries=2)

    assert (run["status"], run["right"], run["total"], run["model"]) == ("succeeded", 2, 2, "big-1")
    assert [row["choices"] for row in run["results"]] == [{"forecast": 2}, {"refill_prescription": 2}]
    assert (run["input_tokens"], run["output_tokens"]) == (400, 28)
    assert {request.path for request in requests} == {"/v1/chat/completions"}
    assert {request.headers["authorization"] for request in requests} == {f"Bearer {KEY}"}
    request_body = json.loads(requests[0].body)
    assert request_body == {
        "model": "big-1",
        "messages": [{"role": "user", "content": "The weather in Oslo"}],
        "tools": exported,
    }
    # The release equals the draft, so one run covers both.
    (rehearsal,) = api.get(f"{DESK}draft/").json()["rehearsals"]
    assert (rehearsal["judge"], rehearsal["now"], rehearsal["before"]) == (
        "Big model",
        {"right": 2, "total": 2},
        {"right": 2, "total": 2},
    )
    assert RehearsalRun.objects.get().payload == {}


def test_several_tries_show_their_spread(api, ada, desk, alice, client):
    three_of_five = [calls("forecast", '{"city": "Oslo"}')] * 3 + [SPEAKS, calls("refill_prescription")]
    run, _ = run_judge(api, ada, in_turn(*three_of_five, *[calls("refill_prescription")] * 5), tries=5)

    first, second = run["results"]
    assert first["choices"] == {"forecast": 3, "": 1, "refill_prescription": 1}
    assert (first["right"], first["margin"], second["margin"]) == (True, 0.4, 1.0)
    client.force_login(alice)
    page = text_of(client.get("/agents/desk/rehearsals/"))
    assert "forecast 3 of 5, no tool 1 of 5, refill_prescription 1 of 5" in page


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (SPEAKS, "The model called no tool."),
        (calls("sing"), "The model called “sing”, which the agent does not have."),
        (calls("<b>x</b>" * 40), "which the agent does not have."),
    ],
)
def test_what_it_chooses_is_said_in_words(api, ada, desk, script, message):
    run, _ = run_judge(api, ada, script)

    assert (run["status"], run["right"]) == ("succeeded", 0)
    assert message in run["results"][0]["message"]
    assert len(run["results"][0]["chosen"]) <= 110


def test_arguments_that_are_not_as_expected_are_named(api, ada, desk):
    run, _ = run_judge(api, ada, calls("forecast", "not JSON"))

    (input_result,) = run["results"][0]["inputs"]
    assert input_result["message"] == "0 of 1 tries passed “Oslo” for “city”."
    assert not run["results"][0]["right"]


@pytest.mark.parametrize(
    ("script", "expected_text", "asks_again"),
    [
        (json_reply({"error": {}}, status=401), "rejected the credential", False),
        (json_reply({}, status=404), "has nothing at", False),
        (reply(b"", status=302, headers={"Location": "http://10.0.0.1/"}), "redirects", False),
        (json_reply({}, status=429, headers={"Retry-After": "40"}), "asks to wait 40 s", True),
        (json_reply({}, status=500), "answered 500", True),
        (drips(b"HTTP/1.1 200 OK\r\n"), "", True),
        (reply(b"<html>Sign in</html>", headers={"Content-Type": "text/html"}), "a web page", True),
        (reply(b"{", headers={"Content-Type": "application/json"}), "JSON", True),
        (json_reply({"choices": []}), "not a chat completion", True),
        (json_reply({"choices": [{"message": {"tool_calls": [{}]}}]}), "without its name", True),
        (json_reply([1]), "not a chat completion", True),
        (json_reply({"choices": [{"message": {"content": KEY}}]}), "", False),
        (reply(b'"' + b"x" * 2_000_000 + b'"', headers={"Content-Type": "application/json"}), "", True),
    ],
    ids=[
        "401",
        "404",
        "302",
        "429",
        "500",
        "slow",
        "html",
        "cut",
        "none",
        "nameless",
        "list",
        "echo",
        "huge",
    ],
)
def test_what_goes_wrong_is_said_and_asked_again_where_that_helps(
    api, ada, desk, script, expected_text, asks_again
):
    run, _ = run_judge(api, ada, script, seconds=1)

    assert run["status"] == ("queued" if asks_again else "failed"), run
    failed = [row["failed"] for row in run["results"]]
    assert all(failed)
    assert expected_text in failed[0]
    assert KEY not in json.dumps(run)
    for _ in range(3):
        work()
    run = api.get(f"{DESK}rehearsals/run/").json()
    assert run["status"] == "failed"
    assert "sentences have no answer" in run["message"]
    (rehearsal,) = api.get(f"{DESK}draft/").json()["rehearsals"]
    assert rehearsal["missing"].startswith("“Big model” could not test the draft: ")


def test_what_was_answered_is_kept_and_not_asked_again(api, ada, desk):
    right = calls("forecast", '{"city": "Oslo"}'), calls("refill_prescription")
    script = in_turn(right[0], json_reply({}, status=503), right[1])
    run, requests = run_judge(api, ada, script, passes=2)

    assert (run["status"], run["right"]) == ("succeeded", 2)
    assert len(requests) == 3


def test_a_run_that_failed_goes_on_when_a_user_runs_it_again(api, ada, desk):
    right = calls("forecast", '{"city": "Oslo"}'), calls("refill_prescription")
    with HostileVendor(in_turn(right[0], json_reply({}, status=401), right[1])) as server:
        judge = judges.create(actor=ada, name="Big", url=server.url, model="big-1", key=KEY, tries=1)
        api.put(f"{DESK}rehearsals/gate/", {"gate": "warn", "judge": str(judge.pk)}, format="json")
        api.post(f"{DESK}rehearsals/run/")
        work()
        failed = api.get(f"{DESK}rehearsals/run/").json()
        assert (failed["status"], failed["right"]) == ("failed", 1)
        api.post(f"{DESK}rehearsals/run/")
        work()

    run = api.get(f"{DESK}rehearsals/run/").json()
    assert (run["status"], run["right"], len(server.requests)) == ("succeeded", 2, 3)


def test_a_run_that_a_worker_is_busy_with_is_left_alone_until_its_lease_ends(api, ada, desk, sent_tasks):
    with HostileVendor(obeys) as server:
        judge = judges.create(actor=ada, name="Big model", url=server.url, model="big-1")
        api.put(f"{DESK}rehearsals/gate/", {"gate": "warn", "judge": str(judge.pk)}, format="json")
        api.post(f"{DESK}rehearsals/run/")
        assert api.post(f"{DESK}rehearsals/run/").status_code == 201
        run = RehearsalRun.objects.get()  # asked for twice, and judged once
        RehearsalRun.objects.update(status="running", due_at=timezone.now() + outside.LEASE)
        ask_judge(run.pk)
        assert server.requests == []
        RehearsalRun.objects.update(due_at=timezone.now())
        sent_tasks.clear()
        outside.tick()
        assert sent_tasks == [(outside.TASK, run.pk)]
        ask_judge(run.pk)
        ask_judge(run.pk)
        assert len(server.requests) == 2 * judge.tries
        assert "authorization" not in server.requests[0].headers


def test_a_gate_that_goes_by_it_waits_until_it_was_asked(api, ada, desk, alice, client):
    judge = judges.create(actor=ada, name="Big model", url="http://127.0.0.1:9/v1", model="big-1")
    api.put(f"{DESK}rehearsals/gate/", {"gate": "refuse", "judge": str(judge.pk)}, format="json")

    refused = api.post(f"{DESK}releases/", {}, format="json").json()
    assert "“Big model” has not tested the draft. Run the tests" in refused["message"]
    client.force_login(alice)
    started = text_of(client.post("/agents/desk/rehearsals/run/", follow=True))
    assert "“Big model” runs the tests. Reload this page in a moment." in started
    assert "“Big model” is testing the draft" in text_of(client.get("/agents/desk/publish/"))


def test_administrators_set_it_up_and_its_key_is_never_shown(ada, client, api):
    client.force_login(ada)
    facts = {"name": "Big model", "url": "http://127.0.0.1:9/v1/", "model": "big-1"}
    facts |= {"tries": 3, "seconds": 30}
    added = client.post("/judges/", {**facts, "key": KEY}, follow=True)
    row = RehearsalJudge.objects.get()
    assert "was added" in text_of(added)
    assert judges.key_of(row).reveal() == KEY
    pages = [added, client.get(f"/judges/{row.pk}/"), api.get(URL), api.get(f"{URL}{row.pk}/")]
    assert all(KEY not in page.content.decode() for page in pages)

    client.post(f"/judges/{row.pk}/", {**facts, "tries": 5})
    row.refresh_from_db()
    assert (row.tries, judges.key_of(row).reveal()) == (5, KEY)
    # For another server it was not entered.
    client.post(f"/judges/{row.pk}/", {**facts, "url": "http://127.0.0.1:10/v1"})
    row.refresh_from_db()
    assert row.sealed == ""
    client.post(f"/judges/{row.pk}/remove/")
    assert api.get(URL).json()["results"] == []
    entries = AuditEntry.objects.filter(kind="rehearsaljudge").order_by("pk")
    assert [entry.action for entry in entries] == ["add", "edit", "edit", "remove"]
    assert KEY not in str([(entry.before, entry.after) for entry in entries])


def test_a_judge_whose_figure_counts_somewhere_is_not_removed(ada, desk, client, api):
    judge = judges.create(actor=ada, name="Big model", url="http://127.0.0.1:9/v1", model="big-1")
    api.put(f"{DESK}rehearsals/gate/", {"gate": "warn", "judge": str(judge.pk)}, format="json")
    client.force_login(ada)

    refused = client.post(f"/judges/{judge.pk}/remove/", follow=True)
    assert "“Front desk” use this evaluation model. Choose another one there first." in text_of(refused)
    back = api.put(f"{DESK}rehearsals/gate/", {"gate": "warn", "judge": "built-in"}, format="json")
    assert back.json()["judge"] == "built-in"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"url": "ftp://x"}, "url"),
        ({"url": "http://127.0.0.1/v1/chat/completions"}, "url"),
        ({"model": ""}, "model"),
        ({"tries": 6}, "tries"),
        ({"seconds": 0}, "seconds"),
        ({"key": "two words"}, "key"),
    ],
)
def test_what_cannot_be_is_refused(ada, client, fields, field):
    client.force_login(ada)
    facts = {"name": "Big model", "url": "http://127.0.0.1:9/v1", "model": "big-1", "tries": 3, "seconds": 30}
    refused = client.post(URL, {**facts, **fields}, content_type="application/json")

    assert refused.status_code == 400, refused.content
    assert field in refused.json()["fields"]
    assert not RehearsalJudge.objects.exists()


def test_an_agent_is_not_given_a_judge_that_is_not_there(api, desk):
    for judge in ("big", "00000000-0000-4000-8000-000000000001"):
        refused = api.put(f"{DESK}rehearsals/gate/", {"gate": "warn", "judge": judge}, format="json")
        assert (refused.status_code, refused.json()["code"]) == (400, "unknown_judge")
