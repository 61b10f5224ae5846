"""A runtime runs the tools of its agent's live release, at the versions it holds, and no others."""

import json
import threading
import uuid
from contextlib import ExitStack
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from msgspec.structs import replace
from psycopg.types.json import Json
from rest_framework.test import APIClient

from catalog.models import Call, CallId, Finding
from catalog.review import decisions
from core.errors import DomainError
from designer.agents import agent_keys, agents
from designer.exports import document as release_document
from designer.models import Receipt, Release
from designer.pins import pins, tunings
from designer.releases import publishing, retiring
from execution.calls import invocation, places, queue, requesting
from execution.calls.places import CallPlaces, Holder
from execution.calls.requesting import TooManyCallsError
from execution.tasks import forget_call_ids
from people import api_keys, teams, users
from people.models import ApiKey, AuditEntry, Role
from protocols.signature import AllowedValue, Annotations
from serving import calls, stored_calls
from serving.calls import CallRequest
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user, make_version
from tests.hostile_vendor import HostileVendor, in_turn, json_reply
from tests.module_data import module_data

pytestmark = pytest.mark.django_db
ANSWER = json_reply({"output_parameters": [{"name": "Sky now", "value": "fair"}]})
INPUTS = (
    make_parameter("Zip code", max_length=5),
    make_parameter("days", type="int", required=False, min=1, max=14),
    make_parameter("units", required=False),
    make_parameter("trace", required=False),
)
OUTPUTS = (make_parameter("Sky now"),)


@pytest.fixture
def still_running(monkeypatch):
    """Calls are claimed, and their process is still at them when the answer goes out."""
    monkeypatch.setattr(invocation, "_execute_claimed", lambda call: call)


@pytest.fixture
def vendor(vendor_port):
    with HostileVendor(ANSWER, port=vendor_port) as running:
        yield running


@module_data
def owner():
    return make_user(Role.DESIGNER, username="ada")


def desk_with(owner, vendor, *, slug="desk", protocol="a2t", team=None, **fields):
    """An agent with one pinned and published tool, which a model knows as `sky`."""
    signature = make_signature(**{"name": "Sky", "inputs": INPUTS, "outputs": OUTPUTS} | fields)
    tool = make_tool(signature, endpoint=make_endpoint(url=vendor.url, protocol=protocol))
    agent = agents.create_agent(actor=owner, name=slug, slug=slug, team=team)
    pin = pins.pin_tool(agent, actor=owner, tool=tool, alias="sky")
    publishing.publish(agent, actor=owner, channel="live")
    return agent, pin


@module_data
def desk(owner, vendor_port):
    """An agent whose tool is at the address where `vendor` listens."""
    return desk_with(owner, HostileVendor(ANSWER, port=vendor_port))


def runtime(owner, *agents, scopes=("runtime", "invoke")) -> APIClient:
    _, plain = agent_keys.issue(owner, actor=owner, name="Desk key", scopes=scopes, agents=agents)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")
    return client


def url(slug="desk", number="live", name="sky") -> str:
    return f"/api/v1/agents/{slug}/releases/{number}/tools/{name}/invoke/"


GIVEN = {"arguments": {"Zip_code": "0150"}}


def sent_inputs(vendor) -> list[dict[str, object]]:
    return [
        {
            input_parameter["name"]: input_parameter["value"]
            for input_parameter in r.json()["input_parameters"]
        }
        for r in vendor.requests
    ]


def test_a_runtime_calls_by_the_names_of_the_release_and_hears_them_back(owner, vendor, desk):
    agent, _ = desk
    answer = runtime(owner, agent).post(url(), GIVEN | {"reasoning": "It is about the weather."})
    call = Call.objects.get()
    assert answer.status_code == 200
    assert answer.json() == {
        "call": call.pk,
        "idempotency_key": None,
        "status": "finished",
        "release": 1,
        "tool": "sky",
        "version": "1",
        "ordinal": 1,
        "outcome": "ok",
        "agent": None,
        "next": None,
        "outputs": {"Sky_now": "fair"},
        "parsed": {},
        "outputs_cut": False,
        "error": None,
        "retry": None,
        "notes": [],
        "asks": [],
        "resume": None,
        "output_schema": None,
        "environment": "",
        "activity": "",
        "reasoning": "It is about the weather.",
        "thread": None,
        "continued_by": None,
        "duration_ms": call.duration_ms,
    }
    assert sent_inputs(vendor) == [{"Zip code": "0150"}]
    assert (call.agent, call.release, call.requested_name) == (agent.pk, 1, "ada, key Desk key")
    entry = AuditEntry.objects.get(action="run")
    assert (entry.actor, entry.agent) == (owner, agent.pk)
    assert entry.why == "Release 1 of “desk”, with the key “Desk key”."


def test_presets_and_hidden_inputs_are_added_here_and_cannot_be_given(owner, vendor, desk):
    agent, pin = desk
    words = {
        "units": {"preset": "metric"},
        "trace": {"hidden": True, "preset": "pegboard"},
    }
    tunings.tune(pin, actor=owner, parameters=words)
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)
    client.post(url(), GIVEN)
    client.post(url(), {"arguments": {"Zip_code": "0150", "units": "imperial", "days": None}})
    assert sent_inputs(vendor) == [
        {"Zip code": "0150", "units": "metric", "trace": "pegboard"},
        {"Zip code": "0150", "units": "imperial", "trace": "pegboard"},
    ]
    refused = client.post(url(), {"arguments": {"Zip_code": "0150", "trace": "mine"}}).json()
    assert refused["outcome"] == "invalid_arguments"
    assert refused["error"]["fields"] == {"trace": "is not an input of this tool"}
    assert len(vendor.requests) == 2


