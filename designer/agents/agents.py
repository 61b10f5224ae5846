"""Agents and their tree. Each function is one change by one user, audited in its transaction."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from django.db import IntegrityError, connection, models, transaction
from django.db.models.expressions import RawSQL
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.models import Tool, Vendor
from catalog.rules import retries
from catalog.rules.retries import Stated
from core import display_names, slugs, unique_violations
from core.errors import DomainError
from core.prepared_statements import run_prepared
from designer.agents import agent_addresses, agent_vendors, transfers
from designer.models import Agent
from designer.models.agents import MAX_DESCRIPTION_LENGTH, MAX_NAME_LENGTH
from designer.texts import validated_text
from people import audit, teams
from people.audit import edit_conflicts
from people.models import Team, User

# Slugs that would collide with Pegboard's own addresses.
RESERVED = {"import"}
_DESCENDANTS = """
WITH RECURSIVE below AS (
    SELECT id AS root, id, archived_at FROM designer_agent WHERE id = ANY(%s)
    UNION
    SELECT below.root, child.id, child.archived_at FROM designer_agent child
    JOIN below ON child.parent_id = below.id
    WHERE child.removed_at IS NULL AND child.archived_at IS NOT DISTINCT FROM below.archived_at
)
SELECT root, id FROM below
"""
_ANCESTORS = """
WITH RECURSIVE above AS (
    SELECT id, parent_id FROM designer_agent WHERE id = ANY(%s)
    UNION SELECT parent.id, parent.parent_id
    FROM designer_agent parent JOIN above ON above.parent_id = parent.id
)
SELECT id FROM above
"""
_USERS_OF_TOOL = """
WITH RECURSIVE above AS (
    SELECT agent.id, agent.parent_id FROM designer_agent agent
    JOIN designer_pin pin ON pin.agent_id = agent.id
    WHERE pin.tool_id = %s AND pin.removed_at IS NULL AND agent.removed_at IS NULL
    UNION SELECT parent.id, parent.parent_id
    FROM designer_agent parent JOIN above ON above.parent_id = parent.id
)
SELECT id FROM above
"""
# The input of a copy; designer/files/agent_copies.py copies.
WITH_SUB_AGENTS: "models.BooleanField[bool, bool]" = models.BooleanField(
    gettext_lazy("Copy its sub-agents too"),
    blank=True,
    help_text="Whether all agents below it are copied too.",
)


class AgentChanges(TypedDict, total=False):
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
    """Create an agent.

    slug: derived from the name if "".
    team: the parent's if None, or the actor's first.
    vendors: None if it may use all vendors that the agents above it may use.
    """
    if parent:
        transfers.lock_tree()
    agent = Agent(created_by=actor, team=teams.lock_team(team or teams.first_of(actor)))
    agent.limits_vendors = vendors is not None
    _apply_changes(agent, {"name": name, "description": description, "parent": parent, "retry": retry or {}})
    _settle_team(agent, team)
    if slug:
        agent.slug = slugs.parse_slug(slug)
    else:
        proposal = slugs.from_name(agent.name) or "agent"
        stem = slugs.stem_of(proposal)
        rows = Agent.objects.live().filter(slug__startswith=stem)
        used_slugs = {*rows.values_list("slug", flat=True), *agent_addresses.reserved_like(stem), *RESERVED}
        agent.slug = slugs.unused_slug(proposal, used_slugs)
    _save_agent(agent)
    agent_vendors.set_vendors(agent, vendors or ())
    transfers.follow(agent)
    audit.record(actor, "create", agent, after=facts(agent), why=why, agent=agent.pk)
    return agent


@transaction.atomic
def update_agent(
    agent: Agent, *, actor: User, expected: str = edit_conflicts.ANY_STATE, **changes: Unpack[AgentChanges]
) -> Agent:
    """Change the agent. A change of the team also changes its sub-agents. `expected`:
    people/audit/edit_conflicts.py.
    """
    # The lock of the tree always comes before that of an agent, so that two changes cannot deadlock.
    if changes.keys() & {"parent", "team", "slug"}:
        transfers.lock_tree()
    agent = lock_agent(agent)
    before, old_team = facts(agent), agent.team
    _apply_changes(agent, changes)
    _settle_team(agent, changes.get("team"))
    if "slug" in changes:
        agent.slug = slugs.parse_slug(changes["slug"])
    after = facts(agent)
    if "vendors" in changes:
        new_vendors = changes["vendors"]
        agent.limits_vendors = new_vendors is not None
        after |= _vendor_facts(agent, new_vendors or ())
    edit_conflicts.check(agent, expected, now=before, submitted=after)
    if after != before:  # An edit that changes nothing leaves no audit row.
        _save_agent(agent)
        if "vendors" in changes:
            agent_vendors.set_vendors(agent, changes["vendors"] or ())
        if agent.slug != before["slug"]:
            agent_addresses.move(agent, before=before["slug"])
        if agent.team != old_team:
            _move_sub_agents(agent, old_team, actor)
        audit.record(actor, "edit", agent, before=before, after=after, agent=agent.pk)
        if changes.keys() & {"parent", "slug"}:
            transfers.follow(agent)
    return agent


@transaction.atomic
def remove_agent(agent: Agent, *, actor: User) -> None:
    """Hide the agent with its pins. Its releases remain, and so does an address where it has published."""
    transfers.lock_tree()
    agent = _locked_live(agent)
    if agent.children.live().exists():
        raise DomainError(
            "has_sub_agents",
            _("“{agent}” has sub-agents, some of them perhaps archived. Remove or move them first.").format(
                agent=agent
            ),
            status=409,
        )
    agent.removed_at = timezone.now()
    agent.save(update_fields=["removed_at"])
    transfers.follow(agent)
    audit.record(actor, "remove", agent, before=facts(agent), agent=agent.pk)


@transaction.atomic
def archive_agent(agent: Agent, *, actor: User) -> Agent:
    """Archive the agent and all its sub-agents: they cannot be changed until they are restored, and runtimes
    continue to get their releases.
    """
    transfers.lock_tree()
    agent = lock_agent(agent)
    moment = timezone.now()
    _set_archived(_with_all_below(agent, archived_at=None), moment, actor, "archive", agent)
    agent.archived_at = moment
    return agent


@transaction.atomic
def restore_agent(agent: Agent, *, actor: User) -> Agent:
    """Restore the agent with all sub-agents that were archived together with it."""
    transfers.lock_tree()
    agent = _locked_live(agent)
    if agent.archived_at is None:
        raise DomainError("not_archived", _("“{agent}” is not archived.").format(agent=agent), status=409)
    if agent.parent and agent.parent.archived_at:
        message = _("The parent “{parent}” is archived. Restore that agent first.").format(
            parent=agent.parent
        )
        raise DomainError("parent_archived", message, status=409)
    _set_archived(_with_all_below(agent, archived_at=agent.archived_at), None, actor, "restore", agent)
    agent.archived_at = None
    return agent


@transaction.atomic
def remove_team(team: Team, *, actor: User) -> None:
    """Remove the team. Raises DomainError while agents belong to it. Releases of removed agents are
    unaffected.
    """
    team = teams.lock_team(team)
    count = Agent.objects.live().filter(team=team).count()
    if count:
        message = ngettext(
            "One agent belongs to “{team}”. Move it to another team first.",
            "{count} agents belong to “{team}”. Move them to another team first.",
            count,
        ).format(count=count, team=team)
        raise DomainError("team_has_agents", message, status=409)
    teams.remove_team(team, actor=actor)


def lock_agent(agent: Agent) -> Agent:
    """Return the agent as it is now, locked until the transaction ends: other edits of it or its pins wait.

    Raises DomainError if it is removed or archived.
    """
    current = _locked_live(agent)
    if current.archived_at:
        raise transfers.archived_error(current)
    return current


def _locked_live(agent: Agent) -> Agent:
    rows = Agent.objects.live().select_related("team", "parent__team")
    current = rows.select_for_update(of=("self",), no_key=True).filter(pk=agent.pk).first()
    if current is None:
        raise DomainError("agent_removed", _("“{agent}” has been removed.").format(agent=agent), status=409)
    return current


def tree_of(agent: Agent) -> set[int]:
    """Return the ids of the agents in the same tree. Archived agents belong to the tree of an archived agent
    only.
    """
    rows = Agent.objects.live() if agent.archived_at else Agent.objects.active()
    parents = dict(rows.filter(team=agent.team_id).values_list("pk", "parent_id"))
    root = agent.pk
    while (parent := parents.get(root)) is not None:
        root = parent
    tree, level = {root}, {root}
    while level:
        level = {pk for pk, parent in parents.items() if parent in level} - tree
        tree |= level
    return tree


def with_all_below(roots: Sequence[Agent]) -> dict[int, list[Agent]]:
    """Return, per root, the agent and all its sub-agents, each after its parent, siblings ordered by slug.

    Archived sub-agents are included if they were archived together with the root.
    """
    rows = run_prepared(_DESCENDANTS, [[root.pk for root in roots]])
    agents_by_id = {root.pk: root for root in roots}
    missing = {pk for _, pk in rows} - agents_by_id.keys()
    agents_by_id |= Agent.objects.in_bulk(missing) if missing else {}
    trees: defaultdict[int, list[Agent]] = defaultdict(list)
    for root, pk in rows:
        trees[root].append(agents_by_id[pk])
    return {
        root: [agent for _, agent in in_tree_order(sorted(tree, key=lambda agent: agent.slug))]
        for root, tree in trees.items()
    }


def with_all_above(agents: Iterable[int]) -> set[int]:
    """Return the ids of these agents and of all agents above them."""
    if not (agent_ids := list(agents)):
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_ANCESTORS, [agent_ids])
        return {pk for (pk,) in cursor.fetchall()}


def users_of_tool(tool: Tool) -> RawSQL:
    """Return a subquery of the agents that have pinned the tool, and the agents above them."""
    return RawSQL(_USERS_OF_TOOL, [tool.pk])  # noqa: S611 - a constant statement with one parameter


def in_tree_order(rows: Sequence[Agent]) -> list[tuple[int, Agent]]:
    """Return each agent with its depth, sub-agents after their parents, otherwise in the given order."""
    children: defaultdict[int | None, list[Agent]] = defaultdict(list)
    row_ids = {row.pk for row in rows}
    for row in rows:
        children[row.parent_id if row.parent_id in row_ids else None].append(row)
    agents_with_depth: list[tuple[int, Agent]] = []
    stack = [(0, row) for row in reversed(children[None])]
    while stack:
        depth, row = stack.pop()
        agents_with_depth.append((depth, row))
        stack += [(depth + 1, child) for child in reversed(children[row.pk])]
    return agents_with_depth


def facts(agent: Agent) -> dict[str, Any]:
    """Return the values for an audit row."""
    return {
        "name": agent.name,
        "slug": agent.slug,
        "description": agent.description,
        "parent": agent.parent.slug if agent.parent else None,
        "team": agent.team.slug,
        "retry": agent.retry,
        **_vendor_facts(agent, agent_vendors.vendors_of(agent)),
    }


def _vendor_facts(agent: Agent, allowed_vendors: Collection[Vendor]) -> dict[str, Any]:
    return {
        "limits_vendors": agent.limits_vendors,
        "vendors": sorted(vendor.slug for vendor in allowed_vendors),
    }


def _apply_changes(agent: Agent, changes: AgentChanges) -> None:
    if "name" in changes:
        agent.name = changes["name"].strip()
        if name_error := display_names.name_problem(agent.name, MAX_NAME_LENGTH):
            raise DomainError("invalid", _("This name cannot be used."), fields={"name": name_error})
    if "description" in changes:
        agent.description = validated_text(
            changes["description"], field="description", limit=MAX_DESCRIPTION_LENGTH
        )
    if "retry" in changes:
        agent.retry = retries.change_policy(agent.retry, changes["retry"])
    if "parent" in changes:
        agent.parent = _checked_parent(agent, changes["parent"])


def _settle_team(agent: Agent, new_team: Team | None) -> None:
    # A sub-agent belongs to its parent's team. Callers that change either have locked the tree.
    if agent.parent is None:
        if new_team is not None:
            agent.team = teams.lock_team(new_team)
        return
    # The parent was read before the lock, and its team may have changed since.
    agent.parent.refresh_from_db(fields=["team"])
    if new_team is not None and new_team != agent.parent.team:
        message = _(
            "A sub-agent has the team of its parent “{parent}”. Move that agent, or remove the parent."
        ).format(parent=agent.parent)
        raise DomainError("invalid", _("A sub-agent has its parent's team."), fields={"team": message})
    agent.team = agent.parent.team


def _move_sub_agents(agent: Agent, old_team: Team, actor: User) -> None:
    # Removed sub-agents move too, so that no history stays with the old team.
    parents = [agent.pk]
    while sub_agents := list(Agent.objects.filter(parent__in=parents)):
        Agent.objects.filter(pk__in=[row.pk for row in sub_agents]).update(team=agent.team)
        for sub_agent in sub_agents:
            change = {"before": {"team": old_team.slug}, "after": {"team": agent.team.slug}}
            audit.record(actor, "edit", sub_agent, **change, why=f"Moved with “{agent}”.", agent=sub_agent.pk)
        parents = [row.pk for row in sub_agents]


def _with_all_below(agent: Agent, *, archived_at: datetime | None) -> list[Agent]:
    # Below an agent that was archived at another time, everything was archived with that agent or earlier.
    tree, level = [agent], [agent]
    while level:
        level = list(Agent.objects.live().filter(parent__in=level, archived_at=archived_at).order_by("pk"))
        tree += level
    return tree


def _set_archived(rows: list[Agent], moment: datetime | None, actor: User, action: str, agent: Agent) -> None:
    Agent.objects.filter(pk__in=[row.pk for row in rows]).update(archived_at=moment)
    for row in rows:
        reason = "" if row == agent else f"Together with “{agent}”."
        before, after = ({"archived": is_archived} for is_archived in (moment is None, moment is not None))
        audit.record(actor, action, row, before=before, after=after, why=reason, agent=row.pk)


def _checked_parent(agent: Agent, parent: Agent | None) -> Agent | None:
    """Raise DomainError if the parent is removed, or is the agent itself or one of its sub-agents."""
    if parent is None:
        return None
    # One query reads the whole tree; reading the path upwards would take one per step.
    tree = dict(Agent.objects.live().values_list("pk", "parent_id"))
    if Agent.objects.filter(pk=parent.pk).exclude(archived_at=None).exists():
        raise _bad_parent(
            409, "parent_archived", _("“{parent}” is archived. Restore it first.").format(parent=parent)
        )
    ancestor: int | None = parent.pk
    while ancestor is not None:
        if ancestor == agent.pk:
            raise _bad_parent(
                409,
                "circular_parent",
                _("“{parent}” is a sub-agent of “{agent}”, so it cannot be its parent.").format(
                    parent=parent, agent=agent
                ),
            )
        if ancestor not in tree:
            raise _bad_parent(400, "parent_removed", _("“{parent}” has been removed.").format(parent=parent))
        ancestor = tree[ancestor]
    return parent


def _bad_parent(status: Literal[400, 409], code: str, message: str) -> DomainError:
    return DomainError(code, message, fields={"parent": message}, status=status)


def _save_agent(agent: Agent) -> None:
    if agent.slug in RESERVED:
        raise _slug_taken(
            _("“{slug}” is an address of Pegboard itself. Choose another.").format(slug=agent.slug)
        )
    try:
        with transaction.atomic():
            agent.save()
    except IntegrityError as exc:
        if not unique_violations.is_taken(exc):
            raise
        raise _slug_taken(_("Another agent has the address “{slug}”.").format(slug=agent.slug)) from exc
    # Checked after the write, which waits for a transaction that releases this address.
    if not agent_addresses.claim(agent):
        raise _slug_taken(
            _(
                "Another agent has published at “{slug}”, and runtimes may still use it. Choose another."
            ).format(slug=agent.slug)
        )


def _slug_taken(message: str) -> DomainError:
    return DomainError("slug_taken", message, fields={"slug": message}, status=409)
