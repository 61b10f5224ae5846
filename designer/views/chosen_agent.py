"""The agent in the address of a page."""

from functools import cache

from django.http import Http404, HttpRequest

from core.compiled_queries import CompiledQuery, named_value
from designer.models import Agent
from people.models import Role
from people.permissions import any_user, person


def find_agent(request: HttpRequest, slug: str) -> Agent:
    """Return the agent, if the user may see it, with its parent and team. Raises Http404."""
    user = person(request)
    if agents := _visible_agents(Role(user.role)).rows(slug=slug, user=user.pk):
        return agents[0]
    raise Http404


@cache
def _visible_agents(role: Role) -> CompiledQuery[Agent]:
    rows = Agent.objects.live().visible_to(any_user(role)).filter(slug=named_value("slug"))
    return CompiledQuery(rows.select_related("parent", "team"))
