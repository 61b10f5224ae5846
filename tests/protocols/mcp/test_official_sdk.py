"""Against the official SDK: its server read by us, in every way that it can serve."""

import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property

import pytest

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Tool
from catalog.models.runs import Trigger
from core import open_replies
from core.outbound.addresses import Policy
from core.outbound.session import HttpSession
from protocols.list_pages import NoKnownPages
from protocols.mcp.client import MCP
from protocols.signature import Annotations
from tests.factories import make_endpoint

WAYS = {
    "/modern": "modern",
    "/modern-stream": "modern",
    "/handshake": "handshake",
    "/handshake-stream": "handshake",
    "/stateless": "handshake",
}


@dataclass
class Library:
    url: str
    era: str

    def open(self):
        return HttpSession(
            self.url, policy=Policy.parse("127.0.0.1/32"), memory=self.memory, open_replies=open_replies
        )

    @cached_property
    def memory(self):
        return {}

    @cached_property
    def tools(self):
        with self.open() as session:
            pages = list(MCP().enumerate(session, NoKnownPages()))
        return {item.tool_id: item for page in pages for item in page.items}

    def read(self, name):
        return MCP().read(self.tools[name].document)

    def call(self, name, arguments, signature_of=""):
        with self.open() as session:
            return MCP().invoke(session, name, None, self.read(signature_of or name), arguments)

    def resume(self, name, stopped, answers):
        with self.open() as session:
            return MCP().resume(session, name, None, self.read(name), stopped.resume, answers)


@pytest.fixture(scope="module")
def judge():
    command = [sys.executable, "-m", "tests.mcp_judge"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


@pytest.fixture(scope="module", params=WAYS)
def library(request, judge):
    return Library(judge + request.param, WAYS[request.param])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", ["/modern-stream", "/handshake"])
def test_tools_reach_the_catalog_and_a_bad_one_is_rejected_alone(judge, way):
    endpoint = make_endpoint(protocol="mcp", url=judge + way)
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert (run.status, run.error, run.pages, run.added) == ("succeeded", None, 4, 6)
    assert [(refused.tool, refused.code) for refused in run.rejections.all()] == [
        ("bad_header", "BAD_PARAM_HEADER"),
        ("elsewhere", "REMOTE_REF"),
    ]
    endpoint.refresh_from_db()
    assert endpoint.memory["era"] == WAYS[way]
    assert Tool.objects.get(name="renew_loan").current.losses() == []
    again = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    assert (again.status, again.unchanged, again.added, again.changed) == ("succeeded", 6, 0, 0)


def test_a_tool_keeps_all_that_its_vendor_said(library):
    signature = library.read("renew_loan")
    assert (signature.title, signature.img) == ("Renew a loan", "https://library.example/loan.png")
    assert signature.annotations == Annotations(read_only=False, destructive=False)
    assert [(parameter.name, parameter.type, parameter.required) for parameter in signature.inputs] == [
        ("loan", "string", True),
        ("days", "int", False),
    ]
    assert signature.rest["_meta"] == {"library.example/desk": 3}
    assert MCP().write(signature, "renew_loan", "") == library.tools["renew_loan"].document


def test_outputs_come_back_by_name(library):
    outcome = library.call("renew_loan", {"loan": "L-7", "days": 3})
    assert (outcome.outcome, outcome.outputs["due"]) == ("ok", "L-7 in 3 days")
    assert outcome.outputs["text"] == "L-7 in 3 days"
    assert not outcome.notes


@pytest.mark.parametrize("loan", [" L-7", "Ł-7", "=?base64?TC03?=", ""])
def test_a_value_that_no_header_can_carry_arrives(library, loan):
    """The SDK refuses a call whose headers and arguments differ."""
    outcome = library.call("lend", {"loan": loan, "reader": {"card": True}})
    assert (outcome.outcome, outcome.outputs.get("text", "")) == ("ok", loan)


def test_a_tool_that_fails_says_why(library):
    outcome = library.call("fail", {})
    assert (outcome.outcome, outcome.error["message"]) == ("tool_error", "Somebody waits for it.")


def test_an_output_that_breaks_its_promise_is_noted_and_kept(library):
    outcome = library.call("break_promise", {})
    assert (outcome.outcome, outcome.outputs["due"]) == ("ok", 7)
    assert [note.code for note in outcome.notes] == ["BAD_OUTPUT"]


def test_a_tool_that_is_gone_is_told_from_arguments_that_are_wrong(library):
    outcome = library.call("gone", {}, signature_of="fail")
    assert (outcome.outcome, outcome.error["code"]) == ("refused", "NOT_FOUND")


def test_a_tool_that_asks_goes_on_with_the_answer(library):
    result = library.call("ask_first", {})
    if library.era == "handshake":  # the revision knows no questions, and the SDK refuses to send one
        assert result.outcome == "tool_error"
        return
    assert result.outcome == "needs_input"
    assert [(ask.id, ask.message) for ask in result.asks] == [("branch", "Which branch?")]
    for answers, answer in (({"branch": {"branch": "East"}}, "East"), ({}, "decline")):
        outcome = library.resume("ask_first", result, answers)
        assert (outcome.outcome, outcome.outputs["text"]) == ("ok", answer)


def test_a_tool_that_asks_on_the_stream_of_its_call_goes_on_with_the_answer(judge):
    library = Library(judge + "/handshake-stream", "handshake")
    for answers, answer in (({"question": {"branch": "East"}}, "East"), ({}, "decline")):
        result = library.call("ask_meanwhile", {})
        assert (result.outcome, [ask.message for ask in result.asks]) == ("needs_input", ["Which branch?"])
        outcome = library.resume("ask_meanwhile", result, answers)
        assert (outcome.outcome, outcome.outputs["text"]) == ("ok", answer)


@pytest.mark.parametrize("way", ["/stateless", "/modern"])
def test_a_tool_that_can_ask_no_one_says_so(judge, way):
    assert Library(judge + way, WAYS[way]).call("ask_meanwhile", {}).outcome == "tool_error"
