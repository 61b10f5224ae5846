"""A vendor of MCP's older era asks on the stream of a call and waits for what a later request brings."""

import contextlib
import json
import threading
import time

import pytest
import redis
from django.db import connection

from catalog.credentials import sessions
from catalog.models import Call, Credential, Endpoint
from core import open_replies, redis_client
from core.encryption import Secret
from core.outbound.errors import UnavailableError
from core.outbound.session import HttpSession
from designer.models import Agent
from execution.calls import cancellation, invocation
from execution.tasks import perform_call
from tests.hostile_vendor import HostileVendor, json_reply, reply
from tests.serving.test_calls import GIVEN, desk_with, owner, runtime, url
from tests.serving.test_streams import STREAM, read_events

__all__ = ["owner"]
pytestmark = pytest.mark.django_db(transaction=True)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
FORM = {"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]}
TOOL = {
    "name": "sky",
    "inputSchema": {"type": "object", "properties": {"Zip code": {"type": "string"}}},
}


CHUNKED = HEAD.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")


class Chunks:
    """A line whose bytes go out in chunks, without a last one."""

    def __init__(self, line) -> None:
        self.line, self.over, self.wait = line, line.over, line.wait

    def send(self, data: bytes) -> None:
        self.line.send(b"%x\r\n%s\r\n" % (len(data), data))


def event(document) -> bytes:
    return f"event: message\ndata: {json.dumps(document)}\n\n".encode()


class Asking:
    """A library that asks as many questions as the test sets, and returns the answers."""

    def __init__(self, *questions) -> None:
        self.questions = list(questions)
        self.answers: dict[object, dict] = {}
        self.times_answered = 0
        self.waits = 20.0
        self.calls: list[object] = []
        self.others: list[str] = []
        self.keeps_open = False
        self.asks_apart = False
        self.is_heard = threading.Event()
        self.echo = ""
        self.works_for = 0.0
        self.is_working = threading.Event()
        self.breaks_off = False
        self.status = 202
        self.number: int | str = ""
        self.trickle = b""
        self.tells_progress = False
        self.is_json = False
        self.ends_with = 200

    def __call__(self, line, request):
        if request.method == "DELETE":
            self.others.append("DELETE")
            return reply(b"", status=204)(line, request)
        if request.method == "GET":
            return self.listened(line, request)
        message = request.json()
        if "method" not in message:
            self.times_answered += 1
            if self.status == 202:
                self.answers[message["id"]] = message["result"]
            return reply(b"", status=self.status)(line, request)
        if message["method"] == "tools/call":
            return self.call(line, message)
        if "id" not in message:
            self.others.append(message["method"])
            return reply(b"", status=202)(line, request)
        if "mcp-session-id" not in request.headers and message["method"] != "initialize":
            error = {"code": -32000, "message": "Server not initialized"}
            refused = {"jsonrpc": "2.0", "id": message["id"], "error": error}
            return json_reply(refused, status=400)(line, request)
        result, headers = {"tools": [TOOL]}, {}
        if message["method"] == "initialize":
            self.client = message["params"]["capabilities"]
            headers = {"Mcp-Session-Id": "s-1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
        return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)(
            line, request
        )

    def listened(self, line, request):
        if not self.asks_apart:
            return reply(b"", status=405)(line, request)
        line.send(HEAD)
        self.apart = line
        self.is_heard.set()
        line.conn.settimeout(0.05)
        while not line.over.is_set():
            with contextlib.suppress(TimeoutError):
                # Nothing is sent on it any more, so what can be read is its end.
                line.conn.recv(1)
                break
        return False

    def call(self, line, message):
        self.calls.append(message["id"])
        if not self.is_json:
            line.send(CHUNKED if self.breaks_off else HEAD)
        if self.breaks_off:
            line = Chunks(line)
        responses = []
        for number, question in enumerate(self.questions):
            self.tell(line, f"before {number}")
            name = f"q-{number}"
            asks = line
            if self.asks_apart:
                assert self.is_heard.wait(10)
                asks = self.apart
            asks.send(b"id: 7\n" + event({"jsonrpc": "2.0", "id": self.number or name, **question}))
            for byte in self.trickle:
                asks.send(bytes([byte]))
            ends = time.monotonic() + self.waits
            while name not in self.answers and time.monotonic() < ends and not line.over.is_set():
                line.wait(0.01)
            responses.append(self.answers.get(name, {"action": "nothing"}))
        result = {"content": [{"type": "text", "text": json.dumps(responses) + self.echo}]}
        self.tell(line, "at last")
        self.is_working.set()
        line.wait(self.works_for)
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if self.is_json:
            return reply(json.dumps(answer, indent=1).encode(), status=self.ends_with)(line, None)
        line.send(event(answer))
        if self.keeps_open:
            line.wait(20)
        return None

    def tell(self, line, message):
        if self.tells_progress:
            params = {"progressToken": 1, "progress": 1, "message": message}
            line.send(event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))


