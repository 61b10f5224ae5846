"""Agents and their tree. Each function is one change by one person, audited in its own transaction."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from django.db import IntegrityError, connection, transaction
from django.db.models.expressions import RawSQL
from django.utils import timezone

from catalog.models import Tool, Vendor
from catalog.rules import retries
from catalog.rules.retries import Stated
from core import display_names, slugs, unique_violations
from core.errors import DomainError
from designer import agent_addresses, agent_vendors, transfers
from designer.models import Agent
from designer.texts import checked
from people import audit, teams
from people.audit import edit_conflicts
from people.models import Team, User

MAX_NAME_LENGTH = 120
MAX_DESCRIPTION_LENGTH = 4_000
# Addresses beside those of agents.
RESERVED = {"import"}
_BELOW = """
WITH RECURSIVE below AS (
    SELECT id AS root, id, archived_at FROM designer_agent WHERE id = ANY(%s)
    UNION
    SELECT below.root, child.id, child.archived_at FROM designer_agent child
    JOIN below ON child.parent_id = below.id
    WHERE child.removed_at IS NULL AND child.archived_at IS NOT DISTINCT FROM below.archived_at
)
SELECT root, id FROM below
"""
_ABOVE = """
WITH RECURSIVE above AS (
    SELECT id, parent_id FROM designer_agent WHERE id = ANY(%s)
    UNION SELECT parent.id, parent.parent_id
    FROM designer_agent parent JOIN above ON above.parent_id = parent.id
)
SELECT id FROM above
"""
_THAT_USE = """
WITH RECURSIVE above AS (
    SELECT agent.id, agent.parent_id FROM designer_agent agent
    JOIN designer_pin pin ON pin.agent_id = agent.id
    WHERE pin.tool_id = %s AND pin.removed_at IS NULL AND agent.removed_at IS NULL
    UNION SELECT parent.id, parent.parent_id
    FROM designer_agent parent JOIN above ON above.parent_id = parent.id
)
SELECT id FROM above
"""


class Changes(TypedDict, total=False):
    name: str
    slug: str
    description: str
    parent: Agent | None
    team: Team
    vendors: Collection[Vendor] | None
    retry: Stated


@transaction.atomic
def create_agent(
    *,
    actor: User,
    name: str,
    slug: str = "",
    description: str = "",
    parent: Agent | None = None,
    team: Team | None = None,
    vendors: Collection[Vendor] | None = None,
    retry: Stated | None = None,
    why: str = "",
) -> Agent:
    """Without a slug one is made from the name; without a team it gets its parent's, or the actor's first;
    without `vendors` it may use all that the agents above it may use.
    """
    if parent:
        transfers.lock_tree()
    agent = Agent(created_by=actor, team=teams.locked(team or teams.first_of(actor)))
    agent.limits_vendors = vendors is not None
    _apply(agent, {"name": name, "description": description, "parent": parent, "retry": retry or {}})
    _settle_team(agent, team)
    agent.slug = slugs.parse_slug(slug) if slug else _free_slug(agent.name)
    _save(agent)
    agent_vendors.name_vendors(agent, vendors or ())
    transfers.follow(agent)
    audit.record(actor, "create", agent, after=facts(agent), why=why, agent=agent.pk)
    return agent


@transaction.atomic
def update_agent(
    agent: Agent, *, actor: User, expected: str = edit_conflicts.ANY_STATE, **changes: Unpack[Changes]
) -> Agent:
    """A change of the team takes the sub-agents along. `expected`: people/audit/edit_conflicts.py."""
    # The tree's lock comes before an agent's own everywhere; the other way round two changes could wait for
    # each other.
    if changes.keys() & {"parent", "team", "slug"}:
        transfers.lock_tree()
    agent = locked(agent)
    before, old_team = facts(agent), agent.team
    _apply(agent, changes)
    _settle_team(agent, changes.get("team"))
    if "slug" in changes:
        agent.slug = slugs.parse_slug(changes["slug"])
    after = facts(agent)
    if "vendors" in changes:
        named = changes["vendors"]
        agent.limits_vendors = named is not None
        after |= _vendor_facts(agent, named or ())
    edit_conflicts.check(agent, expected, now=before, wanted=after)
    if after != before:  # An edit that changes nothing leaves no audit row.
        _save(agent)
        if "vendors" in changes:
            agent_vendors.name_vendors(agent, changes["vendors"] or ())
        if agent.slug != before["slug"]:
            agent_addresses.move(agent, before=before["slug"])
        if agent.team != old_team:
            _take_along(agent, old_team, actor)
        audit.record(actor, "edit", agent, before=before, after=after, agent=agent.pk)
        if changes.keys() & {"parent", "slug"}:
            transfers.follow(agent)
    return agent


@transaction.atomic
def remove_agent(agent: Agent, *, actor: User) -> None:
    """Hides the agent with its pins. Its releases stay, and so does an address that it published at."""
    transfers.lock_tree()
    agent = _locked_live(agent)
    if agent.children.live().exists():
        raise DomainError(
            "has_sub_agents",
            f"“{agent}” has sub-agents, or archived ones. Remove them, or move them first.",
            status=409,
        )
    agent.removed_at = timezone.now()
    agent.save(update_fields=["removed_at"])
    transfers.follow(agent)
    audit.record(actor, "remove", agent, before=facts(agent), agent=agent.pk)


@transaction.atomic
def archive_agent(agent: Agent, *, actor: User) -> Agent:
    """Puts the agent and all that is below it away: nothing of them changes until they are brought back, and
    runtimes go on getting their releases.
    """
    transfers.lock_tree()
    agent = locked(agent)
    moment = timezone.now()
    _set_archived(_with_all_below(agent, archived_at=None), moment, actor, "archive", agent)
    agent.archived_at = moment
    return agent


@transaction.atomic
def restore_agent(agent: Agent, *, actor: User) -> Agent:
    """Brings the agent back with all that was archived together with it."""
    transfers.lock_tree()
    agent = _locked_live(agent)
    if agent.archived_at is None:
        raise DomainError("not_archived", f"“{agent}” is not archived.", status=409)
    if agent.parent and agent.parent.archived_at:
        message = f"“{agent.parent}”, which it is below, is archived. Bring that one back first."
        raise DomainError("parent_archived", message, status=409)
    _set_archived(_with_all_below(agent, archived_at=agent.archived_at), None, actor, "restore", agent)
    agent.archived_at = None
    return agent


@transaction.atomic
def remove_team(team: Team, *, actor: User) -> None:
    """Refused while agents belong to it. The releases of removed agents stay as they are."""
    team = teams.locked(team)
    count = Agent.objects.live().filter(team=team).count()
    if count:
        what = "One agent belongs" if count == 1 else f"{count} agents belong"
        message = f"{what} to “{team}”. Move {'it' if count == 1 else 'them'} to another team first."
        raise DomainError("team_has_agents", message, status=409)
    teams.remove_team(team, actor=actor)


def locked(agent: Agent) -> Agent:
    """The agent as it is now, locked until the transaction ends: other edits of it or its pins wait here.

    Raises DomainError for one that is removed or archived.
    """
    found = _locked_live(agent)
    if found.archived_at:
        raise transfers.archived(found)
    return found


def _locked_live(agent: Agent) -> Agent:
    rows = Agent.objects.live().select_related("team", "parent__team")
    found = rows.select_for_update(of=("self",), no_key=True).filter(pk=agent.pk).first()
    if found is None:
        raise DomainError("agent_removed", f"“{agent}” has been removed.", status=409)
    return found


def tree_of(agent: Agent) -> set[int]:
    """The agents of the same tree: those above, and all that is below the root. Archived ones are in the tree
    of an archived agent only.
    """
    rows = Agent.objects.live() if agent.archived_at else Agent.objects.active()
    parents = dict(rows.filter(team=agent.team_id).values_list("pk", "parent_id"))
    root = agent.pk
    while (above := parents.get(root)) is not None:
        root = above
    tree, level = {root}, {root}
    while level:
        level = {pk for pk, parent in parents.items() if parent in level} - tree
        tree |= level
    return tree


def with_all_below(roots: Sequence[Agent]) -> dict[int, list[Agent]]:
    """By primary key each agent and all that is below it, each after its parent and siblings by their slugs.

    Archived ones are there below an agent that was archived with them.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BELOW, [[root.pk for root in roots]])
        found = cursor.fetchall()
    known = {root.pk: root for root in roots}
    missing = {pk for _, pk in found} - known.keys()
    known |= Agent.objects.in_bulk(missing) if missing else {}
    trees: defaultdict[int, list[Agent]] = defaultdict(list)
    for root, pk in found:
        trees[root].append(known[pk])
    return {
        root: [agent for _, agent in ordered(sorted(tree, key=lambda agent: agent.slug))]
        for root, tree in trees.items()
    }


