"""Protocols are recognised: recorded replies go through the pure rule of each protocol."""

import json
from pathlib import Path

import pytest

import protocols
from core.outbound.reply import Reply
from protocols.recognition import Certainty
from tests.protocols.toy.client import Toy

FIXTURES = Path(__file__).parents[1] / "fixtures"
ALL = [*protocols.PROTOCOLS, Toy]
ADDRESS = "https://vendor.example/api"


@pytest.fixture(params=ALL, ids=lambda protocol: protocol.name)
def protocol(request):
    return request.param


def recorded_reply(protocol, scene: str = "list") -> Reply:
    """The first reply that a fixture records."""
    exchange = json.loads((FIXTURES / protocol.name / f"{scene}.json").read_text())["exchanges"][0]
    body = exchange["text"] if "text" in exchange else json.dumps(exchange["body"])
    headers = {"content-type": "application/json", **exchange.get("headers", {})}
    return Reply(200, headers, body.encode(), ADDRESS)


def certainty(protocol, reply: Reply) -> int:
    probe = protocol.recognition.probes(ADDRESS)[0]
    match = protocol.recognition.match(probe, reply)
    return match.certainty if match else 0


def test_a_list_is_recognised_by_its_own_protocol_alone(protocol):
    sure = [other.name for other in ALL if certainty(other, recorded_reply(protocol)) == Certainty.SURE]
    assert sure == [protocol.name]


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [(401, {}, Certainty.POSSIBLE), (403, {}, 0), (404, {}, 0), (500, {}, 0), (302, {}, 0)],
)
def test_a_refusal_is_no_proof(protocol, status, headers, expected):
    certainty_found = certainty(protocol, Reply(status, headers, b"<html>no</html>", ADDRESS))
    assert certainty_found in (0, expected)


def test_a_page_for_people_is_recognised_by_none(protocol):
    assert certainty(protocol, Reply(200, {"content-type": "text/html"}, b"<html></html>", ADDRESS)) == 0


def test_probes_are_few_and_stay_at_the_origin(protocol):
    probes = protocol.recognition.probes(ADDRESS)
    assert 1 <= len(probes) <= 6
    assert probes[0].address == ADDRESS
    assert all(probe.address.startswith("https://vendor.example/") for probe in probes)


def test_an_mcp_server_that_names_its_authorization_server_is_likely():
    challenge = 'Bearer resource_metadata="https://vendor.example/.well-known/oauth-protected-resource"'
    mcp = protocols.get("mcp")
    assert certainty(mcp, Reply(401, {"www-authenticate": challenge}, b"", ADDRESS)) == Certainty.LIKELY


def test_an_error_of_json_rpc_is_sure_and_the_name_is_that_of_the_server():
    recognition = protocols.get("mcp").recognition
    probe = recognition.probes(ADDRESS)[0]
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32022, "message": "version"}}
    headers = {"content-type": "application/json"}
    assert recognition.match(probe, Reply(400, headers, json.dumps(error).encode(), ADDRESS)).name == ""
    result = {"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {"name": "acme", "title": "Acme"}}}
    stream = f"event: message\ndata: {json.dumps(result)}\n\n".encode()
    match = recognition.match(probe, Reply(200, {"content-type": "text/event-stream"}, stream, ADDRESS))
    assert (match.certainty, match.name) == (Certainty.SURE, "Acme")
    assert probe.is_enough(stream)
    assert not probe.is_enough(stream[:20])


def test_a_pasted_document_states_its_name_and_the_address_of_calls():
    match_document = protocols.get("openapi").recognition.match_document
    text = "openapi: 3.1.0\ninfo: {title: Acme, version: '1'}\npaths: {}\nservers: [{url: 'https://a.example/v1'}]"
    match = match_document(text)
    assert (match.name, match.address) == ("Acme", "https://a.example/v1")
    assert match_document(text.replace("https://a.example", "")).address == ""
    assert match_document('{"tools": []}') is None
