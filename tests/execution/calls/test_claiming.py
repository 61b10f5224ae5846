"""A claim of a call reads few pages, however many calls are in the table."""

import json

import pytest
from django.db import connection

from catalog.models import Call
from execution.calls import queue, requesting
from people import api_keys
from people.models import KeyScope, Role
from tests.factories import make_endpoint, make_signature, make_tool, make_user

pytestmark = pytest.mark.django_db(transaction=True)

ENDED, WAITING, OWNERS = 100_000, 5_000, 20
PAGES_PER_OWNER = 10  # as many as a few descents of an index
# Copies of the one call that was accepted, for the owners in turn.
COPY = """
SET LOCAL statement_timeout = 0;
SET LOCAL session_replication_role = replica;
INSERT INTO catalog_call SELECT copy.* FROM catalog_call call, generate_series(1, {count}) n,
    LATERAL jsonb_populate_record(call, jsonb_build_object(
        'id', nextval(pg_get_serial_sequence('catalog_call', 'id')), 'key', gen_random_uuid(),
        'status', '{status}', 'outcome', '{outcome}', 'token_id', {first_key} + n % {owners},
        'queued_at', call.queued_at + n * interval '1 millisecond',
        'gives_up_at', statement_timestamp() + interval '1 hour')) copy
    WHERE call.id = {call}
"""


def plan_of_claim() -> dict:
    sql, values = queue._claim_statement()
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", values)
        (plan,) = cursor.fetchone()
    return (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]


def nodes_of(plan: dict) -> list[dict]:
    return [plan, *(node for child in plan.get("Plans", []) for node in nodes_of(child))]


def test_a_claim_is_an_indexed_read_however_many_calls_have_ended_or_wait():
    user = make_user(Role.DESIGNER)
    tool = make_tool(make_signature(), endpoint=make_endpoint())
    call = requesting.request_call(tool.current, actor=user, arguments={"city": "Oslo"})
    keys = [
        api_keys.issue(user, actor=user, name=f"Key {number}", scopes=[KeyScope.READ])[0].pk
        for number in range(OWNERS)
    ]
    with connection.cursor() as cursor:
        for status, outcome, count in (("finished", "ok", ENDED), ("queued", "", WAITING)):
            facts = {"status": status, "outcome": outcome, "count": count}
            cursor.execute(COPY.format(**facts, first_key=min(keys), owners=OWNERS, call=call.pk))
        cursor.execute("ANALYZE catalog_call")

    for claimed in range(1, 4):
        plan = plan_of_claim()
        calls = [node for node in nodes_of(plan) if node.get("Relation Name") == "catalog_call"]
        scans = {node["Node Type"] for node in calls}
        assert scans <= {"Index Scan", "Index Only Scan", "ModifyTable"}
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < PAGES_PER_OWNER * (OWNERS + 1)
        assert Call.objects.filter(status="running").count() == claimed
