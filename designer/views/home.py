from datetime import timedelta
from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from catalog import waiting_work
from catalog.models import Endpoint, Finding, Run, VendorRequest
from catalog.vendors import vendor_requests
from catalog.views.asked import next_path
from core import proxy_signs
from core.compiled_queries import CompiledQuery, named_value
from core.own_commands import MANAGE
from designer.context_processors import THEMES
from designer.models import Pin
from designer.overviews import guides
from designer.upgrades import pending_work
from people.models import Role
from people.permissions import any_user, person, requires

# One more than this is read, to know whether there are others.
SHOWN = 5
ANSWERS_SHOWN_FOR = timedelta(days=7)
RUNS_SEARCHED = 500
PIN_COLUMNS = ("name", "agent__slug", "agent__name")
LISTS = ("endpoints", "findings", "vendor_requests", "reviewed", "behind", "gone", "agents")
YEAR = 365 * 24 * 3600


@requires(Role.VIEWER)
def home(request: HttpRequest) -> HttpResponse:
    user = person(request)
    context: dict[str, Any] = {
        "vendor_requests": _asked_for().rows() if user.can_administer else [],
        "vendor_answers": [] if user.can_administer else _answered().rows(user=user.pk),
        "runs": _moved().rows(),
        "shown": SHOWN,
        "mismatches": _proxy_mismatches() if user.can_administer and not settings.LOCAL else [],
    }
    # A viewer can do none of this, so the page of a viewer has only what happened.
    if user.can_design:
        context |= {
            "guide": guides.current_guide(user),
            "endpoints": _needing_action().rows(),
            "findings": _waiting().rows(),
            "reviewed": _reviewed(user.role).rows(user=user.pk),
            "behind": _behind(user.role).rows(user=user.pk),
            "gone": _pins_gone(user.role).rows(user=user.pk),
            "agents": pending_work.agents_to_publish(user)[: SHOWN + 1],
        }
    # Read only where the page would report that nothing needs an administrator.
    is_quiet = not any(context.get(name) for name in LISTS)
    if is_quiet and user.can_administer:
        context["manage_command"] = MANAGE
        context["late_work"] = waiting_work.find_late(waiting_work.oldest_seconds())
    return render(request, "designer/home.html", context)


def _proxy_mismatches() -> list[proxy_signs.Mismatch]:
    """Return what is wrong with the proxy in front; nothing while the broker is away."""
    try:
        signs = proxy_signs.read_mismatches(proxies=settings.NUM_PROXIES, is_https=settings.HTTPS)
    except redis.RedisError:
        return []
    return [proxy_signs.MISMATCHES[sign] for sign in signs]


# Only the columns that the page shows: each of the others is read, decoded and thrown away.


@cache
def _needing_action() -> CompiledQuery[Endpoint]:
    needing = Endpoint.objects.needing_action().with_status().select_related("vendor")
    return CompiledQuery(needing[:SHOWN])


@cache
def _asked_for() -> CompiledQuery[VendorRequest]:
    columns = ("vendor_name", "reason", "asked_at", "asked_by__username", "asked_by__name")
    return CompiledQuery(vendor_requests.waiting().select_related("asked_by").only(*columns)[: SHOWN + 1])


@cache
def _answered() -> CompiledQuery[VendorRequest]:
    # The user's requests that were answered in the last few days.
    lately = VendorRequest.objects.filter(
        asked_by=named_value("user"), answered_at__gt=Now() - ANSWERS_SHOWN_FOR
    )
    columns = ("vendor_name", "state", "answer", "endpoint__removed_at", "endpoint__vendor__removed_at")
    requests = lately.select_related("endpoint__vendor").only(*columns)
    return CompiledQuery(requests.order_by("-answered_at")[:SHOWN])


@cache
def _waiting() -> CompiledQuery[Finding]:
    # The heaviest first.
    waiting = Finding.objects.filter(waiting_decision__isnull=False).weighed()
    columns = ("message", "raised_at", "severity", "tool__name", "endpoint__vendor__name")
    return CompiledQuery(waiting.select_related("tool", "endpoint__vendor").only(*columns)[:SHOWN])


@cache
def _reviewed(role: Role) -> CompiledQuery[Pin]:
    columns = ("version__label", "version__rewrite", "version__first_seen_at")
    reviewed = pending_work.pins_under_review(any_user(role)).only(*PIN_COLUMNS, *columns)
    return CompiledQuery(reviewed[: SHOWN + 1])


@cache
def _behind(role: Role) -> CompiledQuery[Pin]:
    return CompiledQuery(pending_work.pins_behind(any_user(role)).only(*PIN_COLUMNS)[: SHOWN + 1])


@cache
def _pins_gone(role: Role) -> CompiledQuery[Pin]:
    return CompiledQuery(pending_work.pins_gone(any_user(role))[: SHOWN + 1])


@cache
def _moved() -> CompiledQuery[Run]:
    # Most runs find nothing new, so the search for those that did stops after the latest ones.
    latest = Run.objects.order_by("-pk").values("pk")[:RUNS_SEARCHED]
    moved = Run.objects.filter(Q(added__gt=0) | Q(changed__gt=0) | Q(withdrawn__gt=0), pk__in=latest)
    endpoint = ("endpoint__name", "endpoint__url", "endpoint__vendor__name", "endpoint__vendor__slug")
    columns = ("added", "changed", "withdrawn", "queued_at")
    return CompiledQuery(moved.select_related("endpoint__vendor").only(*columns, *endpoint)[:SHOWN])


@requires(Role.DESIGNER)
@require_POST
def guide_hide(request: HttpRequest) -> HttpResponse:
    guides.hide(request.POST.get("guide", ""), user=person(request))
    return redirect("home")


@requires(write=Role.VIEWER)
@require_POST
def language(request: HttpRequest) -> HttpResponse:
    code = request.POST.get("language", "")
    user = person(request)
    user.language = code if code in dict(settings.LANGUAGES) else ""
    user.save(update_fields=["language"])
    return redirect(next_path(request) or "home")


@requires(write=Role.VIEWER)
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    # The choice of light or dark, for browsers without the script that does this in place.
    selected_theme = request.POST.get("theme", "")
    response = redirect(next_path(request) or "home")
    if selected_theme in THEMES:
        response.set_cookie("theme", selected_theme, max_age=YEAR, samesite="Lax")
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response
