"""Connections that are kept for the next session: for whom, for how long, and what is never sent twice."""

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress

import pytest
from urllib3.util.wait import wait_for_read

from core.outbound import connection, connection_pool
from core.outbound.addresses import Policy
from core.outbound.connection_pool import ConnectionPool, KeptFor
from core.outbound.errors import ProtocolError, UnavailableError
from core.outbound.limits import Limits
from core.outbound.session import HttpSession
from tests.hostile_vendor import GOOD, HostileVendor, in_turn, raw, reply, resets

LOOPBACK = Policy.parse("127.0.0.1/32")
QUICK = Limits(backoff=(), request=2)
OURS = KeptFor("an endpoint", "a credential")


@pytest.fixture(autouse=True)
def pool(monkeypatch):
    # A test may take longer than the product trusts an idle connection.
    for name in ("MAX_AGE", "MAX_IDLE", "MAX_IDLE_BEFORE_A_CALL"):
        monkeypatch.setattr(connection_pool, name, 600.0)
    fresh = ConnectionPool()
    monkeypatch.setattr(connection, "pool", fresh)
    yield fresh
    fresh.begin_anew()


def session_with(vendor, kept_for=OURS, policy=LOOPBACK, **options):
    return HttpSession(vendor.url, policy=policy, limits=QUICK, kept_for=kept_for, **options)


def ask(vendor, **options):
    with session_with(vendor, **options) as session:
        return session.post("/run", json={}).status


def settles(what, is_so):
    deadline = time.monotonic() + 5
    while not is_so(what()) and time.monotonic() < deadline:
        time.sleep(0.005)
    return what()


def test_the_next_session_goes_on_with_the_connection_of_the_last_one():
    with HostileVendor(reply()) as vendor:
        assert [ask(vendor), ask(vendor), ask(vendor)] == [200, 200, 200]
    assert (vendor.connections, len(vendor.requests)) == (1, 3)


@pytest.mark.parametrize(
    "other",
    [
        {"kept_for": KeptFor("another endpoint", "a credential")},
        {"kept_for": KeptFor("an endpoint", "another credential")},
        {"kept_for": None},
        {"policy": Policy.parse("127.0.0.0/8")},
        {"authorities": "of this endpoint alone"},
    ],
)
def test_what_is_not_the_same_in_all_has_a_connection_of_its_own(other):
    with HostileVendor(reply()) as vendor:
        ask(vendor)
        ask(vendor, **other)
    assert (vendor.connections, len(vendor.requests)) == (2, 2)


def test_another_address_of_the_same_endpoint_has_a_connection_of_its_own():
    with HostileVendor(reply()) as vendor, HostileVendor(reply()) as moved:
        with session_with(vendor) as session, session.at_url(moved.url) as elsewhere:
            session.post("/run", json={})
            elsewhere.post("/run", json={})
        ask(moved)
        ask(vendor)
    assert (vendor.connections, moved.connections) == (1, 1)


def test_two_sessions_at_once_never_share_one():
    with HostileVendor(reply()) as vendor:
        ask(vendor)
        with session_with(vendor) as first, session_with(vendor) as second:
            first.post("/run", json={})
            second.post("/run", json={})
    assert vendor.connections == 2


def test_a_change_of_the_owner_closes_what_was_kept():
    with HostileVendor(reply()) as vendor:
        with session_with(vendor) as first, session_with(vendor) as second:
            first.post("/run", json={})
            second.post("/run", json={})
        ask(vendor, kept_for=KeptFor("another endpoint", ""))
        assert vendor.open_connections == 3
        ask(vendor, kept_for=KeptFor(OURS.owner, "a new credential"))
        assert settles(lambda: vendor.open_connections, lambda n: n == 2) == 2


def test_who_interrupts_a_session_that_ends_spares_the_next_one(monkeypatch):
    """The session ends after the other thread has looked for its socket, and before that is shut."""
    shut, numbers = socket.socket.shutdown, []

    def late(sock, how):
        if sock is dialled:
            ending.start()
            ending.join(0.3)
            numbers.append((second.post("/run", json={}).status, vendor.connections))
        shut(sock, how)

    with HostileVendor(reply()) as vendor, session_with(vendor) as second:
        with session_with(vendor) as first:
            first.post("/run", json={})
            dialled, ending = first._connection._dialled, threading.Thread(target=first.close)
            monkeypatch.setattr(socket.socket, "shutdown", late)
            first.interrupt()
            ending.join(5)
            first.interrupt()
        assert second.post("/run", json={}).status == 200
        assert vendor.connections == 2
    assert numbers == [(200, 2)]


@pytest.mark.parametrize(
    "script",
    [
        reply(status=500),
        reply(headers={"Connection": "close"}),
        raw(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + GOOD),
        reply(GOOD[:-1], headers={"Content-Length": str(len(GOOD))}),
        raw(b"SSH-2.0\r\n", keep=True),
        reply(headers={"Keep-Alive": "timeout=1"}),
    ],
)
def test_after_an_odd_reply_nothing_is_kept(script, pool):
    with HostileVendor(script) as vendor, session_with(vendor) as session, suppress(ProtocolError):
        session.post("/run", json={})
    assert pool._idle == []


def test_what_was_not_read_to_its_end_is_not_kept(pool):
    with HostileVendor(reply()) as vendor, session_with(vendor) as session:
        session.post("/run", json={}, is_enough=lambda body: True)
    assert pool._idle == []


