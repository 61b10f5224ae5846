"""The database and the broker are killed, wiped, full, slow and silent under the running product."""

import time

import pytest

from tests.faults.stand import Clients, Stand, wait_for

pytestmark = pytest.mark.faults

DATABASE_BACK = 10  # seconds
PAGE = 5.0
PAGES = [
    "/",
    "/tools/?q=thing",
    "/api/v1/tools/?q=thing",
    "/api/v1/agents/clerk/releases/latest/exports/mcp/",
]


@pytest.fixture(autouse=True)
def _heal(stand: Stand):
    yield
    stand.database.heal()
    stand.broker.heal()
    wait_for(lambda: stand.ask("/api/v1/agents/").status == 200, 30, "a healthy page")
    assert stand.warm.do("breaches") == []


def test_every_acknowledged_write_outlives_the_database(stand):
    """R1, and that errors end within ten seconds."""
    with Clients(stand, 8) as clients:
        wait_for(lambda: len(clients.acknowledged) > 20, 30, "twenty writes")
        stand.kill("postgres")
        killed = time.monotonic()
        time.sleep(0.5)
        stand.begin_again("postgres")
        before = len(clients.acknowledged)
        wait_for(lambda: len(clients.acknowledged) > before + 20, 30, "twenty more writes")
    kept = {slug for (slug,) in stand.query("SELECT slug FROM designer_agent")}
    assert set(clients.acknowledged) <= kept
    assert {answer.status for _, answer in clients.others} <= {503}
    assert all(answer.headers["Retry-After"] for _, answer in clients.others)
    assert max((when for when, _ in clients.others), default=killed) - killed < DATABASE_BACK