def test_what_is_wrong_goes_by_the_names_that_the_model_knows(owner, vendor, desk):
    refused = runtime(owner, desk[0]).post(url(), {"arguments": {"Zip_code": "123456", "days": 99, "x": 1}})
    body = refused.json()
    assert (refused.status_code, body["outcome"], body["call"]) == (200, "invalid_arguments", None)
    assert body["error"]["fields"].keys() == {"Zip_code", "days", "x"}
    assert vendor.requests == []
    assert not Call.objects.exists()


FITTING = [
    {"Zip_code": code, **more}
    for code in ("1", "0150", "99999", "ÆØÅ", " ")
    for more in ({}, {"days": 1}, {"days": 14}, {"units": "x"})
]
UNFIT = [
    *({"Zip_code": code} for code in ("123456", 150, None, True, ["0150"], {"a": 1}, 1.5)),
    *({"Zip_code": "1", "days": days} for days in (0, 15, -1, 1.5, "3", True, [1])),
    *({"Zip_code": "1", "units": units} for units in (1, False, {})),
    *({}, {"Zip_code": "1", "place": "Oslo"}, {"place": "Oslo"}),
]


def test_forty_calls_are_judged_by_the_pinned_version_and_made_to_it(owner, vendor, desk):
    """The vendor has moved on: its new version takes other inputs, and the pin has not been moved."""
    agent, pin = desk
    make_version(pin.tool, make_signature("Sky", inputs=(make_parameter("place"),)), label="2")
    client = runtime(owner, agent)
    assert len(FITTING) + len(UNFIT) == 40
    outcomes = [client.post(url(), {"arguments": arguments}).json()["outcome"] for arguments in FITTING]
    assert outcomes == ["ok"] * len(FITTING)
    assert {request.path for request in vendor.requests} == {f"/tools/{pin.tool.tool_id}/versions/1:invoke"}
    assert len(vendor.requests) == len(FITTING)
    outcomes = [client.post(url(), {"arguments": arguments}).json()["outcome"] for arguments in UNFIT]
    assert outcomes == ["invalid_arguments"] * len(UNFIT)
    assert len(vendor.requests) == len(FITTING)


def test_confused_deputy_gets_404_a_line_in_the_trail_and_nothing_is_sent(owner, vendor, desk):
    with HostileVendor(ANSWER) as others:
        other, pin = desk_with(owner, others, slug="other")
        pins.set_alias(pin, actor=owner, alias="theirs")
        publishing.publish(other, actor=owner, channel="live")
        client = runtime(owner, desk[0])
        addresses = [url("other", name="theirs"), url("desk", name="theirs"), url("nowhere", name="theirs")]
        refused = [client.post(address, GIVEN) for address in (*addresses, *addresses)]
        by_id = client.post(f"/api/v1/tools/{pin.tool_id}/invoke/", {"arguments": {}})
    assert {(answer.status_code, answer.content) for answer in refused} == {(404, refused[0].content)}
    assert (by_id.status_code, by_id.json()["code"]) == (403, "scope_required")
    assert vendor.requests == others.requests == []
    assert not Call.objects.exists()
    audit_entries = AuditEntry.objects.filter(action="refuse call").order_by("pk")
    assert [entry.after for entry in audit_entries] == [
        {"agent": slug, "tool": "theirs"} for slug in ("other", "desk", "nowhere")
    ]
    assert {(entry.kind, entry.actor) for entry in audit_entries} == {("apikey", owner)}


def test_key_that_asks_for_ever_other_things_does_not_fill_the_trail(owner, desk, monkeypatch):
    monkeypatch.setattr(stored_calls, "MAX_REFUSALS_PER_INTERVAL", 3)
    client = runtime(owner, desk[0])
    status_codes = [client.post(url(name=f"theirs-{number}"), GIVEN).status_code for number in range(5)]
    assert status_codes == [404] * 5
    assert AuditEntry.objects.filter(action="refuse call").count() == 3


def test_a_release_runs_by_number_and_digest_as_long_as_it_is_kept(owner, vendor, desk):
    agent, pin = desk
    more = make_tool(make_signature("more"), endpoint=pin.tool.endpoint)
    pins.pin_tool(agent, actor=owner, tool=more, alias="more")
    client = runtime(owner, agent)
    assert client.post(url(name="more"), {"arguments": {"city": "Oslo"}}).status_code == 404  # pinned only
    assert client.post(url(number="1"), GIVEN).status_code == 200
    pins.remove_pin(pin, actor=owner)
    assert client.post(url(), GIVEN).status_code == 200  # removed from the agent, live all the same
    publishing.publish(agent, actor=owner, channel="live")
    digest = agent.releases.get(number=1).digest
    for name in ("1", f"sha256:{digest}"):
        late = client.post(url(number=name), GIVEN)
        assert (late.status_code, late.json()["outcome"], late.json()["release"]) == (200, "ok", 1)
    assert Call.objects.latest("pk").release == 1
    other = agent.releases.get(number=2).digest
    unknown = ("0", "3", "none", digest, f"sha256:{digest[:-1]}", f"SHA256:{digest}", f"sha256:{'0' * 64}")
    for name in ("live", "2", f"sha256:{other}", *unknown):
        assert client.post(url(number=name), GIVEN).status_code == 404
    assert len(vendor.requests) == 4


