"""Requests of a vendor to the program that calls, what it declares, and what it may have completed."""

import json

import pytest

from catalog.models import Call, Endpoint
from designer.procedures import editing
from designer.releases import publishing
from protocols.mcp import wire
from protocols.mcp.server import asking
from protocols.signature import AllowedValue
from tests.factories import make_parameter
from tests.hostile_vendor import json_reply, reply
from tests.serving.serve.test_mcp import BOTH, META, answers, events_of, modern, old, post
from tests.serving.serve.test_mcp_following import LOGGED, chatty, messages_of
from tests.serving.test_calls import desk_with, runtime
from tests.serving.test_calls import url as invoke_url

pytestmark = pytest.mark.django_db(transaction=True)
CALL = {"name": "sky", "arguments": {}}
MESSAGES = [{"role": "user", "content": {"type": "text", "text": "The capital of France?"}}]
SAMPLING = {"method": "sampling/createMessage", "params": {"messages": MESSAGES, "maxTokens": 50}}
ROOTS = {"method": "roots/list", "params": {}}
FORM = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which branch?",
        "requestedSchema": {"type": "object", "properties": {"branch": {"type": "string"}}},
    },
}
SAMPLED = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}}
LISTED = {"roots": [{"uri": "file:///desk", "name": "Desk"}]}
FILLED = {"action": "accept", "content": {"branch": "East"}}
ALL = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
RESPONSES = {"sample": SAMPLED, "folders": LISTED, "form": FILLED}


class Curious:
    """A vendor of 2026-07-28 that sends these requests, and repeats the responses."""

    def __init__(self, **requests) -> None:
        self.requests = requests
        self.capabilities = None

    def __call__(self, line, request):
        message = request.json()
        params = message.get("params", {})
        result = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
        if message["method"] == "tools/call":
            self.capabilities = params["_meta"][f"{META}clientCapabilities"]
            text = json.dumps(params.get("inputResponses"))
            result = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
            if "inputResponses" not in params:
                result = {
                    "resultType": "input_required",
                    "inputRequests": self.requests,
                    "requestState": "own",
                }
        return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result})(line, request)


def curious(owner, vendor, **requests):
    vendor.script = Curious(**requests)
    agent, _ = desk_with(owner, vendor, protocol="mcp", inputs=(), outputs=())
    return runtime(owner, agent)


@pytest.fixture
def client(owner, vendor):
    return curious(owner, vendor, sample=SAMPLING, folders=ROOTS, form=FORM)


def introduced(client, capabilities, version="2025-11-25"):
    """The headers of a client that has declared its capabilities in a handshake."""
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {}}
    answer = post(client, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    return {"Mcp-Session-Id": answer["Mcp-Session-Id"], "Accept": BOTH}


def text_in(result):
    return json.loads(result["content"][0]["text"])


def test_requests_go_to_a_client_that_declares_them_and_the_results_back(client, vendor):
    needs_input = modern(client, "tools/call", CALL, can=ALL).json()["result"]
    assert vendor.script.capabilities == ALL
    assert needs_input["inputRequests"] == {"sample": SAMPLING, "folders": ROOTS, "form": FORM}
    again = {**CALL, "requestState": needs_input["requestState"], "inputResponses": RESPONSES}
    assert text_in(modern(client, "tools/call", again, can=ALL).json()["result"]) == RESPONSES


def test_a_client_of_the_older_era_receives_them_on_the_stream(client, monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.0)
    stream = events_of(old(client, "tools/call", CALL, **introduced(client, ALL)))
    for name, request in (("sample", SAMPLING), ("folders", ROOTS), ("form", FORM)):
        received = next(stream)
        assert (received["method"], received["params"]) == (request["method"], request["params"])
        answers(client, received["id"], RESPONSES[name])
    (last,) = stream
    assert text_in(last["result"]) == RESPONSES


@pytest.mark.parametrize("missing", ["sampling", "roots"])
def test_a_client_that_does_not_declare_them_hears_what_it_would_need(client, vendor, missing):
    can = {name: member for name, member in ALL.items() if name != missing}
    refused = modern(client, "tools/call", CALL, can=can)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, -32021)
    assert error["data"]["requiredCapabilities"] == {missing: {}}
    assert missing not in vendor.script.capabilities
    failed = old(client, "tools/call", CALL, **introduced(client, can)).json()["result"]
    assert failed["isError"] is True
    assert Call.objects.latest("pk").error_code == "ASKS_BACK"


