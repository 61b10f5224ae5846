"""Find the release that a reader may have now. One SQL text states who reaches which agent.

It is the same rule as `AgentQuerySet.visible_to`, as constant SQL: each request of a runtime runs it, and
building a queryset takes longer than running the statement. docs/decisions/0096-gateway.md.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import DatabaseError, connection
from django.utils import timezone

from core.compiled_queries import build_instance
from core.prepared_statements import read_prepared, run_prepared
from designer.models import AGENTS_OF_KEY, Agent, CallEnvironment, Release, Retirement
from designer.releases import channels, receipts
from people.authentication import KEY_COLUMN_COUNT, KEY_COLUMNS, KEY_TABLES, LAST_USE_INTERVAL, build_key
from people.models import TEAMS_OF, ApiKey, Role, User, is_key_usable
from people.permissions import allows

# The release with this name, if `owner` (a user) reaches its agent with `key` (an API key, or no row).
_REACHABLE_RELEASE = f"""LATERAL (
    SELECT release.id, release.agent_id, release.number, release.digest, agent.slug, agent.name
    FROM designer_agent agent JOIN designer_release release ON release.agent_id = agent.id
    WHERE agent.slug = %(slug)s AND agent.removed_at IS NULL AND {{condition}}
        AND (owner.role = '{Role.ADMIN}' OR agent.team_id IN ({TEAMS_OF.replace("%s", "owner.id")}))
        AND (key.is_narrowed IS NOT TRUE OR agent.id IN ({AGENTS_OF_KEY.replace("%s", "key.id")}))
) release ON true LEFT JOIN designer_retirement retirement ON retirement.release_id = release.id"""  # noqa: S608 - constant texts
_CONDITIONS = {
    "number": "release.number = %(number)s",
    # Publishing the same content again makes another release with the same digest. The newest one counts.
    "digest": """release.number = (
        SELECT max(number) FROM designer_release WHERE agent_id = agent.id AND digest = %(digest)s)""",
    "channels__name": """release.id = (
        SELECT release_id FROM designer_channel WHERE agent_id = agent.id AND name = %(channels__name)s)""",
}
_RELEASE_COLUMNS = """
    release.id, release.agent_id, release.number, release.digest, release.slug, release.name,
    retirement.retired_at, retirement.sunset_at, ARRAY(
        SELECT place.id || ' ' || place.is_default || ' ' || place.name
        FROM designer_environment place WHERE place.agent_id = release.agent_id ORDER BY place.name
    ) AS places"""
_FIND = f"""
    SELECT {_RELEASE_COLUMNS}, ARRAY(
        SELECT export.format FROM designer_export export
        WHERE export.release_id = release.id AND export.format = ANY(%(formats)s)
    ) AS written
    FROM people_user owner LEFT JOIN people_apitoken key ON key.id = %(key)s JOIN {_REACHABLE_RELEASE}
    WHERE owner.id = %(reader)s
"""  # noqa: S608 - constant texts
_FIND_KEY = f"""
    SELECT {KEY_COLUMNS}, {_RELEASE_COLUMNS} FROM {KEY_TABLES} LEFT JOIN {_REACHABLE_RELEASE}
    WHERE key.digest = %(key)s
"""  # noqa: S608 - constant texts
# Finds no row where a view has something to write, to add or to refuse: the hourly last use of the key, the
# receipt of the minute, the headers of a retired release, an environment of the key that was removed.
_FIND_READ_ACCESS = f"""
    SELECT key.id, key.scopes, key.is_narrowed, key.revoked_at, key.expires_at, owner.id, owner.is_active,
        release.id, release.digest
    FROM {KEY_TABLES} JOIN {_REACHABLE_RELEASE}
    JOIN designer_receipt receipt ON receipt.key_id = key.id AND receipt.release_id = release.id
        AND receipt.surface = %(surface)s AND receipt.channel = %(channel)s
        AND receipt.last_at > %(receipts_since)s
    WHERE key.digest = %(key)s AND key.last_used_at >= %(used_since)s AND retirement.release_id IS NULL
        AND (key.environment = '' OR EXISTS (
            SELECT FROM designer_environment WHERE agent_id = release.agent_id AND name = key.environment))
