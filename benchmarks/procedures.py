"""Measures how well the check of procedures finds gaps, and how soon it reads 500 lines with 50 tools."""

import json
from collections.abc import Iterator

from django.test import Client

from benchmarks import procedure_labels, rows
from benchmarks.frame import Figure, seconds
from catalog.models import Tool
from designer.agents.agents import create_agent
from designer.pins.pins import pin_tool
from designer.procedures import lint, references, vocabulary
from people.models import User

TOOLS, LINES = 50, 500
MAX_MS = 200
TOLD_APART = 0.9


def main() -> Iterator[Figure]:
    for labelled in procedure_labels.SETS:
        results = procedure_labels.judge(labelled)
        name = f"{labelled.stem}, {results.procedures} procedures"
        yield Figure(f"{name}: precision", results.precision, "", target=TOLD_APART)
        yield Figure(f"{name}: recall", results.recall, "", target=TOLD_APART)
    user = User.objects.create_superuser("benchmark", "no password is asked for here")
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(user)
    rows.fill(TOOLS * 2)
    agent = create_agent(actor=user, name="Benchmark", slug="benchmark")
    for tool in Tool.objects.filter(status="active").order_by("pk")[:TOOLS]:
        pin_tool(agent, actor=user, tool=tool, alias=f"tool_{tool.pk}")
    names = [pin.name for pin in agent.pins.live()]
    text = "\n".join(
        f"{number}. Ask for the order number, then call {names[number % TOOLS]}() and tell what it says."
        for number in range(1, LINES + 1)
    )
    agent_vocabulary = vocabulary.vocabulary_of(agent)
    rules = min(
        seconds(lambda: lint.lint(references.parse(text, agent_vocabulary), agent_vocabulary))
        for _ in range(20)
    )
    yield Figure(f"rules alone over {LINES} lines", rules * 1000, "ms", target=MAX_MS, less_is_better=True)
    body = json.dumps({"body": text})
    path = "/api/v1/agents/benchmark/procedures/lint/"
    times = sorted(
        seconds(lambda: client.post(path, body, content_type="application/json")) for _ in range(40)
    )
    answer = client.post(path, body, content_type="application/json")
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answered {answer.status_code}")
    p95 = times[int(len(times) * 0.95) - 1] * 1000
    yield Figure(f"lint of {LINES} lines, {TOOLS} tools, p95", p95, "ms", target=MAX_MS, less_is_better=True)
