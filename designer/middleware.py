"""The news that a release has not changed, which runtimes ask for all day, out of one indexed query; where
an agent is that was renamed; and that a release is retired.

Of the first, nothing is decided here but that one answer: whatever else there is to say, the view says it
(designer/api/release_files.py). docs/decisions/0034-unchanged-releases.md says why it stands before the view.
"""

import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, HttpResponseRedirect
from django.urls import ResolverMatch, resolve, reverse
from django.utils.encoding import iri_to_uri
from django.utils.http import http_date

from designer import agent_addresses, exports
from designer.releases import publishing, readable
from designer.releases.readable import Wanted
from people.models import User
from people.throttling import is_within_limit

_PATH = re.compile(
    r"/api/v1/agents/([-\w]{1,60})/releases/([-\w:]{1,71})/(?:agents/([-\w]{1,60})/)?(tools|bundle)/",
    re.ASCII,
)
_FORMAT = re.compile(r"format=([a-z0-9-]{1,30})")


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
    found = fetched(request.META)
    # Not a refusal: the view finds out why, and says it.
    if found is None or (known := readable.read(found)) is None:
        return None
    if not publishing.etag_matches(known.digest, request.META["HTTP_IF_NONE_MATCH"]):
        return None
    if not is_within_limit("read", known.owner, known.key, time.time()):
        return None
    kind = "tools" if found.is_export else "bundle"
    request.resolver_match = _match(f"agents/a/{kind}" if found.sub_agent else kind)
    request.user = SimpleNamespace(pk=known.owner)  # type: ignore[assignment]
    readable.tell(request.META, known.key, known.release)
    headers = {
        "Allow": "GET, HEAD, OPTIONS",
        "ETag": f'"{known.digest}"',
        "Cache-Control": publishing.CACHE_CONTROL,
    }
    return HttpResponseNotModified(headers=headers)


def fetched(meta: Mapping[str, Any]) -> Wanted | None:
    """What is asked for with If-None-Match, where nothing but 304 could be said of a release that is readable
    and has that digest."""
    if not meta.get("HTTP_IF_NONE_MATCH") or meta["REQUEST_METHOD"] != "GET":
        return None
    found = _PATH.fullmatch(meta["PATH_INFO"])
    if found is None:
        return None
    slug, name, part, kind = found.groups()
    query = meta.get("QUERY_STRING", "")
    chosen = _FORMAT.fullmatch(query)
    is_export = kind == "tools" and chosen is not None and chosen[1] in _formats()
    if not (is_export or (kind == "bundle" and not query and not part)):
        return None
    return readable.wanted(meta, slug, name, chosen[1] if chosen else kind, part or "", is_export=is_export)


@cache
def _formats() -> frozenset[str]:
    # What a format says of environments may have changed while the release has not.
    return frozenset(format_.name for format_ in exports.FORMATS if format_.resolve is None)


@cache
def _match(what: str) -> ResolverMatch:
    # By its name the request is counted and told of in the log.
    return resolve(f"/api/v1/agents/a/releases/1/{what}/")
