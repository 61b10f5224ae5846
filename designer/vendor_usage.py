"""Who would notice if a vendor or an endpoint were removed; for administrators, who see every team."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection

from catalog.models import Credential, Endpoint
from designer.models import Agent, Pin

AGENTS_SHOWN = 50
# A release names its tools by their ids in its document, which never changes.
RELEASES = """
SELECT count(*), count(*) FILTER (WHERE release.id = newest.id)
FROM designer_release release
CROSS JOIN LATERAL (
    SELECT id FROM designer_release n WHERE n.agent_id = release.agent_id ORDER BY number DESC LIMIT 1
) newest
WHERE release.agent_id IN (
    SELECT pin.agent_id FROM designer_pin pin JOIN catalog_tool tool ON tool.id = pin.tool_id
    WHERE tool.endpoint_id = ANY(%(endpoints)s))
AND EXISTS (
    SELECT FROM jsonb_array_elements(release.document::jsonb -> 'tools') held
    JOIN catalog_tool tool ON tool.id = (held ->> 'id')::bigint
    WHERE tool.endpoint_id = ANY(%(endpoints)s))
"""


@dataclass(frozen=True, slots=True)
class Use:
    """`agents` with how many pins each has there; releases all told, and those that runtimes get now."""

    agents: list[tuple[Agent, int]]
    pins: int
    releases: int
    live_releases: int
    credentials: list[Credential]

    @property
    def is_used(self) -> bool:
        return bool(self.pins or self.releases)


def use_of(endpoints: Iterable[Endpoint]) -> Use:
    """`credentials` are those that nothing else uses."""
    pks = [endpoint.pk for endpoint in endpoints]
    pins = (
        Pin.objects.live()
        .filter(tool__endpoint__in=pks)
        .select_related("agent__team")
        .order_by("agent__name")
    )
    agents = Counter(pin.agent for pin in pins)
    with connection.cursor() as cursor:
        cursor.execute(RELEASES, {"endpoints": pks})
        releases, live = cursor.fetchone()
    elsewhere = Endpoint.objects.live().exclude(pk__in=pks).exclude(credential=None)
    spare = Credential.objects.filter(removed_at=None, endpoints__in=pks)
    spare = spare.exclude(pk__in=elsewhere.values("credential")).distinct()
    return Use(list(agents.items()), sum(agents.values()), releases, live, list(spare))
