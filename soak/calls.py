"""Background calls are accepted while messages get lost and the broker, the database and callers die.

Every accepted call ends, and its vendor receives each at most once. A client repeats a request that was not
accepted with its idempotency key.
"""

import signal
import threading
import time
from collections import Counter

from soak.frame import Field
from tests.faults.stand import NO_LIMITS, Stand, wait_for
from tests.vendor import Vendor, serving, tools

INVOKE = "/api/v1/agents/clerk/releases/1/tools/tool_1/invoke/"
CLIENTS = 2
CALL_SECONDS = 0.2
OUTAGE_SECONDS = 3.0
STALE_MESSAGES = 3_000
# A killed caller's lease of 40 s ends first, and a sweep finds that 10 s later.
END_WITHIN = 90.0
# Of a call whose worker died after it had claimed the call: the vendor may have run it.
UNKNOWN = "unknown"


def storm(field: Field) -> None:
    stand = Stand(field.servers, field.environment | NO_LIMITS, field.directory)
    vendor = Vendor(tools(25))
    vendor.call_seconds = CALL_SECONDS
    try:
        with serving(vendor) as stand.vendor:
            stand.set_up()
            stand.begin_web()
            wait_for(lambda: stand.ask("/healthz").status == 200, 60, "the first page")
            stand.begin_caller()
            stand.begin_beat()
            outcomes: Counter[str] = Counter()
            for number in range(field.times(short=1, long=3)):
                for kind in FAULTS:
                    outcomes += meet(field, stand, kind, number)
            field.figure("accepted calls", outcomes.total())
            field.figure("outcomes", ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items()))
    finally:
        stand.stop()


def meet(field: Field, stand: Stand, kind: str, number: int) -> Counter[str]:
    """Inject the fault among calls, wait until all have ended, and return their outcomes."""
    name = f"{kind} {number}"
    with Callers(stand, name) as callers:
        time.sleep(field.random.uniform(1, 2))
        FAULTS[kind](stand)
        time.sleep(field.random.uniform(1, 2))
    began = time.monotonic()
    wait_for(lambda: has_ended(stand), 2 * END_WITHIN, f"the end of all calls after “{kind}”")
    detail = f"round {number}, {len(callers.accepted)} calls"
    field.fault(kind, detail, recovery=time.monotonic() - began, limit=END_WITHIN)
    return check_calls(field, stand, name, callers.accepted)


def has_ended(stand: Stand) -> bool:
    active = stand.query("SELECT count(*) FROM catalog_call WHERE status <> 'finished'")
    return active == [(0,)] and not stand.valkey().llen("calls")


def check_calls(field: Field, stand: Stand, name: str, accepted: set[str]) -> Counter[str]:
    """Report what is wrong with the calls of one fault, before newer ones of the tool replace them."""
    city = "arguments->>'city'"
    rows = dict(stand.query(f"SELECT {city}, outcome FROM catalog_call WHERE {city} LIKE %s", f"{name},%"))
    sent_counts = Counter(call["input_parameters"][0]["value"] for call in stand.vendor.calls)
    stand.vendor.calls.clear()
    repeated = [city for city, count in sent_counts.items() if count > 1]
    field.expect(not repeated, f"{name}: {len(repeated)} calls were sent more than once")
    lost_calls = accepted - set(rows)
    field.expect(not lost_calls, f"{name}: {len(lost_calls)} accepted calls are gone")
    outcomes = Counter(rows.values())
    field.expect(set(outcomes) <= {"ok", UNKNOWN}, f"{name}: calls ended with {dict(outcomes)}")
    unsent = [city for city, outcome in rows.items() if outcome == "ok" and city not in sent_counts]
    field.expect(not unsent, f"{name}: the vendor never received {len(unsent)} calls that ended well")
    return outcomes


def lose_messages(stand: Stand) -> None:
    for _ in range(10):
        stand.valkey().flushall()
        time.sleep(OUTAGE_SECONDS / 10)


def kill_broker(stand: Stand) -> None:
    stand.kill("valkey")
    time.sleep(OUTAGE_SECONDS)
    stand.begin_again("valkey")


def silence_broker(stand: Stand) -> None:
    stand.broker.is_silent = True
    time.sleep(OUTAGE_SECONDS)
    stand.broker.heal()


def kill_database(stand: Stand) -> None:
    stand.kill("postgres")
    time.sleep(OUTAGE_SECONDS)
    stand.begin_again("postgres")


def cut_database(stand: Stand) -> None:
    for _ in range(3):
        stand.database.cut()
        time.sleep(OUTAGE_SECONDS / 3)


def kill_caller(stand: Stand) -> None:
    stand.end("caller", signal.SIGKILL)
    time.sleep(OUTAGE_SECONDS)
    stand.begin_caller()


def kill_caller_and_lose_messages(stand: Stand) -> None:
    stand.end("caller", signal.SIGKILL)
    lose_messages(stand)
    stand.begin_caller()


def leave_stale_messages(stand: Stand) -> None:
    stand.warm.do("send_wakes", STALE_MESSAGES)


FAULTS = {
    "messages lost": lose_messages,
    "broker killed": kill_broker,
    "broker silent": silence_broker,
    "database killed": kill_database,
    "database connections cut": cut_database,
    "caller killed": kill_caller,
    "caller killed and messages lost": kill_caller_and_lose_messages,
    "stale messages": leave_stale_messages,
}


class Callers:
    """Clients that each have one call after the other accepted. accepted: the cities that calls ask for."""

    def __init__(self, stand: Stand, name: str) -> None:
        self.stand, self.name = stand, name
        self.accepted: set[str] = set()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(n,)) for n in range(CLIENTS)]

    def __enter__(self) -> "Callers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _call(self, client: int) -> None:
        number = 0
        while not self._over.is_set():
            city = f"{self.name}, client {client}, call {number}"
            request = {"arguments": {"city": city}, "mode": "async", "deadline_seconds": 600}
            if self.stand.ask(INVOKE, request, key=city).status == 202:
                self.accepted.add(city)
                number += 1
            self._over.wait(0.05)
