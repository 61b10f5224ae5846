"""Promises that are broken across the tools of an endpoint, found in the transaction that records a run."""

from collections.abc import Iterable
from itertools import islice

from django.db import connection

import protocols
from catalog.models import Finding, Run, Tool
from catalog.models.findings import FindingState
from catalog.models.tools import ToolStatus
from catalog.rules import promises
from catalog.rules.promises import Breach

# A vendor that renumbers everything makes one mistake, not a hundred thousand.
MAX_FINDINGS = 1_000

SAME_NAME = """
SELECT max(id), name, (array_agg(tool_id ORDER BY id))[1:3], count(*) FROM catalog_tool
WHERE endpoint_id = %(endpoint)s AND status = 'active' AND kind = 'tool'
GROUP BY name HAVING count(*) > 1 LIMIT %(most)s
"""
# Only a name with other letters than ASCII can be equal to another one in this way.
EQUAL_NAMES = """
SELECT max(id), array_agg(DISTINCT name COLLATE "C") FROM catalog_tool
WHERE endpoint_id = %(endpoint)s AND status = 'active' AND kind = 'tool' AND normalize(name, NFKC) IN (
    SELECT normalize(name, NFKC) FROM catalog_tool
    WHERE endpoint_id = %(endpoint)s AND status = 'active' AND kind = 'tool'
        AND octet_length(name) <> char_length(name))
GROUP BY normalize(name, NFKC) HAVING count(DISTINCT name COLLATE "C") > 1 LIMIT %(most)s
"""
# To block the finding about a change is to block the version that brought it.
POINT_AT_VERSIONS = """
UPDATE catalog_finding f SET version_id = v.id FROM catalog_toolversion v
WHERE f.run_id = %(run)s AND f.version_id IS NULL AND v.tool_id = f.tool_id AND v.digest = f.subject
"""


def finding(run: Run, tool_pk: int, breach: Breach, against: int | None = None) -> Finding:
    return Finding(
        against_id=against,
        endpoint_id=run.endpoint_id,
        tool_id=tool_pk,
        run=run,
        code=breach.code,
        severity=breach.severity,
        subject=breach.subject,
        message=breach.message,
        state=FindingState.OPEN if breach.waits else FindingState.NOTED,
    )


def record_breaches(run: Run, findings: Iterable[Finding], *, has_new: bool, has_changed: bool) -> None:
    """Record each breach of a promise once.

    findings: breaches that were found while the list was read. This function adds those that only a query of
    all tools of the endpoint finds. has_new, has_changed: whether the run found new tools, or tools that
    have changed or are listed again; without either the queries would find nothing new.
    """
    every = list(findings)
    promised = protocols.get(run.endpoint.protocol).promises
    values = {"endpoint": run.endpoint_id, "most": MAX_FINDINGS}
    with connection.cursor() as cursor:
        if "unique_names" in promised and (has_new or has_changed):
            cursor.execute(SAME_NAME, values)
            for pk, name, tool_ids, count in cursor.fetchall():
                every.append(finding(run, pk, promises.same_name(name, tool_ids, count)))
        if has_new or has_changed:
            cursor.execute(EQUAL_NAMES, values)
            every += [finding(run, pk, promises.equal_names(names)) for pk, names in cursor.fetchall()]
    if "stable_ids" in promised and has_new:
        # Matched here, because the planner's statistics still count the withdrawn tools as before the run.
        tools = Tool.objects.filter(endpoint=run.endpoint_id).order_by("pk")
        withdrawn = dict(tools.filter(status=ToolStatus.WITHDRAWN).values_list("name", "tool_id"))
        new = tools.filter(status=ToolStatus.ACTIVE, versions__run=run, versions__ordinal=1)
        rows = new.values_list("pk", "name", "tool_id") if withdrawn else ()
        for pk, name, tool_id in islice((row for row in rows if row[1] in withdrawn), MAX_FINDINGS):
            every.append(finding(run, pk, promises.new_tool_id(name, withdrawn[name], tool_id)))
    if every:
        Finding.objects.bulk_create(every, ignore_conflicts=True)
        with connection.cursor() as cursor:
            cursor.execute(POINT_AT_VERSIONS, {"run": run.pk})
