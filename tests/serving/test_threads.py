"""Threads of ACP agents: a runtime begins one, and what a run leaves there the next one finds."""

import signal
import uuid
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalog.models import Call, Thread, Tool
from catalog.tools import sensitive_values
from designer.models import Agent
from execution.calls import call_keys, queue, remote_runs
from execution.tasks import forget_threads, perform_call
from execution.threads import threads
from people.models import AuditEntry, Role
from tests import forked_python
from tests.acp_runs import Runs
from tests.factories import make_user
from tests.hostile_vendor import HostileVendor, json_reply
from tests.pages import text_of
from tests.serving.test_calls import GIVEN, desk_with, owner, runtime, url
from tests.serving.test_long_calls import PERFORM, let_go, url_of

__all__ = ["owner"]
pytestmark = pytest.mark.django_db(transaction=True)
THREADS = "/api/v1/agents/desk/threads/"
BEGIN = url().replace("/invoke/", "/threads/")
STATE = {"type": "object", "properties": {"told": {"type": "array"}}, "required": ["told"]}
REST = {"specs": {"capabilities": {"threads": True, "callbacks": True}, "thread_state": STATE}}


@pytest.fixture(autouse=True)
def short_looks(monkeypatch):
    monkeypatch.setattr(remote_runs, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(remote_runs, "POLL_SECONDS", 0.05)


@pytest.fixture
def runs():
    runs = Runs()
    runs.end({"Sky now": "fair"})
    return runs


@pytest.fixture
def vendor(runs):
    with HostileVendor(runs) as running:
        yield running


@pytest.fixture
def client(owner, vendor):
    agent, _ = desk_with(owner, vendor, protocol="acp", outputs_rest={}, rest=REST)
    return runtime(owner, agent)


def of_vendor(thread: str) -> str:
    row = Thread.objects.filter(key=thread).first()
    user = row.requested_by_id if row else 0
    owner = f"agent:{row.agent}" if row and row.agent else f"user:{user}"
    return f"theirs-{call_keys.key_for(owner, thread, 'at its vendor')}"


def begin_thread(client, **body) -> str:
    answer = client.post(BEGIN, body)
    assert answer.status_code == 201, answer.json()
    return answer.json()["id"]


def test_runs_on_a_thread_go_on_from_each_other(client, runs, owner):
    thread = begin_thread(client, metadata={"about": "weather"})
    for zip_code in ("0150", "0151"):
        answer = client.post(url(), {"arguments": {"Zip_code": zip_code}, "thread": thread}).json()
        assert (answer["outcome"], answer["thread"]) == ("ok", thread)
    thread_body = client.get(f"{THREADS}{thread}/").json()
    assert [state["Zip code"] for state in thread_body["state"]["values"]["told"]] == ["0150", "0151"]
    assert (
        thread_body["tool"],
        thread_body["status"],
        thread_body["state_schema"],
        thread_body["error"],
    ) == ("sky", "idle", STATE, None)
    assert thread_body["calls"] == list(Call.objects.order_by("-pk").values_list("pk", flat=True))
    assert set(runs.on_thread.values()) == {of_vendor(thread)}
    assert all("on_completion" not in body for body in runs.started.values())
    (row,) = client.get(THREADS).json()["results"]
    assert (row["id"], row["tool"]) == (thread, "sky")
    states = client.get(f"{THREADS}{thread}/history/", {"limit": 1}).json()["results"]
    assert [(state["checkpoint"], len(state["values"]["told"])) for state in states] == [("1", 1)]
    assert client.get(f"{THREADS}{thread}/history/", {"limit": 0}).status_code == 400
    assert client.delete(f"{THREADS}{thread}/").status_code == 204
    assert runs.removed == [of_vendor(thread)]
    assert client.get(f"{THREADS}{thread}/").status_code == 404
    refused = client.post(url(), GIVEN | {"thread": thread})
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["thread"])
    entries = AuditEntry.objects.filter(kind="thread").order_by("pk")
    assert [(entry.action, entry.actor) for entry in entries] == [
        ("start thread", owner),
        ("remove thread", owner),
    ]


