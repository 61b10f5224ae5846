"""Releases in a process's memory, and its queries for each request."""

import gc
import json
from functools import partial

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from catalog.models import Endpoint
from core import prepared_statements
from designer.agents import agent_keys
from designer.exports import document as release_document
from designer.models import Release
from designer.pins import tunings
from designer.releases import channels, publishing
from execution.calls import requesting
from people.models import Role
from serving import released_documents
from serving.released_documents import load_sealed_release, wires
from tests.factories import make_pin, make_user
from tests.hostile_vendor import HostileVendor, json_reply
from tests.serving.test_calls import ANSWER, GIVEN, desk_with, runtime, url
from tests.serving.test_doors import openapi

pytestmark = pytest.mark.django_db


@pytest.fixture
def release():
    pin = make_pin()
    return publishing.publish(pin.agent, actor=make_user(Role.DESIGNER), channel="live")


def test_a_release_is_decoded_once(release, django_assert_num_queries):
    first = load_sealed_release(Release.objects.defer("document").get())
    again = Release.objects.defer("document").get()
    with django_assert_num_queries(0):
        assert load_sealed_release(again) is first
    (tool,) = first.visible_document("").tools
    assert first.tool(tool.signature.name, "") is tool
    assert (first.visible_document("nobody"), first.tool(tool.signature.name, "nobody")) == (None, None)
    assert wires(tool.signature, "mcp") is wires(tool.signature, "mcp")


def test_the_one_that_is_asked_for_stays_and_others_go(release, monkeypatch):
    load_sealed_release(release)
    monkeypatch.setattr(released_documents, "MAX_CHARACTERS", len(release.document))
    tunings.tune(release.agent.pins.get(), actor=release.created_by, description="Other words.")
    newer = publishing.publish(release.agent, actor=release.created_by)
    assert load_sealed_release(newer) is load_sealed_release(newer)
    assert list(released_documents._cache) == [newer.digest]


def test_what_follows_from_a_release_goes_with_it(release, monkeypatch):
    monkeypatch.setattr(release_document, "MAX_CACHED_LENGTH", 0)  # pages keep the last small ones
    derived = load_sealed_release(release).derived("it", object)
    assert load_sealed_release(release).derived("it", object) is derived
    tool = load_sealed_release(release).visible_document("").tools[0].signature
    wires(tool, "mcp")
    number = id(tool)
    assert number in released_documents._derived
    del tool
    released_documents._cache.clear()
    gc.collect()
    assert number not in released_documents._derived
    assert load_sealed_release(release).derived("it", object) is not derived


def test_a_channel_that_moves_is_followed_at_once():
    owner = make_user(Role.DESIGNER, username="ada")
    with HostileVendor(ANSWER) as vendor:
        agent, pin = desk_with(owner, vendor)
        client = runtime(owner, agent)
        assert client.post(url(), GIVEN).json()["release"] == 1
        tunings.tune(pin, actor=owner, description="Other words.")
        second = publishing.publish(agent, actor=owner)
        assert client.post(url(), GIVEN).json()["release"] == 1
        channels.move(agent, "live", actor=owner, release=second)
        assert client.post(url(), GIVEN).json()["release"] == 2


def test_a_call_asks_the_database_little(django_assert_max_num_queries, monkeypatch):
    """The key and its owner; the release; the version with its review; then, in one transaction, a lock, the
    row and its audit row; the outcome. Its receipt is of this minute."""
    monkeypatch.setattr(requesting, "FORGET_EVERY", 10**9)  # now and then a call forgets old ones as well
    owner = make_user(Role.DESIGNER, username="ada")
    with HostileVendor(ANSWER) as vendor:
        agent, _ = desk_with(owner, vendor)
        client = runtime(owner, agent)
        client.post(url(), GIVEN)
        # A savepoint and its release replace BEGIN and COMMIT.
        with django_assert_max_num_queries(10) as queries:
            assert client.post(url(), GIVEN).json()["outcome"] == "ok"
    statements = [captured_query["sql"].split()[0] for captured_query in queries.captured_queries]
    assert statements.count("INSERT") == 2
    assert len([statement for statement in statements if statement not in ("SAVEPOINT", "RELEASE")]) <= 7


def test_a_call_makes_four_round_trips_to_the_database(monkeypatch):
    """Key and release; version; the row with its audit row; the outcome."""
    monkeypatch.setattr(requesting, "FORGET_EVERY", 10**9)
    owner, conversations = make_user(Role.DESIGNER, username="ada"), []
    converse = prepared_statements._conversation
    with HostileVendor(ANSWER) as vendor:
        agent, _ = desk_with(owner, vendor)
        client = runtime(owner, agent)
        scopes = ("runtime", "invoke")
        _, key = agent_keys.issue(owner, actor=owner, name="MCP", scopes=scopes, agents=[agent])
        listing = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        calling = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sky", **GIVEN}}
        )
        requests = [
            lambda: client.post(url(), GIVEN).json()["outcome"],
            *(partial(over_mcp, key, body) for body in (listing, calling)),
        ]
        for ask in requests:
            ask()
        with monkeypatch.context() as patch:
            patch.setattr(
                prepared_statements,
                "_conversation",
                lambda line, messages: conversations.append(len(messages)) or converse(line, messages),
            )
            for ask, expected in zip(requests, ([1, 1, 3, 1], [1], [1, 1, 3, 1]), strict=True):
                ask()
                assert conversations == expected
                conversations.clear()


def over_mcp(key: str, body: str) -> None:
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    answer = Client().post("/serve/desk/live/mcp", body, content_type="application/json", headers=headers)
    assert "result" in answer.json(), answer.content


def test_a_call_does_not_read_the_document_of_an_endpoint():
    owner = make_user(Role.DESIGNER, username="ada")
    with HostileVendor(json_reply({"answer": "fair"})) as vendor:
        agent, pin = desk_with(owner, vendor, protocol="openapi", **openapi())
        endpoint = pin.tool.endpoint
        endpoint.take_settings({"document": json.dumps({"openapi": "3.1.0"})})
        endpoint.save()
        endpoint.stored_documents.create(name="document", text=endpoint.unsaved_documents["document"])
        client = runtime(owner, agent)
        with CaptureQueriesContext(connection) as queries:
            assert client.post(url(), {"arguments": {"zip": "0150"}}).json()["outcome"] == "ok"
    assert not [
        captured_query
        for captured_query in queries.captured_queries
        if "endpointdocument" in captured_query["sql"]
    ]
    assert (
        json.loads(str(Endpoint.objects.get(pk=endpoint.pk).build_protocol().values["document"]))["openapi"]
        == "3.1.0"
    )
