"""The agent in the address of a page."""

from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from designer.models import Agent
from people.permissions import person


def find_agent(request: HttpRequest, slug: str) -> Agent:
    """Return the agent, if the user may see it, with its parent and team. Raises Http404."""
    rows = Agent.objects.live().visible_to(person(request)).select_related("parent", "team")
    return get_object_or_404(rows, slug=slug)
