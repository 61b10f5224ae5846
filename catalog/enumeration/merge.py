"""Merges the staging table into the catalog: tools, their versions, and the findings about both.

No statement here runs per tool.
"""

from collections.abc import Sequence

from django.db import connection
from django.db.backends.utils import CursorWrapper

from catalog.enumeration import listed_images
from catalog.enumeration.staging import Harvest, Stage, StagedTool
from catalog.models import Run, ToolVersion
from catalog.rules import assess, policy
from catalog.tools import effective_texts
from catalog.tools.versions import notify_moved


def merge(run: Run, harvest: Harvest) -> None:
    """Write the staged tools into the catalog, in a transaction that has locked the tools that change."""
    values: dict[str, int | str] = {
        "endpoint": run.endpoint_id,
        "run": run.pk,
        "no_alarms": assess.to_json(()),
    }
    with connection.cursor() as cursor:
        stops = _store_assessments(cursor, run, harvest)
        added = (ADD_TOOLS,) if harvest.added else ()
        find_stored, changed = (FIND_STORED, CHANGE_TOOLS) if harvest.changed else ((), ())
        hold = (HOLD,) if stops or harvest.changed else ()
        for statement in (*added, *find_stored, INSERT_VERSIONS, *changed, *hold):
            cursor.execute(statement, values)
        if harvest.changed:
            cursor.execute("SELECT tool_pk FROM staged_tool WHERE tool_pk IS NOT NULL")
            notify_moved([tool for (tool,) in cursor.fetchall()])
        listed_images.write_staged(cursor)
        cursor.execute(TUNED)
        tuned = [tool for (tool,) in cursor.fetchall()]
        cursor.execute("DROP TABLE staged_tool")
    effective_texts.refresh(tuned)


def append_versions(versions: Sequence[StagedTool]) -> list[ToolVersion]:
    """Append versions of a stored tool after its existing ones, in this order. The caller has locked the
    tool.

    The caller updates the count of its versions.
    """
    if not versions:
        return []
    with Stage() as stage:
        stage.put(versions)
        stage.settle()
    with connection.cursor() as cursor:
        cursor.execute(f"{INSERT_VERSIONS} RETURNING id", {"run": None, "no_alarms": None})
        version_ids = [pk for (pk,) in cursor.fetchall()]
        cursor.execute("DROP TABLE staged_tool")
    return list(ToolVersion.objects.filter(pk__in=version_ids).order_by("ordinal"))


def _store_assessments(cursor: CursorWrapper, run: Run, harvest: Harvest) -> bool:
    """Store the assessments in the staged rows. Return whether the policy stops any of them."""
    # One rule for all new tools, whose texts are not assessed while they are read (decision 40).
    if new := policy.apply_policy(policy.with_defaults(run.endpoint.policy), ["new_tool"]):
        cursor.execute(STOP_NEW, {"state": new.state, "severity": new.severity, "says": new.predicate})
    if harvest.assessed:
        facts = [
            (assessed.alarms, assessed.version)
            + (
                (assessed.stop.state, assessed.stop.severity, assessed.stop.predicate)
                if assessed.stop
                else ("", "", "")
            )
            for assessed in harvest.assessed.values()
        ]
        values = [list(harvest.assessed), *zip(*facts, strict=True)]
        cursor.execute(NOTE_ASSESSED, [list(column) for column in values])
    return bool(new or any(assessed.stop for assessed in harvest.assessed.values()))


TUNED = "SELECT t.id FROM staged_tool s JOIN catalog_tool t ON t.id = s.tool_pk WHERE t.is_tuned"
STOP_NEW = """
UPDATE staged_tool SET stop = %(state)s, severity = %(severity)s,
    why = 'The new tool “' || left(name, 200) || '” ' || %(says)s
WHERE tool_pk IS NULL
"""
NOTE_ASSESSED = """
UPDATE staged_tool s SET alarms = g.alarms, stop = g.stop, severity = g.severity,
    why = CASE WHEN g.stop = '' THEN '' ELSE
        CASE WHEN g.version = '' THEN 'The new version' ELSE 'Version ' || g.version END
        || ' of “' || left(s.name, 200) || '” ' || g.says END
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
    g (tool, alarms, version, stop, severity, says)
WHERE s.tool_pk = g.tool
"""
ADD_TOOLS = """
    INSERT INTO catalog_tool (id, endpoint_id, tool_id, status, current_id, stopped_id, name, title,
        description, tags, tokens, version_count, first_seen_at, changed_at, kind)
    SELECT new_pk, %(endpoint)s, tool_id, 'active', version_pk, CASE WHEN stop <> '' THEN version_pk END,
        name, title, description, tags, tokens, 1, now(), now(), kind
    FROM staged_tool WHERE tool_pk IS NULL
    """
