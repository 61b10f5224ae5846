from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from catalog.views.asked import number
from core.pagination import Keyset
from designer.agents import agent_keys
from designer.models import Agent
from designer.releases import receipts
from people.models import Role
from people.permissions import person, requires

PAGE_SIZE = 50


@requires(Role.VIEWER)
def runtime_list(request: HttpRequest) -> HttpResponse:
    """List the API keys with the release that each reads, by which way, and how far behind it is."""
    user, query = person(request), request.GET
    key = number(query["key"]) if query.get("key") else None
    filters: dict[str, Any] = {
        "agent": query.get("agent", ""),
        "key": key,
        "is_behind": query.get("behind") == "1",
        "is_past": query.get("past") == "1",
    }
    page = Keyset(receipts.receipts_of_keys(user, **filters), "-last_at").page(query.get("cursor"), PAGE_SIZE)
    context = {
        "page": page,
        "rows": [(row, receipts.releases_behind(row)) for row in page.rows],
        "agents": Agent.objects.live().visible_to(user).exclude(releases=None).order_by("name", "pk"),
        "key": agent_keys.visible_to(user).filter(pk=key).first() if key else None,
        "chosen": filters,
        "is_filtered": any(query.get(name) for name in ("agent", "key", "behind", "past")),
    }
    return render(request, "designer/runtimes.html", context)
