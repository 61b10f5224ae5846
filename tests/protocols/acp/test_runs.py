import json

import pytest

from protocols.acp.client import ACP
from protocols.base import Context
from protocols.call_outcome import CLOSED
from protocols.events import parse
from tests.scripted import Exchange, ScriptedSession

AGENT = "5f0a3c1e-8d7b-4f16-9a52-0c6e1b2d3f01"
RUN = "7d0c1f8e-0000-4000-8000-000000000001"
OBJECT = {"type": "object", "properties": {"letter": {"type": "string"}}}
APPROVAL = {
    "interrupt_type": "approval",
    "interrupt_payload": {"type": "object"},
    "resume_payload": {"type": "object", "properties": {"approved": {"type": "boolean"}}},
}
REQUEST = {
    "agent_id": AGENT,
    "input": {"about": "apples"},
    "metadata": {"call_id": "<any>"},
    "on_completion": "delete",
}


def document(**specs):
    return {
        "metadata": {"ref": {"name": "example.letters", "version": "1.0.0"}, "description": "Writes."},
        "specs": {
            "capabilities": {"streaming": {"values": True}},
            "input": {"type": "object", "properties": {"about": {"type": "string"}}},
            "output": OBJECT,
            "interrupts": [APPROVAL],
        }
        | specs,
    }


def waiting(output=None, *, payload=REQUEST, run=None, **recorded):
    body = {"run": {"run_id": RUN, "status": "success"} if run is None else run, "output": output}
    return Exchange("POST", "/runs/wait", json=payload, **{"body": body} | recorded)


def run(*recorded, arguments=None, **specs):
    session = ScriptedSession(*recorded)
    signature_read = ACP().read(document(**specs))
    inputs = {"about": "apples"} if arguments is None else arguments
    outcome = ACP().invoke(session, AGENT, "1.0.0", signature_read, inputs)
    assert not session.left
    return outcome


def result(**members):
    return {"type": "result"} | members


@pytest.mark.parametrize(
    ("specs", "arguments", "sent_members"),
    [
        ({}, {}, {"input": {}}),
        ({"config": {}}, {}, {"input": {}, "config": {"configurable": {}}}),
        (
            {"config": {}},
            {"about": "a", "config": {"tone": "WARM"}},
            {"input": {"about": "a"}, "config": {"configurable": {"tone": "WARM"}}},
        ),
        ({"input": {"type": "string"}}, {"input": "a"}, {"input": "a"}),
        (
            {"input": {"type": "string"}, "config": {}},
            {"input": "a", "config": 5},
            {"input": "a", "config": {"configurable": 5}},
        ),
    ],
)
def test_input_and_config_go_where_they_belong(specs, arguments, sent_members):
    request = {"agent_id": AGENT, "metadata": {"call_id": "<any>"}, "on_completion": "delete"} | sent_members
    recorded = waiting(result(values={"letter": "Dear"}), payload=request)
    assert run(recorded, arguments=arguments, **specs).outcome == "ok"


@pytest.mark.parametrize(
    ("schema", "output", "outputs"),
    [
        (OBJECT, result(values={"letter": "Dear", "more": 1}), {"letter": "Dear", "more": 1}),
        (OBJECT, result(values={"letter": "Dear"}, messages=None), {"letter": "Dear"}),
        (OBJECT, result(values=None, messages=[{"role": "ai"}]), {"messages": [{"role": "ai"}]}),
        (OBJECT, result(values="Dear"), {"output": "Dear"}),
        ({"type": "string"}, result(values="Dear"), {"output": "Dear"}),
        ({"type": "integer"}, result(values=5), {"output": 5}),
        (OBJECT, {"values": {"letter": "Dear"}}, {"letter": "Dear"}),
        (OBJECT, {"messages": []}, {"messages": []}),
    ],
)
def test_result_becomes_outputs(schema, output, outputs):
    outcome = run(waiting(output), output=schema)
    assert (outcome.outcome, outcome.outputs) == ("ok", outputs)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ({"type": "error", "errcode": 7, "description": "No paper."}, "The agent failed (7): No paper."),
        ({"type": "error", "errcode": "x", "description": None}, "The agent failed."),
        ({"errcode": 1, "description": {"why": "x"}}, 'The agent failed (1): {"why":"x"}'),
    ],
)
def test_agent_that_failed_says_why(output, message):
    outcome = run(waiting(output))
    assert (outcome.outcome, outcome.error["code"]) == ("tool_error", "RUN_FAILED")
    assert outcome.error["message"] == message
    assert outcome.error["vendor"]["code"] == str(output["errcode"])


