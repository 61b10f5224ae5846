import json

import pytest

from demo import VENDORS
from demo.bank import QuillmoorBank
from demo.oxp_server import OxpApi
from demo.published_tools import PublishedTools
from demo.signatures import requirements_of
from demo.web import DemoRequest

BANK = next(vendor for vendor in VENDORS if vendor.protocol == "oxp")


@pytest.fixture(params=[False, True], ids=["bare", "wrapped"])
def bank(request):
    return OxpApi(BANK, PublishedTools(QuillmoorBank), requirements_of(QuillmoorBank), wraps=request.param)


def ask(bank, method, path, document=None):
    body = b"" if document is None else json.dumps(document).encode()
    response = bank.answer(DemoRequest(method, path, {}, {"host": "bank.example"}, body))
    return response.status, json.loads(response.body) if response.body else None, response.headers


def call(bank, tool_id, inputs, **members):
    body = {"tool_id": tool_id, "input": inputs} | members
    status, document, _ = ask(bank, "POST", "/tools/call", {"request": body} if bank.wraps else body)
    return status, document.get("result", document)


def test_list_holds_every_version_of_every_tool(bank):
    status, document, headers = ask(bank, "GET", "/tools")
    assert (status, len(document["items"])) == (200, 15)
    assert ("OXP-Version" in headers, "$schema" in document) == (not bank.wraps, bank.wraps)
    assert len({item["id"] for item in document["items"]}) == 15


def test_each_way_to_name_a_version_is_understood(bank):
    inputs = {"account": "QM10-4471"}
    for version, outputs in (("", 3), ("@1", 2), ("@1.0.0", 2), ("@1.1.0", 3)):
        status, document = call(bank, f"Accounts.GetBalance{version}", inputs)
        assert (status, len(document["value"])) == (200, outputs)
    for version in ("@2", "@1.0", "@", "@1.9.0"):
        assert call(bank, f"Accounts.GetBalance{version}", inputs)[0] == 400


def test_same_call_id_is_the_same_call(bank):
    inputs = {"account": "QM10-4471", "to_iban": "SE4550000000058398257466", "amount_cents": 5}
    payment = call(bank, "Payments.PreparePayment", inputs)[1]["value"]["payment_id"]
    bank.granted.add("quillmoor-id")
    release = {"payment_id": payment}
    first = call(bank, "Payments.ReleasePayment", release, call_id="a")
    assert call(bank, "Payments.ReleasePayment", release, call_id="a") == first
    assert call(bank, "Payments.ReleasePayment", release, call_id="b")[1]["success"] is False


def test_challenge_is_met_on_its_page(bank):
    status, document = call(bank, "Cards.BlockCard", {"card_id": "C-1", "reason": "LOST"})
    (challenge,) = document["missing_requirements"]["authorization"]
    assert (status, challenge["check_url"]) == (400, "http://bank.example/grant/quillmoor-id/status")
    assert ask(bank, "GET", "/grant/quillmoor-id/status")[1] == {"status": "pending"}
    assert bank.answer(DemoRequest("GET", "/grant/quillmoor-id", {}, {})).status == 200
    assert bank.answer(DemoRequest("POST", "/grant/quillmoor-id", {}, {})).status == 303
    assert ask(bank, "GET", "/grant/quillmoor-id/status")[1] == {"status": "completed"}
    assert call(bank, "Cards.BlockCard", {"card_id": "C-1", "reason": "LOST"})[0] == 200


def test_token_and_secret_in_the_context_do_as_well(bank):
    context = {"authorization": [{"id": "quillmoor-id", "token": "t"}]}
    assert call(bank, "Cards.BlockCard", {"card_id": "C", "reason": "LOST"}, context=context)[0] == 200
    context = {"user_id": "u", "secrets": [{"id": "card-vault-key", "value": "v"}]}
    assert call(bank, "Cards.ShowPin", {"card_id": "C"}, context=context)[0] == 200
    assert call(bank, "Cards.ShowPin", {"card_id": "C"}, context={"user_id": "u"})[0] == 400


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"tool_id": 5}', b'{"request": {}}'])
def test_body_that_is_no_call_is_refused(bank, body):
    response = bank.answer(DemoRequest("POST", "/tools/call", {}, {}, body))
    assert response.status == 400


def test_health_and_the_page_answer(bank):
    assert ask(bank, "GET", "/health")[0] == 200
    assert ask(bank, "GET", "/nothing")[0] == 404
    assert b"Quillmoor" in bank.answer(DemoRequest("GET", "/", {}, {})).body
