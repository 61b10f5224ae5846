"""The command palette: pages, actions and names, as a list of links."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from designer.context_processors import NAVIGATION
from designer.models import Agent
from designer.overviews.jump_targets import MAX_TEXT, JumpTarget, find_targets
from people.models import Role
from people.permissions import person, requires

# Actions that a role can begin on any page: the words, the page and the icon of each.
ACTIONS = (
    ("Connect a vendor", "endpoint-new", "plus", Role.ADMIN),
    ("Request a vendor", "vendor-request-new", "plus", Role.DESIGNER),
    ("Define a tool", "definition-new", "plus", Role.DESIGNER),
    ("Import an agent", "agent-import", "download", Role.DESIGNER),
    ("Create an API key", "key-new", "key", Role.VIEWER),
    ("Notifications", "notifications", "bell", Role.VIEWER),
)
# The same for the agent whose page is open.
ACTIONS_OF_AGENT = (
    ("Review and publish {}", "publish", "release", Role.DESIGNER),
    ("Add tools to {}", "add-tools", "plus", Role.DESIGNER),
    ("Test {}", "rehearsals", "play", Role.VIEWER),
    ("Updates of {}", "agent-upgrades", "diff", Role.VIEWER),
    ("Releases of {}", "release-list", "release", Role.VIEWER),
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
        JumpTarget(words.format(agent.name), reverse(name, args=[agent.slug]), icon)
        for words, name, icon, least in ACTIONS_OF_AGENT
        if agent and role.includes(least)
    ]
    actions += [
        JumpTarget(words, reverse(name), icon) for words, name, icon, least in ACTIONS if role.includes(least)
    ]
    pages = [
        JumpTarget(entry.label, reverse(entry.url_name), entry.icon, title, f"g {entry.key}")
        for title, entries in NAVIGATION
        for entry in entries
        if role.includes(entry.role)
    ]
    groups = [("Actions", _matching(actions, text)), ("Pages", _matching(pages, text))]
    target_groups = find_targets(text, user) if text else []
    context = {"groups": [group for group in [*target_groups, *groups] if group[1]], "text": text}
    template = "designer/_keys.html" if "keys" in request.GET else "designer/_palette.html"
    return render(request, template, context)


def _matching(targets: list[JumpTarget], text: str) -> list[JumpTarget]:
    words = text.lower().split()
    return [target for target in targets if all(word in target.label.lower() for word in words)]
