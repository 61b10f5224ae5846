"""A tool of a release run over REST, through the web server that runtimes are given, beside a direct call.

The vendor, the product and the runtime are processes of their own on loopback. The direct call sends what the
product sends, over a connection that is kept. QUICK=1 measures less, to see whether it works.
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
from benchmarks.frame import Figure, percentile, samples
from benchmarks.vendor import SLOW_SECONDS
from catalog.models import Endpoint, Tool
from designer import agent_keys, agents, pins
from designer.models import Release
from designer.releases import publishing
from pegboard.local.product import FOR_RUNTIMES
from people.models import Scope, User

HOST = "127.0.0.1"
IS_QUICK = os.environ.get("QUICK") == "1"
PINNED = 10
TOOLS = 2_000 if IS_QUICK else 100_000
CALLS = 60 if IS_QUICK else 400
CLIENTS, CALLS_OF_EACH = (4, 8) if IS_QUICK else (16, 64)
IN_FLIGHT = 40 if IS_QUICK else 200
UNCHANGED = 200 if IS_QUICK else 2_000
OVER_DIRECT = 6  # ms
READ = """
import django, sys; django.setup()
from benchmarks.enumeration import endpoint_at, run
for number in range(2):
    run(endpoint_at(f"{sys.argv[1]}/reading/{number}"))
"""


class Client:
    """One connection to the product, kept, with the key of a runtime."""

    def __init__(self, port: int, key: str) -> None:
        self.line = http.client.HTTPConnection(HOST, port, timeout=60)
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        self.line.request("POST", path, body, self.headers)
        reply = self.line.getresponse()
        return reply.status, json.loads(reply.read())

    def get(self, path: str, **headers: str) -> int:
        self.line.request("GET", path, headers=self.headers | headers)
        reply = self.line.getresponse()
        reply.read()
        return reply.status


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
        self.fast, self.slow = (Tool.objects.filter(endpoint=each).earliest("pk") for each in (fast, slow))

    def path(self, tool: Tool) -> str:
        return f"/api/v1/agents/{self.release.agent.slug}/releases/live/tools/{tool.name}/invoke/"

    def body(self, tool: Tool) -> bytes:
        signature = tool.current.decoded() if tool.current else None
        needed = [each.name for each in signature.inputs if each.required] if signature else []
        return json.dumps({"arguments": dict.fromkeys(needed, "42")}).encode()

    def call(self, client: Client, tool: Tool) -> str:
        status, answer = client.post(self.path(tool), self.body(tool))
        return f"{status} {answer.get('outcome')}"


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
            scopes=[Scope.RUNTIME, Scope.INVOKE],
            agents=[desk.release.agent],
            calls_at_once=IN_FLIGHT,
        )
        port = stack.enter_context(serving(*PRODUCT))
        connect = partial(Client, port, key)
        yield from one_after_the_other(desk, connect, vendor_port)
        yield from at_once(desk, connect)
        yield from in_flight(desk, connect)
        yield from while_tools_are_read(desk, connect)
        yield from unchanged(desk, connect)


def one_after_the_other(desk: Desk, connect: Callable[[], Client], vendor_port: int) -> Iterator[Figure]:
    direct = Client(vendor_port, "none")
    tool = desk.fast
    body = json.dumps({"name": tool.name, "input_parameters": [{"name": "a", "value": "42"}]}).encode()
    bare = samples(lambda: direct.post(f"/fast/tools/{tool.tool_id}:invoke", body), CALLS, warm_up=20)
    floor = percentile(bare, 50) * 1000
    yield Figure("direct call, p50", floor, "ms")
    few = through(desk, connect())
    yield over("invoke over a direct call, p50", few, floor)
    rows.fill_into([rows.make_endpoint(number) for number in range(2, 12)], TOOLS)
    many = through(desk, connect())
    yield over(f"the same with {TOOLS:,} tools in the catalog", many, floor)
    yield Figure("p50 with so many tools", many, "ms", floor=few, target=1.3, less_is_better=True)


def through(desk: Desk, client: Client) -> float:
    """The median in milliseconds."""
    taken = samples(lambda: well(desk.call(client, desk.fast)), CALLS, warm_up=20)
    return percentile(taken, 50) * 1000


def well(answer: str) -> None:
    if answer != "200 ok":
        raise RuntimeError(answer)


def over(name: str, value: float, floor: float) -> Figure:
    return Figure(name, value - floor, "ms", target=OVER_DIRECT, less_is_better=True)


def at_once(desk: Desk, connect: Callable[[], Client]) -> Iterator[Figure]:
    def work(_: int) -> list[tuple[str, float]]:
        client, told = connect(), []
        for _ in range(CALLS_OF_EACH):
            began = time.perf_counter()
            told.append((desk.call(client, desk.fast), time.perf_counter() - began))
        return told

    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        told = [each for answers in pool.map(work, range(CLIENTS)) for each in answers]
    took = time.perf_counter() - began
    bad = sum(answer != "200 ok" for answer, _ in told)
    yield Figure(f"{CLIENTS} clients, calls", len(told) / took, "calls/s")
    yield Figure(f"{CLIENTS} clients, p95", percentile([seconds for _, seconds in told], 95) * 1000, "ms")
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
    lost = IN_FLIGHT - answers.count("200 ok")
    name = f"{IN_FLIGHT} in flight to a vendor that takes {SLOW_SECONDS:g} s"
    yield Figure(f"{name}, refused or lost", lost, "calls", target=0, less_is_better=True)
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
    alone = through(desk, client)
    taken: list[float] = []
    command = [sys.executable, "-c", READ, desk.vendor]
    with subprocess.Popen(command) as reading:
        while reading.poll() is None:
            taken += samples(lambda: well(desk.call(client, desk.fast)), 5, warm_up=0)
    if reading.returncode:
        raise RuntimeError("the tools could not be read")
    busy = percentile(taken, 50) * 1000
    yield Figure("p50 while 10,000 tools are read", busy, "ms", floor=alone, target=1.5, less_is_better=True)


def unchanged(desk: Desk, connect: Callable[[], Client]) -> Iterator[Figure]:
    path = f"/api/v1/agents/{desk.release.agent.slug}/releases/live/tools/?format=mcp"
    headers = {"If-None-Match": f'"{desk.release.digest}"'}
    connect().get(path)  # its receipt
    served = per_second(connect, path, headers)
    with serving(*FLOOR, "benchmarks.bare:application") as port:
        floor = per_second(partial(Client, port, "none"), f"/?{desk.release.agent_id}", headers)
    yield Figure("served export, unchanged", served, "requests/s", floor=floor, target=0.5)


def per_second(connect: Callable[[], Client], path: str, headers: dict[str, str]) -> float:
    def work(count: int) -> None:
        client = connect()
        for _ in range(count):
            if client.get(path, **headers) != http.client.NOT_MODIFIED:
                raise RuntimeError(f"{path} does not answer 304")

    clients = 4
    work(20)
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, [UNCHANGED // clients] * clients))
    return UNCHANGED / (time.perf_counter() - began)
