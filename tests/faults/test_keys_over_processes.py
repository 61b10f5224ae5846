"""Keys over the processes of one web server: each one gets requests alone, while the other is stopped."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from designer.agents import agent_keys
from designer.releases import publishing
from people import api_keys
from people.models import Role
from tests.factories import make_agent, make_pin, make_user
from tests.faults.stand import NO_LIMITS, wait_for
from tests.faults.warm import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]
MAX_SECONDS = 5.0
RELEASES = "/api/v1/agents/{}/releases/live/bundle/"


@dataclass
class Web:
    port: int
    workers: list[psutil.Process]

    def ask(self, path: str, key: str = "", *, method: str = "GET", body: object = None) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, _decoded(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _decoded(error.read())

    @contextmanager
    def only(self, number: int) -> Iterator[None]:
        """One of the two answers."""
        other = self.workers[1 - number]
        other.suspend()
        try:
            yield
        finally:
            other.resume()

    def ask_each(self, path: str, key: str) -> list[tuple[int, str]]:
        """Status and code, from either process."""
        answers = []
        for number in (0, 1):
            with self.only(number):
                status, body = self.ask(path, key)
                answers.append((status, body.get("code", "")))
        return answers


def _decoded(body: bytes) -> Any:
    return json.loads(body) if body.startswith(b"{") else {}


@pytest.fixture
def web(process_environment, tmp_path) -> Iterator[Web]:
    door = socket.create_server(("127.0.0.1", 0), backlog=64)
    module = ["-m", "gunicorn", "-c", "python:pegboard.gunicorn", "-b", f"fd://{door.fileno()}"]
    with (tmp_path / "web.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *module],
            env=process_environment | NO_LIMITS | {"WEB_WORKERS": "2"},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[door.fileno()],
        )
    web = Web(door.getsockname()[1], [])
    try:
        parent = psutil.Process(process.pid)
        wait_for(lambda: process.poll() is not None or len(parent.children()) == 2, 60, "two processes")
        web.workers = parent.children()
        wait_for(lambda: web.ask("/healthz")[0] == 200, 60, "the first page")
        yield web
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        door.close()


def test_a_key_works_and_ends_in_every_process_at_once(web):
    owner = make_user(Role.ADMIN)
    desk, other = make_agent(slug="desk"), make_agent(slug="other")
    for agent in (desk, other):
        make_pin(agent)
        publishing.publish(agent, actor=owner, channel="live")
    _, admin = api_keys.issue(owner, actor=owner, name="admin", scopes=["admin"])
    with web.only(0):
        status, body = web.ask(
            "/api/v1/keys/",
            admin,
            method="POST",
            body={"name": "desk", "scopes": ["runtime"], "agents": ["desk"]},
        )
    assert status == 201
    key = body["key"]
    assert web.ask_each(RELEASES.format("desk"), key) == [(200, "")] * 2
    assert web.ask_each(RELEASES.format("other"), key) == [(404, "not_found")] * 2

    with web.only(0):
        assert web.ask(f"/api/v1/keys/{body['id']}/", admin, method="DELETE")[0] == 204
    began = time.monotonic()
    refused = web.ask_each(RELEASES.format("desk"), key)
    assert refused == [(401, "revoked_key")] * 2
    assert time.monotonic() - began < MAX_SECONDS

    _, token = agent_keys.issue(owner, actor=owner, name="leaked", scopes=["runtime"], agents=[desk])
    assert web.ask_each(RELEASES.format("desk"), token) == [(200, "")] * 2
    with web.only(1):
        assert web.ask("/api/v1/key-report/", method="POST", body={"key": token})[0] == 202
    assert web.ask_each(RELEASES.format("desk"), token) == [(401, "revoked_key")] * 2
