"""Reads on a real streaming replica: what they show, behind whom they wait, and what happens without it."""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from django.conf import settings
from django.db import InternalError
from django.http import HttpResponse

from core import redis_client, replica_reads
from pegboard.local import embedded
from pegboard.local.embedded import SUPERUSER, Embedded
from pegboard.web.replica_reads import ReplicaReadsMiddleware
from tests.pegboard.ops.test_metrics import web

pytestmark = pytest.mark.faults

SETUP = """
import django; django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from designer.agents import agents
from people import api_keys
from people.models import Role, User
user = User.objects.create_user("ann", role=Role.ADMIN)
agents.create_agent(actor=user, name="Written first")
print(api_keys.issue(user, actor=user, name="test", scopes=["admin"])[1])
"""
REPLICATION = {"wal_level": "replica", "max_wal_senders": "4", "shared_buffers": "32MB"}


class Pair:
    """A primary and its replica, behind a web server of the product with one process."""

    def __init__(self, primary: Embedded, replica: Embedded) -> None:
        self.primary, self.replica = primary, replica
        self.url = self.key = ""

    def run(self, server: Embedded, statement: str) -> object:
        with psycopg.connect(server.urls["DATABASE_URL"], autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchone()[0] if cursor.description else None

    def wait_for_replay(self) -> None:
        """Wait until the replica has what the primary has now."""
        position = self.run(self.primary, "SELECT pg_current_wal_insert_lsn()")
        is_replayed = f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
        wait_until(lambda: bool(self.run(self.replica, is_replayed)))

    def rename(self, name: str) -> None:
        """Write as a worker does: no request has written this."""
        self.run(self.primary, f"UPDATE designer_agent SET name = '{name}' WHERE slug = 'written-first'")

    def reads_the_replica(self) -> bool:
        """Return whether a request does not see what a worker writes once the replica replays nothing."""
        self.run(self.replica, "SELECT pg_wal_replay_resume()")
        self.wait_for_replay()
        self.run(self.replica, "SELECT pg_wal_replay_pause()")
        name = f"Renamed {time.monotonic_ns()}"
        self.rename(name)
        return name not in self.names()

    def names(self) -> list[str]:
        return [row["name"] for row in self.ask("/api/v1/agents/")["results"]]

    def ask(self, path: str, body: dict[str, str] | None = None) -> dict[str, object]:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)


@contextmanager
def replicating(directory: Path) -> Iterator[Pair]:
    primary = Embedded(directory / "primary", valkey=False, durable=False)
    primary.start()
    try:
        replica = Embedded(directory / "replica", valkey=False, durable=False)
        source, target = primary.servers[0], replica.servers[0]
        target._take_over(replica.data)
        copied = source._run_program(
            source.programs / "pg_basebackup",
            *("-h", str(primary.run), "-p", "5432", "-U", SUPERUSER, "-D", str(target.directory)),
            *("-R", "-X", "stream", "--checkpoint=fast", "--no-sync"),
        )
        assert copied.returncode == 0, copied.stderr
        replica.start()
        try:
            yield Pair(primary, replica)
        finally:
            replica.stop()
    finally:
        primary.stop()


@pytest.fixture
def pair(monkeypatch) -> Iterator[Pair]:
    redis_client.client().delete(replica_reads.WRITTEN)
    monkeypatch.setattr(embedded, "POSTGRES_SETTINGS", embedded.POSTGRES_SETTINGS | REPLICATION)
    directory = tempfile.TemporaryDirectory(prefix="pegboard-replica-", dir="/var/tmp")
    with directory as name, replicating(Path(name)) as servers:
        environment = {
            **os.environ,
            "DATABASE_URL": servers.primary.urls["DATABASE_URL"],
            "DATABASE_REPLICA_URL": servers.replica.urls["DATABASE_URL"],
            "REDIS_URL": settings.REDIS_URL,
            "DJANGO_SETTINGS_MODULE": "pegboard.settings",
        }
        command = [sys.executable, "-c", SETUP]
        made = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        servers.key = made.stdout.strip()
        with web(environment, workers=1) as servers.url:
            yield servers


def wait_until(is_true: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < ends
        time.sleep(0.2)


def test_reads_go_to_the_replica_see_what_requests_wrote_and_survive_its_loss(pair):
    assert pair.names() == ["Written first"]
    wait_until(pair.reads_the_replica)
    latest = pair.run(pair.primary, "SELECT name FROM designer_agent")

    pair.ask("/api/v1/agents/", {"name": "Written by a request"})
    assert sorted(pair.names()) == sorted([latest, "Written by a request"])

    wait_until(pair.reads_the_replica)
    # A replica that falls behind is not read any more.
    latest = pair.run(pair.primary, "SELECT name FROM designer_agent WHERE slug = 'written-first'")
    wait_until(lambda: latest in pair.names())

    wait_until(pair.reads_the_replica)
    # Keys are checked on the primary.
    pair.run(pair.primary, "UPDATE people_apitoken SET revoked_at = now()")
    with pytest.raises(urllib.error.HTTPError) as refused:
        pair.names()
    with refused.value as answer:
        assert answer.code == 401
    pair.run(pair.primary, "UPDATE people_apitoken SET revoked_at = NULL")

    wait_until(pair.reads_the_replica)
    # The primary answers while the replica is away.
    pair.replica.stop()
    pair.rename("Renamed by a worker")
    assert sorted(pair.names()) == ["Renamed by a worker", "Written by a request"]
    pair.ask("/api/v1/agents/", {"name": "Written without a replica"})
    assert len(pair.names()) == 3


@contextmanager
def on_replica():
    yield True


def test_a_route_that_writes_is_read_on_the_primary_from_then_on(monkeypatch, rf):
    monkeypatch.setattr(replica_reads, "is_configured", lambda: True)
    monkeypatch.setattr(replica_reads, "on_replica", on_replica)
    routes = []

    def write(request):
        routes.append(request.resolver_match.view_name)
        raise InternalError from psycopg.errors.ReadOnlySqlTransaction()

    def read(request):
        routes.append(request.resolver_match.view_name)
        return HttpResponse()

    middleware = ReplicaReadsMiddleware(read)
    for route, view in (("writes", write), ("writes", write), ("reads", read), ("reads", read)):
        request = rf.get("/")
        request.resolver_match = SimpleNamespace(view_name=route)
        response = middleware.process_view(request, view, (), {})
        assert (response is None) is (route == "writes")
    assert routes == ["writes", "reads", "reads"]


def test_without_a_replica_nothing_changes(settings):
    assert not replica_reads.is_configured()
    with replica_reads.on_primary():
        pass
