"""Versions as they are inspected: their signature, the one before it, and their alarms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from catalog.models import ToolVersion
from catalog.models.tools import version_name
from catalog.rules.assess import OfferedVersion, assess, stored_alarms
from catalog.rules.inspection import Alarm
from catalog.tools.versions import predecessors
from protocols import signature as normal_form
from protocols.signature import Signature


@dataclass(slots=True)
class InspectedVersion:
    version: int
    tool: int
    digest: str
    says_version: str
    is_listed: bool
    signature: Signature
    before: Signature | None
    alarms: list[Alarm]
    judged: int  # the number of alarms that the policy applied to when the version was recorded


def read_versions(condition: str, values: Sequence[Any], max_count: int) -> list[InspectedVersion]:
    """Return up to `max_count` versions in the order of their keys. condition: SQL about `v`, a version."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT v.id, v.tool_id, v.digest, v.label, v.rewrite, v.first_seen_at,
                v.id IN (t.current_id, t.stopped_id), v.signature, v.alarms, t.version_count
            FROM catalog_toolversion v JOIN catalog_tool t ON t.id = v.tool_id
            WHERE {condition} ORDER BY v.id LIMIT %s
            """,  # noqa: S608 - the conditions stand above
            [*values, max_count],
        )
        rows = cursor.fetchall()
    before = predecessors(row[0] for row in rows if row[-1] > 1)
    earlier_versions = ToolVersion.objects.filter(pk__in=set(before.values()))
    texts = dict(earlier_versions.values_list("pk", "signature").order_by())
    inspected_rows = []
    for version, tool, digest, label, rewrite, seen_at, is_listed, text, stored, _ in rows:
        signature, against = normal_form.from_json(text), texts.get(before.get(version, 0))
        alarms = stored_alarms(stored)
        inspected_rows.append(
            InspectedVersion(
                version=version,
                tool=tool,
                digest=digest,
                says_version=version_name(label, rewrite, seen_at) if label else "",
                is_listed=bool(is_listed),
                signature=signature,
                before=normal_form.from_json(against) if against else None,
                alarms=list(assess(None, OfferedVersion(signature)).alarms if alarms is None else alarms),
                judged=len(alarms or ()),
            )
        )
    return inspected_rows
