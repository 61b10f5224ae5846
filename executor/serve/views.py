"""The door of all served protocols: whose key it is, how often it has asked, and which release is meant.

Plain Django, because these are the most frequent requests of all. Keys, scopes and limits are judged by the
code that judges them for REST.
"""

import select
import socket
from dataclasses import replace
from functools import partial
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods
from rest_framework.exceptions import APIException, NotAuthenticated

from core.db_errors import database_state
from core.errors import DomainError
from core.public_url import is_foreign_page, public_url, runtimes_url
from designer import access_tokens
from designer.access_tokens import ROOT, RuntimeAuthentication
from designer.api.asked_releases import found_release
from designer.releases import publishing, readable, receipts
from executor import serve as served
from executor.calls import shown
from executor.serve.base import Caller, Operations, note_refusal, refusal_of
from people.models import Role
from people.permissions import allows, public, reason_against
from protocols.server import Refusal, Reply, Request, Server, json_reply

_keys = RuntimeAuthentication()
# That its other end was closed: not all systems tell of it before something is written.
_HANGS_UP = getattr(select, "POLLRDHUP", 0)


class _Listing:
    """What `allows` asks of a view: a key of the scope `invoke` lists what it may run."""

    runtime = invokes = True


class _Running:
    invokes = True


@public
@csrf_exempt
def serve(
    request: HttpRequest, slug: str, number: str, protocol: str, rest: str = "", sub: str = ""
) -> HttpResponseBase:
    spoken = served.get(protocol)
    try:
        _refuse_foreign_page(request)
        asked = _request(request, rest)
        if spoken and (reply := spoken.answer_anyone(asked, _is_ready)):
            return _response(request, reply)
        if spoken:
            request.asks_for = spoken.asks_for(asked)  # type: ignore[attr-defined]
        caller = _caller(request, spoken.key_header if spoken else "")
        # What runs a tool counts as that besides.
        caller.spend("read")
        operations = _operations(request, caller, slug, number, protocol, "" if sub == slug else sub)
        if spoken is None:
            known = ", ".join(each.name for each in served.SERVED)
            raise DomainError("unknown_protocol", f"Releases are served in: {known}.", status=404)
        reply = spoken.answer(asked, served.SERVED[spoken](operations))
    except (APIException, DomainError, Http404) as error:
        return _response(request, _refused(spoken, error, request))
    try:
        if reply.status < 400:
            _note(caller, operations)
            readable.tell(request.META, caller.key.pk, operations.release.pk)
        return _response(request, reply)
    except BaseException:
        # The server closes only what it was given, and an open stream holds the place of another one.
        if close := getattr(reply.body, "close", None):
            close()
        raise


@public
@require_http_methods(["GET", "HEAD", "OPTIONS"])
def protected_resource(request: HttpRequest, path: str) -> HttpResponse:
    """Which authorization server gives access tokens for an address below /serve/ (RFC 9728)."""
    said = access_tokens.metadata(f"{ROOT}{path}")
    if said is None:
        return JsonResponse({"code": "not_found", "message": "Clients sign in with an API key."}, status=404)
    # It holds no secret, and clients in browsers read it from pages of other sites, with more headers.
    if request.method == "OPTIONS":
        allowed = {"Access-Control-Allow-Methods": "GET, HEAD", "Access-Control-Allow-Headers": "*"}
        return HttpResponse(status=204, headers={"Access-Control-Allow-Origin": "*", **allowed})
    return JsonResponse(said, headers={"Access-Control-Allow-Origin": "*", "Cache-Control": "max-age=300"})


def problem(request: HttpRequest, status: int, code: str, message: str) -> HttpResponse:
    """An error outside of the view, such as a body that is too large to be read, in the words of the protocol
    that was asked."""
    try:
        spoken = served.get(resolve(request.path_info).kwargs.get("protocol", ""))
    except Resolver404:
        spoken = None
    reply = _worded(spoken, Refusal(status, code, message), b"")
    return HttpResponse(reply.body, status=status, headers=reply.headers, content_type=reply.media_type)


