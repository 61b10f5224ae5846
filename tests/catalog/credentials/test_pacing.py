"""At most so many requests a second and at once, over all processes, and none while the circuit is open."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.calls import invocation
from catalog.credentials import pacing
from catalog.credentials.pacing import Pace, back_off, take, turn
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Call, Endpoint, Run, Tool, ToolVersion
from catalog.models.runs import RunStatus, Trigger
from catalog.protocols.base import Outcome
from catalog.vendors import operations as vendor_operations
from core import redis_client
from core.outbound.addresses import Policy
from core.outbound.errors import RefusedError, UnavailableError
from core.outbound.session import Session
from people.models import Role
from tests.factories import make_endpoint, make_parameter, make_signature, make_tool, make_user
from tests.hostile_vendor import HostileVendor, in_turn, json_reply, reply

START = 1_700_000_000.0
NUMBERS = iter(range(1_000_000))


def pace_of(per_second: int, at_once: int = 100) -> Pace:
    """Of an endpoint that nobody else asks."""
    key = f"pegboard:pace:{{test-{next(NUMBERS)}}}"
    redis_client.client().delete(f"{key}:busy", f"{key}:starts")
    return Pace(key, per_second, at_once)


def starts(pace: Pace, arrivals: list[float], patience: float = 1_000) -> list[float]:
    """When requests that arrive then may leave; by a clock of the test's own, in seconds."""
    answers = [take(pace, f"t{n}", patience, 0.001, START + at) for n, at in enumerate(arrivals)]
    return [at + wait / 1000 for at, wait in zip(arrivals, answers, strict=True) if wait >= 0]


def test_as_many_as_allowed_go_at_once_and_the_next_waits():
    assert starts(pace_of(3), [0, 0, 0, 0, 0]) == pytest.approx([0, 0, 0, 1.05, 1.05])


def test_whoever_asks_rarely_never_waits():
    assert starts(pace_of(2), [0, 0.6, 1.2, 1.8, 2.4]) == pytest.approx([0, 0.6, 1.2, 1.8, 2.4])


@given(st.integers(1, 5), st.lists(st.integers(0, 3_000).map(lambda ms: ms / 1000), min_size=1, max_size=20))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_window_of_a_second_ever_holds_more(per_second, arrivals):
    left = starts(pace_of(per_second), sorted(arrivals))
    assert len(left) == len(arrivals)
    for first, beyond in zip(left, left[per_second:], strict=False):
        assert beyond - first >= 1.0


def test_turn_that_would_come_too_late_is_not_taken():
    pace = pace_of(1)
    assert starts(pace, [0, 0, 0], patience=1.5) == pytest.approx([0, 1.05])
    assert starts(pace, [1.2], patience=1.5) == pytest.approx([2.1])


def test_no_more_than_allowed_are_under_way():
    pace = pace_of(1_000, at_once=2)
    assert [take(pace, name, 9, 20, START) for name in "abc"] == [0, 0, -1]
    redis_client.client().zrem(f"{pace.key}:busy", "a")
    assert take(pace, "c", 9, 20, START) == 0


def test_turn_of_a_process_that_died_ends_with_its_lease():
    pace = pace_of(1_000, at_once=1)
    assert take(pace, "dead", 9, 20, START) == 0
    assert take(pace, "next", 9, 20, START + 19.9) == -1
    assert take(pace, "next", 9, 20, START + 20.1) == 0


def test_endpoints_do_not_wait_for_each_other():
    assert starts(pace_of(1), [0]) == starts(pace_of(1), [0]) == [0]


def test_nothing_is_left_in_the_broker_for_ever():
    pace = pace_of(5)
    with turn(pace, 1, 2):
        assert 0 < redis_client.client().pttl(f"{pace.key}:busy") <= 5_000
    assert 0 < redis_client.client().pttl(f"{pace.key}:starts") <= 5_000
    assert not redis_client.client().exists(f"{pace.key}:busy")


