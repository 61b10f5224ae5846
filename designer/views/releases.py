from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from catalog.models import Tool
from catalog.tools import versions
from catalog.views.asked import number as number_in
from core.pagination import Keyset
from designer import exports
from designer.exports import document as release_document
from designer.exports.base import CarriedTools, Format
from designer.exports.document import ReleaseDocument, ReleasedSubAgent, ReleasedTransfer
from designer.forms.releases import RetireForm, WhenForm
from designer.models import Agent, Release, Retirement
from designer.overviews import charts
from designer.pins import token_budget
from designer.readiness import obstacles
from designer.readiness.judgement import SEVERITIES
from designer.releases import channels, drafts, provenance, publishing, receipts, recorded_bindings, retiring
from designer.releases.readable_diff import compare_for_people
from designer.signatures.words import NOTHING
from designer.views import release_changes
from designer.views.channels import readers_of
from designer.views.chosen_agent import find_agent
from designer.views.tools import pretty
from people.forms import show_errors
from people.models import Role
from people.permissions import person, requires, requires_post

PAGE_SIZE = 50
SHOWN_CHARACTERS = 8_000
# Of the command on the page of a release and of that on its page for runtimes.
COMMAND_FORMAT = "json-schema"
OTHERS_OFFERED = 50
RECEIPTS_SHOWN = 50


@dataclass(frozen=True)
class ReleasedNode:
    """One agent of a release, its depth below the root, and its tokens in each request."""

    released: ReleasedSubAgent
    depth: int
    tokens: int
    names: Mapping[str, str]

    @property
    def parent(self) -> str:
        return self.names.get(self.released.parent, "")

    @property
    def transfers(self) -> list[tuple[ReleasedTransfer, str, int]]:
        """Return each transfer with the name of the agent that takes over and the tokens of the transfer."""
        return [
            (
                transfer,
                self.names[transfer.agent],
                token_budget.tokens_of_transfer(transfer.name, transfer.description),
            )
            for transfer in self.released.transfers
        ]


def released_tree(document: ReleaseDocument) -> list[ReleasedNode]:
    depths = {"": -1}
    for node in document.nodes:
        depths[node.slug] = depths[node.parent] + 1
    names = {node.slug: node.name for node in document.nodes}
    return [
        ReleasedNode(node, depths[node.slug], token_budget.tokens_of_agent(node), names)
        for node in document.nodes
    ]


@requires(Role.VIEWER)
def release_list(request: HttpRequest, slug: str) -> HttpResponse:
    rows = Agent.objects.live().visible_to(person(request)).with_counts().select_related("token_limit")
    agent = get_object_or_404(rows, slug=slug)
    drafts.with_is_changed([agent])
    releases = agent.releases.select_related("created_by", "retirement").defer("document")
    states = channels.states(agent)
    limit = getattr(agent, "token_limit", None)
    readers = (receipt for rows in receipts.readers(agent).values() for receipt in rows)
    context = {
        "agent": agent,
        "charts": [
            charts.tokens_by_release(agent, limit.tokens if limit else None),
            charts.runtimes_by_release(readers, states[0].number),
        ],
        "page": Keyset(releases, "-number").page(request.GET.get("cursor"), PAGE_SIZE),
        "last": releases.order_by("-number").first(),
        "states": states,
    }
    return render(request, "designer/releases.html", context)


