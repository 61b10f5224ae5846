"""Values that a designer has marked are masked for people, and shown on request with an audit entry."""

import json

import msgspec
import pytest
from django.test import Client
from rest_framework.test import APIClient

from catalog.models import Call
from catalog.models.calls import Result, StoredQuestion
from catalog.rules.sensitive_values import MASK, mask, members_of, restore, sensitive_texts, strike
from catalog.tools import sensitive_values
from core.errors import DomainError
from designer.agents import agents
from designer.environments import mocks
from designer.models import Tuning
from designer.pins import pins
from designer.rehearsals import sentences
from designer.releases import rehearsed
from execution.api import calls
from execution.calls import events, examples, latent, requesting
from people import api_keys
from people.models import AuditEntry, KeyScope, Role
from tests.factories import make_parameter, make_signature, make_tool, make_user

SECRET = "4929-1"
CUSTOMER = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "cards": {
            "type": "array",
            "items": {"type": "object", "properties": {"cardNumber": {"type": "string"}}},
        },
        "note": {"type": "string", "writeOnly": True},
    },
}


def signature():
    return make_signature(
        name="pay",
        inputs=(make_parameter(), make_parameter("customer", type="json", schema=CUSTOMER)),
        outputs=(make_parameter("receipt"), make_parameter("iban")),
    )


@pytest.fixture
def designer(db):
    return make_user(Role.DESIGNER, username="ada")


@pytest.fixture
def call(designer):
    tool = make_tool(signature())
    arguments = {"city": "Oslo", "customer": {"name": "Eve", "cards": [{"cardNumber": SECRET}]}}
    row = requesting.request_call(tool.current, actor=designer, arguments=arguments)
    result = {
        "outputs": {"receipt": f"Paid with {SECRET}", "iban": "NO93 8601"},
        "attempts": [{"outcome": "ok", "exchanges": [{"method": "POST", "url": "http://v", "body": SECRET}]}],
    }
    Call.objects.filter(pk=row.pk).update(status="finished", outcome="ok", result=json.dumps(result))
    sensitive_values.mark(tool, actor=designer, inputs=["/customer/cards/cardNumber"], outputs=["/iban"])
    return Call.objects.get(pk=row.pk)


def program(user) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


def doors(call: Call) -> list[str]:
    tool = call.tool_id
    return [
        f"/tools/{tool}/try/",
        f"/tools/{tool}/try/?call={call.pk}",
        f"/tools/{tool}/try/?example={call.tool.examples.get().pk}",
        f"/api/v1/tools/{tool}/calls/",
        f"/api/v1/tools/{tool}/calls/{call.pk}/",
        f"/api/v1/tools/{tool}/examples/",
        f"/api/v1/tools/{tool}/examples/{call.tool.examples.get().pk}/",
        "/audit/",
        "/api/v1/audit/",
    ]


def test_no_door_shows_a_marked_value(call, designer):
    examples.save_example(call, actor=designer, name="One")
    for address in doors(call):
        answer = program(designer).get(address)
        text = answer.content.decode()
        assert answer.status_code == 200
        assert SECRET not in text, address
        assert "NO93" not in text, address
    one = program(designer).get(f"/api/v1/tools/{call.tool_id}/calls/{call.pk}/").json()
    assert one["arguments"] == {"city": "Oslo", "customer": {"name": "Eve", "cards": [{"cardNumber": MASK}]}}
    assert one["outputs"] == {"receipt": f"Paid with {MASK}", "iban": MASK}


@pytest.mark.parametrize("is_page", [True, False])
def test_it_is_shown_on_request_and_recorded(call, designer, is_page):
    address = f"/tools/{call.tool_id}/calls/{call.pk}/show/"
    answer = program(designer).post(address if is_page else f"/api/v1{address}")
    assert answer.status_code == 200
    assert "NO93 8601" in answer.content.decode()
    entry = AuditEntry.objects.get(action="show sensitive")
    assert (entry.actor, entry.object_id, entry.after) == (designer, str(call.tool_id), {"call": call.pk})
    assert program(make_user(Role.VIEWER)).post(address).status_code == 403
    assert AuditEntry.objects.filter(action="show sensitive").count() == 1