def with_all_above(agents: Iterable[int]) -> set[int]:
    """By their primary keys."""
    if not (asked := list(agents)):
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_ABOVE, [asked])
        return {pk for (pk,) in cursor.fetchall()}


def that_use(tool: Tool) -> RawSQL:
    """The agents that have pinned the tool, and those above them, for a query of their rows."""
    return RawSQL(_THAT_USE, [tool.pk])  # noqa: S611 - a statement of ours, with a number in it


def ordered(rows: Sequence[Agent]) -> list[tuple[int, Agent]]:
    """Each agent with its depth, sub-agents below their parents, in the order given otherwise."""
    below: defaultdict[int | None, list[Agent]] = defaultdict(list)
    known = {row.pk for row in rows}
    for row in rows:
        below[row.parent_id if row.parent_id in known else None].append(row)
    found: list[tuple[int, Agent]] = []
    waiting = [(0, row) for row in reversed(below[None])]
    while waiting:
        depth, row = waiting.pop()
        found.append((depth, row))
        waiting += [(depth + 1, child) for child in reversed(below[row.pk])]
    return found


def facts(agent: Agent) -> dict[str, Any]:
    """What an audit row says about an agent."""
    return {
        "name": agent.name,
        "slug": agent.slug,
        "description": agent.description,
        "parent": agent.parent.slug if agent.parent else None,
        "team": agent.team.slug,
        "retry": agent.retry,
        **_vendor_facts(agent, agent_vendors.named_for(agent)),
    }