"""  # noqa: S608 - constant texts


def release_conditions(text: str) -> dict[str, str | int] | None:
    """Parse the name of a release into a condition: a number, `sha256:DIGEST`, or a channel. None if it
    cannot name a release.
    """
    if channels.NAME.fullmatch(text):
        return {"channels__name": text}
    if re.fullmatch("[0-9]{1,9}", text):
        return {"number": int(text)}
    if re.fullmatch("sha256:[0-9a-f]{64}", text):
        return {"digest": text.removeprefix("sha256:")}
    return None


def find_release(
    slug: str, name: str, reader: User, key: ApiKey | None = None, *, formats: Sequence[str] = ()
) -> Release | None:
    """Return the release with this name, without its document. None if there is none, or if `reader` may not
    see its agent with this key.

    Sets `written`: those of `formats` that are stored; `places`: the agent's environments; and the dates of
        its retirement.
    """
    if (condition := release_conditions(name)) is None:
        return None
    values = {
        **condition,
        "slug": slug,
        "reader": reader.pk,
        "key": key.pk if key else None,
        "formats": list(formats),
    }
    rows = run_prepared(_with_condition(_FIND, *condition), values)
    if not rows:
        return None
    *release_columns, stored_formats = rows[0]
    release = _build_release(release_columns)
    release.written = stored_formats
    return release


def find_key_and_release(key_digest: str, slug: str, name: str) -> tuple[ApiKey | None, Release | None]:
    """Return the API key with its owner, and the release that it reaches by this name, as `find_release`
    does without `formats`.
    """
    if (condition := release_conditions(name)) is None:
        condition = {"number": -1}
    values = {**condition, "slug": slug, "key": key_digest}
    rows = read_prepared(_with_condition(_FIND_KEY, *condition), values)
    if not rows:
        return None, None
    key_columns, release_columns = rows[0][:KEY_COLUMN_COUNT], rows[0][KEY_COLUMN_COUNT:]
    return build_key(key_columns), _build_release(release_columns) if release_columns[0] else None


def _build_release(columns: Sequence[Any]) -> Release:
    *release_columns, slug, agent_name, retired_at, sunset_at, places = columns
    release = build_instance(Release, ("id", "agent_id", "number", "digest"), release_columns)
    release.agent = build_instance(Agent, ("id", "slug", "name"), (release.agent_id, slug, agent_name))
    release.written = []
    release.places = [CallEnvironment.parse(text) for text in places]
    # As `select_related` sets it, so that no other query checks for one.
    retirement = (
        Retirement(release=release, retired_at=retired_at, sunset_at=sunset_at) if retired_at else None
    )
    Release.retirement.related.set_cached_value(release, retirement)
    return release


@dataclass(frozen=True, slots=True)
class ReleaseRead:
    """A read of a release with an API key.

    surface: its name in receipts. view: declares the scopes that may read (people/permissions.py).
    """

    slug: str
    name: str
    surface: str
    api_key: str
    view: type


class ReadAccess(NamedTuple):
    """The facts that decide whether a key may read a release. release_digest: identifies the reply."""

    key_id: int
    scopes: Sequence[str]
    is_narrowed: bool
    revoked_at: datetime | None
    expires_at: datetime | None
    owner_id: int
    is_owner_active: bool
    release_id: int
    release_digest: str

    def allows(self, view: type, now: datetime) -> bool:
        return (
            self.is_owner_active
            and is_key_usable(self.revoked_at, self.expires_at, now)
            and allows(self, view, "GET", Role.VIEWER)
        )


def find_read_access(read: ReleaseRead) -> ReadAccess | None:
    """Return the access of the key to the release. None if it has none, or if a view has to answer."""
    if (condition := release_conditions(read.name)) is None:
        return None
    now = timezone.now()
    values = {
        **condition,
        "slug": read.slug,
        "key": ApiKey.digest_of(read.api_key),
        "surface": read.surface,
        "channel": receipts.channel_in(read.name),
        "used_since": now - LAST_USE_INTERVAL,
        "receipts_since": now - receipts.WRITE_INTERVAL,
    }
    try:
        rows = read_prepared(_with_condition(_FIND_READ_ACCESS, *condition), values)
    except DatabaseError:
        # The database may be unavailable: the view finds out and reports it.
        connection.close()
        return None
    if not rows:
        return None
    access = ReadAccess(*rows[0])
    return access if access.allows(read.view, now) else None


@cache
def _with_condition(statement: str, column: str) -> str:
    return statement.format(condition=_CONDITIONS[column])


ANSWERED_IN_ENVIRON = "pegboard.answered"


def mark_answered(environ: dict[str, Any], key: ApiKey | None, release: Release) -> None:
    """Record in the WSGI environ which key and release the reply is for, so that the gateway may keep it."""
    if key:
        environ[ANSWERED_IN_ENVIRON] = key.pk, release.pk
