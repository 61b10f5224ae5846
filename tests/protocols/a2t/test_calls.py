import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from core.outbound.addresses import Policy
from core.outbound.session import HttpSession
from protocols.a2t.client import A2T
from protocols.calls import outcomes
from protocols.signature import AllowedValue, Parameter, Signature
from tests.scripted import Exchange, ScriptedSession

CALL = "/tools/t/versions/2:invoke"


def parameter(name, kind="string", **members):
    return Parameter(
        **{"id": name, "name": name, "type": kind, "required": False, "description": ""} | members
    )


WEATHER = Signature(
    name="Lookup Weather",
    description="",
    inputs=(
        parameter("City", required=True, max_length=20),
        parameter("days", "int", min=1, max=14),
        parameter("count", "int", max=65535, max_defaulted=True),
        parameter("detailed", "boolean"),
        parameter("unit", "enum", allowed_values=(AllowedValue("KELVIN"), AllowedValue("CELSIUS"))),
        parameter("ratio", "number", max=1),
        parameter("extra", "json"),
    ),
    outputs=(parameter("Temperature", "int"), parameter("hours", "json"), parameter("sky", "enum")),
)


def call(arguments=None, *, recorded=None, tool_id="t", label="2", signature=WEATHER):
    session = ScriptedSession(*([recorded] if recorded else []))
    inputs = {"City": "Omaha"} if arguments is None else arguments
    return A2T().invoke(session, tool_id, label, signature, inputs)


def answered(status=200, body=None, path=CALL, inputs=(("City", "Omaha"),), **recorded):
    payload = {
        "name": "Lookup Weather",
        "input_parameters": [{"name": name, "value": value} for name, value in inputs],
    }
    return Exchange("POST", path, json=payload, status=status, body=body, **recorded)


def result(body, **recorded):
    return call(recorded=answered(body=body, **recorded))


def outputs(**values):
    return {"output_parameters": [{"name": name, "value": value} for name, value in values.items()]}


@pytest.mark.parametrize(
    ("tool_id", "label", "path"),
    [
        ("t", None, "/tools/t:invoke"),
        ("t", "2", "/tools/t/versions/2:invoke"),
        ("a:b c", None, "/tools/a%3Ab%20c:invoke"),
    ],
)
def test_call_goes_to_the_current_or_the_given_version(tool_id, label, path):
    outcome = call(recorded=answered(body=outputs(), path=path), tool_id=tool_id, label=label)
    assert outcome.outcome == "ok"


def test_values_keep_their_types_and_what_was_not_given_is_left_out():
    arguments = {"detailed": False, "days": 3, "City": "Omaha", "unit": "KELVIN", "count": None}
    inputs = (("City", "Omaha"), ("days", 3), ("detailed", False), ("unit", "KELVIN"))
    outcome = call(arguments, recorded=answered(body=outputs(), inputs=inputs))
    assert outcome.outcome == "ok"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("City", None, "is required"),
        ("City", 5, "must be text"),
        ("City", "x" * 21, "must not be longer than 20 characters"),
        ("town", "Omaha", "is not an input of this tool"),
        ("days", "3", "must be a whole number"),
        ("days", True, "must be a whole number"),
        ("days", 0, "must be at least 1"),
        ("days", 15, "must be at most 14"),
        ("count", 65536, "must be at most 65535, because the vendor declares no other maximum"),
        ("detailed", "true", "must be true or false"),
        ("detailed", 1, "must be true or false"),
        ("unit", "RANKINE", "must be one of KELVIN, CELSIUS"),
        ("unit", 5, "must be text"),
        ("ratio", "1", "must be a number"),
        ("ratio", False, "must be a number"),
        ("ratio", 1.5, "must be at most 1"),
    ],
)
def test_argument_that_does_not_fit_is_named(name, value, reason):
    outcome = outcomes.refusal(WEATHER, {"City": "Omaha"} | {name: value})
    assert (outcome.outcome, outcome.error["code"]) == ("invalid_arguments", "ARGUMENTS")
    assert outcome.error["fields"] == {name: reason}


def test_all_faults_of_the_arguments_are_named_at_once():
    outcome = outcomes.refusal(WEATHER, {"days": 99, "unit": "X", "more": 1})
    assert outcome.error["fields"].keys() == {"City", "days", "unit", "more"}