def _vendor_facts(agent: Agent, named: Collection[Vendor]) -> dict[str, Any]:
    return {"limits_vendors": agent.limits_vendors, "vendors": sorted(vendor.slug for vendor in named)}


def _apply(agent: Agent, changes: Changes) -> None:
    if "name" in changes:
        agent.name = changes["name"].strip()
        if why := display_names.name_problem(agent.name, MAX_NAME_LENGTH):
            raise DomainError("invalid", "An agent cannot be called so.", fields={"name": why})
    if "description" in changes:
        agent.description = checked(changes["description"], field="description", limit=MAX_DESCRIPTION_LENGTH)
    if "retry" in changes:
        agent.retry = retries.stated(agent.retry, changes["retry"])
    if "parent" in changes:
        agent.parent = _checked_parent(agent, changes["parent"])


def _settle_team(agent: Agent, wanted: Team | None) -> None:
    # A sub-agent is of its parent's team; callers that change either hold the lock of the tree.
    if agent.parent is None:
        if wanted is not None:
            agent.team = teams.locked(wanted)
        return
    # It may have been read before the lock, and have changed hands since.
    agent.parent.refresh_from_db(fields=["team"])
    if wanted is not None and wanted != agent.parent.team:
        message = f"It belongs to the team of “{agent.parent}”. Move that one, or take it out from below it."
        raise DomainError("invalid", "A sub-agent goes with its parent.", fields={"team": message})
    agent.team = agent.parent.team


def _take_along(agent: Agent, old_team: Team, actor: User) -> None:
    # All that is below `agent`, removed ones too, so that no history stays with the old team.
    above = [agent.pk]
    while below := list(Agent.objects.filter(parent__in=above)):
        Agent.objects.filter(pk__in=[each.pk for each in below]).update(team=agent.team)
        for each in below:
            moved = {"before": {"team": old_team.slug}, "after": {"team": agent.team.slug}}
            audit.record(actor, "edit", each, **moved, why=f"It goes with “{agent}”.", agent=each.pk)
        above = [each.pk for each in below]


def _with_all_below(agent: Agent, *, archived_at: datetime | None) -> list[Agent]:
    # Below an agent that was archived at another moment, all was archived with that one or before it.
    found, level = [agent], [agent]
    while level:
        level = list(Agent.objects.live().filter(parent__in=level, archived_at=archived_at).order_by("pk"))
        found += level
    return found


def _set_archived(
    rows: list[Agent], moment: datetime | None, actor: User, action: str, chosen: Agent
) -> None:
    Agent.objects.filter(pk__in=[row.pk for row in rows]).update(archived_at=moment)
    for row in rows:
        why = "" if row == chosen else f"It goes with “{chosen}”."
        before, after = ({"archived": is_archived} for is_archived in (moment is None, moment is not None))
        audit.record(actor, action, row, before=before, after=after, why=why, agent=row.pk)


def _checked_parent(agent: Agent, parent: Agent | None) -> Agent | None:
    # Raises DomainError for a removed parent and for one that is the agent itself or below it.
    if parent is None:
        return None
    # All of it in one query: a path upwards would be one for each step.
    tree = dict(Agent.objects.live().values_list("pk", "parent_id"))
    if Agent.objects.filter(pk=parent.pk).exclude(archived_at=None).exists():
        raise _bad_parent(409, "parent_archived", f"“{parent}” is archived. Bring it back first.")
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


def _bad_parent(status: Literal[400, 409], code: str, message: str) -> DomainError:
    return DomainError(code, message, fields={"parent": message}, status=status)


def _free_slug(name: str) -> str:
    wanted = slugs.from_name(name) or "agent"
    # Room is left for a hyphen and a number.
    stem = wanted[: slugs.MAX_LENGTH - 5].strip("-")
    taken = set(Agent.objects.live().filter(slug__startswith=stem).values_list("slug", flat=True))
    taken |= agent_addresses.held_like(stem) | RESERVED
    # A number keeps it apart from the addresses in use, and from those held for other agents.
    slug, number = wanted, 1
    while slug in taken:
        number += 1
        slug = f"{stem}-{number}"
    return slug


def _save(agent: Agent) -> None:
    if agent.slug in RESERVED:
        raise _taken(f"“{agent.slug}” is an address of Pegboard's own. Choose another.")
    try:
        with transaction.atomic():
            agent.save()
    except IntegrityError as exc:
        if not unique_violations.is_taken(exc):
            raise
        raise _taken(f"There is an agent at “{agent.slug}” already.") from exc
    # After the write, which waits for a transaction that gives this address up at the moment.
    if not agent_addresses.claim(agent):
        raise _taken(
            f"Another agent was published at “{agent.slug}”, and runtimes know it by that. Choose another."
        )


def _taken(message: str) -> DomainError:
    return DomainError("slug_taken", message, fields={"slug": message}, status=409)