def test_turn_is_given_back_when_the_request_fails():
    pace = pace_of(100, at_once=1)
    for _ in range(3):
        with pytest.raises(RefusedError), turn(pace, 0, 20):
            raise RefusedError("AUTH", "No.")


def test_whoever_waits_too_long_for_a_turn_is_told():
    pace = pace_of(100, at_once=1)
    with turn(pace, 0, 20), pytest.raises(UnavailableError, match="1 requests to this endpoint") as busy:
        turn(pace, 0.1, 20).__enter__()
    assert busy.value.code == "BUSY"
    slow = pace_of(1)
    with turn(slow, 0, 20), pytest.raises(UnavailableError, match="1 a second"):
        turn(slow, 0.2, 20).__enter__()


def test_vendor_sees_no_more_at_once_and_no_more_a_second():
    """Eight threads, as eight workers would; the vendor's own clock judges."""
    arrived: list[float] = []
    under_way, most = [0], [0]
    lock = threading.Lock()

    def script(line, request):
        with lock:
            arrived.append(time.monotonic())
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(0.03)
        with lock:
            under_way[0] -= 1
        return reply()(line, request)

    pace = pace_of(10, at_once=3)
    with HostileVendor(script) as vendor:

        def ask() -> None:
            with Session(
                vendor.url,
                policy=Policy.parse("127.0.0.1"),
                turns=lambda patience, longest: turn(pace, patience, longest),
            ) as session:
                for _ in range(3):
                    session.get("/")

        began = time.monotonic()
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    arrived.sort()
    assert len(arrived) == 24
    assert most[0] <= 3
    assert arrived[10] - began >= 1.0
    assert arrived[20] - began >= 2.0


@pytest.fixture
def no_server(monkeypatch):
    def away():
        raise redis.ConnectionError("nobody there")

    alone = pacing._Alone()
    monkeypatch.setattr(pacing, "_alone", alone)
    monkeypatch.setattr(redis_client, "client", away)
    return alone


def test_without_the_broker_each_process_keeps_the_pace_alone(no_server):
    pace = Pace("alone", 20, 1)
    began = time.monotonic()
    for _ in range(4):
        with turn(pace, 5, 20):
            pass
    assert time.monotonic() - began >= 3 / 20
    assert no_server.is_server_away


def test_broker_that_is_away_is_not_asked_for_every_request(no_server, monkeypatch):
    asked = []
    monkeypatch.setattr(
        pacing, "take", lambda *given: asked.append(given) or (_ for _ in ()).throw(redis.TimeoutError())
    )
    for _ in range(5):
        with turn(Pace("alone", 1_000, 1), 5, 20):
            pass
    assert len(asked) == 1


# The circuit.


def connect(vendor: HostileVendor) -> ToolVersion:
    signature = make_signature(outputs=(make_parameter("weather"),))
    return make_tool(signature, endpoint=make_endpoint(url=vendor.url)).current


def call(version: ToolVersion) -> Call:
    made = invocation.request_call(version, actor=make_user(Role.DESIGNER), arguments={"city": "Oslo"})
    invocation.perform(made.pk, ())
    made.refresh_from_db()
    return made


def test_pauses_grow_from_half_a_minute_to_an_hour_and_differ():
    for failures in range(1, 12):
        pauses = [back_off(failures).total_seconds() for _ in range(50)]
        assert 30 <= min(pauses) <= max(pauses) <= 3_600
        assert len(set(pauses)) > 40
    least = [min(back_off(failures) for _ in range(20)) for failures in (1, 2, 3, 4)]
    assert least == sorted(least)


def moved(asked: Endpoint | Tool, seconds: float) -> None:
    """Time passes: what was to happen at some moment happens so much earlier."""
    circuit = pacing._circuit_of(asked).get()
    if circuit.open_until:
        circuit.open_until -= timedelta(seconds=seconds)
        circuit.save()


def failing(asked: Endpoint | Tool, times: int, retry_after: float | None = None) -> None:
    for _ in range(times):
        pacing.note_absence(asked, "CONNECT", retry_after)