LETTERS = {"type": "result", "values": {"letter": "Dear"}}
QUESTION = {"type": "interrupt", "interrupt": "Post it?"}
FAILURE = {"type": "error", "errcode": 7, "description": "No paper."}


@pytest.mark.parametrize(
    ("status", "output", "outcome", "code"),
    [
        ("success", LETTERS, "ok", None),
        (None, LETTERS, "ok", None),
        ("timeout", LETTERS, "tool_error", "RUN_TIMEOUT"),
        ("timeout", {"type": "result", "values": {}}, "tool_error", "RUN_TIMEOUT"),
        ("timeout", None, "tool_error", "RUN_TIMEOUT"),
        ("timeout", QUESTION, "tool_error", "RUN_TIMEOUT"),
        ("timeout", FAILURE, "tool_error", "RUN_TIMEOUT"),
        ("error", LETTERS, "tool_error", "RUN_FAILED"),
        ("error", QUESTION, "tool_error", "RUN_FAILED"),
        ("error", None, "tool_error", "RUN_FAILED"),
        ("cancelled", LETTERS, "tool_error", "RUN_FAILED"),
        ("success", FAILURE, "tool_error", "RUN_FAILED"),
        ("success", QUESTION, "needs_input", "INTERRUPT"),
        ("interrupted", LETTERS, "needs_input", "INTERRUPT"),
    ],
)
def test_status_that_contradicts_the_output_counts_for_the_worse(status, output, outcome, code):
    started = {"run_id": RUN, "status": status}
    waited_for = run(waiting(output, run=started))
    resumed = resume(answering(), Exchange(path=f"/runs/{RUN}/wait", body={"run": started, "output": output}))
    results = [waited_for, resumed]
    if output:
        # Beside the output, or in it, where the run states that all is well.
        inside = {**output, "status": status}
        body = {"run": {"run_id": RUN}, "status": status, "output": output}
        results.append(run(waiting(body=body)))
        results.append(run(waiting(inside, run={"run_id": RUN, "status": "success"})))
        results.append(
            run(waiting(status=404), streaming(stream({**output, "run_id": RUN, "status": status})))
        )
    for result in results:
        assert (result.outcome, (result.error or {}).get("code")) == (outcome, code)
        if code in ("RUN_TIMEOUT", "RUN_FAILED") and output in (None, LETTERS):
            assert status in result.error["message"]
        if output == LETTERS and outcome == "tool_error":
            assert result.outputs == {"letter": "Dear"}


def test_result_of_a_run_that_is_not_over_is_none():
    pending = {"run_id": RUN, "status": "pending"}
    outcome = run(waiting(LETTERS, run=pending), cancelling())
    assert (outcome.outcome, outcome.error["code"]) == ("unavailable", "STILL_RUNNING")
    streamed = run(waiting(status=404), streaming(stream(DRAFT)), cancelling())
    assert (streamed.outcome, streamed.error["code"]) == ("unavailable", "STILL_RUNNING")


@pytest.mark.parametrize(
    ("interrupt", "name", "message", "is_typed"),
    [
        ({"interrupt_type": "approval", "message": "Post it?"}, "approval", "Post it?", True),
        ({"interruput_type": "approval", "question": "Post it?"}, "approval", "Post it?", True),
        ({"approval": {"prompt": "Post it?"}}, "approval", "Post it?", False),
        ({"letter": "Dear"}, "approval", '{"letter":"Dear"}', False),
        ({"a": 1, "b": 2}, "approval", '{"a":1,"b":2}', False),
        ("Post it?", "approval", "Post it?", False),
        (None, "approval", "The agent asks for input.", False),
        ({"interrupt_type": "other"}, "other", "{}", True),
    ],
)
def test_interrupt_becomes_a_question_in_each_of_its_forms(interrupt, name, message, is_typed):
    outcome = run(waiting({"type": "interrupt", "interrupt": interrupt}))
    (ask,) = outcome.asks
    assert (outcome.outcome, ask.id, ask.message) == ("needs_input", name, message)
    assert ask.schema == (APPROVAL["resume_payload"] if name == "approval" else {})
    assert outcome.resume == {"run_id": RUN, "interrupt": name, "typed": is_typed}


