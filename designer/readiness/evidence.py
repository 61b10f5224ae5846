"""The newest calls of tools by version and implementation, as evidence that the tools work."""

from collections.abc import Iterable, Mapping

from core.prepared_statements import run_prepared
from designer.readiness.judgement import LastCall

# A tool, its version, and the version of the activity that ran; 0 for the vendor.
Ran = tuple[int, int, int]
# Of each tool; evidence behind so many newer calls of other versions and agents is not looked for.
CALLS_READ = 200


def last_calls(runs: Iterable[Ran], agents: Iterable[int]) -> Mapping[Ran, LastCall]:
    """Return the newest call of each member of `runs` for one of these agents, or for none, in one query."""
    requested = set(runs)
    if not requested:
        return {}
    rows = run_prepared(_LAST_CALLS, [list({tool for tool, *_ in requested}), list(agents)])
    calls = {
        (tool, version, activity): LastCall(finished_at, outcome == "ok", code)
        for tool, version, activity, finished_at, outcome, code in rows
    }
    return {ran: call for ran, call in calls.items() if ran in requested}


_LAST_CALLS = f"""
    SELECT DISTINCT ON (recent.tool_id, recent.version_id, recent.ran)
        recent.tool_id, recent.version_id, recent.ran, recent.finished_at, recent.outcome, recent.error_code
    FROM unnest(%s::bigint[]) AS asked (tool) CROSS JOIN LATERAL (
        SELECT id, tool_id, version_id, coalesce(activity_id, 0) AS ran, agent, finished_at, outcome,
            error_code
        FROM catalog_call WHERE tool_id = asked.tool ORDER BY id DESC LIMIT {CALLS_READ}
    ) recent
    WHERE recent.finished_at IS NOT NULL AND (recent.agent IS NULL OR recent.agent = ANY(%s::bigint[]))
        AND recent.outcome IN ('ok', 'tool_error', 'unavailable')
    ORDER BY recent.tool_id, recent.version_id, recent.ran, recent.id DESC
"""  # noqa: S608 - the limit is a constant above
