"""Sentences of an agent over REST: added, judged by the built-in judge, and what flips when words change."""

import pytest

from designer.models import Rehearsal, RehearsalPlan, RehearsalRun
from designer.pins import pins, tunings
from designer.rehearsals import schedule
from people.models import AuditEntry
from protocols.signature import AllowedValue
from tests.factories import make_agent, make_parameter, make_pin, make_signature, make_tool
from tests.pages import text_of

URL = "/api/v1/agents/desk/rehearsals/"
RUN = f"{URL}run/"

pytestmark = pytest.mark.django_db

UNITS = make_parameter(
    "units", type="enum", allowed_values=(AllowedValue(name="metric"), AllowedValue(name="imperial"))
)
DAYS = make_parameter("days", type="int", required=False)


@pytest.fixture
def desk():
    agent = make_agent(slug="desk", name="Front desk")
    forecast = make_signature("forecast", inputs=(make_parameter(), UNITS, DAYS))
    refill = make_signature("refill_prescription", description="Orders a medicine again", inputs=())
    for signature in (forecast, refill):
        make_pin(agent, make_tool(signature), name=signature.name)
    return agent


def add(api, phrase, tool, **inputs):
    expects = {"tool": tool, **({"inputs": inputs} if inputs else {})}
    answer = api.post(URL, {"says": phrase, "expects": expects}, format="json")
    assert answer.status_code == 201, answer.json()
    return answer.json()


def test_a_run_says_what_was_chosen_and_by_how_much(api, desk):
    first = add(api, "What will the weather be in Oslo?", "forecast")
    add(api, "Sing me a song", "forecast")

    answer = api.post(RUN)
    assert answer.status_code == 201
    run = answer.json()
    weather, song = run["results"]
    assert (run["right"], run["total"], run["before"], run["judge"]) == (1, 2, None, "built-in")
    assert (weather["rehearsal"], weather["chosen"], weather["right"]) == (first["id"], "forecast", True)
    assert weather["margin"] == 1
    assert (song["chosen"], song["right"]) == ("", False)
    assert song["message"] == "No tool matches this phrase."
    assert api.get(RUN).json() == run


def test_values_of_inputs_are_looked_for_in_the_sentence(api, desk):
    inputs = {"units": "metric", "days": 3, "city": "Oslo"}
    add(api, "The weather in Oslo for 3 days, in metric units", "forecast", **inputs)
    add(api, "The weather in Oslo", "forecast", units="metric", wind=True)

    with_values, unsaid = api.post(RUN).json()["results"]
    assert with_values["right"], with_values["inputs"]
    assert not unsaid["right"]
    assert unsaid["chosen"] == "forecast"
    assert [input_result["message"] for input_result in unsaid["inputs"]] == [
        "The phrase does not contain “metric” for “units”.",
        "“forecast” has no input “wind”.",
    ]


def test_words_that_lead_astray_flip_a_sentence(api, desk, alice):
    add(api, "What will the weather be in Oslo?", "forecast")
    api.post(RUN)
    pin = desk.pins.get(name="refill_prescription")
    tunings.tune(pin, actor=alice, description="Weather, weather: what the weather will be in Oslo")

    run = api.post(RUN).json()
    assert (run["right"], run["before"]) == (0, {"right": 1, "total": 1})
    assert run["flips"] == [
        {
            "says": "What will the weather be in Oslo?",
            "expected": "forecast",
            "chosen": "refill_prescription",
            "before": "forecast",
            "better": False,
        }
    ]


def test_a_sentence_follows_its_tool_to_another_name(api, desk, alice):
    row = add(api, "The weather in Oslo", "forecast")
    pins.set_alias(desk.pins.get(name="forecast"), actor=alice, alias="look_at_the_sky")

    assert api.get(f"{URL}{row['id']}/").json()["expects"]["tool"] == "look_at_the_sky"
    assert api.post(RUN).json()["results"][0]["chosen"] == "look_at_the_sky"


def test_a_sentence_whose_tool_is_gone_says_so(api, desk, alice):
    add(api, "The weather in Oslo", "forecast")
    tool = desk.pins.get(name="forecast")
    pins.remove_pin(tool, actor=alice)

    (answer,) = api.post(RUN).json()["results"]
    assert answer["message"] == f"The agent no longer has “{tool.tool}”."
    assert not answer["right"]


