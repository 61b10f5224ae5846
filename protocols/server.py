"""The contract between the server of a protocol and the program that serves releases.

A server converts HTTP requests to calls of a release, and results to messages of its protocol. It imports
neither Django nor the database. Its caller has already checked the API key and the rate limit and found the
release, so no server can forget that. docs/protocols.md explains how to add one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar
from typing import Protocol as Interface

import msgspec

from core import strict_json
from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError, printable
from protocols.base import MAX_USER_LENGTH
from protocols.call_outcome import QUESTIONS, Ask

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
STREAM_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
CONFIRM_NEEDED = "confirm_needed"  # code of the error of a call that a user must confirm first
USER_HEADER = "Pegboard-On-Behalf-Of"
CONFIRM_HEADER = "Pegboard-Confirm"


@dataclass(frozen=True, kw_only=True)
class ServerRequest:
    """One HTTP request to a server.

    path: the path below the root of the server, without the leading slash; "" is the root itself.
    query: all values of each parameter.
    headers: by name, in any case.
    body: the caller limits its size.
    has_left: returns True after the client has closed its connection.
    """

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    has_left: Callable[[], bool] = lambda: False

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The last value of each query parameter."""
        return {name: values[-1] for name, values in self.query.items()}

    def user(self, name: object = None) -> str:
        """Return the user of the agent for whom a tool runs, "" for none: `name` from the body, otherwise
        from the header Pegboard-On-Behalf-Of. Raises DomainError for an invalid name."""
        name = self.headers.get(USER_HEADER) if name is None else name
        if name is None or name == "":
            return ""
        if not isinstance(name, str) or len(name) > MAX_USER_LENGTH or "\0" in name:
            message = f"The name of a user must be a text of at most {MAX_USER_LENGTH} characters."
            raise DomainError("invalid_user", message)
        return name

    @cached_property
    def document(self) -> Any:
        """The parsed body. Raises DomainError if it is not JSON or contains a value that cannot be stored."""
        try:
            document = strict_json.loads(self.body, allow_unstorable=True)
        except ProtocolViolationError as error:
            # The messages are about a vendor's reply; here it is the body of the caller.
            raise DomainError("invalid_json", error.message.replace("The reply", "The body")) from error
        if problem := strict_json.unstorable(document):
            raise DomainError("invalid_json", f"The body contains {problem[1]}.")
        return document

    @property
    def is_confirmed(self) -> bool:
        """True if a user has agreed to the effects of the tool, for protocols without a member for it."""
        return self.headers.get(CONFIRM_HEADER, "").strip().lower() in ("true", "1", "yes")

    @property
    def call_name(self) -> str:
        """The id that the client chose for its call, for protocols without a member for it; "" for none."""
        return self.headers.get("Idempotency-Key", "").strip()


