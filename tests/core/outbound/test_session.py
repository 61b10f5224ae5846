import os
import pickle
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from core.outbound.addresses import Policy
from core.outbound.errors import ProtocolViolationError, RefusedError, UnavailableError
from core.outbound.limits import Limits
from core.outbound.session import HttpSession
from core.outbound.sockets import BoundedSocket
from tests.hostile_vendor import HostileVendor, by_path, in_turn, json_reply, raw, reply, resets

LOOPBACK = Policy.parse("127.0.0.1/32")
QUICK = Limits(backoff=(0.01, 0.01), request=2)


def open_session(vendor, path="", **options):
    return HttpSession(vendor.url + path, policy=LOOPBACK, limits=QUICK, **options)


@contextmanager
def talk(script, path="", **options):
    with HostileVendor(script) as vendor, open_session(vendor, path, **options) as session:
        yield vendor, session


def test_get_appends_path_and_parameters_to_the_root():
    with talk(reply(b"[1]", headers={"ETag": '"v1"'}), "/a2t/") as (vendor, session):
        answer = session.get("/tools", params={"pageCursor": "a&b c/ü"})
    assert vendor.requests[0].target == "/a2t/tools?pageCursor=a%26b%20c%2F%C3%BC"
    assert vendor.requests[0].headers["host"] == f"127.0.0.1:{vendor.port}"
    assert (answer.status, answer.body) == (200, b"[1]")
    assert answer.headers["etag"] == '"v1"'
    assert answer.url == vendor.url + vendor.requests[0].target


def test_root_itself_can_be_asked():
    with talk(reply()) as (vendor, session):
        session.get("")
    assert vendor.requests[0].target == "/"


def test_post_sends_json():
    with talk(reply()) as (vendor, session):
        session.post("/run", json={"city": "Zürich", "odd": "\ud800"}, headers={"X-Trace": "7"})
    request = vendor.requests[0]
    assert (request.method, request.headers["content-type"]) == ("POST", "application/json")
    assert request.headers["x-trace"] == "7"
    assert request.json() == {"city": "Zürich", "odd": "\ud800"}


def test_post_of_a_number_that_json_lacks_is_refused():
    with talk(reply()) as (vendor, session), pytest.raises(RefusedError) as refused:
        session.post("/run", json={"n": float("inf")})
    assert refused.value.code == "NUMBER"
    assert vendor.connections == 0


def test_credential_goes_with_every_request_and_cannot_be_overridden():
    with talk(reply(), authorization={"Authorization": "Bearer s3cret"}) as (vendor, session):
        session.get("/a", headers={"authorization": "other", "Accept": "text/plain"})
        session.post("/b", json={})
    assert [r.headers["authorization"] for r in vendor.requests] == ["Bearer s3cret"] * 2
    assert vendor.requests[0].headers["accept"] == "text/plain"


def test_session_never_shows_its_credential():
    with HostileVendor(reply()) as vendor:
        session = open_session(vendor, authorization={"X-Key": "s3cret"})
        assert "s3cret" not in repr(session)
        with pytest.raises(RefusedError) as refused:
            open_session(vendor, authorization={"X-Key": "s3cret\r\nX-Evil: 1"})
    assert refused.value.code == "HEADER"
    assert "s3cret" not in str(refused.value)


def test_header_that_would_break_the_request_is_refused():
    with talk(reply()) as (vendor, session):
        for name, value in [("X-A", "a\nb"), ("X A", "b"), ("X-A", "a\x00"), ("X-A", "€")]:
            with pytest.raises(RefusedError) as refused:
                session.get("/", headers={name: value})
            assert refused.value.code == "HEADER"
    assert vendor.connections == 0


