"""The demo bank over real HTTP: listed, compared, run and continued, in both revisions."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from catalog.credentials import sessions
from catalog.enumeration import older_versions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Tool
from catalog.models.runs import Trigger
from demo import VENDORS
from demo.bank import QuillmoorBank
from demo.oxp_server import OxpApi, definition
from demo.published_tools import PublishedTools
from demo.signatures import requirements_of
from demo.web import VendorServer
from execution.calls import invocation, requesting
from people.models import Role
from tests.factories import make_endpoint, make_user

BANK = next(vendor for vendor in VENDORS if vendor.protocol == "oxp")
pytestmark = pytest.mark.django_db(transaction=True)


class Bank(OxpApi):
    """May list more than is published."""

    extra = ()

    def answer(self, request):
        response = super().answer(request)
        if request.path != "/tools" or not self.extra:
            return response
        document = json.loads(response.body)
        document["items"] += self.extra
        return replace(response, body=json.dumps(document).encode())


@contextmanager
def serving(api):
    server = VendorServer(0, api)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(params=[False, True], ids=["bare", "wrapped"])
def bank(request):
    api = Bank(BANK, PublishedTools(QuillmoorBank), requirements_of(QuillmoorBank), wraps=request.param)
    with serving(api) as server:
        yield server


@pytest.fixture
def endpoint(bank):
    endpoint = make_endpoint(protocol="oxp", url=bank.url)
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert (run.status, run.error_code, run.rejected) == ("succeeded", "", 0)
    endpoint.refresh_from_db()
    return endpoint


def call(endpoint, tool_id, arguments, before=None):
    version = Tool.objects.select_related("current").get(endpoint=endpoint, tool_id=tool_id).current
    protocol, signature = endpoint.build_protocol(), version.decoded()
    with sessions.open_session(endpoint) as session:
        if before is None:
            return protocol.invoke(session, tool_id, version.label, signature, arguments)
        return protocol.resume(session, tool_id, version.label, signature, before.resume, arguments)


def test_latest_versions_are_listed_and_older_ones_are_history(endpoint):
    tools = Tool.objects.filter(endpoint=endpoint)
    assert tools.count() == 11
    older_versions.read_all(endpoint.pk)
    versions = tools.get(tool_id="Accounts.ListTransactions").versions.order_by("ordinal")
    assert sorted(versions.values_list("label", flat=True)) == ["1.0.0", "1.1.0", "1.2.0"]
    assert tools.get(tool_id="Accounts.ListTransactions").current.label == "1.2.0"
    assert not tools.filter(versions_read_at=None).exists()


def test_older_version_that_comes_later_is_read_too(endpoint, bank):
    older_versions.read_all(endpoint.pk)
    rate = bank.api.published_tools.tools["Rates.ExchangeRate"]
    tool = Tool.objects.get(endpoint=endpoint, tool_id=rate.id)
    bank.api.extra = [definition(rate, 1, {}) | {"id": rate.id, "version": "0.9.0"}]
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    older_versions.read_all(endpoint.pk)
    assert (run.status, run.changed, run.unchanged) == ("succeeded", 0, 11)
    assert sorted(tool.versions.values_list("label", flat=True)) == ["0.9.0", "1.0.0"]
    tool.refresh_from_db()
    assert tool.current.label == "1.0.0"


def test_nothing_is_lost_on_the_way(endpoint):
    for tool in Tool.objects.filter(endpoint=endpoint).select_related("current"):
        assert tool.current.losses() == []


def test_revision_is_found_out_by_the_list(endpoint, bank):
    assert endpoint.memory == {"revision": "wrapped" if bank.api.wraps else "bare"}


def test_tools_run_and_each_outcome_is_told_apart(endpoint):
    rate = call(endpoint, "Rates.ExchangeRate", {"sold": "EUR", "bought": "EUR"})
    assert (rate.outcome, rate.outputs) == ("ok", {"value": 10_000})
    nothing = call(endpoint, "Desk.AskForCall", {"about": "a loan"})
    assert (nothing.outcome, nothing.outputs) == ("ok", {})
    failed = call(endpoint, "Accounts.GetBalance", {"account": "QM00-0000"})
    assert (failed.outcome, failed.retry_after) == ("tool_error", 0.25)
    assert "QM10-4471" in failed.hint
    wrong = call(endpoint, "Accounts.ListTransactions", {"account": "QM10-4471", "from_date": "soon"})
    assert (wrong.outcome, list(wrong.error["fields"])) == ("invalid_arguments", ["from_date"])
    secret = call(endpoint, "Cards.ShowPin", {"card_id": "C-1"})
    assert secret.outcome == "needs_authorization"


def test_call_goes_on_once_a_person_has_allowed_it(endpoint, bank):
    iban = {"account": "QM10-4471", "to_iban": "SE4550000000058398257466", "amount_cents": 500}
    payment = call(endpoint, "Payments.PreparePayment", iban).outputs["payment_id"]
    stopped = call(endpoint, "Payments.ReleasePayment", {"payment_id": payment})
    assert (stopped.outcome, stopped.asks[0].url) == (
        "needs_authorization",
        f"{bank.url}/grant/quillmoor-id",
    )
    bank.api.granted.add("quillmoor-id")
    done = call(endpoint, "Payments.ReleasePayment", {}, before=stopped)
    assert (done.outcome, list(done.outputs)) == ("ok", ["arrives_on"])
    again = call(endpoint, "Payments.ReleasePayment", {}, before=stopped)
    assert again.outputs == done.outputs, "the same call id is the same call"


def test_tool_that_asks_for_its_user_is_told_who(endpoint):
    before = call(endpoint, "Accounts.ListAccounts", {})
    assert [ask.id for ask in before.asks] == ["user_id"]
    assert call(endpoint, "Accounts.ListAccounts", {"user_id": "u-7"}, before=before).outcome == "ok"
    endpoint.settings = {"user_id": "u-7"}
    assert call(endpoint, "Accounts.ListAccounts", {}).outcome == "ok"


def test_words_for_the_banks_own_people_are_kept_nowhere(endpoint):
    tool = Tool.objects.get(endpoint=endpoint, tool_id="Accounts.GetBalance")
    call = requesting.request_call(tool.current, actor=make_user(Role.DESIGNER), arguments={"account": "QM"})
    invocation.perform_due_calls()
    call.refresh_from_db()
    (attempt,) = call.decoded().attempts
    assert "There is no account QM." in attempt.exchanges[0].reply
    assert '"developer_message": "•••"' in attempt.exchanges[0].reply
    assert "no_account" not in str(call.result)


def test_version_that_is_gone_is_said_so(endpoint, bank):
    bank.api.published_tools.tools.pop("Rates.ExchangeRate")
    result = call(endpoint, "Rates.ExchangeRate", {"sold": "EUR", "bought": "GBP"})
    assert (result.outcome, result.error["code"]) == ("refused", "NOT_FOUND")