def test_a_version_that_was_blocked_runs_through_no_release(owner, vendor, desk):
    agent, pin = desk
    tunings.tune(pin, actor=owner, description="Looks up the sky.")
    publishing.publish(agent, actor=owner, channel="live")
    Finding.objects.create(
        endpoint=pin.tool.endpoint, tool=pin.tool, version=pin.version, code="HELD", severity="high",
        subject=pin.version.digest, state="blocked", message="Held.",
    )  # fmt: skip
    client = runtime(owner, agent)
    codes = [client.post(url(number=name), GIVEN).json()["code"] for name in ("1", "2", "live")]
    assert (codes, vendor.requests) == (["version_blocked"] * 3, [])


def test_a_release_of_another_agent_is_not_reached_by_its_digest(owner, vendor, desk):
    other, _ = desk_with(owner, vendor, slug="other")
    digest = other.releases.get().digest
    client = runtime(owner, desk[0], other)
    assert client.post(url(number=f"sha256:{digest}"), GIVEN).status_code == 404
    assert client.post(url("other", f"sha256:{digest}"), GIVEN).status_code == 200


def test_every_path_of_a_release_takes_its_digest(owner, vendor, desk):
    agent, pin = desk
    tunings.tune(pin, actor=owner, description="Looks up the sky.")
    publishing.publish(agent, actor=owner, channel="live")
    client, first = runtime(owner, agent), agent.releases.get(number=1)
    base = "/api/v1/agents/desk/releases"
    for below in ("", "tools/?format=json-schema", "bundle/"):
        by_number = client.get(f"{base}/1/{below}")
        by_digest = client.get(f"{base}/sha256:{first.digest}/{below}")
        assert (by_digest.status_code, by_digest.content) == (200, by_number.content)
        assert by_digest.content != client.get(f"{base}/live/{below}").content
        for name in (f"sha256:{'0' * 64}", "sha256:", first.digest, "LIVE"):
            assert client.get(f"{base}/{name}/{below}").status_code == 404


def stopped(version, state) -> Finding:
    return Finding.objects.create(
        endpoint=version.tool.endpoint, tool=version.tool, version=version, code="HELD", severity="high",
        subject=version.digest, state=state, message="Held.",
    )  # fmt: skip


@pytest.mark.parametrize("state", ["open", "blocked"])
def test_what_review_stopped_does_not_run_whatever_is_confirmed(owner, vendor, desk, state):
    agent, pin = desk
    stopped(pin.version, state)
    client = runtime(owner, agent)
    refused = client.post(url(), GIVEN | {"confirm": True})
    code = {"open": "waits_for_review", "blocked": "version_blocked"}[state]
    assert (refused.status_code, refused.json()["code"], vendor.requests) == (409, code, [])
    decisions.resolve(Finding.objects.get(), actor=make_user(Role.ADMIN), decision="accept")
    assert client.post(url(), GIVEN).json()["outcome"] == "ok"


def test_what_may_destroy_needs_a_yes_of_the_runtime(owner, vendor):
    agent, _ = desk_with(owner, vendor, annotations=Annotations(destructive=True))
    client = runtime(owner, agent)
    unconfirmed = client.post(url(), GIVEN)
    assert (unconfirmed.status_code, unconfirmed.json()["code"], vendor.requests) == (
        409,
        "confirm_needed",
        [],
    )
    assert client.post(url(), GIVEN | {"confirm": True}).json()["outcome"] == "ok"


def test_the_same_call_sent_twice_runs_once(owner, vendor, desk):
    client, body = runtime(owner, desk[0]), GIVEN | {"id": str(uuid.uuid4())}
    first, again = client.post(url(), body), client.post(url(), body)
    assert first.json() == again.json()
    assert len(vendor.requests) == 1
    other = client.post(url(), body | {"arguments": {"Zip_code": "9"}})
    assert (other.status_code, other.json()["code"]) == (409, "key_taken")
    assert len(vendor.requests) == 1
    # An id belongs to one API key.
    elsewhere = runtime(owner, desk[0]).post(url(), body).json()
    assert (elsewhere["outcome"], elsewhere["call"] == first.json()["call"]) == ("ok", False)
    assert len(vendor.requests) == 2


@pytest.mark.django_db(transaction=True)  # calls of a batch have connections of their own
def test_a_call_is_named_by_any_text(owner, vendor, desk):
    client, payload = runtime(owner, desk[0]), GIVEN | {"idempotency_key": "turn 7"}
    first, again = client.post(url(), payload), client.post(url(), payload)
    assert (first.json(), first.json()["outcome"], len(vendor.requests)) == (again.json(), "ok", 1)
    by_header = {"headers": {"Idempotency-Key": "turn 7"}}
    assert client.post(url(), GIVEN, **by_header).json()["call"] == first.json()["call"]
    assert client.post(url(), payload, **by_header).json()["call"] == first.json()["call"]
    for two in ({"idempotency_key": "turn 8"}, {"id": str(uuid.uuid4())}):
        refused = client.post(url(), GIVEN | two, **by_header)
        assert (refused.status_code, [*refused.json()["fields"]]) == (400, ["idempotency_key"])
    long = client.post(url(), GIVEN, headers={"Idempotency-Key": "x" * 256})
    assert (long.status_code, [*long.json()["fields"]]) == (400, ["Idempotency-Key"])
    batch = {"calls": [{"tool": "sky", **payload}, {"tool": "sky", **payload, "id": str(uuid.uuid4())}]}
    address = url().partition("tools/")[0] + "calls/"
    same, two = client.post(address, batch).json()["results"]
    assert same["answer"]["call"] == first.json()["call"]
    assert (two["status"], [*two["error"]["fields"]]) == (400, ["idempotency_key"])
    either = str(uuid.uuid4())
    both = client.post(url(), GIVEN | {"idempotency_key": either, "id": either})
    assert both.json()["call"] == client.post(url(), GIVEN | {"id": either}).json()["call"]
    refused = client.post(url(), payload | {"id": either})
    assert (refused.status_code, [*refused.json()["fields"]]) == (400, ["idempotency_key"])
    assert runtime(owner, desk[0]).post(url(), payload).json()["call"] != first.json()["call"]