@pytest.mark.parametrize(
    "path",
    [
        "tools",
        ".evil.example/tools",
        "@evil.example/",
        "https://evil.example/tools",
        "//evil.example/tools",
        "/tools/../admin",
        "/tools/%2e%2E/admin",
        "/tools/.",
        "/tools?x=1",
        "/tools#x",
        "/a b",
        "/a\r\nHost: evil",
        "/a\\b",
        "/ü",
    ],
)
def test_path_that_leaves_the_root_is_refused(path):
    with talk(reply(), "/api") as (vendor, session):
        for ask in (session.get, lambda path: session.post(path, json={})):
            with pytest.raises(RefusedError) as refused:
                ask(path)
            assert refused.value.code == "PATH"
    assert vendor.connections == 0


def test_one_connection_serves_a_whole_session():
    with talk(reply()) as (vendor, session):
        for _ in range(5):
            session.get("/tools")
        assert vendor.connections == 1


@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}])
def test_vendor_that_closes_after_each_reply_is_asked_again_quietly(headers):
    with talk(reply(headers=headers, keep=False)) as (vendor, session):
        for _ in range(3):
            session.get("/tools")
            time.sleep(0.02)
    assert (vendor.connections, len(vendor.requests)) == (3, 3)


def test_not_modified_is_a_reply_when_the_caller_knows_it():
    unchanged = raw(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", keep=True)
    with talk(in_turn(unchanged, unchanged, reply())) as (vendor, session):
        answer = session.get("/", headers={"If-None-Match": "x"}, accept=(200, 304))
        assert (answer.status, answer.body) == (304, b"")
        with pytest.raises(ProtocolViolationError, match="answered 304 Not Modified"):
            session.get("/")
        assert session.get("/").status == 200
    assert vendor.requests[0].headers["if-none-match"] == "x"


def test_an_error_status_is_a_reply_to_a_caller_that_accepts_it():
    with talk(reply(status=404)) as (_vendor, session):
        assert session.get("/", accept=(200, 404)).status == 404


def test_cookies_are_neither_shown_nor_sent_back():
    with talk(reply(headers={"Set-Cookie": "id=1"})) as (vendor, session):
        assert "set-cookie" not in session.get("/").headers
        session.get("/")
    assert "cookie" not in vendor.requests[1].headers


def test_header_that_could_not_be_sent_back_is_dropped():
    with talk(reply(headers={"ETag": "a\x01b", "X-Two": "1"})) as (_vendor, session):
        headers = session.get("/").headers
    assert "etag" not in headers
    assert headers["x-two"] == "1"


def test_bytes_of_all_replies_are_counted():
    with talk(reply(b"[1, 2]")) as (_vendor, session):
        session.get("/")
        session.post("/", json={})
        assert session.bytes_read == 12


@pytest.mark.parametrize(
    "hiccup",
    [
        reply(status=503),
        reply(status=408),
        reply(status=429),
        resets,
        raw(b""),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1"),
    ],
)
def test_get_survives_a_hiccup(hiccup):
    with talk(in_turn(hiccup, hiccup, reply(b"[3]"))) as (vendor, session):
        assert session.get("/").body == b"[3]"
    assert len(vendor.requests) == 3


def test_get_gives_up_after_three_tries():
    failed = pytest.raises(UnavailableError, match="answered 500 Internal Server Error")
    with talk(reply(status=500)) as (vendor, session), failed:
        session.get("/")
    assert len(vendor.requests) == 3


@pytest.mark.parametrize("failure", [reply(status=503), reply(status=429), resets, raw(b"")])
def test_post_is_never_tried_again(failure):
    with talk(failure) as (vendor, session), pytest.raises(UnavailableError):
        session.post("/run", json={})
    assert len(vendor.requests) == 1


@pytest.mark.parametrize(
    "failure", [reply(status=400), reply(status=401), reply(status=302), raw(b"SSH-2.0\r\n")]
)
def test_lasting_failure_is_not_tried_again(failure):
    with talk(failure) as (vendor, session), pytest.raises((RefusedError, ProtocolViolationError)):
        session.get("/")
    assert len(vendor.requests) == 1


def test_short_wait_that_the_vendor_asks_for_is_kept():
    busy = reply(status=429, headers={"Retry-After": "1"})
    with talk(in_turn(busy, reply())) as (_vendor, session):
        started = time.monotonic()
        session.get("/")
    assert 1 <= time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("retry_after", "least", "max_wait"),
    [
        ("60", 60, 60),
        ("86400000", 86_400, 86_400),
        pytest.param(
            format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True), 3_600, 7_200, id="a date"
        ),
    ],
)
def test_long_wait_is_handed_to_the_caller(retry_after, least, max_wait):
    busy = reply(status=429, headers={"Retry-After": retry_after})
    with talk(busy) as (vendor, session), pytest.raises(UnavailableError) as unavailable:
        session.get("/")
    assert unavailable.value.code == "RATE_LIMITED"
    assert least <= unavailable.value.retry_after <= max_wait
    assert len(vendor.requests) == 1


