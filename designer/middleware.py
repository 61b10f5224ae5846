"""Middleware for releases and agents: unchanged releases, renamed agents and retired releases.

Runtimes ask all day whether a release has changed; one indexed query answers 304. The view gives every other
answer (designer/api/release_files.py). docs/decisions/0034-unchanged-releases.md has the reason why this runs
before the view.
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

from designer import exports
from designer.agents import agent_addresses
from designer.releases import publishing, readable
from designer.releases.readable import ReleaseRequest
from people.models import User
from people.throttling import is_within_limit

_PATH = re.compile(
    r"/api/v1/agents/([-\w]{1,60})/releases/([-\w:]{1,71})/(?:agents/([-\w]{1,60})/)?(tools|bundle)/",
    re.ASCII,
)
_FORMAT = re.compile(r"format=([a-z0-9-]{1,30})")


class DeprecationMiddleware:
    """Adds the headers for an agent's earlier address and for a retired release: since when, until when, and
    the successor (RFC 9745, RFC 8594, RFC 8288). The views set the facts on the request.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        moved = getattr(request, "moved_agent", None)
        retired = getattr(request, "retired_release", None)
        match = request.resolver_match
        if match is None or not (moved or retired):
            return response
        successor, since = dict(match.kwargs), []
        if moved:
            since.append(moved.since)
            # A release contains its own agent under its own slug.
            if successor.get("sub") == successor["slug"]:
                successor["sub"] = moved.agent.slug
            successor["slug"] = moved.agent.slug
        if retired:
            since.append(retired.since)
            if retired.sunset_at:
                response["Sunset"] = http_date(retired.sunset_at.timestamp())
            # An address without a release, such as that of a call, has no successor.
            if "number" in successor:
                successor["number"] = retired.successor
        # RFC 9745 allows one date: the one since when this address should not be used.
        response["Deprecation"] = f"@{int(min(since).timestamp())}"
        # Without a successor there is no link.
        if successor != match.kwargs and successor.get("number", "") is not None:
            new, query = reverse(match.view_name, kwargs=successor), request.META.get("QUERY_STRING", "")
            response["Link"] = f'<{iri_to_uri(f"{new}?{query}") if query else new}>; rel="successor-version"'
        return response


class MovedAgentMiddleware:
    """Redirects a page or a form at an agent's earlier address to its current one; see
    designer/agents/agent_addresses.py.
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
            and (moved := agent_addresses.find_moved(slug, request.user))
        ):
            query = request.META.get("QUERY_STRING", "")
            new = reverse(match.view_name, args=match.args, kwargs={**match.kwargs, "slug": moved.agent.slug})
            # 307 preserves the form, which was authorized here: CSRF and role are checked before the view.
            # 302 and 307, not 301 and 308, which browsers cache: the agent may get its address back.
            is_form = request.method not in ("GET", "HEAD")
            return HttpResponseRedirect(f"{new}?{query}" if query else new, preserve_request=is_form)
        return response


class UnchangedReleaseMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return _answer_unchanged(request) or self.get_response(request)


def _answer_unchanged(request: HttpRequest) -> HttpResponse | None:
    release_read = parse_conditional_read(request.META)
    # The view finds the reason and reports it.
    if release_read is None or (access := readable.find_access(release_read)) is None:
        return None
    if not publishing.etag_matches(access.digest, request.META["HTTP_IF_NONE_MATCH"]):
        return None
    if not is_within_limit("read", access.owner, access.key, time.time()):
        return None
    kind = "tools" if release_read.is_export else "bundle"
    request.resolver_match = _view_of(f"agents/a/{kind}" if release_read.sub_agent else kind)
    request.user = SimpleNamespace(pk=access.owner)  # type: ignore[assignment]
    readable.mark_answered(request.META, access.key, access.release)
    headers = {
        "Allow": "GET, HEAD, OPTIONS",
        "ETag": f'"{access.digest}"',
        "Cache-Control": publishing.CACHE_CONTROL,
    }
    return HttpResponseNotModified(headers=headers)


def parse_conditional_read(meta: Mapping[str, Any]) -> ReleaseRequest | None:
    """Parse a request with If-None-Match for which 304 is the whole answer if the release is readable and
    unchanged.
    """
    if not meta.get("HTTP_IF_NONE_MATCH") or meta["REQUEST_METHOD"] != "GET":
        return None
    path_match = _PATH.fullmatch(meta["PATH_INFO"])
    if path_match is None:
        return None
    slug, name, part, kind = path_match.groups()
    query = meta.get("QUERY_STRING", "")
    format_match = _FORMAT.fullmatch(query)
    is_export = kind == "tools" and format_match is not None and format_match[1] in _cacheable_formats()
    if not (is_export or (kind == "bundle" and not query and not part)):
        return None
    return readable.parse_request(
        meta, slug, name, format_match[1] if format_match else kind, part or "", is_export=is_export
    )


@cache
def _cacheable_formats() -> frozenset[str]:
    # The text of the other formats may depend on environments, which change while the release does not.
    return frozenset(format_.name for format_ in exports.FORMATS if format_.resolve is None)


@cache
def _view_of(suffix: str) -> ResolverMatch:
    # The log and the metrics name a request by its view.
    return resolve(f"/api/v1/agents/a/releases/1/{suffix}/")
