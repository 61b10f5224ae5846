import json

import pytest

from demo import VENDORS
from demo.acp_server import AcpApi
from demo.agency import JourneyPlanner, LetterWriter
from demo.web import DemoRequest

AGENCY = next(vendor for vendor in VENDORS if vendor.protocol == "acp")
LETTER = {"agent_id": LetterWriter.id, "input": {"to": "Ann", "about": "apples. come"}}


@pytest.fixture
def agency():
    return AcpApi(AGENCY)


def ask(agency, method, path, document=None):
    body = b"" if document is None else json.dumps(document).encode()
    response = agency.answer(DemoRequest(method, path, {}, {}, body))
    return response.status, json.loads(response.body) if response.body else None


@pytest.mark.parametrize(
    ("criteria", "count"),
    [
        ({}, 2),
        ({"limit": 1}, 1),
        ({"offset": 1}, 1),
        ({"offset": 2}, 0),
        ({"name": LetterWriter.name}, 1),
        ({"version": JourneyPlanner.version}, 1),
        ({"name": "nobody"}, 0),
    ],
)
def test_agents_are_found(agency, criteria, count):
    status, agents = ask(agency, "POST", "/agents/search", criteria)
    assert (status, len(agents)) == (200, count)


@pytest.mark.parametrize("criteria", [{"limit": 0}, {"limit": 1001}, {"offset": -1}, {"limit": "5"}, []])
def test_search_of_another_form_is_refused_in_a_text(agency, criteria):
    status, message = ask(agency, "POST", "/agents/search", criteria)
    assert (status, type(message)) == (422, str)


def test_run_stops_goes_on_and_cannot_go_on_twice(agency):
    _, waited = ask(agency, "POST", "/runs/wait", LETTER)
    run = f"/runs/{waited['run']['run_id']}"
    assert waited["output"]["interrupt"]["interrupt_type"] == "approval"
    assert ask(agency, "POST", run, {"approved": "yes"})[0] == 422
    assert ask(agency, "POST", run, {"approved": False})[1]["status"] == "success"
    assert ask(agency, "GET", f"{run}/wait")[1]["output"]["values"]["posted"] is False
    assert ask(agency, "POST", run, {"approved": True})[0] == 409


def test_runs_are_found_by_their_metadata_cancelled_and_deleted(agency):
    marked = LETTER | {"metadata": {"mark": "a"}}
    _, run = ask(agency, "POST", "/runs", marked)
    ask(agency, "POST", "/runs", LETTER)
    _, runs_found = ask(agency, "POST", "/runs/search", {"metadata": {"mark": "a"}})
    assert [found_run["run_id"] for found_run in runs_found] == [run["run_id"]]
    path = f"/runs/{run['run_id']}"
    assert ask(agency, "POST", f"{path}/cancel", {})[0] == 204
    assert ask(agency, "GET", path)[1]["status"] == "error"
    assert ask(agency, "DELETE", path)[0] == 204
    assert ask(agency, "GET", path)[0] == 404


def test_stream_grows_and_ends(agency):
    body = json.dumps(LETTER).encode()
    response = agency.answer(DemoRequest("POST", "/runs/stream", {}, {}, body))
    updates = [
        json.loads(line[6:]) for line in response.body.decode().split("\n") if line.startswith("data: ")
    ]
    assert response.content_type == "text/event-stream"
    assert [update["type"] for update in updates] == ["values"] * 4 + ["interrupt"]


def test_planner_asks_chooses_and_gives_up(agency):
    inputs = {"start": "Lund", "wish": "quiet", "nights": 2}
    _, stopped = ask(agency, "POST", "/runs/wait", {"agent_id": JourneyPlanner.id, "input": inputs})
    town = stopped["output"]["interrupt"]["towns"][0]
    run = f"/runs/{stopped['run']['run_id']}"
    assert ask(agency, "POST", run, {"town": town})[1]["status"] == "success"
    assert len(ask(agency, "GET", f"{run}/wait")[1]["output"]["values"]["days"]) == 4
    _, failed = ask(
        agency, "POST", "/runs/wait", {"agent_id": JourneyPlanner.id, "input": inputs | {"nights": 30}}
    )
    assert (failed["output"]["type"], failed["output"]["errcode"]) == ("error", 21)
    stream = {"agent_id": JourneyPlanner.id, "input": inputs}
    assert ask(agency, "POST", "/runs/stream", stream)[0] == 422


@pytest.mark.parametrize(
    ("inputs", "config"),
    [
        ({}, {}),
        ({"to": "Ann", "about": 5}, {}),
        ({"to": "Ann", "about": "x", "length": 9}, {}),
        ({"to": "Ann", "about": "x"}, {"tone": "LOUD"}),
        ("a letter", {}),
    ],
)
def test_input_and_config_are_checked(agency, inputs, config):
    document = {"agent_id": LetterWriter.id, "input": inputs, "config": {"configurable": config}}
    status, message = ask(agency, "POST", "/runs/wait", document)
    assert (status, type(message)) == (422, str)


def test_what_is_not_there_is_not_found(agency):
    for path in ("/agents/nobody", "/agents/nobody/descriptor", "/nothing"):
        assert ask(agency, "GET", path)[0] == 404
    assert ask(agency, "POST", "/runs/wait", {"agent_id": "nobody"})[0] == 404
    assert b"letters" in agency.answer(DemoRequest("GET", "/", {}, {})).body
