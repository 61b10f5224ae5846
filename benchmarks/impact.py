"""The impact of a new version of one tool on 500 agents with 50 tools each, compared with reading rows."""

from collections.abc import Iterator

import msgspec
from django.db import connection
from django.test import Client

from benchmarks import rows
from benchmarks.frame import Figure, percentile, samples
from catalog.models import Tool, ToolVersion
from core.canonical_json import digest
from designer.models import Agent, Pin
from designer.procedures import editing
from people.models import User
from protocols.signature import Parameter, from_json, to_json

AGENTS, TOOLS = 500, 50
TIMES = 10
MAX_MS = 1_000
# The same pins and texts with nothing compared.
QUERY = """
SELECT pin.id, agent.slug, procedure.text FROM designer_pin pin
JOIN designer_agent agent ON agent.id = pin.agent_id
JOIN designer_procedurereference reference ON reference.pin_id = pin.id
JOIN designer_procedure procedure ON procedure.id = reference.procedure_id
WHERE pin.tool_id = %s AND pin.removed_at IS NULL
"""


def main() -> Iterator[Figure]:
    client = Client(SERVER_NAME="127.0.0.1")
    user = User.objects.create_superuser("benchmark", "no password is asked for here")
    client.force_login(user)
    rows.fill(TOOLS)
    tools = list(Tool.objects.select_related("current").order_by("pk"))
    used_by_all = tools[0]
    _give_outputs(used_by_all)
    for number in range(AGENTS):
        _make_agent(number, tools, user)
    _lose_an_output(used_by_all)
    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze")
    url = f"/api/v1/tools/{used_by_all.pk}/impact/"
    impact = client.get(url).json()
    if impact["broken"] != AGENTS:
        raise RuntimeError(f"{impact['broken']} of {AGENTS} agents are reported as broken")
    floor = 1_000 * percentile(samples(lambda: _read_rows(used_by_all), TIMES), 50)
    milliseconds = [1_000 * duration for duration in samples(lambda: client.get(url), TIMES)]
    yield Figure(
        f"impact over {AGENTS} agents, p95",
        percentile(milliseconds, 95),
        "ms",
        target=MAX_MS,
        less_is_better=True,
    )
    yield Figure(f"impact over {AGENTS} agents, median", percentile(milliseconds, 50), "ms", floor=floor)
    page = [1_000 * duration for duration in samples(lambda: client.get("/agents/agent-0/upgrades/"), TIMES)]
    yield Figure(
        f"upgrades of one agent with {TOOLS} pins, p95",
        percentile(page, 95),
        "ms",
        target=MAX_MS,
        less_is_better=True,
    )


def _make_agent(number: int, tools: list[Tool], user: User) -> None:
    agent = Agent.objects.create(name=f"Agent {number}", slug=f"agent-{number}")
    Pin.objects.bulk_create(
        Pin(agent=agent, tool=tool, version=tool.current, name=tool.name[:64]) for tool in tools
    )
    steps = [f"{line}. Ask for the number, then call {tool.name}()." for line, tool in enumerate(tools, 1)]
    body = "\n".join(["## Steps", *steps, f"Say {tools[0].name}().status and wish them a good day."])
    editing.create_procedure(agent, actor=user, title="Refill", body=body)


def _give_outputs(tool: Tool) -> None:
    names = ("status", "eta")
    outputs = tuple(
        Parameter(id=name, name=name, type="string", required=False, description=f"The {name}.")
        for name in names
    )
    _set_version(tool, outputs)


def _lose_an_output(tool: Tool) -> None:
    assert tool.current is not None  # every tool of a benchmark has a version
    _set_version(tool, from_json(tool.current.signature).outputs[1:])


def _set_version(tool: Tool, outputs: tuple[Parameter, ...]) -> None:
    assert tool.current is not None  # every tool of a benchmark has a version
    text = to_json(msgspec.structs.replace(from_json(tool.current.signature), outputs=outputs)).decode()
    ordinal = tool.current.ordinal + 1
    tool.current = ToolVersion.objects.create(
        tool=tool,
        ordinal=ordinal,
        label=str(ordinal),
        label_key=[ordinal],
        digest=digest(msgspec.json.decode(text)),
        signature=text,
        raw=text,
    )
    tool.save(update_fields=["current"])


def _read_rows(tool: Tool) -> None:
    with connection.cursor() as cursor:
        cursor.execute(QUERY, [tool.pk])
        cursor.fetchall()