@pytest.mark.parametrize("interrupts", [None, 5, [5, {}]])
def test_interrupt_that_nobody_declared_is_a_question_all_the_same(interrupts):
    output = {"type": "interrupt", "interrupt": {"approval": {"text": "Post it?"}}}
    (ask,) = run(waiting(output), interrupts=interrupts).asks
    assert (ask.id, ask.message, ask.schema) == ("approval", "Post it?", {})


@pytest.mark.parametrize("run_id", [None, "", 5, "x" * 256])
def test_interrupt_of_a_run_without_an_id_cannot_be_answered(run_id):
    outcome = run(waiting({"type": "interrupt", "interrupt": "Post it?"}, run={"run_id": run_id}))
    assert (outcome.outcome, outcome.resume) == ("needs_input", None)


STATE = {"run_id": RUN, "interrupt": "approval", "typed": False}


def resume(*recorded, answers=None, **state):
    session = ScriptedSession(*recorded)
    signature_read = ACP().read(document())
    answer = {"approval": {"approved": True}} if answers is None else answers
    outcome = ACP().resume(session, AGENT, "1.0.0", signature_read, STATE | state, answer)
    assert not session.left
    return outcome


def answering(payload=None, **recorded):
    payload = {"approved": True} if payload is None else payload
    return Exchange("POST", f"/runs/{RUN}", json=payload, **{"body": {"run_id": RUN}} | recorded)


def waited(output=None, **recorded):
    return Exchange(path=f"/runs/{RUN}/wait", **{"body": {"run": None, "output": output}} | recorded)


def test_answer_goes_on_with_the_run():
    outcome = resume(answering(), waited(result(values={"letter": "Dear"})))
    assert (outcome.outcome, outcome.outputs) == ("ok", {"letter": "Dear"})


def test_answer_names_its_kind_where_the_question_did():
    sent_answer = {"interrupt_type": "approval", "approved": True}
    assert resume(answering(sent_answer), waited(result(values={})), typed=True).outcome == "ok"
    assert resume(answering("yes"), waited(result(values={})), answers={"approval": "yes"}, typed=True)


def test_run_may_ask_again():
    again = resume(answering(), waited({"type": "interrupt", "interrupt": "Sure?"}))
    assert (again.outcome, again.resume["run_id"]) == ("needs_input", RUN)


def test_question_without_an_answer_stays_open():
    outcome = resume(answers={"other": 1})
    assert outcome.error["fields"] == {"approval": "is required"}


def cancelling(run_id=RUN, **recorded):
    return Exchange("POST", f"/runs/{run_id}/cancel", json={}, **{"status": 204, "text": ""} | recorded)


@pytest.mark.parametrize("recorded", [{}, {"status": 500}])
@pytest.mark.parametrize("answer", [None, CLOSED])
def test_declining_ends_the_run(recorded, answer):
    outcome = resume(cancelling(**recorded), answers={"approval": answer})
    assert (outcome.outcome, outcome.error["code"]) == ("refused", "DECLINED")


@pytest.mark.parametrize(
    ("recorded", "outcome", "code"),
    [
        ({"status": 409, "body": "It has ended."}, "refused", "CONFLICT"),
        ({"status": 409, "text": ""}, "refused", "CONFLICT"),
        ({"status": 404, "body": "No such run."}, "tool_error", "HTTP_404"),
        ({"status": 422, "body": {"detail": "approved is missing"}}, "invalid_arguments", "HTTP_422"),
        ({"status": 401, "text": ""}, "needs_authorization", "AUTH"),
        ({"fails": "RESET"}, "unavailable", "RESET"),
    ],
)
def test_answer_that_is_refused_is_told_apart(recorded, outcome, code):
    result = resume(answering(**recorded))
    assert (result.outcome, result.error["code"]) == (outcome, code)


