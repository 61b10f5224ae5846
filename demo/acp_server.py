"""ACP in front of a few agents: search, descriptors, and runs that wait, stream, stop and continue."""

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from demo import DemoVendor, page
from demo.agency import AGENTS, Agent, RunFailure, RunInterrupt, RunResult, Step
from demo.web import HTML, DemoRequest, Port, Response, VendorServer, as_json

MAX_KEPT_RUNS = 500
EVENTS = "text/event-stream"
TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list}
LIMITS = {"limit": (1, 1000, 10), "offset": (0, 1_000_000, 0)}


class AgentError(Exception):
    """An error of ACP: a status of 400 or more, and a text as the body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass
class AgentRun:
    agent: Agent
    creation: dict[str, Any]
    run_id: str = field(default_factory=lambda: str(uuid4()))
    created_at: str = field(default_factory=lambda: now())
    updated_at: str = field(default_factory=lambda: now())
    status: str = "pending"
    step: Step | None = None

    @property
    def input_values(self) -> dict[str, Any]:
        input_values: dict[str, Any] = self.creation["input"]
        return input_values

    @property
    def config(self) -> dict[str, Any]:
        return (self.creation.get("config") or {}).get("configurable") or {}

    def take(self, step: Step) -> None:
        self.step = step
        self.updated_at = now()
        self.status = {RunResult: "success", RunInterrupt: "interrupted", RunFailure: "error"}[type(step)]

    def wire(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "agent_id": self.agent.id,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "status": self.status,
            "creation": self.creation,
        }

    def output(self) -> dict[str, Any]:
        match self.step:
            case RunResult(values):
                return {"type": "result", "values": values}
            case RunInterrupt(kind, payload):
                return {"type": "interrupt", "interrupt": {"interrupt_type": kind, **payload}}
            case RunFailure(code, text):
                return {"type": "error", "run_id": self.run_id, "errcode": code, "description": text}
        return {"type": "error", "run_id": self.run_id, "errcode": 0, "description": "The run was cancelled."}


class AcpApi:
    def __init__(self, vendor: DemoVendor, agents: tuple[Agent, ...] = AGENTS) -> None:
        self.vendor = vendor
        self.agents = {agent.id: agent for agent in agents}
        self.runs: OrderedDict[str, AgentRun] = OrderedDict()
        self.lock = threading.RLock()

    def answer(self, request: DemoRequest) -> Response:
        try:
            with self.lock:
                for method, path, run in ROUTES:
                    if method == request.method and (match := path.fullmatch(request.path)):
                        return run(self, request, *(unquote(group) for group in match.groups()))
                raise AgentError(404, "There is nothing at this address.")
        except AgentError as exc:
            return as_json(exc.message, exc.status)

    def search(self, request: DemoRequest) -> Response:
        filters = body_of(request)
        limit, offset = (bounded_member(filters, member) for member in LIMITS)
        agents = [
            {"agent_id": agent.id, "metadata": metadata(agent)}
            for agent in self.agents.values()
            if filters.get("name") in (None, agent.name) and filters.get("version") in (None, agent.version)
        ]
        return as_json(agents[offset : offset + limit])

    def show_agent(self, request: DemoRequest, agent_id: str) -> Response:
        agent = self._agent(agent_id)
        return as_json({"agent_id": agent.id, "metadata": metadata(agent)})

    def describe(self, request: DemoRequest, agent_id: str) -> Response:
        agent = self._agent(agent_id)
        return as_json({"metadata": metadata(agent), "specs": agent.specs})

    def create(self, request: DemoRequest) -> Response:
        return as_json(self._start_run(request).wire())

    def create_and_wait(self, request: DemoRequest) -> Response:
        run = self._start_run(request)
        return as_json({"run": run.wire(), "output": run.output()})

    def create_and_stream(self, request: DemoRequest) -> Response:
        run = self._start_run(request)
        if not (run.agent.specs["capabilities"].get("streaming") or {}).get("values"):
            raise AgentError(422, "This agent does not stream.")
        stream = "".join(event(number, update) for number, update in enumerate(updates_of(run)))
        return Response(HTTPStatus.OK, stream.encode(), EVENTS)

    def search_runs(self, request: DemoRequest) -> Response:
        filters = body_of(request)
        limit, offset = (bounded_member(filters, member) for member in LIMITS)
        marks = filters.get("metadata") or {}
        runs = [
            run.wire()
            for run in self.runs.values()
            if filters.get("agent_id") in (None, run.agent.id)
            and filters.get("status") in (None, run.status)
            and marks.items() <= (run.creation.get("metadata") or {}).items()
        ]
        return as_json(runs[offset : offset + limit])

    def show_run(self, request: DemoRequest, run_id: str) -> Response:
        return as_json(self._run(run_id).wire())

    def wait(self, request: DemoRequest, run_id: str) -> Response:
        run = self._run(run_id)
        return as_json({"run": run.wire(), "output": run.output()})

    def resume(self, request: DemoRequest, run_id: str) -> Response:
        run = self._run(run_id)
        if run.status != "interrupted" or not isinstance(run.step, RunInterrupt):
            raise AgentError(409, "The run does not wait for an answer.")
        answer = body_of(request)
        interrupts = {interrupt["interrupt_type"]: interrupt for interrupt in run.agent.specs["interrupts"]}
        check(answer, interrupts[run.step.kind]["resume_payload"], "answer")
        run.take(run.agent.resume(run.input_values, run.config, answer))
        return as_json(run.wire())

    def cancel(self, request: DemoRequest, run_id: str) -> Response:
        run = self._run(run_id)
        if run.status in ("pending", "interrupted"):
            run.status, run.step = "error", None
        return Response(HTTPStatus.NO_CONTENT)

    def delete(self, request: DemoRequest, run_id: str) -> Response:
        del self.runs[self._run(run_id).run_id]
        return Response(HTTPStatus.NO_CONTENT)

    def show_page(self, request: DemoRequest) -> Response:
        rows = "".join(f"<li>{agent.name} {agent.version}: {agent.description}</li>" for agent in AGENTS)
        text = PAGE.format(name=self.vendor.name, blurb=self.vendor.blurb, rows=rows)
        return Response(HTTPStatus.OK, text.encode(), HTML, page.HEADERS)

    def _agent(self, agent_id: str) -> Agent:
        if agent_id not in self.agents:
            raise AgentError(404, "There is no such agent.")
        return self.agents[agent_id]

    def _run(self, run_id: str) -> AgentRun:
        if run_id not in self.runs:
            raise AgentError(404, "There is no such run.")
        return self.runs[run_id]

    def _start_run(self, request: DemoRequest) -> AgentRun:
        creation = body_of(request)
        agent = self._agent(str(creation.get("agent_id") or next(iter(self.agents))))
        creation.setdefault("input", {})
        check(creation["input"], agent.specs["input"], "input")
        run = AgentRun(agent, creation)
        check(run.config, agent.specs["config"], "config")
        self.runs[run.run_id] = run
        while len(self.runs) > MAX_KEPT_RUNS:
            self.runs.popitem(last=False)
        run.take(agent.start(run.input_values, run.config))
        return run


Route = tuple[str, re.Pattern[str], Callable[..., Response]]
RUN = r"/runs/([0-9a-f-]{36})"
ROUTES: tuple[Route, ...] = (
    ("POST", re.compile(r"/agents/search"), AcpApi.search),
    ("GET", re.compile(r"/agents/([^/]+)"), AcpApi.show_agent),
    ("GET", re.compile(r"/agents/([^/]+)/descriptor"), AcpApi.describe),
    ("POST", re.compile(r"/runs"), AcpApi.create),
    ("POST", re.compile(r"/runs/wait"), AcpApi.create_and_wait),
    ("POST", re.compile(r"/runs/stream"), AcpApi.create_and_stream),
    ("POST", re.compile(r"/runs/search"), AcpApi.search_runs),
    ("GET", re.compile(RUN), AcpApi.show_run),
    ("POST", re.compile(RUN), AcpApi.resume),
    ("DELETE", re.compile(RUN), AcpApi.delete),
    ("GET", re.compile(f"{RUN}/wait"), AcpApi.wait),
    ("POST", re.compile(f"{RUN}/cancel"), AcpApi.cancel),
    ("GET", re.compile(r"/"), AcpApi.show_page),
)
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>
<h1>{name}</h1><p>{blurb}</p><p>An invented vendor for trying things out. Its agents:</p>
<ul>{rows}</ul></html>"""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def metadata(agent: Agent) -> dict[str, Any]:
    return {"ref": {"name": agent.name, "version": agent.version}, "description": agent.description}


