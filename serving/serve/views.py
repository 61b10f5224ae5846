"""The entry point of all served protocols: authenticates the key, checks its rate limit and finds the
release.

Plain Django, because these requests are the most frequent ones. The code that checks keys, scopes and limits
for REST also does it here.
"""

import select
import socket
from dataclasses import dataclass, replace
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
from designer.agents import access_tokens
from designer.agents.access_tokens import ROOT
from designer.api.asked_releases import find_release
from designer.api.authentication import ReleaseAuthentication
from designer.releases import publishing, receipts, release_access
from people.models import Role
from people.permissions import allows, public, reason_against
from protocols.server import Refusal, Server, ServerReply, ServerRequest, json_reply
from serving import serve as served
from serving.released_documents import load_sealed_release
from serving.serve.base import Caller, ServedRelease, note_refusal, refusal_of

_keys = ReleaseAuthentication()
# The event that the peer closed the connection: not all systems report it before something is written.
_PEER_CLOSED_EVENT = getattr(select, "POLLRDHUP", 0)


class Listing:
    """The attributes of a view that `allows` reads: a key with the scope `invoke` lists the tools that it may
    run.
    """

    runtime = invokes = True


class _Running:
    invokes = True


@public
@csrf_exempt
def serve(
    request: HttpRequest, slug: str, number: str, protocol: str, path: str = "", sub: str = ""
) -> HttpResponseBase:
    server = served.SERVERS.get(protocol)
    try:
        # Protects every protocol against DNS rebinding (MCP 2026-07-28, Transports, Security Warning).
        if is_foreign_page(request):
            message = "Pages of other sites cannot send requests here. Send them from a program."
            raise _forbidden_error("foreign_origin", message)
        protocol_request = ServerRequest(
            method=request.method or "",
            path=path,
            query=dict(request.GET.lists()),
            headers=request.headers,
            body=request.body,
            has_left=partial(_has_left, request.META.get("gunicorn.socket")),
        )
        if server and (reply := server.answer_anyone(protocol_request, lambda: database_state() == "ok")):
            return _build_response(request, reply)
        caller = _identify_caller(request, server.key_header if server else "")
        # A tool call counts as an invocation too.
        caller.spend("read")
        address = _ReleaseAddress(slug, number, protocol, "" if sub == slug else sub)
        release = _open_release(request, caller, address, served.SERVED[server] if server else ServedRelease)
        if server is None:
            protocol_names = ", ".join(row.name for row in served.SERVED)
            raise DomainError("unknown_protocol", f"Releases are served in: {protocol_names}.", status=404)
        reply = server.answer(protocol_request, release)
    except (APIException, DomainError, Http404) as error:
        return _build_response(request, _refusal_reply(server, error, request))
    try:
        if reply.status < 400:
            surface = f"{release.sub_agent}/serve/{protocol}" if release.sub_agent else f"serve/{protocol}"
            receipts.record_served(caller.key, release.release, surface=surface, name=number)
            release_access.mark_answered(request.META, caller.key, release.release)
        return _build_response(request, reply)
    except BaseException:
        # The server closes only a response that it got, and an open stream occupies a room.
        if close := getattr(reply.body, "close", None):
            close()
        raise


@public
@require_http_methods(["GET", "HEAD", "OPTIONS"])
def protected_resource(request: HttpRequest, path: str) -> HttpResponse:
    """Describe the authorization server of an address below /serve/ (RFC 9728)."""
    document = access_tokens.metadata(f"{ROOT}{path}")
    if document is None:
        return JsonResponse({"code": "not_found", "message": "Clients sign in with an API key."}, status=404)
    # The document contains no secret, and browser clients on other sites read it with more headers.
    if request.method == "OPTIONS":
        allowed = {"Access-Control-Allow-Methods": "GET, HEAD", "Access-Control-Allow-Headers": "*"}
        return HttpResponse(status=204, headers={"Access-Control-Allow-Origin": "*", **allowed})
    return JsonResponse(
        document, headers={"Access-Control-Allow-Origin": "*", "Cache-Control": "max-age=300"}
    )