def test_an_id_that_was_used_for_one_agent_runs_nothing_for_another(owner, vendor, desk):
    agent, pin = desk
    other = agents.create_agent(actor=owner, name="other", slug="other")
    pins.pin_tool(other, actor=owner, tool=pin.tool, alias="sky")
    publishing.publish(other, actor=owner, channel="live")
    client, body = runtime(owner, agent, other), GIVEN | {"id": str(uuid.uuid4())}
    assert client.post(url(), body).json()["outcome"] == "ok"
    refused = client.post(url("other"), body)
    assert (refused.status_code, refused.json()["code"], len(vendor.requests)) == (409, "key_taken", 1)


def test_an_id_that_one_user_has_used_is_another_users_too(owner, vendor, desk):
    one, other = APIClient(), APIClient()
    one.force_login(owner)
    other.force_login(make_user(Role.ADMIN))
    body = GIVEN | {"id": str(uuid.uuid4())}
    first, second = (user.post(url(), body, format="json").json() for user in (one, other))
    assert (first["outcome"], second["outcome"]) == ("ok", "ok")
    assert first["call"] != second["call"]


def test_a_tool_whose_version_is_not_the_released_one_does_not_run(owner, vendor, desk):
    release = Release.objects.get()
    sealed = release_document.decode(release.document)
    (tool,) = sealed.tools
    for version in ({"digest": "0" * 64}, {"ordinal": 7}):
        other = replace(sealed, tools=(replace(tool, version=replace(tool.version, **version)),))
        changed_document = release_document.encode(other)
        release.document, release.digest = (
            changed_document.decode(),
            release_document.digest(changed_document),
        )
        call_request = CallRequest(tool="sky", arguments={"Zip_code": "0150"})
        with pytest.raises(DomainError, match="not the one that was released") as refused:
            calls.run(release, call_request, actor=owner, key=None)
        assert (refused.value.code, refused.value.status) == ("release_damaged", 409)
    assert Call.objects.count() == 0


@pytest.mark.parametrize("name", ["", "nothing"])
def test_an_unknown_format_is_refused_where_no_call_is_found(owner, desk, name):
    reply = runtime(owner, desk[0]).get("/api/v1/calls/", {"idempotency_key": "none", "format": name})
    assert (reply.status_code, reply.json()["code"]) == (400, "unknown_format")


def test_the_same_call_runs_once_although_the_history_has_moved_on(owner, vendor, desk, monkeypatch):
    monkeypatch.setattr(requesting, "MAX_CALLS_PER_TOOL", 1)
    monkeypatch.setattr(requesting, "FORGET_EVERY", 1)
    client, body = runtime(owner, desk[0]), GIVEN | {"id": str(uuid.uuid4())}
    for payload in (body, GIVEN, GIVEN, GIVEN):
        assert client.post(url(), payload).json()["outcome"] == "ok"
    assert not Call.objects.filter(idempotency_key=body["id"]).exists()
    again = client.post(url(), body)
    assert (again.status_code, again.json()["code"]) == (409, "call_forgotten")
    assert "not sent again" in again.json()["message"]
    other = client.post(url(), body | {"arguments": {"Zip_code": "9"}})
    assert (other.status_code, other.json()["code"]) == (409, "key_taken")
    assert len(vendor.requests) == 4


def test_ids_of_calls_are_forgotten_after_a_day_and_not_before(owner, vendor, desk):
    client = runtime(owner, desk[0])
    young, old = ({**GIVEN, "id": str(uuid.uuid4())} for _ in range(2))
    for body, hours in ((young, 24), (old, 26)):
        key = Call.objects.get(pk=client.post(url(), body).json()["call"]).key
        CallId.objects.filter(key=key).update(made_at=timezone.now() - timedelta(hours=hours))
    Call.objects.all().delete()
    with CaptureQueriesContext(connection) as queries:
        forget_call_ids()
    assert sum("DELETE" in query["sql"] for query in queries) == 1
    assert client.post(url(), young).json()["code"] == "call_forgotten"
    assert client.post(url(), old).json()["outcome"] == "ok"


