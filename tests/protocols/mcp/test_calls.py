"""The request of a call, and the outcome of each reply."""

import json

import pytest

from protocols.base import Context
from protocols.mcp.client import MCP
from tests.scripted import Exchange, ScriptedSession

CAPABILITIES = {"elicitation": {"form": {}, "url": {}}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
    "io.modelcontextprotocol/clientInfo": {"name": "Pegboard", "version": "1"},
}
TOOL = {
    "name": "renew_loan",
    "inputSchema": {
        "type": "object",
        "properties": {"loan": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["loan"],
    },
}
MARKED = {
    "type": "object",
    "properties": {"loan": {"type": "string", "x-mcp-header": "Loan"}, "days": {"type": "integer"}},
}
DUE = {"type": "object", "properties": {"due": {"type": "string"}}, "required": ["due"]}
GIVEN = {"loan": "L-7", "days": None}


def request(number, method="tools/call", **params):
    if method == "tools/call":
        params = {"name": "renew_loan", "arguments": {"loan": "L-7"}} | params
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}


def answers(payload, **result):
    return Exchange(
        method="POST", json=payload, body={"jsonrpc": "2.0", "id": payload["id"], "result": result}
    )


def refuses(payload, number, message="No.", status=400, **error):
    error = {"code": number, "message": message, **error}
    return Exchange(
        method="POST",
        json=payload,
        status=status,
        body={"jsonrpc": "2.0", "id": payload["id"], "error": error},
    )


def lists(number, *tools):
    return answers(request(number, "tools/list"), tools=list(tools))


def session_of(*exchanges):
    session = ScriptedSession(*exchanges)
    session.memory |= {"era": "modern", "version": "2026-07-28"}
    return session


def call(*exchanges, tool=None, arguments=GIVEN):
    session = session_of(*exchanges)
    signature = MCP().read(tool or TOOL)
    outcome = MCP().invoke(session, "renew_loan", None, signature, arguments)
    assert not session.left
    return outcome, session


def resume(stopped, answers_given, *exchanges):
    session = session_of(*exchanges)
    state = json.loads(json.dumps(stopped.resume))
    outcome = MCP().resume(session, "renew_loan", None, MCP().read(TOOL), state, answers_given)
    assert not session.left
    return outcome


def text(*texts):
    return [{"type": "text", "text": line} for line in texts]


def test_what_was_not_given_is_not_sent_and_the_tool_is_named_in_a_header():
    _, session = call(answers(request(2), content=[]))
    assert session.asked[0]["Mcp-Method"] == "tools/call"
    assert session.asked[0]["Mcp-Name"] == "renew_loan"


def test_texts_come_together_and_blocks_stay_as_they_are():
    blocks = [*text("One."), {"type": "image", "data": "AA==", "mimeType": "image/png"}, *text("Two.")]
    outcome, _ = call(answers(request(2), content=blocks))
    assert outcome.outputs == {"content": blocks, "text": "One.\nTwo."}
    assert not outcome.notes


def test_a_text_that_repeats_the_structured_result_is_not_told_twice():
    blocks = text('{"b": 1,\n "a": 2.5}')
    outcome, _ = call(answers(request(2), content=blocks, structuredContent={"a": 2.5, "b": 1}))
    assert outcome.outputs == {"content": blocks, "a": 2.5, "b": 1}


def test_outputs_of_the_vendor_win_over_our_own():
    outcome, _ = call(answers(request(2), content=text("a"), structuredContent={"text": "b", "content": 7}))
    assert outcome.outputs == {"content": 7, "text": "b"}


def test_a_tool_that_only_runs_as_a_task_says_so():
    obstacle = MCP().why_not_run(MCP().read(TOOL | {"execution": {"taskSupport": "required"}}))
    assert obstacle.code == "NEEDS_TASK"
    assert "as a task only" in obstacle.message


def test_an_output_that_need_not_come_is_not_missed():
    tool = TOOL | {"outputSchema": {"type": "object", "properties": {"due": {"type": "string"}}}}
    outcome, _ = call(answers(request(2), content=[]), tool=tool)
    assert (outcome.outcome, list(outcome.notes)) == ("ok", [])


