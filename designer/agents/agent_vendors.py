"""The vendors that an agent may use: all, or those that the agent and every agent above it allow."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from catalog.models import ActivityVersion, Tool, Vendor
from core.errors import DomainError
from core.outbound.errors import printable
from core.prepared_statements import run_prepared
from designer.models import Agent, AgentVendor
from execution.activities import kinds, reach
from execution.activities.reach import ActivityReach

CODE = "vendor_not_allowed"
MAX_NAMES = 5
# The agents on the path to the root that limit their vendors, the nearest first.
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
class VendorLimit:
    """The vendors that one agent allows, by their keys."""

    slug: str
    name: str
    vendors: Mapping[int, Vendor]


@dataclass(frozen=True, slots=True)
class AllowedVendors:
    """The vendors that all `limits` allow: the agent's own limit, if it has one, then those of the agents
    above it.
    """

    limits: tuple[VendorLimit, ...] = ()

    @property
    def vendors(self) -> dict[int, Vendor] | None:
        """Return the vendors by their keys, ordered by name; None for all vendors."""
        if not self.limits:
            return None
        common = set.intersection(*(set(limit.vendors) for limit in self.limits))
        rows = [vendor for key, vendor in self.limits[0].vendors.items() if key in common]
        return {row.pk: row for row in sorted(rows, key=lambda row: (row.name.casefold(), row.pk))}

    @property
    def keys(self) -> frozenset[int] | None:
        """Return the keys of the vendors, for a search; None for all vendors."""
        return frozenset(self.vendors) if self.vendors is not None else None

    @property
    def names(self) -> str:
        rows = list((self.vendors or {}).values())
        names = ", ".join(f"“{row}”" for row in rows[:MAX_NAMES])
        if len(rows) <= MAX_NAMES:
            return names
        return _("{names} and {count} more").format(names=names, count=len(rows) - MAX_NAMES)

    def excluding_limit(self, vendor: Vendor) -> VendorLimit | None:
        """Return the nearest limit that excludes this vendor; None if it may be used."""
        # Limits exist because other vendors are not trusted. A tool that is defined here has no vendor.
        if vendor.is_own:
            return None
        return next((limit for limit in self.limits if vendor.pk not in limit.vendors), None)

    def refusal(self, agent: Agent, tool: Tool, *, is_pinned: bool = False) -> str:
        """Return why the agent may not use the tool, and what to do; "" if it may."""
        vendor = tool.endpoint.vendor
        limit = self.excluding_limit(vendor)
        if limit is None:
            return ""
        message = (
            _("“{tool}” is a tool of “{vendor}”, a vendor that “{agent}” may not use.")
            if limit.slug == agent.slug
            else _(
                "“{tool}” is a tool of “{vendor}”, a vendor that “{agent}” may not use (limited by its "
                "parent “{limiting_agent}”)."
            )
        )
        if is_pinned:
            advice = _("Unpin it, or allow the vendor on the edit page of “{limiting_agent}”.")
        elif self.names:
            advice = _(
                "Choose a tool of {vendors}, or allow the vendor on the edit page of “{limiting_agent}”."
            )
        else:
            advice = _("Choose another agent, or allow the vendor on the edit page of “{limiting_agent}”.")
        return f"{message} {advice}".format(
            tool=tool, vendor=vendor, agent=agent, limiting_agent=limit.name, vendors=self.names
        )

    def refusal_of(self, agent: Agent, activity: ActivityReach) -> str:
        """Return why the agent may not use the activity, by everything that it would run; "" if it may."""
        for version in activity.versions if self.limits else ():
            for origin in kinds.get(version.kind).origins(version.config):
                limiting_agent = self.limits[0].name
                return _(
                    "“{implementation}” sends requests to {address}, which is no vendor's address, and "
                    "“{agent}” is limited to the vendors on the edit page of “{limiting_agent}”. "
                    "Choose an implementation that calls one of their tools."
                ).format(
                    implementation=version.activity,
                    address=printable(origin, 100),
                    agent=agent,
                    limiting_agent=limiting_agent,
                )
        return next(filter(None, (self.refusal(agent, row.tool) for row in activity.tools)), "")


def allowed_vendors_of(agent: Agent) -> AllowedVendors:
    return allowed_by_agent([agent])[agent.pk]


def allowed_by_agent(agents: Collection[Agent]) -> dict[int, AllowedVendors]:
    """Return the allowed vendors by agent, in two queries at most."""
    limiting_rows = run_prepared(LIMITS, [[agent.pk for agent in agents]])
    vendors_by_agent: defaultdict[int, dict[int, Vendor]] = defaultdict(dict)
    if limiting_rows:
        rows = AgentVendor.objects.filter(agent__in={holder for _, holder, *_ in limiting_rows})
        for row in rows.select_related("vendor"):
            vendors_by_agent[row.agent_id][row.vendor_id] = row.vendor
    limits: defaultdict[int, list[VendorLimit]] = defaultdict(list)
    for start, holder, slug, name in limiting_rows:
        limits[start].append(VendorLimit(slug, name, vendors_by_agent[holder]))
    return {agent.pk: AllowedVendors(tuple(limits[agent.pk])) for agent in agents}


def with_vendors(agents: Collection[Agent]) -> list[Agent]:
    """Return the same agents, each with its `vendors` and its `usable_vendors`."""
    rows, allowed = list(agents), allowed_by_agent(agents)
    for agent in rows:
        usable, agent.vendors = allowed[agent.pk].vendors, None
        agent.usable_vendors = None if usable is None else sorted(row.slug for row in usable.values())
        if agent.limits_vendors:
            agent.vendors = sorted(row.slug for row in allowed[agent.pk].limits[0].vendors.values())
    return rows


def check(agent: Agent, tool: Tool, *, is_pinned: bool = False) -> None:
    """Raise DomainError if the agent may not use the tool's vendor."""
    if message := allowed_vendors_of(agent).refusal(agent, tool, is_pinned=is_pinned):
        raise DomainError(CODE, message, fields={"tool": message}, status=409)


def check_activity(agents: Collection[Agent], activity: ActivityVersion) -> None:
    """Raise DomainError if the activity calls tools that one of these agents may not use."""
    allowed = allowed_by_agent(agents)
    if not any(row.limits for row in allowed.values()):
        return
    calls = reach.find_reach([activity])[activity.pk]
    for agent in agents:
        if message := allowed[agent.pk].refusal_of(agent, calls):
            raise DomainError(CODE, message, fields={"activity": message}, status=409)


def vendors_of(agent: Agent) -> list[Vendor]:
    rows = AgentVendor.objects.filter(agent=agent).select_related("vendor") if agent.limits_vendors else ()
    return sorted((row.vendor for row in rows), key=lambda row: row.slug)


def set_vendors(agent: Agent, vendors: Collection[Vendor]) -> None:
    """Replace the vendors that the agent allows. The caller has locked the agent."""
    rows = AgentVendor.objects.filter(agent=agent)
    rows.exclude(vendor__in=vendors).delete()
    AgentVendor.objects.bulk_create(
        [AgentVendor(agent=agent, vendor=vendor) for vendor in vendors], ignore_conflicts=True
    )