@pytest.mark.django_db
def test_fifth_failure_in_a_row_opens_the_circuit():
    endpoint = make_endpoint(name="Weather")
    failing(endpoint, 4)
    pacing.admit(endpoint, 30)
    failing(endpoint, 1)
    with pytest.raises(UnavailableError, match="“Weather” did not answer 5 times in a row") as refused:
        pacing.admit(endpoint, 30)
    assert refused.value.code == "CIRCUIT_OPEN"
    assert "nothing was sent" in refused.value.message
    assert "unavailable until" in refused.value.message
    assert 25 <= refused.value.retry_after <= 40


@pytest.mark.django_db
def test_answer_in_between_starts_the_count_again():
    endpoint = make_endpoint()
    failing(endpoint, 4)
    pacing.note(endpoint, RefusedError("AUTH", "The vendor is there and says no."))
    failing(endpoint, 4)
    pacing.admit(endpoint, 30)


@pytest.mark.django_db
def test_one_probe_goes_and_its_answer_closes_the_circuit():
    endpoint = make_endpoint()
    failing(endpoint, 5)
    moved(endpoint, 45)
    pacing.admit(endpoint, 30)
    with pytest.raises(UnavailableError) as refused:
        pacing.admit(endpoint, 30)
    assert refused.value.retry_after <= 30
    pacing.note(endpoint, None)
    for _ in range(3):
        pacing.admit(endpoint, 30)


@pytest.mark.django_db
def test_probe_that_fails_opens_it_for_longer():
    endpoint = make_endpoint()
    failing(endpoint, 5)
    waits = []
    for _ in range(5):
        moved(endpoint, 3_600)
        pacing.admit(endpoint, 30)
        failing(endpoint, 1)
        with pytest.raises(UnavailableError) as refused:
            pacing.admit(endpoint, 30)
        waits.append(refused.value.retry_after)
    assert 290 <= waits[0] <= 375
    assert waits[1] >= 1_490
    assert 2_690 <= min(waits[2:]) <= max(waits[2:]) <= 3_600


@pytest.mark.django_db
def test_probe_that_died_is_followed_by_another():
    endpoint = make_endpoint()
    failing(endpoint, 5)
    moved(endpoint, 45)
    pacing.admit(endpoint, 30)
    moved(endpoint, 31)
    pacing.admit(endpoint, 30)


@pytest.mark.django_db
@pytest.mark.parametrize(("asked", "most"), [(7_200, 7_200), (86_400_000, 86_400)])
def test_wait_that_the_vendor_asks_for_is_kept_up_to_a_day(asked, most):
    endpoint = make_endpoint(name="Weather")
    failing(endpoint, 1, retry_after=asked)
    with pytest.raises(UnavailableError, match="“Weather” asked us to wait") as refused:
        pacing.admit(endpoint, 30)
    assert most - 5 <= refused.value.retry_after <= most
    moved(endpoint, most)
    pacing.admit(endpoint, 30)
    pacing.admit(endpoint, 30)


@pytest.mark.django_db
@pytest.mark.parametrize("code", sorted(pacing.OURS))
def test_what_we_did_ourselves_is_nobodys_failure(code):
    endpoint = make_endpoint()
    for _ in range(9):
        pacing.note(endpoint, UnavailableError(code, "Ours."))
    pacing.admit(endpoint, 30)


@pytest.mark.django_db
def test_while_it_is_open_calls_are_answered_without_asking():
    with HostileVendor(reply(status=503)) as vendor:
        version = connect(vendor)
        for _ in range(pacing.OPENS_AFTER):
            assert call(version).outcome == "unavailable"
        asked = len(vendor.requests)
        unsent = call(version)
        assert len(vendor.requests) == asked
        assert (unsent.outcome, unsent.error_code) == ("unavailable", "CIRCUIT_OPEN")
        vendor.script = json_reply({"output_parameters": [{"name": "weather", "value": "fair"}]})
        moved(version.tool, 45)
        call(version)
        assert len(vendor.requests) == asked + 1
        call(version)
        assert len(vendor.requests) == asked + 2


