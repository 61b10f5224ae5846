"""A call of a tool, from the request to the outcome: sent at most once, bounded, and reported in full."""

import json
import threading
import uuid
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from catalog.credentials import operations as credential_operations
from catalog.credentials import sessions
from catalog.models import Call, Credential, Endpoint, Finding, ToolVersion
from catalog.models.calls import CallStatus
from catalog.models.findings import HELD
from catalog.vendors import operations as vendor_operations
from core.errors import DomainError
from core.outbound import connection_pool
from execution.calls import invocation, lease, queue, requesting
from execution.calls.checks import ArgumentsError, ConfirmationError
from people.models import AuditEntry, Role
from protocols.signature import Annotations
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import BEHAVIOURS, HostileVendor, in_turn, json_reply, reply

pytestmark = pytest.mark.django_db

ANSWER = json_reply({"output_parameters": [{"name": "weather", "value": "fair"}]})
INPUTS = (make_parameter("city"), make_parameter("days", type="int", required=False, min=1, max=14))


def make_version(url: str = "http://127.0.0.1:9", *, annotations=Annotations(), **fields) -> ToolVersion:  # noqa: B008
    signature = make_signature(inputs=INPUTS, outputs=(make_parameter("weather"),), annotations=annotations)
    tool = make_tool(signature, endpoint=make_endpoint(url=url, **fields))
    return tool.current


def ask_for(version: ToolVersion, arguments=None, **options) -> Call:
    call_arguments = {"city": "Oslo"} if arguments is None else arguments
    return requesting.request_call(
        version,
        actor=options.pop("actor", None) or make_user(Role.DESIGNER),
        arguments=call_arguments,
        **options,
    )


def run(version: ToolVersion, arguments=None, **options) -> Call:
    call = ask_for(version, arguments, **options)
    invocation.perform_due_calls()
    return Call.objects.get(pk=call.pk)


def test_a_call_is_sent_and_its_outputs_are_kept():
    with HostileVendor(ANSWER) as vendor:
        call = run(make_version(vendor.url))

    assert (call.status, call.outcome, call.error_code) == ("finished", "ok", "")
    assert call.decoded().outputs == {"weather": "fair"}
    assert vendor.requests[0].json()["input_parameters"] == [{"name": "city", "value": "Oslo"}]
    assert call.duration_ms is not None


def test_calls_of_an_endpoint_share_a_connection_until_its_credential_or_address_changes(monkeypatch):
    monkeypatch.setattr(connection_pool, "MAX_IDLE_BEFORE_A_CALL", 15.0)  # a test may take its time
    admin = make_user(Role.ADMIN)
    with HostileVendor(ANSWER) as vendor:
        key = credential_operations.create_credential(
            actor=admin, name="Key", kind="bearer", url=vendor.url, secret="first-secret"
        )
        version = make_version(vendor.url, credential=key)
        other = make_version(vendor.url, credential=key)
        run(version), run(version)
        assert vendor.connections == 1
        run(other)
        assert vendor.connections == 2
        credential_operations.replace_secret(key, actor=admin, secret="second-secret")
        run(version)
        assert vendor.connections == 3
        Endpoint.objects.filter(pk=version.tool.endpoint_id).update(url=f"{vendor.url}/v2")
        run(version)
    assert vendor.connections == 4
    keys = [request.headers["authorization"] for request in vendor.requests]
    assert keys == ["Bearer first-secret"] * 3 + ["Bearer second-secret"] * 2


def test_what_the_secret_of_a_user_went_over_is_lent_to_no_other_call():
    with HostileVendor(ANSWER) as vendor:
        endpoint = make_endpoint(url=vendor.url)
        for carried in (["token-of-ada"], ["token-of-ada"], []):
            with sessions.open_session(endpoint, carried=carried, keeps_connection=True) as session:
                session.post("/run", json={})
    assert vendor.connections == 3


