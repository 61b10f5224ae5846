"""Promises that are broken across the tools of an endpoint, found in the transaction that records a run."""

from collections.abc import Iterable

from django.db import connection

from catalog import promises, protocols
from catalog.models import Finding, Run
from catalog.models.findings import FindingState
from catalog.promises import Breach

MOST_TOLD = 1_000

SAME_NAME = """
SELECT max(id), name, (array_agg(tool_id ORDER BY id))[1:3], count(*) FROM catalog_tool
WHERE endpoint_id = %(endpoint)s AND status = 'active'
GROUP BY name HAVING count(*) > 1 LIMIT %(most)s
"""
NEW_TOOL_ID = """
SELECT DISTINCT ON (new.id) new.id, new.name, old.tool_id, new.tool_id
FROM catalog_toolversion version
JOIN catalog_tool new ON new.id = version.tool_id AND new.endpoint_id = %(endpoint)s
JOIN catalog_tool old ON old.endpoint_id = new.endpoint_id AND old.name = new.name AND old.id < new.id
    AND old.status = 'withdrawn'
WHERE version.run_id = %(run)s AND version.ordinal = 1 AND new.status = 'active'
ORDER BY new.id, old.id DESC LIMIT %(most)s
"""
# Whoever blocks the finding of a change blocks the version that brought it.
POINT_AT_VERSIONS = """
UPDATE catalog_finding f SET version_id = v.id FROM catalog_toolversion v
WHERE f.run_id = %(run)s AND f.version_id IS NULL AND v.tool_id = f.tool_id AND v.digest = f.subject
"""


def finding(run: Run, tool_pk: int, breach: Breach) -> Finding:
    return Finding(
        endpoint_id=run.endpoint_id,
        tool_id=tool_pk,
        run=run,
        code=breach.code,
        severity=breach.severity,
        subject=breach.subject,
        message=breach.message,
        state=FindingState.OPEN if breach.waits else FindingState.NOTED,
    )


def tell(run: Run, found: Iterable[Finding], *, has_new: bool, has_moved: bool) -> None:
    """`found` while reading, and what only the catalog as it now stands shows. Each is told once."""
    every = [*found, *_across_tools(run, has_new=has_new, has_moved=has_moved)]
    if every:
        Finding.objects.bulk_create(every, ignore_conflicts=True)
        with connection.cursor() as cursor:
            cursor.execute(POINT_AT_VERSIONS, {"run": run.pk})


def _across_tools(run: Run, *, has_new: bool, has_moved: bool) -> Iterable[Finding]:
    promised = protocols.get(run.endpoint.protocol).promises
    asked = {"endpoint": run.endpoint_id, "run": run.pk, "most": MOST_TOLD}
    with connection.cursor() as cursor:
        if "unique_names" in promised and (has_new or has_moved):
            cursor.execute(SAME_NAME, asked)
            for pk, name, tool_ids, count in cursor.fetchall():
                yield finding(run, pk, promises.same_name(name, tool_ids, count))
        if "stable_ids" in promised and has_new:
            cursor.execute(NEW_TOOL_ID, asked)
            for pk, name, old_id, new_id in cursor.fetchall():
                yield finding(run, pk, promises.new_tool_id(name, old_id, new_id))
