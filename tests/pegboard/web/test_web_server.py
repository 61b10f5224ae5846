"""The web server itself, on a port, as production starts it."""

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit

import pytest
from django.db import connection

from people import api_keys
from people.models import KeyScope
from tests.factories import make_user

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def web_server(**environment: str) -> Iterator[int]:
    """A web server of one process with the settings of the tests; the port that it listens on."""
    door = socket.create_server(("127.0.0.1", 0))
    name = connection.settings_dict["NAME"]
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
    variables = {**os.environ, "DJANGO_SETTINGS_MODULE": "pegboard.settings", "DATABASE_URL": database}
    variables |= {"WEB_WORKERS": "1", **environment}
    command = [sys.executable, "-m", "gunicorn", "-c", "python:pegboard.gunicorn"]
    process = subprocess.Popen(
        [*command, "-b", f"fd://{door.fileno()}"], env=variables, pass_fds=[door.fileno()]
    )
    port = door.getsockname()[1]
    door.close()
    try:
        for _ in range(100):
            if answer_of(port, "GET", "/healthz")[0] == 200:
                break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(60)


def answer_of(port: int, method: str, path: str, **headers: str) -> tuple[int, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        client.request(method, path, headers=headers)
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


@pytest.fixture(scope="module")
def port(django_db_setup) -> Iterator[int]:
    with web_server() as port:
        yield port


def test_no_header_moves_the_application(port):
    assert answer_of(port, "GET", "/healthz")[0] == 200
    assert answer_of(port, "GET", "/healthz", SCRIPT_NAME="/x")[0] == 200
    assert answer_of(port, "GET", "/x/healthz", SCRIPT_NAME="/x")[0] == 404
    assert answer_of(port, "GET", "/x/healthz", PATH_INFO="/healthz")[0] == 404


def test_no_client_sets_the_scheme_where_no_proxy_is_announced(port):
    root = "/serve/desk/live/mcp"
    headers = {"Origin": f"https://127.0.0.1:{port}"}
    for name, value in (("X-Forwarded-Proto", "https"), ("X-Forwarded-Ssl", "on")):
        status, body = answer_of(port, "POST", root, **headers, **{name: value})
        assert (status, b"foreign_origin" in body) == (403, True)


def test_the_host_is_checked_before_a_key_is_read(port):
    for path in ("/healthz/", "/serve/desk/live/mcp", "/api/v1/agents/", "/accounts/login/"):
        assert answer_of(port, "GET", path, Host="evil.example")[0] == 400


def test_probes_are_answered_whatever_host_they_name(port):
    for host in ("evil.example", "10.2.3.4:8000", "pegboard_web", "[fd12::7]:8000", "not a host"):
        for path in ("/healthz", "/readyz", "/healthz?at=1"):
            assert answer_of(port, "GET", path, Host=host)[0] == 200
        assert answer_of(port, "HEAD", "/healthz", Host=host)[0] == 200
        assert answer_of(port, "POST", "/healthz", Host=host)[0] == 400


def test_probes_are_not_redirected_to_https(django_db_setup):
    with web_server(PEGBOARD_HTTPS="1") as port:
        for path, status in (("/healthz", 200), ("/readyz", 200), ("/", 301), ("/metrics", 301)):
            assert answer_of(port, "GET", path)[0] == status
        assert answer_of(port, "GET", "/readyz", Host="evil.example")[0] == 200
        assert answer_of(port, "GET", "/", Host="evil.example")[0] == 400


FORM = "Content-Type: application/x-www-form-urlencoded"


def slow(port: int, path: str, *headers: str, method: str = "POST", body: bytes = b"a=") -> socket.socket:
    """A client that has sent the head of a request, and the first bytes of its body."""
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]
    client.sendall("\r\n".join(lines).encode() + body)
    return client


def status_of(client: socket.socket) -> int:
    answer = http.client.HTTPResponse(client)
    answer.begin()
    answer.read()
    return answer.status


@contextmanager
def clients(*connections: socket.socket) -> Iterator[None]:
    try:
        yield
    finally:
        for client in connections:
            client.close()