def test_long_lists_of_allowed_values_are_cut_in_the_reason():
    values = tuple(AllowedValue(f"V{n}") for n in range(30))
    signature = Signature(name="a", description="", inputs=(parameter("v", "enum", allowed_values=values),))
    reason = outcomes.refusal(signature, {"v": "X"}).error["fields"]["v"]
    assert reason.endswith("V18, V19, …")


@pytest.mark.parametrize("value", [{"a": [1]}, [1], "text", 5, False])
def test_json_arguments_may_be_anything(value):
    inputs = (("City", "Omaha"), ("extra", value))
    arguments = {"City": "Omaha", "extra": value}
    assert call(arguments, recorded=answered(body=outputs(), inputs=inputs)).outcome == "ok"


def test_tool_with_an_input_of_unknown_type_is_not_called():
    signature = Signature(name="a", description="", inputs=(parameter("l", "json", unsupported_type="list"),))
    assert A2T().why_not_run(signature).code == "UNSUPPORTED_TYPE"


def test_outputs_come_back_as_they_are():
    outcome = result(outputs(Temperature=80, hours=[1, 2], sky="CLEAR"))
    assert outcome.outputs == {"Temperature": 80, "hours": [1, 2], "sky": "CLEAR"}
    assert (list(outcome.notes), outcome.parsed, outcome.error) == ([], {}, None)


def test_bare_array_of_outputs_is_read():
    assert result([{"name": "Temperature", "value": 80}]).outputs == {"Temperature": 80}


def codes(outcome):
    return sorted(note.code for note in outcome.notes)


def test_unknown_outputs_are_tolerated_and_noted_and_nothing_says_that_any_must_come():
    outcome = result(outputs(Temperature=80, wind="N"))
    assert outcome.outputs == {"Temperature": 80, "wind": "N"}
    assert codes(outcome) == ["UNKNOWN_OUTPUT"]


def test_number_in_a_text_stays_text_and_is_noted():
    outcome = result(outputs(Temperature="80", hours=1, sky=None))
    assert outcome.outputs["Temperature"] == "80"
    assert [(note.code, note.message) for note in outcome.notes] == [
        ("VALUE_TYPE", "The output “Temperature” is “80”, not of type int.")
    ]


@pytest.mark.parametrize(
    ("value", "parsed"),
    [
        ('{"mon": [8, 18]}', {"hours": {"mon": [8, 18]}}),
        ("5", {"hours": 5}),
        ("closed", {}),
        ('{"a": 1, "a": 2}', {}),
        ({"mon": 8}, {}),
    ],
)
def test_json_in_a_text_is_parsed_beside_the_text(value, parsed):
    outcome = result(outputs(Temperature=1, hours=value, sky="CLEAR"))
    assert (outcome.outputs["hours"], outcome.parsed) == (value, parsed)
    assert codes(outcome) == []


def test_output_without_a_name_is_left_out_and_noted():
    body = {"output_parameters": [5, {"value": 1}, {"name": 5}, {"name": "Temperature"}]}
    outcome = result(body)
    assert outcome.outputs == {"Temperature": None}
    assert codes(outcome).count("BAD_OUTPUT") == 3


@pytest.mark.parametrize("status", [200, 202, 204])
def test_empty_reply_is_an_answer_without_outputs(status):
    outcome = result(None, status=status, text="")
    assert (outcome.outcome, outcome.outputs) == ("ok", {})
    assert "EMPTY_REPLY" in codes(outcome)


@pytest.mark.parametrize(
    "recorded",
    [{"body": {}}, {"body": 5}, {"body": {"output_parameters": {}}}, {"text": "{"}, {"text": '"\\u0000"'}],
)
def test_reply_that_cannot_be_read_says_that_the_tool_may_have_run(recorded):
    outcome = call(recorded=answered(**recorded))
    assert outcome.outcome == "tool_error"
    assert outcome.error["message"].startswith("The tool may have run, but its reply cannot be read: ")


