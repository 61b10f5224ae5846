"""The contract between the server of ACP and the program that serves releases."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from typing import Protocol as Interface
from uuid import UUID

from protocols.acp import wire
from protocols.base import ThreadState
from protocols.server import CallEvents, ToolCallRequest, ToolCallResult


@dataclass(frozen=True, kw_only=True)
class ServedAgent:
    """A tool of a release in one version. document: the tool in the export for MCP. key: a value of the
    release."""

    agent_id: str
    version: str
    document: Mapping[str, Any]
    key: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """The abilities of an agent now. interrupts: the kinds of questions that it may ask, in the protocol's
    form.

    thread_state: the schema of the state of its threads. config: the schema of a configuration, which is then
    not in `input_schema`. None where there is none.
    """

    has_threads: bool
    interrupts: Sequence[Mapping[str, Any]] = ()
    thread_state: Mapping[str, Any] | None = None
    input_schema: Mapping[str, Any] | None = None
    config: Any = None


@dataclass(frozen=True, kw_only=True)
class RunRequest(ToolCallRequest):
    """A request to run an agent.

    webhook: the address that the end of the run is posted to. creates_thread: if there is none with its
    id. configuration: for this run only.
    """

    agent: ServedAgent
    mode: Literal["wait", "async", "stream"] = "wait"
    webhook: str = ""
    thread: UUID | None = None
    creates_thread: bool = False
    configuration: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class ServedRun(ToolCallResult):
    """A run as its client sees it: a call, and the calls that continued it with answers.

    agent_id: "" if the release no longer has such a tool.
    question_kind: the interrupt type of its question, "" for tools whose vendors declare none.
    """

    run_id: UUID
    thread_id: UUID | None = None
    agent_id: str = ""
    created_at: datetime
    updated_at: datetime
    mark: str = ""
    question_kind: str = ""

    @property
    def status(self) -> str:
        return wire.run_status(
            is_success=self.is_success, can_resume=self.can_resume, questions=len(self.asks)
        )


@dataclass(frozen=True, kw_only=True)
class ServedThread:
    thread_id: UUID
    created_at: datetime
    used_at: datetime
    metadata: Mapping[str, Any]
    status: str


class AcpRelease(Interface):
    """The agents of a release for one client, with its threads and runs.

    All methods with the id of a thread or a run raise an error for one that is not the client's. Runs are
    looked up on `thread` if that is given.
    sub_agent: the slug of the served sub-agent, "" for the published agent.
    """

    @property
    def sub_agent(self) -> str: ...

    def address(self, sub_agent: str = "") -> str: ...
    def agents(self) -> Sequence[ServedAgent]: ...
    def abilities(self, agent: ServedAgent) -> Abilities: ...
    def report_unknown_tool(self, name: str) -> None: ...

    def start(self, request: RunRequest) -> ServedRun:
        """Start a run. Raises DomainError if nothing was sent, so that there is no run."""
        ...

    def find_run(self, mark: str) -> ServedRun | None:
        """Return the run that was begun with this mark."""
        ...

    def read_run(
        self, run: UUID, thread: UUID | None = None, *, wait: float = 0.0, has_room: bool = False
    ) -> ServedRun:
        """Return a run at its end or after `wait` seconds. has_room: `reserve_room` is open."""
        ...

    def resume_run(
        self,
        run: UUID,
        thread: UUID | None,
        call_name: str,
        answers: Callable[[Sequence[str]], dict[str, Any]],
    ) -> ServedRun:
        """Continue a run. `answers` returns the answers to questions with these ids."""
        ...

    def runs(self, thread: UUID, *, offset: int, limit: int) -> Sequence[ServedRun]: ...
    def cancel_run(self, run: UUID, thread: UUID | None = None) -> None: ...
    def remove_run(self, run: UUID, thread: UUID | None = None) -> None: ...
    def callback_secret(self, run: UUID) -> str: ...

    def follow_run(
        self,
        run: UUID,
        thread: UUID | None = None,
        *,
        after: str = "",
        room: ExitStack | None = None,
        alive_every: float | None = None,
    ) -> CallEvents:
        """Return the events of a run, after the one with the id `after`. The results are `Run`s."""
        ...

    def reserve_room(self) -> ExitStack: ...

    def has_thread(self, thread: UUID) -> bool: ...
    def begin_thread(
        self, thread: UUID | None, metadata: Mapping[str, Any] | None = None
    ) -> ServedThread: ...
    def find_threads(
        self, *, metadata: Mapping[str, Any] | None, status: str | None, offset: int, limit: int
    ) -> Sequence[ServedThread]: ...
    def read_thread(self, thread: UUID) -> tuple[ServedThread, ThreadState]:
        """Return the thread with its state, as its vendor reports it now."""
        ...

    def history(self, thread: UUID, *, limit: int, before: str) -> Sequence[ThreadState]: ...
    def remove_thread(self, thread: UUID) -> None: ...
