"""Ten thousand tools read again and again: no row of the catalog is written, and a release stays as it is.

PostgreSQL's own counters show what was written (D5). Meanwhile an export of the release is read ten thousand
times, while its vendor is read two hundred times and changes; it is one digest to the end (V5).
"""

import hashlib
import threading
import time
from collections import Counter

from django.db import connection, connections
from rest_framework.test import APIClient

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Endpoint, Run, Tool
from catalog.models.runs import Trigger
from catalog.review import inspector
from designer import exports
from designer.pins import pins
from designer.releases import publishing
from people.models import User
from soak.frame import Field, stopwatch
from tests.factories import make_agent, make_endpoint, make_user
from tests.vendor import Vendor, serving, tool, tools

CATALOG = ("catalog_tool", "catalog_toolversion", "catalog_likeness", "catalog_finding", "catalog_withdrawal")
READERS, PINNED = 4, 20


def storm(field: Field) -> None:
    with serving(Vendor(tools(field.times(short=1_000, long=10_000)), page_size=500)) as vendor:
        endpoint = make_endpoint(url=vendor.url, requests_per_second=1_000, is_paused=True)
        read_endpoint(endpoint)
        inspector.inspect_pending(endpoint.pk)
        before = count_writes()
        for number in range(3):
            with stopwatch() as seconds:
                run = read_endpoint(endpoint)
            field.fault("unchanged reading", f"number {number}", recovery=seconds())
            field.expect(run.unchanged == len(vendor.listed), f"{run.unchanged} tools were unchanged")
        changes = {
            table: now - before[table] for table, now in count_writes().items() if now != before[table]
        }
        field.expect(not changes, f"rows were written by readings of the same list: {changes}")
        field.figure("tools of the unchanged list", len(vendor.listed))
    with serving(Vendor(tools(100))) as vendor:
        released(field, vendor)


def read_endpoint(endpoint: Endpoint) -> Run:
    return enumeration_runs.perform(enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND).pk)


def count_writes() -> dict[str, int]:
    """Rows inserted, updated and deleted so far, by table. The counters come a moment late."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
    connection.close()
    time.sleep(1.5)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables"
            " WHERE relname = ANY(%s)",
            [list(CATALOG)],
        )
        return dict(cursor.fetchall())


def released(field: Field, vendor: Vendor) -> None:
    endpoint = make_endpoint(url=vendor.url, requests_per_second=1_000, is_paused=True)
    read_endpoint(endpoint)
    agent, actor = make_agent(slug="released"), make_user()
    for pinned_tool in Tool.objects.filter(endpoint=endpoint).order_by("pk")[:PINNED]:
        pins.pin_tool(agent, actor=actor, tool=pinned_tool)
    publishing.publish(agent, actor=actor)
    digests: Counter[tuple[str, str]] = Counter()
    readings, reads = field.times(short=10, long=200), field.times(short=400, long=10_000)
    threads = [
        threading.Thread(target=fetch, args=(actor, digests, reads // READERS)) for _ in range(READERS)
    ]
    for thread in threads:
        thread.start()
    for number in range(readings):
        vendor.listed = [tool(n, number + 2, description=f"Words {number}.") for n in range(1, 101)]
        run = read_endpoint(endpoint)
        field.fault("vendor read while a release is read", f"reading {number}: {run.changed} changed")
        field.expect(run.changed == 100, f"reading {number}: {run.changed} changed ({run.error_message})")
    for thread in threads:
        thread.join()
    by_format = Counter(name for name, _ in digests)
    field.figure("reads of the release", sum(digests.values()))
    field.expect(sum(digests.values()) >= reads // READERS * READERS, "not all reads were answered")
    field.expect(set(by_format.values()) == {1}, f"digests of one release by format: {by_format}")


def fetch(actor: User, digests: Counter[tuple[str, str]], count: int) -> None:
    """Fetch exports as a runtime does, through the whole product except its socket."""
    client = APIClient()
    client.force_login(actor)
    names = [export_format.name for export_format in exports.FORMATS]
    try:
        for number in range(count):
            name = names[number % len(names)]
            reply = client.get("/api/v1/agents/released/releases/1/tools/", {"format": name})
            digests[name, hashlib.sha256(reply.content).hexdigest() if reply.status_code == 200 else ""] += 1
    finally:
        connections.close_all()