def question(text="Which branch?", schema=FORM, **more):
    params = {"message": text, "requestedSchema": schema, **more}
    return {"method": "elicitation/create", "params": params}


@pytest.fixture(autouse=True)
def nothing_open_before():
    for key in redis_client.client().scan_iter("pegboard:open-replies:*"):
        redis_client.client().delete(key)


@pytest.fixture
def library():
    return Asking(question())


@pytest.fixture
def vendor(library):
    with HostileVendor(library) as running:
        yield running


@pytest.fixture
def client(owner, vendor):
    agent, _ = desk_with(owner, vendor, protocol="mcp")
    return runtime(owner, agent)


def open_question(client):
    answer = client.post(url(), GIVEN).json()
    assert (answer["outcome"], [ask["message"] for ask in answer["asks"]]) == (
        "needs_input",
        ["Which branch?"],
    )
    return answer


def resumed(client, answer, **answers):
    return client.post(answer["resume"], {"answers": answers}, format="json").json()


def output_text(answer):
    return json.loads(answer["outputs"]["text"])


def until(holds) -> None:
    ends = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


def keys() -> list[str]:
    return [key.rpartition(":")[2] for key in redis_client.client().scan_iter("pegboard:open-replies:*")]


def test_the_answer_of_a_later_request_reaches_the_call_that_asked(client, library):
    answer = open_question(client)
    assert library.client == {"elicitation": {"form": {}, "url": {}}}
    assert answer["asks"][0]["schema"] == FORM
    assert [note["code"] for note in answer["notes"]] == ["ANSWER_SOON"]
    assert library.others == ["notifications/initialized"]
    done = resumed(client, answer, question={"branch": "East"})
    assert (done["outcome"], output_text(done)) == (
        "ok",
        [{"action": "accept", "content": {"branch": "East"}}],
    )
    assert len(library.calls) == 1
    # The vendor's session ends with the call, and not before.
    assert library.others == ["notifications/initialized", "DELETE"]
    exchanges = [
        exchange for attempt in Call.objects.latest("pk").decoded().attempts for exchange in attempt.exchanges
    ]
    assert '"East"' in exchanges[0].body
    assert "accept" in exchanges[0].reply


def test_an_answer_has_to_fit_its_form_and_may_be_refused(client, library):
    answer = open_question(client)
    unfit = resumed(client, answer, question={"branch": 7})
    assert (unfit["outcome"], unfit["error"]["code"]) == ("invalid_arguments", "ARGUMENTS")
    assert not library.answers
    assert output_text(resumed(client, answer, question=None)) == [{"action": "decline"}]


def test_a_question_waits_for_longer_than_its_call_might(client, library):
    answer = client.post(url(), GIVEN | {"deadline_seconds": 1}).json()
    assert answer["outcome"] == "needs_input"
    time.sleep(1.5)
    assert output_text(resumed(client, answer, question={"branch": "East"}))[0]["action"] == "accept"


