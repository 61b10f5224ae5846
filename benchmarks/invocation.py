"""A tool of a release run over REST and MCP, through the web server that runtimes are given, beside a direct
call; and what runtimes read all day, beside a bare application that asks for the digest and answers as much.

The vendor, the product and the runtime are processes of their own on loopback. The direct call sends what the
product sends, over one open connection. The compared requests alternate, because the machine may have other
work. QUICK=1 measures less, to see whether it works.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from benchmarks import rows
from benchmarks.enumeration import vendor
from benchmarks.frame import Figure, percentile, samples, seconds
from benchmarks.vendor import SLOW_SECONDS
from catalog.models import Endpoint, Tool
from designer.agents import agent_keys, agents
from designer.models import Release
from designer.pins import pins
from designer.releases import publishing
from pegboard.process_commands import FOR_RUNTIMES
from people.models import KeyScope, User

HOST = "127.0.0.1"
IS_QUICK = os.environ.get("QUICK") == "1"
PINNED = 10
TOOLS = 2_000 if IS_QUICK else 100_000
CALLS = 60 if IS_QUICK else 400
CLIENTS, CALLS_OF_EACH = (4, 8) if IS_QUICK else (16, 64)
IN_FLIGHT = 40 if IS_QUICK else 200
READS = 200 if IS_QUICK else 2_000
ROUNDS = 8
OVER_DIRECT, OVER_DIRECT_SERVED = 6, 8  # ms
# As a worker of the product reads tools, with its priority.
READ = """
import django, sys; django.setup()
from benchmarks.enumeration import endpoint_at, run
from pegboard.celery import yield_to_requests
yield_to_requests()
for number in range(2):
    run(endpoint_at(f"{sys.argv[1]}/reading/{number}"))
