"""Middleware for renamed agents and retired releases."""

from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.encoding import iri_to_uri
from django.utils.http import http_date

from designer.agents import agent_addresses
from people.models import User


class DeprecationMiddleware:
    """Adds the headers for an agent's earlier address and for a retired release: since when, until when, and
    the successor (RFC 9745, RFC 8594, RFC 8288). The views set the facts on the request.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        add_deprecation_headers(request, response)
        return response


def add_deprecation_headers(request: HttpRequest, response: HttpResponseBase) -> None:
    """Add the headers if the view has set `moved_agent` or `retired_release` on the request."""
    moved = getattr(request, "moved_agent", None)
    retired = getattr(request, "retired_release", None)
    match = request.resolver_match
    if match is None or not (moved or retired):
        return
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
