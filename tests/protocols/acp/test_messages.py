"""Runs as Pegboard's server writes them, read by its client."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from protocols.acp import wire
from protocols.acp.client import ACP
from protocols.acp.document import write_metadata
from protocols.acp.server import messages
from protocols.acp.server.release import ServedRun
from protocols.call_outcome import Ask
from protocols.server import Refusal
from tests.hostile_vendor import by_path, json_reply, reply
from tests.protocols.served import conversation

AGENT, RUN_ID = "3fa85f64-5717-4562-b3fc-2c963f66afa6", UUID(int=7)
RUN, NOW = str(RUN_ID), datetime(2026, 11, 28, tzinfo=UTC)
FIELD = {"type": "object", "properties": {"letter": {"type": "string"}}}
APPROVAL = {"interrupt_type": "approval", "interrupt_payload": {}, "resume_payload": {"type": "object"}}
DOCUMENT = {
    "metadata": write_metadata("letters", "1.0.0", "Writes letters."),
    "specs": {
        "capabilities": {"streaming": {"values": True}, "threads": True},
        "input": {"type": "object", "properties": {}},
        "output": FIELD,
        "interrupts": [APPROVAL],
    },
}
OK = ServedRun(outcome="ok", outputs={"letter": "Dear all"}, run_id=RUN_ID, created_at=NOW, updated_at=NOW)
FAILED = replace(OK, outcome="tool_error", code="BROKEN", message="The pen broke.", outputs={})
ASKS = replace(
    FAILED,
    outcome="needs_input",
    asks=[Ask("approval", "Send it?", {"a": 1})],
    can_resume=True,
    question_kind="approval",
)


def run_of(status):
    return wire.run(run_id=RUN, agent_id=AGENT, created_at="then", updated_at="now", status=status)


def invoke(session):
    return ACP().invoke(session, AGENT, "1.0.0", ACP().read(DOCUMENT), {})


CASES = [
    (OK, "success", "ok", None),
    (FAILED, "error", "tool_error", "RUN_FAILED"),
    (replace(FAILED, outcome="unavailable"), "error", "tool_error", "RUN_FAILED"),
    (ASKS, "interrupted", "needs_input", "INTERRUPT"),
]


def assert_read(outcome, result, expected, code):
    assert (outcome.outcome, (outcome.error or {}).get("code")) == (expected, code)
    if expected == "ok":
        assert dict(outcome.outputs) == dict(result.outputs)
    elif expected == "tool_error":
        assert result.message in outcome.error["message"]
        assert outcome.error["vendor"]["code"] == str(wire.ERRORS[result.outcome])
    else:
        (ask,) = outcome.asks
        assert (ask.id, ask.message) == ("approval", "Send it?")
        assert outcome.resume["run_id"] == RUN


@pytest.mark.parametrize(("result", "status", "outcome", "code"), CASES)
def test_a_run_that_is_waited_for_is_read_as_it_was_written(result, status, outcome, code):
    body = {"run": run_of(status), "output": messages.output_of(result)}
    script = by_path({wire.runs_path("", wire.WAIT): json_reply(body)})
    with conversation(None, None, script=script) as session:
        assert_read(invoke(session), result, outcome, code)


@pytest.mark.parametrize(("result", "status", "outcome", "code"), CASES)
def test_a_stream_of_updates_is_read_as_it_was_written(result, status, outcome, code):
    updates = [(wire.result({"letter": "De"}), "pending"), (messages.output_of(result), status)]
    body = b"".join(messages.event(wire.update(item, RUN, state), "1-1") for item, state in updates)
    stream = reply(body, headers={"Content-Type": "text/event-stream"})
    script = by_path({wire.runs_path("", wire.STREAM): stream})
    with conversation(None, None, script=script) as session:
        assert_read(invoke(session), result, outcome, code)


def test_a_run_is_found_by_its_mark():
    marked = {**run_of("pending"), "creation": {"metadata": wire.mark("mine")}}
    assert wire.mark_of(marked["creation"]) == "mine"
    script = by_path(
        {wire.runs_path("", wire.SEARCH): json_reply([run_of("pending"), {**marked, "run_id": "8"}])}
    )
    with conversation(None, None, script=script) as session:
        session.mark = "mine"
        assert ACP().find(session) == "8"


def test_an_answer_is_named_by_the_interrupt_that_it_is_for():
    body = {wire.INTERRUPT_TYPE: "approval", "approved": True}
    assert messages.answers_of(body, ["approval"]) == {"approval": {"approved": True}}
    assert messages.answers_of({"approved": True}, ["approval"]) == {"approval": {"approved": True}}


def test_an_error_of_the_protocol_is_a_text():
    answer = messages.refusal(Refusal(400, "invalid", "It is odd.", {"zip": "It is short."}))
    assert (answer.status, json.loads(answer.body)) == (422, "It is odd. zip: It is short.")