def test_an_answer_is_kept_when_what_is_noted_beside_it_fails(monkeypatch):
    def is_away(*_):
        raise OperationalError("the database is away")

    monkeypatch.setattr("catalog.credentials.circuit_breaker.record_call", is_away)
    monkeypatch.setattr("execution.calls.refused_calls.add_finding", is_away)
    with HostileVendor(ANSWER) as vendor:
        call = run(make_version(vendor.url))

    assert (call.outcome, call.decoded().outputs) == ("ok", {"weather": "fair"})


@pytest.mark.django_db(transaction=True)
def test_an_answer_is_written_as_soon_as_the_database_is_back(monkeypatch):
    write, tries = invocation.run_prepared, iter((True, True, False))

    def at_the_third_try(sql, values):
        if sql == invocation._END and next(tries):
            raise OperationalError("the database is away")
        return write(sql, values)

    monkeypatch.setattr(invocation, "run_prepared", at_the_third_try)
    monkeypatch.setattr(invocation, "WRITE_RETRY_PAUSES", (0, 0))
    with HostileVendor(ANSWER) as vendor:
        call = run(make_version(vendor.url))

    assert (call.outcome, len(vendor.requests)) == ("ok", 1)


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({}, {"city"}),
        ({"city": 5, "days": 99, "wind": True}, {"city", "days", "wind"}),
    ],
)
def test_arguments_that_do_not_fit_leave_no_call(arguments, fields):
    with pytest.raises(ArgumentsError) as refused:
        ask_for(make_version(), arguments)

    assert refused.value.fields.keys() == fields
    assert refused.value.outcome.outcome == "invalid_arguments"
    assert not Call.objects.exists()


def test_arguments_beyond_the_limit_are_refused():
    with pytest.raises(DomainError, match="larger than 256 kB"):
        ask_for(make_version(), {"city": "x" * 300_000})


def test_a_tool_of_a_removed_vendor_is_not_called():
    version = make_version()
    vendor_operations.remove_endpoint(version.tool.endpoint, actor=make_user(Role.ADMIN))

    with pytest.raises(DomainError, match="vendor was removed"):
        ask_for(ToolVersion.objects.get(pk=version.pk))


def test_a_call_of_a_vendor_that_was_removed_meanwhile_is_not_sent():
    with HostileVendor(ANSWER) as vendor:
        call = ask_for(make_version(vendor.url))
        vendor_operations.remove_endpoint(call.tool.endpoint, actor=make_user(Role.ADMIN))
        invocation.perform_due_calls()

    call.refresh_from_db()
    assert (call.outcome, call.error_code, vendor.requests) == ("refused", "endpoint_removed", [])


def test_what_may_destroy_asks_first():
    version = make_version(annotations=Annotations(destructive=True))

    with pytest.raises(ConfirmationError):
        ask_for(version)

    assert ask_for(version, is_confirmed=True).status == "queued"


def test_each_call_is_in_the_audit_trail_without_its_arguments():
    actor = make_user(Role.DESIGNER)
    call = ask_for(make_version(), {"city": "Secretville"}, actor=actor)

    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.after) == (
        actor,
        "run",
        {"call": call.pk, "version": "1", "ordinal": 1},
    )


def test_the_same_form_sent_twice_is_one_call():
    version, actor = make_version(), make_user(Role.DESIGNER)
    first = ask_for(version, actor=actor)

    again = ask_for(version, actor=actor, key=first.key)

    assert again == first
    assert AuditEntry.objects.count() == 1


def test_an_id_that_was_used_for_one_version_runs_no_other():
    one, other, actor = make_version(), make_version(), make_user(Role.DESIGNER)
    first = ask_for(one, actor=actor, key=uuid.uuid4())
    with pytest.raises(DomainError, match="Another call was made with this id"):
        ask_for(other, actor=actor, key=first.key)


def test_one_person_has_few_calls_under_way():
    version, actor = make_version(), make_user(Role.DESIGNER)
    for _ in range(requesting.USERS_CALLS_AT_ONCE):
        ask_for(version, actor=actor)

    with pytest.raises(DomainError, match="10 calls of yours are running"):
        ask_for(version, actor=actor)
    assert ask_for(version).status == "queued"