@pytest.mark.django_db(transaction=True)
def test_of_many_that_send_one_call_at_once_one_makes_it(owner, vendor, desk):
    _, pin = desk
    number, start = uuid.uuid4(), threading.Barrier(6)
    pks = []

    def ask():
        start.wait()
        arguments = {"Zip code": "0150"}
        call = requesting.request_call(pin.version, actor=owner, arguments=arguments, key=number)
        pks.append(call.pk)
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pks) == 6
    assert pks == [Call.objects.get().pk] * 6


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("looks", [1, 2, 3])
def test_a_call_that_another_request_makes_meanwhile_is_found(owner, vendor, desk, looks):
    """Between any two of the looks at whether it was made."""
    _, pin = desk
    number, arguments = uuid.uuid4(), {"Zip code": "0150"}
    statements, made_calls = [], []

    def ask():
        made_calls.append(
            requesting.request_call(pin.version, actor=owner, arguments=arguments, key=number).pk
        )

    def make_it_elsewhere():
        ask()
        connection.close()

    def look(execute, sql, params, many, context):
        if "catalog_call" in sql:
            statements.append(sql)
            if len(statements) == looks:
                thread = threading.Thread(target=make_it_elsewhere)
                thread.start()
                thread.join()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        ask()
    assert set(made_calls) == {Call.objects.get().pk}


def limited(owner, agent, calls_at_once) -> tuple[ApiKey, APIClient]:
    key, plain = agent_keys.issue(
        owner, actor=owner, name="Key", scopes=("invoke",), agents=[agent], calls_at_once=calls_at_once
    )
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")
    return key, client


def test_a_key_has_as_many_calls_under_way_as_its_setting_says(owner, vendor, desk, still_running):
    key, client = limited(owner, desk[0], 2)
    for _ in range(2):
        assert client.post(url(), GIVEN).status_code == 202
    refused = client.post(url(), GIVEN)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_calls")
    assert refused.headers["Retry-After"] == "1"
    assert refused.json()["message"].startswith("2 calls with this key are running")
    assert runtime(owner, desk[0]).post(url(), GIVEN).status_code == 202  # another key, another count
    person = APIClient()
    person.force_login(owner)
    changed = person.patch(f"/api/v1/keys/{key.pk}/", {"calls_at_once": 3})
    assert (changed.status_code, changed.json()["calls_at_once"]) == (200, 3)
    assert client.post(url(), GIVEN).status_code == 202
    assert client.post(url(), GIVEN).status_code == 429
    Call.objects.filter(pk=Call.objects.filter(api_key=key).first().pk).update(status="finished")
    assert client.post(url(), GIVEN).status_code == 202
    entry = AuditEntry.objects.get(action="change key")
    assert (entry.before, entry.after) == ({"calls_at_once": 2}, {"calls_at_once": 3})


@pytest.mark.parametrize("has_statistics", [True, False])
def test_to_count_what_is_under_way_no_call_is_read_that_has_ended(owner, desk, has_statistics):
    version = desk[1].version
    ended = {"tool": version.tool, "version": version, "requested_by": owner, "status": "finished"}
    Call.objects.bulk_create(
        Call(**ended, key=uuid.uuid4(), deadline_seconds=30, gives_up_at=timezone.now()) for _ in range(300)
    )
    call = requesting.request_call(version, actor=owner, arguments={"Zip code": "0150"})
    call.pk, call.key = call.pk + 1_000, uuid.uuid4()
    params = [False, timedelta(30), None, None, owner.pk, None, None, requesting.USERS_CALLS_AT_ONCE]
    with connection.cursor() as cursor:
        if has_statistics:
            cursor.execute("ANALYZE catalog_call")
        sql, values = requesting._insert_statement().statement(call, params)
        cursor.execute(f"EXPLAIN (ANALYZE) {sql}", [Json(v) if isinstance(v, dict) else v for v in values])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "call_under_way" in plan


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("has_key", "limit"), [(True, 5), (False, requesting.USERS_CALLS_AT_ONCE)])
def test_calls_of_one_key_or_person_that_come_at_once_are_counted_right(owner, vendor, desk, has_key, limit):
    agent, pin = desk
    key = limited(owner, agent, limit)[0] if has_key else None
    start, refused = threading.Barrier(14), []

    def ask():
        start.wait()
        arguments = {"Zip code": "0150"}
        try:
            requesting.request_call(pin.version, actor=owner, api_key=key, arguments=arguments)
        except TooManyCallsError:
            refused.append(1)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (Call.objects.count(), len(refused)) == (limit, 14 - limit)


@pytest.mark.parametrize(
    ("scopes", "reads", "runs"),
    [(["runtime"], 200, 403), (["invoke"], 403, 200), (["runtime", "invoke"], 200, 200)],
)
def test_each_scope_opens_its_own_door(owner, vendor, desk, scopes, reads, runs):
    client = runtime(owner, desk[0], scopes=scopes)
    assert client.get("/api/v1/agents/desk/releases/live/bundle/").status_code == reads
    assert client.post(url(), GIVEN).status_code == runs


def test_key_runs_no_more_than_its_owner_may(owner, vendor, desk):
    client = runtime(owner, desk[0])
    users.update_user(owner, actor=make_user(Role.ADMIN), role=Role.VIEWER)
    assert client.post(url(), GIVEN).json()["code"] == "role_required"
    assert vendor.requests == []


def test_an_answer_is_given_though_its_receipt_cannot_be_written(owner, vendor, desk, monkeypatch):
    def away(*_, **__):
        raise OperationalError("gone")

    monkeypatch.setattr("designer.releases.receipts.record_read", away)
    assert runtime(owner, desk[0]).post(url(), GIVEN).json()["outcome"] == "ok"


def test_revoked_key_runs_nothing(owner, vendor, desk):
    client = runtime(owner, desk[0])
    api_keys.revoke(owner.api_keys.get(), actor=owner)
    assert client.post(url(), GIVEN).status_code == 401
    assert vendor.requests == []


