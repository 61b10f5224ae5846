import json

import pytest

from protocols.call_outcome import Ask
from protocols.oxp.client import OXP
from tests.scripted import Exchange, ScriptedSession

OBJECT = {"type": "object", "properties": {"sum": {"type": "number"}, "text": {"type": "string"}}}
TOOL = {
    "id": "Calculator.Add",
    "name": "Calculator_Add",
    "description": "Adds.",
    "version": "1.2.0",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a"],
    },
    "output_schema": {"type": "number"},
}
REQUEST = {"call_id": "<any>", "tool_id": "Calculator.Add@1.2.0", "input": {"a": 1}}
LISTED = Exchange(path="/tools", body={"items": [TOOL]})
WELL = Exchange(path="/health", body={})


def exchange(status=200, body=None, *, payload=REQUEST, **recorded):
    return Exchange("POST", "/tools/call", json=payload, status=status, body=body, **recorded)


def success(**members):
    return {"call_id": "c", "success": True} | members


def failure(**error):
    return {"call_id": "c", "success": False, "error": {"message": "Went wrong."} | error}


def call(*recorded, document=None, arguments=None, memory=None, settings=None, label="1.2.0"):
    session = ScriptedSession(*recorded)
    session.memory.update(memory or {})
    protocol = OXP(settings)
    outcome = protocol.invoke(
        session, "Calculator.Add", label, protocol.read(document or TOOL), arguments or {"a": 1}
    )
    assert not session.left
    return outcome, session


def outcome_of(*recorded, **options):
    return call(*recorded, **options)[0]


def test_call_is_bare_and_names_the_version_in_a_header():
    outcome, session = call(exchange(body=success(value=3)))
    assert (outcome.outcome, outcome.outputs) == ("ok", {"value": 3})
    assert session.asked == [{"OXP-Version": "1.0"}]
    assert session.memory == {"revision": "bare"}


def test_call_is_wrapped_for_the_earlier_revision():
    wrapped_request = {"$schema": "urn:oxp:1.0", "request": REQUEST}
    recorded = exchange(payload=wrapped_request, body={"$schema": "urn:oxp:1.0", "result": success(value=3)})
    outcome, session = call(recorded, memory={"revision": "wrapped"})
    assert (outcome.outcome, outcome.outputs) == ("ok", {"value": 3})
    assert session.asked == [{}]


@pytest.mark.parametrize(
    ("stated", "stored"),
    [(12, 12), (12.4, 12), (0, 0), (-1, None), ("12", None), (True, None), (None, None), (1e300, None)],
)
def test_the_duration_that_a_vendor_states_is_kept(stated, stored):
    outcome = outcome_of(exchange(body=success(value=3, duration=stated)))
    assert (outcome.outcome, outcome.vendor_duration_ms) == ("ok", stored)
    failed = outcome_of(exchange(body=failure() | {"duration": stated}))
    assert (failed.outcome, failed.vendor_duration_ms) == ("tool_error", stored)


@pytest.mark.parametrize(("version", "codes"), [("1.0", []), ("2.0", ["OXP_VERSION"])])
def test_another_version_of_the_protocol_is_noted(version, codes):
    recorded = exchange(body=success(value=3), headers={"oxp-version": version})
    assert [note.code for note in outcome_of(recorded).notes] == codes


MISSING = [
    {"message": "Request body must have required property 'request'"},
    {"detail": [{"loc": ["body", "request"], "msg": "Field required", "type": "missing"}]},
    {"message": "Missing field: request"},
]


@pytest.mark.parametrize("body", MISSING)
@pytest.mark.parametrize("status", [400, 422])
def test_vendor_that_misses_the_other_form_is_asked_once_more_in_it(status, body):
    wrapped = {"$schema": "urn:oxp:1.0", "request": REQUEST}
    outcome, session = call(
        exchange(status, body), exchange(payload=wrapped, body={"result": success(value=3)})
    )
    assert (outcome.outcome, session.memory) == ("ok", {"revision": "wrapped"})


