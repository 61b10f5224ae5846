"""Apply a changed policy of an endpoint to versions that wait for review.

The policy at the time of recording may have accepted a version with findings. If the new policy holds or
blocks its classes, it applies to that version too. Decisions of users stay.
"""

from collections.abc import Iterator, Sequence

from django.db.models import Exists, F, Q

from catalog.models import Endpoint, Finding, Tool, ToolVersion
from catalog.models.findings import HELD, FindingState
from catalog.models.tools import lock_in_order, version_name
from catalog.review import holds
from catalog.review.holds import Caught
from catalog.rules import diff, policy, promises
from catalog.rules.inspection import Alarm
from catalog.tools.versions import predecessors
from core.outbound.errors import printable

# Versions that are in memory at once.
CHUNK = 500


def apply_to_waiting(endpoint: Endpoint) -> dict[str, int]:
    """Hold or block waiting versions as the endpoint's policy now states. Return the facts for the audit."""
    stated = policy.with_defaults(endpoint.policy)
    stopped, last = 0, 0
    # Versions that the vendor lists and about which a decision waits.
    is_listed = Q(tool__current=F("pk")) | Q(tool__stopped=F("pk"))
    rows_waiting = ToolVersion.objects.filter(is_listed, tool__endpoint=endpoint).order_by("pk").defer("raw")
    rows_waiting = rows_waiting.filter(Exists(holds.waiting_about_version())).select_related("tool")
    while waiting := list(rows_waiting.filter(pk__gt=last)[:CHUNK]):
        lock_in_order(Tool.objects.filter(pk__in={version.tool_id for version in waiting}))
        caught = list(_find_caught(waiting, stated))
        # Block what is only held so far, where the policy now blocks it.
        blocked = {(row.tool, row.digest): row for row in caught if row.stop.action == "block"}
        rows = Finding.objects.filter(
            code=HELD, state=FindingState.OPEN, tool__in={tool for tool, _ in blocked}
        )
        changed = []
        for row in rows:
            if stopped_version := blocked.get((row.tool_id, row.subject)):
                row.state, row.severity = FindingState.BLOCKED, stopped_version.stop.severity
                row.message = f"{stopped_version.named} {stopped_version.stop.predicate}"
                changed.append(row)
        Finding.objects.bulk_update(changed, ["state", "severity", "message"], batch_size=CHUNK)
        holds.catch(endpoint, None, caught)
        stopped += len(caught)
        last = waiting[-1].pk
    return {"waiting_versions_stopped": stopped} if stopped else {}


def _find_caught(waiting: Sequence[ToolVersion], stated_policy: policy.Actions) -> Iterator[Caught]:
    before = predecessors([version.pk for version in waiting])
    earlier_versions = ToolVersion.objects.defer("raw").in_bulk(set(before.values()))
    rows = Finding.objects.waiting().filter(tool__in={version.tool_id for version in waiting})
    findings = list(rows.order_by("pk"))
    for version in waiting:
        about = [row for row in findings if holds.is_about(row, version)]
        signature, old = version.decoded(), earlier_versions.get(before.get(version.pk, 0))
        effects = diff.compare(old.decoded(), signature).effects if old else None
        alarms = [
            Alarm(row.code, row.severity, row.message)  # type: ignore[arg-type]
            for row in about
            if row.code != HELD and row.code not in promises.CODES
        ]
        is_rewritten = any(row.code == "DRIFT" for row in about)
        classes = policy.classes(effects, alarms, is_rewritten=is_rewritten)
        if stop := policy.apply_policy(stated_policy, classes, alarms):
            name = f"“{printable(signature.name, 200)}”"
            if version.label:
                label = version_name(version.label, version.rewrite, version.first_seen_at)
                name = f"Version {label} of {name}"
            yield Caught(version.tool_id, version.pk, version.digest, name, stop)