def test_one_question_after_the_other(client, library):
    library.questions.append(question("Which branch?", FORM | {"description": "Once more."}))
    library.keeps_open = True
    first = resumed(client, open_question(client), question={"branch": "East"})
    assert first["outcome"] == "needs_input"
    assert library.others == ["notifications/initialized"]
    done = resumed(client, first, question={"branch": "West"})
    assert [response["content"]["branch"] for response in output_text(done)] == ["East", "West"]
    assert len(library.calls) == 1


def test_a_question_on_the_stream_of_no_request_is_heard(client, library, vendor):
    library.asks_apart = True
    library.questions.append(question())
    first = resumed(client, open_question(client), question={"branch": "East"})
    assert first["outcome"] == "needs_input"
    done = resumed(client, first, question={"branch": "West"})
    assert [response["content"]["branch"] for response in output_text(done)] == ["East", "West"]
    assert len(library.calls) == 1
    until(lambda: not open_replies._beats._open and vendor.open_connections <= 1)
    assert Endpoint.objects.get().memory.get("listens") is None


def test_a_question_is_heard_before_the_reply_to_its_call_has_begun(client, library, vendor):
    library.asks_apart = library.is_json = True
    library.questions.append(question())
    first = resumed(client, open_question(client), question={"branch": "East"})
    assert first["outcome"] == "needs_input"
    done = resumed(client, first, question={"branch": "West"})
    assert [response["content"]["branch"] for response in output_text(done)] == ["East", "West"]
    assert len(library.calls) == 1
    until(lambda: not open_replies._beats._open and vendor.open_connections <= 1)


def test_a_vendor_that_fails_after_its_question_says_so(client, library, vendor):
    library.asks_apart = library.is_json = True
    library.ends_with = 500
    answer = resumed(client, open_question(client), question={"branch": "East"})
    assert (answer["outcome"], answer["error"]["code"]) == ("unavailable", "HTTP_500")


def test_what_is_answered_as_json_is_kept_as_it_was_sent(client, library, vendor):
    library.asks_apart = library.is_json = True
    library.questions.clear()
    assert client.post(url(), GIVEN).json()["outcome"] == "ok"
    (attempt,) = Call.objects.get().decoded().attempts
    (exchange,) = (exchange for exchange in attempt.exchanges if "tools/call" in exchange.body)
    assert json.loads(exchange.reply)["result"]
    assert exchange.reply_headers["content-type"] == "application/json"
    assert vendor.connections <= 3


def test_a_vendor_without_such_a_stream_is_asked_for_it_once(client, library, vendor):
    library.questions.clear()

    def is_known():
        assert client.post(url(), GIVEN).json()["outcome"] == "ok"
        return Endpoint.objects.get().memory.get("listens") is False

    # A call may be over before its vendor has refused.
    until(is_known)
    get_count = [request.method for request in vendor.requests].count("GET")
    assert client.post(url(), GIVEN).json()["outcome"] == "ok"
    assert [request.method for request in vendor.requests].count("GET") == get_count


def test_a_call_that_is_over_listens_no_longer(client, library, vendor):
    library.asks_apart = True
    library.questions.clear()
    for _ in range(3):
        assert client.post(url(), GIVEN).json()["outcome"] == "ok"
    until(lambda: vendor.open_connections <= 1)


def test_a_person_is_sent_to_an_address(client, library):
    library.questions[0] = question(mode="url", url="https://library.example/consent", elicitationId="e-1")
    answer = open_question(client)
    assert answer["asks"][0]["url"] == "https://library.example/consent"
    assert output_text(resumed(client, answer)) == [{"action": "accept"}]


def test_a_vendor_that_did_not_wait_has_its_answer_taken(client, library):
    library.waits = 0.05
    answer = open_question(client)
    until(lambda: library.calls and len(redis_client.client().keys("pegboard:open-replies:*:pieces")) == 1)
    time.sleep(0.3)
    done = resumed(client, answer, question={"branch": "East"})
    assert (done["outcome"], output_text(done)) == ("ok", [{"action": "nothing"}])
    assert not library.answers