def test_call_keeps_its_id_in_the_other_form():
    call_ids = []

    class Listening(ScriptedSession):
        def send(self, request):
            body = json.loads(request.content)
            call_ids.append(body.get("request", body)["call_id"])
            return super().send(request)

    wrapped = {"$schema": "urn:oxp:1.0", "request": REQUEST}
    session = Listening(exchange(422, MISSING[0]), exchange(payload=wrapped, body={"result": success()}))
    OXP().invoke(session, "Calculator.Add", "1.2.0", OXP().read(TOOL), {"a": 1})
    assert len(call_ids) == 2
    assert len(set(call_ids)) == 1


def test_vendor_that_refuses_both_forms_is_taken_at_its_first_word():
    wrapped = {"$schema": "urn:oxp:1.0", "request": REQUEST}
    second = {"message": "Missing required property 'tool_id'"}
    outcome, session = call(exchange(422, MISSING[0]), exchange(422, second, payload=wrapped))
    assert "'request'" in outcome.error["message"]
    assert session.memory == {}


@pytest.mark.parametrize(
    "body",
    [
        {"message": "This request is missing a permission."},
        {"message": "Required", "missing_requirements": {"authorization": [{"id": "request", "url": "x"}]}},
    ],
)
def test_other_refusals_are_not_taken_for_the_other_form(body):
    recorded = [exchange(400, body)] + ([] if "missing_requirements" in body else [WELL, LISTED])
    assert outcome_of(*recorded).outcome in ("refused", "needs_authorization")


def test_current_version_is_looked_up_so_that_a_version_is_always_named():
    assert outcome_of(LISTED, exchange(body=success(value=3)), label=None).outcome == "ok"
    gone_listing = Exchange(path="/tools", body={"items": []})
    assert outcome_of(gone_listing, label=None).error["code"] == "NOT_FOUND"


def test_input_is_there_even_when_it_is_empty():
    document = TOOL | {"input_schema": {}}
    request = REQUEST | {"input": {}}
    protocol = OXP()
    session = ScriptedSession(exchange(payload=request, body=success(value=1)))
    signature_read = protocol.read(document)
    assert protocol.invoke(session, "Calculator.Add", "1.2.0", signature_read, {}).outcome == "ok"


def test_input_that_is_one_value_is_sent_as_it_is():
    document = TOOL | {"input_schema": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}}
    assert outcome_of(exchange(body=success()), document=document, arguments={"input": {"a": 1}})


@pytest.mark.parametrize(
    ("schema", "reply", "outputs", "notes"),
    [
        ({"type": "number"}, {"value": 3}, {"value": 3}, []),
        ({"type": "number"}, {"value": None}, {"value": None}, []),
        ({"type": "number"}, {}, {}, ["MISSING_OUTPUT"]),
        ({}, {"value": {"a": 1}}, {"value": {"a": 1}}, []),
        (None, {}, {}, []),
        (None, {"value": None}, {}, []),
        (None, {"value": 3}, {"value": 3}, ["UNKNOWN_OUTPUT"]),
        (OBJECT, {"value": {"sum": 3, "text": "three"}}, {"sum": 3, "text": "three"}, []),
        (
            OBJECT,
            {"value": {"sum": 3, "more": 1}},
            {"sum": 3, "more": 1},
            ["UNKNOWN_OUTPUT"],
        ),
        (OBJECT, {"value": 3}, {"value": 3}, ["UNKNOWN_OUTPUT"]),
        (OBJECT | {"required": ["sum"]}, {"value": {"text": "x"}}, {"text": "x"}, ["MISSING_OUTPUT"]),
    ],
)
def test_value_becomes_outputs(schema, reply, outputs, notes):
    outcome = outcome_of(exchange(body=success(**reply)), document=TOOL | {"output_schema": schema})
    assert (outcome.outcome, outcome.outputs) == ("ok", outputs)
    assert sorted(note.code for note in outcome.notes) == notes


