"""A worker killed at any point loses nothing: docs/decisions/0004-enumeration.md lists the points."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from catalog import enumeration, tasks
from catalog.models import Endpoint, Finding, KnownPage, Rejection, Run, Tool, ToolVersion, Withdrawal
from catalog.models.runs import Trigger
from tests.factories import make_endpoint
from tests.vendor import Vendor, tool

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

PERFORM = (
    "import django, sys; django.setup(); from catalog import enumeration as e; e.perform(int(sys.argv[1]))"
)
POINTS = [
    "claimed",
    "page:2",
    "record-locked",
    "record-versions",
    "record-withdrawn",
    "record-commit",
    "recorded",
]


def dump() -> dict[str, list]:
    """The catalog without ids and times."""
    versions = ("tool__name", "ordinal", "label", "digest", "raw", "signature", "run__endpoint__name")
    counts = (
        "status",
        "pages",
        "seen",
        "added",
        "changed",
        "unchanged",
        "withdrawn",
        "rejected",
        "error_code",
    )
    return {
        "tools": list(
            Tool.objects.order_by("name").values_list("name", "status", "current__ordinal", "tags")
        ),
        "versions": list(ToolVersion.objects.order_by("tool__name", "ordinal").values_list(*versions)),
        "findings": list(Finding.objects.order_by("code").values_list("code", "message", "tool__name")),
        "withdrawals": list(
            Withdrawal.objects.order_by("tool__name").values_list("tool__name", "returned_run")
        ),
        "rejections": list(Rejection.objects.order_by("tool").values_list("tool", "code")),
        "pages": list(KnownPage.objects.order_by("cursor").values_list("cursor", "tool_ids")),
        "runs": list(Run.objects.order_by("pk").values_list(*counts)),
    }


def change(vendor: Vendor) -> None:
    vendor.listed[2] = tool(3, version=2, description="New words.")
    vendor.listed[3] = tool(4, description="Changed in place.")
    vendor.listed[5] = tool(6, version=0)
    vendor.listed.append(tool(50))
    del vendor.listed[11]


def first_run(vendor: Vendor) -> tuple[Endpoint, Run]:
    endpoint = make_endpoint(url=vendor.url, name="the endpoint")
    enumeration.perform(enumeration.request_run(endpoint, trigger=Trigger.COMMAND).pk)
    change(vendor)
    return endpoint, enumeration.request_run(endpoint, trigger=Trigger.COMMAND)


def let_the_lease_run_out() -> None:
    Run.objects.filter(status="running").update(lease_until=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_here_loses_nothing(undisturbed, vendor, point, process_environment):
    _, run = first_run(vendor)
    killed = subprocess.run(
        [sys.executable, "-c", PERFORM, str(run.pk)],
        env={**process_environment, "CRASHPOINT": point, "DEBUG_CRASH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if point != "recorded":
        assert Tool.objects.get(name="tool_3").current.label == "1", "readers see the catalog before the run"
    let_the_lease_run_out()
    enumeration.tick()
    enumeration.perform(run.pk)
    tasks.index_pending()
    assert dump() == undisturbed


@pytest.fixture
def undisturbed(vendor: Vendor) -> dict[str, list]:
    """What the same two runs leave behind when nobody is killed."""
    listed = list(vendor.listed)
    _, run = first_run(vendor)
    enumeration.perform(run.pk)
    tasks.index_pending()
    result = dump()
    assert result["runs"][-1] == ("succeeded", 3, 25, 1, 2, 21, 1, 1, "")
    vendor.listed = listed
    empty_the_catalog()
    return result


def empty_the_catalog() -> None:
    call_command("flush", verbosity=0, interactive=False)


def test_a_run_comes_back_within_a_minute_of_its_workers_death(vendor, process_environment, tmp_path):
    """The whole product: worker, scheduler, broker. The worker dies in the middle of a slow page."""
    slow = {"left": 1}

    def script(number, document):
        if number == 2 and slow["left"]:
            slow["left"] -= 1
            time.sleep(4)

    vendor.script = script
    endpoint = make_endpoint(url=vendor.url, next_due_at=timezone.now())
    celery = [sys.executable, "-m", "celery", "-A", "pegboard"]
    worker = [*celery, "worker", "-c", "1", "--without-gossip", "--without-mingle", "-l", "WARNING"]
    env = process_environment
    with open(tmp_path / "log", "wb") as log:
        options = {"env": env, "stdout": log, "stderr": log, "start_new_session": True}
        beat = subprocess.Popen([*celery, "beat", "-l", "WARNING"], **options)
        first = subprocess.Popen(worker, **options)
        second = None
        try:
            wait_for(lambda: Run.objects.filter(endpoint=endpoint, status="running").exists(), 30)
            os.killpg(first.pid, signal.SIGKILL)
            died = time.monotonic()
            second = subprocess.Popen(worker, **options)
            wait_for(lambda: Run.objects.filter(endpoint=endpoint, status="succeeded").exists(), 60)
            assert time.monotonic() - died < 60
        finally:
            for process in filter(None, (first, second, beat)):
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    run = Run.objects.get()
    assert (run.attempt, run.added) == (2, 25)


def wait_for(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)
