"""Server time and size of the list pages at 50,000 tools, and how they grew since 500."""

from collections.abc import Iterator

from django.test import Client

from benchmarks import rows
from benchmarks.frame import Figure, percentile, samples
from people.models import User

FEW, MANY = 500, 50_000
TIMES = 40
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


def main() -> Iterator[Figure]:
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.create_superuser("benchmark", "no password is asked for here"))
    rows.fill(FEW)
    before = {name: measure(client, path) for name, path in PAGES.items()}
    rows.fill(MANY - FEW, seed=2)
    for name, path in PAGES.items():
        time, size = measure(client, path)
        yield Figure(f"{name}, p95 at {MANY:,} tools", time, "ms", target=30, less_is_better=True)
        yield Figure(
            f"{name}, growth since {FEW} tools", time, "ms", floor=before[name][0], less_is_better=True
        )
        yield Figure(f"{name}, size", size, "KB", target=60, less_is_better=True)


def measure(client: Client, path: str) -> tuple[float, float]:
    """p95 in milliseconds through all middleware, without the network, and KB as sent uncompressed."""
    answer = client.get(path)
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answers {answer.status_code}")
    times = samples(lambda: client.get(path), TIMES, warm_up=3)
    return percentile(times, 95) * 1000, len(answer.content) / 1000