def test_a_result_so_far_repeats_no_marked_value(call, designer):
    Call.objects.filter(pk=call.pk).update(status="queued", outcome="", result="", mode="stream")
    outputs = {"receipt": f"Paying with {SECRET}", "iban": "NO93 8601", "shown": "Under way"}
    events.publish(call.key, events.PARTIAL, {"outputs": outputs})

    page = program(designer).get(f"/tools/{call.tool_id}/try/?call={call.pk}").content.decode()

    assert "Under way" in page
    assert SECRET not in page
    assert "NO93 8601" not in page


def test_the_key_that_sent_a_call_gets_it_unmasked(call, designer):
    key, plain = api_keys.issue(designer, actor=designer, name="Own", scopes=[KeyScope.DESIGN])
    _, other_plain = api_keys.issue(designer, actor=designer, name="Other", scopes=[KeyScope.DESIGN])
    Call.objects.filter(pk=call.pk).update(api_key=key)
    address, outputs = f"/api/v1/tools/{call.tool_id}/calls/{call.pk}/", []
    for text in (plain, other_plain):
        answer = APIClient(headers={"authorization": f"Bearer {text}"}).get(address)
        outputs.append(answer.json()["outputs"]["iban"])
    assert outputs == ["NO93 8601", MASK]


@pytest.mark.parametrize("path", ["continue", "output"])
def test_a_refused_form_fills_in_no_marked_value(call, designer, path):
    schema = {"type": "object", "properties": {"room": {"type": "integer"}}, "required": ["room"]}
    asking = Result(asks=[StoredQuestion("q", "Which?", schema=schema)], resume={})
    outcome = latent.LATENT.outcome if path == "output" else "needs_input"
    Call.objects.filter(pk=call.pk).update(outcome=outcome, result=msgspec.json.encode(asking).decode())
    wrong = {"ask-0-input-0": "x", "output-input-0": "", "output-input-1": ""}
    answer = program(designer).post(f"/tools/{call.tool_id}/calls/{call.pk}/{path}/", wrong)
    assert answer.status_code == 200
    assert SECRET not in answer.content.decode()


def test_a_call_of_another_key_is_continued_masked(call, designer, monkeypatch):
    key, plain = api_keys.issue(designer, actor=designer, name="Own", scopes=[KeyScope.DESIGN])
    _, other_plain = api_keys.issue(designer, actor=designer, name="Other", scopes=[KeyScope.DESIGN])
    Call.objects.filter(pk=call.pk).update(api_key=key)
    monkeypatch.setattr(calls.invocation, "continue_now", lambda earlier, **_: earlier)
    address, cards = f"/api/v1/tools/{call.tool_id}/calls/{call.pk}/resume/", []
    for client in (
        APIClient(headers={"authorization": f"Bearer {plain}"}),
        APIClient(headers={"authorization": f"Bearer {other_plain}"}),
        program(designer),
    ):
        arguments = client.post(address, {}, format="json").json()["arguments"]
        cards.append(arguments["customer"]["cards"][0]["cardNumber"])
    assert cards == [SECRET, MASK, MASK]


def test_a_person_sees_the_outputs_of_an_own_call_masked(call, designer, monkeypatch):
    monkeypatch.setattr(calls.invocation, "call_now", lambda *_, **__: call)
    reply = program(designer).post(f"/api/v1/tools/{call.tool_id}/invoke/", {}, format="json").json()
    assert reply["outputs"]["iban"] == MASK


def test_proposals_mask_nothing_until_a_designer_marks_them(designer):
    tool, client = make_tool(signature()), program(designer)
    address = f"/api/v1/tools/{tool.pk}/sensitive/"
    before = client.get(address).json()
    assert (before["inputs"], before["outputs"]) == ([], [])
    assert {row["pointer"]: row["reason"] for row in before["proposals"]} == {
        "/customer/cards/cardNumber": "name card number",
        "/customer/note": "writeOnly",
        "/iban": "name iban",
    }
    after = client.put(address, {"inputs": [], "outputs": ["/iban"]}, format="json").json()
    assert after["outputs"] == ["/iban"]
    assert "/iban" not in {row["pointer"] for row in after["proposals"]}
    refused = client.put(address, {"inputs": ["iban"], "outputs": []}, format="json")
    assert (refused.status_code, [*refused.json()["fields"]]) == (400, ["inputs"])
    client.post(f"/tools/{tool.pk}/sensitive/", {"inputs": "/customer"}, format="multipart")
    assert sensitive_values.marks_of([tool.pk])[tool.pk].inputs == ["/customer"]
    assert client.get(f"/tools/{tool.pk}/tuning/").context["sensitive_members"][0][2][1] == (
        "/customer",
        "",
        True,
    )


