"""A release in memory, as the servers of MCP and ACP see it."""

import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from core.errors import DomainError
from protocols.acp.server.release import Abilities, RunRequest, ServedAgent, ServedRun, ServedThread
from protocols.base import ThreadState
from protocols.mcp.server.clients import Client
from protocols.mcp.server.release import ContextItem, ServedProcedure
from protocols.server import (
    DeclaredOutputs,
    FollowedCallEvent,
    Refusal,
    ServedTool,
    ToolCallRequest,
    ToolCallResult,
    UnknownToolError,
)
from tests.protocols.served import MemoryRelease

NOW = datetime(2026, 11, 28, tzinfo=UTC)
SKY = DeclaredOutputs(names=("sky",), listed_names=("sky",), simple_names=("sky",))


class Events:
    def __init__(self, events: Sequence[FollowedCallEvent]) -> None:
        self._events = events

    def __iter__(self) -> Generator[FollowedCallEvent]:
        yield from self._events

    def close(self) -> None:
        pass


@dataclass
class _Adapter:
    """answers: what answers to questions were sent. partials: events of a followed call before its end."""

    release: MemoryRelease
    answers: list[Mapping[str, Any]] = field(default_factory=list)
    partials: list[Mapping[str, Any]] = field(default_factory=list)
    cancelled: list[object] = field(default_factory=list)
    answered: ToolCallResult | None = None

    def find(self, name: str) -> ServedTool | None:
        return next((tool for tool in self.release.tools() if tool.name == name), None)

    def call(self, request: ToolCallRequest) -> ToolCallResult:
        if self.find(request.tool_name) is None:
            self.release.report_unknown_tool(request.tool_name)
            raise UnknownToolError(request.tool_name)
        result = self.release.run(request)
        return replace(result, call=7, tool_name=request.tool_name, declared=SKY)

    def report_unknown_tool(self, name: str) -> None:
        self.release.report_unknown_tool(name)

    def events(self) -> Events:
        partial = [FollowedCallEvent(condition="partial", partial=row) for row in self.partials]
        return Events([FollowedCallEvent(condition="started"), *partial])

    def reserve_room(self) -> ExitStack:
        return ExitStack()

    def reserve_stream(self, kind: str) -> Callable[[], None]:
        return lambda: None

    def pause(self, seconds: float) -> None:
        time.sleep(0.01)

    def refusal_for(self, error: Exception) -> Refusal | None:
        if isinstance(error, DomainError):
            return Refusal(error.status, error.code, error.message, error.fields)
        return None


class MCPMemory(_Adapter):
    """`protocols.mcp.server.release.Release`, and its store."""

    slug, name, description, number = "desk", "Desk", "", 1
    texts: dict[str, str]

    def __init__(self, release: MemoryRelease) -> None:
        super().__init__(release)
        self.texts, self.items, self.list_id = {}, [], release.list_id

    items: list[ContextItem]

    def procedures(self) -> Sequence[ServedProcedure]:
        return []

    def context_items(self) -> Sequence[ContextItem]:
        return self.items

    def tools(self, client: Client) -> Sequence[msgspec.Raw]:
        return [msgspec.Raw(msgspec.json.encode(tool.document)) for tool in self.release.tools()]

    def input_schema(self, tool_name: str) -> Mapping[str, Any] | None:
        tool = self.find(tool_name)
        return tool.document["inputSchema"] if tool else None

    def input_values(self, tool_name: str) -> Mapping[str, Sequence[str]] | None:
        return {}

    def output_faults(self, tool_name: str, content: Any, *, is_modern: bool) -> Mapping[str, str]:
        return {}

    def reports_progress(self, tool_name: str) -> bool:
        return bool(self.partials)

    def run(self, request: ToolCallRequest) -> ToolCallResult:
        if request.is_context:
            return replace(self.release.run(request), call=7)
        result = self.call(request)
        return replace(result, outcome=None) if request.is_followed else result

    def resume(self, call: int, request: ToolCallRequest) -> ToolCallResult:
        self.answers.append(request.arguments)
        return replace(self.answered or ToolCallResult(outcome="ok"), call=8, declared=SKY)

    def read_call(self, call: int) -> ToolCallResult:
        return replace(self.release.result, call=call, declared=SKY)  # type: ignore[type-var]

    def cancel(self, call: int) -> None:
        self.cancelled.append(call)

    def cancel_marked(self, mark: str) -> None:
        self.cancelled.append(mark)

    def give_up(self, call: int) -> None:
        self.cancelled.append(call)

    def follow(self, call: int, room: ExitStack, alive_every: float) -> Events:
        last = FollowedCallEvent(condition="final", result=self.read_call(call))
        return Events([*self.events(), last])

    def current_number(self) -> int | None:
        return None

    def subscribe(self, addresses: Sequence[str], stack: ExitStack) -> Any:
        raise NotImplementedError

    def store(self, topic: str) -> "MCPMemory":
        return self

    def write(self, name: str, text: str | bytes, seconds: int | None, only_if: str | None = None) -> bool:
        if only_if is not None and (name in self.texts) != (only_if == "old"):
            return False
        self.texts[name] = text.decode() if isinstance(text, bytes) else text
        return True

    def extend(self, name: str, seconds: int) -> None:
        pass

    def read(self, *names: str) -> list[str]:
        return [self.texts.get(name, "") for name in names]


