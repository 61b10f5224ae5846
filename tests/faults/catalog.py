"""The catalog as a person would compare it: without ids, times and attempts."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from catalog import tasks
from catalog.enumeration import runs as enumeration_runs
from catalog.models import (
    Endpoint,
    Finding,
    KnownPage,
    Rejection,
    Run,
    Tool,
    ToolVersion,
    Withdrawal,
)
from catalog.models.runs import Trigger
from catalog.notifications.models import Notice
from people.models import AuditEntry, Role
from tests import emptying
from tests.factories import make_endpoint, make_user
from tests.vendor import Vendor, tool

Rows = list[tuple[Any, ...]]

COLUMNS: dict[Any, tuple[str, ...]] = {
    Tool: ("name", "status", "current__ordinal", "stopped__ordinal", "description", "tags", "version_count"),
    ToolVersion: ("tool__name", "ordinal", "label", "digest", "raw", "signature", "run__endpoint__name"),
    Finding: ("code", "message", "tool__name", "version__ordinal", "state", "severity"),
    Withdrawal: ("tool__name", "returned_run"),
    Rejection: ("tool", "code"),
    KnownPage: ("cursor", "tool_ids"),
    Notice: ("event", "title", "says"),
    AuditEntry: ("action", "kind", "label", "actor_name"),
    Run: (
        *("status", "pages", "seen", "added", "changed", "unchanged", "withdrawn", "rejected"),
        *("error_code", "inspected", "lease_until"),
    ),
}


TO_THE_ENDPOINT: dict[Any, str] = {
    **dict.fromkeys((Tool, Finding, KnownPage, Run), "endpoint"),
    **dict.fromkeys((ToolVersion, Withdrawal), "tool__endpoint"),
    Rejection: "run__endpoint",
}


def dump() -> dict[str, Rows]:
    return {model.__name__: _rows(model.objects.all(), columns) for model, columns in COLUMNS.items()}


def dump_of(endpoint: int) -> dict[str, Rows]:
    """All that belongs to one endpoint, so that two can be compared."""
    return {
        model.__name__: _rows(model.objects.filter(**{path: endpoint}), COLUMNS[model])
        for model, path in TO_THE_ENDPOINT.items()
    }


def _rows(rows: Any, columns: tuple[str, ...]) -> Rows:
    return sorted(rows.values_list(*columns), key=repr)


def change(vendor: Vendor) -> None:
    """One tool of each fate: new, new and suspicious, changed, changed in place, withdrawn, refused."""
    vendor.listed[2] = tool(3, version=2, description="New words.")
    vendor.listed[3] = tool(4, description="Changed in place.")
    vendor.listed[5] = tool(6, version=0)
    vendor.listed += [tool(50), tool(51, description="Words\u202e that turn round")]
    del vendor.listed[11]


def read_once(vendor: Vendor) -> tuple[Endpoint, int]:
    """An endpoint that was read, whose vendor has changed since; and who may read it again."""
    endpoint = make_endpoint(url=vendor.url, name="the endpoint")
    run = enumeration_runs.request_run(endpoint, trigger=Trigger.COMMAND)
    tasks.enumerate_run(run.pk)
    change(vendor)
    return endpoint, make_user(Role.ADMIN, username="ada").pk


def let_the_lease_run_out() -> None:
    Run.objects.filter(status="running").update(lease_until=timezone.now() - timedelta(seconds=1))


def housekeeping() -> None:
    """The tasks that the scheduler sends once a minute."""
    tasks.inspect_pending()
    tasks.index_pending()


def forget_everything() -> None:
    emptying.empty()