@dataclass(frozen=True, kw_only=True)
class ServerReply:
    """The HTTP reply to a request. body: bytes, or the parts of a stream, which are sent as they arrive.

    The caller replaces a reply with an `ETag` by a 304 if the client has it.
    """

    status: int = 200
    body: bytes | Iterable[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = JSON


def json_reply(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> ServerReply:
    return ServerReply(status=status, body=msgspec.json.encode(document), headers=headers or {})


@dataclass(frozen=True)
class Refusal:
    """An error, independent of the protocol.

    status: the HTTP status. code: for programs. message: for users. fields: a sentence for each invalid
    member.
    """

    status: int
    code: str
    message: str
    fields: Mapping[str, str] = field(default_factory=dict)


NOT_FOUND = Refusal(404, "not_found", "There is nothing at this address.")


class NoSuchAddressError(DomainError):
    """The server has nothing at the path of the request."""

    def __init__(self) -> None:
        super().__init__(NOT_FOUND.code, NOT_FOUND.message, status=NOT_FOUND.status)


class UnknownToolError(DomainError):
    """The release has no tool with this name at this address."""

    def __init__(self, name: str) -> None:
        message = f"There is no tool “{printable(name, 100)}” here. List the tools of the release."
        super().__init__(NOT_FOUND.code, message, status=NOT_FOUND.status)


class ThrottledError(DomainError):
    def __init__(self, seconds: int) -> None:
        message = f"Too many calls in this minute. Continue in {seconds} seconds."
        super().__init__("throttled", message, status=429)
        self.retry_after = seconds


@dataclass(frozen=True)
class ServedVersion:
    """One version of a tool, as the clients of a protocol name it. key: a value of the caller that servers
    pass back."""

    tool_id: str
    label: str
    key: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class ServedTool:
    """A tool of a release in one version. name: the name for models. document: the tool in the protocol's
    form."""

    version: ServedVersion
    name: str
    document: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ToolCallRequest:
    """A request to run one tool of a release.

    tool_name: the name that the model sees.
    arguments: values by input name, as the document of the tool names its inputs.
    is_confirmed: a user has agreed to the effects of the tool.
    call_name: the id that the client has chosen for the call, "" for none. The same id runs once.
    user: the user of the agent for whom the tool runs, "" for none.
    mark: text by which the client finds or cancels the call later.
    has_left: returns whether the waiting client has hung up, in protocols in which that cancels the call.
    questions: the kinds of questions that the client can be asked.
    is_followed: the client reads the events of the call, so that a thread of this process runs it.
    wants_progress: it requests the progress of the call, which restarts the deadline.
    is_context: the name is that of a prompt or a resource and not of a tool.
    """

    tool_name: str
    arguments: Mapping[str, Any]
    is_confirmed: bool = False
    call_name: str = ""
    user: str = ""
    mark: str = ""
    has_left: Callable[[], bool] | None = None
    questions: Collection[str] = QUESTIONS
    is_followed: bool = False
    wants_progress: bool = False
    is_context: bool = False


class RetryAdvice(msgspec.Struct, frozen=True):
    """Advice about a retry: whether the same call may be sent again, after how many milliseconds, and a
    hint for the model. is_transient: the failure is expected to pass by itself."""

    can_retry: bool
    after_ms: int | None
    is_transient: bool
    hint: str


@dataclass(frozen=True, kw_only=True)
class DeclaredOutputs:
    """The outputs that the document of a tool lists.

    names: of all outputs. listed_names: those that the format has as members of an object.
    simple_names: of those that are not JSON.
    whole: the output that contains all others. wrapper: the member that contains it, or all of them, where
    the format requires an object. "" for none.
    describes_object: the document describes an object beside its outputs.
    """

    names: Sequence[str] = ()
    listed_names: Collection[str] = ()
    simple_names: Collection[str] = ()
    whole: str = ""
    wrapper: str = ""
    describes_object: bool = False


@dataclass(frozen=True, kw_only=True)
class ToolCallResult:
    """The result of a call, with the names that the client uses.

    outcome: one of `OutcomeKind`, or `transfer`; None while the call is still running.
    code, message: the reason of every result that is not a success.
    fields: a sentence for each invalid argument, by name.
    outputs: also possible with a tool error.
    is_too_long: the tool ran, but its outputs are too long to return. beginning: of such outputs.
    whole_output: the name of an output whose structured value is not an object and has no schema.
    asks: questions to the user that the call waits for. can_resume: answers to them continue the call.
    unanswerable_kinds: of questions that the vendor could not ask, separated by spaces.
    output_schema: the schema of the output that the model itself has to write.
    transfer: `agent` and `address` of the sub-agent that takes over.
    protocol: the protocol of the vendor.
    declared: the outputs of the tool that ran, whose name is `tool_name`.
    notes: on arguments that the tool does not describe, with `code`, `message`, `input` and `proposal`.
    all_notes: these, and those on the vendor's reply.
    call: the id of the call, None if nothing was sent.
    """

    outcome: str | None
    code: str = ""
    message: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    is_too_long: bool = False
    beginning: str = ""
    whole_output: str = ""
    asks: Sequence[Ask] = ()
    can_resume: bool = False
    unanswerable_kinds: str = ""
    retry: RetryAdvice | None = None
    output_schema: Mapping[str, Any] | None = None
    transfer: Mapping[str, str] | None = None
    protocol: str = ""
    tool_name: str = ""
    declared: DeclaredOutputs = DeclaredOutputs()
    notes: Sequence[Mapping[str, str]] = ()
    all_notes: Sequence[Mapping[str, str]] = ()
    duration_ms: int = 0
    call: int | None = None

    @property
    def is_success(self) -> bool:
        return self.outcome == "ok" and not self.is_too_long


EventCondition = Literal["started", "partial", "interrupted", "final", "error", "alive"]


@dataclass(frozen=True, kw_only=True)
class FollowedCallEvent:
    """An event of a call that its client follows.

    partial: `outputs`, which replace earlier ones, `progress` or `custom`. result: at the end.
    """

    condition: EventCondition
    id: str = ""
    partial: Mapping[str, Any] | None = None
    result: ToolCallResult | None = None


class CallEvents(Interface):
    """The events of one call. Until it is closed it occupies its room among the threads."""

    def __iter__(self) -> Generator[FollowedCallEvent]: ...
    def close(self) -> None: ...


class ServerRelease(Interface):
    """The tools of one release, for one client, in the documents of one protocol."""

    @property
    def list_id(self) -> str:
        """A text that identifies this list of tools."""
        ...

    def tools(self) -> Sequence[ServedTool]:
        """Return all tools that the protocol can express, each in the version of this release."""
        ...

    def versions(self, tool_id: str, label: str = "") -> Sequence[ServedVersion]:
        """Return the versions of a tool up to this release, the newest first, filtered by label. Empty for an
        unknown tool."""
        ...

    def find_version(self, version: ServedVersion) -> "tuple[ServerRelease, ServedTool] | None":
        """Return the tool in this version, and the release that runs it, which may be an older one. None if
        all releases with this version are retired."""
        ...

    def run(self, request: ToolCallRequest) -> ToolCallResult:
        """Run a tool and wait for its end. Raises DomainError if no call was sent."""
        ...

    def report_unknown_tool(self, name: str) -> None:
        """Record a request for a tool that does not exist or is not available to this API key."""
        ...


@dataclass(frozen=True)
class Snippet:
    """A text that a user copies to connect a client. where: the file or program for the text."""

    client: str
    where: str
    text: str


R = TypeVar("R")


class Server(ABC, Generic[R]):
    """The server of one protocol, for releases of the type `R`.

    name: in addresses. label: on pages.
    key_header: the protocol's own header for an API key, beside `Authorization`; "" if it has none.
    """

    name: str
    label: str
    key_header: str = ""

    def answer_anyone(self, request: ServerRequest, is_ready: Callable[[], bool]) -> ServerReply | None:
        """Return the reply to a request that needs no API key and no release, such as a health check. None
        for other requests."""
        return None

    def snippets(self, address: str, agent: str) -> Sequence[Snippet]:
        """Return one snippet for each client, with the API key in PEGBOARD_TOKEN or a place to enter it."""
        line = f'curl -H "Authorization: Bearer $PEGBOARD_TOKEN" {address}'
        return [Snippet("Any program", "in a terminal", line)]

    @abstractmethod
    def answer(self, request: ServerRequest, release: R) -> ServerReply:
        """Reply to a request. Raises DomainError, which `refusal` converts to the form of the protocol."""

    @abstractmethod
    def refusal(self, refusal: Refusal, body: bytes) -> ServerReply:
        """Return an error in the form of the protocol. body: the body of the request, b"" if it was not
        read."""

    def refuse_method(
        self, request: ServerRequest, allowed_method: Literal["GET", "POST"]
    ) -> ServerReply | None:
        """Return the reply to a request with another method; None for an allowed one."""
        if request.method == allowed_method or (request.method, allowed_method) == ("HEAD", "GET"):
            return None
        refusal = Refusal(405, "method_not_allowed", f"This address accepts {allowed_method}.")
        reply = self.refusal(refusal, b"")
        return replace(reply, headers={**reply.headers, "Allow": allowed_method})
