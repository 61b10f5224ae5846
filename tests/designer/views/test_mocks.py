"""The pages of an agent's mocks: without JavaScript, by their forms."""

import json
import re
import uuid
from types import SimpleNamespace

import pytest
from django.test import Client
from django.utils import timezone

from catalog.models import Activity, Call
from catalog.rules.sensitive_values import MASK
from catalog.tools import sensitive_values
from core.errors import DomainError
from designer.environments import environments, mock_rehearsals, mocks
from designer.procedures import editing
from execution.calls import examples
from people.models import Role
from tests.factories import (
    make_agent,
    make_endpoint,
    make_parameter,
    make_pin,
    make_signature,
    make_tool,
    make_user,
)

URL = "/agents/desk/mocks/"


@pytest.fixture
def designer(client: Client, db):
    user = make_user(Role.DESIGNER)
    client.force_login(user)
    return user


@pytest.fixture
def desk(db):
    agent = make_agent(slug="desk", name="Desk")
    endpoint = make_endpoint(url="http://127.0.0.1:9/")
    for name in ("authenticate", "look_up"):
        signature = make_signature(name, inputs=(make_parameter("city"),), outputs=(make_parameter("sky"),))
        make_pin(agent, make_tool(signature, endpoint=endpoint))
    return agent


def pin_of(desk, name="look_up"):
    return desk.pins.select_related("version", "tool", "agent").get(name=name)


def test_a_mock_is_set_up_by_choices_and_shows_what_it_answers(client, designer, desk):
    pin = pin_of(desk)
    page = f"{URL}{pin.pk}/"
    examples.store_example(pin.tool, {"city": "Oslo"}, actor=designer, name="Oslo")

    client.post(page, {"act": "seed", "seed": "9"})
    client.post(page, {"act": "example", "inputs-input-0": "Oslo", "outputs-input-0": "snow"})
    client.post(
        page,
        {
            "act": "situation",
            "kind": "unavailable",
            "unavailable-retry_after": "7",
            "unavailable-input": "city",
            "unavailable-like": "At*",
        },
    )
    saved = mocks.mock_of_pin(pin).config
    assert saved == {
        "seed": 9,
        "examples": [{"arguments": {"city": "Oslo"}, "outputs": {"sky": "snow"}}],
        "situations": [{"name": "unavailable", "retry_after": 7, "when": {"city": "At*"}}],
    }
    page_html = client.get(page, {"try": "1", "try-input-0": "Oslo"}).content.decode()
    away = client.get(page, {"try": "1", "try-input-0": "Atlantis"}).content.decode()
    filled = client.get(page, {"example": pin.tool.examples.get().pk}).content.decode()
    assert "Example 1 matches the inputs." in page_html
    assert "Retry after 7 seconds." in away
    assert "Oslo</textarea>" in filled
    client.post(page, {"act": "switch", "at": "0", "on": "0"})
    client.post(page, {"act": "remove", "of": "examples", "at": "0"})
    after = mocks.mock_of_pin(pin)
    assert after.active_situations == []
    assert after.mock.examples == ()


def test_a_made_up_answer_is_kept_as_an_example(client, designer, desk):
    pin = pin_of(desk)
    page = f"{URL}{pin.pk}/?try=1&try-input-0=Rome"
    outputs = mocks.preview(pin, {}, {"city": "Rome"}).outcome.outputs

    client.post(page, {"act": "keep"})

    assert mocks.mock_of_pin(pin).config["examples"] == [{"arguments": {"city": "Rome"}, "outputs": outputs}]


@pytest.mark.parametrize(
    ("payload", "expected_text"),
    [
        ({"act": "seed", "seed": "-1"}, "greater than or equal to 0"),
        ({"act": "example"}, "Is required"),
        ({"act": "situation", "kind": "slow", "slow-seconds": "0"}, "greater than or equal to 0.1"),
    ],
)
def test_what_cannot_be_kept_is_said_at_its_field(client, designer, desk, payload, expected_text):
    answer = client.post(f"{URL}{pin_of(desk).pk}/", payload)

    assert answer.status_code == 400
    assert expected_text in answer.content.decode()
    assert not Activity.objects.exists()


def test_a_late_edit_of_a_mock_is_refused(client, designer, desk):
    pin = pin_of(desk)
    page = f"{URL}{pin.pk}/"
    client.post(page, {"act": "seed", "seed": "1"})
    expected = re.search(r'name="expected" value="(\w+)"', client.get(page).content.decode())[1]
    client.post(page, {"act": "seed", "seed": "2"})

    late = client.post(page, {"act": "seed", "seed": "3", "expected": expected})

    assert "has changed this since you opened it" in late.content.decode()
    assert mocks.mock_of_pin(pin).mock.seed == 2


