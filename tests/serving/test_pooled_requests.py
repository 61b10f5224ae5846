"""Runtimes and pages behind a pooler in transaction mode get the answers that they get without one."""

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random

import pytest
from django.db import connection

from catalog import search
from catalog.models import Call
from designer.agents import agent_keys
from designer.models import Agent, Receipt
from people import api_keys
from people.models import Role
from tests.factories import make_user
from tests.hostile_vendor import HostileVendor, Line, Request, json_reply
from tests.pegboard.web.test_web_server import web_server
from tests.pooler import needs_pgbouncer, pgbouncer
from tests.serving.test_calls import desk_with

pytestmark = [pytest.mark.django_db(transaction=True), needs_pgbouncer]
CLIENTS, ROUNDS = 8, 5
NAMES = ("desk", "shop", "bank")
VARIABLES = {
    "PEGBOARD_OUTBOUND_ALLOW": "127.0.0.1/32",
    "PEGBOARD_CALLS_PER_MINUTE": "100000",
    "PEGBOARD_WRITES_PER_MINUTE": "100000",
}


def echo(line: Line, request: Request) -> bool | None:
    values = {
        input_parameter["name"]: input_parameter["value"]
        for input_parameter in request.json()["input_parameters"]
    }
    outputs = {"output_parameters": [{"name": "Sky now", "value": values["Zip code"]}]}
    return json_reply(outputs)(line, request)


@pytest.fixture
def vendor() -> Iterator[HostileVendor]:
    with HostileVendor(echo) as running:
        yield running


@dataclass
class Site:
    """The product at a port, for the owner of a key that may design and one that may run tools."""

    port: int
    key: str
    runtime_key: str

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, bytes]:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        is_runtime = path.startswith("/serve/") or "/releases/" in path
        headers = {
            "Authorization": f"Bearer {self.runtime_key if is_runtime else self.key}",
            "Content-Type": "application/json",
            "X-Request-Id": "1",
            **headers,
        }
        try:
            client.request(method, path, None if body is None else json.dumps(body), headers)
            answer = client.getresponse()
            return answer.status, answer.read()
        finally:
            client.close()

    def listed(self, slug: str) -> tuple[int, bytes]:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        return self.ask("POST", f"/serve/{slug}/live/mcp", message)


READS = [
    *(
        ("GET", f"/api/v1/agents/{name}/releases/live/tools/?format={form}")
        for name in NAMES
        for form in ("mcp", "a2t")
    ),
    *(("GET", f"/api/v1/agents/{name}/releases/live/bundle/") for name in NAMES),
    *(("GET", f"/api/v1/agents/{name}/") for name in NAMES),
    *(
        ("GET", path)
        for path in ("/api/v1/agents/", "/api/v1/tools/?q=sky", "/api/v1/findings/", "/api/v1/vendors/")
    ),
]


def invoke(site: Site, slug: str, value: str) -> str:
    path = f"/api/v1/agents/{slug}/releases/live/tools/sky/invoke/"
    status, body = site.ask("POST", path, {"arguments": {"Zip_code": value}})
    assert status == 200, body
    return json.loads(body)["outputs"]["Sky_now"]


def call_over_mcp(site: Site, slug: str, value: str) -> str:
    params = {"name": "sky", "arguments": {"Zip_code": value}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    status, body = site.ask("POST", f"/serve/{slug}/live/mcp", message)
    assert status == 200, body
    return json.loads(body)["result"]["structuredContent"]["Sky_now"]


def create_agent(site: Site, slug: str) -> str:
    status, body = site.ask("POST", "/api/v1/agents/", {"name": slug, "slug": slug})
    assert status == 201, body
    return json.loads(body)["slug"]


@pytest.mark.parametrize(("threads", "size"), [("8", 2), ("32", 4)])
def test_busy_requests_are_answered_as_without_a_pooler(vendor, process_environment, threads, size):
    owner = make_user(Role.DESIGNER, username="ada")
    desks = [desk_with(owner, vendor, slug=name, description=f"The sky of {name}.")[0] for name in NAMES]
    _, key = api_keys.issue(owner, actor=owner, name="Pages", scopes=["design"])
    _, runtime_key = agent_keys.issue(
        owner, actor=owner, name="Runtime", scopes=("runtime", "invoke"), agents=desks
    )
    url = process_environment["DATABASE_URL"]
    search.index_pending()  # so that the answers do not change while a server indexes
    with web_server(**VARIABLES, WEB_THREADS=threads) as port:
        site = Site(port, key, runtime_key)
        expected = {request: site.ask(*request) for request in READS} | {
            name: site.listed(name) for name in NAMES
        }
    assert {status for status, _ in expected.values()} == {200}
    assert len({body for _, body in expected.values()}) == len(expected)

    with (
        pgbouncer(url, size=size) as pooled,
        web_server(**VARIABLES, WEB_THREADS=threads, DATABASE_URL=pooled) as port,
    ):
        site = Site(port, key, runtime_key)

        def work(client: int) -> list[object]:
            random, wrong = Random(client), []
            for number in range(ROUNDS):
                tasks = [
                    *expected,
                    *(("invoke", name) for name in NAMES),
                    *(("call", name) for name in NAMES),
                    "write",
                ]
                random.shuffle(tasks)
                for task in tasks:
                    value = f"{client}{number:02}{len(wrong)}"
                    if task == "write":
                        answer, right = (
                            create_agent(site, f"made-{client}-{number}"),
                            f"made-{client}-{number}",
                        )
                    elif task in NAMES:
                        answer, right = site.listed(task), expected[task]
                    elif task[0] == "invoke":
                        answer, right = invoke(site, task[1], value), value
                    elif task[0] == "call":
                        answer, right = call_over_mcp(site, task[1], value), value
                    else:
                        answer, right = site.ask(*task), expected[task]
                    if answer != right and task != ("GET", "/api/v1/agents/"):  # it grows meanwhile
                        wrong.append((task, answer, right))
            return wrong

        with ThreadPoolExecutor(CLIENTS) as pool:
            assert [wrong for wrong in pool.map(work, range(CLIENTS)) if wrong] == []

    calls = CLIENTS * ROUNDS * len(NAMES) * 2
    assert (len(vendor.requests), Call.objects.count()) == (calls, calls)
    assert set(Call.objects.values_list("outcome", flat=True)) == {"ok"}
    assert Agent.objects.filter(slug__startswith="made-").count() == CLIENTS * ROUNDS
    assert Receipt.objects.exists()
    connection.close()
