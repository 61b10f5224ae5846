"""/metrics as Prometheus reads it, over several processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import redis
from django.http import HttpResponse
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from catalog.models import Run
from core import metrics, redis_client
from core.metrics import Counter, Histogram
from pegboard.web.middleware import TraceMiddleware
from people import api_keys
from people.models import Role
from tests.factories import make_endpoint, make_tool, make_user
from tests.ports import free_port
from tests.vendor import Vendor, serving, tools

WAIT_SECONDS = 60


@pytest.fixture(autouse=True)
def nothing_counted():
    metrics.send()
    redis_client.client().delete(metrics.KEY)


def families(text: str) -> dict[str, object]:
    metric_families = list(text_string_to_metric_families(text))
    assert len({family.name for family in metric_families}) == len(metric_families)
    assert all(family.documentation for family in metric_families)
    return {family.name: family for family in metric_families}


def value(text: str, sample: str, **labels: str) -> float:
    for family in families(text).values():
        for metric_sample in family.samples:
            if metric_sample.name == sample and labels.items() <= metric_sample.labels.items():
                return metric_sample.value
    return 0


def scraped(client) -> str:
    client.force_login(make_user(Role.ADMIN))
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.django_db
def test_what_is_true_now_is_read_by_prometheus_own_parser(client):
    make_tool()
    text = scraped(client)
    assert value(text, "pegboard_tools", status="active") == 1
    assert value(text, "pegboard_endpoints", status="new") == 1
    assert value(text, "pegboard_broker_up") == 1
    families_found = families(text)
    for name in ("runs", "request_seconds", "queue_oldest_seconds", "findings_open", "secrets"):
        assert f"pegboard_{name}" in families_found


@pytest.mark.django_db
def test_a_slow_run_waits_for_others_like_it_and_raises_no_alarm(client):
    endpoint, hour = make_endpoint(), timedelta(hours=1)
    run = Run.objects.create(endpoint=endpoint, queued_at=timezone.now() - hour, in_parts=True)
    assert value(scraped(client), "pegboard_queue_oldest_seconds") == 0
    Run.objects.filter(pk=run.pk).update(in_parts=False)
    assert value(scraped(client), "pegboard_queue_oldest_seconds") >= 3_600


@pytest.mark.django_db
def test_requests_are_counted_by_route_and_not_by_what_strangers_ask_for(client):
    for number in range(3):
        client.get(f"/nowhere/{number}")
    client.get("/accounts/login/")
    text = scraped(client)
    assert value(text, "pegboard_request_seconds_count", route="none", status="4xx") == 3
    assert value(text, "pegboard_request_seconds_count", route="login", status="2xx") == 1
    assert value(text, "pegboard_request_seconds_bucket", route="login", le="+Inf") == 1
    assert "/nowhere" not in text


ODD = Counter("test_odd_total", "Labels that need quoting.", ("word",))
LONG = Histogram("test_long_seconds", "Known amounts.", (), (0.1, 1.0))


@pytest.mark.django_db
def test_labels_and_buckets_come_out_as_they_went_in(client):
    nasty = 'a "quoted" \\ and\nbroken one'
    ODD.add(nasty, by=5)
    for seconds in (0.05, 0.1, 0.5, 9.0):
        LONG.observe(seconds)
    text = scraped(client)
    assert value(text, "test_odd_total", word=nasty) == 5
    buckets = [value(text, "test_long_seconds_bucket", le=le) for le in ("0.1", "1.0", "+Inf")]
    assert buckets == [2, 3, 4]
    assert value(text, "test_long_seconds_sum") == pytest.approx(9.65)
    with pytest.raises(TypeError):
        ODD.add()


@pytest.mark.django_db
def test_without_the_broker_pages_go_on_and_nothing_is_lost(client, settings, monkeypatch):
    ODD.add("before")
    broker_url = settings.REDIS_URL
    settings.REDIS_URL = "redis+socket:///nowhere/valkey.sock?virtual_host=0"
    assert not metrics.send()
    text = scraped(client)
    assert value(text, "pegboard_broker_up") == 0
    assert "test_odd_total" not in text
    settings.REDIS_URL = broker_url
    assert value(scraped(client), "test_odd_total", word="before") == 1


@pytest.mark.django_db
def test_requests_that_came_too_fast_are_counted(client, rf):
    request = rf.get("/")
    TraceMiddleware(lambda _: HttpResponse(status=429))(request)
    assert value(scraped(client), "pegboard_requests_rate_limited_total", route="none") == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_send_what_its_parent_counted():
    ODD.add("parent")
    child = os.fork()
    if child == 0:
        with contextlib.suppress(Exception):
            ODD.add("child")
            metrics.send()
        os._exit(0)
    os.waitpid(child, 0)
    stored = "\n".join(metrics.lines())
    assert 'test_odd_total{word="parent"} 1' in stored
    assert 'test_odd_total{word="child"} 1' in stored


def test_labels_without_end_are_not_counted_for_ever(monkeypatch):
    monkeypatch.setattr(metrics, "MAX_SERIES", 10)
    monkeypatch.setattr(metrics, "FLUSH_SECONDS", 60)
    for number in range(1_000):
        ODD.add(f"word {number}")
    assert len(metrics._pending.counts) <= 10


@contextlib.contextmanager
def web(environment: dict[str, str], *, workers: int = 2) -> Iterator[str]:
    """Yield the address of a web server, whose processes have four threads each."""
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "-c", "python:pegboard.gunicorn", "-b", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        command,
        env={**environment, "WEB_WORKERS": str(workers), "WEB_THREADS": "4"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while True:
            try:
                urllib.request.urlopen(f"{url}/healthz", timeout=2).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(WAIT_SECONDS)


@pytest.mark.faults
@pytest.mark.django_db(transaction=True)
def test_counts_add_up_over_web_and_other_processes(process_environment):
    admin = make_user(Role.ADMIN)
    _, key = api_keys.issue(admin, actor=admin, name="scraper", scopes=["read"])
    vendor = Vendor(tools(3))

    def ask(_: int) -> None:
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"{url}/nowhere", timeout=20)

    def scrape() -> str:
        request = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {key}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read().decode()

    with serving(vendor), web(process_environment) as url:
        make_endpoint(url=vendor.url)
        make_endpoint(url="http://127.0.0.1:9/")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(200)))
        subprocess.run(
            [sys.executable, "manage.py", "enumerate"],
            env=process_environment,
            capture_output=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        deadline = time.monotonic() + WAIT_SECONDS
        while (request_count := value(scrape(), "pegboard_request_seconds_count", route="none")) < 200:
            assert time.monotonic() < deadline, request_count
            time.sleep(0.2)
        time.sleep(2.5)  # another round of every process: nothing is sent twice
        text = scrape()
    assert value(text, "pegboard_request_seconds_count", route="none", status="4xx") == 200
    assert value(text, "pegboard_runs_total", protocol="a2t", outcome="ok") == 1
    assert value(text, "pegboard_runs_total", protocol="a2t", outcome="CONNECT") == 1
    assert value(text, "pegboard_run_seconds_count", protocol="a2t") == 2


def test_counting_is_no_error_while_the_broker_is_away(settings):
    settings.REDIS_URL = "redis+socket:///nowhere/valkey.sock?virtual_host=0"
    ODD.add("x")
    with pytest.raises(redis.RedisError):
        list(metrics.lines())