@pytest.mark.parametrize("value", [[1, 2], "a", 7, None, False])
def test_an_output_that_is_no_object_stands_for_the_whole(value):
    tool = TOOL | {"outputSchema": {"type": ["array", "string", "integer", "null", "boolean"]}}
    outcome, _ = call(answers(request(2), content=[], structuredContent=value), tool=tool)
    assert outcome.outputs["output"] == value
    assert not outcome.notes


@pytest.mark.parametrize(
    ("result", "outputs", "codes"),
    [
        ({"structuredContent": {"due": "2027-03-09"}}, {"due": "2027-03-09"}, []),
        ({"structuredContent": {"due": 7}}, {"due": 7}, ["BAD_OUTPUT"]),
        ({"structuredContent": {}}, {}, ["BAD_OUTPUT"]),
        ({"structuredContent": [1]}, {"output": [1]}, ["BAD_OUTPUT"]),
        ({}, {}, ["MISSING_OUTPUT"]),
    ],
)
def test_an_output_that_does_not_fit_is_noted_and_kept(result, outputs, codes):
    outcome, _ = call(answers(request(2), content=[], **result), tool=TOOL | {"outputSchema": DUE})
    assert (outcome.outcome, outcome.outputs) == ("ok", {"content": [], **outputs})
    assert [note.code for note in outcome.notes] == codes


@pytest.mark.parametrize("odd", ["\0", "\ud83d"])
@pytest.mark.parametrize("is_error", [False, True])
def test_a_character_that_cannot_be_stored_is_replaced(odd, is_error):
    result = {"content": text(f"3 rows{odd}"), "structuredContent": {f"k{odd}": [odd]}, "isError": is_error}
    outcome, _ = call(answers(request(2), **result))
    assert outcome.outcome == ("tool_error" if is_error else "ok")
    assert outcome.outputs["content"] == text("3 rows\ufffd")
    assert outcome.outputs["k\ufffd"] == ["\ufffd"]
    assert "CHARACTERS_REPLACED" in [note.code for note in outcome.notes]


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    "odd",
    [b"NaN", b"9" * 5_000, b'{"b": 1, "b": 2}', b"[" * 100 + b"]" * 100, b"[" * 900 + b"]" * 900, b'"\xff"'],
)
def test_a_value_of_a_result_that_is_not_json_costs_only_itself(odd, kind):
    result = (
        b'{"jsonrpc": "2.0", "id": 2, "result": {"content": [], "structuredContent": {"n": 1, "a": %s}}}'
        % odd
    )
    body = b"data: %s\n\n" % result if kind.endswith("stream") else result
    outcome, _ = call(
        Exchange(
            "POST",
            "",
            json=request(2),
            headers={"content-type": kind},
            text=body.decode(errors="surrogateescape"),
        )
    )
    assert (outcome.outcome, outcome.outputs["n"]) == ("ok", 1)
    assert "CHARACTERS_REPLACED" in [note.code for note in outcome.notes]


@pytest.mark.parametrize(
    ("reply", "outcome", "code"),
    [
        (answers(request(2), content=text("Somebody waits."), isError=True), "tool_error", "TOOL_ERROR"),
        (answers(request(2), content=[], isError=True), "tool_error", "TOOL_ERROR"),
        (answers(request(2)), "tool_error", "SHAPE"),
        (answers(request(2), resultType="later"), "tool_error", "SHAPE"),
        (refuses(request(2), -32603, status=200), "tool_error", "RPC_ERROR"),
        (refuses(request(2), -32601, status=404), "refused", "NOT_FOUND"),
        (refuses(request(2), -32021), "refused", "ASKS_BACK"),
        (Exchange(method="POST", json=request(2), status=401), "needs_authorization", "AUTH"),
        (Exchange(method="POST", json=request(2), status=429, headers={"retry-after": "9"}),
         "unavailable", "RATE_LIMITED"),
        (Exchange(method="POST", json=request(2), fails="DEADLINE"), "unavailable", "DEADLINE"),
        (Exchange(method="POST", json=request(2), text="{"), "tool_error", "JSON_SYNTAX"),
    ],
)  # fmt: skip
def test_a_call_that_fails_says_why(reply, outcome, code):
    became, _ = call(reply)
    assert (became.outcome, became.error["code"]) == (outcome, code)
    assert became.error["message"]


