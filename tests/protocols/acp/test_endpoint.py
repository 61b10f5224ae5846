"""The demo agents over real HTTP: searched, described, run, asked back, streamed and cancelled."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from catalog.credentials import sessions
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Tool
from catalog.models.runs import Trigger
from demo import VENDORS
from demo.acp_server import AcpApi
from demo.agency import JourneyPlanner, LetterWriter
from demo.web import Response, VendorServer, as_json
from tests.factories import make_endpoint

AGENCY = next(vendor for vendor in VENDORS if vendor.protocol == "acp")
LETTER = {"to": "Ann", "about": "the apples are ripe. come and pick some"}
pytestmark = pytest.mark.django_db(transaction=True)


class Reference(AcpApi):
    """Answers as the protocol's own server: only by name or version, and whatever the offset."""

    def answer(self, request):
        if request.path == "/agents/search":
            request_body = json.loads(request.body)
            name_query = {name: value for name, value in request_body.items() if name in ("name", "version")}
            if not name_query:
                detail = "At least one of 'name' or 'version' must be provided"
                return as_json({"detail": detail}, 422)
            request = replace(request, body=json.dumps(name_query).encode())
        response = super().answer(request)
        if not request.path.endswith("/wait") or response.status != 200:
            return response
        document = json.loads(response.body)
        if (interrupt := document["output"].get("interrupt")) is not None:
            document["output"]["interrupt"] = {interrupt.pop("interrupt_type"): interrupt}
        return as_json(document)


class Slow(AcpApi):
    """Stops waiting before the agent is done."""

    def answer(self, request):
        response = super().answer(request)
        if request.path != "/runs/wait":
            return response
        next(iter(self.runs.values())).status = "pending"
        return Response(204)


class Streaming(AcpApi):
    def answer(self, request):
        if request.path == "/runs/wait":
            return as_json("Not here.", 404)
        return super().answer(request)


class Same(AcpApi):
    """Sends all of its agents, whatever was asked for."""

    def answer(self, request):
        if request.path == "/agents/search":
            return as_json([{"agent_id": f"a{number}"} for number in range(25)])
        return super().answer(replace(request, path=f"/agents/{LetterWriter.id}/descriptor"))


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


def run_enumeration(server, **settings):
    endpoint = make_endpoint(protocol="acp", url=server.url, settings=settings)
    run = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    endpoint.refresh_from_db()
    return endpoint, run


@pytest.fixture(params=[AcpApi, Reference])
def agency(request):
    with serving(request.param(AGENCY)) as server:
        yield server


@pytest.fixture
def endpoint(agency):
    endpoint, run = run_enumeration(agency, agent_versions=["0.9.3"], agent_names=[LetterWriter.name])
    assert (run.status, run.error_code, run.rejected) == ("succeeded", "", 0)
    return endpoint


def call(endpoint, agent, arguments, before=None):
    version = Tool.objects.select_related("current").get(endpoint=endpoint, tool_id=agent.id).current
    protocol, signature = endpoint.build_protocol(), version.decoded()
    with sessions.open_session(endpoint) as session:
        if before is None:
            return protocol.invoke(session, agent.id, version.label, signature, arguments)
        return protocol.resume(session, agent.id, version.label, signature, before.resume, arguments)


def test_agents_become_tools_marked_as_agents(endpoint):
    tools = Tool.objects.filter(endpoint=endpoint).select_related("current").order_by("name")
    assert [(tool.name, tool.current.label) for tool in tools] == [
        ("bellwether.journeys", "0.9.3"),
        ("bellwether.letters", "2.1.0"),
    ]
    for tool in tools:
        signature = tool.current.decoded()
        assert signature.kind == "agent"
        assert [parameter.name for parameter in signature.inputs][-1] == "config"
        assert tool.current.losses() == []


def test_agent_asks_goes_on_asks_again_and_ends(endpoint):
    result = call(endpoint, LetterWriter, LETTER | {"config": {"tone": "WARM"}})
    assert (result.outcome, result.asks[0].id) == ("needs_input", "approval")
    assert result.asks[0].message == "May this letter to Ann be posted?"
    assert result.asks[0].schema["required"] == ["approved"]
    more = {"approval": {"approved": False, "changes": "bring a basket"}}
    again = call(endpoint, LetterWriter, more, before=result)
    assert again.outcome == "needs_input"
    done = call(endpoint, LetterWriter, {"approval": {"approved": True}}, before=again)
    assert (done.outcome, done.outputs["posted"]) == ("ok", True)
    assert done.outputs["letter"].startswith("Dear Ann!")
    late = call(endpoint, LetterWriter, {"approval": {"approved": True}}, before=again)
    assert (late.outcome, late.error["code"]) == ("refused", "CONFLICT")


def test_declined_question_ends_the_run(endpoint, agency):
    before = call(endpoint, LetterWriter, LETTER)
    declined = call(endpoint, LetterWriter, {"approval": None}, before=before)
    assert (declined.outcome, declined.error["code"]) == ("refused", "DECLINED")
    assert agency.api.runs[before.resume["run_id"]].status == "error"


def test_agent_fails_in_its_own_words(endpoint):
    failed = call(endpoint, JourneyPlanner, {"start": "Lund", "wish": "Porto", "nights": 30})
    assert (failed.outcome, failed.error["code"]) == ("tool_error", "RUN_FAILED")
    assert "(21)" in failed.error["message"]


def test_inputs_that_the_server_refuses_are_said_in_its_words(endpoint, agency):
    agency.api.agents[LetterWriter.id] = JourneyPlanner()
    refused = call(endpoint, LetterWriter, LETTER)
    assert refused.outcome == "invalid_arguments"
    assert "input.start" in refused.error["message"]


def test_server_that_lists_by_name_alone_says_what_to_enter():
    with serving(Reference(AGENCY)) as server:
        _, run = run_enumeration(server)
    assert (run.status, run.error_code) == ("failed", "NAMES_WANTED")


def test_server_that_does_not_heed_the_offset_comes_to_an_end():
    with serving(Same(AGENCY)) as server:
        _, run = run_enumeration(server, page_size=5)
    assert (run.status, run.seen, run.pages) == ("succeeded", 25, 1)
    assert "LIST_END_UNKNOWN" in [note["code"] for note in run.notes]


def test_run_that_takes_too_long_is_found_and_cancelled():
    with serving(Slow(AGENCY)) as server:
        endpoint, _ = run_enumeration(server)
        outcome = call(endpoint, LetterWriter, LETTER)
        (run,) = server.api.runs.values()
    assert (outcome.outcome, outcome.error["code"]) == ("unavailable", "STILL_RUNNING")
    assert outcome.error["message"].endswith("The run was cancelled.")
    assert run.status == "error"


def test_stream_stands_in_where_waiting_is_not_offered():
    with serving(Streaming(AGENCY)) as server:
        endpoint, _ = run_enumeration(server)
        outcome = call(endpoint, LetterWriter, LETTER)
        done = call(endpoint, LetterWriter, {"approval": {"approved": True}}, before=outcome)
    assert (outcome.outcome, done.outcome) == ("needs_input", "ok")
