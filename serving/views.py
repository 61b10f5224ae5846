"""Pages to connect a runtime to a release, check whether it can run, and list threads and users' grants."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.credentials.oauth.client_metadata import users_redirect_uri
from catalog.models import Call, Thread
from catalog.models.calls import ACTIVE_CALLS
from core.errors import DomainError
from core.pagination import Keyset
from core.public_url import runtimes_url
from designer.agents import access_tokens, agent_keys
from designer.environments import environments
from designer.exports import document as release_document
from designer.forms.keys import KEY_SCOPES
from designer.models import Agent
from designer.readiness import obstacles
from designer.readiness.judgement import SEVERITIES, summarize
from designer.releases import channels
from execution.threads import threads as vendors_threads
from execution.user_grants import authorizing, grants
from people.models import Role
from people.permissions import person, public, requires
from protocols.server import Snippet
from serving import programs as programs_of
from serving import resumed_calls, threads
from serving.serve import SERVED
from serving.stored_calls import threads_of

PAGE_SIZE = 50
KEY_LIFETIME = timedelta(days=90)
RUNS_SHOWN, STATES_SHOWN = 50, 10
AUTHORIZING = "pegboard-authorizing"


@never_cache
@requires(write=Role.VIEWER)
def release_connect(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Show how to connect clients. POST makes the key that they need, and the texts contain it once."""
    viewer = person(request)
    agent = get_object_or_404(Agent.objects.live().visible_to(viewer), slug=slug)
    release = get_object_or_404(agent.releases.defer("document").select_related("retirement"), number=number)
    channel_names = channels.by_release(channels.states(agent)).get(number, [])
    requested = request.GET.get("named", "")
    # A channel comes first: it can move without a change in the client.
    names = [*channel_names, str(number), f"sha256:{release.digest}"]
    selected_name = requested if requested in names else names[0]
    context: dict[str, Any] = {"agent": agent, "release": release, "ways": names, "named": selected_name}
    plain, status = "", 200
    if request.method == "POST":
        try:
            # Answered without a redirect: the key must not be stored between two requests.
            context["key"], plain = agent_keys.issue(
                viewer,
                actor=viewer,
                name=f"{agent.name[:80]}, runtime",
                scopes=KEY_SCOPES["invoke"],
                expires_at=timezone.now() + KEY_LIFETIME,
                agents=[agent],
            )
        except DomainError as error:
            messages.error(request, error.message)
            status = error.status
    context |= {"plain": plain, "provider": access_tokens.trusted_provider()}
    # The texts for programs, and for each served protocol, with the key in its place.
    served = []
    for protocol in SERVED:
        address = runtimes_url(f"/serve/{agent.slug}/{selected_name}/{protocol.name}", request)
        snippets = [_with_key(one, plain) for one in protocol.snippets(address, agent.slug)]
        served.append((protocol, address, snippets))
    rest_url = runtimes_url(f"/api/v1/agents/{agent.slug}", request)
    mcp_server = runtimes_url(f"/serve/{agent.slug}/{selected_name}/mcp", request)
    programs = [
        programs_of.write_curl(rest_url, selected_name),
        *programs_of.write_programs(rest_url, selected_name, mcp_server),
    ]
    context |= {"served": served, "programs": [_with_key(one, plain) for one in programs]}
    return render(request, "serving/connect.html", context, status=status)


def _with_key(snippet: Snippet, plain: str) -> Snippet:
    if not plain:
        return snippet
    text = snippet.text.replace("pgb_…", plain)
    if snippet.where == "in a terminal":
        text = f"export PEGBOARD_TOKEN={plain}\n{text}"
    return replace(snippet, text=text)