@pytest.mark.django_db
def test_answer_to_a_call_says_that_the_endpoint_is_there_again():
    with HostileVendor(json_reply({"output_parameters": [{"name": "weather", "value": "fair"}]})) as vendor:
        version = connect(vendor)
        failing(version.tool.endpoint, pacing.OPENS_AFTER)
        moved(version.tool.endpoint, 45)
        for count in (1, 2, 3):
            call(version)
            assert len(vendor.requests) == count


@pytest.mark.django_db
def test_what_a_call_meets_keeps_back_that_tool_alone(designer_api, monkeypatch):
    def wait_for(made, seconds):
        invocation.perform(made.pk, ())
        return Call.objects.select_related("version__tool").get(pk=made.pk)

    monkeypatch.setattr(invocation, "wait_for", wait_for)
    fair = json_reply({"output_parameters": [{"name": "weather", "value": "fair"}]})
    busy = reply(status=503, headers={"Retry-After": "3600"})
    with HostileVendor(in_turn(busy, fair)) as vendor:
        tool = connect(vendor).tool
        other = make_tool(make_signature("other"), endpoint=tool.endpoint)

        def invoke(which):
            address = f"/api/v1/tools/{which.pk}/invoke/"
            return designer_api.post(address, {"arguments": {"city": "Oslo"}}).data

        assert invoke(tool)["error"]["code"] == "HTTP_503"
        assert invoke(other)["outcome"] == "ok"
        unsent = invoke(tool)
        assert (unsent["error"]["code"], len(vendor.requests)) == ("CIRCUIT_OPEN", 2)
        assert 3_500_000 < unsent["retry"]["after_ms"] <= 3_600_000
    shown = designer_api.get(f"/api/v1/tools/{tool.pk}/").data
    page = designer_api.get(f"/tools/{tool.pk}/try/").content.decode()
    assert shown["unavailable_until"] is not None
    assert "Calls of this tool are not sent until" in page
    assert designer_api.get(f"/api/v1/tools/{other.pk}/").data["unavailable_until"] is None
    assert designer_api.get(f"/api/v1/endpoints/{tool.endpoint_id}/").data["unavailable_until"] is None
    Endpoint.objects.update(next_due_at=timezone.now() - timedelta(seconds=5))
    enumeration_runs._start_due()
    assert Run.objects.filter(endpoint=tool.endpoint, trigger=Trigger.SCHEDULE).exists()


@pytest.mark.django_db
def test_reading_that_is_told_to_wait_keeps_back_readings_and_all_calls():
    busy = reply(status=503, headers={"Retry-After": "3600"})
    with HostileVendor(busy) as vendor:
        version = connect(vendor)
        endpoint = version.tool.endpoint
        run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=make_user(Role.ADMIN))
        enumeration_runs.perform(run.pk)
        asked = len(vendor.requests)
        assert call(version).error_code == "CIRCUIT_OPEN"
        assert len(vendor.requests) == asked
    Endpoint.objects.update(next_due_at=timezone.now() - timedelta(seconds=5))
    enumeration_runs._start_due()
    assert not Run.objects.filter(endpoint=endpoint, trigger=Trigger.SCHEDULE).exists()
    moved(endpoint, 3_600)
    enumeration_runs._start_due()
    assert Run.objects.filter(endpoint=endpoint, trigger=Trigger.SCHEDULE).exists()


@pytest.mark.django_db
def test_sign_in_server_that_is_away_is_no_failure_of_the_tool():
    tool = make_tool()
    for _ in range(9):
        pacing.note_call(tool, Outcome("unavailable", error={"code": "TOKEN_SERVER", "message": "Away."}))
    pacing.admit(tool, 30)


