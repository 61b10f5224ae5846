"""Audit entries of workers: one for each run or rule that changed something.

Each function is called in the transaction of the change. The reason states who requested the run.
"""

from collections.abc import Mapping

from catalog.models import Endpoint, Finding, Run, SecondLook, Tool
from catalog.models.runs import Trigger
from core.translatable import mark
from people import audit


def record_run(run: Run, counts: Mapping[str, int]) -> None:
    """Record the changes of a run. A run without changes has no entry."""
    raised = Finding.objects.filter(run=run).count()
    changed = {name: count for name, count in {**counts, "findings": raised}.items() if count}
    if changed:
        audit.record(None, "read", run.endpoint, after={"run": run.pk, **changed}, why=_reason_of(run))


def record_recovery(run: Run) -> None:
    """Record that an endpoint with failures or a held run can be read again. `run.endpoint` is as it was
    when the run began.
    """
    endpoint = run.endpoint
    if endpoint.failures or endpoint.held_run_id:
        before = {"status": endpoint.status.value, "error": endpoint.error_code}
        audit.record(None, "recover", endpoint, before=before, after={"status": "ok"}, why=_reason_of(run))


def record_failure(run: Run, code: str, message: str) -> None:
    """Record the first failure, and each that differs from the last one."""
    endpoint = run.endpoint
    if endpoint.failures and endpoint.error_code == code:
        return
    before = {"status": endpoint.status.value, "error": endpoint.error_code}
    after = {"status": "failing", "error": code, "run": run.pk}
    audit.record(None, "fail", endpoint, before=before, after=after, why=f"{_reason_of(run)} {message}")


def record_held_list(run: Run, code: str, message: str, would_withdraw: int) -> None:
    after = {"status": "held", "error": code, "run": run.pk, "would_withdraw": would_withdraw}
    audit.record(None, "hold", run.endpoint, after=after, why=f"{_reason_of(run)} {message}")


def record_inspection(
    endpoint: Endpoint, run: Run | None, *, findings: int, held_count: int, revision: int
) -> None:
    """Record the effects of rules and policy on versions after they were recorded."""
    source = mark(f"Run {run.pk}") if run else mark("The vendor's history")
    after = {"findings": findings, "held": held_count} if held_count else {"findings": findings}
    if findings or held_count:
        reason = f"{source} brought versions in which rules of revision {revision} found something."
        audit.record(None, "inspect", endpoint, after=after, why=reason)


def record_older_versions(tool: Tool, count: int) -> None:
    if count:
        reason = "The vendor's history lists them."
        audit.record(None, "add older versions", tool, after={"versions": count}, why=reason)


def record_cloaking(look: SecondLook, findings: int, sentence: str) -> None:
    who = mark(f"asked for by {look.requested_by}") if look.requested_by else mark("on schedule")
    audit.record(
        None,
        "look again",
        look.endpoint,
        after={"findings": findings},
        why=mark(f"Cross-check, {who}. {sentence}"),
    )


def _reason_of(run: Run) -> str:
    if run.trigger == Trigger.SCHEDULE:
        return f"Run {run.pk}, on schedule."
    if run.trigger == Trigger.RUNTIME:
        return f"Run {run.pk}: a runtime asked for one tool."
    if run.requested_by:
        return f"Run {run.pk}, asked for by {run.requested_by}."
    return f"Run {run.pk}, asked for from the command line."
