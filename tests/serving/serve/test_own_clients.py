"""Pegboard connects to itself as a vendor: what it serves, its own readers read back unchanged."""

import contextlib
import json
from pathlib import Path

import pytest
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import ThreadedWSGIServer
from django.db import connections
from django.test.testcases import LiveServerThread
from msgspec.structs import replace

import protocols
from core.outbound.addresses import Policy
from core.outbound.session import HttpSession
from designer.agents import agents
from designer.pins import tunings
from designer.releases import publishing
from protocols.list_pages import NoKnownPages
from tests.factories import make_endpoint, make_pin, make_tool
from tests.hostile_vendor import json_reply
from tests.serving.test_calls import owner, runtime, vendor

__all__ = ["owner", "vendor"]

pytestmark = pytest.mark.django_db
FIXTURES = Path(__file__).parents[2] / "fixtures"


class _Server(ThreadedWSGIServer):
    def _close_connections(self):
        """A thread ends when its client hangs up, which may be after the test whose connection it is."""


class _Thread(LiveServerThread):
    server_class = _Server


@pytest.fixture
def site(db, monkeypatch):
    """Serves on the test's own connection, so that nothing has to be committed: the caller waits meanwhile,
    and no thread of the server closes it."""
    shared = connections["default"]
    monkeypatch.setattr(shared, "close", lambda: None)
    thread = _Thread("127.0.0.1", StaticFilesHandler, connections_override={"default": shared})
    thread.daemon = True
    shared.inc_thread_sharing()
    thread.start()
    thread.is_ready.wait()
    assert thread.error is None
    yield f"http://{thread.host}:{thread.port}"
    thread.terminate()
    thread.join()
    shared.dec_thread_sharing()


@contextlib.contextmanager
def session(site, client, path):
    """A session as an administrator would enter it: the address, and the key as a credential."""
    authorization = {"Authorization": client._credentials["HTTP_AUTHORIZATION"]}
    policy = Policy.parse("127.0.0.1/32")
    with HttpSession(f"{site}{path}", policy=policy, authorization=authorization) as opened:
        yield opened


def recorded(name):
    """The signatures of recorded replies of vendors who speak the protocol."""
    protocol = protocols.get(name)()
    documents = []
    for scene in ("list", "current"):
        for exchange in json.loads((FIXTURES / name / f"{scene}.json").read_text())["exchanges"]:
            documents += exchange.get("body", {}).get("items", [])
    return {signature.name: signature for signature in map(protocol.read, documents)}


def desk_of(owner, name, vendor):
    desk = agents.create_agent(actor=owner, name="desk", slug="desk")
    endpoint = make_endpoint(url=vendor.url, protocol=name)
    signatures = {}
    for number, signature in enumerate(recorded(name).values()):
        pin = make_pin(
            desk, make_tool(signature, endpoint=endpoint, tool_id=f"Kit.Tool{number}"), name=f"tool_{number}"
        )
        signatures[pin.name] = signature
    publishing.publish(desk, actor=owner, channel="live")
    return desk, signatures


def enumerated(protocol, opened):
    pages = list(protocol.enumerate(opened, NoKnownPages()))
    assert [rejected for page in pages for rejected in page.rejected] == []
    assert [note for page in pages for note in page.notes] == []
    items = [item for page in pages for item in page.items]
    assert [note for item in items for note in item.notes] == []
    return {item.document["name"]: item for item in items}


def expected(signature, name, kind):
    """The expected signature: all of it but members that another tool owns now, or that it would refuse."""
    # Pegboard asks for a sign-in when a call needs one, so the scopes are nothing that a caller brings.
    requirements = replace(signature.requirements, scopes=())
    signature_read = replace(signature, name=name, requirements=requirements, rest=None)
    if kind == "oxp" and not signature.inputs and signature.schema_rest is None:
        # Without rules for inputs, a release accepts only those that it shows.
        signature_read = replace(
            signature_read, schema_rest={"properties": {}, "additionalProperties": False}
        )
    if not any(output.is_whole for output in signature.outputs):
        return signature_read
    # An output that is no object goes below one member, as in the export.
    (whole_output,) = signature.outputs
    member = replace(whole_output, is_whole=False, required=False, schema=None)
    return replace(signature_read, outputs=(member,), outputs_rest={})