def test_sentences_are_edited_and_removed_with_a_row_in_the_trail(api, desk):
    row = add(api, "The weather", "forecast")
    other = {"says": "More pills", "expects": {"tool": "refill_prescription"}}
    changed = api.patch(f"{URL}{row['id']}/", other, format="json")

    assert changed.json()["expects"] == {"tool": "refill_prescription", "inputs": {}}
    assert api.delete(f"{URL}{row['id']}/").status_code == 204
    assert api.get(URL).json()["results"] == []
    actions = AuditEntry.objects.filter(kind="rehearsal", agent=desk.pk).order_by("pk")
    assert [entry.action for entry in actions] == ["create", "edit", "remove"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"says": " ", "expects": {"tool": "forecast"}}, "says"),
        ({"says": "Hello", "expects": {"tool": "sing"}}, "tool"),
        ({"says": "Hello", "expects": {"tool": "forecast", "inputs": {"x": "y" * 5_000}}}, "inputs"),
        ({"says": "x" * 1_001, "expects": {"tool": "forecast"}}, "says"),
        ({"says": "Hello", "expects": {}}, "expects.tool"),
    ],
)
def test_what_cannot_be_kept_is_refused(api, desk, body, field):
    refused = api.post(URL, body, format="json")

    assert refused.status_code == 400
    assert field in refused.json()["fields"]
    assert not Rehearsal.objects.exists()


def test_without_sentences_there_is_nothing_to_run(api, desk):
    assert api.post(RUN).json()["code"] == "no_rehearsals"
    assert api.get(RUN).json()["code"] == "no_rehearsal_run"


def test_each_change_of_what_a_model_is_shown_is_rehearsed_in_the_background(api, desk, alice, monkeypatch):
    messages = []
    monkeypatch.setattr(
        "celery.current_app.send_task", lambda name, args, **_: messages.append((name, *args))
    )

    def rehearsed():
        RehearsalPlan.objects.update(looked_at="2020-01-01T00:00Z", asked_at=None)
        messages.clear()
        schedule.tick()
        for _, agent in messages:
            schedule.perform(agent)
        return len(messages), RehearsalRun.objects.count()

    add(api, "The weather in Oslo", "forecast")
    assert rehearsed() == (1, 1)
    assert rehearsed() == (0, 1)
    tunings.tune(desk.pins.get(name="forecast"), actor=alice, description="What the sky will do in a city")
    assert rehearsed() == (1, 2)
    tool = desk.pins.get(name="refill_prescription").tool
    tunings.tune(tool, actor=alice, description="Another box of pills")
    assert rehearsed() == (1, 3)
    assert messages == [("designer.tasks.rehearse", desk.pk)]


def test_a_message_that_got_lost_is_sent_again_only_after_a_minute(api, desk, monkeypatch):
    messages = []
    monkeypatch.setattr("celery.current_app.send_task", lambda name, args, **options: messages.append(name))
    add(api, "The weather in Oslo", "forecast")
    for _ in range(3):
        RehearsalPlan.objects.update(looked_at="2020-01-01T00:00Z")
        schedule.tick()
    assert len(messages) == 1
    RehearsalPlan.objects.update(looked_at="2020-01-01T00:00Z", asked_at="2020-01-01T00:00Z")
    schedule.tick()
    assert len(messages) == 2


def test_the_page_takes_sentences_runs_them_and_says_what_flipped(desk, alice, client):
    client.force_login(alice)
    page = "/agents/desk/rehearsals/"
    lines = "The weather in Oslo => forecast city: Oslo\n"
    lines += "More pills => refill_prescription\n\nOrder a medicine\trefill_prescription\n"
    assert client.post(page, {"lines": lines}).status_code == 302
    assert "3 of 3" not in text_of(client.get(page))
    client.post(f"{page}run/")
    pin = desk.pins.get(name="refill_prescription")
    tunings.tune(pin, actor=alice, description="Pills")
    assert "before the last change" in text_of(client.get(page))
    client.post(f"{page}run/")

    page_text = text_of(client.get(page))
    assert "2 of 3 tests as expected" in page_text
    assert "was 2 of 3" in page_text
    assert "Worse “Order a medicine” before: refill_prescription , now: no tool" in page_text
    assert "Better “More pills” before: no tool, now: refill_prescription" in page_text