def test_who_answers_when_the_process_is_gone_hears_that_it_is_too_late(client, library, monkeypatch):
    answer = open_question(client)
    # A process that is gone has no heartbeat, which would write the key again.
    monkeypatch.setattr(open_replies._Open, "is_over", lambda self: False)
    for key in redis_client.client().scan_iter("pegboard:open-replies:*:alive"):
        redis_client.client().delete(key)
    late = resumed(client, answer, question={"branch": "East"})
    assert (late["outcome"], late["error"]["code"]) == ("refused", "QUESTION_OVER")
    assert "no longer waits" in late["error"]["message"]
    assert not library.answers


def test_a_process_that_dies_while_the_vendor_works_leaves_the_outcome_unknown(client, library, monkeypatch):
    library.questions.append(question())
    answer = open_question(client)
    monkeypatch.setattr(open_replies.StoredReply, "is_alive", lambda self: False)
    monkeypatch.setattr(open_replies._Open, "send", lambda self, piece: None)
    unknown = resumed(client, answer, question={"branch": "East"})
    assert (unknown["outcome"], unknown["error"]["code"]) == ("unavailable", "RESET")


def test_what_no_one_answers_is_cancelled_at_the_vendor(client, library, monkeypatch):
    monkeypatch.setattr(open_replies, "BEAT_SECONDS", 0.05)
    open_question(client)
    for key in redis_client.client().scan_iter("pegboard:open-replies:*:wanted"):
        redis_client.client().delete(key)
    until(lambda: library.answers and "DELETE" in library.others)
    assert library.answers == {"q-0": {"action": "cancel"}}


def test_of_two_questions_the_one_that_is_open_is_cancelled(client, library, monkeypatch):
    monkeypatch.setattr(open_replies, "BEAT_SECONDS", 0.05)
    library.questions.append(question())
    assert resumed(client, open_question(client), question={"branch": "East"})["outcome"] == "needs_input"
    for key in redis_client.client().scan_iter("pegboard:open-replies:*:wanted"):
        redis_client.client().delete(key)
    until(lambda: "DELETE" in library.others)
    assert library.answers["q-0"]["action"] == "accept"
    assert library.answers["q-1"] == {"action": "cancel"}


def test_what_was_answered_does_not_stay_open(client, library, monkeypatch, vendor):
    monkeypatch.setattr(open_replies, "BEAT_SECONDS", 0.05)
    library.keeps_open = True
    resumed(client, open_question(client), question={"branch": "East"})
    until(lambda: not open_replies._beats._open and not open_replies._beats._slots)
    assert library.others == ["notifications/initialized", "DELETE"]


@pytest.mark.parametrize(
    ("asks", "code"),
    [
        ({"method": "sampling/createMessage", "params": {}}, "ASKS_BACK"),
        (question(schema={"$ref": "http://192.0.2.1/x"}), "REMOTE_REF"),
        (question(mode="url", url="javascript:alert(1)"), "SHAPE"),
        ({"method": "elicitation/create"}, "SHAPE"),
    ],
)
def test_a_question_that_cannot_be_asked_ends_the_call(client, library, asks, code):
    library.questions[0] = asks
    answer = client.post(url(), GIVEN).json()
    assert answer["error"]["code"] == code
    assert library.others[-1] == "DELETE"
    until(lambda: not open_replies._beats._open or code == "ASKS_BACK")


def test_a_vendor_has_no_more_than_its_places(client, library, monkeypatch):
    monkeypatch.setattr(open_replies, "MAX_OPEN_PER_VENDOR", 1)
    first = open_question(client)
    full = client.post(url(), GIVEN).json()
    assert (full["outcome"], full["error"]["code"]) == ("refused", "NO_ROOM_TO_ASK")
    assert output_text(resumed(client, first, question={"branch": "East"}))


def test_a_caller_who_does_not_answer_leaves_places_to_others(client, owner, library, monkeypatch):
    monkeypatch.setattr(open_replies, "MAX_OPEN_PER_CALLER", 1)
    open_question(client)
    assert client.post(url(), GIVEN).json()["error"]["code"] == "NO_ROOM_TO_ASK"
    other = runtime(owner, Agent.objects.get())
    assert output_text(resumed(other, open_question(other), question={"branch": "East"}))