@pytest.mark.parametrize("code", ["DEADLINE", "IDLE"])
def test_resumed_run_that_takes_too_long_is_cancelled(code):
    outcome = resume(answering(), waited(fails=code), cancelling())
    assert (outcome.outcome, outcome.error["code"]) == ("unavailable", code)
    assert outcome.error["message"].endswith("The run was cancelled.")


def test_wait_that_the_vendor_ends_is_one_that_took_too_long():
    outcome = resume(answering(), waited(status=204, text=""), cancelling(status=200))
    assert outcome.error["code"] == "STILL_RUNNING"


@pytest.mark.parametrize("failed", [{"status": 500}, {"status": 503}, {"fails": "RESET"}])
def test_answer_that_was_taken_is_not_given_again(failed):
    outcome = resume(answering(), waited(**failed))
    assert (outcome.outcome, outcome.can_retry) == ("unavailable", True)
    later = resume(waited(result(values={"letter": "Dear"})), answers={}, **outcome.resume)
    assert (later.outcome, later.outputs) == ("ok", {"letter": "Dear"})


def test_run_on_a_thread_is_found_among_pages():
    def page(offset, runs):
        return Exchange(path="/threads/t%2F1/runs", params={"limit": "100", "offset": offset}, body=runs)

    others = [{"run_id": str(n)} for n in range(100)]
    own_run = {"run_id": RUN, "creation": {"metadata": {"call_id": "mark"}}}
    for pages, expected_run in (
        ([others, [own_run]], RUN),
        ([others, others], None),
        ([[]], None),
        ([{}], None),
    ):
        session = ScriptedSession(*(page(str(n * 100), page_body) for n, page_body in enumerate(pages)))
        session.mark = "mark"
        protocol = ACP()
        protocol.context = Context(thread="t/1")
        assert protocol.find(session) == expected_run
        assert not session.left


SEARCH = {"metadata": {"call_id": "<any>"}, "limit": 10, "offset": 0}


class Echoing(ScriptedSession):
    """Knows the run by the mark that was sent with it."""

    def send(self, request):
        if request.path == "/runs/wait":
            self.mark = json.loads(request.content)["metadata"]["call_id"]
        if request.path == "/runs/search" and self.left[0].body == "by its mark":
            own_run = {"run_id": RUN, "creation": {"metadata": {"call_id": self.mark}}}
            self.left[0].body = [5, {"run_id": "other"}, own_run]
        return super().send(request)


def given_up(*recorded):
    session = Echoing(waiting(fails="DEADLINE"), *recorded)
    outcome = ACP().invoke(session, AGENT, "1.0.0", ACP().read(document()), {"about": "apples"})
    assert not session.left
    assert (outcome.outcome, outcome.error["code"]) == ("unavailable", "DEADLINE")
    return outcome.error["message"]


def searching(body, **recorded):
    return Exchange("POST", "/runs/search", json=SEARCH, body=body, **recorded)


def test_run_that_takes_too_long_is_found_by_its_mark_and_cancelled():
    assert given_up(searching("by its mark"), cancelling()).endswith("The run was cancelled.")


@pytest.mark.parametrize(
    "recorded",
    [
        [searching([])],
        [searching({})],
        [searching(None, status=404)],
        [searching([{"run_id": "of somebody else"}])],
        [searching("by its mark"), cancelling(status=500)],
    ],
)
def test_run_that_cannot_be_cancelled_is_said_to_go_on(recorded):
    assert given_up(*recorded).endswith("could not be cancelled and may still be running.")


@pytest.mark.parametrize(
    ("recorded", "outcome", "code"),
    [
        ({"status": 422, "body": "about must be text"}, "invalid_arguments", "HTTP_422"),
        ({"status": 400, "body": {"title": "Bad", "status": 400}}, "invalid_arguments", "HTTP_400"),
        ({"status": 403, "text": ""}, "refused", "FORBIDDEN"),
        ({"status": 401, "body": {"detail": "Invalid API Key"}}, "needs_authorization", "AUTH"),
        ({"status": 503, "text": ""}, "unavailable", "HTTP_503"),
        ({"fails": "CONNECT"}, "unavailable", "CONNECT"),
        ({"text": "{"}, "tool_error", "JSON_SYNTAX"),
        ({"body": []}, "tool_error", "SHAPE"),
        ({"body": {}}, "tool_error", "SHAPE"),
        ({"body": {"run": {"status": "success"}, "output": None}}, "tool_error", "SHAPE"),
        ({"body": {"output": {}}}, "tool_error", "SHAPE"),
        ({"body": {"output": {"type": "poem"}}}, "tool_error", "SHAPE"),
    ],
)
def test_every_other_answer_has_an_outcome(recorded, outcome, code):
    result = run(waiting(**recorded), capabilities={})
    assert (result.outcome, result.error["code"]) == (outcome, code)


