"""Keys of programs, and the agents that are named for them (docs/decisions/0023-agent-keys.md)."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import Prefetch, QuerySet

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
    """The row and the key itself, which is not kept anywhere. With `agents` it reaches these alone, and with
    an `environment`, which each of them has, it runs their tools there alone."""
    named = list(dict.fromkeys(agents))
    if len(named) > MAX_AGENTS:
        message = f"Name at most {MAX_AGENTS} agents."
        raise DomainError("invalid", message, fields={"agents": message})
    if environment:
        _check_environment(environment, named)
    key, plain = api_keys.issue(
        owner,
        actor=actor,
        name=name,
        scopes=scopes,
        expires_at=expires_at,
        is_narrowed=bool(named),
        calls_at_once=calls_at_once,
        environment=environment,
    )
    KeyAgent.objects.bulk_create([KeyAgent(api_key=key, agent=agent) for agent in named])
    for agent in named:  # an entry each, as each agent has its own readers
        audit.record(actor, "name agent", key, after={"agent": agent.slug}, agent=agent.pk)
    return key, plain


@transaction.atomic
def change_environment(key: ApiKey, *, actor: User, environment: str, expected: str | None = None) -> None:
    """Where the key runs tools from the next call on; "" leaves it to the calls. `expected` is what the actor
    saw: where it is another one by now, DomainError says so, and nothing is changed."""
    row = ApiKey.objects.select_for_update(no_key=True).get(pk=key.pk)
    before = row.environment
    if expected is not None and expected != before:
        now = f"runs tools in “{before}” by now" if before else "names no environment by now"
        message = f"The key {now}. Look at it, then decide again."
        raise DomainError("changed_meanwhile", message, status=409)
    if environment:
        _check_environment(environment, [each.agent for each in row.named.select_related("agent")])
    if environment != before:
        row.environment = environment
        row.save(update_fields=["environment"])
        after = {"environment": environment}
        audit.record(actor, "change key", row, before={"environment": before}, after=after)
    key.environment = environment


def _check_environment(name: str, agents: list[Agent]) -> None:
    if not agents:
        raise invalid(environment="Name the agents whose environment it is.")
    having = set(Environment.objects.filter(agent__in=agents, name=name).values_list("agent", flat=True))
    if lacking := next((agent for agent in agents if agent.pk not in having), None):
        raise invalid(environment=f"“{lacking}” has no environment “{printable(name, 60)}”.")


def environments_of(agents: Iterable[Agent]) -> list[str]:
    """The names that a key for some of these can have as its environment."""
    rows = Environment.objects.filter(agent__in=list(agents)).order_by("name")
    return list(rows.values_list("name", flat=True).distinct())


def of_signed_in(owner: User, agent: Agent) -> str:
    """The digest of the key by which clients are known that `owner` signs in to use the agent.

    It has no secret, is made at the first visit, and is revoked like any other.
    """
    digest = f"{ApiKey.SIGNED_IN}{agent.pk}:{owner.pk}"
    if ApiKey.objects.filter(digest=digest).exists():
        return digest
    with transaction.atomic():
        # None where another process is a moment faster.
        if key := api_keys.admit(owner, name=f"{agent.name[:80]}, signed in", digest=digest):
            KeyAgent.objects.create(api_key=key, agent=agent)
            audit.record(owner, "name agent", key, after={"agent": agent.slug}, agent=agent.pk)
    return digest


def choose(owner: User, slugs: Iterable[str]) -> list[Agent]:
    """The agents by their addresses. Raises DomainError for one that `owner` does not see."""
    wanted = list(dict.fromkeys(slugs))
    found = {agent.slug: agent for agent in Agent.objects.live().visible_to(owner).filter(slug__in=wanted)}
    if missing := [slug for slug in wanted if slug not in found]:
        message = f"There is no agent “{missing[0]}”."
        raise DomainError("invalid", message, fields={"agents": message})
    return [found[slug] for slug in wanted]


def visible_to(reader: User) -> QuerySet[ApiKey]:
    """Each with `shown`: its named agents that `reader` may know of."""
    agents = Agent.objects.live().visible_to(reader)
    named = KeyAgent.objects.filter(agent__in=agents).select_related("agent").order_by("agent__name", "pk")
    return api_keys.visible_to(reader).prefetch_related(Prefetch("named", named, to_attr="shown"))


def agents_of(key: ApiKey) -> list[Agent]:
    # Of a key out of `visible_to`.
    shown: list[KeyAgent] = getattr(key, "shown")  # noqa: B009 - put there by the prefetch
    return [naming.agent for naming in shown]