def test_a_call_that_another_request_still_makes_is_asked_for_by_its_key(owner, vendor, desk, monkeypatch):
    body = GIVEN | {"id": str(uuid.uuid4())}
    client = runtime(owner, desk[0])
    with monkeypatch.context() as other:
        other.setattr(invocation, "_execute_claimed", lambda call: call)
        client.post(url(), body)
    monkeypatch.setattr(queue, "wait_for", lambda call, seconds: call)
    again = client.post(url(), body)
    assert (again.status_code, again.json()["status"], again.json()["outcome"]) == (202, "running", None)
    address = f"/api/v1/agents/desk/calls/{again.json()['call']}/"
    Call.objects.update(gives_up_at=timezone.now() - timedelta(seconds=1))
    assert client.get(address).json()["error"]["code"] == "WORKER_LOST"
    assert vendor.requests == []
    assert runtime(owner, desk[0]).get(address).status_code == 404
    person = APIClient()
    person.force_login(owner)
    assert person.get(address).status_code == 200


def test_a_call_is_made_by_the_process_that_was_asked(owner, vendor, desk, monkeypatch):
    def not_now(*args):
        raise AssertionError("no message goes out, and nothing is polled")

    monkeypatch.setattr(queue, "wake_worker", not_now)
    monkeypatch.setattr(queue, "wait_for", not_now)
    assert runtime(owner, desk[0]).post(url(), GIVEN).json()["outputs"] == {"Sky_now": "fair"}
    call = Call.objects.get()
    assert (call.status, call.sent_at) == ("finished", None)
    assert call.queued_at <= call.started_at <= call.finished_at < call.gives_up_at


def test_a_process_that_makes_as_many_calls_as_it_may_says_so(owner, vendor, desk, monkeypatch):
    monkeypatch.setattr(places, "ROOM_SECONDS", 0.01)
    monkeypatch.setattr(places, "_places", CallPlaces(1))
    with places.room(Holder(None, "another")):
        busy = runtime(owner, desk[0]).post(url(), GIVEN)
    assert (busy.status_code, busy.json()["code"], busy.headers["Retry-After"]) == (503, "busy", "1")
    assert (vendor.requests, Call.objects.count()) == ([], 0)
    assert runtime(owner, desk[0]).post(url(), GIVEN).json()["outcome"] == "ok"


def test_calls_that_hang_leave_places_for_another_agent(owner, vendor, desk, monkeypatch):
    monkeypatch.setattr(places, "ROOM_SECONDS", 0.01)
    monkeypatch.setattr(places, "_places", CallPlaces(8))
    agent, _ = desk
    other = agents.create_agent(actor=owner, name="Other", slug="other")
    pins.pin_tool(other, actor=owner, tool=agent.pins.get().tool, alias="sky")
    publishing.publish(other, actor=owner, channel="live")
    hanging = runtime(owner, agent)
    key = ApiKey.objects.latest("pk").pk
    with ExitStack() as rooms:
        for _ in range(6):
            rooms.enter_context(places.room(places.holder_for(owner.pk, agent.pk, key)))
        assert hanging.post(url(), GIVEN).json()["code"] == "busy"
        answer = runtime(owner, other).post(url(slug="other"), GIVEN)
    assert answer.status_code == 200, answer.json()


def test_call_that_asks_goes_on_through_the_same_door(owner):
    asks = json_reply({"message": "Who?", "missing_requirements": {"user_id": True}}, status=400)
    done = json_reply({"success": True, "value": {"sent": True}})
    with HostileVendor(in_turn(asks, done)) as vendor:
        agent, pin = desk_with(owner, vendor, protocol="oxp")
        client = runtime(owner, agent)
        needs_input = client.post(url(), GIVEN).json()
        # Publishing in between changes nothing for a call that is under way.
        pins.remove_pin(pin, actor=owner)
        other = make_tool(make_signature("other"), endpoint=pin.tool.endpoint)
        pins.pin_tool(agent, actor=owner, tool=other)
        publishing.publish(agent, actor=owner, channel="live")
        person = APIClient()
        person.force_login(owner)
        call = Call.objects.get()
        astray = person.post(f"/api/v1/tools/{call.tool_id}/calls/{call.pk}/resume/", {"answers": {}})
        unfit = client.post(needs_input["resume"], {"answers": {}}).json()
        open_stop = stopped(pin.version, "open")
        waits = client.post(needs_input["resume"], {"answers": {"user_id": "ada"}})
        open_stop.delete()
        first_release = agent.releases.get(number=1)
        Receipt.objects.update(last_at=timezone.now() - timedelta(days=1))
        retiring.retire(first_release, actor=owner, reason="Old.", name=str(first_release))
        answer = client.post(needs_input["resume"], {"answers": {"user_id": "ada"}})
        done = answer.json()
    assert "Deprecation" in answer.headers, "it ends in the release that it began in"
    assert "Link" not in answer.headers
    assert Receipt.objects.get(release=first_release, channel="").surface == "invoke"
    assert (
        needs_input["outcome"],
        needs_input["resume"].endswith(f"/agents/desk/calls/{call.pk}/resume/"),
    ) == (
        "needs_authorization",
        True,
    )
    assert (astray.status_code, astray.json()["code"]) == (409, "call_of_a_runtime")
    assert unfit["error"]["fields"] == {"user_id": "is required"}
    assert (waits.status_code, waits.json()["code"]) == (409, "waits_for_review")
    assert (done["outcome"], done["release"], len(vendor.requests)) == ("ok", 1, 2)