def test_over_rest_no_program_answers_them(client, vendor):
    answer = client.post(invoke_url(), {"arguments": {}}, format="json").json()
    assert (answer["outcome"], answer["error"]["code"]) == ("refused", "ASKS_BACK")
    assert vendor.script.capabilities == {"elicitation": {"form": {}, "url": {}}}


@pytest.mark.parametrize(
    ("params", "can"),
    [
        ({"tools": []}, {"sampling": {"tools": {}}}),
        ({"includeContext": "thisServer"}, {"sampling": {"context": {}}}),
    ],
)
def test_a_member_of_sampling_is_declared_by_itself(owner, vendor, params, can):
    request = {**SAMPLING, "params": {**SAMPLING["params"], **params}}
    client = curious(owner, vendor, sample=request)
    refused = modern(client, "tools/call", CALL, can={"sampling": {}}).json()["error"]
    assert refused["data"]["requiredCapabilities"] == can
    needs_input = modern(client, "tools/call", CALL, can=can).json()["result"]
    assert (vendor.script.capabilities, needs_input["inputRequests"]["sample"]) == (can, request)


@pytest.mark.parametrize(
    "params",
    [
        {"messages": "Hello", "maxTokens": 5},
        {"messages": MESSAGES},
        {
            "messages": [*MESSAGES, {"role": "user", "content": {"type": "text", "text": "x" * 200_000}}],
            "maxTokens": 5,
        },
    ],
)
def test_a_request_that_cannot_be_passed_on_ends_the_call(owner, vendor, params):
    client = curious(owner, vendor, sample={**SAMPLING, "params": params})
    result = modern(client, "tools/call", CALL, can=ALL).json()["result"]
    assert result["isError"] is True
    assert Call.objects.get().error_code == "SHAPE"


def test_only_members_that_the_protocol_knows_are_passed_on(owner, vendor):
    params = {**SAMPLING["params"], "_meta": {"a": 1}, "other": 2}
    client = curious(owner, vendor, sample={**SAMPLING, "params": params})
    needs_input = modern(client, "tools/call", CALL, can=ALL).json()["result"]
    assert needs_input["inputRequests"]["sample"] == SAMPLING


@pytest.mark.parametrize("response", [{"action": "decline"}, {"content": 7}, 12])
def test_what_is_no_result_is_not_sent_to_the_vendor(owner, vendor, response):
    client = curious(owner, vendor, sample=SAMPLING)
    needs_input = modern(client, "tools/call", CALL, can=ALL).json()["result"]
    again = {**CALL, "requestState": needs_input["requestState"], "inputResponses": {"sample": response}}
    assert text_in(modern(client, "tools/call", again, can=ALL).json()["result"]) == {}


def test_answers_that_are_sent_with_the_first_request_are_used(client, vendor):
    ahead = {**CALL, "inputResponses": {**RESPONSES, "other": FILLED}}
    assert text_in(modern(client, "tools/call", ahead, can=ALL).json()["result"]) == RESPONSES
    for unfit in (None, [], {"form": FILLED}, {**RESPONSES, "form": 12345}):
        needs_input = modern(client, "tools/call", {**CALL, "inputResponses": unfit}, can=ALL).json()[
            "result"
        ]
        assert needs_input["resultType"] == "input_required"


def test_capabilities_and_kinds_are_two_forms_of_one_thing():
    for capabilities in ({}, ALL, {"sampling": {"tools": {}, "context": {}}}, {"elicitation": {"url": {}}}):
        assert wire.capabilities_of(wire.kinds_of(capabilities)) == capabilities
    assert wire.kinds_of({"elicitation": {}, "sampling": 7, "roots": []}) == ("form",)


