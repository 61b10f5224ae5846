"""Invariants of decisions and releases; see catalog/invariants.py."""

from catalog.invariants import Claim, rows
from core.own_commands import MANAGE

# The rows that a user creates, with the kind and action of their audit entries.
_AUDITED_ROWS = (
    ("designer_release", "release", "publish"),
    ("designer_pin", "pin", "pin"),
)

CLAIMS = (
    Claim(
        "release_digests",
        "the document of every release is the one that its digest names",
        "Restore the database from a backup: what was published has been changed by hand.",
        rows(
            "SELECT 'release ' || id FROM designer_release"
            " WHERE encode(sha256(convert_to(document, 'UTF8')), 'hex') <> digest ORDER BY id"
        ),
    ),
    Claim(
        "release_numbers",
        "the releases of every agent are counted without a gap",
        "Restore the database from a backup: releases are missing.",
        rows(
            "SELECT 'agent ' || agent_id FROM designer_release GROUP BY agent_id"
            " HAVING count(*) <> max(number) ORDER BY agent_id"
        ),
    ),
    Claim(
        "channels_in_their_agent",
        "every channel points to a release of its own agent",
        "Move the channel to one of the agent's releases.",
        rows(
            "SELECT 'channel ' || c.id FROM designer_channel c JOIN designer_release r ON r.id = c.release_id"
            " WHERE r.agent_id <> c.agent_id ORDER BY c.id"
        ),
    ),
    Claim(
        "channels_off_retired_releases",
        "no channel points to a retired release",
        "Move the channel to another release, or restore the release on its page.",
        rows(
            "SELECT 'channel ' || c.id FROM designer_channel c"
            " JOIN designer_retirement r ON r.release_id = c.release_id ORDER BY c.id"
        ),
    ),
    Claim(
        "pinned_versions",
        "every pin refers to a version of its own tool",
        "Remove the pin and pin the tool again.",
        rows(
            "SELECT 'pin ' || p.id FROM designer_pin p JOIN catalog_toolversion v ON v.id = p.version_id"
            " WHERE v.tool_id <> p.tool_id ORDER BY p.id"
        ),
    ),
    Claim(
        "transfers_to_children",
        "every agent transfers to its own sub-agents and to no other",
        "Take the sub-agent out from below its parent, and put it back.",
        rows(
            "SELECT 'agent ' || coalesce(t.child_id, a.id) FROM designer_transfer t"
            " FULL JOIN (SELECT * FROM designer_agent WHERE removed_at IS NULL) a ON a.id = t.child_id"
            " WHERE t.agent_id IS DISTINCT FROM a.parent_id ORDER BY 1"
        ),
    ),
    *[
        Claim(
            f"audited_{kind}s",
            f"the audit trail has an entry for every {kind}",
            f"Run {MANAGE} verify_audit: rows of the trail may be missing.",
            rows(
                # The names are the constants above.
                f"SELECT '{kind} ' || made.id FROM {table} made WHERE NOT EXISTS ("  # noqa: S608
                "SELECT FROM people_auditentry a WHERE a.kind = %s AND a.action = %s"
                " AND a.object_id = made.id::text) ORDER BY made.id",
                kind,
                verb,
            ),
        )
        for table, kind, verb in _AUDITED_ROWS
    ],
)