def test_a_reply_that_nobody_asked_for_is_never_taken_for_the_next_one(pool):
    def twice(line, request):
        reply(b'"asked for"')(line, request)
        settles(lambda: pool._idle, bool)
        return reply(b'"not asked for"')(line, request)

    with HostileVendor(twice) as vendor:
        for _ in range(3):
            with session_with(vendor) as session:
                assert session.post("/run", json={}).body == b'"asked for"'
            assert all(wait_for_read(sock, 5) for _, sock in pool._idle)
    assert vendor.connections == 3


def test_one_that_the_vendor_has_closed_meanwhile_is_seen_before_anything_is_sent(pool):
    with HostileVendor(reply(keep=False)) as vendor:
        for _ in range(3):
            assert ask(vendor) == 200
            assert all(wait_for_read(sock, 5) for _, sock in pool._idle)
    assert (vendor.connections, len(vendor.requests)) == (3, 3)


@pytest.mark.parametrize(("dies", "code"), [(raw(b""), "NO_REPLY"), (resets, "RESET")])
def test_a_request_that_the_vendor_took_is_not_sent_again(dies, code):
    with HostileVendor(in_turn(reply(), dies, reply())) as vendor:
        ask(vendor)
        with pytest.raises(UnavailableError) as unknown:
            ask(vendor)
        assert ask(vendor) == 200
    assert unknown.value.code == code
    assert (vendor.connections, len(vendor.requests)) == (2, 3)


def test_a_request_of_which_nothing_has_left_goes_out_on_a_new_connection(monkeypatch):
    """The vendor resets the connection after it was looked at, and before the request."""
    looked = []

    def resets_when_looked_at(line, request):
        reply()(line, request)
        if len(vendor.requests) > 1:
            return True
        settles(lambda: len(looked), lambda n: n == 2)
        return resets(line, request)

    def between(name):
        looked.append(name)
        if len(looked) == 2:
            assert wait_for_read(session._connection.sock, timeout=5)

    monkeypatch.setattr(connection, "failpoint", between)
    with HostileVendor(resets_when_looked_at) as vendor:
        for _ in range(2):
            with session_with(vendor) as session:
                assert session.post("/run", json={}).status == 200
    assert looked == ["connection-taken"] * 2
    assert (vendor.connections, len(vendor.requests)) == (2, 2)


def test_what_must_not_be_sent_twice_trusts_an_idle_connection_less(monkeypatch):
    monkeypatch.setattr(connection_pool, "MAX_IDLE_BEFORE_A_CALL", 0)
    with HostileVendor(reply()) as vendor:
        ask(vendor)
        with session_with(vendor) as session:
            session.get("/")
        assert vendor.connections == 1
        ask(vendor)
        assert vendor.connections == 2


def test_a_vendor_that_says_for_how_long_it_keeps_one_is_trusted(monkeypatch):
    monkeypatch.setattr(connection_pool, "MAX_IDLE_BEFORE_A_CALL", 0)
    with HostileVendor(reply(headers={"Keep-Alive": "timeout=30, max=100"})) as vendor:
        ask(vendor)
        ask(vendor)
    assert vendor.connections == 1


def test_an_old_one_is_not_used_again(monkeypatch):
    monkeypatch.setattr(connection_pool, "MAX_AGE", 0)
    with HostileVendor(reply()) as vendor:
        ask(vendor)
        ask(vendor)
    assert vendor.connections == 2


@pytest.mark.parametrize("limit", ["MAX_KEPT_FOR_ONE", "MAX_KEPT"])
def test_so_many_are_kept_and_no_more(limit, monkeypatch, pool):
    monkeypatch.setattr(connection_pool, limit, 2)
    with HostileVendor(reply()) as vendor:
        with ExitStack() as open_ones:
            for number in range(4):
                owner = KeptFor(number, "") if limit == "MAX_KEPT" else OURS
                open_ones.enter_context(session_with(vendor, kept_for=owner)).post("/run", json={})
            assert vendor.open_connections == 4
        assert settles(lambda: vendor.open_connections, lambda n: n == 2) == 2
    assert len(pool._idle) == 2


def test_idle_ones_are_closed_though_nobody_asks(monkeypatch, pool):
    monkeypatch.setattr(connection_pool, "MAX_IDLE", 0.05)
    with HostileVendor(reply()) as vendor:
        ask(vendor)
        assert settles(lambda: vendor.open_connections, lambda n: n == 0) == 0
        assert settles(lambda: pool._has_sweeper, lambda is_there: not is_there) is False


FORKING = """
import os, sys
from core.outbound.addresses import Policy
from core.outbound.connection_pool import KeptFor
from core.outbound.session import HttpSession

def ask():
    with HttpSession(sys.argv[1], policy=Policy.parse("127.0.0.1"), kept_for=KeptFor(1, 1)) as session:
        return session.post("/", json={}).status

assert ask() == 200
child = os.fork()
if child == 0:
    os._exit(0 if ask() == 200 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert ask() == 200
"""


def test_a_forked_worker_leaves_the_connections_of_its_parent_alone():
    with HostileVendor(reply(headers={"Keep-Alive": "timeout=20"})) as vendor:
        child = subprocess.run(
            [sys.executable, "-c", FORKING, vendor.url],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=20,
            check=False,
        )
    assert child.returncode == 0
    assert (vendor.connections, len(vendor.requests)) == (2, 3)
