"""The web server itself, on a port, as production starts it."""

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def web_server(**environment: str) -> Iterator[int]:
    """A web server of one process with the settings of the tests; the port that it listens on."""
    door = socket.create_server(("127.0.0.1", 0))
    database = os.environ["DATABASE_URL"]
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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
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
    for path in ("/healthz", "/serve/desk/live/mcp", "/api/v1/agents/", "/accounts/login/"):
        assert answer_of(port, "GET", path, Host="evil.example")[0] == 400
