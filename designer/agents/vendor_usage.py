"""The agents and releases that use a vendor's tools and would lose something if it were removed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection

from catalog.models import Credential, Endpoint, Tool
from designer.models import Agent, Pin
from people.models import User

AGENTS_SHOWN = 50
# A release names its tools by id in its document, which never changes.
COUNT_RELEASES = """
SELECT count(*), count(*) FILTER (WHERE release.id IN (SELECT release_id FROM designer_channel))
FROM designer_release release
-- Agents that had no such pin themselves have such tools in a tree alone.
WHERE (release.document LIKE '%%"agents":[%%' OR release.agent_id IN (
    SELECT pin.agent_id FROM designer_pin pin JOIN catalog_tool tool ON tool.id = pin.tool_id
    WHERE tool.endpoint_id = ANY(%(endpoints)s)))
AND EXISTS (
    SELECT FROM (
        SELECT jsonb_path_query(release.document::jsonb, '$.tools[*]') AS held
        UNION ALL SELECT jsonb_path_query(release.document::jsonb, '$.context[*]')
        UNION ALL SELECT jsonb_path_query(release.document::jsonb, '$.agents[*].tools[*]')
        UNION ALL SELECT jsonb_path_query(release.document::jsonb, '$.agents[*].context[*]')
    ) shown
    JOIN catalog_tool tool ON tool.id = (held ->> 'id')::bigint
    WHERE tool.endpoint_id = ANY(%(endpoints)s))
"""


@dataclass(frozen=True, slots=True)
class VendorUse:
    """An agent tree's use of a vendor.

    agents: with the number of their pins there. releases, live_releases: all, and those that a channel
    points to.
    """

    agents: list[tuple[Agent, int]]
    pins: int
    releases: int
    live_releases: int
    credentials: list[Credential]

    @property
    def is_used(self) -> bool:
        return bool(self.pins or self.releases)


def use_of(endpoints: Iterable[Endpoint]) -> VendorUse:
    """Return the use of these endpoints, for administrators, who see every team. `credentials`: those that
    nothing else uses.
    """
    pks = [endpoint.pk for endpoint in endpoints]
    pins = (
        Pin.objects.live()
        .filter(tool__endpoint__in=pks)
        .select_related("agent__team")
        .order_by("agent__name")
    )
    agents = Counter(pin.agent for pin in pins)
    with connection.cursor() as cursor:
        cursor.execute(COUNT_RELEASES, {"endpoints": pks})
        releases, live = cursor.fetchone()
    other_endpoints = Endpoint.objects.live().exclude(pk__in=pks).exclude(credential=None)
    spare = Credential.objects.filter(removed_at=None, endpoints__in=pks)
    spare = spare.exclude(pk__in=other_endpoints.values("credential")).distinct()
    return VendorUse(list(agents.items()), sum(agents.values()), releases, live, list(spare))


def used_by_others(tool: Tool, user: User) -> int:
    # The number of agents with this tool that the user may not see; nothing else about them is shown.
    if user.can_administer:
        return 0
    return Pin.objects.live().filter(tool=tool).exclude(agent__in=Agent.objects.visible_to(user)).count()
