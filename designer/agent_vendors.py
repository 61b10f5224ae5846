"""Which vendors an agent may use: all of them, or those that it and every agent above it name."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db import connection

from catalog.activities import kinds, reach
from catalog.activities.reach import Reached
from catalog.models import ActivityVersion, Tool, Vendor
from core.errors import DomainError
from core.outbound.errors import printable
from designer.models import Agent, AgentVendor

CODE = "vendor_not_allowed"
NAMED = 5
# The agents on the way to the root that name their vendors, the nearest first.
LIMITS = """
WITH RECURSIVE path (start, id, parent_id, slug, name, limits_vendors, height) AS (
    SELECT id, id, parent_id, slug, name, limits_vendors, 0 FROM designer_agent WHERE id = ANY(%s)
    UNION ALL
    SELECT path.start, above.id, above.parent_id, above.slug, above.name, above.limits_vendors, height + 1
    FROM path JOIN designer_agent above ON above.id = path.parent_id
)
SELECT start, id, slug, name FROM path WHERE limits_vendors ORDER BY start, height
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """What one agent names: vendors by their keys."""

    slug: str
    name: str
    vendors: Mapping[int, Vendor]


@dataclass(frozen=True, slots=True)
class Allowed:
    """What all of `limits` name: the agent's own, if it has one, then those of the agents above it."""

    limits: tuple[Limit, ...] = ()

    @property
    def vendors(self) -> dict[int, Vendor] | None:
        """By their keys and in the order of their names; None for all vendors."""
        if not self.limits:
            return None
        common = set.intersection(*(set(limit.vendors) for limit in self.limits))
        rows = [vendor for key, vendor in self.limits[0].vendors.items() if key in common]
        return {row.pk: row for row in sorted(rows, key=lambda row: (row.name.casefold(), row.pk))}

    @property
    def keys(self) -> frozenset[int] | None:
        """The keys of the vendors, for a search; None for all vendors."""
        return frozenset(self.vendors) if self.vendors is not None else None

    @property
    def names(self) -> str:
        rows = list((self.vendors or {}).values())
        more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
        return ", ".join(f"“{row}”" for row in rows[:NAMED]) + more

    def against(self, vendor: Vendor) -> Limit | None:
        """The nearest agent that does not name this vendor; None where it may be used."""
        # Vendors are named because others are not trusted; a tool that is defined here comes from none.
        if vendor.is_own:
            return None
        return next((limit for limit in self.limits if vendor.pk not in limit.vendors), None)

    def refusal(self, agent: Agent, tool: Tool, *, is_pinned: bool = False) -> str:
        """Why the agent may not use the tool, and what to do; empty where it may."""
        vendor = tool.endpoint.vendor
        limit = self.against(vendor)
        if limit is None:
            return ""
        above = "" if limit.slug == agent.slug else f": “{limit.name}”, which it is below, does not name it"
        other = f"Choose a tool of {self.names}" if self.names else "Choose another agent"
        first = "Unpin it" if is_pinned else other
        return (
            f"“{tool}” is a tool of “{vendor}”, a vendor that “{agent}” may not use{above}. "
            f"{first}, or allow the vendor where “{limit.name}” is edited."
        )

    def refusal_of(self, agent: Agent, activity: Reached) -> str:
        """The same of an activity, by all that it would run."""
        for version in activity.versions if self.limits else ():
            for origin in kinds.get(version.kind).origins(version.config):
                where = self.limits[0].name
                return (
                    f"“{version.activity}” sends to {printable(origin, 100)} by itself, which is no "
                    f"vendor's, and “{agent}” may use the vendors alone that are named where “{where}” is "
                    "edited. Choose an activity that calls one of their tools."
                )
        return next(filter(None, (self.refusal(agent, each.tool) for each in activity.tools)), "")


def of(agent: Agent) -> Allowed:
    return of_several([agent])[agent.pk]


def of_several(agents: Collection[Agent]) -> dict[int, Allowed]:
    """By primary key, in two queries at most."""
    with connection.cursor() as cursor:
        cursor.execute(LIMITS, [[agent.pk for agent in agents]])
        found = cursor.fetchall()
    named: defaultdict[int, dict[int, Vendor]] = defaultdict(dict)
    if found:
        rows = AgentVendor.objects.filter(agent__in={holder for _, holder, *_ in found})
        for row in rows.select_related("vendor"):
            named[row.agent_id][row.vendor_id] = row.vendor
    limits: defaultdict[int, list[Limit]] = defaultdict(list)
    for start, holder, slug, name in found:
        limits[start].append(Limit(slug, name, named[holder]))
    return {agent.pk: Allowed(tuple(limits[agent.pk])) for agent in agents}


def with_vendors(agents: Collection[Agent]) -> list[Agent]:
    """The same agents, each with its `vendors` and its `usable_vendors`."""
    rows, allowed = list(agents), of_several(agents)
    for agent in rows:
        usable, agent.vendors = allowed[agent.pk].vendors, None
        agent.usable_vendors = None if usable is None else sorted(row.slug for row in usable.values())
        if agent.limits_vendors:
            agent.vendors = sorted(row.slug for row in allowed[agent.pk].limits[0].vendors.values())
    return rows


def check(agent: Agent, tool: Tool, *, is_pinned: bool = False) -> None:
    """Raises DomainError for a tool of a vendor that the agent may not use."""
    if message := of(agent).refusal(agent, tool, is_pinned=is_pinned):
        raise DomainError(CODE, message, fields={"tool": message}, status=409)


def check_activity(agents: Collection[Agent], activity: ActivityVersion) -> None:
    """Raises DomainError for an activity that calls what one of these agents may not."""
    allowed = of_several(agents)
    if not any(each.limits for each in allowed.values()):
        return
    found = reach.reached([activity])[activity.pk]
    for agent in agents:
        if message := allowed[agent.pk].refusal_of(agent, found):
            raise DomainError(CODE, message, fields={"activity": message}, status=409)


def named_for(agent: Agent) -> list[Vendor]:
    rows = AgentVendor.objects.filter(agent=agent).select_related("vendor") if agent.limits_vendors else ()
    return sorted((row.vendor for row in rows), key=lambda row: row.slug)


def name_vendors(agent: Agent, vendors: Collection[Vendor]) -> None:
    """Exactly these from now on. The caller holds the agent's lock."""
    rows = AgentVendor.objects.filter(agent=agent)
    rows.exclude(vendor__in=vendors).delete()
    AgentVendor.objects.bulk_create(
        [AgentVendor(agent=agent, vendor=vendor) for vendor in vendors], ignore_conflicts=True
    )