@pytest.mark.django_db
def test_person_who_has_the_endpoint_read_ends_the_wait_of_its_tools(vendor):
    def read(trigger):
        run = enumeration_runs.request_run(endpoint, trigger=trigger, actor=make_user(Role.ADMIN))
        assert enumeration_runs.perform(run.pk).status == RunStatus.SUCCEEDED

    endpoint = make_endpoint(url=vendor.url)
    read(Trigger.PERSON)
    tool, elsewhere = endpoint.tools.first(), make_tool()
    for each in (tool, elsewhere):
        failing(each, 6)
    read(Trigger.SCHEDULE)
    with pytest.raises(UnavailableError):
        pacing.admit(tool, 30)
    read(Trigger.PERSON)
    pacing.admit(tool, 30)
    with pytest.raises(UnavailableError):
        pacing.admit(elsewhere, 30)


@pytest.mark.django_db
def test_person_may_ask_at_once_and_an_answer_closes_the_circuit(vendor):
    endpoint = make_endpoint(url=vendor.url)
    failing(endpoint, 6)
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=make_user(Role.ADMIN))
    assert enumeration_runs.perform(run.pk).status == RunStatus.SUCCEEDED
    pacing.admit(endpoint, 30)


@pytest.mark.django_db
def test_runs_that_are_turned_away_open_the_circuit_and_wait_longer_each_time():
    actor, waits = make_user(Role.ADMIN), []
    with HostileVendor(reply(status=503, headers={"Retry-After": "20"})) as vendor:
        endpoint = make_endpoint(url=vendor.url)
        for _ in range(pacing.OPENS_AFTER):
            run = enumeration_runs.request_run(endpoint, trigger=Trigger.PERSON, actor=actor)
            assert enumeration_runs.perform(run.pk).error_code == "HTTP_503"
            endpoint.refresh_from_db()
            waits.append((endpoint.next_due_at - datetime.now(UTC)).total_seconds())
    assert waits[0] < waits[1] < waits[2] < waits[3]
    assert max(waits) <= 3_600
    with pytest.raises(UnavailableError):
        pacing.admit(endpoint, 30)


@pytest.mark.django_db
def test_new_address_starts_afresh():
    endpoint = make_endpoint()
    failing(endpoint, 6)
    vendor_operations.update_endpoint(endpoint, actor=make_user(Role.ADMIN), url="http://127.0.0.1:9/")
    pacing.admit(endpoint, 30)


def test_settings_of_the_endpoint_reach_the_session(admin_api, vendor):
    made = admin_api.post(
        "/api/v1/endpoints/",
        {
            "vendor": make_endpoint().vendor.slug,
            "protocol": "a2t",
            "url": vendor.url,
            "requests_per_second": 7,
            "requests_at_once": 2,
        },
    )
    assert made.status_code == 201, made.data
    endpoint = Endpoint.objects.get(pk=made.data["id"])
    pace = pacing.turns(endpoint).args[0]
    assert (pace.per_second, pace.at_once) == (7, 2)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"requests_per_second": 0}, "requests_per_second"),
        ({"requests_per_second": 1_001}, "requests_per_second"),
        ({"requests_at_once": 0}, "requests_at_once"),
        ({"requests_at_once": 101}, "requests_at_once"),
        ({"max_tools": 0}, "max_tools"),
        ({"max_tools": 1_000_001}, "max_tools"),
        ({"max_minutes": 1_441}, "max_minutes"),
        ({"max_megabytes": 4_097}, "max_megabytes"),
        ({"max_reply_megabytes": 257}, "max_reply_megabytes"),
    ],
)
def test_pace_has_bounds(admin_api, given, field):
    endpoint = make_endpoint()
    refused = admin_api.patch(f"/api/v1/endpoints/{endpoint.pk}/", given)
    assert refused.status_code == 400
    assert field in refused.data["fields"]


def test_open_circuit_is_shown(admin_api):
    endpoint = make_endpoint()
    failing(endpoint, 5)
    shown = admin_api.get(f"/api/v1/endpoints/{endpoint.pk}/").data
    assert shown["unavailable_until"] is not None
    page = admin_api.get(f"/endpoints/{endpoint.pk}/").content.decode()
    assert "Calls are not sent until" in page
    assert "did not answer 5 times in a row" in page
    other = admin_api.get(f"/api/v1/endpoints/{make_endpoint().pk}/").data
    assert other["unavailable_until"] is None
