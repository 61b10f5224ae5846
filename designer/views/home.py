from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from catalog import waiting_work
from catalog.models import Endpoint, Finding, Run, VendorRequest
from catalog.vendors import vendor_requests
from catalog.views.asked import next_path
from core import proxy_signs
from core.compiled_queries import CompiledQuery, named_value
from core.own_commands import MANAGE
from designer.context_processors import THEMES
from designer.overviews import guides
from designer.upgrades import pending_work
from people.models import Role
from people.permissions import any_user, person, requires, requires_post

# One more than this is read, to know whether there are others.
SHOWN = 5
ANSWERS_SHOWN_FOR = timedelta(days=7)
PIN_COLUMNS = ("name", "agent__slug", "agent__name")
LISTS = ("endpoints", "findings", "vendor_requests", "reviewed", "behind", "gone", "agents")
YEAR = 365 * 24 * 3600


@requires(Role.VIEWER)
def home(request: HttpRequest) -> HttpResponse:
    user = person(request)
    lists = _lists_of_viewers()
    context: dict[str, Any] = {
        "vendor_requests": lists["vendor_requests"].rows() if user.can_administer else [],
        "vendor_answers": [] if user.can_administer else lists["vendor_answers"].rows(user=user.pk),
        "runs": lists["runs"].rows(),
        "shown": SHOWN,
        "mismatches": [],
    }
    if user.can_administer and not settings.LOCAL:
        with suppress(redis.RedisError):  # unknown while the broker is away
            signs = proxy_signs.read_mismatches(proxies=settings.NUM_PROXIES, is_https=settings.HTTPS)
            context["mismatches"] = [proxy_signs.MISMATCHES[sign] for sign in signs]
    # A viewer can do none of this, so the page of a viewer has only what happened.
    if user.can_design:
        lists = _lists_of_designers(Role(user.role))
        context["guide"] = guides.current_guide(user)
        context |= {name: query.rows(user=user.pk) for name, query in lists.items()}
        context["agents"] = pending_work.agents_to_publish(user)[: SHOWN + 1]
    # Read only where the page would report that nothing needs an administrator.
    is_quiet = not any(context.get(name) for name in LISTS)
    if is_quiet and user.can_administer:
        context["manage_command"] = MANAGE
        context["late_work"] = waiting_work.find_late(waiting_work.oldest_seconds())
    return render(request, "designer/home.html", context)


# Only the columns that the page shows: each of the others is read, decoded and thrown away.
@cache
def _lists_of_viewers() -> dict[str, CompiledQuery[Any]]:
    runs = Run.objects.with_changes().order_by("-pk")
    endpoint = ("endpoint__name", "endpoint__url", "endpoint__vendor__name", "endpoint__vendor__slug")
    run_columns = ("added", "changed", "withdrawn", "returned", "rejected", "queued_at")
    # The user's requests that were answered in the last few days.
    answered = VendorRequest.objects.filter(
        asked_by=named_value("user"), answered_at__gt=Now() - ANSWERS_SHOWN_FOR
    )
    columns = ("vendor_name", "state", "answer", "endpoint__removed_at", "endpoint__vendor__removed_at")
    request_columns = ("vendor_name", "reason", "asked_at", "asked_by__username", "asked_by__name")
    return {
        "runs": CompiledQuery(runs.select_related("endpoint__vendor").only(*run_columns, *endpoint)[:SHOWN]),
        "vendor_answers": CompiledQuery(
            answered.select_related("endpoint__vendor").only(*columns).order_by("-answered_at")[:SHOWN]
        ),
        "vendor_requests": CompiledQuery(
            vendor_requests.waiting().select_related("asked_by").only(*request_columns)[: SHOWN + 1]
        ),
    }


@cache
def _lists_of_designers(role: Role) -> dict[str, CompiledQuery[Any]]:
    needing_action = Endpoint.objects.needing_action().with_status().select_related("vendor")
    # The heaviest first.
    findings = Finding.objects.filter(waiting_decision__isnull=False).weighed()
    finding_columns = ("message", "raised_at", "severity", "tool__name", "endpoint__vendor__name")
    reviewed_columns = ("version__label", "version__rewrite", "version__first_seen_at")
    user = any_user(role)
    reviewed = pending_work.pins_under_review(user).only(*PIN_COLUMNS, *reviewed_columns)
    return {
        "endpoints": CompiledQuery(needing_action[:SHOWN]),
        "findings": CompiledQuery(
            findings.select_related("tool", "endpoint__vendor").only(*finding_columns)[:SHOWN]
        ),
        "reviewed": CompiledQuery(reviewed[: SHOWN + 1]),
        "behind": CompiledQuery(pending_work.pins_behind(user).only(*PIN_COLUMNS)[: SHOWN + 1]),
        "gone": CompiledQuery(pending_work.pins_gone(user)[: SHOWN + 1]),
    }


@requires_post(Role.DESIGNER)
def guide_hide(request: HttpRequest) -> HttpResponse:
    guides.hide(request.POST.get("guide", ""), user=person(request))
    return redirect("home")


@requires_post(Role.VIEWER)
def language(request: HttpRequest) -> HttpResponse:
    code = request.POST.get("language", "")
    user = person(request)
    user.language = code if code in dict(settings.LANGUAGES) else ""
    user.save(update_fields=["language"])
    return redirect(next_path(request) or "home")


@requires_post(Role.VIEWER)
def theme(request: HttpRequest) -> HttpResponse:
    """Set the choice of light or dark, for browsers without the script that does this in place."""
    selected_theme = request.POST.get("theme", "")
    response = redirect(next_path(request) or "home")
    if selected_theme in THEMES:
        response.set_cookie("theme", selected_theme, max_age=YEAR, samesite="Lax")
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response