FIND_STORED = (
    # The vendor went back to what we hold, perhaps in another form: that version becomes current again.
    """
    UPDATE staged_tool s SET version_pk = v.id, is_stored = true FROM catalog_toolversion v
    WHERE v.tool_id = s.tool_pk AND v.label = s.label AND v.signature = s.signature
    """,
    """
    UPDATE staged_tool s SET version_pk = v.id, is_stored = true FROM catalog_toolversion v
    WHERE v.tool_id = s.tool_pk AND v.label = s.label AND v.digest = s.digest
    """,
)
# The one statement that writes versions: of new tools, of changed ones, and older ones out of a history.
INSERT_VERSIONS = """
    INSERT INTO catalog_toolversion (id, tool_id, ordinal, label, label_key, rewrite, digest, signature, raw,
        run_id, first_seen_at, alarms)
    SELECT s.version_pk, coalesce(s.tool_pk, s.new_pk),
        s.nth + coalesce((SELECT t.version_count FROM catalog_tool t WHERE t.id = s.tool_pk), 0),
        s.label, s.label_key,
        CASE WHEN s.label = '' OR s.tool_pk IS NULL THEN 0 ELSE s.same_label_before + (
            SELECT count(*) FROM catalog_toolversion v WHERE v.tool_id = s.tool_pk AND v.label = s.label) END,
        s.digest, s.signature, s.raw, %(run)s, now(),
        CASE WHEN s.tool_pk IS NOT NULL THEN coalesce(s.alarms, %(no_alarms)s) END
    FROM staged_tool s WHERE NOT s.is_stored
    """
CHANGE_TOOLS = (
    # Bytes that a person has decided about stay decided; others that we hold were let through before.
    """
    UPDATE staged_tool s SET stop = coalesce(
        (SELECT CASE WHEN bool_or(f.state = 'blocked') THEN 'blocked'
            WHEN bool_or(f.code = 'HELD' AND f.state = 'accepted') THEN '' ELSE 'open' END
        FROM catalog_finding f
        WHERE f.tool_id = s.tool_pk AND (f.subject = s.digest OR f.version_id = s.version_pk)
        HAVING bool_or(f.code = 'HELD' OR f.state = 'blocked')),
        CASE WHEN s.is_stored THEN '' ELSE s.stop END)
    WHERE s.tool_pk IS NOT NULL
    """,
    # What is stopped does not become current, unless nothing of the tool was let through so far.
    """
    UPDATE catalog_tool t SET current_id = s.version_pk, tool_id = s.tool_id, name = s.name, title = s.title,
        description = s.description, tags = s.tags, tokens = s.tokens, changed_at = now(),
        stopped_id = CASE WHEN s.stop <> '' THEN s.version_pk END,
        version_count = t.version_count + (NOT s.is_stored)::int, versions_read_at = NULL
    FROM staged_tool s WHERE s.tool_pk = t.id AND (s.stop = '' OR t.stopped_id = t.current_id)
    """,
    """
    UPDATE catalog_tool t SET stopped_id = s.version_pk, tool_id = s.tool_id,
        version_count = t.version_count + (NOT s.is_stored)::int, versions_read_at = NULL
    FROM staged_tool s
    WHERE s.tool_pk = t.id AND s.stop <> '' AND t.current_id <> s.version_pk
        AND t.stopped_id IS DISTINCT FROM t.current_id
    """,
    # The vendor lists the version's own document again.
    "DELETE FROM catalog_listeddocument d USING staged_tool s WHERE d.tool_id = s.tool_pk",
    # Same label, other bytes: the promise that a published version never changes is broken.
    """
    INSERT INTO catalog_finding (endpoint_id, tool_id, version_id, run_id, code, severity, subject, message,
        state, note, raised_at, against_id)
    SELECT %(endpoint)s, s.tool_pk, s.version_pk, %(run)s, 'DRIFT', 'high', s.digest,
        'The vendor changed version ' || s.label || ' of “' || left(s.name, 200) ||
        '” in place. Agents that pinned it keep their version.', 'open', '', now(),
        (SELECT v.id FROM catalog_toolversion v
        WHERE v.tool_id = s.tool_pk AND v.label = s.label AND v.id <> s.version_pk
        ORDER BY v.ordinal DESC LIMIT 1)
    FROM staged_tool s
    WHERE s.tool_pk IS NOT NULL AND s.label <> '' AND NOT s.is_stored AND EXISTS (
        SELECT FROM catalog_toolversion v
        WHERE v.tool_id = s.tool_pk AND v.label = s.label AND v.digest <> s.digest)
    ON CONFLICT DO NOTHING
    """,
)

HOLD = """
    INSERT INTO catalog_finding (endpoint_id, tool_id, version_id, run_id, code, severity, subject, message,
        state, note, raised_at, against_id)
    SELECT %(endpoint)s, t.id, s.version_pk, %(run)s, 'HELD', s.severity, s.digest,
        s.why, s.stop, '', now(), nullif(t.current_id, s.version_pk)
    FROM staged_tool s JOIN catalog_tool t ON t.id = coalesce(s.tool_pk, s.new_pk)
    WHERE s.stop <> '' AND s.why <> ''
    ON CONFLICT DO NOTHING
    """