def test_a_procedure_is_rehearsed_step_by_step_and_the_assertions_are_judged(client, designer, desk):
    body = "1. authenticate(city) first.\n2. Then look_up(city=Oslo), and tell look_up().sky."
    editing.create_procedure(desk, actor=designer, title="Weather", body=body)
    client.post(URL, {"add": "1", "tool": "authenticate", "is": "before", "other": "look_up"})
    rehearsal = client.get(f"{URL}procedures/weather/").headers["Location"]
    page_html = client.get(rehearsal).content.decode()
    assert 'is-idle" role="status">0 of 2 steps succeeded' in page_html
    assert "Line 2: 2. Then look_up(city=Oslo)" in page_html
    assert "Oslo</textarea>" in page_html

    def run(step, city):
        address = rehearsal.replace("/?", f"/{step}/?")
        return client.post(address, {f"step-{step}-input-0": city}, follow=True).content.decode()

    early = run(2, "Oslo")
    assert 'is-warn" role="status">0 of 2 steps succeeded' in early
    assert "It ran before step 1" in early
    assert "Failed" in client.get(URL).content.decode()
    assert "is required" in run(1, "").lower()
    assert "1 of 2 steps succeeded" in run(1, "Rome")
    assert 'is-ok" role="status">2 of 2 steps succeeded' in run(2, "Rome")
    assert [call.arguments["city"] for call in mocks.calls(desk, mocks.CallFilter()).order_by("pk")] == [
        "Oslo",
        "Rome",
        "Rome",
    ]
    later = Call.objects.order_by("pk")[1].queued_at.isoformat()
    assert "Passed" in client.get(URL, {"since": later}).content.decode()
    client.post(URL, {"remove": "0"})
    assert mocks.assertions_of(desk) == []


@pytest.fixture
def mail(designer):
    """An agent with a procedure that finds an address and sends to it."""
    agent = make_agent(slug="mail")
    address, sent_output = make_parameter("email_address"), make_parameter("sent")
    for name, inputs, outputs in (
        ("find", [make_parameter("city")], [address]),
        ("send", [address], [sent_output]),
    ):
        make_pin(agent, make_tool(make_signature(name, inputs=inputs, outputs=outputs)))
    body = "1. find(city=Oslo).\n2. Then send()."
    editing.create_procedure(agent, actor=designer, title="Mail", body=body)
    return agent


def answered_by_vendor(pin, designer, outputs) -> Call:
    return Call.objects.create(
        tool=pin.tool,
        version=pin.version,
        requested_by=designer,
        status="finished",
        outcome="ok",
        finished_at=timezone.now(),
        gives_up_at=timezone.now(),
        result=json.dumps({"outputs": outputs}),
    )


def rehearsal_of(client, agent):
    address = client.get(f"/agents/{agent.slug}/mocks/procedures/mail/").headers["Location"]

    def run(step, **values):
        payload = {f"step-{step}-{name.replace('_', '-', 1)}": value for name, value in values.items()}
        return client.post(address.replace("/?", f"/{step}/?"), payload, follow=True).content.decode()

    return run


def example_of(pin, designer, outputs):
    mocks.save(pin, actor=designer, config={"examples": [{"outputs": outputs}]})


def test_a_result_is_carried_to_the_next_step_by_its_name(client, designer, mail):
    find, _ = mail.pins.order_by("pk")
    example_of(find, designer, {"email_address": "ada@example.com"})
    page = rehearsal_of(client, mail)(1, input_0="Oslo")
    assert "ada@example.com</textarea>" in page


def test_a_step_whose_result_says_that_nothing_was_sent_has_not_gone_well(client, designer, mail):
    _, send = mail.pins.order_by("pk")
    example_of(send, designer, {"sent": "no"})
    run = rehearsal_of(client, mail)
    run(1, input_0="Oslo")
    page = run(2, input_0="ada@example.com")
    assert 'is-warn" role="status">1 of 2 steps succeeded' in page
    assert "Nothing done" in page


def test_a_real_answer_is_taken_before_one_is_made_up(client, designer, mail):
    find, _ = mail.pins.select_related("version", "tool").order_by("pk")
    answered_by_vendor(find, designer, {"email_address": "real@example.com"})
    assert "real@example.com" in rehearsal_of(client, mail)(1, input_0="Oslo")
    example_of(find, designer, {"email_address": "chosen@example.com"})
    page = rehearsal_of(client, mail)(1, input_0="Oslo")
    assert "chosen@example.com" in page
    assert "real@example.com" not in page


def test_a_real_answer_that_does_not_fit_the_version_any_more_is_not_taken(client, designer, mail):
    find, _ = mail.pins.select_related("version", "tool").order_by("pk")
    answered_by_vendor(find, designer, {"email_address": [1]})
    rehearsal_of(client, mail)(1, input_0="Oslo")
    assert mocks.mock_of_pin(find).mock.examples == ()