def test_the_list_of_threads_asks_as_much_for_many(client):
    def count_queries():
        with CaptureQueriesContext(connection) as queries:
            rows = client.get(THREADS).json()["results"]
        assert all(row["tool"] == "sky" for row in rows)
        return len(rows), len(queries)

    begin_thread(client)
    count_queries()
    one, queries = count_queries()
    row = Thread.objects.get()
    Thread.objects.bulk_create(
        Thread(
            **{
                **{f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields},
                "id": None,
                "key": uuid.uuid4(),
            }
        )
        for _ in range(6)
    )
    assert (one, count_queries()) == (1, (7, queries))


def test_a_thread_is_begun_once_by_its_id(client, runs, owner):
    client_id = str(uuid.uuid4())
    assert begin_thread(client, id=client_id) == begin_thread(client, id=client_id) == client_id
    assert (Thread.objects.count(), len(runs.threads)) == (1, 1)
    other = runtime(owner, Agent.objects.get())
    response = other.post(BEGIN, {"id": client_id})
    assert (response.status_code, response.json()["code"]) == (409, "key_taken")
    for ask in (other.get, other.delete):
        assert ask(f"{THREADS}{client_id}/").status_code == 404
    assert other.get(f"{THREADS}{client_id}/history/").status_code == 404
    assert other.get(THREADS).json()["results"] == []
    assert other.post(url(), GIVEN | {"thread": client_id}).status_code == 400
    assert client.post(BEGIN.replace("/sky/", "/none/"), {}).status_code == 404


def test_agents_begin_threads_of_their_own_by_the_same_id(client, runs, owner, vendor):
    agent, _ = desk_with(owner, vendor, slug="desk2", protocol="acp", outputs_rest={}, rest=REST)
    other, client_id = runtime(owner, agent), str(uuid.uuid4())
    assert begin_thread(client, id=client_id) == client_id
    answer = other.post(BEGIN.replace("/desk/", "/desk2/"), {"id": client_id})
    assert (answer.status_code, answer.json()["id"]) == (201, client_id)
    assert len({thread.remote_id for thread in Thread.objects.filter(key=client_id)}) == 2
    assert len(runs.threads) == 2
    assert other.delete(f"{THREADS.replace('/desk/', '/desk2/')}{client_id}/").status_code == 204
    assert client.get(f"{THREADS}{client_id}/").status_code == 200


def test_a_call_sent_again_hears_its_outcome_after_its_thread_is_gone(client, runs):
    thread, client_id = begin_thread(client), str(uuid.uuid4())
    call = GIVEN | {"thread": thread, "id": client_id}
    first = client.post(url(), call).json()
    assert client.delete(f"{THREADS}{thread}/").status_code == 204
    again = client.post(url(), call)
    assert (again.status_code, again.json()["call"], again.json()["outcome"]) == (200, first["call"], "ok")
    for other in ({"id": str(uuid.uuid4())}, {"arguments": {"Zip_code": "0151"}}, {"thread": client_id}):
        assert client.post(url(), call | other).status_code == 400
    assert len(runs.started) == 1


def test_threads_that_are_gone_or_unused_are_forgotten(client):
    removed, unused, used = (begin_thread(client) for _ in range(3))
    call = client.post(url(), GIVEN | {"thread": removed}).json()["call"]
    client.delete(f"{THREADS}{removed}/")
    forget_threads()
    assert Thread.objects.count() == 3
    rows = Thread.objects.filter(key=removed)
    rows.update(removed_at=timezone.now() - threads.REMOVED_RETENTION - timedelta(minutes=1))
    old = timezone.now() - threads.UNUSED_RETENTION - timedelta(minutes=1)
    Thread.objects.filter(key=unused).update(used_at=old)
    busy = client.post(url(), GIVEN | {"mode": "async", "thread": used}).json()["call"]
    Thread.objects.filter(key=used).update(used_at=old)
    forget_threads()
    assert [str(key) for key in Thread.objects.values_list("key", flat=True)] == [used]
    assert client.get(url_of(call)).json()["thread"] is None
    client.post(url_of(busy, "cancel/"))
    forget_threads()
    assert not Thread.objects.exists()


