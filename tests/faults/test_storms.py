"""Reports of `make soak`."""

import json
import subprocess
import sys
from datetime import timedelta
from random import Random

import pytest
from django.utils import timezone

from catalog.enumeration import runs as enumeration_runs
from catalog.models import Run
from catalog.models.runs import Trigger
from core import redis_client
from soak import _closing, _summary, clocks, upgrade
from soak.frame import Field
from tests.factories import make_endpoint
from tests.faults.warm import ROOT


@pytest.fixture
def field(tmp_path) -> Field:
    return Field("kills", True, 7, None, {}, tmp_path)


def test_a_recovery_beyond_its_limit_is_a_violation(field):
    for seconds in range(1, 101):
        field.fault("worker killed", recovery=float(seconds), limit=99)
    (sentence,) = field.violations
    assert "recovered after 100.0 s; 99 s are allowed" in sentence
    recovery = field.report()["recovery"]["worker killed"]
    assert (recovery["p50"], recovery["p95"], recovery["worst"], recovery["count"]) == (50, 95, 100, 100)
    assert "VIOLATION" in str(field)


def test_the_same_seed_draws_the_same_faults(field):
    assert field.random.random() == Random("7/kills").random()
    assert field.times(short=1, long=9) == 1


BREAKS_OFF = """
import sys
from soak import __main__ as soak
soak.run_child = lambda name, options: {"storm": name, "faults": [{"kind": "x"}], "violations": ["lost"]}
sys.argv = ["soak", "--short", "--seed", "5", "--out", sys.argv[1], "kills"]
raise SystemExit(soak.main())
"""


def test_one_violation_ends_it_with_status_1_and_is_written_down(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BREAKS_OFF, str(tmp_path / "out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "--seed 5" in done.stdout
    report = json.loads((tmp_path / "out" / "faults.json").read_text())
    assert (report["seed"], report["faults"], report["violations"]) == (5, 1, 1)
    assert report["storms"][0]["violations"] == ["lost"]


def test_the_table_sums_up_what_all_storms_did(field):
    field.fault("worker killed", recovery=1.25, limit=60)
    field.fault("worker killed", recovery=2.5, limit=60)
    field.fault("broker wiped")
    missing = Field("clocks", True, 7, None, {}, field.directory)
    missing.skip("there is no faketime")
    reports = [field.report(), missing.report()]
    table = _summary.table(reports)
    assert "kills  worker killed       2      2  1.2 s  2.5 s  2.5 s  60.0 s" in table
    assert "all                        3      2" in table
    assert "NOT RUN  clocks: there is no faketime" in table
    assert _summary.status(reports) == 2, "what was not run has not passed"
    missing.violation("a row was lost")
    reports = [field.report(), missing.report()]
    assert "VIOLATION  clocks: a row was lost" in _summary.table(reports)
    assert _summary.status(reports) == 1


def test_without_the_repositorys_history_the_upgrade_was_not_run(field, monkeypatch, tmp_path):
    monkeypatch.setattr(upgrade, "ROOT", tmp_path)
    upgrade.storm(field)
    assert "history" in field.report()["not_run"]
    assert "NOT RUN" in str(field)


def test_without_faketime_no_clock_was_moved(field, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    clocks.storm(field)
    assert "faketime" in field.report()["not_run"]


@pytest.fixture
def no_workers(db, monkeypatch):
    monkeypatch.setattr(_closing, "PROCESSES", ())
    monkeypatch.setattr(_closing, "EMPTY_WITHIN", 0.3)
    redis_client.client().delete("calls", "enumeration", "slow")
    yield
    redis_client.client().delete("calls")


def test_a_storm_ends_with_an_empty_queue_and_no_waiting_work(field, no_workers):
    _closing.check_backlog_empties(field)
    assert field.violations == []
    assert field.figures["backlog after the storm"] == "queue 0, waiting 0"
    assert "queue 0, waiting 0 within" in str(field)


def test_a_message_that_no_worker_receives_after_a_storm_is_a_violation(field, no_workers):
    redis_client.client().lpush("calls", "{}")
    _closing.check_backlog_empties(field)
    assert field.violations == ["queue 1, waiting 0 after 0.3 s with workers"]
    assert "queue 0, waiting 0 within" not in field.figures


def test_a_run_that_no_worker_claims_after_a_storm_is_a_violation(field, no_workers):
    run = enumeration_runs.request_run(make_endpoint(), trigger=Trigger.PERSON)
    Run.objects.filter(pk=run.pk).update(queued_at=timezone.now() - timedelta(seconds=5))
    redis_client.client().delete("enumeration")
    _closing.check_backlog_empties(field)
    (sentence,) = field.violations
    assert "queue 0, waiting runs for 5 s" in sentence


def test_an_unknown_storm_is_refused_with_those_that_there_are():
    done = subprocess.run(
        [sys.executable, "-m", "soak", "hurricane"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "kills" in done.stderr