def test_the_list_costs_the_same_however_many_tools_and_calls_there_are(
    client, designer, desk, django_assert_max_num_queries
):
    endpoint = desk.pins.first().tool.endpoint
    for number in range(8):
        make_pin(desk, make_tool(make_signature(f"more_{number}"), endpoint=endpoint))
    for pin in desk.pins.select_related("version", "tool", "agent"):
        mocks.call_step(pin, actor=designer, key=uuid.uuid4(), arguments={"city": "Oslo"})

    with django_assert_max_num_queries(21):
        assert client.get(URL).content.decode().count('id="call-') == 10


def test_a_viewer_looks_and_changes_nothing(client, desk):
    client.force_login(make_user(Role.VIEWER))
    page = f"{URL}{pin_of(desk).pk}/"

    assert client.get(URL).status_code == client.get(page).status_code == 200
    assert client.post(page, {"act": "seed", "seed": "1"}).status_code == 403
    assert not Activity.objects.exists()


def test_a_procedure_is_tested_against_mocks_in_one_press(client, designer, desk):
    editing.create_procedure(desk, actor=designer, title="Weather", body="1. authenticate()\n2. look_up()")
    page = client.get("/agents/desk/rehearsals/").content.decode()
    assert 'action="/agents/desk/mocks/procedures/weather/run/"' in page

    rehearsal = client.post(f"{URL}procedures/weather/run/", follow=True)

    walk = rehearsal.context["rehearsal"]
    assert (walk.state, walk.done) == ("passed", 2)
    environment = desk.environments.get()
    assert environment.name == "mocks"
    assert {binding.bound_version.kind for binding in environments.bindings_of(environment)} == {"mock"}
    client.post(f"{URL}procedures/weather/run/")
    assert desk.environments.count() == 1


def test_the_steps_before_an_error_are_kept(client, designer, desk, monkeypatch):
    editing.create_procedure(desk, actor=designer, title="Weather", body="1. authenticate()\n2. look_up()")
    complete = mock_rehearsals.MockRehearsalStep.complete_arguments

    def fail_at_the_second(step, seed):
        if step.number == 2:
            raise DomainError("inputs_unmet", "Run this step by hand.", status=409)
        return complete(step, seed)

    monkeypatch.setattr(mock_rehearsals.MockRehearsalStep, "complete_arguments", fail_at_the_second)
    page = client.post(f"{URL}procedures/weather/run/", follow=True)
    assert (page.context["rehearsal"].done, page.context["rehearsal"].next) == (1, 2)
    assert [str(message) for message in page.context["messages"]] == ["Run this step by hand."]


def test_a_slow_test_is_continued_by_its_user(client, designer, desk, monkeypatch):
    editing.create_procedure(desk, actor=designer, title="Weather", body="1. authenticate()\n2. look_up()")
    clock = iter([0.0, 0.0, 1.0, mock_rehearsals.MAX_SECONDS + 1])
    with monkeypatch.context() as slow:
        slow.setattr(mock_rehearsals, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        page = client.post(f"{URL}procedures/weather/run/", follow=True)
    assert (page.context["rehearsal"].done, page.context["rehearsal"].can_continue) == (1, True)
    assert list(page.context["messages"])
    again = f"{URL}procedures/weather/run/?run={page.context['run']}"
    assert f'action="{again}"' in page.content.decode()
    walk = client.post(again, follow=True).context["rehearsal"]
    assert (walk.run, walk.state, walk.can_continue) == (page.context["run"], "passed", False)


def test_a_viewer_cannot_press_it(client, desk):
    client.force_login(make_user(Role.VIEWER))
    assert client.post(f"{URL}procedures/weather/run/").status_code == 403


def test_a_sensitive_result_is_masked_in_every_step_that_repeats_it(client, designer, mail):
    find, send = mail.pins.select_related("tool").order_by("pk")
    sensitive_values.mark(find.tool, actor=designer, inputs=[], outputs=["/email_address"])
    example_of(find, designer, {"email_address": "ada@example.com"})
    run = rehearsal_of(client, mail)
    pages = [run(1, input_0="Oslo"), run(2, input_0=MASK)]
    (call,) = Call.objects.filter(tool=send.tool)
    assert call.arguments == {"email_address": "ada@example.com"}
    addresses = [
        f"/tools/{send.tool_id}/try/?call={call.pk}",
        f"/api/v1/tools/{send.tool_id}/calls/{call.pk}/",
    ]
    pages += [client.get(address).content.decode() for address in addresses]
    assert [page for page in pages if "ada@example.com" in page or MASK not in page] == []
