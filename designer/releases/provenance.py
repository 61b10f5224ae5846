"""Find the approvals of a release that a runtime received, from the release and the audit trail."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from catalog.models.tools import version_name
from designer.models import Agent


@dataclass(frozen=True, slots=True)
class Approval:
    """A step that a user took, with its entry in the audit trail."""

    by: str
    at: datetime
    entry: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class ToolProvenance:
    """A tool of a release.

    accepted: None if the endpoint's policy accepted the version by itself.
    worded: the last edit of the tuned texts, if there are any.
    sub_agent: the slug of the sub-agent that has it, "" for the agent itself.
    """

    sub_agent: str
    tool: int
    name: str
    vendor: str
    ordinal: int
    version: str
    digest: str
    version_name: str
    pinned: Approval | None
    accepted: Approval | None
    worded: Approval | None


@dataclass(frozen=True, slots=True)
class ReceivedRelease:
    number: int
    digest: str
    published: Approval
    tools: list[ToolProvenance]


# A release never changes and entries are only added, so the answer to a question never changes.
RECEIVED_RELEASE = """
WITH released AS (
    SELECT r.id, r.agent_id, r.number, r.digest, r.created_at, r.document::jsonb AS document
    FROM designer_release r
    WHERE r.agent_id = %(agent)s AND r.created_at <= %(at)s
        AND (%(number)s::int IS NULL OR r.number = %(number)s)
    ORDER BY r.number DESC LIMIT 1
), entry AS NOT MATERIALIZED (
    SELECT e.* FROM people_auditentry e, released WHERE e.at <= released.created_at
)
SELECT released.number, released.digest,
    published.actor_name, published.at, published.id, published.why,
    sub_agent, (held ->> 'id')::bigint, held -> 'signature' ->> 'name', held ->> 'vendor',
    (held -> 'version' ->> 'ordinal')::int, held -> 'version' ->> 'label', held -> 'version' ->> 'digest',
    version.rewrite, version.first_seen_at,
    pinned.actor_name, pinned.at, pinned.id, pinned.why,
    accepted.actor_name, accepted.at, accepted.id, accepted.why,
    worded.actor_name, worded.at, worded.id, worded.why
FROM released
JOIN people_auditentry published
    ON published.kind = 'release' AND published.object_id = released.id::text AND published.action = 'publish'
CROSS JOIN LATERAL (
    SELECT released.agent_id AS holder, '' AS sub_agent, held
    FROM jsonb_array_elements(released.document -> 'tools') held
    UNION ALL
    SELECT (below ->> 'id')::bigint, below ->> 'slug', held
    FROM jsonb_array_elements(released.document -> 'agents') below,
        jsonb_array_elements(below -> 'tools') held
) shown
LEFT JOIN catalog_toolversion version
    ON version.tool_id = (held ->> 'id')::bigint
    AND version.ordinal = (held -> 'version' ->> 'ordinal')::int
LEFT JOIN LATERAL (
    SELECT e.* FROM designer_pin p
    JOIN entry e ON e.kind = 'pin' AND e.object_id = p.id::text AND e.action IN ('pin', 'move')
    WHERE p.agent_id = holder AND p.tool_id = (held ->> 'id')::bigint
        -- Entries from before versions went by their labels hold the ordinal as the version.
        AND coalesce(e.after ->> 'ordinal', e.after ->> 'version')::int
            = (held -> 'version' ->> 'ordinal')::int
    ORDER BY e.id DESC LIMIT 1
) pinned ON true
LEFT JOIN LATERAL (
    SELECT e.* FROM catalog_finding f
    JOIN entry e ON e.kind = 'finding' AND e.object_id = f.id::text AND e.action = 'accept'
        AND NOT EXISTS (
            SELECT FROM entry undone
            WHERE undone.kind = 'finding' AND undone.object_id = e.object_id
                AND undone.action = 'reopen' AND undone.id > e.id
        )
    WHERE f.tool_id = (held ->> 'id')::bigint AND f.subject = held -> 'version' ->> 'digest'
    ORDER BY e.id DESC LIMIT 1
) accepted ON true
LEFT JOIN LATERAL (
    SELECT told.* FROM (
        SELECT e.* FROM entry e
        WHERE e.kind = 'tool' AND e.object_id = held ->> 'id' AND e.action = 'tune'
            AND held -> 'tuning' -> 'catalog' <> '{}'
        UNION ALL
        SELECT e.* FROM designer_pin p
        JOIN entry e ON e.kind = 'pin' AND e.object_id = p.id::text AND e.action = 'tune'
        WHERE p.agent_id = holder AND p.tool_id = (held ->> 'id')::bigint
            AND held -> 'tuning' -> 'agent' <> '{}'
    ) told
    ORDER BY told.id DESC LIMIT 1
) worded ON true
ORDER BY sub_agent, held -> 'signature' ->> 'name'
"""


def find_received_release(
    agent: Agent, *, received_at: datetime, number: int | None = None
) -> ReceivedRelease | None:
    """Return what `agent` served at that time, or the release with this number; None before the first."""
    with connection.cursor() as cursor:
        cursor.execute(RECEIVED_RELEASE, {"agent": agent.pk, "at": received_at, "number": number})
        rows = cursor.fetchall()
    if not rows:
        return None
    published = _build_approval(rows[0][2:6])
    assert published is not None  # noqa: S101 - the query joins it
    tools = []
    for row in (row[6:] for row in rows):
        label, (rewrite, first_seen_at) = row[5], row[7:9]
        name = version_name(label, rewrite, first_seen_at) if first_seen_at else label
        approvals = (_build_approval(row[start : start + 4]) for start in (9, 13, 17))
        tools.append(ToolProvenance(*row[:7], name, *approvals))  # type: ignore[call-arg]
    return ReceivedRelease(rows[0][0], rows[0][1], published, tools)


def _build_approval(row: tuple[object, ...]) -> Approval | None:
    return None if row[0] is None else Approval(*row)  # type: ignore[arg-type]
