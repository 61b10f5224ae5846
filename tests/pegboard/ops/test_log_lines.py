"""Log lines, from real processes where it matters: one event, one line, with the number of its request."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from django.test import Client

from catalog.credentials import operations as credential_operations
from catalog.models import Credential, Run
from core import log_context
from pegboard.ops.logs import JsonFormatter, LineFormatter
from people.models import Role
from tests.factories import PASSWORD, make_endpoint, make_user
from tests.vendor import Vendor, serving, tools

NASTY = "ok\n2026-01-01 INFO catalog forged\x1b[2J\x00\u202eevil\x85\u2028x"
WAIT_SECONDS = 60


def event(message: str, *args: object, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("catalog.test", logging.WARNING, __file__, 1, message, args, None)
    record.__dict__.update(extra)
    return record


@pytest.mark.parametrize("formatter", [JsonFormatter(), LineFormatter()])
def test_an_event_is_one_line_whatever_a_vendor_sent(formatter):
    line = formatter.format(event("vendor said %s", NASTY))
    assert line.isprintable()
    assert r"\x1b[2J" in line.replace("\\\\", "\\")
    assert r"\u202e" in line.replace("\\\\", "\\")


def test_escapes_stay_escapes_when_a_line_is_decoded():
    decoded = json.loads(JsonFormatter().format(event("%s", NASTY, facts={"name": NASTY})))
    assert decoded["message"].isprintable()
    assert decoded["name"].isprintable()


def test_a_traceback_never_looks_like_an_event():
    try:
        raise ValueError(NASTY)
    except ValueError:
        record = event("broke")
        record.exc_info = sys.exc_info()
    first, *continuation = LineFormatter().format(record).splitlines()
    assert first.endswith("WARNING catalog.test broke")
    assert continuation
    assert all(line.startswith("  | ") for line in continuation)
    assert "\n" not in JsonFormatter().format(record)


def test_a_line_says_what_it_belongs_to():
    token = log_context.begin({"request_id": "abcdefgh", "user_id": lambda: 7, "route": lambda: None})
    try:
        with log_context.log_context(run_id=3, endpoint_id=4):
            inside = json.loads(JsonFormatter().format(event("x")))
        outside = json.loads(JsonFormatter().format(event("x")))
    finally:
        log_context.end(token)
    assert (inside["request_id"], inside["user_id"], inside["run_id"], inside["endpoint_id"]) == (
        *("abcdefgh", 7),
        *(3, 4),
    )
    assert "route" not in inside
    assert "run_id" not in outside
    assert log_context.request_id() == ""


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("offered", "is_taken"),
    [
        ("4bf92f3577b34da6a3ce929d0e0e4736", True),
        ("req-2026.11_x", True),
        ("short", False),
        ("x" * 65, False),
        ("with space 1", False),
        ("-leads-with-dash", False),
        ('inject"quote', False),
        ("", False),
    ],
)
def test_a_well_formed_number_is_taken_over(client, offered, is_taken):
    answer = client.get("/accounts/login/", headers={"X-Request-Id": offered})
    number = answer.headers["X-Request-Id"]
    assert (number == offered) is is_taken
    assert log_context.REQUEST_ID.fullmatch(number)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/nowhere/", "/api/v1/tools/", "/api/nowhere", "/static/css/base.css"])
def test_every_reply_has_a_number(client, path):
    answers = [client.get(path) for _ in range(3)]
    for answer in answers:
        answer.close()
    assert len({answer.headers["X-Request-Id"] for answer in answers}) == 3


@pytest.mark.django_db
def test_error_page_shows_the_number_that_the_log_has(client, monkeypatch, caplog):
    monkeypatch.setattr("people.audit.kinds", lambda: 1 / 0)
    user = make_user()
    client.force_login(user)
    client.raise_request_exception = False
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(json.loads(JsonFormatter().format(record)))
    logging.getLogger("django.request").addHandler(handler)
    try:
        answer = client.get("/audit/")
    finally:
        logging.getLogger("django.request").removeHandler(handler)
    number = answer.headers["X-Request-Id"]
    assert number in answer.content.decode()
    assert [(line["request_id"], line["user_id"], line["route"]) for line in lines] == [
        (number, user.pk, "audit")
    ]
    assert "ZeroDivisionError" in lines[0]["exception"]


@pytest.mark.django_db
def test_error_of_the_api_says_the_number(client, monkeypatch):
    monkeypatch.setattr("people.audit.entries", lambda **_: 1 / 0)
    client.force_login(make_user())
    client.raise_request_exception = False
    answer = client.get("/api/v1/audit/")
    assert answer.status_code == 500
    assert answer.headers["X-Request-Id"] in answer.json()["message"]


@contextlib.contextmanager
def worker(environment: dict[str, str], log: str) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "celery", "-A", "pegboard", "worker", "--loglevel", "INFO"]
    options = ["--concurrency", "1", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [*command, *options], env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.faults
@pytest.mark.django_db(transaction=True)
def test_workers_lines_carry_the_number_of_the_request(process_environment, tmp_path):
    """Real worker, real broker, real vendor."""
    secret = "sk-canary-of-log-lines-4711"
    vendor = Vendor(tools(3))
    log = tmp_path / "worker.log"
    admin = make_user(Role.ADMIN)
    with serving(vendor), worker({**process_environment, "PEGBOARD_LOG": "json"}, str(log)):
        credential = credential_operations.create_credential(
            actor=admin, name="key", kind="bearer", url=vendor.url, secret=secret
        )
        good = make_endpoint(url=vendor.url, credential=Credential.objects.get(pk=credential.pk))
        browser = Client()
        assert browser.login(username=admin.username, password=PASSWORD)
        answer = browser.post(
            f"/api/v1/endpoints/{good.pk}/enumerate/", headers={"X-Request-Id": "number-of-this-test"}
        )
        assert answer.status_code in (201, 202), answer.content
        run = Run.objects.get(endpoint=good)
        deadline = time.monotonic() + WAIT_SECONDS
        while "enumeration ended" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    ended = next(line for line in lines if line["message"].startswith("enumeration ended"))
    assert ended["request_id"] == "number-of-this-test"
    assert (ended["user_id"], ended["run_id"], ended["endpoint_id"]) == (admin.pk, run.pk, good.pk)
    assert ended["task"] == "catalog.tasks.enumerate_endpoint"
    assert {"time", "level", "logger", "process"} <= ended.keys()
    received = [line for line in lines if "received" in line["message"]]
    assert received, "Celery's own lines are JSON too"
    assert secret not in log.read_text()