def test_a_message_that_comes_twice_sends_once():
    with HostileVendor(ANSWER) as vendor:
        run(make_version(vendor.url))
        invocation.perform_due_calls()

    assert len(vendor.requests) == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_workers_exactly_one_sends():
    from django.db import connection

    start = threading.Barrier(5)
    with HostileVendor(ANSWER) as vendor:
        ask_for(make_version(vendor.url))

        def work():
            start.wait()
            invocation.perform_due_calls()
            connection.close()

        workers = [threading.Thread(target=work) for _ in range(5)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    assert len(vendor.requests) == 1
    assert Call.objects.get().outcome == "ok"


def passed(call: Call, **fields) -> Call:
    Call.objects.filter(pk=call.pk).update(gives_up_at=timezone.now() - timedelta(seconds=1), **fields)
    return call


def test_a_call_that_died_half_way_is_not_known_to_have_run():
    call = passed(ask_for(make_version()), status=CallStatus.RUNNING)

    queue.sweep()

    call.refresh_from_db()
    assert (call.status, call.outcome, call.error_code) == ("finished", "unknown", "WORKER_LOST")
    assert "not known whether the tool ran" in call.decoded().error["message"]


def test_a_call_that_died_half_way_is_never_sent_again():
    with HostileVendor(ANSWER) as vendor:
        ask_for(make_version(vendor.url))
        Call.objects.update(status=CallStatus.RUNNING)
        invocation.perform_due_calls()
        queue.sweep()
        invocation.perform_due_calls()

    assert vendor.requests == []


def test_without_a_worker_a_call_ends_and_says_so():
    call = passed(ask_for(make_version()))

    call = queue.current_call(call)

    assert (call.outcome, call.error_code) == ("unavailable", "NO_WORKER")
    assert "nothing was sent" in call.decoded().error["message"]


def test_a_call_that_was_given_up_is_not_sent_late():
    with HostileVendor(ANSWER) as vendor:
        passed(ask_for(make_version(vendor.url)))
        invocation.perform_due_calls()

    assert vendor.requests == []


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_comes_after_the_end_does_not_change_it():
    from django.db import connection

    def late(line, request):
        Call.objects.update(status=CallStatus.FINISHED, outcome="unavailable")
        connection.close()
        return ANSWER(line, request)

    with HostileVendor(late) as vendor:
        call = run(make_version(vendor.url))

    assert len(vendor.requests) == 1
    assert call.outcome == "unavailable"


NO_REPEATING = Annotations(read_only=False, idempotent=False, destructive=False)
ANY_EFFECTS = [Annotations(read_only=True), Annotations(idempotent=True), Annotations(), NO_REPEATING]


@pytest.mark.parametrize("annotations", ANY_EFFECTS)
def test_a_tool_is_tried_again_while_its_vendor_does_not_let_it_in(annotations):
    away = reply(status=503)
    with HostileVendor(in_turn(away, away, ANSWER)) as vendor:
        call = run(make_version(vendor.url, annotations=annotations))

    attempts = call.decoded().attempts
    assert call.outcome == "ok"
    assert [(attempt.outcome, attempt.code) for attempt in attempts] == [
        ("unavailable", "HTTP_503"),
        ("unavailable", "HTTP_503"),
        ("ok", ""),
    ]
    assert [attempt.exchanges[0].status for attempt in attempts] == [503, 503, 200]


@pytest.mark.parametrize(
    ("failing", "policy", "annotations", "requests"),
    [
        # The vendor answers that it failed.
        (reply(status=500), "safe", Annotations(), 2),
        (reply(status=408), "safe", Annotations(), 2),
        (reply(status=425), "safe", NO_REPEATING, 2),
        (reply(status=429), "safe", NO_REPEATING, 2),
        (reply(status=500), "safe", NO_REPEATING, 1),
        (reply(status=500), "safe", Annotations(destructive=True), 1),
        (reply(status=500), "all", NO_REPEATING, 2),
        (reply(status=503), "none", Annotations(read_only=True), 1),
        # It sends no reply to the request.
        (BEHAVIOURS["closes without a reply"], "safe", Annotations(), 1),
        (BEHAVIOURS["closes without a reply"], "safe", Annotations(idempotent=True), 2),
        (BEHAVIOURS["closes without a reply"], "all", Annotations(), 2),
    ],
)
def test_a_call_is_sent_again_as_its_policy_and_effects_allow(failing, policy, annotations, requests):
    with HostileVendor(in_turn(failing, ANSWER)) as vendor:
        version = make_version(vendor.url, annotations=annotations)
        version.tool.endpoint.retry = {"retry": policy}
        version.tool.endpoint.save()
        call = run(version, is_confirmed=True)

    assert (call.outcome == "ok", len(vendor.requests)) == (requests == 2, requests)


def test_no_attempt_is_made_after_the_time_to_give_up(monkeypatch):
    slept = []
    monkeypatch.setattr(lease.LeasedCall, "sleep", lambda lease, seconds: slept.append(seconds))
    away = reply(status=503, headers={"Retry-After": "4"})
    with HostileVendor(in_turn(away, away, ANSWER)) as vendor:
        for seconds, outcome in ((4, "unavailable"), (60, "ok")):
            version = make_version(vendor.url)
            version.tool.endpoint.retry = {"give_up_after_seconds": seconds}
            assert run(version).outcome == outcome

    assert [int(seconds) for seconds in slept] == [4]


def test_repetition_ends():
    with HostileVendor(reply(status=502)) as vendor:
        call = run(make_version(vendor.url, annotations=Annotations(read_only=True)))

    assert (call.outcome, len(vendor.requests)) == ("unavailable", 3)


@pytest.mark.parametrize(("wait", "requests"), [("0", 3), ("9999", 1)])
def test_a_vendor_that_asks_to_wait_is_waited_for_while_the_time_allows(wait, requests):
    with HostileVendor(reply(status=429, headers={"Retry-After": wait})) as vendor:
        call = run(make_version(vendor.url, annotations=Annotations(read_only=True)))

    assert (call.outcome, call.error_code, len(vendor.requests)) == ("unavailable", "RATE_LIMITED", requests)


def test_a_refusal_is_not_tried_again():
    with HostileVendor(reply(status=403)) as vendor:
        call = run(make_version(vendor.url, annotations=Annotations(read_only=True)))

    assert (call.outcome, len(vendor.requests)) == ("refused", 1)


def test_a_call_ends_at_its_deadline():
    with HostileVendor(BEHAVIOURS["accepts and is silent"]) as vendor:
        call = run(make_version(vendor.url), deadline_seconds=1)

    assert (call.outcome, call.error_code) == ("unavailable", "DEADLINE")
    assert "not known whether the tool ran" in call.decoded().error["message"]


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_whatever_a_vendor_does_the_call_ends_and_is_kept(name):
    with HostileVendor(BEHAVIOURS[name]) as vendor:
        call = run(make_version(vendor.url), deadline_seconds=1)

    assert call.status == "finished"
    assert call.outcome in (
        "ok",
        "tool_error",
        "unavailable",
        "refused",
        "needs_authorization",
        "invalid_arguments",
    )
    assert len(call.result) < 200_000
    call.decoded()


def test_long_outputs_are_cut_and_say_so():
    long = json_reply({"output_parameters": [{"name": "weather", "value": "x" * 2_000_000}]})
    with HostileVendor(long) as vendor:
        call = run(make_version(vendor.url))

    result = call.decoded()
    assert (call.outcome, result.outputs) == ("ok", {})
    assert result.cut.startswith('{"weather":"xxx')
    assert len(call.result) < 100_000


def make_credential(url: str) -> Credential:
    return credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="Key", kind="header", header="X-Key", url=url, secret="kAnarY-vogel"
    )


