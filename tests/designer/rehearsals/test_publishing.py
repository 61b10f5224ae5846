"""Rehearsals before publishing: the figure beside that of the last release, and an agent's gate."""

import pytest

from designer.agents import agents
from designer.files import agent_copies, agent_files
from designer.models import RehearsalRun
from designer.pins import tunings
from designer.rehearsals import plans, sentences
from designer.rehearsals.sentences import NewSentence
from designer.releases import publishing
from designer.tasks import rehearse
from people.models import AuditEntry
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool
from tests.module_data import module_data
from tests.pages import text_of

API = "/api/v1/agents/desk/"
LEADS_ASTRAY = "Weather, weather: what the weather will be in Oslo"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sent_tasks(monkeypatch):
    """Messages that ask workers for an evaluation."""
    messages = []
    monkeypatch.setattr("celery.current_app.send_task", lambda name, args, **options: messages.append(args))
    return messages


@module_data
def desk(alice):
    """Released with two sentences that work."""
    agent = make_agent(slug="desk", name="Front desk")
    forecast = make_signature("forecast", inputs=(make_parameter(),))
    refill = make_signature("refill_prescription", description="Orders a medicine again", inputs=())
    for signature in (forecast, refill):
        make_pin(agent, make_tool(signature), name=signature.name)
    publishing.publish(agent, actor=alice, channel="live")
    new_sentences = [
        NewSentence("The weather in Oslo", "forecast"),
        NewSentence("Order a medicine", "refill_prescription"),
    ]
    sentences.add(agent, actor=alice, new_sentences=new_sentences)
    return agent


def lead_astray(desk, alice):
    tunings.tune(desk.pins.get(name="refill_prescription"), actor=alice, description=LEADS_ASTRAY)


def judge(sent):
    while sent:
        rehearse(*sent.pop())


def rehearsed(api):
    draft = api.get(f"{API}draft/").json()
    (rehearsal,) = draft["rehearsals"]
    codes = ("rehearsals", "rehearsal_gate", "rehearsals_pending")
    return rehearsal, [check for check in draft["checks"] if check["code"] in codes]


def test_the_draft_says_the_figure_beside_that_of_the_release_and_what_flipped(api, desk, alice, sent_tasks):
    lead_astray(desk, alice)
    rehearsal, (check,) = rehearsed(api)
    assert (rehearsal["now"], check["code"], check["severity"]) == (None, "rehearsals_pending", "warning")
    assert "Reload this page in a moment" in rehearsal["missing"]

    assert not RehearsalRun.objects.exists()  # no request judges
    judge(sent_tasks)
    rehearsal, (check,) = rehearsed(api)
    assert (rehearsal["now"], rehearsal["before"]) == ({"right": 0, "total": 2}, {"right": 2, "total": 2})
    assert [(flip["says"], flip["chosen"], flip["better"]) for flip in rehearsal["flips"]] == [
        ("The weather in Oslo", "refill_prescription", False),
        ("Order a medicine", "", False),
    ]
    assert (check["code"], check["severity"]) == ("rehearsal_gate", "warning")
    assert check["message"].startswith("0 of 2 tests passed, 2 of 2 in release 1. ")
    assert check["message"].endswith(
        ": “The weather in Oslo”: “refill_prescription” is chosen in place of “forecast”. “Order a medicine”:"
        " no tool is chosen in place of “refill_prescription”."
    )
    assert not sent_tasks
    assert not judged_twice()


def judged_twice():
    digests = RehearsalRun.objects.values_list("digest", flat=True)
    return len(digests) != len(set(digests))


def test_what_the_background_has_judged_is_not_judged_again(api, desk, alice, sent_tasks):
    rehearse(desk.pk)
    finished_run = RehearsalRun.objects.get()
    rehearsal, (check,) = rehearsed(api)

    # The draft equals the release, so one run covers both.
    assert (rehearsal["now"], rehearsal["before"]) == ({"right": 2, "total": 2}, {"right": 2, "total": 2})
    assert check["code"] == "rehearsals"
    assert (check["severity"], sent_tasks, RehearsalRun.objects.get()) == ("ok", [], finished_run)


def test_a_sentence_for_a_tool_that_came_later_is_no_flip(api, desk, alice, sent_tasks):
    tool = make_tool(make_signature("sing", description="Sings a song", inputs=()))
    make_pin(desk, tool, name="sing")
    sentences.add(desk, actor=alice, new_sentences=[NewSentence("Sing a song", "sing")])
    rehearsed(api)
    judge(sent_tasks)

    rehearsal, (check,) = rehearsed(api)
    assert (rehearsal["now"], rehearsal["before"], rehearsal["flips"]) == (
        {"right": 3, "total": 3},
        {"right": 2, "total": 2},
        [],
    )
    assert check["code"] == "rehearsals"


def gate(api, **rules):
    return api.put(f"{API}rehearsals/gate/", rules, format="json")


