"""Publishing a tree of 10 agents with 50 tools each, beside reading its rows and writing its bytes."""

from collections.abc import Iterator

from django.db import connection

from benchmarks import rows
from benchmarks.frame import Figure, percentile, samples
from catalog.models import Tool
from designer.agents import agents
from designer.models import Agent, Pin
from designer.procedures import editing
from designer.releases import draft_review, publishing
from people.models import User

AGENTS, TOOLS = 10, 50
TIMES = 10
MAX_MS = 1_000
QUERY = """
SELECT version.signature FROM designer_pin pin JOIN catalog_toolversion version ON version.id = pin.version_id
WHERE pin.removed_at IS NULL
"""


def main() -> Iterator[Figure]:
    user = User.objects.create_superuser("benchmark", "no password is asked for here")
    rows.fill(AGENTS * TOOLS)
    root = make_tree(user)
    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze")
        cursor.execute("CREATE TEMPORARY TABLE written (document text)")

    def publish() -> None:
        # Another word each time, because what has not changed is not published.
        Agent.objects.filter(pk=root.pk).update(description=f"Release {root.releases.count()}")
        publishing.publish(root, actor=user)

    milliseconds = [1_000 * duration for duration in samples(publish, TIMES)]
    text = root.releases.values_list("document", flat=True)[0]
    if text.count('"tuning"') != AGENTS * TOOLS:
        raise RuntimeError("not every tool is in the release")
    floor = 1_000 * percentile(samples(lambda: _read_and_write(text), TIMES), 50)
    name = f"publish {AGENTS} agents with {TOOLS} tools each"
    yield Figure(f"{name}, p95", percentile(milliseconds, 95), "ms", target=MAX_MS, less_is_better=True)
    yield Figure(f"{name}, median", percentile(milliseconds, 50), "ms", floor=floor)
    review = [1_000 * duration for duration in samples(lambda: draft_review.review_draft(root, user), TIMES)]
    yield Figure(
        "review the same draft, p95", percentile(review, 95), "ms", target=MAX_MS, less_is_better=True
    )


def make_tree(user: User) -> Agent:
    tools = list(Tool.objects.select_related("current").order_by("pk"))
    root = None
    for number in range(AGENTS):
        # Three levels: each of the first agents below the root has one below itself.
        parent = root if number < AGENTS // 2 else Agent.objects.get(slug=f"agent-{number - AGENTS // 2 + 1}")
        agent = agents.create_agent(actor=user, name=f"Agent {number}", slug=f"agent-{number}", parent=parent)
        pinned = tools[number * TOOLS : (number + 1) * TOOLS]
        Pin.objects.bulk_create(
            Pin(agent=agent, tool=tool, version=tool.current, name=tool.name[:64]) for tool in pinned
        )
        steps = [
            f"{line}. Ask for the number, then call {tool.name}()." for line, tool in enumerate(pinned, 1)
        ]
        editing.create_procedure(agent, actor=user, title="Refill", body="\n".join(["## Steps", *steps]))
        root = root or agent
    assert root is not None  # the first agent is it
    return root


def _read_and_write(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(QUERY)
        cursor.fetchall()
        cursor.execute("INSERT INTO written VALUES (%s)", [text])