@requires()
def release_preflight(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Show the readiness of each tool of the release in an environment, those first that cannot run."""
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    release = get_object_or_404(agent.releases.all(), number=number)
    place = environments.choose_environment(release, None, request.GET.get("environment", ""))
    readiness = obstacles.of_document(agent, release_document.decode(release.document), place=place)
    context = {
        "agent": agent,
        "release": release,
        "served_at": runtimes_url(f"/serve/{agent.slug}/{number}/", request),
        "place": place,
        "places": environments.places_of(release),
        "ready": sorted(readiness, key=lambda row: SEVERITIES.index(row.state.severity)),
        "counts": summarize(row.state.severity for row in readiness),
        "notes": [row for row in readiness if any(obstacle.severity == "asks" for obstacle in row.obstacles)],
        "total": len(readiness),
    }
    return render(request, "serving/preflight.html", context)


@never_cache
@requires()
def agent_threads(request: HttpRequest, slug: str) -> HttpResponse:
    """List the threads that runtimes of the agent have begun."""
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    running_calls = Call.objects.filter(thread=OuterRef("pk"), status__in=ACTIVE_CALLS)
    rows = (
        threads_of(agent.pk, None)
        .select_related("version", "api_key")
        .defer("version__raw")
        .annotate(is_busy=Exists(running_calls))
    )
    page = Keyset(rows, "-id").page(request.GET.get("cursor"), PAGE_SIZE)
    context = {"agent": agent, "page": page, "rows": threads.view_threads(page.rows)}
    return render(request, "serving/threads.html", context)


@never_cache
@requires()
def agent_thread(request: HttpRequest, slug: str, thread: str) -> HttpResponse:
    """Show the thread's runs, and on request its state, which only the vendor knows."""
    agent, row = _find_thread(request, slug, thread)
    (view,) = threads.view_threads([row])
    calls = row.calls.select_related("version").defer("result", "version__signature", "version__raw")
    runs = list(calls.order_by("-pk")[:RUNS_SHOWN])
    context = {"agent": agent, "thread": row, "about": view, "runs": runs}
    context["is_busy"] = any(call.is_active for call in runs)
    context["metadata"] = {} if threads.hides_contents(row, None) else row.metadata
    if "ask" in request.GET:
        try:
            state, history = vendors_threads.state(row), vendors_threads.history(row, limit=STATES_SHOWN)
            row.refresh_from_db(fields=["status"])
            # The history of some vendors starts with the current state, that of others with the one before.
            current_state = (state.values, state.messages)
            starts_with_current = current_state != (None, None) and current_state in [
                (entry.values, entry.messages) for entry in history[:1]
            ]
            shown_state = threads.hide_from_people(state, view, None)
            context |= {"held": shown_state, "begins_now": starts_with_current}
            context["history"] = [threads.hide_from_people(entry, view, None) for entry in history]
        except DomainError as error:
            context["refusal"] = error.message
    return render(request, "serving/thread.html", context)


@require_POST
@requires(Role.DESIGNER)
def agent_thread_end(request: HttpRequest, slug: str, thread: str) -> HttpResponse:
    row = _find_thread(request, slug, thread)[1]
    try:
        vendors_threads.remove(row, actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("agent-thread", slug, thread)
    messages.success(request, _("{name} was deleted, also at its vendor.").format(name=row))
    return redirect("agent-threads", slug)


def _find_thread(request: HttpRequest, slug: str, thread: str) -> tuple[Agent, Thread]:
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    return agent, get_object_or_404(threads_of(agent.pk, None).select_related("api_key"), key=thread)


@never_cache
@requires()
def grant_list(request: HttpRequest) -> HttpResponse:
    page = Keyset(grants.visible_to(person(request)), "-opened_at").page(request.GET.get("cursor"), PAGE_SIZE)
    agents = Agent.objects.in_bulk({row.end_user.agent for row in page.rows})
    rows = [(row, agents.get(row.end_user.agent)) for row in page.rows]
    return render(request, "serving/grants.html", {"rows": rows, "page": page})


@require_POST
@requires(Role.DESIGNER)
def grant_forget(request: HttpRequest, grant: str) -> HttpResponse:
    row = get_object_or_404(grants.visible_to(person(request)), pk=grant)
    revoked = grants.forget(row, actor=person(request))
    vendor_message = f" {revoked.message}" if revoked and revoked.message else ""
    messages.success(request, _("Deleted. The next call that needs it asks the user again.") + vendor_message)
    return redirect("grant-list")


@never_cache
@public
@require_http_methods(["GET", "HEAD", "POST"])
def grant_authorize(request: HttpRequest, link: str) -> HttpResponse:
    """Show the user of an agent which agent requests which access, before the browser opens the provider."""
    try:
        grant = authorizing.waiting(link)
        context: dict[str, Any] = {
            "grant": grant,
            "agent": Agent.objects.filter(pk=grant.end_user.agent).first(),
            "host": authorizing.host_of(grant),
            "scopes": authorizing.asked_scopes(grant),
        }
        if request.method != "POST":
            return render(request, "serving/authorize.html", context)
        address, state = authorizing.begin(grant, redirect_uri=users_redirect_uri(request))
    except DomainError as error:
        context = {"error": error.message, "is_over": error.code == "link_over"}
        return render(request, "serving/authorized.html", context, status=error.status)
    answer = render(request, "serving/authorize.html", {**context, "address": address})
    # Only this browser sends the state back.
    answer.set_signed_cookie(
        AUTHORIZING,
        state,
        salt=AUTHORIZING,
        max_age=3600,
        path="/grants/",
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )
    return answer


@never_cache
@public
@require_GET
def grant_callback(request: HttpRequest) -> HttpResponse:
    context: dict[str, Any] = {}
    status = 200
    try:
        grant = authorizing.complete(
            dict(request.GET.lists()),
            began_with=str(request.get_signed_cookie(AUTHORIZING, default="", salt=AUTHORIZING)),
            redirect_uri=users_redirect_uri(request),
        )
        resumed_calls.continue_calls(grant.pk)
        context = {"grant": grant}
    except DomainError as error:
        context, status = {"error": error.message}, error.status
    answer = render(request, "serving/authorized.html", context, status=status)
    answer.delete_cookie(AUTHORIZING, path="/grants/")
    return answer