def test_a_call_with_wrong_arguments_is_told_from_one_of_a_tool_that_is_gone():
    wrong, _ = call(refuses(request(2), -32602, "days is wrong"), lists(3, TOOL))
    assert (wrong.outcome, "days is wrong" in wrong.error["message"]) == ("invalid_arguments", True)
    result, _ = call(refuses(request(2), -32602), lists(3))
    assert (result.outcome, result.error["code"]) == ("refused", "NOT_FOUND")


def test_a_header_that_we_did_not_know_of_is_learnt_and_sent():
    outcome, session = call(
        refuses(request(2), -32020),
        lists(3, TOOL | {"inputSchema": MARKED}),
        answers(request(4), content=text("Done.")),
    )
    assert (outcome.outcome, session.asked[2]["Mcp-Param-Loan"]) == ("ok", "L-7")
    assert "Mcp-Param-Loan" not in session.asked[0]


def test_headers_that_stay_wrong_are_not_tried_for_ever():
    outcome, _ = call(refuses(request(2), -32020), lists(3, TOOL), refuses(request(4), -32020))
    assert (outcome.outcome, outcome.error["code"]) == ("tool_error", "RPC_ERROR")


FORM = {"type": "object", "properties": {"branch": {"type": "string"}}}
QUESTION = {"method": "elicitation/create", "params": {"message": "Which branch?", "requestedSchema": FORM}}
VISIT = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Sign in.", "url": "https://v.example/in"},
}


def asks(number, state=None, more=None, **questions):
    result = {"resultType": "input_required"}
    if questions:
        result["inputRequests"] = questions
    if state is not None:
        result["requestState"] = state
    return answers(request(number, **(more or {})), **result)


def test_a_tool_that_asks_waits_for_a_person_and_goes_on():
    result, _ = call(asks(2, "s1", branch=QUESTION, sign_in=VISIT))
    assert (result.outcome, result.error["code"]) == ("needs_input", "INPUT_REQUIRED")
    assert [(ask.id, ask.message, ask.schema, ask.url) for ask in result.asks] == [
        ("branch", "Which branch?", FORM, ""),
        ("sign_in", "Sign in.", None, "https://v.example/in"),
    ]
    responses = {
        "branch": {"action": "accept", "content": {"branch": "East"}},
        "sign_in": {"action": "accept"},
    }
    next_request = request(3, requestState="s1", inputResponses=responses)
    done = resume(
        result, {"branch": {"branch": "East"}, "sign_in": True}, answers(next_request, content=text("Done."))
    )
    assert (done.outcome, done.outputs["text"]) == ("ok", "Done.")


def test_a_question_that_is_not_answered_is_declined():
    needs_input, _ = call(asks(2, branch=QUESTION))
    next_request = request(3, inputResponses={"branch": {"action": "decline"}})
    assert resume(needs_input, {}, answers(next_request, content=[])).outcome == "ok"


def test_a_tool_may_ask_more_than_once():
    needs_input, _ = call(asks(2, "s1", branch=QUESTION))
    answer = {"inputResponses": {"branch": {"action": "accept", "content": {}}}, "requestState": "s1"}
    again = resume(needs_input, {"branch": {}}, asks(3, "s2", answer, sign_in=VISIT))
    assert (again.outcome, [ask.id for ask in again.asks]) == ("needs_input", ["sign_in"])
    answer = {"inputResponses": {"sign_in": {"action": "accept"}}, "requestState": "s2"}
    done = resume(again, {"sign_in": True}, answers(request(4, **answer), content=[]))
    assert done.outcome == "ok"