@requires(Role.VIEWER)
def release(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    agent = find_agent(request, slug)
    rows = agent.releases.select_related("agent", "created_by", "retirement__retired_by")
    row = get_object_or_404(rows, number=number)
    others = list(
        agent.releases.exclude(number=number).defer("document").order_by("-number")[:OTHERS_OFFERED]
    )
    against_name = request.GET.get("against", "")
    before = (
        agent.releases.filter(number=number_in(against_name)).first()
        if against_name
        else publishing.previous_release(row)
    )
    document = release_document.decode(row.document)
    comparison = compare_for_people(release_document.decode(before.document) if before else None, document)
    if release_changes.is_for_details(request):
        return release_changes.details_response(request, comparison)
    states = channels.states(agent)
    fetches = [OfferedFormat(format_, part) for format_, part in exports.carried_by_format(document)]
    context = {
        "agent": agent,
        "release": row,
        "states": states,
        "leading_here": channels.by_release(states).get(number, []),
        "live": states[0],
        "is_intact": release_document.digest(row.document.encode()) == row.digest,
        "tree": _tree_with_tools(row, document),
        "ready": sorted(
            obstacles.in_default_environment(agent, document),
            key=lambda tool: SEVERITIES.index(tool.state.severity),
        ),
        "calls": charts.calls_of_release(row, document),
        "following": sum(tool.follows_vendor for tool in document.all_tools),
        "before": before,
        "others": others,
        "changes": release_changes.changes_page(request, comparison, is_open=False),
        "fetches": fetches,
        **readers_of(agent, states),
        "activities": recorded_bindings.list_activities(row.bindings),
        "receipts": receipts.receipts_of_agent(agent).filter(release=row)[:RECEIPTS_SHOWN],
        **_shown_export(row, fetches, request.GET.get("format", "")),
    }
    return render(request, "designer/release.html", context)


@requires(Role.DESIGNER)
def release_retire(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Ask before a release is retired or its date is moved, with its readers and its successor."""
    agent = find_agent(request, slug)
    row = get_object_or_404(
        agent.releases.select_related("agent", "retirement").defer("document"), number=number
    )
    retirement: Retirement | None = getattr(row, "retirement", None)
    in_use = receipts.recent_receipts(row)[:RECEIPTS_SHOWN]
    start = retiring.facts(retirement) | {"sunset_at": retirement.sunset_at if retirement else None}
    form = RetireForm(request.POST or None, initial=start, name=str(row), is_in_use=bool(in_use))
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            retiring.retire(row, actor=person(request), **form.cleaned_data)
            messages.success(
                request,
                _("Release {number} is retired. Replies to runtimes announce it.").format(number=number),
            )
            return redirect("release", agent.slug, number)
    context = {
        "agent": agent,
        "release": row,
        "form": form,
        "in_use": in_use,
        "days": settings.RELEASE_IN_USE_DAYS,
        "leading_here": agent.channels.filter(release=row),
        "successor": retiring.successor(row),
    }
    return render(request, "designer/release_retire.html", context, status=409 if form.errors else 200)


@requires_post(Role.DESIGNER)
def release_restore(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    agent = find_agent(request, slug)
    row = get_object_or_404(agent.releases.select_related("agent").defer("document"), number=number)
    with show_errors(request):
        retiring.restore_release(row, actor=person(request))
        messages.success(request, _("Release {number} was restored.").format(number=number))
    return redirect("release", agent.slug, number)


@requires(Role.VIEWER)
def release_compare(request: HttpRequest, slug: str) -> HttpResponse:
    """Compare two releases. The older one is on the left."""
    agent = find_agent(request, slug)
    shown_export = list(agent.releases.defer("document").order_by("-number")[:OTHERS_OFFERED])
    # By default, the newest and the one before it.
    newest = [row.number for row in shown_export[:2]]
    requested = [number_in(request.GET.get(name, "")) for name in ("to", "from")]
    release_numbers = [first or another for first, another in zip(requested, newest, strict=False)]
    selected = (
        agent.releases.filter(number__in=release_numbers).select_related("created_by").order_by("number")
    )
    context: dict[str, Any] = {"agent": agent, "offered": shown_export}
    if len(selected) > 1:
        comparison = compare_for_people(*(release_document.decode(row.document) for row in selected))
        if release_changes.is_for_details(request):
            return release_changes.details_response(request, comparison)
        changes = release_changes.changes_page(request, comparison)
        context |= {"old": selected[0], "new": selected[1], "changes": changes}
    return render(request, "designer/release_compare.html", context)


@requires(Role.VIEWER)
def agent_received(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the release that a runtime received at a time, and who approved each part of it."""
    agent = find_agent(request, slug)
    form = WhenForm(request.GET if request.GET.get("at") else {"at": timezone.now()})
    moment = form.cleaned_data["at"] if form.is_valid() else timezone.now()
    answer = provenance.find_received_release(agent, received_at=moment)
    received_tools = answer.tools if answer else []
    vendors = _vendor_names([tool.tool for tool in received_tools])
    tools = [(tool, vendors.get(tool.tool, tool.vendor)) for tool in received_tools]
    return render(
        request, "designer/received.html", {"agent": agent, "form": form, "answer": answer, "tools": tools}
    )


def _vendor_names(tools: list[int]) -> dict[int, str]:
    # The vendors' names. A release has only their short names, which are for addresses.
    return dict(Tool.objects.filter(pk__in=tools).values_list("pk", "endpoint__vendor__name"))


def _tree_with_tools(
    row: Release, document: ReleaseDocument
) -> list[tuple[ReleasedNode, list[tuple[object, ...]]]]:
    """Return each agent with its tools: vendor, version, tokens, whether it is tuned, and its
    implementation.
    """
    tools = [tool.id for tool in document.all_tools]
    vendors = _vendor_names(tools)
    names = versions.names(tools)
    runners = {
        (bound["agent"], bound["tool_id"]): bound
        for bound in recorded_bindings.list_nonvendor_rows(row.bindings)
    }
    tree = []
    for node in released_tree(document):
        rows: list[tuple[object, ...]] = [
            (
                tool,
                vendors.get(tool.id, tool.vendor),
                names.get((tool.id, tool.version.ordinal), tool.version.label),
                token_budget.tokens(tool.signature),
                any(words != NOTHING for words in tool.tuning.values()),
                runners.get((node.released.slug, tool.id)),
            )
            for tool in node.released.tools
        ]
        tree.append((node, rows))
    return tree


@dataclass(frozen=True)
class OfferedFormat:
    """A format on the page."""

    format: Format
    judged: CarriedTools

    @property
    def query(self) -> str:
        """The query of its download, "" if the format supports none of the tools."""
        if not self.judged.is_any:
            return ""
        return f"format={self.format.name}{'' if self.judged.is_whole else '&partial=1'}"

    @property
    def tools(self) -> int:
        """Return the number of tools in it, transfers included."""
        return len(self.judged.fitting.tools) + len(self.judged.left_out)


def _shown_export(row: Release, fetches: list[OfferedFormat], name: str) -> dict[str, Any]:
    selected = next(
        (fetch for fetch in fetches if fetch.format.name == name and fetch.query and fetch.format.is_text),
        None,
    )
    # Where none is chosen, the command has a format that leaves out no tool, if there is one.
    available = sorted(
        (fetch for fetch in fetches if fetch.query),
        key=lambda fetch: (not fetch.judged.is_whole, fetch.format.name != COMMAND_FORMAT),
    )
    shown_export = selected or next(iter(available), None)
    if selected is None:
        return {"offered": shown_export}
    document, _ = publishing.export(row, name, is_partial=not selected.judged.is_whole)
    body = pretty(document.decode())
    return {
        "offered": shown_export,
        "chosen": selected,
        "body": body[:SHOWN_CHARACTERS],
        "is_cut": len(body) > SHOWN_CHARACTERS,
    }