def test_log_messages_come_from_the_level_that_a_session_has_set(owner, vendor):
    vendor.script = chatty
    agent, _ = desk_with(owner, vendor, protocol="mcp", inputs=(), outputs=())
    client = runtime(owner, agent)
    headers = introduced(client, {})
    assert not old(client, "tools/call", CALL, **headers).streaming
    for level, expected in (("info", [LOGGED]), ("error", [])):
        assert old(client, "logging/setLevel", {"level": level}, **headers).json()["result"] == {}
        messages = messages_of(old(client, "tools/call", CALL, **headers))
        assert [message["params"] for message in messages[:-1]] == expected
        assert messages[-1]["result"]["content"]
    assert not old(client, "tools/call", CALL, **introduced(client, {})).streaming
    wrong = old(client, "logging/setLevel", {"level": "loud"}, **headers).json()["error"]
    assert wrong["code"] == -32602
    assert modern(client, "logging/setLevel", {"level": "info"}).status_code == 404


@pytest.fixture
def planner(owner, vendor):
    values = tuple(AllowedValue(name) for name in ("north", "north-east", "south"))
    inputs = (
        make_parameter("side", type="enum", allowed_values=values),
        make_parameter("is_soon", type="boolean"),
        make_parameter("city"),
    )
    agent, _ = desk_with(owner, vendor, inputs=inputs)
    body = "Ask sky() for {side} with `side` and `city`."
    editing.create_procedure(agent, actor=owner, title="Plan", body=body)
    publishing.publish(agent, actor=owner, channel="live")
    return runtime(owner, agent)


@pytest.mark.parametrize("send", [modern, old])
def test_values_of_enums_are_completed(planner, send):
    def completed(ref, name, value):
        params = {"ref": ref, "argument": {"name": name, "value": value}}
        return send(planner, "completion/complete", params).json()

    tool = {"type": "ref/tool", "name": "sky"}
    completion = completed(tool, "side", "NORTH")["result"]["completion"]
    assert completion == {"values": ["north", "north-east"], "total": 2, "hasMore": False}
    assert completed(tool, "is_soon", "")["result"]["completion"]["values"] == ["true", "false"]
    assert completed(tool, "city", "O")["result"]["completion"]["values"] == []
    for ref, name in ((tool, "no"), ({"type": "ref/prompt", "name": "no"}, "side"), ({}, "side")):
        assert completed(ref, name, "")["error"]["code"] == -32602


@pytest.mark.parametrize("send", [modern, old])
def test_a_procedure_takes_the_inputs_and_items_that_it_names(planner, send):
    (prompt,) = send(planner, "prompts/list").json()["result"]["prompts"]
    names = [argument["name"] for argument in prompt["arguments"]]
    assert "side" in names
    assert not any(argument["required"] for argument in prompt["arguments"])
    prompt_request = {"name": "plan", "arguments": {"side": "north\n# Do"}}
    text = send(planner, "prompts/get", prompt_request).json()["result"]["messages"][0]["content"]["text"]
    assert text.startswith("Ask sky()")
    assert text.endswith('- `side`: "north\\n# Do"')
    for arguments in ({"no": "x"}, {"side": 7}, {"side": "x" * 3000}, "side"):
        wrong = send(planner, "prompts/get", {"name": "plan", "arguments": arguments}).json()["error"]
        assert wrong["code"] == -32602


