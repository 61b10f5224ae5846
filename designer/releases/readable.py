"""Whether a key may read a release now, and which one that is: one prepared question.

It is for what runtimes ask all day, and is stricter than the views: where it finds nothing, the view decides
and says what there is to say. docs/decisions/0034-unchanged-releases.md.
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

# The rules are those of ApiKeyAuthentication, RolePermission and releases.find, in one question. A key that
# has not been used for an hour, or not for this release in the last minute, goes on to the view, which
# writes that down. So does one that asks for a retired release: there is more to say about it.
_ASK = f"""
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
# A format that cannot carry a release has none there: the view answers 409.
_IS_WRITTEN = """
        AND EXISTS (SELECT FROM designer_export WHERE release_id = release.id AND format = %(surface)s)
"""
_WHICH = {
    "number": "AND number = %(number)s",
    "digest": "AND digest = %(digest)s",
    "channels__name": """AND id = (
        SELECT release_id FROM designer_channel WHERE agent_id = agent.id AND name = %(channels__name)s)""",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request asks for. `surface` is what a receipt names it by, `which` one condition on the release
    and `key` the API key as it was sent."""

    slug: str
    name: str
    which: Mapping[str, str | int]
    surface: str
    key: str
    sub_agent: str = ""
    is_export: bool = False
    # To the scope of keys that only run tools.
    is_open_to_calls: bool = False


class Readable(NamedTuple):
    """Primary keys, and the digest of the release."""

    key: int
    owner: int
    release: int
    digest: str


def wanted(
    meta: Mapping[str, Any], slug: str, name: str, surface: str, sub_agent: str = "", **kind: bool
) -> Wanted | None:
    """None for what is asked without an API key, and for what can name no release."""
    scheme, _, given = meta.get("HTTP_AUTHORIZATION", "").partition(" ")
    key, which = given.strip(), publishing.release_conditions(name)
    if scheme.lower() != "bearer" or which is None or not api_keys.SHAPE.fullmatch(key):
        return None
    if sub_agent and sub_agent != slug:
        (surface,) = publishing.export_names(surface, is_partial=False, sub_agent=sub_agent)
    return Wanted(slug, name, which, surface, key, sub_agent, **kind)


def read(wanted: Wanted) -> Readable | None:
    now = timezone.now()
    facts = {
        **wanted.which,
        "slug": wanted.slug,
        "key": ApiKey.digest_of(wanted.key),
        "surface": wanted.surface,
        "channel": receipts.channel_in(wanted.name),
        "now": now,
        "lately": now - LAST_USE_INTERVAL,
        "noted": now - receipts.WRITE_EVERY,
    }
    (column,) = wanted.which
    text = _text(column, is_export=wanted.is_export, is_open_to_calls=wanted.is_open_to_calls)
    try:
        (rows,) = run_together((text, facts), is_checked=False)
    except DatabaseError:
        # The database may be away: then the view finds that out, and says so.
        connection.close()
        return None
    return Readable(*rows[0]) if rows else None


ANSWERED = "pegboard.answered"


def tell(meta: dict[str, Any], key: int, release: int) -> None:
    """Has what stands around the views know with which key and from which release a request was answered."""
    meta[ANSWERED] = key, release


@cache
def _text(column: str, *, is_export: bool, is_open_to_calls: bool) -> str:
    scopes = (Scope.RUNTIME, Scope.INVOKE) if is_open_to_calls else (Scope.RUNTIME,)
    scope = " OR ".join(f"'{each}' = ANY (key.scopes)" for each in scopes)
    return _ASK.format(which=_WHICH[column], scope=f"({scope})") + (_IS_WRITTEN if is_export else "")