def test_threads_of_runtimes_are_seen_and_ended_on_pages(client, runs, owner):
    pages = Client()
    pages.force_login(owner)
    assert "No threads yet" in text_of(pages.get("/agents/desk/threads/"))
    thread = begin_thread(client)
    client.post(url(), GIVEN | {"thread": thread})
    page_text = text_of(pages.get("/agents/desk/threads/"))
    assert all(word in page_text for word in (f"Thread {thread[:8]}", "sky", "Desk key", "Idle"))
    at_page = f"/agents/desk/threads/{thread}/"
    thread_text = text_of(pages.get(at_page))
    assert "Succeeded" in thread_text
    assert "0150" not in thread_text
    text_with_question = text_of(pages.get(f"{at_page}?ask=1"))
    assert "0150" in text_with_question
    client.post(url(), GIVEN | {"thread": thread, "mode": "async"})
    busy = pages.post(f"{at_page}end/", follow=True)
    assert "A call is running on this thread" in text_of(busy)
    client.post(url_of(Call.objects.latest("pk").pk, "cancel/"))
    assert "was deleted" in text_of(pages.post(f"{at_page}end/", follow=True))
    assert runs.removed == [of_vendor(thread)]
    assert pages.get(at_page).status_code == 404


def test_people_do_not_see_the_contents_of_a_thread_with_sensitive_values(client, owner):
    thread = begin_thread(client)
    for _ in range(2):
        client.post(url(), {"arguments": {"Zip_code": "0150"}, "thread": thread})
    Thread.objects.update(metadata={"about": "0150"})
    tool = Thread.objects.get().tool
    sensitive_values.mark(tool, actor=owner, inputs=["/Zip code"], outputs=[])
    pages = Client()
    pages.force_login(owner)
    for address in (f"{THREADS}{thread}/", f"{THREADS}{thread}/history/"):
        assert "0150" in client.get(address).content.decode()
        assert "0150" not in pages.get(address).content.decode()
    shown = pages.get(f"/agents/desk/threads/{thread}/?ask=1")
    assert (shown.context["held"].values, shown.context["history"][0].values) == (None, None)
    assert shown.context["held"].notes[-1].code == "SENSITIVE"
    assert "0150" not in shown.content.decode()


def test_the_history_says_which_state_is_the_one_of_now(client, runs, owner, monkeypatch):
    pages = Client()
    pages.force_login(owner)
    thread = begin_thread(client)
    for zip_code in ("0150", "0151"):
        client.post(url(), {"arguments": {"Zip_code": zip_code}, "thread": thread})
    page = f"/agents/desk/threads/{thread}/?ask=1"
    response = pages.get(page)
    assert [state.checkpoint for state in response.context["history"]] == ["1", "0"]
    assert "current contents" not in text_of(response), "this vendor tells the states before it alone"
    present = threads.state(Thread.objects.get())
    earlier = threads.history(Thread.objects.get(), limit=5)
    monkeypatch.setattr(threads, "history", lambda *_, **__: [replace(present, checkpoint="2"), *earlier])
    response = pages.get(page)
    page_text = text_of(response)
    assert [state.checkpoint for state in response.context["history"]] == ["2", "1", "0"]
    assert "2 current contents" in page_text
    assert "Before," not in page_text


def test_a_tool_is_tried_on_a_thread(client, runs, owner):
    pages, tool = Client(), Tool.objects.get()
    pages.force_login(owner)
    page = f"/tools/{tool.pk}/try/"

    def ran(thread):
        form = {"ordinal": 1, "key": str(uuid.uuid4()), "arg-0": "0150", "thread": thread, "json": "{}"}
        form["json"] = '{"Zip code": "0150"}'
        answer = pages.post(page, form)
        assert answer.status_code == 302, text_of(answer)
        call = Call.objects.latest("pk")
        perform_call(call.pk)
        return call

    assert ran("").thread is None
    first = ran("new")
    again = ran(str(first.thread.key))
    assert (again.thread, again.outcome or Call.objects.get(pk=again.pk).outcome) == (first.thread, "ok")
    assert list(runs.on_thread.values()) == [of_vendor(str(first.thread.key))] * 2
    assert f"{first.thread}" in text_of(pages.get(page))
    response = pages.post(page, {"ordinal": 1, "json": '{"Zip code": "0150"}', "thread": str(uuid.uuid4())})
    assert "This thread was removed" in text_of(response)
    ended = pages.post(f"/tools/{tool.pk}/threads/{first.thread.key}/end/", follow=True)
    assert "was deleted" in text_of(ended)
    other = Client()
    other.force_login(make_user(Role.DESIGNER))
    other_thread = ran("new").thread
    assert other.post(f"/tools/{tool.pk}/threads/{other_thread.key}/end/").status_code == 404


