"""Every claim of catalog/invariants.py finds what breaks it."""

import base64
import os
import time
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from catalog import invariants
from catalog.credentials import operations as credential_operations
from catalog.models import Credential, Grant, Run, Tool, Withdrawal
from designer.models import Agent, Channel, Release
from people.models import Role
from tests.factories import make_agent, make_endpoint, make_pin, make_tool, make_user, make_version

pytestmark = pytest.mark.django_db


def sql(statement: str, *values: object) -> None:
    """Write past the triggers, as a superuser could."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, values)
        cursor.execute("SET LOCAL session_replication_role = origin")


def lose_a_worker() -> None:
    Run.objects.create(
        endpoint=make_endpoint(), status="running", lease_until=timezone.now() - timedelta(minutes=2)
    )


def leave_a_lease() -> None:
    Run.objects.create(
        endpoint=make_endpoint(), status="succeeded", finished_at=timezone.now(), lease_until=timezone.now()
    )


def run_twice() -> None:
    sql("DROP INDEX one_active_run_per_endpoint")
    endpoint = make_endpoint()
    Run.objects.create(endpoint=endpoint)
    Run.objects.create(endpoint=endpoint)


def change_a_version() -> None:
    tool = make_tool()
    sql("UPDATE catalog_toolversion SET raw = replace(raw, 'weather', 'gossip') WHERE tool_id = %s", tool.pk)


def lose_a_version() -> None:
    tool = make_tool()
    make_version(tool)
    sql("DELETE FROM catalog_toolversion WHERE tool_id = %s AND ordinal = 1", tool.pk)


def show_other_words() -> None:
    Tool.objects.filter(pk=make_tool().pk).update(name="renamed")


def withdraw_by_halves() -> None:
    Withdrawal.objects.create(tool=make_tool())


def release(number: int) -> None:
    facts = {"digest": "0" * 64, "document": "{}", "tool_count": 0, "created_by": make_user(Role.DESIGNER)}
    Release.objects.create(agent=make_agent(), number=number, **facts)


def change_a_release() -> None:
    release(1)


def lose_a_release() -> None:
    release(2)


def lead_to_a_stranger() -> None:
    release(1)
    Channel.objects.create(agent=make_agent(), name="live", release=Release.objects.get())


def pin_a_stranger() -> None:
    make_pin(version=make_tool().current)


def adopt_without_a_transfer() -> None:
    Agent.objects.create(name="Child", slug="child", parent=make_agent())


def pin_unseen() -> None:
    make_pin()


def end_a_sign_in_by_halves() -> None:
    Grant.objects.create(
        credential=Credential.objects.create(kind="oauth_code"),
        access_token="v1:k1:x",
        ended_at=timezone.now(),
    )


def remove_a_credential_by_halves() -> None:
    Credential.objects.create(kind="bearer", sealed="v1:k1:x", removed_at=timezone.now())


@pytest.mark.parametrize(
    ("breaks", "claim"),
    [
        (lose_a_worker, "live_leases"),
        (leave_a_lease, "finished_runs"),
        (run_twice, "one_active_run"),
        (change_a_version, "version_digests"),
        (lose_a_version, "version_numbers"),
        (show_other_words, "current_versions"),
        (withdraw_by_halves, "withdrawals"),
        (end_a_sign_in_by_halves, "ended_sign_ins"),
        (remove_a_credential_by_halves, "removed_credentials"),
        (change_a_release, "release_digests"),
        (change_a_release, "audited_releases"),
        (lose_a_release, "release_numbers"),
        (lead_to_a_stranger, "channels_in_their_agent"),
        (pin_a_stranger, "pinned_versions"),
        (adopt_without_a_transfer, "transfers_to_children"),
        (pin_unseen, "audited_pins"),
    ],
)
def test_what_breaks_a_claim_is_found(breaks, claim):
    assert invariants.check(only=[claim]) == []
    breaks()
    (breach,) = invariants.check(only=[claim])
    assert breach.count == 1
    assert breach.claim.statement in str(breach)
    assert breach.examples[0] in str(breach)


def test_a_secret_without_its_key_is_found(settings):
    credential_operations.create_credential(
        actor=make_user(Role.ADMIN), name="key", kind="bearer", url="http://127.0.0.1:9/", secret="s3cret"
    )
    assert invariants.check(only=["secret_keys"]) == []
    settings.KEYS = ["other:" + base64.b64encode(bytes(32)).decode()]
    (breach,) = invariants.check(only=["secret_keys"])
    assert "catalog.credential.sealed" in str(breach)


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_sleeps_inside_a_transaction_is_found():
    with psycopg.connect(os.environ["DATABASE_URL"], dbname=connection.settings_dict["NAME"]) as sleeper:
        sleeper.execute("SELECT 1")
        assert invariants.check(only=["idle_transactions"]) == []
        time.sleep(0.01)
        assert len(list(invariants.idle_transactions(0)())) == 1