def test_tool_that_failed_says_whether_to_try_again():
    body = failure(can_retry=True, retry_after_ms=1500, additional_prompt_content="ids: 42, 84")
    outcome = outcome_of(exchange(body=body))
    assert (outcome.outcome, outcome.retry_after, outcome.can_retry) == ("tool_error", 1.5, True)
    assert outcome.error == {"code": "TOOL_ERROR", "message": "Went wrong."}
    assert outcome.hint == "ids: 42, 84"
    assert outcome.resume["request"]["call_id"]


@pytest.mark.parametrize("error", [None, 5, {}, {"message": None}])
def test_tool_that_failed_without_a_word_is_still_a_failure(error):
    body = {"call_id": "c", "success": False, "error": error}
    outcome = outcome_of(exchange(body=body))
    assert (outcome.outcome, outcome.resume) == ("tool_error", None)
    assert outcome.error["message"] == "The tool failed without a reason."


@pytest.mark.parametrize(
    ("wait", "seconds"), [("1500", None), (True, None), (-5, 0.0), (10**12, 86_400), (250.5, 0.2505)]
)
def test_wait_is_taken_in_bounds(wait, seconds):
    assert outcome_of(exchange(body=failure(retry_after_ms=wait))).retry_after == seconds


def test_words_for_the_vendors_developers_go_nowhere():
    for status, body in [
        (200, failure(developer_message="s3cret")),
        (400, {"message": "No", "developer_message": "s3cret"}),
    ]:
        outcome = outcome_of(exchange(status, body), *([WELL, LISTED] if status == 400 else []))
        assert "s3cret" not in repr(outcome)


CHALLENGE = {"id": "mail", "url": "https://login.example/go", "check_url": "https://login.example/check"}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"message": "Sign in.", "missing_requirements": {"authorization": [CHALLENGE]}}),
        (200, failure(message="Sign in.", missing_requirements={"authorization": [CHALLENGE]})),
    ],
)
def test_missing_permission_is_asked_of_a_person(status, body):
    outcome = outcome_of(exchange(status, body))
    assert (outcome.outcome, outcome.error["code"]) == ("needs_authorization", "MISSING_REQUIREMENTS")
    assert "Sign in." in outcome.error["message"]
    assert [(ask.id, ask.url, ask.schema) for ask in outcome.asks] == [("mail", CHALLENGE["url"], None)]
    assert outcome.resume["check_urls"] == {"mail": CHALLENGE["check_url"]}


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "/login", 5, None, "https://a.example/\n", "https://" + "x" * 3000]
)
def test_address_that_is_no_link_is_not_shown(url):
    missing = {"authorization": [{"id": "mail", "url": url, "check_url": url}, "more"]}
    outcome = outcome_of(exchange(400, {"message": "No.", "missing_requirements": missing}))
    assert [(ask.id, ask.url) for ask in outcome.asks] == [("mail", "")]
    assert outcome.resume["check_urls"] == {}


@pytest.mark.parametrize("missing", [{}, {"authorization": 5}, {"authorization": [{}]}])
def test_missing_requirements_without_a_challenge_are_still_a_persons_turn(missing):
    outcome = outcome_of(exchange(400, {"message": "No.", "missing_requirements": missing}))
    assert outcome.outcome == "needs_authorization"


def test_call_goes_on_under_its_id_with_what_was_answered():
    body = {"message": "Who?", "missing_requirements": {"user_id": True}}
    needs_input = outcome_of(exchange(400, body))
    assert [ask.id for ask in needs_input.asks] == ["user_id"]
    assert isinstance(needs_input.asks[0], Ask)
    state = json.loads(json.dumps(needs_input.resume))
    request = REQUEST | {"call_id": state["request"]["call_id"], "context": {"user_id": "u-7"}}
    session = ScriptedSession(exchange(payload=request, body=success(value=3)))
    signature_read = OXP().read(TOOL)
    again = OXP().resume(session, "Calculator.Add", "1.2.0", signature_read, state, {"user_id": "u-7"})
    assert again.outcome == "ok"


