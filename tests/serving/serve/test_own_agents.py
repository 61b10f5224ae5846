"""Pegboard connects to itself by ACP: agents, their threads, questions and configurations come through."""

import pytest
from msgspec.structs import replace

from catalog.models import Call, Thread
from designer.agents import agents
from designer.pins import pins
from designer.releases import publishing
from protocols.acp.client import ACP
from tests.acp_runs import Runs
from tests.catalog.credentials.test_rotation import make_credential
from tests.factories import make_endpoint, make_tool
from tests.hostile_vendor import HostileVendor
from tests.serving.serve.test_own_clients import session, site
from tests.serving.test_calls import owner, runtime, url

__all__ = ["owner", "site"]
pytestmark = pytest.mark.django_db
OUTER = "/api/v1/agents/outer/"
STATE = {"type": "object", "properties": {"told": {"type": "array"}}, "required": ["told"]}
TONE = {
    "type": "object",
    "properties": {"tone": {"type": "string", "enum": ["warm", "dry"]}},
    "additionalProperties": False,
}
APPROVAL = {
    "interrupt_type": "approval",
    "interrupt_payload": {"type": "object"},
    "resume_payload": {"type": "object", "properties": {"approved": {"type": "boolean"}}},
}
AGENT = {
    "metadata": {"ref": {"name": "letters", "version": "1.0.0"}, "description": "Writes letters."},
    "specs": {
        "capabilities": {
            "threads": True,
            "interrupts": True,
            "callbacks": True,
            "streaming": {"values": True, "custom": False},
        },
        "input": {
            "type": "object",
            "properties": {"about": {"type": "string", "maxLength": 9}},
            "required": ["about"],
        },
        "output": {"type": "object", "properties": {"letter": {"type": "string"}}, "required": ["letter"]},
        "config": TONE,
        "interrupts": [APPROVAL],
        "thread_state": STATE,
    },
}


@pytest.fixture
def runs():
    runs = Runs()
    runs.end({"letter": "Dear all"})
    return runs


@pytest.fixture
def inner(owner, runs):
    """A key for an agent whose one tool is an agent of a vendor."""
    with HostileVendor(runs) as vendor:
        tool = make_tool(ACP().read(AGENT), endpoint=make_endpoint(url=vendor.url, protocol="acp"))
        desk = agents.create_agent(actor=owner, name="desk", slug="desk")
        pins.pin_tool(desk, actor=owner, tool=tool, alias="letters")
        publishing.publish(desk, actor=owner, channel="live")
        yield runtime(owner, desk)


