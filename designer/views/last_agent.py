"""Remembers the agent that a person works on, so that the catalog proposes it when a tool is pinned.

Kept in the session: it is a convenience of one browser, and no fact about the agent.
"""

from collections.abc import Iterable

from django.http import HttpRequest

from designer.models import Agent

_KEY = "last_agent"


def remember(request: HttpRequest, agent: Agent) -> None:
    # Saved only when it changes: pages are read far more often than agents are changed for others.
    if request.session.get(_KEY) != agent.pk:
        request.session[_KEY] = agent.pk


def last_agent_slug(request: HttpRequest, agents: Iterable[Agent]) -> str:
    """Return the slug of the user's last agent; "" if it is not among `agents`, to which the user may pin."""
    last = request.session.get(_KEY)
    return next((agent.slug for agent in agents if agent.pk == last), "")
