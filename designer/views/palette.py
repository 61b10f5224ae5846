"""The command palette: pages, actions and names, as a list of links."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from designer.context_processors import NAVIGATION
from designer.models import Agent
from designer.overviews.jump_targets import MAX_TEXT, JumpTarget, find_targets
from people.models import Role
from people.permissions import person, requires

# Actions that a role can begin on any page: the words, the page and the icon of each.
ACTIONS = (
    (gettext_noop("Connect a vendor"), "endpoint-new", "plus", Role.ADMIN),
    (gettext_noop("Request a vendor"), "vendor-request-new", "plus", Role.DESIGNER),
    (gettext_noop("Define a tool"), "definition-new", "plus", Role.DESIGNER),
    (gettext_noop("Import an agent"), "agent-import", "download", Role.DESIGNER),
    (gettext_noop("Create an API key"), "key-new", "key", Role.VIEWER),
    (gettext_noop("Notifications"), "notifications", "bell", Role.VIEWER),
)
# The same for the agent whose page is open.
ACTIONS_OF_AGENT = (
    (gettext_noop("Review and publish {agent}"), "publish", "release", Role.DESIGNER),
    (gettext_noop("Add tools to {agent}"), "add-tools", "plus", Role.DESIGNER),
    (gettext_noop("Test {agent}"), "rehearsals", "play", Role.VIEWER),
    (gettext_noop("Updates of {agent}"), "agent-upgrades", "diff", Role.VIEWER),
    (gettext_noop("Releases of {agent}"), "release-list", "release", Role.VIEWER),
)


@requires(Role.VIEWER)
def palette(request: HttpRequest) -> HttpResponse:
    """List the links that contain the words of `q`, or all actions and pages. `agent`: the open one."""
    user, role = person(request), Role(person(request).role)
    text = " ".join(request.GET.get("q", "")[:MAX_TEXT].split())
    agent = (
        Agent.objects.active().visible_to(user).filter(slug=request.GET.get("agent", "")[:MAX_TEXT]).first()
    )
    actions = [
        JumpTarget(_(words).format(agent=agent.name), reverse(name, args=[agent.slug]), icon)
        for words, name, icon, least in ACTIONS_OF_AGENT
        if agent and role.includes(least)
    ]
    actions += [
        JumpTarget(_(words), reverse(name), icon)
        for words, name, icon, least in ACTIONS
        if role.includes(least)
    ]
    pages = [
        JumpTarget(_(entry.label), reverse(entry.url_name), entry.icon, _(title), f"g {entry.key}")
        for title, entries in NAVIGATION
        for entry in entries
        if role.includes(entry.role)
    ]
    groups = [(_("Actions"), _matching_targets(actions, text)), (_("Pages"), _matching_targets(pages, text))]
    target_groups = find_targets(text, user) if text else []
    context = {"groups": [group for group in [*target_groups, *groups] if group[1]], "text": text}
    template = "designer/_keys.html" if "keys" in request.GET else "designer/_palette.html"
    return render(request, template, context)


def _matching_targets(targets: list[JumpTarget], text: str) -> list[JumpTarget]:
    words = text.lower().split()
    return [target for target in targets if all(word in target.label.lower() for word in words)]