def test_the_exchange_is_kept_without_the_secret():
    with HostileVendor(ANSWER) as vendor:
        credential = credential_operations.create_credential(
            actor=make_user(Role.ADMIN),
            name="Key",
            kind="header",
            header="X-Key",
            url=vendor.url,
            secret="kAnarY-vogel",
        )
        call = run(make_version(vendor.url, credential=credential))

    assert vendor.requests[0].headers["x-key"] == "kAnarY-vogel"
    (exchange,) = call.decoded().attempts[0].exchanges
    assert (exchange.method, exchange.status) == ("POST", 200)
    assert json.loads(exchange.body)["input_parameters"][0]["value"] == "Oslo"
    assert "fair" in exchange.reply
    assert "kAnarY" not in call.result


def test_what_a_failing_vendor_says_is_kept_without_the_secret():
    away = json_reply({"why": "database is away", "you": "kAnarY-vogel"}, status=500)
    with HostileVendor(away) as vendor:
        call = run(make_version(vendor.url, credential=make_credential(vendor.url)))

    (exchange,) = call.decoded().attempts[0].exchanges
    assert (call.error_code, exchange.status) == ("HTTP_500", 500)
    assert json.loads(exchange.reply) == {"why": "database is away", "you": "•••"}


@pytest.mark.parametrize("secret", ["kAnarY-vogel", 'kAnarY"vo\\gel'])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_vendor_that_sends_the_secret_back_gives_nothing_away(secret, status):
    def parrot(line, request):
        body = {"output_parameters": [{"name": "k", "value": request.headers["x-key"]}]}
        return json_reply(body, status=status)(line, request)

    with HostileVendor(parrot) as vendor:
        credential = credential_operations.create_credential(
            actor=make_user(Role.ADMIN),
            name="Key",
            kind="header",
            header="X-Key",
            url=vendor.url,
            secret=secret,
        )
        call = run(make_version(vendor.url, credential=credential))

    if status != 500:  # of which nothing is read
        assert (call.outcome, call.error_code) == ("refused", "ECHO")
    assert "kAnarY" not in call.result


