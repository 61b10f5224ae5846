from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import get_text_list
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from catalog.templatetags.display import grouped
from core.errors import DomainError
from core.readable_changes import ReadableChange
from designer import exports
from designer.forms.releases import PublishForm
from designer.overviews import agent_readiness
from designer.readiness.judgement import summarize
from designer.releases import draft_review, publishing
from designer.releases.checks import Check
from designer.releases.draft_review import DraftReview
from designer.releases.readable_diff import ReleaseComparison
from designer.views import release_changes
from designer.views.channels import readers_of
from designer.views.chosen_agent import find_agent
from designer.views.releases import released_tree
from people.models import Role
from people.permissions import person, requires

# Checks with the same message for many tools: this many are listed, the others counted.
LISTED = 3
FOLDED = {
    "never_referenced": gettext_noop(
        "{count} pinned tools are in no procedure, so the model does not know when to use them."
    )
}
TONES = {"error": "bad", "warning": "warn", "ok": "ok"}


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A row of the list of checks. `where` is as in `Check`, and empty where those that it folds are mended
    on several pages.
    """

    tone: str
    message: str
    where: str
    folds: tuple[Check, ...] = ()


@requires(write=Role.DESIGNER)
def publish(request: HttpRequest, slug: str) -> HttpResponse:
    """Review the draft: its changes, its checks, and the decision to publish."""
    agent = find_agent(request, slug)
    form = PublishForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            release = publishing.publish(agent, actor=person(request), **form.facts())
        except DomainError as error:
            form.refuse(error)
        else:
            messages.success(request, _describe_publication(release.number, form.cleaned_data["channel"]))
            return redirect("release", agent.slug, release.number)
    if release_changes.is_for_details(request):
        comparison = ReleaseComparison(*draft_review.released_and_draft(agent))
        return release_changes.details_response(request, comparison)
    review = draft_review.review_draft(agent, person(request))
    live = review.channels[0]
    bindings = [ReadableChange(sentence=change.message) for change in review.bindings]
    context = {
        "agent": agent,
        "form": form,
        "review": review,
        "live": live,
        "changes": release_changes.changes_page(
            request, ReleaseComparison(review.old, review.draft, review.changes, bindings)
        ),
        # A name that a template does not find takes longer than an empty one.
        "details_url": "",
        "hides_effects": False,
        "says": _describe_changes(review),
        "tree": released_tree(review.draft) if review.draft.agents else [],
        "checks": _check_rows(review.checks),
        "tokens": [
            (format_.label, review.tokens[format_.name]) for format_ in exports.FORMATS if format_.is_text
        ],
        "tokens_change": review.size_change,
        "codes": sorted({check.code for check in review.failed}),
        **readers_of(agent, review.channels),
        "for_admins": [check for check in review.failed if check.accepted_by == "admin"]
        if not person(request).can_administer
        else [],
    }
    return render(request, "designer/publish.html", context, status=409 if form.errors else 200)


@requires(Role.VIEWER)
def changes(request: HttpRequest, slug: str) -> HttpResponse:
    """The part of an agent's pages that states its readiness, and how far it is from its newest release."""
    agent = find_agent(request, slug)
    is_published_with_parent = agent_readiness.publishing_agent(agent) != agent
    context = {
        "agent": agent,
        "is_published_with_parent": is_published_with_parent,
        "summary": None if is_published_with_parent else draft_review.summary(agent),
        "readiness": summarize(tool.state.severity for tool in agent_readiness.assess_default(agent).ready),
    }
    return render(request, "designer/_agent_changes.html", context)


def _describe_changes(review: DraftReview) -> str:
    """Count the new, changed and removed parts of the whole tree: “2 tools and 1 transfer”."""
    agents = [review.changes.own, *review.changes.agents]
    tools = sum(len(agent.tools) for agent in agents)
    context = sum(len(agent.context) for agent in agents)
    procedures = sum(len(agent.procedures) for agent in agents)
    transfers = sum(len(agent.transfers) for agent in agents)
    sub_agents = len(review.changes.agents)
    texts = sum(len(agent.agent) for agent in agents)
    counted = (
        (tools, ngettext("{count} tool", "{count} tools", tools)),
        (context, ngettext("{count} prompt or resource", "{count} prompts and resources", context)),
        (procedures, ngettext("{count} procedure", "{count} procedures", procedures)),
        (transfers, ngettext("{count} transfer", "{count} transfers", transfers)),
        (sub_agents, ngettext("{count} sub-agent", "{count} sub-agents", sub_agents)),
        (texts, ngettext("{count} other text", "{count} other texts", texts)),
    )
    return get_text_list([text.format(count=count) for count, text in counted if count], _("and"))


def _check_rows(checks: list[Check]) -> list[CheckRow]:
    """Return a row for each check. Many checks with one code in FOLDED share one row."""
    checks_by_code = {code: [row for row in checks if row.code == code] for code in FOLDED}
    rows, folded = [], set()
    for check in checks:
        same = checks_by_code.get(check.code, [])
        if len(same) <= LISTED:
            rows.append(CheckRow(TONES[check.severity], check.message, check.where))
        elif check.code not in folded:
            folded.add(check.code)
            places = {row.where for row in same}
            where = check.where if len(places) == 1 else ""
            message = _(FOLDED[check.code]).format(count=grouped(len(same)))
            rows.append(CheckRow(TONES[check.severity], message, where, tuple(same)))
    return rows


def _describe_publication(number: int, channel: str) -> str:
    if channel:
        return _("Release {number} is published, and “{channel}” points to it. Runtimes get it now.").format(
            number=number, channel=channel
        )
    return _(
        "Release {number} is published. No channel points to it yet. Promote it to make it live."
    ).format(number=number)
