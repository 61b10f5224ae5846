"""The page of an agent's upgrades: the effects of each, and the move of several pins after a preview."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.models import ActivityVersion
from catalog.rules import diff
from catalog.views.asked import number
from core.errors import DomainError
from core.numbered_pages import page_of
from core.outbound.errors import printable
from core.stored_sentences import translate_sentence
from designer.environments import activity_updates, bound_tools
from designer.errors import ChecksFailedError
from designer.models import Agent, Environment, Pin
from designer.overviews import agent_readiness
from designer.readiness.judgement import SEVERITIES
from designer.upgrades import binding_moves, upgrades
from designer.upgrades.binding_moves import Acceptance
from designer.upgrades.upgrades import MoveResult, RequestedMove, Upgrade
from designer.views import release_changes
from designer.views.chosen_agent import find_agent
from people.models import Role
from people.permissions import person, requires, requires_post

MAX_MOVES = 500
PAGE_SIZE = 20
MAX_OPEN_CHANGES = 30  # on a page; more are loaded pin by pin
MAX_PREVIEWS = 40


@requires(Role.VIEWER)
def agent_upgrades(request: HttpRequest, slug: str) -> HttpResponse:
    """The upgrades of an agent. After a move the page offers to move back: the address contains the earlier
    versions.
    """
    agent = find_agent(request, slug)
    if release_changes.is_for_details(request):
        # Show the changes of one pin's update, which a list of many updates folds.
        rows = upgrades.to_current(upgrades.behind_pins([agent]).filter(pk=number(request.GET["change"])))
        return render(request, "designer/_pin_changes.html", {"upgrade": rows[0] if rows else None})
    assessed = agent_readiness.assess_default(agent)
    upgrade_list = [upgrade for upgrade in assessed.upgrades if upgrade.pin.agent_id == agent.pk]
    upgrade_list.sort(key=_rank_of_upgrade)
    selected = number(request.GET.get("change", ""))
    position = next((i for i, row in enumerate(upgrade_list, start=1) if row.pin.pk == selected), "")
    page = page_of(upgrade_list, str(position) or request.GET.get("changes", ""), size=PAGE_SIZE)
    earlier_versions = {row.pin: row for row in _parse_moves(request.GET.getlist("back"))}
    moved = agent.pins.live().filter(pk__in=earlier_versions) if earlier_versions else ()
    context = {
        "agent": agent,
        "upgrades": upgrade_list,
        "page": page,
        "selected": selected,
        # A name that a template does not find takes longer than an empty one.
        "details_url": "",
        "hides_effects": False,
        "is_short": sum(len(row.comparison.changes) for row in page) <= MAX_OPEN_CHANGES,
        "safe": [row for row in upgrade_list if row.is_safe],
        "refused": [row for row in upgrade_list if row.refusal],
        "breaking_below": upgrades.breaking_below(agent, person(request)),
        "ready": sorted(assessed.ready, key=lambda tool: SEVERITIES.index(tool.state.severity)),
        "activity_updates": activity_updates.updates_of(agent, [pin for pin, _ in assessed.tools]),
        "refused_move": _refused_move(request, agent),
        "back": [(pin, _move_value(pin, earlier_versions[pin.pk].ordinal)) for pin in moved],
    }
    return render(request, "designer/upgrades.html", context)


@requires_post(Role.DESIGNER)
def upgrades_move(request: HttpRequest, slug: str) -> HttpResponse:
    """The first press shows a preview; the second moves exactly the shown pins."""
    agent = find_agent(request, slug)
    earlier_versions = _parse_moves(request.POST.getlist("move"))
    asks_for_safe = request.POST.get("do") == "look-safe"
    if not earlier_versions and not asks_for_safe:
        messages.error(request, _("Select updates, or choose all safe updates."))
        return redirect("agent-upgrades", slug)
    is_dry = request.POST.get("do") != "move"
    try:
        results = upgrades.move(
            agent,
            actor=person(request),
            moves=[] if asks_for_safe else earlier_versions,
            all_safe=asks_for_safe,
            is_dry=is_dry,
        )
    except DomainError as error:
        messages.error(request, error.message)
        return redirect("agent-upgrades", slug)
    done = [row for row in results if row.error is None]
    if is_dry:
        previews = sorted(results, key=lambda row: (row.error is None, _rank_of_upgrade(row.upgrade)))
        context: dict[str, Any] = {
            "agent": agent,
            "previews": previews[:MAX_PREVIEWS],
            "other_names": [row.name for row in previews[MAX_PREVIEWS:]],
            "is_short": sum(len(row.upgrade.comparison.changes) for row in previews) <= MAX_OPEN_CHANGES,
            "moves": [_move_value(row.upgrade.pin, row.upgrade.version.ordinal) for row in done],
        }
        return render(request, "designer/upgrades_move.html", context)
    _report_moves(request, results, done)
    if not done or request.POST.get("undo"):
        return redirect("agent-upgrades", slug)
    back = [_move_value(row.upgrade.pin, row.upgrade.pin.version.ordinal) for row in done]
    query = urlencode({"back": back}, doseq=True)
    return redirect(f"{reverse('agent-upgrades', args=[slug])}?{query}")


@requires_post(Role.DESIGNER)
def activity_move(request: HttpRequest, slug: str) -> HttpResponse:
    """Move one binding, or the activity that runs by its name, to the version that the page has shown."""
    agent = find_agent(request, slug)
    pins = bound_tools.pins_of(agent)
    pin = next((pin for pin in pins if pin.pk == number(request.POST.get("pin", ""))), None)
    rows = ActivityVersion.objects.select_related("activity__current__interface", "interface")
    version = rows.filter(pk=number(request.POST.get("version", ""))).first()
    if pin is None or version is None:
        messages.error(request, _("The tool or the version was removed."))
        return redirect("agent-upgrades", slug)
    env = request.POST.get("environment", "")
    acceptance = Acceptance(request.POST.getlist("accept"), request.POST.get("reason", "").strip())
    page = reverse("agent-upgrades", args=[slug])
    try:
        if env:
            place = get_object_or_404(Environment.objects.select_related("agent"), agent=agent, name=env)
            binding_moves.bind(
                place,
                pin.tool,
                actor=person(request),
                activity=version.activity,
                version=version,
                expected=str(version.activity_id),
                acceptance=acceptance,
            )
        else:
            binding_moves.move_named(
                agent,
                pin.tool,
                actor=person(request),
                activity=version.activity,
                version=version,
                acceptance=acceptance,
            )
    except DomainError as error:
        messages.error(request, " ".join(map(translate_sentence, (error.message, *error.fields.values()))))
        codes = error.failed_codes if isinstance(error, ChecksFailedError) else acceptance.codes
        move = {"refused": pin.pk, "environment": env, "version": version.pk}
        former = {"from": request.POST.get("from", ""), "accept": codes}
        return redirect(f"{page}?{urlencode(move | former, doseq=True)}" if codes else page)
    message = (
        _("“{name}” runs version {number} of “{implementation}” in “{environment}” now.")
        if env
        else _("“{name}” runs version {number} of “{implementation}” now.")
    )
    message = message.format(
        name=pin.name, number=version.number, implementation=version.activity, environment=env
    )
    messages.success(request, message)
    back = number(request.POST.get("from", ""))
    query = {"pin": pin.pk, "environment": env, "version": back} if back else {}
    return redirect(f"{page}?{urlencode(query)}")


def _rank_of_upgrade(upgrade: Upgrade) -> tuple[bool, int]:
    """Return the sort key of an update: updates that break tuned texts or procedures first, then breaking
    changes of the vendor.
    """
    return not upgrade.is_felt, -diff.CLASSES.index(upgrade.comparison.class_)


def _refused_move(request: HttpRequest, agent: Agent) -> dict[str, Any] | None:
    """Return the move of a binding that failed its checks, which a user may repeat with a reason."""
    codes = request.GET.getlist("accept")
    if not codes:
        return None
    version = ActivityVersion.objects.filter(pk=number(request.GET.get("version", ""))).first()
    wanted_pin = number(request.GET.get("refused", ""))
    pin = next((pin for pin in bound_tools.pins_of(agent) if pin.pk == wanted_pin), None)
    if pin is None or version is None:
        return None
    return {"pin": pin, "version": version, "environment": request.GET.get("environment", ""), "codes": codes}


def _move_value(pin: Pin, ordinal: int | None) -> str:
    return f"{pin.pk}:{ordinal}"


def _report_moves(request: HttpRequest, results: Sequence[MoveResult], done: Sequence[MoveResult]) -> None:
    for row in results:
        if row.error is not None:
            messages.error(
                request,
                _("“{name}” was not updated. {message}").format(name=row.name, message=row.error.message),
            )
        else:
            for lost_words in row.upgrade.lost:
                messages.warning(request, translate_sentence(lost_words.message))
    if request.POST.get("undo") and done:
        names = ", ".join(f"“{row.name}”" for row in done[:5])
        message = _("Undone: {names} and {count} more.") if len(done) > 5 else _("Undone: {names}.")
        messages.success(request, message.format(names=names, count=len(done) - 5))
    elif len(done) == 1:
        version = printable(done[0].upgrade.version.name, 60)
        messages.success(
            request,
            _("“{name}” is now pinned to version {version}.").format(name=done[0].name, version=version),
        )
    elif done:
        message = ngettext(
            "{count} tool was updated. Publish the agent to release the updates.",
            "{count} tools were updated. Publish the agent to release the updates.",
            len(done),
        )
        messages.success(request, message.format(count=len(done)))


def _parse_moves(values: list[str]) -> list[RequestedMove]:
    # Anything but a pair of numbers does not come from the page.
    pairs = [row.partition(":") for row in values[:MAX_MOVES]]
    number_pairs = [(number(pin), number(ordinal)) for pin, _, ordinal in pairs]
    return [RequestedMove(pin, ordinal=ordinal) for pin, ordinal in number_pairs if pin and ordinal]