def test_without_the_brokers_server_the_question_cannot_wait(client, library, monkeypatch):
    def away():
        raise redis.ConnectionError

    monkeypatch.setattr(open_replies.redis_client, "client", away)
    before = open_replies._beats._slots.total()
    assert client.post(url(), GIVEN).json()["error"]["code"] == "NO_ROOM_TO_ASK"
    assert open_replies._beats._slots.total() <= before


def test_nothing_of_it_lies_in_the_open(client, library):
    library.echo = "a-word-to-look-for"
    open_question(client)
    broker = redis_client.client()
    until(lambda: len(keys()) == 4)
    (parts,) = broker.scan_iter("pegboard:open-replies:*:pieces")
    (head,) = broker.scan_iter("pegboard:open-replies:*:head")
    broker_text = f"{broker.get(head)} {broker.xrange(parts)}"
    assert "branch" not in broker_text
    assert "s-1" not in broker_text
    assert broker.ttl(parts) <= 600


def test_a_question_has_one_answer(client, library):
    library.questions.append(question())
    asks = open_question(client)
    second = resumed(client, asks, question={"branch": "East"})
    assert resumed(client, asks, question={"branch": "West"})["code"] == "already_continued"
    assert resumed(client, asks, question={"branch": "East"})["call"] == second["call"]
    # The other question still waits.
    done = resumed(client, second, question={"branch": "South"})
    assert [response["content"]["branch"] for response in output_text(done)] == ["East", "South"]
    assert resumed(client, asks, question=None)["code"] == "already_continued"


def test_an_answer_is_not_sent_twice(client, library):
    library.status = 503
    asks = open_question(client)
    answer = resumed(client, asks, question={"branch": "East"})
    assert (answer["outcome"], answer["error"]["code"]) == ("unavailable", "HTTP_503")
    assert answer["retry"]["can_retry"] is False
    assert library.times_answered == 1


def test_an_answer_that_was_not_taken_may_be_sent_again(client, library):
    library.status = 429
    asks = open_question(client)
    answer = resumed(client, asks, question={"branch": "East"})
    assert (answer["outcome"], answer["error"]["code"]) == ("unavailable", "RATE_LIMITED")
    library.status = 202
    assert output_text(resumed(client, asks, question={"branch": "East"}))[0]["action"] == "accept"


@pytest.mark.parametrize("code", ["CONNECT", "CONNECT_TIMEOUT", "DNS", "PROXY"])
def test_an_answer_that_was_not_sent_may_be_sent_again(client, library, monkeypatch, code):
    def fails(*_, **__):
        raise UnavailableError(code, "No connection was made.")

    asks = open_question(client)
    with monkeypatch.context() as patch:
        patch.setattr(HttpSession, "post", fails)
        assert resumed(client, asks, question={"branch": "East"})["error"]["code"] == code
    assert output_text(resumed(client, asks, question={"branch": "East"}))[0]["action"] == "accept"


def test_a_call_that_is_cancelled_while_it_goes_on_tells_the_vendor(client, library):
    library.works_for = 20
    asks = open_question(client)
    result = {}

    def go_on():
        result.update(resumed(client, asks, question={"branch": "East"}))
        connection.close()

    maker = threading.Thread(target=go_on)
    maker.start()
    assert library.is_working.wait(20)
    call = Call.objects.latest("pk").pk
    client.post(f"/api/v1/agents/desk/calls/{call}/cancel/")
    maker.join(20)
    assert result["outcome"] == "cancelled"
    until(lambda: "notifications/cancelled" in library.others)