def test_user_goes_only_to_tools_that_ask_for_one():
    settings = {"user_id": "u-7"}
    assert outcome_of(exchange(body=success(value=1)), settings=settings).outcome == "ok"
    asking = TOOL | {"requirements": {"user_id": True}}
    recorded = exchange(payload=REQUEST | {"context": {"user_id": "u-7"}}, body=success(value=1))
    assert outcome_of(recorded, document=asking, settings=settings).outcome == "ok"


@pytest.mark.parametrize(
    ("follow_ups", "outcome", "code", "can_retry"),
    [
        ([WELL, LISTED], "refused", "NOT_RUN", None),
        ([Exchange(path="/health", status=404), LISTED], "refused", "NOT_RUN", None),
        (
            [WELL, Exchange(path="/tools", body={"items": [TOOL | {"version": "2.0.0"}]})],
            "refused",
            "NOT_FOUND",
            None,
        ),
        ([WELL, Exchange(path="/tools", status=401, text="")], "needs_authorization", "AUTH", None),
        ([WELL, Exchange(path="/tools", status=429, text="")], "unavailable", "RATE_LIMITED", True),
        ([Exchange(path="/health", status=503)], "unavailable", "NOT_READY", True),
        ([Exchange(path="/health", fails="CONNECT")], "unavailable", "CONNECT", True),
    ],
)
def test_a_400_is_told_apart_by_health_and_the_list(follow_ups, outcome, code, can_retry):
    result = outcome_of(exchange(400, {"message": "No luck."}), *follow_ups)
    assert (result.outcome, result.error["code"], result.can_retry) == (outcome, code, can_retry)


@pytest.mark.parametrize(
    ("listing", "outcome", "code"),
    [
        (LISTED, "tool_error", "HTTP_404"),
        (Exchange(path="/tools", body={"items": []}), "refused", "NOT_FOUND"),
        (Exchange(path="/tools", status=503), "tool_error", "HTTP_404"),
    ],
)
def test_a_404_is_an_unknown_tool_only_if_the_list_says_so(listing, outcome, code):
    health = [Exchange(path="/health", status=503)] if listing.status == 503 else []
    result = outcome_of(exchange(404, {"message": "No such order."}), listing, *health)
    assert (result.outcome, result.error["code"]) == (outcome, code)


def test_inputs_that_the_vendor_refuses_are_named():
    body = {"message": "Some are wrong.", "parameter_errors": {"b": "Must be a number", "c": 5}}
    outcome = outcome_of(exchange(422, body))
    assert (outcome.outcome, outcome.error["fields"]) == ("invalid_arguments", {"b": "Must be a number"})
    assert outcome.error["message"] == "The vendor refused the inputs: Some are wrong."


@pytest.mark.parametrize(
    ("recorded", "outcome", "code"),
    [
        ({"status": 401, "text": ""}, "needs_authorization", "AUTH"),
        ({"status": 403, "text": ""}, "refused", "FORBIDDEN"),
        ({"status": 409, "body": {"message": "Twice."}}, "tool_error", "HTTP_409"),
        ({"status": 503, "text": ""}, "unavailable", "HTTP_503"),
        ({"fails": "DEADLINE"}, "unavailable", "DEADLINE"),
        ({"text": "{"}, "tool_error", "JSON_SYNTAX"),
        ({"body": {}}, "tool_error", "SHAPE"),
        ({"body": []}, "tool_error", "SHAPE"),
        ({"body": {"success": "yes"}}, "tool_error", "SHAPE"),
        ({"status": 422, "text": "<html>"}, "invalid_arguments", "HTTP_422"),
    ],
)
def test_every_other_answer_has_an_outcome(recorded, outcome, code):
    result = outcome_of(exchange(**recorded))
    assert (result.outcome, result.error["code"]) == (outcome, code)
    assert (result.resume is not None) == (outcome == "unavailable")


@pytest.mark.parametrize("text", ["", "{", "[]", "<html>"])
def test_refusal_that_cannot_be_read_is_one_before_the_tool_ran(text):
    outcome = outcome_of(exchange(400, text=text), WELL, LISTED)
    assert outcome.error["message"] == "The vendor did not run the tool."