def test_other_teams_do_not_read_what_a_runtime_sent(vendor):
    admin, insider = make_user(Role.ADMIN), make_user(Role.DESIGNER)
    team = teams.create_team(actor=admin, name="Sales")
    teams.add_member(team, insider, actor=admin)
    agent, pin = desk_with(insider, vendor, team=team)
    call_pk = runtime(insider, agent).post(url(), {"arguments": {"Zip_code": "Q7-Z8"}}).json()["call"]
    addresses = [
        f"/api/v1/tools/{pin.tool_id}/calls/{call_pk}/",
        f"/tools/{pin.tool_id}/calls/{call_pk}/",
        f"/api/v1/agents/desk/calls/{call_pk}/",
    ]
    statuses = {}
    for user in (insider, make_user(Role.DESIGNER)):
        client = Client()
        client.force_login(user)
        results = client.get(f"/api/v1/tools/{pin.tool_id}/calls/").json()["results"]
        page = client.get(f"/tools/{pin.tool_id}/try/").content.decode()
        statuses[user] = [client.get(a, headers={"HX-Request": "true"}).status_code for a in addresses]
        statuses[user] += [len(results), "Q7-Z8" in page]
    assert list(statuses.values()) == [[200, 200, 200, 1, True], [404, 404, 404, 0, False]]


def test_a_renamed_input_goes_out_by_the_vendors_name_and_a_hidden_value_never(owner, vendor):
    values = (AllowedValue("METRIC"), AllowedValue("US"))
    inputs = (*INPUTS[:2], make_parameter("units", type="enum", required=False, allowed_values=values))
    agent, pin = desk_with(owner, vendor, inputs=inputs)
    words = {"Zip code": {"name": "place"}, "units": {"values": {"US": {"hidden": True}}}}
    tunings.tune(pin, actor=owner, parameters=words)
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)

    client.post(url(), {"arguments": {"place": "0150", "units": "METRIC"}})
    for name in ("a2t", "mcp", "anthropic"):
        client.post(f"{url()}?format={name}", {"arguments": {"place": "1"}})
    refused = client.post(url(), {"arguments": {"place": "0150", "units": "US"}}).json()

    assert sent_inputs(vendor) == [{"Zip code": "0150", "units": "METRIC"}, *[{"Zip code": "1"}] * 3]
    assert refused["outcome"] == "invalid_arguments"
    assert refused["error"]["fields"].keys() == {"units"}


HIDING = {"class": {"values": {"FIRST": {"hidden": True}}}, "trace": {"hidden": True, "preset": "secretly"}}
CLASSES = ["ECONOMY", "FIRST"]
AS_SCHEMAS = [
    {"type": "string", "enum": CLASSES},
    {"enum": CLASSES, "type": ["string", "null"]},
    {"oneOf": [{"const": choice} for choice in CLASSES], "type": "string"},
]


@pytest.mark.parametrize("described", [None, *AS_SCHEMAS])
@pytest.mark.parametrize(
    "arguments",
    [
        {"class": "SECOND"},
        {"class": "FIRST"},
        {"class": 5},
        {"class": "ECONOMY", "days": "x"},
        {"class": "SECOND", "trace": "x"},
        {"class": "ECONOMY", "trac": "x"},
        {},
    ],
)
@pytest.mark.parametrize("format_", ["", "mcp", "openai-strict", "a2t"])
def test_no_refusal_names_what_is_hidden(owner, vendor, described, arguments, format_):
    values = tuple(AllowedValue(choice) for choice in CLASSES)
    classes = make_parameter("class", type="enum", allowed_values=values, schema=described)
    others = [make_parameter("trace"), make_parameter("days", type="int", required=False)]
    agent, pin = desk_with(owner, vendor, inputs=(classes, *others))
    tunings.tune(pin, actor=owner, parameters=HIDING)
    publishing.publish(agent, actor=owner, channel="live")

    query = f"?format={format_}" if format_ else ""
    refused = runtime(owner, agent).post(f"{url()}{query}", {"arguments": arguments}).json()

    assert refused["outcome"] == "invalid_arguments"
    sentences = " ".join(refused["error"]["fields"].values())
    assert "FIRST" not in sentences
    assert "trace" not in sentences
    assert "secretly" not in json.dumps(refused)
    assert vendor.requests == []


def test_a_rule_that_no_export_states_refuses_nothing(owner, vendor):
    """The rule names a hidden input, so it is shown to no model. The vendor validates by it."""
    schema_rest = {"type": "object", "anyOf": [{"required": ["days"]}, {"required": ["secret_code"]}]}
    inputs = [make_parameter(name, required=False, schema={}) for name in ("days", "secret_code")]
    agent, pin = desk_with(owner, vendor, inputs=tuple(inputs), schema_rest=schema_rest)
    tunings.tune(pin, actor=owner, parameters={"secret_code": {"hidden": True}})
    publishing.publish(agent, actor=owner, channel="live")

    answer = runtime(owner, agent).post(url(), {"arguments": {}}).json()

    assert sent_inputs(vendor) == [{}]
    assert "secret_code" not in json.dumps(answer)