def test_a_call_that_is_cancelled_before_its_question_is_kept_tells_the_vendor(client, library, monkeypatch):
    with_notes = invocation.results.with_argument_notes

    def cancel_first(*arguments):
        call = Call.objects.latest("pk")
        cancellation.cancel(call, actor=call.requested_by)
        return with_notes(*arguments)

    monkeypatch.setattr(invocation.results, "with_argument_notes", cancel_first)
    assert client.post(url(), GIVEN).json()["outcome"] == "cancelled"
    assert library.others[-2:] == ["notifications/cancelled", "DELETE"]
    assert "head" not in keys()


def test_a_result_that_has_come_is_taken_whatever_breaks_after_it(client, library):
    library.breaks_off, library.waits = True, 0.05
    asks = open_question(client)
    time.sleep(0.5)
    assert output_text(resumed(client, asks, question={"branch": "East"})) == [{"action": "nothing"}]


def test_an_answer_goes_to_the_origin_that_asked(client, library):
    asks = open_question(client)
    with HostileVendor(Asking()) as other:
        Endpoint.objects.update(url=other.url)
        late = resumed(client, asks, question={"branch": "East"})
    assert (late["outcome"], late["error"]["code"]) == ("refused", "QUESTION_OVER")
    assert not other.requests


def test_our_own_credential_in_what_follows_is_not_taken(owner, vendor, library):
    agent, _ = desk_with(owner, vendor, protocol="mcp")
    credential = Credential(name="Library", kind="bearer", origin=vendor.url)
    sessions.encrypt(credential, Secret("a-secret-of-ours"))
    credential.save()
    Endpoint.objects.update(credential=credential)
    client = runtime(owner, agent)
    library.echo = "a-secret-of-ours"
    library.waits = 0.05
    asks = open_question(client)
    time.sleep(0.5)
    answer = resumed(client, asks, question={"branch": "East"})
    assert (answer["outcome"], answer["error"]["code"]) == ("refused", "ECHO")
    assert "a-secret-of-ours" not in Call.objects.latest("pk").result


def test_what_trickles_is_passed_on_in_larger_pieces(client, library):
    library.trickle = b": a comment\n" * 2_000
    asks = open_question(client)
    time.sleep(0.5)
    (pieces,) = redis_client.client().scan_iter("pegboard:open-replies:*:pieces")
    assert redis_client.client().xlen(pieces) < 10
    assert output_text(resumed(client, asks, question={"branch": "East"}))


@pytest.mark.parametrize("number", ["q" * 201, 2**63])
def test_the_number_of_a_question_has_bounds(client, library, number):
    library.number = number
    answer = client.post(url(), GIVEN).json()
    assert (answer["outcome"], answer["error"]["code"]) == ("tool_error", "SHAPE")


def performed():
    call = Call.objects.latest("pk")
    perform_call(call.pk)
    return call.pk


def progress_in(answer) -> list[str]:
    return [data["progress"]["message"] for event, data in read_events(answer) if event == "partial"]


def test_who_streams_hears_after_an_answer_what_comes_after_the_question(client, library):
    library.tells_progress = True
    library.questions.append(question())
    client.post(url(), STREAM).close()
    first = performed()
    assert progress_in(client.get(f"/api/v1/calls/{first}/events/")) == ["before 0"]
    again = f"/api/v1/calls/{first}/resume/"
    stream = client.post(again, {"answers": {"question": {"branch": "East"}}, "mode": "stream"}, "json")
    second = performed()
    assert progress_in(stream) == ["before 1"]
    again = f"/api/v1/calls/{second}/resume/"
    stream = client.post(again, {"answers": {"question": {"branch": "West"}}, "mode": "stream"}, "json")
    performed()
    assert progress_in(stream) == ["at last"]
    assert Call.objects.latest("pk").outcome == "ok"


def test_an_answer_may_be_given_without_waiting_for_what_comes_of_it(client, library):
    answer = open_question(client)
    body = {"answers": {"question": {"branch": "East"}}, "mode": "async"}
    accepted = client.post(answer["resume"], body, format="json")
    assert (accepted.status_code, accepted.json()["status"]) == (202, "queued")
    done = client.get(f"/api/v1/calls/{performed()}/").json()
    assert output_text(done) == [{"action": "accept", "content": {"branch": "East"}}]
