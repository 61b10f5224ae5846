"""Server time and size of pages at 50,000 tools, beside a bare page and beside 500 tools."""

import gc
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.template import engines
from django.test import Client
from msgspec.structs import replace

from benchmarks import rows
from benchmarks.frame import Figure, percentile, seconds
from catalog.models import Tool, ToolVersion
from core.canonical_json import digest
from designer.agents import agents
from designer.models import Pin
from designer.procedures import editing
from designer.releases import publishing
from people.models import User
from protocols.signature import Parameter, from_json, to_json

FEW, MANY = 500, 50_000
CHANGED = 40  # tools of an agent with another version than its release, and with a newer one than its pins
TIMES, WARM_UP = 60, 5
BARE_PAGES, MAX_MS, MAX_KB = 8, 30, 60
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
    "tools by words and filters": "/tools/?q=cancel+an+appointment&tag=health&used=false",
    "publish": "/agents/moved/publish/",
    "updates": "/agents/behind/upgrades/",
    "procedures": "/agents/moved/procedures/",
    "editor": "/agents/moved/procedures/refill/",
    "proposals": "/agents/moved/procedures/refill/proposals/",
    "history of a procedure": "/agents/moved/procedures/refill/history/",
    "agent": "/agents/moved/",
    "agent behind": "/agents/behind/",
    "changes of an agent": "/agents/moved/changes/",
    "sub-agents": "/agents/moved/tree/",
    "test phrases": "/agents/moved/rehearsals/",
    "mocks": "/agents/moved/mocks/",
    "environments": "/agents/moved/environments/",
    "releases": "/agents/moved/releases/",
    "release": "/agents/moved/releases/1/",
    "add tools": "/agents/moved/add-tools/",
}


# Steps that name no tool, for which the editor proposes some.
OPEN_STEPS = (
    "Cancel the appointment of the customer.",
    "Approve the refund and write it down.",
    "Export the report of the last season.",
    "Share the contract with the supplier.",
    "Search the warehouse for the device.",
    "Get the forecast of the region.",
)


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
    """Times in milliseconds through all middleware, without the network, and KB as sent uncompressed."""

    p95: float
    median: float
    cpu: float
    bare_p95: float
    size: float


def main() -> Iterator[Figure]:
    client = Client(SERVER_NAME="127.0.0.1")
    user = User.objects.create_superuser("benchmark", "no password is asked for here")
    client.force_login(user)
    rows.fill(FEW)
    add_agents(user)
    gc.collect()
    gc.freeze()  # as web servers do at their start
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
        yield Figure(f"{name}, p95 in itself", now.p95, "ms", target=MAX_MS, less_is_better=True)
        yield Figure(f"{name}, median of CPU time", now.cpu, "ms", target=MAX_MS, less_is_better=True)
        yield Figure(f"{name}, size", now.size, "KB", target=MAX_KB, less_is_better=True)


def add_agents(user: User) -> None:
    """Two agents with the same tools: the release of one and the pins of the other are older."""
    tools = list(Tool.objects.select_related("current").order_by("pk")[:CHANGED])
    steps = [f"{line}. Ask for the number, then call {tool.name}()." for line, tool in enumerate(tools, 1)]
    texts = "\n".join(["## Steps", *steps, *OPEN_STEPS])
    for slug in ("moved", "behind"):
        agent = agents.create_agent(actor=user, name=slug.title(), slug=slug)
        Pin.objects.bulk_create(
            Pin(agent=agent, tool=tool, version=tool.current, name=tool.name[:64]) for tool in tools
        )
        editing.create_procedure(agent, actor=user, title="Refill", body=texts)
        publishing.publish(agent, actor=user, channel="live")
    for number, tool in enumerate(tools):
        add_version(tool, number)
        Pin.objects.filter(agent__slug="moved", tool=tool).update(version=tool.current)


def add_version(tool: Tool, number: int) -> None:
    """Another description and one more input, which every fourth tool requires."""
    assert tool.current is not None  # every tool of a benchmark has a version
    signature = from_json(tool.current.signature)
    reason = Parameter(
        id="reason", name="reason", type="string", required=number % 4 == 0, description="Why it is done."
    )
    inputs, description = (*signature.inputs, reason), f"{signature.description} It states the reason."
    text = to_json(replace(signature, inputs=inputs, description=description)).decode()
    tool.current = ToolVersion.objects.create(
        tool=tool,
        ordinal=2,
        label="2",
        label_key=[2],
        digest=digest(json.loads(text)),
        signature=text,
        raw=text,
    )
    tool.save(update_fields=["current"])


def measure(client: Client, path: str) -> Measured:
    """Measure in turn with the bare page, so that other work of the machine slows both."""
    answer = client.get(path)
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answers {answer.status_code}")
    template = engines["django"].from_string(BARE)
    measured = []
    for _ in range(TIMES):
        began = time.process_time()
        duration = seconds(lambda: client.get(path))
        measured.append((duration, time.process_time() - began, seconds(lambda: bare(template))))
    columns = zip(*measured[WARM_UP:], strict=True)
    times, cpu_times, floors = [[1000 * duration for duration in column] for column in columns]
    return Measured(
        p95=percentile(times, 95),
        median=percentile(times, 50),
        cpu=percentile(cpu_times, 50),
        bare_p95=percentile(floors, 95),
        size=len(answer.content) / 1000,
    )


def bare(template: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute(QUERY)
        return str(template.render({"rows": cursor.fetchall()}))
