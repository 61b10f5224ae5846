"""The contract between the server of a protocol and the program that serves releases in it.

A server turns HTTP requests into calls of a release, and results into the messages of its protocol. It knows
no Django and no database. Its caller decides beforehand whose request it is, how many are allowed and which
release is meant, so no server can forget it. How to add one: docs/protocols.md."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar
from typing import Protocol as Interface

import msgspec

from core import strict_json
from core.errors import DomainError
from core.outbound.errors import ProtocolViolationError
from protocols.base import MAX_USER_LENGTH, Ask

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
USER_HEADER = "Pegboard-On-Behalf-Of"
CONFIRM_HEADER = "Pegboard-Confirm"


@dataclass(frozen=True, kw_only=True)
class Request:
    """One HTTP request to a server.

    path: what follows the root of the server, without the slash between; "" is the root itself.
    query: all values of each parameter.
    headers: found by their name in any case.
    body: bounded by the caller.
    has_left: returns True once the client has closed its connection.
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
        """Return the user of the agent for whom a tool runs, "" for none: `name` from the body, or else the
        header Pegboard-On-Behalf-Of. Raises DomainError for a value that is no name."""
        name = self.headers.get(USER_HEADER) if name is None else name
        if name is None or name == "":
            return ""
        if not isinstance(name, str) or len(name) > MAX_USER_LENGTH or "\0" in name:
            message = f"A user is named by a text of at most {MAX_USER_LENGTH} characters."
            raise DomainError("invalid_user", message)
        return name

    def json(self) -> Any:
        """Return the body. Raises DomainError if it is no JSON, or holds a value that cannot be stored."""
        return self._document

    @cached_property
    def _document(self) -> Any:
        try:
            document = strict_json.loads(self.body, allow_unstorable=True)
        except ProtocolViolationError as error:
            # The sentences are written about a vendor's reply; here it is the caller's body.
            raise DomainError("invalid_json", error.message.replace("The reply", "The body")) from error
        if problem := strict_json.unstorable(document):
            raise DomainError("invalid_json", f"The body holds {problem[1]}.")
        return document

    @property
    def is_confirmed(self) -> bool:
        """Whether a user has agreed to the effects of the tool, for protocols without a member for it."""
        return self.headers.get(CONFIRM_HEADER, "").strip().lower() in ("true", "1", "yes")

    @property
    def call_name(self) -> str:
        """The id that the client has chosen for its call, for protocols without a member for it; "" for
        none."""
        return self.headers.get("Idempotency-Key", "").strip()


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The HTTP reply to a request. `body` is bytes, or the parts of a stream, which are sent as they come.

    A reply with an `ETag` becomes 304 where the client has it already; the caller decides that.
    """

    status: int = 200
    body: bytes | Iterable[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = JSON


def json_reply(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status=status, body=msgspec.json.encode(document), headers=headers or {})


@dataclass(frozen=True)
class Refusal:
    """The reason why a request gets an error, before any protocol gives it its form.

    code: for programs.
    message: for users.
    status: of HTTP.
    fields: a sentence for each wrong member, by its name.
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