@pytest.mark.parametrize(
    "body",
    [
        {"detail": [{"loc": ["body", "input", "about"], "msg": "must be text"}]},
        {"message": "about: must be text"},
        "about: must be text",
    ],
)
def test_refusal_is_read_in_each_of_its_forms(body):
    result = run(waiting(status=422, body=body))
    assert result.error["message"] == "The vendor refused the inputs (422): about: must be text"


def stream(*updates):
    return "".join(f"event: agent_event\ndata: {json.dumps(update)}\n\n" for update in updates)


def streaming(text, **recorded):
    headers = {"content-type": "text/event-stream"}
    return Exchange("POST", "/runs/stream", json=REQUEST, text=text, headers=headers, **recorded)


DRAFT = {"type": "values", "run_id": RUN, "status": "pending", "values": {"letter": "De"}}
LETTER = DRAFT | {"status": "success", "values": {"letter": "Dear"}}


@pytest.mark.parametrize("status", [404, 405, 501])
def test_stream_stands_in_where_waiting_is_not_offered(status):
    custom = {"type": "custom", "update": {"pages": 1}}
    outcome = run(waiting(status=status), streaming(stream(DRAFT, custom, "ping", LETTER)))
    assert (outcome.outcome, outcome.outputs) == ("ok", {"letter": "Dear"})


def test_stream_may_end_in_a_question_or_a_failure():
    question = {"type": "interrupt", "run_id": RUN, "status": "interrupted", "interrupt": "Post it?"}
    result = run(waiting(status=404), streaming(stream(DRAFT, question)))
    assert (result.outcome, result.resume["run_id"]) == ("needs_input", RUN)
    failure = {"type": "error", "run_id": RUN, "errcode": 7, "description": "No.", "status": "error"}
    assert run(waiting(status=404), streaming(stream(failure))).outcome == "tool_error"


@pytest.mark.parametrize("text", ["", stream({"type": "custom", "update": 1}), "event: agent_event\n"])
def test_stream_without_a_result_is_none(text):
    outcome = run(waiting(status=404), streaming(text))
    assert (outcome.outcome, outcome.error["code"]) == ("tool_error", "SHAPE")


def described(**recorded):
    return Exchange(path=f"/agents/{AGENT}/descriptor", **recorded)


def test_stream_that_is_refused_too_says_so():
    outcome = run(waiting(status=404), streaming("", status=404), described(status=404))
    assert (outcome.outcome, outcome.error["code"]) == ("refused", "NOT_FOUND")


@pytest.mark.parametrize(
    ("recorded", "outcome", "code"),
    [
        ({"status": 404}, "refused", "NOT_FOUND"),
        ({"body": document()}, "tool_error", "HTTP_404"),
        ({"status": 503}, "tool_error", "HTTP_404"),
    ],
)
def test_agent_that_does_not_stream_is_not_asked_to(recorded, outcome, code):
    start = waiting(status=404, body="Nothing found.")
    result = run(start, described(**recorded), capabilities={"streaming": None})
    assert (result.outcome, result.error["code"]) == (outcome, code)


def test_stream_is_read_until_its_last_update():
    class Watching(ScriptedSession):
        def send(self, request):
            if is_enough := request.is_enough:
                is_cancelled.extend(
                    is_enough(stream(*updates).encode()) for updates in ([DRAFT], [DRAFT, LETTER])
                )
            return super().send(request)

    is_cancelled = []
    session = Watching(waiting(status=404), streaming(stream(DRAFT, LETTER)))
    ACP().invoke(session, AGENT, "1.0.0", ACP().read(document()), {"about": "apples"})
    assert is_cancelled == [False, True]
    assert len(list(parse(stream(DRAFT, LETTER).encode()))) == 2
