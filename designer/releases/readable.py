"""Check with one prepared statement whether a key may read a release now, and which one that is.

For frequent requests of runtimes, and stricter than the views: if it finds nothing, the view decides and
explains. docs/decisions/0034-unchanged-releases.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from django.db import DatabaseError, connection
from django.utils import timezone

from core.prepared_statements import run_together
from designer.models import AGENTS_OF_KEY
from designer.releases import publishing, receipts
from people import api_keys
from people.authentication import LAST_USE_INTERVAL
from people.models import TEAMS_OF, ApiKey, Role, Scope

# One statement with the rules of ApiKeyAuthentication, RolePermission and publishing.find. A key that was not
# used in the last hour, or not for this release in the last minute, is left to the view, which records the
# use. So is a request for a retired release, whose response has more headers.
_STATEMENT = f"""
    SELECT key.id, owner.id, release.id, release.digest
    FROM people_apitoken key
    JOIN people_user owner ON owner.id = key.user_id AND owner.is_active
    JOIN designer_agent agent ON agent.slug = %(slug)s AND agent.removed_at IS NULL
        AND (owner.role = '{Role.ADMIN}' OR agent.team_id IN ({TEAMS_OF.replace("%s", "owner.id")}))
        AND (NOT key.is_narrowed OR agent.id IN ({AGENTS_OF_KEY.replace("%s", "key.id")}))
    JOIN LATERAL (
        SELECT id, digest FROM designer_release WHERE agent_id = agent.id {{which}}
        ORDER BY number DESC LIMIT 1
    ) release ON true
    JOIN designer_receipt receipt ON receipt.key_id = key.id AND receipt.release_id = release.id
        AND receipt.surface = %(surface)s AND receipt.channel = %(channel)s AND receipt.last_at > %(noted)s
    WHERE NOT EXISTS (SELECT FROM designer_retirement WHERE release_id = release.id)
        AND key.digest = %(key)s AND key.revoked_at IS NULL AND {{scope}}
        AND (key.expires_at IS NULL OR key.expires_at > %(now)s) AND key.last_used_at >= %(lately)s
"""  # noqa: S608 - constant texts
# A format that cannot carry a release has no export: the view answers 409.
_IS_WRITTEN = """
        AND EXISTS (SELECT FROM designer_export WHERE release_id = release.id AND format = %(surface)s)
"""
_CONDITIONS = {
    "number": "AND number = %(number)s",
    "digest": "AND digest = %(digest)s",
    "channels__name": """AND id = (
        SELECT release_id FROM designer_channel WHERE agent_id = agent.id AND name = %(channels__name)s)""",
}


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A request for a release. `surface`: its name in receipts. `which`: a condition on the release. `key`:
    the API key as sent.
    """

    slug: str
    name: str
    which: Mapping[str, str | int]
    surface: str
    key: str
    sub_agent: str = ""
    is_export: bool = False
    # Keys whose scope only allows running tools may read it too.
    is_open_to_calls: bool = False


class ReadAccess(NamedTuple):
    """Primary keys, and the digest of the release."""

    key: int
    owner: int
    release: int
    digest: str


def parse_request(
    meta: Mapping[str, Any], slug: str, name: str, surface: str, sub_agent: str = "", **kind: bool
) -> ReleaseRequest | None:
    """Return None for a request without an API key, and for a name that cannot be a release's."""
    scheme, _, credentials = meta.get("HTTP_AUTHORIZATION", "").partition(" ")
    key, condition = credentials.strip(), publishing.release_conditions(name)
    if scheme.lower() != "bearer" or condition is None or not api_keys.SHAPE.fullmatch(key):
        return None
    if sub_agent and sub_agent != slug:
        (surface,) = publishing.export_names(surface, is_partial=False, sub_agent=sub_agent)
    return ReleaseRequest(slug, name, condition, surface, key, sub_agent, **kind)


def find_access(wanted: ReleaseRequest) -> ReadAccess | None:
    current_time = timezone.now()
    facts = {
        **wanted.which,
        "slug": wanted.slug,
        "key": ApiKey.digest_of(wanted.key),
        "surface": wanted.surface,
        "channel": receipts.channel_in(wanted.name),
        "now": current_time,
        "lately": current_time - LAST_USE_INTERVAL,
        "noted": current_time - receipts.WRITE_INTERVAL,
    }
    (column,) = wanted.which
    text = _statement_text(column, is_export=wanted.is_export, is_open_to_calls=wanted.is_open_to_calls)
    try:
        (rows,) = run_together((text, facts), is_checked=False)
    except DatabaseError:
        # The database may be unavailable: the view finds out and reports it.
        connection.close()
        return None
    return ReadAccess(*rows[0]) if rows else None


ANSWERED = "pegboard.answered"


def mark_answered(meta: dict[str, Any], key: int, release: int) -> None:
    """Record in the request which key and which release were answered, for the code around the views."""
    meta[ANSWERED] = key, release


@cache
def _statement_text(column: str, *, is_export: bool, is_open_to_calls: bool) -> str:
    scopes = (Scope.RUNTIME, Scope.INVOKE) if is_open_to_calls else (Scope.RUNTIME,)
    scope = " OR ".join(f"'{name}' = ANY (key.scopes)" for name in scopes)
    return _STATEMENT.format(which=_CONDITIONS[column], scope=f"({scope})") + (
        _IS_WRITTEN if is_export else ""
    )
