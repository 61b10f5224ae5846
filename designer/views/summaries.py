"""One page that summarizes an agent or a release: its tools, environments, approvals and tests."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone

from catalog.views.asked import number as number_in
from designer.exports import document as release_document
from designer.exports.document import ReleaseDocument
from designer.models import Agent, Release
from designer.overviews import summaries
from designer.releases import channels, composition
from designer.views.channels import readers_of
from designer.views.chosen_agent import find_agent
from people.models import Role
from people.permissions import requires

TOOLS_SHOWN = 50
MOVES_SHOWN = 20
RELEASES_SHOWN = 20


@requires(Role.VIEWER)
def agent_summary(request: HttpRequest, slug: str) -> HttpResponse:
    """Summarize the draft."""
    agent = find_agent(request, slug)
    return _summary_page(request, agent, composition.draft(agent), None)


@requires(Role.VIEWER)
def release_summary(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    agent = find_agent(request, slug)
    row = get_object_or_404(agent.releases.select_related("created_by", "retirement"), number=number)
    return _summary_page(request, agent, release_document.decode(row.document), row)


def _summary_page(
    request: HttpRequest, agent: Agent, document: ReleaseDocument, release: Release | None
) -> HttpResponse:
    now = timezone.now()
    summary = summaries.summarize_document(agent, document, published_at=now, release=release)
    states = channels.states(agent)
    moves = channels.moves(agent).order_by("-pk")
    moves = (moves.filter(release=release) if release else moves)[:MOVES_SHOWN]
    releases = agent.releases.select_related("created_by").defer("document")
    start = number_in(request.GET.get("from", ""))
    context: dict[str, Any] = {
        "agent": agent,
        "release": release,
        "summary": summary,
        "tools": summary.tools[start : start + TOOLS_SHOWN],
        "more": start + TOOLS_SHOWN if len(summary.tools) > start + TOOLS_SHOWN else None,
        "before": max(0, start - TOOLS_SHOWN) if start else None,
        "written_at": now,
        "leading_here": channels.by_release(states).get(release.number, []) if release else [],
        "moves": [(row, channels.direction(row.before, row.release)) for row in moves],
        "releases": [release] if release else releases[:RELEASES_SHOWN],
        **readers_of(agent, states),
    }
    return render(request, "designer/summary.html", context)