@pytest.mark.parametrize(
    ("lines", "expected_text"),
    [
        ("What now?", "Line 1 names no tool."),
        ("Fine => forecast\nWhat now? => sing", "Line 2: The agent has no tool “sing”."),
        ("What now? => forecast {city}", "Line 1: “{city}” is not a JSON object."),
        ("What now? => forecast in Oslo", "Line 1: “in Oslo” is not an input. Write: city: Paris, days: 3"),
        (
            "What now? => forecast wind: 3",
            "Line 1: “forecast” has no input “wind”. It has: city, units, days.",
        ),
        ("What now? => forecast days: few", "Line 1: “days” cannot become a whole number."),
    ],
)
def test_pasted_lines_are_all_taken_or_none(desk, alice, client, lines, expected_text):
    client.force_login(alice)
    refused = client.post("/agents/desk/rehearsals/", {"lines": lines})

    assert refused.status_code == 400
    assert expected_text in text_of(refused)
    assert not Rehearsal.objects.exists()


@pytest.mark.parametrize(
    ("inputs", "expected_inputs"),
    [
        ("", {}),
        ("city: Oslo", {"city": "Oslo"}),
        ('city: "Oslo, Norway",  days:3', {"city": "Oslo, Norway", "days": 3}),
        ("city: at 10:30, units: metric", {"city": "at 10:30", "units": "metric"}),
        ('{"city": "Oslo", "days": 3}', {"city": "Oslo", "days": 3}),
    ],
)
def test_pasted_lines_say_inputs_in_words(desk, alice, client, inputs, expected_inputs):
    client.force_login(alice)
    client.post("/agents/desk/rehearsals/", {"lines": f"The weather => forecast {inputs}"})
    assert Rehearsal.objects.get().inputs == expected_inputs


def test_a_sentence_is_edited_and_removed_on_its_page(desk, alice, api, client):
    client.force_login(alice)
    typed = {"says": "The weather", "tool": "forecast"}
    added = client.post("/agents/desk/rehearsals/", {**typed, "inputs": ""})
    row = Rehearsal.objects.get()
    page = f"/agents/desk/rehearsals/{row.pk}/"
    assert added.headers["Location"] == f"{page}#inputs"
    filled = {**typed, "inputs_of": "forecast", "inputs-input-0": "Oslo", "inputs-input-1": "metric"}
    wrong = client.post(page, {**filled, "inputs-input-2": "few"})
    assert (wrong.status_code, "whole number" in text_of(wrong)) == (400, True)
    assert client.post(page, {**filled, "inputs-input-2": "3"}).status_code == 302
    row.refresh_from_db()
    assert row.inputs == {"city": "Oslo", "units": "metric", "days": 3}
    assert "city: Oslo" in text_of(client.get("/agents/desk/rehearsals/"))
    # Without a script the fields of another tool come after it was saved.
    client.post(page, {**filled, "says": "Pills", "tool": "refill_prescription"})
    row.refresh_from_db()
    assert (row.says, row.inputs) == ("Pills", {})
    assert "refill_prescription takes no input." in text_of(client.get(page))
    moved = client.post(page, {**typed, "inputs_of": "refill_prescription"})
    assert moved.headers["Location"] == f"{page}#inputs"
    assert "Expected inputs" in text_of(client.get(page))
    assert "Expected inputs" in text_of(client.get(f"{page}?tool=forecast"))
    client.post(f"{page}remove/")
    assert not Rehearsal.objects.exists()


def test_an_input_that_is_shown_no_more_is_told_and_left_out(desk, alice, api, client):
    client.force_login(alice)
    page = f"/agents/desk/rehearsals/{add(api, 'The weather', 'forecast', city='Oslo', wind=3)['id']}/"
    assert "forecast does not show “wind” any more. Saving leaves it out." in text_of(client.get(page))
    payload = {"says": "The weather", "tool": "forecast", "inputs_of": "forecast", "inputs-input-0": "Oslo"}
    client.post(page, payload)
    assert Rehearsal.objects.get().inputs == {"city": "Oslo"}


def test_the_page_costs_the_same_however_many_sentences(
    desk, alice, api, client, django_assert_max_num_queries
):
    client.force_login(alice)
    for number in range(20):
        add(api, f"The weather of day {number}", "forecast")
    api.post(RUN)
    with django_assert_max_num_queries(13):
        client.get("/agents/desk/rehearsals/")