def test_one_call_at_a_time_runs_on_a_thread(client, runs):
    thread = begin_thread(client)
    first = client.post(url(), GIVEN | {"mode": "async", "thread": thread}).json()["call"]
    busy = client.post(url(), GIVEN | {"thread": thread})
    assert (busy.status_code, busy.json()["code"]) == (409, "thread_busy")
    assert client.delete(f"{THREADS}{thread}/").json()["code"] == "thread_busy"
    assert client.get(THREADS).json()["results"][0]["status"] == "busy"
    client.post(url_of(first, "cancel/"))
    assert client.post(url(), GIVEN | {"thread": thread}).json()["outcome"] == "ok"
    assert len(runs.started) == 1


def test_tools_without_threads_have_none(owner, vendor):
    agent, _ = desk_with(owner, vendor, protocol="acp", outputs_rest={})
    refused = runtime(owner, agent).post(BEGIN, {})
    assert (refused.status_code, refused.json()["code"]) == (409, "no_threads")
    assert vendor.requests == []


def test_what_the_vendor_does_not_tell_is_said(client, vendor, runs):
    thread = begin_thread(client)
    runs.threads[of_vendor(thread)] = {"odd": 1}
    (note,) = client.get(f"{THREADS}{thread}/").json()["state"]["notes"]
    assert note["code"] == "THREAD_STATE"
    del runs.threads[of_vendor(thread)]
    body = client.get(f"{THREADS}{thread}/").json()
    assert (body["state"], body["error"]["code"]) == (None, "thread_refused")
    vendor.script = json_reply("Not now.", status=503)
    assert client.get(f"{THREADS}{thread}/").json()["error"]["code"] == "thread_unavailable"
    refused = client.post(BEGIN, {})
    assert (refused.status_code, refused.json()["code"]) == (503, "thread_unavailable")


@pytest.mark.faults
@pytest.mark.parametrize("point", ["run-begun", "run-started"])
def test_a_run_on_a_thread_outlives_its_worker(client, runs, process_environment, point):
    thread = begin_thread(client)
    call = client.post(url(), GIVEN | {"mode": "async", "thread": thread}).json()["call"]
    crash = {"CRASHPOINT": point, "DEBUG_CRASH": "1"}
    worker = forked_python.run("-c", PERFORM, str(call), env=process_environment | crash)
    assert worker.returncode == -signal.SIGKILL
    let_go(call)
    queue.sweep()
    perform_call(call)
    assert client.get(url_of(call)).json()["outcome"] == "ok"
    assert (len(runs.started), list(runs.on_thread.values())) == (1, [of_vendor(thread)])


def test_a_word_of_the_vendor_has_its_run_looked_at_sooner(client, runs, settings, monkeypatch):
    settings.PUBLIC_URL = "https://pegboard.example"
    runs.ended.clear()
    runs.output = None
    woken = []
    call = client.post(url(), GIVEN | {"mode": "async"}).json()["call"]
    perform_call(call)
    monkeypatch.setattr("execution.calls.run_hints.wake_worker", woken.append)
    (body,) = runs.started.values()
    hint = body["webhook"].removeprefix(settings.PUBLIC_URL)
    runs.end({"Sky now": "fair"})
    assert client.post(hint[:-2] + "x/").status_code == 404
    assert client.post(hint.replace(hint.split("/")[3], str(uuid.uuid4()))).status_code == 404
    assert woken == []
    for _ in range(3):
        assert client.post(hint, {"status": "error"}).status_code == 200
    assert woken == [call]
    perform_call(call)
    assert client.get(url_of(call)).json()["outcome"] == "ok"
    assert client.post(hint).status_code == 200
    assert woken == [call]