def test_clients_that_send_slowly_take_no_thread(port):
    slow_ones = [slow(port, "/accounts/login/", FORM, "Content-Length: 1000") for _ in range(40)]
    slow_ones += [
        slow(port, "/accounts/login/", FORM, "Transfer-Encoding: chunked", body=b"5\r\n") for _ in range(40)
    ]
    slow_ones += [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    with clients(*slow_ones):
        assert answer_of(port, "GET", "/healthz")[0] == 200


def test_a_body_that_comes_in_pieces_arrives_whole(port):
    for headers, pieces in (
        (["Content-Length: 9"], [b"a=1", b"&b=", b"23"]),
        (["Transfer-Encoding: chunked"], [b"3\r", b"\na=1\r\n", b"4\r\n&b=2\r\n0\r\n", b"\r\n"]),
    ):
        client = slow(port, "/healthz", FORM, *headers, body=b"a" if "Length" in headers[0] else b"")
        with clients(client):
            for piece in pieces:
                time.sleep(0.05)
                client.sendall(piece)
            # It was read to its end, and refused for want of a token.
            assert status_of(client) == 403
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert status_of(client) == 200


def test_requests_that_follow_each_other_at_once_are_all_answered(port):
    one = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    with clients(client):
        client.sendall(one + one + one[:20])
        reply = b""
        while reply.count(b"HTTP/1.1 200") < 2:
            reply += client.recv(65536)
        assert answer_of(port, "GET", "/healthz")[0] == 200
        client.sendall(one[20:])
        while reply.count(b"HTTP/1.1 200") < 3:
            reply += client.recv(65536)


@pytest.mark.parametrize("pause", [0, 0.001, 0.05])
def test_the_next_request_of_a_connection_may_come_in_any_pieces(port, pause):
    request = "\r\n".join(
        ["POST /healthz HTTP/1.1", "Host: 127.0.0.1", FORM, "Content-Length: 4", "", "a=12"]
    )
    client = slow(port, "/healthz", FORM, "Content-Length: 4", body=b"a=12")
    with clients(client):
        assert status_of(client) == 403
        for cut in (1, 30, len(request) - 4, len(request) - 1, len(request)):
            client.sendall(request[:cut].encode())
            time.sleep(pause)
            client.sendall(request[cut:].encode())
            assert status_of(client) == 403
        client.sendall(b"no request\r\n\r\n")
        assert status_of(client) == 400


def test_a_connection_that_is_always_busy_does_not_keep_the_only_thread(django_db_setup):
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with web_server(WEB_THREADS="1") as port, ThreadPoolExecutor(1) as pool:
        is_answered = threading.Event()

        def keep_busy(busy: socket.socket) -> None:
            # Some requests are always there, before the last answer is.
            busy.sendall(request * 20)
            while not is_answered.is_set():
                busy.sendall(request * busy.recv(65536).count(b"HTTP/1.1 200"))

        with clients(busy := socket.create_connection(("127.0.0.1", port), timeout=30)):
            busy_one = pool.submit(keep_busy, busy)
            try:
                assert [answer_of(port, "GET", "/healthz")[0] for _ in range(5)] == [200] * 5
            finally:
                is_answered.set()
                busy_one.result()


@pytest.mark.parametrize(
    "path", ["/serve/desk/live/mcp", "/serve/desk/live/a2t/tools/sky", "/api/v1/agents/"]
)
@pytest.mark.parametrize("headers", [[], ["Authorization: Bearer pgb_unknown"]])
def test_a_key_is_checked_before_the_body_is_read(port, path, headers):
    request_headers = ["Content-Type: application/json", "Content-Length: 900000", *headers]
    client = slow(port, path, *request_headers, body=b"{")
    with clients(client):
        assert status_of(client) == 401
        # Nothing that comes now is another request.
        with suppress(OSError):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(65536) == b""


def test_a_key_that_is_revoked_is_refused_although_it_was_just_found(port):
    user = make_user()
    key, plain = api_keys.issue(user, actor=user, name="script", scopes=[KeyScope.READ])

    def status_of_write() -> int:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Authorization": f"Bearer {plain}", "Content-Type": "application/json"}
        client.request("POST", "/api/v1/agents/", b'{"name": "Desk"}', headers)
        with closing(client):
            return client.getresponse().status

    assert [status_of_write(), status_of_write()] == [403, 403]  # it may read only
    key.delete()
    assert status_of_write() == 401


def test_a_view_that_needs_no_key_gets_its_body(port):
    body = b'{"key": "pgb_unknown"}'
    length = f"Content-Length: {len(body)}"
    client = slow(port, "/api/v1/key-report/", "Content-Type: application/json", length, body=b"")
    with clients(client):
        time.sleep(0.1)
        client.sendall(body)
        assert status_of(client) == 202


def test_a_client_that_waits_for_its_body_is_told_to_send_it(port):
    client = slow(port, "/accounts/login/", FORM, "Content-Length: 3", "Expect: 100-continue", body=b"")
    with clients(client):
        assert client.recv(100).startswith(b"HTTP/1.1 100 Continue")
        client.sendall(b"a=1")
        assert status_of(client) == 403


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, 431),
        (b"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"no request\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused_at_once(port, head, status):
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    with clients(client):
        client.sendall(head)
        assert status_of(client) == status


@pytest.mark.parametrize("path", ["/tools/", "/api/v1/tools/", "/serve/mcp/"])
def test_a_long_address_is_answered_with_a_code_or_a_page(port, path):
    status, body = answer_of(port, "GET", f"{path}?q=" + "word+" * 2_000)
    assert status == 414
    assert (b"<html" if path == "/tools/" else b"address_too_long") in body


def test_a_request_that_does_not_come_is_given_up(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    with clients(connection):
        connection.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert status_of(connection) == 408


def test_one_address_has_so_many_requests_on_the_way(port):
    slow_ones = [slow(port, "/accounts/login/", FORM, "Content-Length: 1000") for _ in range(140)]
    with clients(*slow_ones):
        assert status_of(slow_ones[0]) == 429
        assert answer_of(port, "GET", "/healthz")[0] == 200