class ACPMemory(_Adapter):
    """`protocols.acp.server.release.Release`. Each run ends at once."""

    sub_agent = ""

    def address(self, sub_agent: str = "") -> str:
        return "http://desk.example/acp"

    def __init__(self, release: MemoryRelease) -> None:
        super().__init__(release)
        self.runs_by_id: dict[uuid.UUID, ServedRun] = {}
        self.threads_by_id: dict[uuid.UUID, ServedThread] = {}

    def agents(self) -> Sequence[ServedAgent]:
        agents = []
        for tool in self.release.tools():
            specs, reference = tool.document["specs"], tool.document["metadata"]["ref"]
            inputs, outputs = (specs.get(name, {"type": "object"}) for name in ("input", "output"))
            document = {"name": tool.name, "inputSchema": inputs, "outputSchema": outputs}
            document["description"] = tool.document["metadata"]["description"]
            version = reference["version"]
            agents.append(
                ServedAgent(agent_id=tool.version.tool_id, version=version, document=document, key=tool)
            )
        return agents

    def abilities(self, agent: ServedAgent) -> Abilities:
        specs = agent.key.document["specs"]
        return Abilities(has_threads=bool(self.threads_by_id), interrupts=specs.get("interrupts", ()))

    def start(self, request: RunRequest) -> ServedRun:
        return self._store(self.call(request), uuid.uuid4(), request.agent.agent_id, request.thread)

    def _store(
        self, result: ToolCallResult, run_id: uuid.UUID, agent_id: str, thread: Any = None
    ) -> ServedRun:
        run = ServedRun(
            **vars(result),
            run_id=run_id,
            thread_id=thread,
            agent_id=agent_id,
            created_at=NOW,
            updated_at=NOW,
            question_kind=result.asks[0].id if result.asks else "",
        )
        self.runs_by_id[run_id] = run
        return run

    def find_run(self, mark: str) -> ServedRun | None:
        return None

    def read_run(
        self, run: uuid.UUID, thread: Any = None, *, wait: float = 0, has_room: bool = False
    ) -> ServedRun:
        return self.runs_by_id[run]

    def resume_run(
        self, run: uuid.UUID, thread: Any, call_name: str, answers: Callable[[Sequence[str]], Any]
    ) -> ServedRun:
        before = self.runs_by_id[run]
        self.answers.append(answers([ask.id for ask in before.asks]))
        return self._store(self.answered or ToolCallResult(outcome="ok"), run, before.agent_id)

    def runs(self, thread: uuid.UUID, *, offset: int, limit: int) -> Sequence[ServedRun]:
        return [run for run in self.runs_by_id.values() if run.thread_id == thread][offset : offset + limit]

    def cancel_run(self, run: uuid.UUID, thread: uuid.UUID | None = None) -> None:
        self.cancelled.append(run)

    def remove_run(self, run: uuid.UUID, thread: uuid.UUID | None = None) -> None:
        del self.runs_by_id[run]

    def callback_secret(self, run: uuid.UUID) -> str:
        return "whsec_1"

    def follow_run(self, run: uuid.UUID, thread: Any = None, **options: Any) -> Events:
        return Events([*self.events(), FollowedCallEvent(condition="final", result=self.runs_by_id[run])])

    def has_thread(self, thread: uuid.UUID) -> bool:
        return thread in self.threads_by_id

    def begin_thread(
        self, thread: uuid.UUID | None, metadata: Mapping[str, Any] | None = None
    ) -> ServedThread:
        row = ServedThread(
            thread_id=thread or uuid.uuid4(),
            created_at=NOW,
            used_at=NOW,
            metadata=metadata or {},
            status="idle",
        )
        return self.threads_by_id.setdefault(row.thread_id, row)

    def find_threads(self, **conditions: Any) -> Sequence[ServedThread]:
        return list(self.threads_by_id.values())

    def read_thread(self, thread: uuid.UUID) -> tuple[ServedThread, ThreadState]:
        return self.threads_by_id[thread], ThreadState(status="idle", values={"sky": "fair"})

    def history(self, thread: uuid.UUID, *, limit: int, before: str) -> Sequence[ThreadState]:
        return [ThreadState(status="idle", values={"sky": "fair"}, checkpoint="1")][:limit]

    def remove_thread(self, thread: uuid.UUID) -> None:
        del self.threads_by_id[thread]