def _caller(request: HttpRequest, key_header: str) -> Caller:
    # No session: a browser sends its cookies whichever page made it ask.
    found = _keys.authenticate(request)
    if found is None and key_header and (given := request.headers.get(key_header, "")):
        found = _keys.owner_of(given.strip(), request)
    if found is None:
        or_token = (
            ", or the access token of a user whom the client signed in" if access_tokens.accepted() else ""
        )
        raise NotAuthenticated(f"Send an API key of Pegboard: “Authorization: Bearer pgb_…”{or_token}.")
    user, key = found
    # Middleware and helpers of REST ask the request.
    request.user = user
    request.auth = key  # type: ignore[attr-defined]
    if not allows(key, _Listing, "GET", Role.VIEWER):
        raise _forbidden("scope_required", "This API key's scope does not cover releases.")
    reason, may_not_run = reason_against(user, Role.DESIGNER), None
    if reason:
        may_not_run = _forbidden("role_required", reason)
    elif not allows(key, _Running, "POST", Role.DESIGNER):
        may_not_run = _forbidden("scope_required", "This API key lists tools and does not run them.")
    return Caller(user=user, key=key, may_not_run=may_not_run)


def _forbidden(code: str, message: str) -> DomainError:
    return DomainError(code, message, status=403)


def _operations(
    request: HttpRequest, caller: Caller, slug: str, number: str, protocol: str, sub: str
) -> Operations:
    try:
        release = found_release(request, slug, number)
    except Http404:
        note_refusal(caller, agent=slug, tool="")
        raise
    # Once for all protocols: some answer without reading what is served, and a receipt names the sub-agent.
    if sub and shown(release, sub) is None:
        note_refusal(caller, agent=slug, tool="")
        raise Http404
    site = public_url("/", request).rstrip("/")
    return Operations(
        caller=caller,
        release=release,
        agent=slug,
        named=number,
        protocol=protocol,
        site=site,
        served_at=runtimes_url("/", request).rstrip("/") if settings.RUNTIMES_URL else site,
        sub_agent=sub,
    )


def _note(caller: Caller, operations: Operations) -> None:
    surface = f"serve/{operations.protocol}"
    if operations.sub_agent:
        surface = f"{operations.sub_agent}/{surface}"
    receipts.note_served(caller.key, operations.release, surface=surface, name=operations.named)


def _request(request: HttpRequest, rest: str) -> Request:
    return Request(
        method=request.method or "",
        path=rest,
        query=dict(request.GET.lists()),
        headers=request.headers,
        body=request.body,
        has_left=partial(_has_left, request.META.get("gunicorn.socket")),
    )


def _refuse_foreign_page(request: HttpRequest) -> None:
    # Against DNS rebinding (MCP 2026-07-28, Transports, Security Warning), in every protocol.
    if is_foreign_page(request):
        message = "Pages of other sites cannot send requests here. Send them from a program."
        raise DomainError("foreign_origin", message, status=403)


def _has_left(client: socket.socket | None) -> bool:
    # Nothing is read: what a client has sent meanwhile is its next request.
    if client is None or (number := client.fileno()) < 0:
        return False
    looked = select.poll()
    looked.register(number, _HANGS_UP)
    return bool(looked.poll(0))


def _refused(
    spoken: Server[Any] | None, error: APIException | DomainError | Http404, request: HttpRequest
) -> Reply:
    headers: dict[str, str] = {}
    if isinstance(error, APIException):
        code = str(error.get_codes())
        refusal = Refusal(error.status_code, code, str(error.detail))
        if error.status_code == 401 or code == "insufficient_scope":
            headers["WWW-Authenticate"] = access_tokens.challenge(request.path, code)
    else:
        refusal = refusal_of(error)
        if isinstance(error, DomainError) and error.retry_after:
            headers["Retry-After"] = str(error.retry_after)
    reply = _worded(spoken, refusal, request.body)
    return replace(reply, headers={**reply.headers, **headers})


def _worded(spoken: Server[Any] | None, refusal: Refusal, body: bytes) -> Reply:
    if spoken:
        return spoken.refusal(refusal, body)
    return json_reply({"code": refusal.code, "message": refusal.message}, refusal.status)


def _response(request: HttpRequest, reply: Reply) -> HttpResponseBase:
    kind = HttpResponse if isinstance(reply.body, bytes) else StreamingHttpResponse
    headers = dict(reply.headers)
    if etag := headers.get("ETag", "").strip('"'):
        headers["Cache-Control"] = publishing.CACHE_CONTROL
        if publishing.etag_matches(etag, request.headers.get("If-None-Match", "")):
            return HttpResponse(status=304, headers=headers, content_type=reply.media_type)
    return kind(reply.body, status=reply.status, headers=headers, content_type=reply.media_type)


def _is_ready() -> bool:
    return database_state() == "ok"
