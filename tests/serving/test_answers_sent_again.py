"""A question of a tool has one answer: who sends it again learns what came of it, and the tool runs once."""

import threading

import pytest
from django.db import connection

from catalog.models import Call
from tests.hostile_vendor import json_reply, reply
from tests.serving.serve.test_mcp import FORMS, lending, library, modern
from tests.serving.test_calls import owner, vendor

__all__ = ["lending", "owner", "vendor"]
pytestmark = pytest.mark.django_db(transaction=True)
EAST, WEST = ({"branch": {"branch": name}} for name in ("East", "West"))


@pytest.fixture
def open_call(lending):
    modern(lending, "tools/call", {"name": "sky", "arguments": {}}, can=FORMS)
    return Call.objects.get()


def answer(client, call, answers):
    return client.post(f"/api/v1/calls/{call.pk}/resume/", {"answers": answers}, format="json")


def runs(vendor):
    """Return how often answers were sent to the vendor."""
    return sum("inputResponses" in request.json().get("params", {}) for request in vendor.requests)


def test_over_rest_the_tool_runs_once(lending, open_call, vendor):
    bodies = [answer(lending, open_call, EAST).json() for _ in range(3)]
    assert {body["outcome"] for body in bodies} == {"ok"}
    assert len({body["call"] for body in bodies}) == runs(vendor) == 1


def test_over_mcp_the_tool_runs_once(lending, open_call, vendor):
    responses = {"branch": {"action": "accept", "content": EAST["branch"]}}
    params = {
        "name": "sky",
        "arguments": {},
        "requestState": f"call-{open_call.pk}",
        "inputResponses": responses,
    }
    one, two = (modern(lending, "tools/call", params, can=FORMS).json()["result"] for _ in range(2))
    assert (one, runs(vendor)) == (two, 1)


def test_another_answer_is_refused(lending, open_call, vendor):
    first = answer(lending, open_call, EAST).json()
    for other in (WEST, {"branch": None}):
        refused = answer(lending, open_call, other)
        assert (refused.status_code, refused.json()["code"]) == (409, "already_continued")
        assert f"as call {first['call']}" in refused.json()["message"]
    assert runs(vendor) == 1


def test_answers_that_come_at_once_run_the_tool_once(lending, open_call, vendor):
    bodies = []

    def send():
        bodies.append(answer(lending, open_call, EAST).json())
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len({body["call"] for body in bodies}) == runs(vendor) == 1
    assert [body["outcome"] for body in bodies] == ["ok"] * 4


@pytest.mark.parametrize(
    ("status", "headers"), [(429, {"Retry-After": "0"}), (401, {"WWW-Authenticate": "Bearer"})]
)
def test_what_the_vendor_did_not_take_may_be_answered_again(lending, open_call, vendor, status, headers):
    def away(line, request):
        if "inputResponses" in request.json().get("params", {}):
            return reply(b"", status=status, headers=headers)(line, request)
        return library(line, request)

    vendor.script = away
    assert answer(lending, open_call, EAST).json()["outcome"] != "ok"
    vendor.script = library
    assert answer(lending, open_call, WEST).json()["outcome"] == "ok"


def test_what_may_have_run_is_not_answered_again(lending, open_call, vendor):
    def lose_reply(line, request):
        if "inputResponses" in request.json().get("params", {}):
            return json_reply({"odd": True}, status=500)(line, request)
        return library(line, request)

    vendor.script = lose_reply
    first = answer(lending, open_call, EAST).json()
    assert first["outcome"] == "unavailable"
    before = runs(vendor)
    vendor.script = library
    assert answer(lending, open_call, EAST).json()["call"] == first["call"]
    assert runs(vendor) == before