@pytest.mark.parametrize("pointer", ["", "name", "/a" * 400])
@pytest.mark.django_db
def test_only_pointers_are_marked(designer, pointer):
    with pytest.raises(DomainError):
        sensitive_values.mark(make_tool(), actor=designer, inputs=[pointer], outputs=[])


def test_a_mask_hides_the_length_and_nothing_else():
    value = {"a": [{"b": "x" * 40, "c": 1}, {"c": 2}], "b": "shown"}
    assert mask(value, ["/a/b"]) == {"a": [{"b": MASK, "c": 1}, {"c": 2}], "b": "shown"}
    assert mask(value, ["/a"]) == {"a": MASK, "b": "shown"}
    assert mask(value, []) is value


@pytest.mark.parametrize(("marked", "repeated"), [(7, 7.0), (7.0, 7), (7.0, "7.0"), ("7.0", 7.0)])
def test_a_number_is_masked_in_each_type(marked, repeated):
    texts = sensitive_texts({"pin": marked}, ["/pin"])

    assert strike({"copy": repeated, "other": 8}, texts, is_data=True) == {"copy": MASK, "other": 8}


def test_names_are_read_as_words():
    names = ["userPassword", "API_KEY", "tokenizer", "DateOfBirth", "monkey", "email_address"]
    reasons = {row.pointer: row.reason for row in members_of(make_parameter(name) for name in names)}
    assert reasons == {
        "/userPassword": "name password",
        "/API_KEY": "name api key",
        "/tokenizer": "",
        "/DateOfBirth": "name date of birth",
        "/monkey": "",
        "/email_address": "name email",
    }


@pytest.fixture
def desk(designer):
    """An agent whose tool `pay` has a mock and a test, both with sensitive values."""
    agent = agents.create_agent(actor=designer, name="Desk")
    pin = pins.pin_tool(agent, actor=designer, tool=make_tool(signature()))
    example = {"arguments": {"city": SECRET}, "outputs": {"receipt": "x", "iban": "NO93 8601"}}
    situation = {"name": "unavailable", "when": {"city": SECRET}}
    mocks.save(pin, actor=designer, config={"examples": [example], "situations": [situation]})
    sensitive_values.mark(pin.tool, actor=designer, inputs=["/city"], outputs=["/iban"])
    phrase = sentences.NewSentence("Pay it", pin.name, {"city": SECRET})
    (test,) = sentences.add(agent, actor=designer, new_sentences=[phrase])
    rehearsed.run(agent, actor=designer)
    return pin, test


def test_examples_of_mocks_and_inputs_of_tests_are_masked(desk, designer):
    pin, test = desk
    pages = [
        f"/agents/desk/mocks/{pin.pk}/",
        "/agents/desk/rehearsals/",
        f"/agents/desk/rehearsals/{test.pk}/",
    ]
    rows = ["mocks/", "mocks/pay/", "rehearsals/", f"rehearsals/{test.pk}/", "rehearsals/run/"]
    for address in (*pages, *(f"/api/v1/agents/desk/{row}" for row in rows)):
        answer = program(designer).get(address)
        assert answer.status_code == 200, address
        assert MASK in answer.content.decode(), address
        assert SECRET not in answer.content.decode(), address
        assert "NO93" not in answer.content.decode(), address
    body = {"arguments": {"city": SECRET, "customer": {}}, "situations": []}
    preview = program(designer).post("/api/v1/agents/desk/mocks/pay/preview/", body, "json")
    assert preview.json()["outputs"] == {"receipt": "x", "iban": MASK}