@pytest.mark.parametrize(
    "retry_after",
    ["", "soon", "-5", "1e9", "9" * 5000, "Wed, 99 Foo 2026 99:99:99 GMT", "Mon, 1 Jan 99999999999 0:0:0"],
)
def test_unreadable_wait_counts_as_none(retry_after):
    busy = reply(status=503, headers={"Retry-After": retry_after})
    with talk(busy) as (vendor, session), pytest.raises(UnavailableError) as unavailable:
        session.get("/")
    assert unavailable.value.retry_after is None
    assert len(vendor.requests) == 3


def test_wait_in_the_past_is_no_wait():
    busy = reply(status=503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})
    with talk(in_turn(busy, reply())) as (_vendor, session):
        assert session.get("/").status == 200


def test_wait_survives_the_way_between_processes():
    error = UnavailableError("RATE_LIMITED", "Later.", retry_after=60.0)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, copy.message, copy.retry_after) == ("RATE_LIMITED", "Later.", 60.0)


def test_session_works_again_after_a_failure():
    routes = by_path({"/bad": raw(b"SSH-2.0\r\n"), "/tools": json_reply([1])})
    with talk(routes) as (_vendor, session):
        with pytest.raises(ProtocolViolationError):
            session.get("/bad")
        with pytest.raises(RefusedError):
            session.get("/nothing")
        assert session.get("/tools").body == b"[1]"


def test_closed_session_leaves_no_connection_open():
    with HostileVendor(reply()) as vendor:
        with open_session(vendor) as session:
            session.get("/")
            assert vendor.open_connections == 1
        deadline = time.monotonic() + 2
        while vendor.open_connections and time.monotonic() < deadline:
            time.sleep(0.01)
        assert vendor.open_connections == 0


def test_bad_root_is_refused_before_anything_happens():
    with pytest.raises(RefusedError) as refused:
        HttpSession("https://user:s3cret@api.example.com/", policy=LOOPBACK)
    assert refused.value.code == "URL"
    assert "s3cret" not in refused.value.message


FORKING = """
import os, sys
from core.outbound.addresses import Policy
from core.outbound.session import HttpSession

def ask():
    with HttpSession(sys.argv[1], policy=Policy.parse("127.0.0.1")) as session:
        return session.get("/").status

assert ask() == 200
child = os.fork()
if child == 0:
    os._exit(0 if ask() == 200 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_worker_that_was_forked_can_still_look_up_names():
    with HostileVendor(reply()) as vendor:
        child = subprocess.run(
            [sys.executable, "-c", FORKING, vendor.url],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=20,
            check=False,
        )
    assert child.returncode == 0
    assert vendor.connections == 2


def test_a_vendor_may_be_silent_for_as_long_as_a_request_may_take(monkeypatch):
    """Twenty seconds: one budget, of which each wait may take all that is left."""
    waits = []
    settimeout = BoundedSocket.settimeout

    def noted(self, seconds):
        waits.extend([seconds] if seconds else [])
        settimeout(self, seconds)

    with HostileVendor(json_reply({})) as vendor, HttpSession(vendor.url, policy=LOOPBACK) as session:
        monkeypatch.setattr(BoundedSocket, "settimeout", noted)
        session.get("/tools")
    to_connect, *others = waits
    assert to_connect <= 3
    assert others
    assert all(18 < seconds <= 20 for seconds in others)
