"""API keys of programs, and the agents that they are limited to (docs/decisions/0023-agent-keys.md)."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

from core.errors import DomainError, invalid
from core.outbound.errors import printable
from designer.models import Agent, Environment, KeyAgent
from people import api_keys, audit
from people.models import CALLS_AT_ONCE, ApiKey, User

MAX_AGENTS = 50


@transaction.atomic
def issue(
    owner: User,
    *,
    actor: User | None,
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None = None,
    agents: Iterable[Agent] = (),
    calls_at_once: int = CALLS_AT_ONCE,
    environment: str = "",
) -> tuple[ApiKey, str]:
    """Issue a key. Return its row and the key itself, which is not stored.

    agents: the key reaches only these; empty for all.
    environment: the key runs tools only there; each of the agents has an environment with this name.
    """
    key_agents = list(dict.fromkeys(agents))
    if len(key_agents) > MAX_AGENTS:
        message = _("Choose at most {max_agents} agents.").format(max_agents=MAX_AGENTS)
        raise DomainError("invalid", message, fields={"agents": message})
    if environment:
        _check_environment(environment, key_agents)
    key, plain = api_keys.issue(
        owner,
        actor=actor,
        name=name,
        scopes=scopes,
        expires_at=expires_at,
        is_narrowed=bool(key_agents),
        calls_at_once=calls_at_once,
        environment=environment,
    )
    KeyAgent.objects.bulk_create([KeyAgent(api_key=key, agent=agent) for agent in key_agents])
    for agent in key_agents:  # One entry per agent, because each agent has its own readers.
        audit.record(actor, "name agent", key, after={"agent": agent.slug}, agent=agent.pk)
    return key, plain


@transaction.atomic
def change_environment(key: ApiKey, *, actor: User, environment: str, expected: str | None = None) -> None:
    """Set the environment where the key runs tools from the next call on; "" leaves the choice to the calls.

    expected: the environment that the actor saw. Raises DomainError if it has changed since.
    """
    row = ApiKey.objects.select_for_update(no_key=True).get(pk=key.pk)
    before = row.environment
    if expected is not None and expected != before:
        message = (
            _("The key runs tools in “{environment}” now. Check it, then decide again.")
            if before
            else _("The key has no environment now. Check it, then decide again.")
        ).format(environment=before)
        raise DomainError("changed_meanwhile", message, status=409)
    if environment:
        _check_environment(environment, [naming.agent for naming in row.named.select_related("agent")])
    if environment != before:
        row.environment = environment
        row.save(update_fields=["environment"])
        after = {"environment": environment}
        audit.record(actor, "change key", row, before={"environment": before}, after=after)
    key.environment = environment


def _check_environment(name: str, agents: list[Agent]) -> None:
    if not agents:
        raise invalid(environment=_("Choose the agents that have this environment."))
    agents_with_it = set(
        Environment.objects.filter(agent__in=agents, name=name).values_list("agent", flat=True)
    )
    if agent_without_it := next((agent for agent in agents if agent.pk not in agents_with_it), None):
        raise invalid(
            environment=_("“{agent}” has no environment “{environment}”.").format(
                agent=agent_without_it, environment=printable(name, 60)
            )
        )


def environments_of(agents: Iterable[Agent]) -> list[str]:
    """Return the environment names that a key for some of these agents can have."""
    rows = Environment.objects.filter(agent__in=list(agents)).order_by("name")
    return list(rows.values_list("name", flat=True).distinct())


def digest_of_signed_in(owner: User, agent: Agent) -> str:
    """Return the digest of the key for clients where `owner` signs in to use the agent.

    The key has no secret, is created at the first visit, and can be revoked like any other.
    """
    digest = f"{ApiKey.SIGNED_IN}{agent.pk}:{owner.pk}"
    if ApiKey.objects.filter(digest=digest).exists():
        return digest
    with transaction.atomic():
        # None if another process created it a moment ago.
        if key := api_keys.admit(owner, name=f"{agent.name[:80]}, signed in", digest=digest):
            KeyAgent.objects.create(api_key=key, agent=agent)
            audit.record(owner, "name agent", key, after={"agent": agent.slug}, agent=agent.pk)
    return digest


def find_agents(owner: User, slugs: Iterable[str]) -> list[Agent]:
    """Return the agents by their addresses. Raises DomainError for an agent that `owner` does not see."""
    unique_slugs = list(dict.fromkeys(slugs))
    agents = {
        agent.slug: agent for agent in Agent.objects.live().visible_to(owner).filter(slug__in=unique_slugs)
    }
    if missing := [slug for slug in unique_slugs if slug not in agents]:
        message = _("There is no agent “{slug}”.").format(slug=missing[0])
        raise DomainError("invalid", message, fields={"agents": message})
    return [agents[slug] for slug in unique_slugs]


def visible_to(reader: User) -> QuerySet[ApiKey]:
    """Return the keys that `reader` sees. `shown` has the agents of each key that `reader` may see."""
    agents = Agent.objects.live().visible_to(reader)
    namings = KeyAgent.objects.filter(agent__in=agents).select_related("agent").order_by("agent__name", "pk")
    return api_keys.visible_to(reader).prefetch_related(Prefetch("named", namings, to_attr="shown"))


def agents_of(key: ApiKey) -> list[Agent]:
    # The key has to come from `visible_to`.
    namings: list[KeyAgent] = getattr(key, "shown")  # noqa: B009 - set by the prefetch
    return [naming.agent for naming in namings]