def body_of(request: DemoRequest) -> dict[str, Any]:
    try:
        body = json.loads(request.body or b"{}")
    except (ValueError, RecursionError) as exc:
        raise AgentError(422, "The body is not JSON.") from exc
    if not isinstance(body, dict):
        raise AgentError(422, "The body must be an object.")
    return body


def bounded_member(parameters: Mapping[str, Any], member: str) -> int:
    low, high, default = LIMITS[member]
    value = parameters.get(member, default)
    if type(value) is not int or not low <= value <= high:
        raise AgentError(422, f"“{member}” must be a whole number from {low} to {high}.")
    return value


def check(value: object, schema: Mapping[str, Any], where: str) -> None:
    """Check a value against the part of JSON Schema that these agents use."""
    if not isinstance(value, dict):
        raise AgentError(422, f"“{where}” must be an object.")
    for name in schema.get("required", ()):
        if name not in value:
            raise AgentError(422, f"“{where}.{name}” is required.")
    for name, member in value.items():
        if member_schema := schema["properties"].get(name):
            check_member(member, member_schema, f"{where}.{name}")


def check_member(value: object, schema: Mapping[str, Any], where: str) -> None:
    if type(value) is not TYPES[schema["type"]]:
        raise AgentError(422, f"“{where}” must be of type {schema['type']}.")
    if value not in schema.get("enum", [value]):
        raise AgentError(422, f"“{where}” must be one of {', '.join(schema['enum'])}.")
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        raise AgentError(422, f"“{where}” is out of range.")


def event(number: int, update: Mapping[str, Any]) -> str:
    return f"id: {number}\nevent: agent_event\ndata: {json.dumps(update)}\n\n"


def updates_of(run: AgentRun) -> Iterator[dict[str, Any]]:
    for values in run.agent.drafts(run.input_values, run.config):
        yield {"type": "values", "run_id": run.run_id, "status": "pending", "values": values}
    output = run.output()
    kind = {"result": "values"}.get(output["type"], output["type"])
    yield {**output, "type": kind, "run_id": run.run_id, "status": run.status}


class AcpServer(VendorServer):
    def __init__(self, port: Port, vendor: DemoVendor) -> None:
        super().__init__(port, AcpApi(vendor))
