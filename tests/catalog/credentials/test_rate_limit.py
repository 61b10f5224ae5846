"""The limits of requests per second and at once hold over all processes."""

import threading
import time

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.credentials import rate_limit
from catalog.credentials.rate_limit import RateLimit, take, turn
from catalog.models import Endpoint
from core import redis_client
from core.outbound.addresses import Policy
from core.outbound.errors import RefusedError, UnavailableError
from core.outbound.session import HttpSession
from tests.factories import make_endpoint
from tests.hostile_vendor import HostileVendor, reply

START = 1_700_000_000.0
NUMBERS = iter(range(1_000_000))


def limit_of(per_second: int, at_once: int = 100) -> RateLimit:
    """Return the limit of an endpoint without other callers."""
    key = f"pegboard:pace:{{test-{next(NUMBERS)}}}"
    redis_client.client().delete(f"{key}:busy", f"{key}:starts")
    return RateLimit(key, per_second, at_once)


def starts(limit: RateLimit, arrivals: list[float], patience: float = 1_000) -> list[float]:
    """Return when requests that arrive at these times may leave, in seconds of the test's own clock."""
    answers = [take(limit, f"t{n}", patience, 0.001, START + moment) for n, moment in enumerate(arrivals)]
    return [moment + wait / 1000 for moment, wait in zip(arrivals, answers, strict=True) if wait >= 0]


def test_as_many_as_allowed_go_at_once_and_the_next_waits():
    assert starts(limit_of(3), [0, 0, 0, 0, 0]) == pytest.approx([0, 0, 0, 1.05, 1.05])


def test_whoever_asks_rarely_never_waits():
    assert starts(limit_of(2), [0, 0.6, 1.2, 1.8, 2.4]) == pytest.approx([0, 0.6, 1.2, 1.8, 2.4])


@given(st.integers(1, 5), st.lists(st.integers(0, 3_000).map(lambda ms: ms / 1000), min_size=1, max_size=20))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_window_of_a_second_ever_holds_more(per_second, arrivals):
    allowed = starts(limit_of(per_second), sorted(arrivals))
    assert len(allowed) == len(arrivals)
    for first, beyond in zip(allowed, allowed[per_second:], strict=False):
        assert beyond - first >= 1.0


def test_turn_that_would_come_too_late_is_not_taken():
    limit = limit_of(1)
    assert starts(limit, [0, 0, 0], patience=1.5) == pytest.approx([0, 1.05])
    assert starts(limit, [1.2], patience=1.5) == pytest.approx([2.1])


def test_no_more_than_allowed_are_under_way():
    limit = limit_of(1_000, at_once=2)
    assert [take(limit, name, 9, 20, START) for name in "abc"] == [0, 0, -1]
    redis_client.client().zrem(f"{limit.key}:busy", "a")
    assert take(limit, "c", 9, 20, START) == 0


def test_turn_of_a_process_that_died_ends_with_its_lease():
    limit = limit_of(1_000, at_once=1)
    assert take(limit, "dead", 9, 20, START) == 0
    assert take(limit, "next", 9, 20, START + 19.9) == -1
    assert take(limit, "next", 9, 20, START + 20.1) == 0


def test_endpoints_do_not_wait_for_each_other():
    assert starts(limit_of(1), [0]) == starts(limit_of(1), [0]) == [0]


def test_nothing_is_left_in_the_broker_for_ever():
    limit = limit_of(5)
    with turn(limit, 1, 2):
        assert 0 < redis_client.client().pttl(f"{limit.key}:busy") <= 5_000
    assert 0 < redis_client.client().pttl(f"{limit.key}:starts") <= 5_000
    assert not redis_client.client().exists(f"{limit.key}:busy")


def test_turn_is_given_back_when_the_request_fails():
    limit = limit_of(100, at_once=1)
    for _ in range(3):
        with pytest.raises(RefusedError), turn(limit, 0, 20):
            raise RefusedError("AUTH", "No.")


