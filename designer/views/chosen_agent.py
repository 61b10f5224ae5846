"""The agent in the address of a page."""

from django.http import Http404, HttpRequest

from core.compiled_queries import named_value
from designer.models import Agent
from people.permissions import QueryByRole, person


def find_agent(request: HttpRequest, slug: str) -> Agent:
    """Return the agent, if the user may see it, with its parent and team. Raises Http404."""
    if agents := _AGENT.rows(person(request), slug=slug):
        return agents[0]
    raise Http404


_AGENT: QueryByRole[Agent] = QueryByRole(
    lambda user: (
        Agent.objects.live()
        .visible_to(user)
        .filter(slug=named_value("slug"))
        .select_related("parent", "team")
    )
)