@pytest.mark.parametrize("name", ["a2t", "oxp"])
def test_every_signature_survives_the_way_through_a_release(site, owner, vendor, name):
    desk, vendors = desk_of(owner, name, vendor)
    protocol = protocols.get(name)({"page_size": 1} if name == "a2t" else None)
    with session(site, runtime(owner, desk), f"/serve/desk/live/{name}") as opened:
        items = enumerated(protocol, opened)
        assert items.keys() == vendors.keys()
        assert len(items) > 1
        for shown_name, item in items.items():
            signature_read = protocol.read(item.document)
            assert replace(signature_read, rest=None) == expected(vendors[shown_name], shown_name, name)
            assert not [
                note for note in protocol.notes(item.document, signature_read) if note.code != "NO_OUTPUTS"
            ]
            again = protocol.fetch(opened, item.tool_id, item.label)
            assert again.digest == item.digest


@pytest.mark.parametrize("name", ["a2t", "oxp"])
def test_versions_that_pegboard_publishes_keep_what_it_asks_of_vendors(site, owner, vendor, name):
    """Locked, growing, and only adding: read by our own reader, and called at the version that was read."""
    desk, _ = desk_of(owner, name, vendor)
    pin = desk.pins.get(name="tool_0")
    protocol = protocols.get(name)()
    with session(site, runtime(owner, desk), f"/serve/desk/live/{name}") as opened:
        first = enumerated(protocol, opened)["tool_0"]
        tunings.tune(pin, actor=owner, description="In other words.")
        publishing.publish(desk, actor=owner, channel="live")
        second = enumerated(protocol, opened)["tool_0"]
        assert (first.tool_id, first.label_key < second.label_key) == (second.tool_id, True)
        assert first.digest != second.digest
        if name == "a2t":
            versions = [item for page in protocol.versions(opened, first.tool_id) for item in page.items]
            assert [item.digest for item in versions] == [second.digest, first.digest]


ANSWERS = {
    "a2t": lambda outputs: {"output_parameters": [{"name": n, "value": v} for n, v in outputs.items()]},
    "oxp": lambda outputs: (
        {"call_id": "v", "success": True} | ({"value": outputs.get("value", outputs)} if outputs else {})
    ),
}


@pytest.mark.parametrize("name", ["a2t", "oxp"])
def test_calls_go_through_and_so_do_refusals(site, owner, vendor, name):
    desk, vendors = desk_of(owner, name, vendor)
    protocol = protocols.get(name)()
    values = {"string": "x", "int": 3, "number": 1.5, "boolean": True}

    def value_of(parameter):
        if parameter.allowed_values:
            return parameter.allowed_values[0].name
        return values.get(parameter.type, {"a": 1})

    with session(site, runtime(owner, desk), f"/serve/desk/live/{name}") as opened:
        for shown_name, item in enumerated(protocol, opened).items():
            signature = protocol.read(item.document)
            outputs = {output.name: value_of(output) for output in vendors[shown_name].outputs}
            vendor.script = json_reply(ANSWERS[name](outputs))
            required_inputs = [
                parameter for parameter in signature.inputs if parameter.required and parameter.schema is None
            ]
            arguments = {parameter.name: value_of(parameter) for parameter in required_inputs}
            if len(required_inputs) < sum(parameter.required for parameter in signature.inputs):
                continue
            request_count = len(vendor.requests)
            outcome = protocol.invoke(opened, item.tool_id, item.label, signature, arguments)
            assert (outcome.outcome, outcome.error) == ("ok", None), shown_name
            assert dict(outcome.outputs) == outputs
            assert len(vendor.requests) == request_count + 1
            if not required_inputs:
                continue
            odd = {parameter.name: ["not", "this"] for parameter in required_inputs}
            refused = protocol.invoke(opened, item.tool_id, item.label, signature, odd)
            assert refused.outcome == "invalid_arguments"
            assert refused.error["fields"].keys() == odd.keys()
        result = protocol.invoke(
            opened, item.tool_id, "99" if name == "a2t" else "99.0.0", signature, arguments
        )
        assert (result.outcome, result.error["code"]) == ("refused", "NOT_FOUND")
