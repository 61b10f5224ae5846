"""The news that a release has not changed, which runtimes ask for all day, out of one indexed query; where
an agent is that was renamed; and that a release is retired.

Of the first, nothing is decided here but that one answer: whatever else there is to say, the view says it
(designer/api/release_files.py). docs/decisions/0034-unchanged-releases.md says why it stands before the view.
"""

import re
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, HttpResponseRedirect
from django.urls import ResolverMatch, resolve, reverse
from django.utils import timezone
from django.utils.encoding import iri_to_uri
from django.utils.http import http_date

from core.prepared_statements import run_together
from designer import agent_addresses, exports
from designer.models import AGENTS_OF_KEY
from designer.releases import publishing, receipts
from people import api_keys
from people.authentication import WRITE_LAST_USE_EVERY
from people.models import TEAMS_OF, ApiKey, Role, Scope, User
from people.throttling import is_within_limit

_PATH = re.compile(
    r"/api/v1/agents/([-\w]{1,60})/releases/([-\w:]{1,71})/(?:agents/([-\w]{1,60})/)?(tools|bundle)/",
    re.ASCII,
)
_FORMAT = re.compile(r"format=([a-z0-9-]{1,30})")
# The rules are those of ApiKeyAuthentication, RolePermission and releases.find, in one question. A key that
# has not been used for an hour, or not for this release in the last minute, goes on to the view, which
# writes that down. So does one that asks for a retired release: there is more to say about it.
_ASK = f"""
    SELECT key.id, owner.id, release.digest
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
        AND key.digest = %(key)s AND key.revoked_at IS NULL AND '{Scope.RUNTIME}' = ANY (key.scopes)
        AND (key.expires_at IS NULL OR key.expires_at > %(now)s) AND key.last_used_at >= %(lately)s
"""  # noqa: S608 - constant texts
# A format that cannot carry a release has none there: the view answers 409.
_IS_WRITTEN = """
        AND EXISTS (SELECT FROM designer_export WHERE release_id = release.id AND format = %(format)s)
"""
_WHICH = {
    "number": "AND number = %(number)s",
    "digest": "AND digest = %(digest)s",
    "channels__name": """AND id = (
        SELECT release_id FROM designer_channel WHERE agent_id = agent.id AND name = %(channels__name)s)""",
}


class DeprecationMiddleware:
    """What REST answers at an agent's earlier address, or about a retired release: since when, until when and
    what succeeds it (RFC 9745, RFC 8594, RFC 8288). The views say which it is.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        left = getattr(request, "moved_agent", None)
        retired = getattr(request, "retired_release", None)
        match = request.resolver_match
        if match is None or not (left or retired):
            return response
        succeeds, since = dict(match.kwargs), []
        if left:
            since.append(left.since)
            # A release names its own agent as one of those that it holds.
            if succeeds.get("sub") == succeeds["slug"]:
                succeeds["sub"] = left.agent.slug
            succeeds["slug"] = left.agent.slug
        if retired:
            since.append(retired.since)
            if retired.sunset_at:
                response["Sunset"] = http_date(retired.sunset_at.timestamp())
            # An address that names no release, such as that of a call, has none that succeeds it.
            if "number" in succeeds:
                succeeds["number"] = retired.successor
        # RFC 9745 knows one date; the header says since when this address is not the one to use.
        response["Deprecation"] = f"@{int(min(since).timestamp())}"
        # Without a successor there is nothing to lead to.
        if succeeds != match.kwargs and succeeds.get("number", "") is not None:
            new, query = reverse(match.view_name, kwargs=succeeds), request.META.get("QUERY_STRING", "")
            response["Link"] = f'<{iri_to_uri(f"{new}?{query}") if query else new}>; rel="successor-version"'
        return response


class MovedAgentMiddleware:
    """A page at an agent's earlier address leads to the new one, and a form is sent on to there; see
    designer/agent_addresses.py.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        match = request.resolver_match
        slug = match.kwargs.get("slug") if match else None
        if (
            response.status_code == HTTPStatus.NOT_FOUND
            and match
            and slug
            and request.path.startswith("/agents/")
            and isinstance(request.user, User)
            and (left := agent_addresses.moved_from(slug, request.user))
        ):
            query = request.META.get("QUERY_STRING", "")
            new = reverse(match.view_name, args=match.args, kwargs={**match.kwargs, "slug": left.agent.slug})
            # 307 keeps what was typed, which was allowed here: CSRF and role are judged before the view. It
            # is 302 and 307, not 301 and 308, which browsers remember: the agent may have its address back.
            is_form = request.method not in ("GET", "HEAD")
            return HttpResponseRedirect(f"{new}?{query}" if query else new, preserve_request=is_form)
        return response


class UnchangedReleaseMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return _unchanged(request) or self.get_response(request)


def _unchanged(request: HttpRequest) -> HttpResponse | None:
    asked = request.META.get("HTTP_IF_NONE_MATCH")
    scheme, _, given = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if not asked or request.method != "GET" or scheme.lower() != "bearer":
        return None
    found = _PATH.fullmatch(request.path_info)
    key = given.strip()
    if found is None or not api_keys.is_well_formed(key):
        return None
    slug, name, part, kind = found.groups()
    which, query = publishing.release_conditions(name), request.META.get("QUERY_STRING", "")
    chosen = _FORMAT.fullmatch(query)
    is_export = kind == "tools" and chosen is not None and chosen[1] in _formats()
    if which is None or not (is_export or (kind == "bundle" and not query and not part)):
        return None
    text = _ASK.format(which="".join(_WHICH[column] for column in which))
    surface = chosen[1] if chosen else kind
    if part and part != slug:
        (surface,) = publishing.export_names(surface, is_partial=False, sub_agent=part)
    facts = {**which, "slug": slug, "key": ApiKey.digest_of(key), "format": surface, "surface": surface}
    facts["channel"] = receipts.channel_in(name)
    row = _asked(text + (_IS_WRITTEN if is_export else ""), facts)
    # Not a refusal: the view finds out why, and says it.
    if row is None:
        return None
    key, owner, digest = row
    if not publishing.etag_matches(digest, asked) or not is_within_limit("read", owner, key, time.time()):
        return None
    request.resolver_match = _match(f"agents/a/{kind}" if part else kind)
    request.user = SimpleNamespace(pk=owner)  # type: ignore[assignment]
    headers = {
        "Allow": "GET, HEAD, OPTIONS",
        "ETag": f'"{digest}"',
        "Cache-Control": publishing.CACHE_CONTROL,
    }
    return HttpResponseNotModified(headers=headers)


def _asked(text: str, facts: dict[str, Any]) -> tuple[int, int, str] | None:
    """The ids of key and owner, and the digest; None if the view has to answer."""
    now = timezone.now()
    moments = {"now": now, "lately": now - WRITE_LAST_USE_EVERY, "noted": now - receipts.WRITE_EVERY}
    try:
        (rows,) = run_together((text, {**facts, **moments}), is_checked=False)
    except DatabaseError:
        # The database may be away: then the view finds that out, and says so.
        connection.close()
        return None
    return rows[0] if rows else None


@cache
def _formats() -> frozenset[str]:
    # What a format says of environments may have changed while the release has not.
    return frozenset(format_.name for format_ in exports.FORMATS if format_.resolve is None)


@cache
def _match(what: str) -> ResolverMatch:
    # By its name the request is counted and told of in the log.
    return resolve(f"/api/v1/agents/a/releases/1/{what}/")
