from functools import cache

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from catalog.models import Endpoint, Finding, Run
from catalog.models.findings import FindingQuerySet, FindingState
from catalog.models.vendors import EndpointQuerySet
from designer import pending_work
from designer.context_processors import THEMES
from people.models import Role
from people.permissions import person, requires

SHOWN = 5
RUNS_LOOKED_AT = 500
PIN_SHOWN = ("name", "agent__slug", "agent__name")
VERSION_NAMED = ("version__label", "version__rewrite", "version__first_seen_at")
YEAR = 365 * 24 * 3600


@requires(Role.VIEWER)
def home(request: HttpRequest) -> HttpResponse:
    steps = pending_work.first_steps(person(request))
    reviewed, behind = (
        pending_work.pins_under_review(person(request)),
        pending_work.pins_behind(person(request)),
    )
    context = {
        "steps": steps,
        "now": next((name for name, is_done in steps.items() if not is_done), ""),
        "endpoints": _needing_action()[:SHOWN],
        "findings": _waiting()[:SHOWN],
        "reviewed": reviewed.only(*PIN_SHOWN, *VERSION_NAMED)[: SHOWN + 1],
        "behind": behind.only(*PIN_SHOWN)[: SHOWN + 1],
        "gone": pending_work.pins_gone(person(request))[: SHOWN + 1],
        "agents": pending_work.agents_to_publish(person(request))[: SHOWN + 1],
        "runs": _moved()[:SHOWN],
        "shown": SHOWN,
    }
    return render(request, "designer/home.html", context)


# Built once, because putting one of these together takes longer than its answer, as does each column that
# the page does not show. A slice of one is a query of its own.


@cache
def _needing_action() -> EndpointQuerySet:
    return Endpoint.objects.needing_action().with_status().select_related("vendor")


@cache
def _waiting() -> FindingQuerySet:
    """The heaviest first."""
    waiting = Finding.objects.filter(state=FindingState.OPEN).decisions().weighed()
    shown = ("message", "raised_at", "severity", "tool__name", "endpoint__vendor__name")
    return waiting.select_related("tool", "endpoint__vendor").only(*shown)


@cache
def _moved() -> QuerySet[Run]:
    """Most runs find nothing new, so the search for those that did stops after the latest ones."""
    latest = Run.objects.order_by("-pk").values("pk")[:RUNS_LOOKED_AT]
    moved = Run.objects.filter(Q(added__gt=0) | Q(changed__gt=0) | Q(withdrawn__gt=0), pk__in=latest)
    endpoint = ("endpoint__name", "endpoint__url", "endpoint__vendor__name")
    shown = ("added", "changed", "withdrawn", "queued_at")
    return moved.select_related("endpoint__vendor").only(*shown, *endpoint)


@requires(write=Role.VIEWER)
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """The choice of light or dark, for browsers without the script that does this in place."""
    chosen = request.POST.get("theme", "")
    back = request.POST.get("next", "/")
    safe = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
    # Without the slash, `redirect` takes it for the name of a page.
    response = redirect(back if safe and back.startswith("/") else "home")
    if chosen in THEMES:
        response.set_cookie("theme", chosen, max_age=YEAR, samesite="Lax")
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response
