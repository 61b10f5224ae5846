"""The database and the broker are killed under people who write and workers that read."""

import signal
import time

from soak.frame import Field
from tests.faults.stand import Clients, Stand, lose_the_worker, wait_for
from tests.vendor import Vendor, serving, tools

DATABASE_BACK, BROKER_BACK = 10, 90
TAKEN_UP_WITHIN = 60
PAGES = ("/accounts/login/", "/api/v1/tools/?q=thing", "/api/v1/agents/clerk/releases/1/bundle/")


def storm(field: Field) -> None:
    stand = Stand(field.servers, field.environment, field.directory)
    try:
        with serving(Vendor(tools(25))) as vendor:
            stand.vendor = vendor
            stand.set_up()
            stand.begin_web()
            wait_for(lambda: stand.ask("/healthz").status == 200, 60, "the first page")
            stand.begin_worker()
            for number in range(field.times(short=1, long=3)):
                outlive_a_lease(field, stand, number)
            stand.begin_beat()
            for number in range(field.times(short=1, long=5)):
                kill_the_database(field, stand, number)
                for fault in ("killed", "wiped", "full"):
                    lose_the_broker(field, stand, fault, number)
    finally:
        stand.stop()


def outlive_a_lease(field: Field, stand: Stand, number: int) -> None:
    """A worker dies in the middle of a reading; its successor looks around until the lease has run out."""
    run = lose_the_worker(stand)
    stand.begin_worker()
    took = wait_for(lambda: is_succeeded(stand, run), 2 * TAKEN_UP_WITHIN, "the run")
    field.fault("worker killed", f"round {number}, no scheduler", recovery=took, limit=TAKEN_UP_WITHIN)


def is_succeeded(stand: Stand, run: int) -> bool:
    return stand.query("SELECT status FROM catalog_run WHERE id = %s", run) == [("succeeded",)]


def kill_the_database(field: Field, stand: Stand, number: int) -> None:
    with Clients(stand, 8) as clients:
        time.sleep(field.random.uniform(1, 3))
        stand.kill("postgres")
        away = stand.begin_again("postgres")
        back = time.monotonic()
        before = len(clients.acknowledged)
        wait_for(lambda: len(clients.acknowledged) > before + 8, 60, "writes after the database came back")
    stored_slugs = {slug for (slug,) in stand.query("SELECT slug FROM designer_agent")}
    lost_slugs = set(clients.acknowledged) - stored_slugs
    field.expect(not lost_slugs, f"database {number}: {len(lost_slugs)} acknowledged writes are gone")
    odd = {answer.status for _, answer in clients.others} - {503}
    field.expect(not odd, f"database {number}: answers {odd}")
    field.figure(f"database {number} away for", f"{away:.1f} s")
    # How long PostgreSQL itself takes to come back is its affair and this machine's; see the figure.
    last_error = max((when - back for when, _ in clients.others), default=0.0)
    field.fault(
        "database killed", f"{len(stored_slugs)} agents", recovery=max(last_error, 0.0), limit=DATABASE_BACK
    )
    stand.query("DELETE FROM designer_agent WHERE slug LIKE 'agent-%%' AND %s", True)


def lose_the_broker(field: Field, stand: Stand, fault: str, number: int) -> None:
    if fault == "killed":
        stand.kill("valkey")
    elif fault == "full":
        stand.valkey().config_set("maxmemory", "1mb")
    else:
        stand.end("worker", signal.SIGKILL)
    reply = stand.ask(f"/api/v1/endpoints/{stand.endpoint}/enumerate/", {})
    if fault == "wiped":
        stand.valkey().flushall()
        stand.begin_worker()
    field.expect(reply.status == 202, f"broker {fault}: asking for a run answered {reply.status}")
    statuses = {stand.ask(page).status for page in PAGES} | {stand.sign_in()}
    field.expect(statuses == {200}, f"broker {fault}: pages answered {statuses}")
    if fault == "killed":
        stand.begin_again("valkey")
    stand.valkey().config_set("maxmemory", "0")
    run = reply.json()["run"]
    began = time.monotonic()
    wait_for(lambda: is_succeeded(stand, run), 180, "the run")
    field.fault(f"broker {fault}", f"round {number}", recovery=time.monotonic() - began, limit=BROKER_BACK)
