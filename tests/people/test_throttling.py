import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import time_machine
from django.test import Client

from core import rate_limits, redis_client
from people.models import Role
from tests.factories import make_user

pytestmark = pytest.mark.django_db
# Headers in which a client may claim to be another one; the number makes it another one each time.
SPOOFS = {
    "X-Forwarded-For": "10.0.0.{}",
    "x-forwarded-for": "2001:db8::{}",
    "X-Forwarded-For ": "10.0.0.{}, 203.0.113.9",
    "X-Forwarded": "10.0.0.{}",
    "Forwarded-For": "10.0.0.{}",
    "Forwarded": "for=10.0.0.{};proto=https",
    "X-Real-Ip": "10.0.0.{}",
    "X-Client-Ip": "10.0.0.{}",
    "True-Client-Ip": "10.0.0.{}",
    "Cf-Connecting-Ip": "10.0.0.{}",
    "X-Cluster-Client-Ip": "10.0.0.{}",
}


@pytest.fixture(autouse=True)
def few_calls(settings, monkeypatch):
    settings.CALLS_PER_MINUTE, settings.WRITES_PER_MINUTE = 5, 2
    monkeypatch.setattr(rate_limits, "_KEY", f"test:limit:{time.time_ns()}")
    with time_machine.travel(1_800_000_030, tick=False):
        yield


@pytest.fixture
def no_server(monkeypatch):
    def fail():
        attempts.append(1)
        raise redis.ConnectionError

    attempts: list[int] = []
    monkeypatch.setattr(redis_client, "client", fail)
    monkeypatch.setattr(rate_limits, "_away_until", 0.0)
    yield attempts
    rate_limits._local_counts.clear()


def statuses(client, times, path="/api/v1/keys/", **extra) -> list[int]:
    return [client.get(path, **extra).status_code for _ in range(times)]


def test_key_that_asks_too_often_is_told_when_to_go_on(program):
    client = program(make_user())
    assert statuses(client, 6) == [200] * 5 + [429]
    answer = client.get("/api/v1/keys/")
    assert answer.headers["Retry-After"] == "30"
    assert answer.json()["code"] == "throttled"
    assert " 30 seconds" in answer.json()["message"]


def test_next_minute_is_a_new_one(program):
    client = program(make_user())
    statuses(client, 6)
    with time_machine.travel(1_800_000_060, tick=False):
        assert statuses(client, 1) == [200]


def test_writing_is_counted_apart(program):
    client = program(make_user())
    status_codes = [
        client.post("/api/v1/keys/", {"name": "a", "scopes": ["read"]}).status_code for _ in range(3)
    ]
    assert status_codes == [201, 201, 429]
    assert statuses(client, 1) == [200]


def test_one_key_leaves_room_for_the_others_and_all_together_have_an_end(program):
    owner = make_user()
    assert statuses(program(owner), 6).count(200) == 5
    assert statuses(program(owner), 6).count(200) == 4  # the refused call of the first one counts too
    assert statuses(program(make_user()), 5).count(200) == 5


def test_browser_counts_with_its_person(program):
    owner, browser = make_user(Role.VIEWER), Client()
    browser.force_login(owner)
    assert statuses(browser, 11) == [200] * 10 + [429]
    assert statuses(program(owner), 1) == [429]


@pytest.mark.parametrize("header", SPOOFS)
@pytest.mark.parametrize("proxies", [0, 1])
def test_pretended_address_changes_nothing(program, settings, header, proxies):
    settings.NUM_PROXIES = proxies
    client = program(make_user())
    pretended = [
        client.get("/api/v1/keys/", headers={header.strip(): SPOOFS[header].format(number)}).status_code
        for number in range(7)
    ]
    assert pretended == [200] * 5 + [429] * 2


def test_other_processes_count_too():
    """Another process is another thread here: what they share is the server."""
    names = ["read:key:0"]
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: rate_limits.count(names, time.time())[0], range(100)))
    assert sorted(counts) == list(range(1, 101))


def test_each_process_counts_alone_while_the_server_is_away(program, no_server):
    client = program(make_user())
    assert statuses(client, 7) == [200] * 5 + [429] * 2
    assert len(no_server) == 1  # and it is not asked again and again


def test_stranger_is_refused_before_anything_is_counted(client):
    assert statuses(client, 8) == [401] * 8


def test_blocks_let_through_no_more_than_the_limit(settings, monkeypatch):
    """Two processes, each with blocks of its own, are two sets of blocks here."""
    blocks = [{}, {}]
    let_through = 0
    for number in range(7_000):
        monkeypatch.setattr(rate_limits, "_blocks", blocks[number % 2])
        let_through += rate_limits.spend({"read:key:1": 3_000, "read:person:1": 6_000}, time.time())
    assert 3_000 - 2 * 3 <= let_through <= 3_000


def test_a_limit_of_thousands_costs_a_round_trip_now_and_then(monkeypatch):
    counted = []
    client = redis_client.client
    monkeypatch.setattr(redis_client, "client", lambda: counted.append(1) or client())
    for _ in range(100):
        assert rate_limits.spend({"read:key:2": 10_000}, time.time())
    assert len(counted) == 10


def test_blocks_end_with_their_minute():
    assert rate_limits.spend({"read:key:3": 2_000}, time.time())
    with time_machine.travel(1_800_000_060, tick=False):
        assert rate_limits.spend({"read:key:3": 2_000}, time.time())
        assert [name for name, (minute, _) in rate_limits._blocks.items() if minute != 30_000_001] == []
