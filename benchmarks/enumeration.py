"""Reading 5,000 signatures of 1.8 KB from a vendor on loopback: new, unchanged, and answered with 304.

The floors do the same work as barely as Python allows: fetch, decode, digest, COPY and one merge with
live search indexes; and for unchanged tools fetch, decode, digest and one comparison in memory. They
keep no versions, no runs, no leases and no audit, and check nothing that the vendor sends.
"""

import gc
import hashlib
import http.client
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
from django.db import connection, transaction

from benchmarks.frame import Figure, seconds
from benchmarks.rows import make_endpoint
from benchmarks.vendor import COUNT, PAGE
from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Run, Tool
from catalog.models.runs import Trigger

ROUNDS = 3


@contextmanager
def vendor() -> Iterator[int]:
    """Its port; it runs in a process of its own, as a vendor would."""
    command = [sys.executable, "-m", "benchmarks.vendor"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline() if process.stdout else 0)
        finally:
            process.terminate()


def main() -> Iterator[Figure]:
    gc.freeze()  # as workers do at their start
    with vendor() as port:
        plain, tagged = (
            endpoint_at(f"http://127.0.0.1:{port}/plain"),
            endpoint_at(f"http://127.0.0.1:{port}/tagged"),
        )
        floor_new = min(seconds(lambda: Floor(port).read_new()) for _ in range(ROUNDS))
        floor_same = min(seconds(Floor(port).read_again) for _ in range(ROUNDS))
        floor_304 = min(seconds(Floor(port).read_tagged) for _ in range(ROUNDS))
        fresh = [endpoint_at(f"{plain.url}/{number}") for number in range(ROUNDS)]
        new = min(seconds(partial(run, endpoint)) for endpoint in fresh)
        run(plain)
        same = min(seconds(lambda: run(plain)) for _ in range(ROUNDS))
        run(tagged)
        not_modified = min(seconds(lambda: run(tagged)) for _ in range(ROUNDS))
    yield rate("first enumeration, indexed for search", new, floor_new, 0.7)
    yield rate("unchanged, refetched", same, floor_same, 0.53)
    yield rate("unchanged, answered with 304", not_modified, floor_304, 0.54)


def rate(name: str, took: float, floor: float, target: float) -> Figure:
    return Figure(name, COUNT / took, "signatures/s", floor=COUNT / floor, target=target)


def endpoint_at(url: str) -> Endpoint:
    endpoint = make_endpoint(0)
    endpoint.url = url
    endpoint.save()
    return endpoint


def run(endpoint: Endpoint) -> Run:
    done = enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    if done.status != "succeeded" or Tool.objects.filter(endpoint=endpoint).count() != COUNT:
        raise RuntimeError(f"{done.error}")
    return done


class Floor:
    """The bare prototype."""

    def __init__(self, port: int) -> None:
        self.client = http.client.HTTPConnection("127.0.0.1", port)
        self.known: dict[str, bytes] = {}
        self.etags: list[str] = []
        for body in self.fetch("/tagged"):
            self.known |= {tool_id: digest for tool_id, digest, _ in self.decode(body)}
        self.fetch_with_etags()

    def fetch(self, root: str) -> Iterator[bytes]:
        for start in range(0, COUNT, PAGE):
            self.client.request("GET", f"{root}/tools?pageCursor={start}&pageLimit={PAGE}")
            yield self.client.getresponse().read()

    def fetch_with_etags(self) -> None:
        self.etags = []
        for start in range(0, COUNT, PAGE):
            self.client.request("GET", f"/tagged/tools?pageCursor={start}")
            reply = self.client.getresponse()
            reply.read()
            self.etags.append(reply.headers["ETag"])

    @staticmethod
    def decode(body: bytes) -> Iterator[tuple[str, bytes, dict[str, Any]]]:
        for item in msgspec.json.decode(body)["items"]:
            item.pop("currentVersion")
            yield item["toolId"], hashlib.sha256(msgspec.json.encode(item, order="sorted")).digest(), item

    def read_again(self) -> None:
        for body in self.fetch("/plain"):
            for tool_id, digest, _ in self.decode(body):
                if self.known[tool_id] != digest:
                    raise RuntimeError(tool_id)

    def read_tagged(self) -> None:
        for start, etag in zip(range(0, COUNT, PAGE), self.etags, strict=True):
            self.client.request("GET", f"/tagged/tools?pageCursor={start}", headers={"If-None-Match": etag})
            reply = self.client.getresponse()
            reply.read()
            if reply.status != 304:
                raise RuntimeError(str(reply.status))

    def read_new(self) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(FLOOR_SCHEMA)
            with cursor.copy("COPY floor_stage FROM STDIN") as rows:
                for body in self.fetch("/plain"):
                    for tool_id, digest, item in self.decode(body):
                        document = msgspec.json.encode(item).decode()
                        rows.write_row((tool_id, digest, item["name"], item["description"], document))
            cursor.execute(FLOOR_MERGE)


FLOOR_SCHEMA = """
CREATE EXTENSION IF NOT EXISTS pg_trgm;
DROP TABLE IF EXISTS floor_tool;
DROP TABLE IF EXISTS floor_stage;
CREATE TABLE floor_tool (
    tool_id text PRIMARY KEY, digest bytea, name text, description text, document jsonb,
    words tsvector GENERATED ALWAYS AS (
        setweight(to_tsvector('english', name), 'A') || setweight(to_tsvector('english', description), 'B')
    ) STORED
);
CREATE INDEX ON floor_tool USING gin (words);
CREATE INDEX ON floor_tool USING gin (name gin_trgm_ops);
CREATE TEMP TABLE floor_stage (tool_id text, digest bytea, name text, description text, document jsonb);
"""
FLOOR_MERGE = """
INSERT INTO floor_tool (tool_id, digest, name, description, document) SELECT * FROM floor_stage
ON CONFLICT (tool_id) DO UPDATE SET digest = excluded.digest, document = excluded.document
WHERE floor_tool.digest <> excluded.digest
"""