def test_a_credential_of_another_origin_is_not_sent():
    credential = make_credential("http://127.0.0.1:1/")
    with HostileVendor(ANSWER) as vendor:
        call = run(make_version(vendor.url, credential=credential))

    assert (call.outcome, call.error_code, vendor.requests) == ("refused", "CREDENTIAL_ELSEWHERE", [])


def test_history_keeps_the_newest(monkeypatch):
    monkeypatch.setattr(requesting, "MAX_CALLS_PER_TOOL", 3)
    monkeypatch.setattr(requesting, "FORGET_EVERY", 1)
    version = make_version()
    for _ in range(6):
        passed(ask_for(version))
        queue.sweep()

    assert Call.objects.count() == 4


def stand(version: ToolVersion, state: str) -> ToolVersion:
    Finding.objects.create(
        endpoint=version.tool.endpoint,
        tool=version.tool,
        version=version,
        code=HELD,
        severity="high",
        subject=version.digest,
        state=state,
        message="Held.",
    )
    return version


def test_a_blocked_version_is_not_run():
    version = stand(make_version(), "blocked")

    with pytest.raises(DomainError, match="blocked in review"):
        ask_for(version, is_confirmed=True)


def test_a_version_that_waits_for_review_asks_first():
    version = stand(make_version(), "open")

    with pytest.raises(ConfirmationError, match="waits for review"):
        ask_for(version)
    assert ask_for(version, is_confirmed=True).status == "queued"


def test_a_vendor_without_versions_runs_what_it_lists_so_that_counts():
    version = make_version()
    facts = {name: getattr(version, name) for name in ("tool", "signature", "raw")}
    chosen_version = ToolVersion.objects.create(ordinal=2, label="", digest="2", **facts)
    listed_version = ToolVersion.objects.create(ordinal=3, label="", digest="3", **facts)
    version.tool.stopped = stand(listed_version, "blocked")
    version.tool.save()

    with pytest.raises(DomainError, match="blocked in review"):
        ask_for(chosen_version)