def test_a_mask_that_is_written_back_stays_as_stored(desk, designer):
    pin, test = desk
    client, address = program(designer), "/api/v1/agents/desk/mocks/pay/"
    document = client.get(address).json()
    body = {name: document[name] for name in ("seed", "examples", "situations")} | {"seed": 7}
    assert client.put(address, body, format="json").json()["examples"] == document["examples"]
    config = mocks.mock_of_pin(pin).config
    assert (config["seed"], config["examples"][0]["arguments"]) == (7, {"city": SECRET})
    assert config["situations"][0]["when"] == {"city": SECRET}
    other = {"arguments": {"city": MASK}, "outputs": {"receipt": "y"}}
    refused = client.put(address, {"examples": [*body["examples"], other]}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "masked_value")
    assert [*refused.json()["fields"]] == ["/examples/1/arguments/city"]
    test_address = f"/api/v1/agents/desk/rehearsals/{test.pk}/"
    expects = {"tool": "pay", "inputs": {"city": MASK, "customer": {"name": "Eve"}}}
    assert client.patch(test_address, {"expects": expects}, format="json").json()["expects"] == expects
    test.refresh_from_db()
    assert test.inputs == {"city": SECRET, "customer": {"name": "Eve"}}
    new = {"says": "Pay again", "expects": {"tool": "pay", "inputs": {"city": MASK}}}
    refused = client.post("/api/v1/agents/desk/rehearsals/", new, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "masked_value")


def test_the_audit_trail_gets_masks(desk, designer):
    pin, test = desk
    mocks.edit(pin, actor=designer, change=lambda now: {**now, "seed": 2})
    sentences.change(test, actor=designer, inputs={"city": SECRET, "customer": {"name": "Eve"}})
    sentences.remove(test, actor=designer)
    # The entry of the mock from before the tool was marked keeps what it recorded.
    entries = AuditEntry.objects.filter(kind__in=("activity", "rehearsal")).exclude(
        kind="activity", action="create"
    )
    later = [str((row.before, row.after)) for row in entries]
    assert len(later) == 4
    assert not [text for text in later if SECRET in text or "NO93" in text]


def test_a_form_that_is_sent_back_as_it_is_changes_nothing(desk, designer):
    _, test = desk
    client = Client()
    client.force_login(designer)
    address = f"/agents/desk/rehearsals/{test.pk}/"
    page = client.get(address)
    form = page.context["inputs"]
    sent = {form.add_prefix(name): value for name, value in form.initial.items() if value is not None}
    assert MASK in sent.values()
    answer = client.post(address, sent | {"says": "Pay it now", "tool": "pay", "inputs_of": "pay"})
    assert answer.status_code == 302, answer.content.decode()
    test.refresh_from_db()
    assert (test.says, test.inputs) == ("Pay it now", {"city": SECRET})


@pytest.mark.parametrize(
    ("written", "stored", "expected"),
    [
        ({"a": MASK, "b": 2}, {"a": "x", "b": 1}, {"a": "x", "b": 2}),
        ([{"a": MASK, "b": 2}], [{"a": "x", "b": 1}, {"a": "y", "b": 2}], [{"a": "y", "b": 2}]),
        ([{"a": MASK, "b": 3}], [{"a": "x", "b": 1}], [{"a": "x", "b": 3}]),
        ([{"a": MASK, "b": 2}, {"a": MASK, "b": 1}], [{"a": "x", "b": 1}, {"a": "y", "b": 2}], None),
        ([{"a": MASK}], [{"a": "x"}, {"a": "y"}], "/0/a"),
        ({"a": [MASK]}, {"a": "x"}, "/a/0"),
    ],
)
def test_a_mask_is_restored_at_the_same_member(written, stored, expected):
    if isinstance(expected, str):
        with pytest.raises(DomainError) as refused:
            restore(written, stored)
        assert [*refused.value.fields] == [expected]
    else:
        assert restore(written, stored) == (expected or stored[::-1])


def test_presets_are_masked_in_the_audit_trail_and_restored_from_what_is_stored(desk, designer):
    pin, _ = desk
    client, address = program(designer), f"/api/v1/agents/desk/pins/{pin.pk}/tuning/"
    for title, preset in (("Pay", SECRET), ("Pay now", "another")):
        body = {"title": title, "parameters": {"city": {"preset": preset}}}
        assert client.put(address, body, format="json").status_code == 200
    entries = AuditEntry.objects.filter(kind="pin", action="tune").order_by("pk")
    first = entries.first()
    assert [entry.after["title"] for entry in entries] == ["Pay", "Pay now"]
    assert SECRET not in str(list(entries.values("before", "after")))
    restored = client.post(f"{address}restore/", {"entry": first.pk}, format="json").json()
    assert (restored["title"], restored["parameters"]["city"]["preset"]) == ("Pay", MASK)
    assert Tuning.objects.get().parameters["city"]["preset"] == "another"
    client.delete(address)
    refused = client.post(f"{address}restore/", {"entry": first.pk}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "masked_value")
