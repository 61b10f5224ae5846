"""Server time and size of the list pages at 50,000 tools, beside a bare page and beside 500 tools."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.template import engines
from django.test import Client

from benchmarks import rows
from benchmarks.frame import Figure, percentile, seconds
from people.models import User

FEW, MANY = 500, 50_000
TIMES, WARM_UP = 60, 5
BARE_PAGES = 8
PAGES = {
    "home": "/",
    "all tools": "/tools/",
    "tools by words": "/tools/?q=cancel+an+appointment",
    "tools by tag": "/tools/?tag=health&sort=name",
    "vendors": "/vendors/",
    "agents": "/agents/",
    "review": "/review/",
    "API list": "/api/v1/tools/?limit=50",
    "API search": "/api/v1/tools/?q=shipment+of+supplier",
}


# A page of 50 rows with nothing around it: no session, no rights, no navigation, no search.
BARE = """<!doctype html><title>Tools</title>
<table>{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}{% endfor %}</table>"""
QUERY = """
SELECT tool.id, tool.name, tool.description, tool.tags, tool.status, vendor.name
FROM catalog_tool tool
JOIN catalog_endpoint endpoint ON endpoint.id = tool.endpoint_id
JOIN catalog_vendor vendor ON vendor.id = endpoint.vendor_id
ORDER BY tool.id LIMIT 50
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """In milliseconds through all middleware, without the network, and KB as sent uncompressed."""

    p95: float
    median: float
    bare_p95: float
    size: float


def main() -> Iterator[Figure]:
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.create_superuser("benchmark", "no password is asked for here"))
    rows.fill(FEW)
    before = {name: measure(client, path) for name, path in PAGES.items()}
    rows.fill(MANY - FEW, seed=2)
    for name, path in PAGES.items():
        now = measure(client, path)
        yield Figure(
            f"{name}, p95", now.p95, "ms", floor=now.bare_p95, target=BARE_PAGES, less_is_better=True
        )
        yield Figure(
            f"{name}, median beside {FEW} tools",
            now.median,
            "ms",
            floor=before[name].median,
            target=1.5,
            less_is_better=True,
        )
        yield Figure(f"{name}, p95 in itself", now.p95, "ms", target=30, less_is_better=True)
        yield Figure(f"{name}, size", now.size, "KB", target=60, less_is_better=True)


def measure(client: Client, path: str) -> Measured:
    """In turn with the bare page, so that whatever else the machine does slows both."""
    answer = client.get(path)
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answers {answer.status_code}")
    template = engines["django"].from_string(BARE)
    both = [(seconds(lambda: client.get(path)), seconds(lambda: bare(template))) for _ in range(TIMES)]
    times, floors = [[1000 * time for time in column] for column in zip(*both[WARM_UP:], strict=True)]
    return Measured(
        p95=percentile(times, 95),
        median=percentile(times, 50),
        bare_p95=percentile(floors, 95),
        size=len(answer.content) / 1000,
    )


def bare(template: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute(QUERY)
        return str(template.render({"rows": cursor.fetchall()}))
