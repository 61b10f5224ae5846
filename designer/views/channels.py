from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from catalog.views.asked import number as number_in
from core.errors import DomainError
from core.pagination import Keyset
from designer.exports import document as release_document
from designer.forms.releases import MoveChannelForm
from designer.models import Agent
from designer.releases import channels, receipts
from designer.releases.channels import ChannelState
from designer.releases.readable_diff import compare_for_people
from designer.views import release_changes
from designer.views.chosen_agent import find_agent
from people.models import Role, User
from people.permissions import person, requires

PAGE_SIZE = 50
RELEASES_OFFERED = 100


def readers_of(agent: Agent, states: Iterable[ChannelState]) -> dict[str, Any]:
    """Return the context of `designer/_readers.html`."""
    receipts_by_channel = receipts.readers(agent)
    return {
        "readers": [(state, receipts_by_channel.get(state.name, [])) for state in states],
        "by_number": receipts_by_channel.get("", []),
        "in_use_days": settings.RELEASE_IN_USE_DAYS,
    }


@requires(Role.VIEWER)
def channel_list(request: HttpRequest, slug: str) -> HttpResponse:
    """Redirect to the page of the channel whose name was entered."""
    find_agent(request, slug)
    name = request.GET.get("name", "").strip().lower()
    if not channels.NAME.fullmatch(name):
        messages.error(request, channels.NAME_RULE)
        return redirect("release-list", slug)
    release_query = urlencode({"release": request.GET.get("release", "")})
    return redirect(f"/agents/{slug}/channels/{name}/?{release_query}")


def _move_channel(agent: Agent, name: str, data: Mapping[str, Any], actor: User) -> str:
    """Move the channel as its form states, and return the message about it. Raises DomainError."""
    release = agent.releases.filter(number=data["release"]).first()
    if release is None and data["release"]:
        raise DomainError("unknown_release", _("There is no such release of this agent."))
    channels.move(agent, name, actor=actor, release=release, note=data["note"], expected=data["led_to"])
    if release is None:
        return _("“{channel}” is closed. Runtimes get the change immediately.").format(channel=name)
    message = _("“{channel}” now points to release {number}. Runtimes get the change immediately.")
    return message.format(channel=name, number=release.number)


@requires(write=Role.DESIGNER)
def channel(request: HttpRequest, slug: str, channel: str) -> HttpResponse:
    """Return the page of a channel: its release, the changes that moving it would bring, and every move so
    far.
    """
    agent = find_agent(request, slug)
    if not channels.NAME.fullmatch(channel):
        raise Http404
    form = MoveChannelForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with form.catch_errors():
            messages.success(request, _move_channel(agent, channel, form.cleaned_data, person(request)))
            return redirect("release-list", agent.slug)
    now = channels.state(agent, channel)
    release_number = number_in(request.POST.get("release", "") or request.GET.get("release", ""))
    selected = agent.releases.filter(number=release_number).first()
    action = channels.direction(now.release, selected) if selected else ""
    old = release_document.decode(now.release.document) if now.release else None
    new = release_document.decode(selected.document) if selected else None
    comparison = compare_for_people(old, new)
    if release_changes.is_for_details(request):
        return release_changes.details_response(request, comparison)
    page = Keyset(channels.moves(agent).filter(channel__name=channel), "-id").page(
        request.GET.get("cursor"), PAGE_SIZE
    )
    context = {
        "agent": agent,
        "now": now,
        "form": form,
        "page": page,
        "moves": [(move, channels.direction(move.before, move.release)) for move in page.rows],
        "releases": agent.releases.filter(retirement=None)
        .defer("document")
        .order_by("-number")[:RELEASES_OFFERED],
        "chosen": selected,
        "act": action,
        "is_back": action == "roll back",
        "changes": release_changes.changes_page(request, comparison),
    }
    return render(request, "designer/channel.html", context, status=409 if form.errors else 200)
