"""Agents and their tree. Each function is one change by one person, audited in its own transaction."""

import re
from typing import Any, Literal, TypedDict, Unpack

from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from django.utils.text import slugify

from designer.errors import DesignerError
from designer.models import Agent
from designer.texts import checked
from people import audit, names
from people.models import User

LONGEST_NAME = 120
LONGEST_SLUG = 60
SLUG = r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?"
LONGEST_DESCRIPTION = 4_000


class Changes(TypedDict, total=False):
    name: str
    slug: str
    description: str
    parent: Agent | None


@transaction.atomic
def create_agent(
    *, actor: User, name: str, slug: str = "", description: str = "", parent: Agent | None = None
) -> Agent:
    """Without a slug, one is made from the name; then a number keeps it apart from those in use."""
    if parent:
        _lock_tree()
    agent = Agent(created_by=actor)
    _apply(agent, {"name": name, "description": description, "parent": parent})
    agent.slug = _checked_slug(slug) if slug else _free_slug(agent.name)
    _save(agent)
    audit.record(actor, "create", agent, after=facts(agent), agent=agent.pk)
    return agent


@transaction.atomic
def update_agent(agent: Agent, *, actor: User, **changes: Unpack[Changes]) -> Agent:
    if "parent" in changes:
        _lock_tree()
    agent = locked(agent)
    before = facts(agent)
    _apply(agent, changes)
    if "slug" in changes:
        agent.slug = _checked_slug(changes["slug"])
    if facts(agent) != before:
        _save(agent)
        audit.record(actor, "edit", agent, before=before, after=facts(agent), agent=agent.pk)
    return agent


@transaction.atomic
def remove_agent(agent: Agent, *, actor: User) -> None:
    """Hides it with its pins. Its releases stay sealed and its slug is free again."""
    _lock_tree()
    agent = locked(agent)
    if agent.children.live().exists():
        raise DesignerError(
            "has_sub_agents", f"“{agent}” has sub-agents. Remove them, or move them first.", status=409
        )
    agent.removed_at = timezone.now()
    agent.save(update_fields=["removed_at"])
    audit.record(actor, "remove", agent, before=facts(agent), agent=agent.pk)


def locked(agent: Agent) -> Agent:
    """The agent as it is now, and ours until the transaction ends: whoever edits its pins waits here."""
    found = Agent.objects.live().select_for_update(of=("self",), no_key=True).filter(pk=agent.pk).first()
    if found is None:
        raise DesignerError("agent_removed", f"“{agent}” has been removed.", status=409)
    return found


def _lock_tree() -> None:
    """One change of the tree at a time: two moves that are harmless alone could close a circle together."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('designer.tree'))")


def facts(agent: Agent) -> dict[str, Any]:
    """What an audit row says about an agent."""
    return {
        "name": agent.name,
        "slug": agent.slug,
        "description": agent.description,
        "parent": agent.parent.slug if agent.parent else None,
    }


def _apply(agent: Agent, changes: Changes) -> None:
    if "name" in changes:
        agent.name = changes["name"].strip()
        if why := names.why_not(agent.name, LONGEST_NAME):
            raise DesignerError("invalid", "An agent cannot be called so.", fields={"name": why})
    if "description" in changes:
        agent.description = checked(changes["description"], field="description", limit=LONGEST_DESCRIPTION)
    if "parent" in changes:
        agent.parent = _checked_parent(agent, changes["parent"])


def _checked_parent(agent: Agent, parent: Agent | None) -> Agent | None:
    """Raises DesignerError for a removed parent and for one that is the agent itself or below it."""
    if parent is None:
        return None
    tree = dict(Agent.objects.live().values_list("pk", "parent_id"))
    above: int | None = parent.pk
    while above is not None:
        if above == agent.pk:
            raise _bad_parent(
                409, "circular_parent", f"“{parent}” is below “{agent}”, so it cannot be above it."
            )
        if above not in tree:
            raise _bad_parent(400, "parent_removed", f"“{parent}” has been removed.")
        above = tree[above]
    return parent


def _bad_parent(status: Literal[400, 409], code: str, message: str) -> DesignerError:
    return DesignerError(code, message, fields={"parent": message}, status=status)


def _checked_slug(slug: str) -> str:
    slug = slug.strip()
    if not re.fullmatch(SLUG, slug):
        message = f"Use small letters, digits and hyphens, up to {LONGEST_SLUG} characters."
        raise DesignerError("invalid", "This address cannot be used.", fields={"slug": message})
    return slug


def _free_slug(name: str) -> str:
    wanted = slugify(name).replace("_", "-")[:LONGEST_SLUG].strip("-") or "agent"
    stem = wanted[: LONGEST_SLUG - 5].strip("-")
    taken = set(Agent.objects.live().filter(slug__startswith=stem).values_list("slug", flat=True))
    slug, number = wanted, 1
    while slug in taken:
        number += 1
        slug = f"{stem}-{number}"
    return slug


def _save(agent: Agent) -> None:
    try:
        with transaction.atomic():
            agent.save()
    except IntegrityError as exc:
        message = f"There is an agent at “{agent.slug}” already."
        raise DesignerError("slug_taken", message, fields={"slug": message}, status=409) from exc