def test_a_gate_that_refuses_waits_for_results_and_then_names_what_flipped(api, desk, alice, sent_tasks):
    assert gate(api, gate="refuse").json() == {
        "gate": "refuse",
        "at_least": None,
        "on_flips": True,
        "judge": "built-in",
    }
    lead_astray(desk, alice)

    refused = api.post(f"{API}releases/", {}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "checks_failed")
    assert "have not finished yet" in refused.json()["message"]
    judge(sent_tasks)
    refused = api.post(f"{API}releases/", {}, format="json")
    assert "“The weather in Oslo”: “refill_prescription” is chosen" in refused.json()["message"]
    failed = [check for check in refused.json()["checks"] if check["severity"] == "error"]
    assert [check["code"] for check in failed] == ["rehearsal_gate"]

    payload = {"accept": ["rehearsal_gate"], "reason": "The weather goes."}
    published = api.post(f"{API}releases/", payload, format="json")
    assert published.status_code == 201, published.json()
    entry = AuditEntry.objects.filter(action="publish").latest("pk")
    assert "refill_prescription" in entry.after["accepted"][0]


@pytest.mark.parametrize(
    ("rules", "code", "severity"),
    [
        # The gate is open, and yet no test went as expected.
        ({"gate": "refuse", "on_flips": False}, "rehearsals", "warning"),
        ({"gate": "refuse", "on_flips": False, "at_least": 1}, "rehearsal_gate", "error"),
        ({"gate": "warn", "at_least": 2}, "rehearsal_gate", "warning"),
        # More than there are cannot be asked.
        ({"gate": "refuse", "at_least": 200}, "rehearsal_gate", "error"),
    ],
)
def test_the_gate_goes_by_what_the_designer_says(api, desk, alice, sent_tasks, rules, code, severity):
    gate(api, **rules)
    lead_astray(desk, alice)
    rehearsed(api)
    judge(sent_tasks)

    _, (check,) = rehearsed(api)
    assert (check["code"], check["severity"]) == (code, severity)


def test_a_gate_that_is_off_says_nothing(api, desk, alice, sent_tasks):
    gate(api, gate="off")
    lead_astray(desk, alice)
    rehearsed(api)
    judge(sent_tasks)

    rehearsal, checks = rehearsed(api)
    assert checks == []
    assert rehearsal["now"] == {"right": 0, "total": 2}


def test_a_sub_agent_is_rehearsed_by_its_own_sentences(api, desk, alice, sent_tasks):
    helper = agents.create_agent(actor=alice, name="Helper", parent=desk)
    make_pin(helper, make_tool(make_signature("sing", description="Sings", inputs=())), name="sing")
    sentences.add(
        helper, actor=alice, new_sentences=[NewSentence("Sings", "sing"), NewSentence("Hum", "sing")]
    )
    plans.set_gate(helper, actor=alice, gate="refuse", at_least=2)
    api.get(f"{API}draft/")
    judge(sent_tasks)

    draft = api.get(f"{API}draft/").json()
    assert [
        (rehearsal["agent"], rehearsal["now"], rehearsal["before"]) for rehearsal in draft["rehearsals"]
    ] == [
        ("Front desk", {"right": 2, "total": 2}, {"right": 2, "total": 2}),
        ("Helper", {"right": 1, "total": 2}, None),
    ]
    (failed,) = [check for check in draft["checks"] if check["severity"] == "error"]
    assert failed["message"].startswith("“Helper”: 1 of 2 tests passed. At least 2 ")


@pytest.mark.parametrize(
    "rules", [{"gate": "sometimes"}, {"gate": "warn", "at_least": 0}, {"gate": "warn", "at_least": 201}, {}]
)
def test_a_gate_that_cannot_be_is_refused(api, desk, rules):
    assert gate(api, **rules).status_code == 400


def test_a_gate_is_in_the_audit_trail_the_agents_file_and_its_copy(api, desk, alice):
    assert "rehearsal_gate" not in agent_files.write_file(desk)["agents"][0]
    gate(api, gate="refuse", at_least=2)
    entry = AuditEntry.objects.latest("pk")
    assert entry.after == {"rehearsal_gate": "refuse", "rehearsal_gate_at_least": 2}

    filed = agent_files.write_file(desk)
    assert filed["agents"][0]["rehearsal_gate"] == {"gate": "refuse", "at_least": 2, "on_flips": True}
    copy = agent_copies.copy_agent(desk, actor=alice)
    assert plans.facts(plans.plan_of(copy)) == plans.facts(plans.plan_of(desk))


def test_the_pages_show_and_set_it(desk, alice, client, sent_tasks):
    client.force_login(alice)
    rules = {"gate-gate": "refuse", "gate-on_flips": "on", "gate-at_least": ""}
    saved = client.post("/agents/desk/rehearsals/gate/", rules, follow=True)
    assert "Saved. The checks before publishing use it." in text_of(saved)
    wrong = client.post("/agents/desk/rehearsals/gate/", rules | {"gate-at_least": "0"}, follow=True)
    assert "Not saved" in text_of(wrong)

    lead_astray(desk, alice)
    assert "not finished yet" in text_of(client.get("/agents/desk/publish/"))
    judge(sent_tasks)
    page_text = text_of(client.get("/agents/desk/publish/"))
    assert "0 of 2 test phrases as expected, was 2 of 2 in release 1" in page_text
    assert "Worse “The weather in Oslo” before: forecast , now: refill_prescription" in page_text
    assert "1 failed" in page_text
