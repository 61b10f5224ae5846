from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone

from catalog.models import Tool
from catalog.tools import versions
from catalog.views.asked import number as number_in
from core.pagination import Keyset
from designer import token_budget
from designer.exports import document as release_document
from designer.exports.base import Carried, Format
from designer.exports.document import ReleaseDocument
from designer.forms import WhenForm
from designer.models import Agent, Release
from designer.releases import channels, diff, drafts, provenance, publishing, receipts
from designer.signatures.words import NOTHING
from designer.views.tools import pretty
from people.models import Role
from people.permissions import person, requires

PAGE_SIZE = 50
SHOWN_CHARACTERS = 8_000
OTHERS_OFFERED = 50
RECEIPTS_SHOWN = 50


@requires(Role.VIEWER)
def release_list(request: HttpRequest, slug: str) -> HttpResponse:
    rows = Agent.objects.live().visible_to(person(request)).with_counts()
    agent = get_object_or_404(rows, slug=slug)
    drafts.with_is_changed([agent])
    releases = agent.releases.select_related("created_by").defer("document")
    context = {
        "agent": agent,
        "page": Keyset(releases, "-number").page(request.GET.get("cursor"), PAGE_SIZE),
        "last": releases.order_by("-number").first(),
        "states": channels.states(agent),
    }
    return render(request, "designer/releases.html", context)


@requires(Role.VIEWER)
def release(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    row = get_object_or_404(agent.releases.select_related("created_by"), number=number)
    others = list(
        agent.releases.exclude(number=number).defer("document").order_by("-number")[:OTHERS_OFFERED]
    )
    asked = request.GET.get("against", "")
    before = (
        agent.releases.filter(number=number_in(asked)).first() if asked else publishing.previous_release(row)
    )
    document, states = release_document.decode(row.document), channels.states(agent)
    fetches = _fetches(document)
    old = release_document.decode(before.document) if before else None
    names = versions.names([tool.id for tool in document.tools])
    vendors = _vendors([tool.id for tool in document.tools])
    context = {
        "agent": agent,
        "release": row,
        "states": states,
        "leading_here": channels.by_release(states).get(number, []),
        "live": states[0],
        "is_intact": release_document.digest(row.document.encode()) == row.digest,
        "tools": [
            (
                tool,
                vendors.get(tool.id, tool.vendor),
                names.get((tool.id, tool.version.ordinal), tool.version.label),
                token_budget.tokens(tool.signature),
                any(words != NOTHING for words in tool.tuning.values()),
            )
            for tool in document.tools
        ],
        "before": before,
        "others": others,
        "changes": diff.between(old, document) if old else [],
        "changed_procedures": diff.between_procedures(old, document) if old else [],
        "changed_agent": diff.about_agent(old, document) if old else [],
        "fetches": fetches,
        "receipts": receipts.of_agent(agent).filter(release=row)[:RECEIPTS_SHOWN],
        **_shown_export(row, fetches, request.GET.get("format", "")),
    }
    return render(request, "designer/release.html", context)


@requires(Role.VIEWER)
def release_compare(request: HttpRequest, slug: str) -> HttpResponse:
    """Any two releases: the older one at the left, in whatever order they were chosen."""
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    offered = list(agent.releases.defer("document").order_by("-number")[:OTHERS_OFFERED])
    # Unless told, the newest and the one before it.
    newest = [row.number for row in offered[:2]]
    asked = [number_in(request.GET.get(name, "")) for name in ("to", "from")]
    wanted = [one or another for one, another in zip(asked, newest, strict=False)]
    chosen = agent.releases.filter(number__in=wanted).select_related("created_by").order_by("number")
    context: dict[str, Any] = {"agent": agent, "offered": offered}
    if len(chosen) > 1:
        old, new = (release_document.decode(row.document) for row in chosen)
        context |= {
            "old": chosen[0],
            "new": chosen[1],
            "changes": diff.between(old, new),
            "changed_procedures": diff.between_procedures(old, new),
            "changed_agent": diff.about_agent(old, new),
        }
    return render(request, "designer/release_compare.html", context)


@requires(Role.VIEWER)
def agent_received(request: HttpRequest, slug: str) -> HttpResponse:
    """What a runtime got at a time, and who approved each part of it."""
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    form = WhenForm(request.GET if request.GET.get("at") else {"at": timezone.now()})
    at = form.cleaned_data["at"] if form.is_valid() else timezone.now()
    answer = provenance.received(agent, at=at)
    held = answer.tools if answer else []
    vendors = _vendors([tool.tool for tool in held])
    tools = [(tool, vendors.get(tool.tool, tool.vendor)) for tool in held]
    return render(
        request, "designer/received.html", {"agent": agent, "form": form, "answer": answer, "tools": tools}
    )


def _vendors(tools: list[int]) -> dict[int, str]:
    # Names of the vendors of these tools. A release holds the short name, which is for addresses.
    return dict(Tool.objects.filter(pk__in=tools).values_list("pk", "endpoint__vendor__name"))


@dataclass(frozen=True)
class Fetch:
    """One format on the page. `query` asks for what it can carry; it is empty where that is nothing."""

    format: Format
    judged: Carried
    query: str


def _fetches(document: ReleaseDocument) -> list[Fetch]:
    return [
        Fetch(
            format_,
            judged,
            f"format={format_.name}{'' if judged.is_whole else '&partial=1'}" if judged.is_any else "",
        )
        for format_, judged in publishing.carried_by_format(document)
    ]


def _shown_export(row: Release, fetches: list[Fetch], name: str) -> dict[str, Any]:
    chosen = next(
        (each for each in fetches if each.format.name == name and each.query and each.format.is_text), None
    )
    # Where none is chosen, the first that carries something is offered to fetch.
    offered = chosen or next((each for each in fetches if each.query), None)
    if chosen is None:
        return {"offered": offered}
    document, _ = publishing.export(row, name, is_partial=not chosen.judged.is_whole)
    body = pretty(document.decode())
    return {
        "offered": offered,
        "chosen": chosen,
        "body": body[:SHOWN_CHARACTERS],
        "is_cut": len(body) > SHOWN_CHARACTERS,
    }
