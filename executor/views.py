"""How a runtime is connected to a release, whether it can run, the threads that it has begun, and what its
users have authorized."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from catalog.calls import threads as vendors_threads
from catalog.credentials.oauth.client_metadata import users_redirect_uri
from catalog.models import Call, Thread
from catalog.models.calls import ACTIVE_CALLS
from catalog.user_grants import authorizing, grants
from core.errors import DomainError
from core.pagination import Keyset
from core.public_url import runtimes_url
from designer import access_tokens, environments
from designer.exports import document as release_document
from designer.models import Agent
from designer.readiness import obstacles
from designer.readiness.judgement import SEVERITIES, summarize
from designer.releases import channels
from executor import resumed_calls, threads
from executor.calls import threads_of
from executor.serve import SERVED
from people.models import Role
from people.permissions import person, public, requires

PAGE_SIZE = 50
RUNS_SHOWN, STATES_SHOWN = 50, 10
AUTHORIZING = "pegboard-authorizing"


@requires()
def release_connect(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    release = get_object_or_404(agent.releases.defer("document").select_related("retirement"), number=number)
    leading = channels.by_release(channels.states(agent)).get(number, [])
    asked = request.GET.get("named", "")
    # A channel first: what it leads to may change, and the client need not.
    ways = [*leading, str(number), f"sha256:{release.digest}"]
    named = asked if asked in ways else ways[0]
    served = []
    for protocol in SERVED:
        address = runtimes_url(f"/serve/{agent.slug}/{named}/{protocol.name}", request)
        served.append((protocol, address, protocol.snippets(address, agent.slug)))
    context = {"agent": agent, "release": release, "ways": ways, "named": named, "served": served}
    context["provider"] = access_tokens.accepted()
    return render(request, "executor/connect.html", context)


@requires()
def release_preflight(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """The readiness of each tool of the release in an environment, those first that cannot run."""
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    release = get_object_or_404(agent.releases.all(), number=number)
    place = environments.chosen(release, None, request.GET.get("environment", ""))
    found = obstacles.of_document(agent, release_document.decode(release.document), place=place)
    context = {
        "agent": agent,
        "release": release,
        "served_at": runtimes_url(f"/serve/{agent.slug}/{number}/", request),
        "place": place,
        "places": environments.places_of(release),
        "ready": sorted(found, key=lambda each: SEVERITIES.index(each.state.severity)),
        "counts": summarize(each.state.severity for each in found),
        "notes": [each for each in found if any(one.severity == "asks" for one in each.obstacles)],
        "total": len(found),
    }
    return render(request, "executor/preflight.html", context)


@never_cache
@requires()
def agent_threads(request: HttpRequest, slug: str) -> HttpResponse:
    """The threads that runtimes of the agent have begun."""
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    under_way = Call.objects.filter(thread=OuterRef("pk"), status__in=ACTIVE_CALLS)
    found = (
        threads_of(agent.pk, None).select_related("version", "api_key").annotate(is_busy=Exists(under_way))
    )
    page = Keyset(found, "-id").page(request.GET.get("cursor"), PAGE_SIZE)
    context = {"agent": agent, "page": page, "rows": threads.shown(page.rows)}
    return render(request, "executor/threads.html", context)


@never_cache
@requires()
def agent_thread(request: HttpRequest, slug: str, thread: str) -> HttpResponse:
    """Its runs; what it holds where that is asked for, because the vendor alone knows."""
    agent, row = _thread(request, slug, thread)
    (about,) = threads.shown([row])
    runs = list(row.calls.select_related("version").defer("result").order_by("-pk")[:RUNS_SHOWN])
    context = {"agent": agent, "thread": row, "about": about, "runs": runs}
    context["is_busy"] = any(call.is_active for call in runs)
    if "ask" in request.GET:
        try:
            held, history = vendors_threads.state(row), vendors_threads.history(row, limit=STATES_SHOWN)
            row.refresh_from_db(fields=["status"])
            # Some vendors begin it with what the thread holds now, others with what it held before.
            told = (held.values, held.messages)
            begins_now = told != (None, None) and told in [
                (each.values, each.messages) for each in history[:1]
            ]
            context |= {"held": threads.for_the_caller(held, about), "begins_now": begins_now}
            context["history"] = [threads.for_the_caller(each, about) for each in history]
        except DomainError as error:
            context["refusal"] = error.message
    return render(request, "executor/thread.html", context)


@require_POST
@requires(Role.DESIGNER)
def agent_thread_end(request: HttpRequest, slug: str, thread: str) -> HttpResponse:
    _, row = _thread(request, slug, thread)
    try:
        vendors_threads.remove(row, actor=person(request))
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("agent-thread", slug, thread)
    messages.success(request, f"{row} was ended, at its vendor too.")
    return redirect("agent-threads", slug)


def _thread(request: HttpRequest, slug: str, thread: str) -> tuple[Agent, Thread]:
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    return agent, get_object_or_404(threads_of(agent.pk, None).select_related("api_key"), key=thread)


@never_cache
@requires()
def grant_list(request: HttpRequest) -> HttpResponse:
    page = Keyset(grants.visible_to(person(request)), "-opened_at").page(request.GET.get("cursor"), PAGE_SIZE)
    agents = Agent.objects.in_bulk({row.end_user.agent for row in page.rows})
    rows = [(row, agents.get(row.end_user.agent)) for row in page.rows]
    return render(request, "executor/grants.html", {"rows": rows, "page": page})


@require_POST
@requires(Role.DESIGNER)
def grant_forget(request: HttpRequest, grant: str) -> HttpResponse:
    row = get_object_or_404(grants.visible_to(person(request)), pk=grant)
    revoked = grants.forget(row, actor=person(request))
    told = f" {revoked.message}" if revoked and revoked.message else ""
    messages.success(request, f"Forgotten. The next call that needs it asks the user again.{told}")
    return redirect("grant-list")


@never_cache
@public
@require_http_methods(["GET", "HEAD", "POST"])
def grant_authorize(request: HttpRequest, link: str) -> HttpResponse:
    """Where a user of an agent is told who asks for what, before the browser goes on to the provider."""
    try:
        grant = authorizing.waiting(link)
        context: dict[str, Any] = {
            "grant": grant,
            "agent": Agent.objects.filter(pk=grant.end_user.agent).first(),
            "host": authorizing.host_of(grant),
            "scopes": authorizing.asked_scopes(grant),
        }
        if request.method != "POST":
            return render(request, "executor/authorize.html", context)
        address, state = authorizing.begin(grant, redirect_uri=users_redirect_uri(request))
    except DomainError as error:
        context = {"error": error.message, "is_over": error.code == "link_over"}
        return render(request, "executor/authorized.html", context, status=error.status)
    answer = render(request, "executor/authorize.html", {**context, "address": address})
    # The state comes back in this browser alone.
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
        resumed_calls.go_on(grant.pk)
        context = {"grant": grant}
    except DomainError as error:
        context, status = {"error": error.message}, error.status
    answer = render(request, "executor/authorized.html", context, status=status)
    answer.delete_cookie(AUTHORIZING, path="/grants/")
    return answer
