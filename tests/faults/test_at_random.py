"""Kills at any moment, workers that claim at once, schedulers that tick at once or not at all."""

import os
import secrets
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
import time_machine
from django.db.models.functions import Now
from django.utils import timezone

from catalog import invariants
from catalog.models import Endpoint, Run
from tests.factories import make_endpoint
from tests.faults.rounds import KillRounds, claim, tick_together

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]


def test_ten_kills_at_any_moment_lose_nothing(worker, vendor):
    """PEGBOARD_SEED=... plays the same ten again; the storm `kills` plays two hundred."""
    seed = int(os.environ.get("PEGBOARD_SEED") or secrets.randbelow(2**24))
    rounds = KillRounds(worker, vendor, Random(seed))
    for number in range(10):
        rounds.play()
        assert rounds.wrong() == "", f"round {number} of seed {seed}"
    assert rounds.killed, f"seed {seed} killed nobody"
    assert [str(breach) for breach in invariants.check()] == [], f"seed {seed}"


@pytest.mark.parametrize("claimers", [2, 8])
def test_many_that_claim_the_same_runs_read_each_once(worker, vendor, claimers):
    assert claim(worker, vendor, claimers=claimers, rounds=10) == 10
    assert invariants.check() == []


def test_three_schedulers_with_three_clocks_start_each_endpoint_once(worker):
    """R3. Due times follow the database's clock; workers' clocks are right, a day ahead and a day behind."""
    assert tick_together(worker, (0, 1, -1), endpoints=20) == [1] * 20
    assert not Endpoint.objects.filter(next_due_at__lt=timezone.now()).exists()


def test_what_was_changed_on_a_server_half_a_day_ahead_is_read_at_once(admin_api):
    """R3. The web server's clock does not matter for due times, either."""
    endpoint = make_endpoint(is_paused=True, next_due_at=timezone.now() + timedelta(days=9))
    with time_machine.travel(timezone.now() + timedelta(hours=12)):
        reply = admin_api.patch(f"/api/v1/endpoints/{endpoint.pk}/", {"is_paused": False})
    assert reply.status_code == 200, reply.content
    assert datetime.fromisoformat(reply.json()["next_due_at"]) <= timezone.now()
    assert Endpoint.objects.filter(pk=endpoint.pk, next_due_at__lte=Now()).exists()


def test_after_three_hours_without_a_scheduler_there_is_no_storm(worker):
    assert tick_together(worker, (0, 0, 0), endpoints=30, is_late=True) == [1] * 30
    Run.objects.update(status="succeeded", finished_at=timezone.now())
    due = sorted(Endpoint.objects.values_list("next_due_at", flat=True))
    minutes = [(due_at - timezone.now()).total_seconds() / 60 for due_at in due]
    assert minutes[0] > 4
    assert minutes[-1] > 45, "spread over the whole interval of an hour"
    assert max(later - earlier for earlier, later in pairwise(minutes)) < 20