def test_whoever_waits_too_long_for_a_turn_is_told():
    limit = limit_of(100, at_once=1)
    with turn(limit, 0, 20), pytest.raises(UnavailableError, match="1 requests to this endpoint") as busy:
        turn(limit, 0.1, 20).__enter__()
    assert busy.value.code == "BUSY"
    slow = limit_of(1)
    with turn(slow, 0, 20), pytest.raises(UnavailableError, match="1 per second"):
        turn(slow, 0.2, 20).__enter__()


def test_vendor_sees_no_more_at_once_and_no_more_a_second():
    """Eight threads, as eight workers would; the vendor's own clock judges."""
    arrived: list[float] = []
    under_way, most_at_once = [0], [0]
    lock = threading.Lock()

    def script(line, request):
        with lock:
            arrived.append(time.monotonic())
            under_way[0] += 1
            most_at_once[0] = max(most_at_once[0], under_way[0])
        time.sleep(0.03)
        with lock:
            under_way[0] -= 1
        return reply()(line, request)

    limit = limit_of(10, at_once=3)
    with HostileVendor(script) as vendor:

        def ask() -> None:
            with HttpSession(
                vendor.url,
                policy=Policy.parse("127.0.0.1"),
                turns=lambda patience, max_wait: turn(limit, patience, max_wait),
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
    assert most_at_once[0] <= 3
    assert arrived[10] - began >= 1.0
    assert arrived[20] - began >= 2.0


@pytest.fixture
def no_server(monkeypatch):
    def away(*command):
        raise redis.ConnectionError("nobody there")

    alone = rate_limit._LocalLimit()
    monkeypatch.setattr(rate_limit, "_local", alone)
    monkeypatch.setattr(redis_client, "execute", away)
    monkeypatch.setattr(redis_client, "send", away)
    return alone


def test_without_the_broker_each_process_keeps_the_pace_alone(no_server):
    limit = RateLimit("alone", 20, 1)
    began = time.monotonic()
    for _ in range(4):
        with turn(limit, 5, 20):
            pass
    assert time.monotonic() - began >= 3 / 20
    assert no_server.is_server_away


def test_broker_that_is_away_is_not_asked_for_every_request(no_server, monkeypatch):
    attempts = []
    monkeypatch.setattr(
        rate_limit,
        "take",
        lambda *arguments: attempts.append(arguments) or (_ for _ in ()).throw(redis.TimeoutError()),
    )
    for _ in range(5):
        with turn(RateLimit("alone", 1_000, 1), 5, 20):
            pass
    assert len(attempts) == 1


# The circuit.


def test_settings_of_the_endpoint_reach_the_session(admin_api, vendor):
    response = admin_api.post(
        "/api/v1/endpoints/",
        {
            "vendor": make_endpoint().vendor.slug,
            "protocol": "a2t",
            "url": vendor.url,
            "requests_per_second": 7,
            "requests_at_once": 2,
        },
    )
    assert response.status_code == 201, response.data
    endpoint = Endpoint.objects.get(pk=response.data["id"])
    limit = rate_limit.turns(endpoint).args[0]
    assert (limit.per_second, limit.at_once) == (7, 2)


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"requests_per_second": 0}, "requests_per_second"),
        ({"requests_per_second": 1_001}, "requests_per_second"),
        ({"requests_at_once": 0}, "requests_at_once"),
        ({"requests_at_once": 1_001}, "requests_at_once"),
        ({"max_tools": 0}, "max_tools"),
        ({"max_tools": 1_000_001}, "max_tools"),
        ({"max_minutes": 1_441}, "max_minutes"),
        ({"max_megabytes": 4_097}, "max_megabytes"),
        ({"max_reply_megabytes": 257}, "max_reply_megabytes"),
    ],
)
def test_pace_has_bounds(admin_api, payload, field):
    endpoint = make_endpoint()
    refused = admin_api.patch(f"/api/v1/endpoints/{endpoint.pk}/", payload)
    assert refused.status_code == 400
    assert field in refused.data["fields"]
