"""Searches that were made, and the needs that no vendor meets."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.search import recorded_searches
from catalog.views.asked import number
from people.models import Role
from people.permissions import requires, requires_post

SHOWN = 200


@requires_post(Role.VIEWER)
def search_record(request: HttpRequest) -> HttpResponse:
    """Record a search that a user looked at, or the tool that was opened after it, without the user."""
    words = request.POST.get("q", "")
    if "tool" in request.POST:
        tool = number(request.POST["tool"])
        recorded_searches.record_choice(words, [tool] if tool else [])
    else:
        recorded_searches.record_search(words, is_unmet=request.POST.get("unmet") == "1")
    return HttpResponse(status=204)


@requires(Role.ADMIN)
@require_safe
def unmet_needs(request: HttpRequest) -> HttpResponse:
    rows = recorded_searches.unmet_needs(SHOWN + 1)
    context = {"rows": rows[:SHOWN], "is_more": len(rows) > SHOWN, "shown": SHOWN}
    return render(request, "catalog/unmet_needs.html", context)