@pytest.fixture
def outer(owner, inner, site):
    """A key for an agent whose one tool is what Pegboard itself serves of the other one."""
    key = inner._credentials["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    credential = make_credential(key, url=site)
    endpoint = make_endpoint(url=f"{site}/serve/desk/live/acp", protocol="acp", credential=credential)
    with session(site, inner, "/serve/desk/live/acp") as opened:
        pages = list(ACP().enumerate(opened, None))
    (item,) = [item for page in pages for item in page.items]
    tool = make_tool(ACP().read(item.document), endpoint=endpoint, tool_id=item.tool_id)
    agent = agents.create_agent(actor=owner, name="outer", slug="outer")
    pins.pin_tool(agent, actor=owner, tool=tool, alias="letters")
    publishing.publish(agent, actor=owner, channel="live")
    return runtime(owner, agent)


def test_an_agent_survives_the_way_through_a_release(inner, outer, site):
    vendors = ACP().read(AGENT)
    with session(site, inner, "/serve/desk/live/acp") as opened:
        pages = list(ACP().enumerate(opened, None))
    (item,) = [item for page in pages for item in page.items]
    signature = ACP().read(item.document)
    assert replace(signature, rest=None) == replace(vendors, rest=None)
    assert item.document["specs"] == AGENT["specs"]


def test_threads_go_through_with_configurations(outer, runs):
    created_thread = outer.post(
        f"{OUTER}releases/live/tools/letters/threads/", {"metadata": {"about": "plums"}}
    )
    thread = created_thread.json()["id"]
    assert created_thread.status_code == 201, created_thread.json()
    assert runs.threads == {}
    for number, about in enumerate(("plums", "figs"), 1):
        call = {"arguments": {"about": about}, "thread": thread, "configuration": {"tone": "dry"}}
        answer = outer.post(url("outer", name="letters"), call).json()
        assert (answer["outcome"], answer["outputs"]) == ("ok", {"letter": "Dear all"}), answer["error"]
        assert len(runs.started) == number
    assert [(b["input"], b["config"]) for b in runs.started.values()] == [
        ({"about": about}, {"configurable": {"tone": "dry"}}) for about in ("plums", "figs")
    ]
    (vendor_thread,) = runs.threads
    assert set(runs.on_thread.values()) == {vendor_thread}
    thread_body = outer.get(f"{OUTER}threads/{thread}/").json()
    assert thread_body["state"]["values"] == {"told": [{"about": "plums"}, {"about": "figs"}]}
    assert (thread_body["state_schema"], thread_body["status"], thread_body["state"]["notes"]) == (
        STATE,
        "idle",
        [],
    )
    history = outer.get(f"{OUTER}threads/{thread}/history/", {"limit": 1}).json()["results"]
    assert [state["values"] for state in history] == [{"told": [{"about": "plums"}]}]
    assert outer.delete(f"{OUTER}threads/{thread}/").status_code == 204
    assert runs.removed == [vendor_thread]
    assert Thread.objects.filter(removed_at=None).count() == 0


def test_an_agent_asks_through_both_and_goes_on_in_the_same_run(outer, inner, runs):
    question = {"interrupt_type": "approval", "message": "Send it?"}
    runs.end(output={"type": "interrupt", "interrupt": question})
    runs.after = {"type": "result", "values": {"letter": "Sent"}}
    body = outer.post(url("outer", name="letters"), {"arguments": {"about": "plums"}}).json()
    assert body["outcome"] == "needs_input"
    (ask,) = body["asks"]
    assert (ask["message"], ask["schema"]) == ("Send it?", APPROVAL["resume_payload"])
    answer = {"answers": {ask["id"]: {"approved": True}}}
    ended = outer.post(body["resume"], answer).json()
    assert (ended["outcome"], ended["outputs"]) == ("ok", {"letter": "Sent"})
    assert runs.answered == [{"interrupt_type": "approval", "approved": True}]


def test_runs_on_a_thread_are_listed_with_what_their_client_marked_them_by(inner, runs):
    root = "/serve/desk/live/acp"

    def post(path, **body):
        return inner.post(f"{root}{path}", body, format="json")

    (agent,) = post("/agents/search").json()
    thread = post("/threads", metadata={"about": "plums"}).json()
    assert (thread["status"], thread["metadata"]) == ("idle", {"about": "plums"})
    thread_path = f"/threads/{thread['thread_id']}"
    run = {"agent_id": agent["agent_id"], "input": {"about": "figs"}}
    ended = [
        post(f"{thread_path}/runs/wait", **run, metadata={"call_id": mark}).json()["run"]
        for mark in ("one", "two")
    ]
    assert [run["thread_id"] for run in ended] == [thread["thread_id"]] * 2
    listed_runs = inner.get(f"{root}{thread_path}/runs", {"limit": 5}).json()
    assert [run["run_id"] for run in listed_runs] == [run["run_id"] for run in ended[::-1]]
    assert [run["creation"]["metadata"]["call_id"] for run in listed_runs] == ["two", "one"]
    assert inner.get(f"{root}{thread_path}/runs", {"limit": 5, "offset": 1}).json() == listed_runs[1:]
    assert inner.get(f"{root}{thread_path}/runs/{listed_runs[0]['run_id']}").json() == listed_runs[0]
    alone = post("/runs/wait", **run).json()["run"]
    assert "thread_id" not in alone
    assert inner.get(f"{root}{thread_path}/runs/{alone['run_id']}").status_code == 404
    found_threads = post("/threads/search", metadata={"about": "plums"}, status="idle").json()
    assert [thread_row["thread_id"] for thread_row in found_threads] == [thread["thread_id"]]
    assert post("/threads/search", status="busy").json() == []
    for path, body, status in (
        ("/threads", {"thread_id": thread["thread_id"]}, 409),
        ("/threads", {"thread_id": "7"}, 422),
        ("/threads/search", {"values": {"told": []}}, 422),
        ("/threads/search", {"limit": 0}, 422),
        ("/threads/3f1c0000-0000-4000-8000-000000000001/runs/wait", run, 404),
        (f"{thread_path}/runs/wait", run | {"config": {"configurable": {"tone": "loud"}}}, 422),
        (f"{thread_path}/runs/wait", run | {"config": {"configurable": 7}}, 422),
    ):
        refused = post(path, **body)
        assert (refused.status_code, type(refused.json())) == (status, str), path
    same = post("/threads", thread_id=thread["thread_id"], if_exists="do_nothing")
    assert same.json()["thread_id"] == thread["thread_id"]
    response = post("/threads/3f1c0000-0000-4000-8000-000000000001/runs/wait", **run, if_not_exists="create")
    assert response.json()["run"]["thread_id"] == "3f1c0000-0000-4000-8000-000000000001"
    assert inner.delete(f"{root}{thread_path}").status_code == 204
    for path in ("", "/history", "/runs"):
        assert inner.get(f"{root}{thread_path}{path}").status_code == 404
    assert Call.objects.count() == len(runs.started) == 4
