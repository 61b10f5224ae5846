from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from catalog.models import Tool
from catalog.tools import versions
from catalog.views.asked import number as number_in
from core.errors import DomainError
from core.pagination import Keyset
from designer import pending_work, pinned_signatures, token_budget, upgrades
from designer.exports import document as release_document
from designer.exports.base import Carried, Format, Remark
from designer.exports.document import ReleaseDocument
from designer.forms import PublishForm, WhenForm
from designer.models import Agent, Pin, Release
from designer.releases import channels, diff, provenance, publishing
from designer.signatures.effective import NOTHING
from designer.views.tools import pretty
from people.models import Role
from people.permissions import person, requires

PAGE_SIZE = 50
SHOWN_CHARACTERS = 8_000
OTHERS_OFFERED = 50


@requires(write=Role.DESIGNER)
def release_list(request: HttpRequest, slug: str) -> HttpResponse:
    agent = get_object_or_404(Agent.objects.live().visible_to(person(request)), slug=slug)
    form = PublishForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            release = publishing.publish(agent, actor=person(request), **form.facts())
        except DomainError as error:
            form.refuse(error)
        else:
            messages.success(request, _says_published(release.number, form.cleaned_data["channel"]))
            return redirect("release", agent.slug, release.number)
    rows = agent.releases.select_related("created_by").defer("document")
    page = Keyset(rows, "-number").page(request.GET.get("cursor"), PAGE_SIZE)
    pins = list(pinned_signatures.pinned([agent]).select_related("tool__stopped"))
    reviews = pending_work.reviews(pins)
    reviewed = [(pin, reviews[pin.pk]) for pin in pins if pin.pk in reviews]
    draft, last = publishing.draft(agent), agent.releases.order_by("-number").first()
    published = release_document.decode(last.document) if last else None
    standings = channels.standings(agent)
    context = {
        "agent": agent,
        "form": form,
        "page": page,
        "draft": draft,
        "seen": release_document.digest(release_document.encode(draft)),
        "last": last,
        "changes": diff.between(published, draft) if published else [],
        "changed_agent": diff.about_agent(published, draft) if published else [],
        "remarks": _remarks(draft),
        "refusals": _refusals(pins),
        # What stops publishing first.
        "reviews": sorted(reviewed, key=lambda each: each[1].tone),
        "gone": pending_work.gone_from(agent),
        "standings": standings,
        "live": standings[0],
    }
    return render(request, "designer/releases.html", context)


def _says_published(number: int, channel: str) -> str:
    if channel:
        return f"Release {number} is published, and “{channel}” leads to it. Runtimes get it now."
    return f"Release {number} is published. No channel leads to it yet: promote it when it should be live."


def _remarks(draft: ReleaseDocument) -> list[tuple[str, list[Remark]]]:
    """What each format would refuse of what is about to be published, the worst first; nothing is well."""
    serious = {
        format_.label: sorted((r for r in judged.remarks if r.level != "loses"), key=lambda r: r.level)
        for format_, judged in publishing.carried_by_format(draft)
    }
    return [(label, found) for label, found in serious.items() if found]


def _refusals(pins: list[Pin]) -> list[tuple[Pin, str]]:
    # The words for which publishing would be refused now.
    return [
        (pin, lost.message)
        for pin in pins
        for lost in upgrades.lost(pin, pin.version.decoded())
        if lost.refuses
    ]


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
    document, standings = release_document.decode(row.document), channels.standings(agent)
    fetches = _fetches(document)
    old = release_document.decode(before.document) if before else None
    names = versions.names([tool.id for tool in document.tools])
    vendors = _vendors([tool.id for tool in document.tools])
    context = {
        "agent": agent,
        "release": row,
        "standings": standings,
        "leading_here": channels.by_release(standings).get(number, []),
        "live": standings[0],
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
        "changed_agent": diff.about_agent(old, document) if old else [],
        "fetches": fetches,
        **_shown_export(row, fetches, request.GET.get("format", "")),
    }
    return render(request, "designer/release.html", context)


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
            f"format={format_.name}{'' if judged.is_whole else '&partial=1'}" if judged.fitting.tools else "",
        )
        for format_, judged in publishing.carried_by_format(document)
    ]


def _shown_export(row: Release, fetches: list[Fetch], name: str) -> dict[str, Any]:
    chosen = next((each for each in fetches if each.format.name == name and each.query), None)
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