def test_hidden_outputs_and_what_may_repeat_them_are_left_out(owner):
    reply = json_reply(
        {
            "output_parameters": [
                {"name": "Sky now", "value": "fair"},
                {"name": "trace", "value": "t-1"},
                {"name": "undeclared", "value": "t-1"},
            ]
        }
    )
    with HostileVendor(reply) as vendor:
        agent, pin = desk_with(owner, vendor, outputs=(*OUTPUTS, make_parameter("trace")))
        tunings.tune(pin, actor=owner, outputs={"trace": {"hidden": True}})
        publishing.publish(agent, actor=owner, channel="live")

        answer = runtime(owner, agent).post(url(), GIVEN).json()

    assert answer["outputs"] == {"Sky_now": "fair"}


def test_what_our_designer_calls_destructive_is_confirmed(owner, vendor, desk):
    agent, pin = desk
    tunings.tune(pin, actor=owner, effects={"destructive": True})
    publishing.publish(agent, actor=owner, channel="live")
    client = runtime(owner, agent)

    refused = client.post(url(), GIVEN)

    assert (refused.status_code, refused.json()["code"]) == (409, "confirm_needed")
    assert vendor.requests == []
    assert client.post(url(), GIVEN | {"confirm": True}).json()["outcome"] == "ok"


@pytest.fixture
def tree(owner, desk):
    """The desk with an agent below it, which has the same tool under another name and with other words."""
    root, pin = desk
    below = agents.create_agent(actor=owner, name="Night desk", slug="night", parent=root)
    sub_pin = pins.pin_tool(below, actor=owner, tool=pin.tool, alias="stars")
    tunings.tune(sub_pin, actor=owner, parameters={"days": {"preset": 3, "hidden": True}})
    publishing.publish(root, actor=owner, channel="live")
    return root


def of_night(name: str, number="live") -> str:
    return f"/api/v1/agents/desk/releases/{number}/agents/night/tools/{name}/invoke/"


def test_a_tool_of_a_sub_agent_runs_as_the_release_of_the_tree_has_it(owner, vendor, tree):
    # The released version runs, even if the sub-agent has changed since.
    tunings.tune(agents.Agent.objects.get(slug="night").pins.get(), actor=owner, parameters={})
    client = runtime(owner, tree)

    answer = client.post(of_night("stars"), GIVEN | {"id": str(uuid.uuid4())}).json()

    assert (answer["outcome"], answer["tool"], answer["outputs"]) == ("ok", "stars", {"Sky_now": "fair"})
    assert sent_inputs(vendor) == [{"Zip code": "0150", "days": 3}]
    call = Call.objects.get()
    assert (call.agent, call.sub_agent, call.release) == (tree.pk, "night", 2)
    assert client.get(f"/api/v1/agents/desk/calls/{call.pk}/").json()["tool"] == "stars"
    for name in ("sky", "none"):
        assert client.post(of_night(name), GIVEN).status_code == 404
    assert client.post(url(name="stars"), GIVEN).status_code == 404
    refused = client.post(of_night("stars"), {"arguments": {"Zip_code": "0150", "days": 1}}).json()
    assert refused["outcome"] == "invalid_arguments"
    assert set(Receipt.objects.values_list("surface", flat=True)) == {"night/invoke"}


def test_a_blocked_version_does_not_run_below_either(owner, vendor, tree):
    version = Release.objects.order_by("-number").first().agent.pins.get().version
    Finding.objects.create(
        endpoint=version.tool.endpoint, tool=version.tool, version=version, code="HELD", severity="high",
        subject=version.digest, message="Look.", state="blocked",
    )  # fmt: skip

    answer = runtime(owner, tree).post(of_night("stars"), GIVEN)

    assert (answer.status_code, answer.json()["code"]) == (409, "version_blocked")
    assert sent_inputs(vendor) == []


def test_a_transfer_answers_who_takes_over_and_sends_nothing(owner, vendor, tree):
    client = runtime(owner, tree)

    answer = client.post(f"{url(name='transfer_to_night')}?format=mcp").json()

    assert (answer["outcome"], answer["agent"], answer["call"]) == ("transfer", "night", None)
    assert (answer["tool"], answer["release"], answer["ordinal"]) == ("transfer_to_night", 2, None)
    tools = client.get(answer["next"]["tools"]).json()["tools"]
    assert [tool["name"] for tool in tools] == ["stars"]
    assert client.get(answer["next"]["procedures"]).json() == {"results": []}
    assert sent_inputs(vendor) == []
    assert not Call.objects.exists()
    entry = AuditEntry.objects.get(action="hand over")
    assert entry.after == {"from": "desk", "to": "night", "as": "transfer_to_night"}
    assert (entry.agent, entry.why) == (tree.pk, "Release 2 of “desk”, with the key “Desk key”.")


@pytest.mark.parametrize("format_", ["", "mcp", "tool-system"])
def test_a_transfer_takes_no_inputs(owner, tree, format_):
    address = f"{url(name='transfer_to_night')}{f'?format={format_}' if format_ else ''}"
    client = runtime(owner, tree)

    answer = client.post(address, {"arguments": {"city": "Oslo"}}).json()

    assert (answer["outcome"], answer["agent"]) == ("invalid_arguments", None)
    assert answer["error"]["fields"] == {"city": "is not an input of this tool"}
    assert not AuditEntry.objects.filter(action="hand over").exists()
    members = {"arguments": {"_reasoningForCall": "It is night."}} if format_ == "tool-system" else {}
    assert client.post(address, members).json()["outcome"] == "transfer"