class TwoEras:
    """A vendor of both eras whose tool can ask on the stream of a call in a session alone."""

    def __init__(self, *, fails_with="error", session=True) -> None:
        self.fails_with, self.has_sessions = fails_with, session
        self.calls: list[str] = []
        self.answered = None

    def __call__(self, line, request):
        if request.method != "POST":
            return reply(b"", status=405)(line, request)
        message, is_modern = request.json(), "mcp-method" in request.headers
        method, number = message.get("method"), message.get("id")
        if method is None:
            self.answered = message
            return reply(b"", status=202)(line, request)
        if number is None:
            return reply(b"", status=202)(line, request)
        document, headers = {"jsonrpc": "2.0", "id": number}, {}
        if method == "tools/call":
            self.calls.append("modern" if is_modern else "handshake")
            if not is_modern:
                return self.asks(line, number)
            text = "Cannot send 'elicitation/create': there is no back-channel."
            if self.fails_with == "error":
                document["error"] = {"code": -32600, "message": text}
            else:
                document["result"] = {"isError": True, "content": [{"type": "text", "text": text}]}
        elif method == "initialize" and self.has_sessions:
            headers = {"Mcp-Session-Id": "s-1"}
            document["result"] = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
        elif method == "initialize":
            document["error"] = {"code": -32601, "message": "There is no such method."}
        else:
            document["result"] = {"resultType": "complete", "tools": []}
        return json_reply(document, headers=headers)(line, request)

    def asks(self, line, number):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")

        def event(message):
            line.send(f"event: message\ndata: {json.dumps({'jsonrpc': '2.0', **message})}\n\n".encode())

        event({"id": "q", **FORM})
        while self.answered is None and not line.over.is_set():
            line.wait(0.01)
        content = [{"type": "text", "text": json.dumps((self.answered or {}).get("result"))}]
        event({"id": number, "result": {"content": content}})


@pytest.fixture
def two_eras(owner, vendor):
    vendor.script = TwoEras()
    agent, _ = desk_with(owner, vendor, protocol="mcp", inputs=(), outputs=())
    return runtime(owner, agent)


def test_a_tool_is_called_in_the_era_in_which_it_can_ask(two_eras, vendor, admin_api):
    answer = two_eras.post(invoke_url(), {"arguments": {}}, format="json").json()
    assert (answer["outcome"], answer["asks"][0]["message"]) == ("needs_input", "Which branch?")
    assert vendor.script.calls == ["modern", "handshake"]
    assert "OTHER_ERA" in [note["code"] for note in answer["notes"]]
    done = two_eras.post(
        answer["resume"], {"answers": {"question": {"branch": "East"}}}, format="json"
    ).json()
    assert json.loads(done["outputs"]["text"]) == FILLED
    endpoint = Endpoint.objects.get()
    assert endpoint.memory["era"] == "modern"
    negotiated = admin_api.get(f"/api/v1/endpoints/{endpoint.pk}/").json()["spoken"]
    assert [fact["value"] for fact in negotiated] == [
        "2026-07-28",
        Endpoint.objects.get().tools.get().tool_id,
    ]
    vendor.script.answered = None
    two_eras.post(invoke_url(), {"arguments": {}}, format="json")
    assert vendor.script.calls == ["modern", "handshake", "handshake"]


def test_a_vendor_without_the_other_era_is_called_once(two_eras, vendor):
    vendor.script.has_sessions = False
    answer = two_eras.post(invoke_url(), {"arguments": {}}, format="json").json()
    assert answer["outcome"] == "tool_error"
    assert vendor.script.calls == ["modern"]


def test_a_tool_that_has_run_is_not_run_again_unless_it_may_be(owner, vendor, two_eras):
    vendor.script.fails_with = "result"
    answer = two_eras.post(invoke_url(), {"arguments": {}}, format="json").json()
    assert answer["outcome"] == "tool_error"
    assert [note["code"] for note in answer["notes"]] == ["OTHER_ERA_NEXT"]
    answer = two_eras.post(invoke_url(), {"arguments": {}}, format="json").json()
    assert answer["outcome"] == "needs_input"
    assert vendor.script.calls == ["modern", "handshake"]


@pytest.mark.parametrize(("era", "calls"), [("modern", ["modern"]), ("handshake", ["handshake"])])
def test_an_administrator_chooses_the_era(two_eras, vendor, admin_api, era, calls):
    endpoint = Endpoint.objects.get()
    settings = {"settings": {"era": era}}
    assert admin_api.patch(f"/api/v1/endpoints/{endpoint.pk}/", settings, format="json").status_code == 200
    two_eras.post(invoke_url(), {"arguments": {}}, format="json")
    assert vendor.script.calls == calls
    wrong = {"settings": {"era": "stone"}}
    assert admin_api.patch(f"/api/v1/endpoints/{endpoint.pk}/", wrong, format="json").status_code == 400