@pytest.mark.parametrize(
    ("status", "outcome", "code"),
    [
        (400, "invalid_arguments", "HTTP_400"),
        (422, "invalid_arguments", "HTTP_422"),
        (401, "needs_authorization", "AUTH"),
        (403, "refused", "FORBIDDEN"),
        (402, "tool_error", "HTTP_402"),
        (409, "tool_error", "HTTP_409"),
        (408, "unavailable", "HTTP_408"),
        (429, "unavailable", "RATE_LIMITED"),
        (500, "unavailable", "HTTP_500"),
        (503, "unavailable", "HTTP_503"),
        (302, "tool_error", "HTTP_302"),
    ],
)
def test_every_status_has_its_outcome(status, outcome, code):
    result = call(recorded=answered(status, body={}))
    assert (result.outcome, result.error["code"]) == (outcome, code)


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize(
    ("described", "outcome", "code"),
    [
        ({"status": 404}, "refused", "NOT_FOUND"),
        ({"status": 410}, "refused", "NOT_FOUND"),
        ({"status": 401}, "tool_error", "HTTP_{}"),
        ({"status": 403}, "tool_error", "HTTP_{}"),
        ({"body": {}}, "tool_error", "HTTP_{}"),
        ({"status": 503}, "tool_error", "HTTP_{}"),
    ],
)
def test_what_is_missing_is_the_tool_only_if_its_description_is_missing_too(status, described, outcome, code):
    description = Exchange(path="/tools/t/versions/2", **described)
    session = ScriptedSession(answered(status, body={"message": "No such town."}), description)
    result = A2T().invoke(session, "t", "2", WEATHER, {"City": "Omaha"})
    assert (result.outcome, result.error["code"]) == (outcome, code.format(status))
    assert "No such town." in result.error["message"]
    assert result.outputs == {"body": {"message": "No such town."}}


@pytest.mark.parametrize("status", [429, 503])
def test_wait_that_the_vendor_asks_for_is_passed_on(status):
    assert call(recorded=answered(status, headers={"retry-after": "30"})).retry_after == 30


@pytest.mark.parametrize(
    ("failure", "is_doubtful"),
    [
        ("DEADLINE", True),
        ("IDLE", True),
        ("RESET", True),
        ("NO_REPLY", True),
        ("BODY_TRUNCATED", True),
        ("CONNECT", False),
        ("DNS", False),
    ],
)
def test_broken_call_says_whether_the_tool_may_have_run(failure, is_doubtful):
    outcome = call(recorded=answered(fails=failure))
    assert (outcome.outcome, outcome.error["code"]) == ("unavailable", failure)
    assert ("not known whether the tool ran" in outcome.error["message"]) is is_doubtful


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"message": "The city is unknown."}, "(400): The city is unknown."),
        ({"detail": "The city is unknown."}, "(400): The city is unknown."),
        ({"title": "Bad request", "detail": "Unknown."}, "(400): Unknown."),
        ({"error": "Unknown."}, "(400): Unknown."),
        ({"error": {"message": "Unknown."}}, "(400): Unknown."),
        ({"message": "a\nb\x1b"}, "(400): a\\nb\\x1b"),
        ({"message": 5, "error": ["x"]}, "(400)."),
        ({}, "(400)."),
        ([], "(400)."),
        (5, "(400)."),
    ],
)
def test_vendors_explanation_is_passed_on_harmlessly(body, message):
    assert (
        call(recorded=answered(400, body=body)).error["message"] == f"The vendor refused the inputs {message}"
    )


def test_long_explanation_is_cut():
    assert len(call(recorded=answered(409, body={"message": "x" * 5000})).error["message"]) < 600


def test_explanation_that_is_no_json_is_left_out():
    assert call(recorded=answered(400, text="<h1>No</h1>")).error["message"].endswith("(400).")


def test_vendors_own_fields_are_passed_on():
    body = {"message": "No.", "fields": {"City": "is unknown", "days": 5}}
    assert call(recorded=answered(400, body=body)).error["fields"] == {"City": "is unknown"}
    assert "fields" not in call(recorded=answered(400, body={"fields": ["City"]})).error


class Weather(BaseHTTPRequestHandler):
    """Knows Omaha alone."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        city = request["input_parameters"][0]["value"]
        is_known = city == "Omaha" and self.path == "/v1/tools/t/versions/2:invoke"
        body = json.dumps(
            outputs(Temperature=80) if is_known else {"message": f"There is no {city}."}
        ).encode()
        self.send_response(200 if is_known else 422)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def session():
    with ThreadingHTTPServer(("127.0.0.1", 0), Weather) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        with HttpSession(url, policy=Policy.parse("127.0.0.1/32")) as session:
            yield session
        server.shutdown()


def test_call_over_the_wire_brings_outputs_or_the_vendors_own_words(session):
    def run(city):
        return A2T().invoke(session, "t", "2", WEATHER, {"City": city})

    assert run("Omaha").outputs == {"Temperature": 80}
    assert run("Omha").error["message"] == "The vendor refused the inputs (422): There is no Omha."