"""


class Client:
    """One connection to the product, kept, with the key of a runtime."""

    def __init__(self, port: int, key: str) -> None:
        self.line = http.client.HTTPConnection(HOST, port, timeout=60)
        self.headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
        }

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        self.line.request(method, path, body, self.headers | headers)
        reply = self.line.getresponse()
        return reply.status, reply.read()

    def post(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        status, answer = self.ask("POST", path, body)
        return status, json.loads(answer)


class Desk:
    """A release with pinned tools of the vendor, half of which take their time."""

    def __init__(self, user: User, vendor_port: int) -> None:
        rows.fill(PINNED * 2, endpoints=2)
        fast, slow = Endpoint.objects.order_by("pk")
        self.vendor = f"http://{HOST}:{vendor_port}"
        Endpoint.objects.filter(pk=fast.pk).update(url=f"{self.vendor}/fast", requests_per_second=1_000)
        Endpoint.objects.filter(pk=slow.pk).update(
            url=f"{self.vendor}/slow", requests_per_second=1_000, requests_at_once=1_000
        )
        agent = agents.create_agent(actor=user, name="Benchmark")
        for tool in Tool.objects.all():
            pins.pin_tool(agent, actor=user, tool=tool)
        self.release: Release = publishing.publish(agent, actor=user, channel="live")
        self.fast, self.slow = (
            Tool.objects.filter(endpoint=endpoint).earliest("pk") for endpoint in (fast, slow)
        )

    def path(self, tool: Tool) -> str:
        return f"/api/v1/agents/{self.release.agent.slug}/releases/live/tools/{tool.name}/invoke/"

    @property
    def served(self) -> str:
        return f"/serve/{self.release.agent.slug}/live/mcp"

    def arguments(self, tool: Tool) -> dict[str, str]:
        signature = tool.current.decoded() if tool.current else None
        needed = (
            [tool_input.name for tool_input in signature.inputs if tool_input.required] if signature else []
        )
        return dict.fromkeys(needed, "42")

    def call(self, client: Client, tool: Tool) -> str:
        body = json.dumps({"arguments": self.arguments(tool)}).encode()
        status, answer = client.post(self.path(tool), body)
        return f"{status} {answer.get('outcome')}"

    def call_over_mcp(self, client: Client, tool: Tool) -> str:
        body = mcp("tools/call", {"name": tool.name, "arguments": self.arguments(tool)})
        status, answer = client.post(self.served, body)
        is_error = answer.get("result", {"isError": True}).get("isError", False)
        return f"{status} {'error' if is_error else 'ok'}"


def mcp(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


PRODUCT = ("-c", "python:pegboard.gunicorn")
FLOOR = ("-k", "gthread", "-w", FOR_RUNTIMES["WEB_WORKERS"], "--threads", FOR_RUNTIMES["WEB_THREADS"])


@contextmanager
def serving(*options: str) -> Iterator[int]:
    """Its port; requests wait until it answers."""
    with socket.create_server((HOST, 0), backlog=1024) as listener:
        # As gunicorn sets it, which is later than the first connection may come.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        command = [sys.executable, "-m", "gunicorn", "-b", f"fd://{listener.fileno()}", *options]
        environment = {**os.environ, **FOR_RUNTIMES}
        with subprocess.Popen(command, env=environment, pass_fds=(listener.fileno(),)) as process:
            try:
                yield int(listener.getsockname()[1])
            finally:
                process.terminate()


def main() -> Iterator[Figure]:
    user = User.objects.create_superuser("benchmark", "no password is asked for here")
    with ExitStack() as stack:
        vendor_port = stack.enter_context(vendor())
        desk = Desk(user, vendor_port)
        _, key = agent_keys.issue(
            user,
            actor=user,
            name="benchmark",
            scopes=[KeyScope.RUNTIME, KeyScope.INVOKE],
            agents=[desk.release.agent],
            calls_at_once=IN_FLIGHT,
        )
        port = stack.enter_context(serving(*PRODUCT))
        connect = partial(Client, port, key)
        yield from one_after_the_other(desk, connect, vendor_port)
        yield from at_once(desk, connect)
        yield from in_flight(desk, connect)
        yield from while_tools_are_read(desk, connect)
        yield from what_is_read_all_day(desk, connect)


def one_after_the_other(desk: Desk, connect: Callable[[], Client], vendor_port: int) -> Iterator[Figure]:
    direct = Client(vendor_port, "none")
    tool = desk.fast
    body = json.dumps({"name": tool.name, "input_parameters": [{"name": "a", "value": "42"}]}).encode()

    def bare() -> None:
        direct.post(f"/fast/tools/{tool.tool_id}:invoke", body)

    client = connect()
    floor, few, served = medians(
        bare, lambda: well(desk.call(client, tool)), lambda: well(desk.call_over_mcp(client, tool))
    )
    yield Figure("direct call, p50", floor, "ms")
    yield over("invoke over a direct call, p50", few, floor, OVER_DIRECT)
    yield over("tools/call of MCP over a direct call, p50", served, floor, OVER_DIRECT_SERVED)
    rows.fill_into([rows.make_endpoint(number) for number in range(2, 12)], TOOLS)
    later = connect()  # the server has closed the other one meanwhile
    floor, many = medians(bare, lambda: well(desk.call(later, tool)))
    yield over(f"invoke with {TOOLS:,} tools in the catalog, p50", many, floor, OVER_DIRECT)
    yield Figure("p50 with so many tools", many, "ms", floor=few, target=1.3, less_is_better=True)


def medians(*works: Callable[[], object]) -> list[float]:
    """Return the medians in milliseconds of calls in turns."""
    durations: list[list[float]] = [samples(work, 0, warm_up=20) for work in works]
    for _ in range(CALLS):
        for work, times in zip(works, durations, strict=True):
            times.append(seconds(work))
    return [percentile(times, 50) * 1000 for times in durations]


def well(answer: str) -> None:
    if answer != "200 ok":
        raise RuntimeError(answer)


def over(name: str, value: float, floor: float, target: float) -> Figure:
    return Figure(name, value - floor, "ms", target=target, less_is_better=True)


def at_once(desk: Desk, connect: Callable[[], Client]) -> Iterator[Figure]:
    def work(_: int) -> list[tuple[str, float]]:
        client, timed_answers = connect(), []
        for _ in range(CALLS_OF_EACH):
            began = time.perf_counter()
            timed_answers.append((desk.call(client, desk.fast), time.perf_counter() - began))
        return timed_answers

    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        timed_answers = [
            timed for client_answers in pool.map(work, range(CLIENTS)) for timed in client_answers
        ]
    took = time.perf_counter() - began
    bad = sum(answer != "200 ok" for answer, _ in timed_answers)
    yield Figure(f"{CLIENTS} clients, calls", len(timed_answers) / took, "calls/s")
    yield Figure(
        f"{CLIENTS} clients, p95", percentile([seconds for _, seconds in timed_answers], 95) * 1000, "ms"
    )
    yield Figure(
        f"{CLIENTS} clients, not answered with an outcome", bad, "calls", target=0, less_is_better=True
    )


def in_flight(desk: Desk, connect: Callable[[], Client]) -> Iterator[Figure]:
    def work(_: int) -> str:
        return desk.call(connect(), desk.slow)

    before, began = ran(desk), time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        answers = list(pool.map(work, range(IN_FLIGHT)))
    took = time.perf_counter() - began
    lost_count = IN_FLIGHT - answers.count("200 ok")
    name = f"{IN_FLIGHT} in flight to a vendor that takes {SLOW_SECONDS:g} s"
    yield Figure(f"{name}, refused or lost", lost_count, "calls", target=0, less_is_better=True)
    yield Figure(
        f"{name}, sent twice", ran(desk) - before - IN_FLIGHT, "calls", target=0, less_is_better=True
    )
    yield Figure(f"{name}, all answered", took, "s", floor=SLOW_SECONDS, target=3, less_is_better=True)


def ran(desk: Desk) -> int:
    line = http.client.HTTPConnection(desk.vendor.removeprefix("http://"), timeout=10)
    line.request("GET", "/count")
    return int(line.getresponse().read())


def while_tools_are_read(desk: Desk, connect: Callable[[], Client]) -> Iterator[Figure]:
    client = connect()
    (alone,) = medians(lambda: well(desk.call(client, desk.fast)))
    durations: list[float] = []
    command = [sys.executable, "-c", READ, desk.vendor]
    with subprocess.Popen(command) as reading:
        while reading.poll() is None:
            durations += samples(lambda: well(desk.call(client, desk.fast)), 5, warm_up=0)
    if reading.returncode:
        raise RuntimeError("the tools could not be read")
    busy = percentile(durations, 50) * 1000
    yield Figure("p50 while 10,000 tools are read", busy, "ms", floor=alone, target=1.5, less_is_better=True)


def what_is_read_all_day(desk: Desk, connect: Callable[[], Client]) -> Iterator[Figure]:
    release = desk.release
    path = f"/api/v1/agents/{release.agent.slug}/releases/live/tools/?format=mcp"
    if_changed: Any = {"If-None-Match": f'"{release.digest}"'}
    listing = mcp("tools/list", {})
    connect().ask("GET", path)  # its receipt
    _, answer = connect().ask("POST", desk.served, listing)
    with serving(*FLOOR, "benchmarks.bare:application") as port:
        bare = partial(Client, port, "none")
        query = f"{release.agent_id}&{len(answer)}"
        served, floor = rates(
            (connect, lambda client: client.ask("GET", path, **if_changed), 304),
            (bare, lambda client: client.ask("GET", f"/?{query}", **if_changed), 304),
        )
        yield Figure("served export, unchanged", served, "requests/s", floor=floor, target=0.5)
        served, floor = rates(
            (connect, lambda client: client.ask("POST", desk.served, listing), 200),
            (bare, lambda client: client.ask("POST", f"/?{query}", listing), 200),
        )
        name = f"served tools/list of {len(json.loads(answer)['result']['tools'])} tools"
        yield Figure(name, served, "requests/s", floor=floor, target=0.5)


Asking = tuple[Callable[[], Client], Callable[[Client], tuple[int, bytes]], int]


def rates(*asked: Asking) -> list[float]:
    """Requests a second, of four clients each; the best of so many rounds, in which they take turns."""
    best = [0.0] * len(asked)
    for _ in range(ROUNDS):
        for place, (connect, ask, expected) in enumerate(asked):
            best[place] = max(best[place], per_second(connect, ask, expected))
    return best


def per_second(
    connect: Callable[[], Client], ask: Callable[[Client], tuple[int, bytes]], expected: int
) -> float:
    def work(count: int) -> None:
        client = connect()
        for _ in range(count):
            if ask(client)[0] != expected:
                raise RuntimeError(f"{ask} is not answered {expected}")

    clients = 4
    work(20)
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, [READS // clients] * clients))
    return READS / (time.perf_counter() - began)
