"""The database is lost after a call began: its outcome is unknown, and no door answers "try again"."""

import threading
import uuid
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, connections
from django.utils import timezone

from catalog.models import Call
from designer.agents import agents
from execution.calls import queue
from tests.factories import make_parameter
from tests.hostile_vendor import HostileVendor
from tests.serving.doors import DOORS, Ask
from tests.serving.test_calls import ANSWER, desk_with, owner, runtime

__all__ = ["owner"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]
CALLS = "/api/v1/calls/"
BATCH = "/api/v1/agents/desk/releases/live/calls/"
SAID = {
    "rest": "200 unknown OUTCOME_UNKNOWN",
    "a2t": "424 OUTCOME_UNKNOWN",
    "oxp": "200 failure OUTCOME_UNKNOWN",
    "acp": "200 error 9",
    "mcp": "200 isError OUTCOME_UNKNOWN",
    "mcp of the handshake": "200 isError OUTCOME_UNKNOWN",
}


class Line:
    """Cuts the connections to the database during a request to the vendor, if it is armed."""

    def __init__(self) -> None:
        self.settings = connections.settings["default"]
        self.parameters = psycopg_params(self.settings)
        self.port, self.is_armed = self.settings["PORT"], False
        self.lock = threading.Lock()

    def cut(self) -> None:
        with self.lock:
            if not self.is_armed or self.settings["PORT"] != self.port:
                return
            self.settings["PORT"] = "1"
            with psycopg.connect(**self.parameters, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    def mend(self) -> None:
        self.is_armed = False
        self.settings["PORT"] = self.port
        connection.close()


def psycopg_params(settings) -> dict[str, str]:
    names = {"host": "HOST", "port": "PORT", "dbname": "NAME", "user": "USER", "password": "PASSWORD"}
    return {parameter: settings[setting] for parameter, setting in names.items() if settings[setting]}


@pytest.fixture
def line():
    line = Line()
    yield line
    line.mend()


@pytest.fixture
def vendor(line):
    def answer(*request):
        line.cut()
        return ANSWER(*request)

    with HostileVendor(answer) as running:
        yield running


@pytest.fixture
def client(owner, vendor):
    agent, _ = desk_with(owner, vendor, inputs=(make_parameter("zip", max_length=5),))
    return runtime(owner, agent)


def look_after_the_lease() -> None:
    Call.objects.filter(status="running").update(gives_up_at=timezone.now() - timedelta(seconds=1))
    queue.sweep()


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_every_door_says_that_it_is_not_known_whether_a_call_ran(client, vendor, line, door):
    ask = Ask(id="turn-1")
    # A door reads the facts of the release once.
    assert door.ask(client, Ask(id="turn-0")).said.startswith("200")
    line.is_armed = True
    assert door.ask(client, ask).said == SAID[door.name]
    line.mend()
    assert len(vendor.requests) == 2
    look_after_the_lease()
    name = str(uuid.uuid5(uuid.NAMESPACE_OID, ask.id)) if door.name == "rest" else ask.id
    (stored_call,) = client.get(CALLS, {"idempotency_key": name}).json()["results"]
    assert (stored_call["outcome"], stored_call["error"]["code"]) == ("unknown", "WORKER_LOST")
    assert stored_call["idempotency_key"] == name
    again = door.ask(client, ask).said
    assert again == SAID[door.name].replace("OUTCOME_UNKNOWN", "WORKER_LOST")
    assert len(vendor.requests) == 2


def test_items_of_a_batch_that_ran_are_not_told_to_try_again(client, vendor, line):
    calls = {"calls": [{"tool": "sky", "arguments": {"zip": "0150"}}] * 3}
    assert client.post(BATCH, calls).status_code == 200
    requests_before = len(vendor.requests)
    line.is_armed = True
    answer = client.post(BATCH, calls, headers={"Idempotency-Key": "turn-1"})
    line.mend()
    results = answer.json()["results"]
    requests_sent = len(vendor.requests) - requests_before
    assert requests_sent > 0
    outcomes = [result["answer"]["outcome"] for result in results if result["status"] == 200]
    assert set(outcomes) == {"unknown"}
    assert len(outcomes) >= requests_sent
    # A call that did not begin is refused, and may be sent again.
    assert {row["error"]["code"] for row in results if row["error"]} <= {"unavailable"}
    look_after_the_lease()
    found_calls = client.get(CALLS, {"idempotency_key": "turn-1"}).json()["results"]
    assert {found_call["outcome"] for found_call in found_calls} == {"unknown"}
    assert len(found_calls) >= requests_sent


def test_calls_are_found_by_the_id_of_their_caller_alone(client, owner, vendor):
    body = {"arguments": {"zip": "0150"}, "idempotency_key": "turn-1"}
    created = client.post("/api/v1/agents/desk/releases/live/tools/sky/invoke/", body).json()
    (found_call,) = client.get(CALLS, {"idempotency_key": "turn-1"}).json()["results"]
    assert found_call == created
    assert client.get(CALLS, {"idempotency_key": "turn-2"}).json()["results"] == []
    assert client.get(CALLS).status_code == 400
    other = runtime(owner, agents.create_agent(actor=owner, name="Other"))
    assert other.get(CALLS, {"idempotency_key": "turn-1"}).json()["results"] == []
    Call.objects.all().delete()
    forgotten = client.get(CALLS, {"idempotency_key": "turn-1"})
    assert (forgotten.status_code, forgotten.json()["code"]) == (409, "call_forgotten")