def test_a_tool_that_asks_nothing_is_called_again_a_few_times():
    outcome, _ = call(asks(2, "s1"), asks(3, "s2", {"requestState": "s1"}), answers(
        request(4, requestState="s2"), content=[]))  # fmt: skip
    assert outcome.outcome == "ok"
    turns = [asks(2, "s0"), *(asks(n + 2, f"s{n}", {"requestState": f"s{n - 1}"}) for n in range(1, 5))]
    waiting, _ = call(*turns)
    assert (waiting.outcome, list(waiting.asks), waiting.resume["state"]) == ("needs_input", [], "s4")


@pytest.mark.parametrize(
    ("question", "outcome", "code"),
    [
        ({"method": "sampling/createMessage", "params": {}}, "refused", "ASKS_BACK"),
        ({"method": "roots/list"}, "refused", "ASKS_BACK"),
        ({"method": "elicitation/create"}, "tool_error", "SHAPE"),
        ({"method": "elicitation/create", "params": {"message": "?"}}, "tool_error", "SHAPE"),
        (
            {"method": "elicitation/create", "params": {"mode": "url", "url": "javascript:1"}},
            "tool_error",
            "SHAPE",
        ),
        ("?", "tool_error", "SHAPE"),
    ],
)
def test_a_question_that_nobody_here_answers_ends_the_call(question, outcome, code):
    became, _ = call(asks(2, branch=question))
    assert (became.outcome, became.error["code"]) == (outcome, code)


def test_an_address_to_visit_first_comes_with_the_refusal_of_an_older_revision():
    visit = {"mode": "url", "message": "Sign in.", "url": "https://v.example/in", "elicitationId": "e1"}
    result, _ = call(refuses(request(2), -32042, data={"elicitations": [visit, "junk"]}))
    assert result.outcome == "needs_input"
    assert [(ask.message, ask.url) for ask in result.asks] == [("Sign in.", "https://v.example/in")]
    assert resume(result, {}, answers(request(3), content=[])).outcome == "ok"


def test_nothing_is_called_to_find_out_how_a_vendor_speaks():
    session = ScriptedSession(lists(2, TOOL), answers(request(3), content=[]))
    outcome = MCP().invoke(session, "renew_loan", None, MCP().read(TOOL), GIVEN)
    assert (outcome.outcome, session.memory["era"]) == ("ok", "modern")


@pytest.mark.parametrize(("number", "code"), [(-32600, "RPC_ERROR"), (None, "NOT_FOUND")])
def test_a_vendor_that_lists_and_cannot_be_called_is_not_asked_for_ever(number, code):
    def fails(request_document):
        if number:
            return refuses(request_document, number)
        return Exchange(method="POST", json=request_document, status=404, body={})

    outcome, _ = call(fails(request(2)), lists(3, TOOL), fails(request(4)))
    assert outcome.error["code"] == code


@pytest.mark.parametrize(
    ("questions", "capabilities_needed", "code"),
    [
        ((), {"elicitation": {}}, "CANNOT_ASK"),
        (("form",), {"elicitation": {"url": {}}}, "CANNOT_ASK"),
        (("form",), {"elicitation": {"form": {}}}, "ASKS_BACK"),
        ((), {"sampling": {}}, "ASKS_BACK"),
        ((), None, "ASKS_BACK"),
    ],
)
def test_what_could_not_be_asked_is_the_callers_where_the_caller_said_so(
    questions, capabilities_needed, code
):
    first_request = request(2)
    capabilities = {"elicitation": {kind: {} for kind in questions}} if questions else {}
    first_request["params"]["_meta"] = META | {"io.modelcontextprotocol/clientCapabilities": capabilities}
    session = session_of(refuses(first_request, -32021, data={"requiredCapabilities": capabilities_needed}))
    protocol = MCP()
    protocol.context = Context(questions=questions)
    outcome = protocol.invoke(session, "renew_loan", None, protocol.read(TOOL), GIVEN)
    assert (outcome.outcome, outcome.error["code"]) == ("refused", code)