def problem(request: HttpRequest, status: int, code: str, message: str) -> HttpResponse:
    """Format an error from outside the view, such as a body that is too large, in the protocol of the
    address.
    """
    try:
        server = served.SERVERS.get(resolve(request.path_info).kwargs.get("protocol", ""))
    except Resolver404:
        server = None
    reply = _format_refusal(server, Refusal(status, code, message), b"")
    return HttpResponse(reply.body, status=status, headers=reply.headers, content_type=reply.media_type)


def _identify_caller(request: HttpRequest, key_header: str) -> Caller:
    # No session: a browser sends its cookies with requests of any page.
    owner_and_key = _keys.authenticate(request)
    if owner_and_key is None and key_header and (header_value := request.headers.get(key_header, "")):
        owner_and_key = _keys.owner_of(header_value.strip(), request)
    if owner_and_key is None:
        or_token = (
            ", or the access token of a user whom the client signed in"
            if access_tokens.trusted_provider()
            else ""
        )
        raise NotAuthenticated(f"Send an API key of Pegboard: “Authorization: Bearer pgb_…”{or_token}.")
    user, key = owner_and_key
    # Middleware and helpers of REST read them from the request.
    request.user = user
    request.auth = key  # type: ignore[attr-defined]
    if not allows(key, Listing, "GET", Role.VIEWER):
        raise _forbidden_error("scope_required", "This API key's scope does not cover releases.")
    reason, may_not_run = reason_against(user, Role.DESIGNER), None
    if reason:
        may_not_run = _forbidden_error("role_required", reason)
    elif not allows(key, _Running, "POST", Role.DESIGNER):
        may_not_run = _forbidden_error("scope_required", "This API key lists tools and does not run them.")
    return Caller(user=user, key=key, may_not_run=may_not_run)


def _forbidden_error(code: str, message: str) -> DomainError:
    return DomainError(code, message, status=403)


@dataclass(frozen=True, slots=True)
class _ReleaseAddress:
    """The parts of an address below /serve/. release: a number, a channel or a digest."""

    agent: str
    release: str
    protocol: str
    sub_agent: str


def _open_release(
    request: HttpRequest, caller: Caller, address: _ReleaseAddress, kind: type[ServedRelease]
) -> ServedRelease:
    """Return the release at the address. Raises Http404 if the caller may not see it or its sub-agent."""
    try:
        release = find_release(request, address.agent, address.release)
    except Http404:
        note_refusal(caller, agent=address.agent, tool="")
        raise
    # Checked here for all protocols: some answer without reading the document, and a receipt names the
    # sub-agent.
    sub_agent = address.sub_agent
    if sub_agent and load_sealed_release(release).visible_document(sub_agent) is None:
        note_refusal(caller, agent=address.agent, tool="")
        raise Http404
    site = public_url("/", request).rstrip("/")
    return kind(
        caller=caller,
        release=release,
        agent=address.agent,
        release_name=address.release,
        protocol=address.protocol,
        site=site,
        served_at=runtimes_url("/", request).rstrip("/") if settings.RUNTIMES_URL else site,
        sub_agent=sub_agent,
    )


def _has_left(client: socket.socket | None) -> bool:
    # Nothing is read: the client's next request may be in the buffer.
    if client is None or (number := client.fileno()) < 0:
        return False
    poll = select.poll()
    poll.register(number, _PEER_CLOSED_EVENT)
    return bool(poll.poll(0))


def _refusal_reply(
    server: Server[Any] | None, error: APIException | DomainError | Http404, request: HttpRequest
) -> ServerReply:
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
    reply = _format_refusal(server, refusal, request.body)
    return replace(reply, headers={**reply.headers, **headers})


def _format_refusal(server: Server[Any] | None, refusal: Refusal, body: bytes) -> ServerReply:
    if server:
        return server.refusal(refusal, body)
    return json_reply({"code": refusal.code, "message": refusal.message}, refusal.status)


def _build_response(request: HttpRequest, reply: ServerReply) -> HttpResponseBase:
    kind = HttpResponse if isinstance(reply.body, bytes) else StreamingHttpResponse
    headers = dict(reply.headers)
    if etag := headers.get("ETag", "").strip('"'):
        headers["Cache-Control"] = publishing.CACHE_CONTROL
        if publishing.etag_matches(etag, request.headers.get("If-None-Match", "")):
            return HttpResponse(status=304, headers=headers, content_type=reply.media_type)
    return kind(reply.body, status=reply.status, headers=headers, content_type=reply.media_type)