@dataclass(frozen=True)
class ToolVersion:
    """One version of a tool, as the clients of a protocol name it. `key` is the caller's own; servers pass
    it back."""

    tool_id: str
    label: str
    key: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class ServedTool:
    """A tool of a release in one version. `name` is what a model calls it, `document` what the protocol
    lists."""

    version: ToolVersion
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
    """

    tool_name: str
    arguments: Mapping[str, Any]
    is_confirmed: bool = False
    call_name: str = ""
    user: str = ""


class Retry(msgspec.Struct, frozen=True):
    """Whether the same call may be sent again, after how many milliseconds, and a hint for the model to read
    before.

    `is_transient`: the failure is expected to pass by itself.
    """

    can_retry: bool
    after_ms: int | None
    is_transient: bool
    hint: str


@dataclass(frozen=True, kw_only=True)
class ToolCallResult:
    """The result of a call, whatever it is, with the names that the client knows.

    outcome: one of `OutcomeKind`, or `transfer`; None while the call is still running.
    code, message: the reason for every result that is no success.
    fields: a sentence for each refused argument, by its name.
    outputs: may also come with a tool error.
    is_too_long: the tool has run, and its outputs are too long to be passed on.
    asks: questions to the user that the call waits for.
    output_schema: of the output that the model itself has to write.
    transfer: `agent` and `address` of the sub-agent that takes over.
    protocol: of the vendor that offers the tool.
    declares_outputs: the document of the tool lists them.
    notes: on arguments that the tool does not describe, with `code`, `message`, `input` and `proposal`.
    """

    outcome: str | None
    code: str = ""
    message: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    is_too_long: bool = False
    asks: Sequence[Ask] = ()
    retry: Retry | None = None
    output_schema: Mapping[str, Any] | None = None
    transfer: Mapping[str, str] | None = None
    protocol: str = ""
    declares_outputs: bool = True
    notes: Sequence[Mapping[str, str]] = ()
    duration_ms: int = 0

    @property
    def is_success(self) -> bool:
        return self.outcome == "ok" and not self.is_too_long


class Release(Interface):
    """The tools of one release, for one client, in the documents of one protocol."""

    @property
    def list_id(self) -> str:
        """A text that is the same for the same list of tools, and for no other."""
        ...

    def tools(self) -> Sequence[ServedTool]:
        """Return all tools that the protocol can express, each in the version of this release."""
        ...

    def versions(self, tool_id: str, label: str = "") -> Sequence[ToolVersion]:
        """Return the versions of a tool up to this release, the newest first; only those with the label, if
        there is one. Empty for an unknown tool."""
        ...

    def find_version(self, version: ToolVersion) -> "tuple[Release, ServedTool] | None":
        """Return the tool in this version, and the release that runs it, which may be an older one. None if
        all releases with this version are retired."""
        ...

    def run(self, request: ToolCallRequest) -> ToolCallResult:
        """Run a tool and wait for its end. Raises DomainError where no call was made."""
        ...

    def report_unknown_tool(self, name: str) -> None:
        """Record that the client asked for a tool that is not there, or not for its API key."""
        ...


@dataclass(frozen=True)
class Snippet:
    """A text that a user copies to connect a client. `where` is the file or the program that it belongs
    in."""

    client: str
    where: str
    text: str


R = TypeVar("R")


class Server(ABC, Generic[R]):
    """The server of one protocol, for releases of the type `R`.

    name: as in addresses. label: as on pages.
    key_header: the protocol's own header for an API key, beside `Authorization`; "" if it has none.
    """

    name: str
    label: str
    key_header: str = ""

    def answer_anyone(self, request: Request, is_ready: Callable[[], bool]) -> Reply | None:
        """Return the reply to a request that needs no API key, such as one about the health of the server.
        It depends on no release. None for all other requests."""
        return None

    def snippets(self, address: str, agent: str) -> Sequence[Snippet]:
        """Return one snippet for each client, with the API key in PEGBOARD_TOKEN or a place to enter it."""
        line = f'curl -H "Authorization: Bearer $PEGBOARD_TOKEN" {address}'
        return [Snippet("Any program", "a shell", line)]

    def asks_for(self, request: Request) -> str:
        """Return the subject of a request, such as the name of a tool, if one address serves many. The next
        request with the same subject is expected to send the same queries to the database
        (core/read_ahead.py)."""
        return ""

    @abstractmethod
    def answer(self, request: Request, release: R) -> Reply:
        """Raises DomainError, whose form in the protocol is that of `refusal`."""

    @abstractmethod
    def refusal(self, refusal: Refusal, body: bytes) -> Reply:
        """Return an error in the form of the protocol. `body` is that of the request, b"" if it was not
        read."""

    def refuse_method(self, request: Request, allowed: Literal["GET", "POST"]) -> Reply | None:
        """Return the reply to a request with another method; None for an allowed one."""
        if request.method == allowed or (request.method, allowed) == ("HEAD", "GET"):
            return None
        refusal = Refusal(405, "method_not_allowed", f"This address takes {allowed}.")
        reply = self.refusal(refusal, b"")
        return replace(reply, headers={**reply.headers, "Allow": allowed})
