"""The contract between a protocol's client and the rest of the product.

A protocol receives a `Session` (it never opens a connection itself), yields pages of items, converts an item
to a `Signature`, and runs a tool. It imports neither Django nor another protocol. docs/protocols.md explains
how to add one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal
from typing import Protocol as Interface

from core.canonical_json import digest
from core.outbound.errors import RefusedError, printable
from core.outbound.listening import Listening
from core.outbound.open_reply import OpenReply
from core.outbound.reply import Reply
from core.outbound.request import IsEnough, RequestMethods
from core.schema import audience, normalization
from protocols.call_outcome import QUESTIONS, CallError, Outcome
from protocols.list_pages import Item, ItemPage, KnownPages, Note, WantedCredential
from protocols.recognition import Recognition
from protocols.signature import Parameter, Signature


class Session(RequestMethods, Interface):
    """HTTP requests to one endpoint, with its credential, address policy, deadlines and limits.

    `path` is appended to the root of the endpoint. A request returns a reply whose status `accept` lists, and
    raises `UnavailableError`, `RefusedError` or `ProtocolViolationError` otherwise. A failed `get` is
    repeated if the failure is transient, a `post` only if it `is_repeatable`. A body is read to its end, or
    until `is_enough` returns True for the bytes so far: streams may stay open.

    root: the address of the endpoint.
    largest: the limit of a reply in bytes.
    agent: the name of this client, `Name` or `name/version`, for protocols that state it in their messages.
    mark: an id of the call, the same in every process that continues it; "" outside of calls.
    is_followed: the caller reads partial results, which `pass_on` reports.
    is_interrupted: the call or run was cancelled.
    memory: small JSON facts about this endpoint, such as its protocol revision, stored for later sessions.
    """

    root: str
    largest: int
    agent: str
    mark: str
    is_followed: bool
    memory: dict[str, Any]

    @property
    def is_interrupted(self) -> bool: ...

    def pass_on(self, partial: Mapping[str, Any]) -> None:
        """Report a partial result: `outputs` (which replace earlier ones), `progress` or `custom`.

        Raises RefusedError if it contains our own credential.
        """
        ...

    def listen(
        self, path: str, headers: Mapping[str, str], *, json: object = None, seconds: float = 0.0
    ) -> Listening:
        """Begin to read a stream of events, by itself or beside the reply of a `post`.

        json: requests the stream with POST. seconds: it may be silent for so long, 0: as long as a request.
        """
        ...

    def keep_open(
        self,
        reply: Reply,
        facts: Mapping[str, Any],
        on_expiry: Callable[["Session", Mapping[str, Any]], None],
    ) -> str | None:
        """Keep a reply open for a later session in any process. Return its name, or None if it cannot stay
        open.

        facts: JSON that the later session receives. on_expiry: receives a new session and the latest facts if
        no session reads the reply for `OPEN_SECONDS`.
        """
        ...

    def find_open_reply(self, name: str) -> OpenReply | None:
        """Return the open reply of this origin, or None if it is not open any more."""
        ...

    def keep_facts(self, facts: Mapping[str, Any]) -> str | None:
        """Store JSON that no row may contain, such as the id of a vendor's session, for a later session
        with this origin. Return its name, or None if it cannot be stored."""
        ...

    def find_facts(self, name: str) -> Mapping[str, Any] | None:
        """Return the stored facts of this origin, or None if they do not exist any more."""
        ...

    def read_open_reply(self, reply: OpenReply, is_enough: IsEnough) -> Reply:
        """Return the reply from its beginning, once `is_enough` is True or the reply has ended. Raises the
        errors of `get`."""
        ...

    def at_url(self, url: str) -> AbstractContextManager["Session"]:
        """Return a session with another address that the administrator entered, under the same rules.

        The credential is sent only to the origin that it was entered for. Raises RefusedError.
        """
        ...


MAX_USER_LENGTH = 200  # characters of the name of an agent's user


class UpdateStream(Interface):
    """A stream on which a vendor reports updates of resources.

    addresses: of the resources whose updates the vendor reports.
    """

    @property
    def addresses(self) -> Collection[str]: ...

    def take_updates(self) -> list[str]:
        """Return the addresses that were updated since the last time, without waiting."""
        ...


@dataclass(frozen=True, slots=True)
class Needs:
    """The requirements of a tool besides its inputs: scopes by provider that the user has to authorize,
    names of secrets, and whether the vendor needs to know the user."""

    providers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    user: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """The user of a call, with access tokens by provider and secrets by name. Never stored or logged.

    thread: the vendor's id of the thread. webhook: our address to which the vendor may report the end of a
    run.
    questions: the kinds of questions that the caller can answer.
    """

    user: str = field(default="", repr=False)
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    thread: str = field(default="", repr=False)
    webhook: str = field(default="", repr=False)
    questions: Collection[str] = QUESTIONS


MAX_HISTORY = 100  # states of a thread in one reply


@dataclass(frozen=True, slots=True)
class ThreadState:
    """The state of a thread at one moment. status: `idle`, `busy`, `interrupted` or `error`. values,
    messages: None if the vendor reports none. checkpoint: the id of a past moment."""

    status: str = ""
    values: Any = None
    messages: Sequence[Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: str = ""
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of an endpoint of this protocol, shown as a form field.

    kind: `lines` is a list of texts. `document` is a text of up to 10 MB, uploaded or pasted, never shown in
    full. `choice` is one of `choices`, each a value and its label.
    """

    name: str
    label: str
    help: str = ""
    kind: Literal["text", "integer", "boolean", "lines", "document", "choice"] = "text"
    required: bool = False
    default: str | int | bool = ""
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[tuple[str, str], ...] = ()


class Protocol(ABC):
    """One wire protocol. An instance has the settings of its endpoint and the `context` of its call, and
    no other state."""

    name: ClassVar[str]
    label: ClassVar[str]
    summary: ClassVar[str]
    url_hint: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]] = ()
    # Members and headers for the vendor's own people: their text is neither stored nor shown.
    unshown: ClassVar[frozenset[str]] = frozenset()
    # The promises of vendors of this protocol about their tools: see catalog/rules/promises.py.
    promises: ClassVar[frozenset[str]] = frozenset()
    # Members of an item's document that may change inside a version, and are left out of its digest.
    outside_digest: ClassVar[frozenset[str]] = frozenset()
    # content_members: the members of a document that a model sees or a call needs; empty for all. Changes of
    # others create no version. schema_members: those that are a JSON Schema. needed_extensions: the extension
    # keywords in them that calls read.
    content_members: ClassVar[frozenset[str]] = frozenset()
    schema_members: ClassVar[frozenset[str]] = frozenset()
    needed_extensions: ClassVar[frozenset[str]] = frozenset()
    # Vendors may offer prompts and resources besides tools.
    offers_context: ClassVar[bool] = False
    # One reply contains the whole list, so it cannot change while it is read.
    lists_at_once: ClassVar[bool] = False
    # `fetch` requests one tool; otherwise it reads the list of all.
    fetches_alone: ClassVar[bool] = False
    # How an administrator can shorten a list that is too long for one run.
    way_to_less: ClassVar[str] = ""
    # Calls use the `Context`, which other protocols never send.
    takes_context: ClassVar[bool] = False
    # The process that sends a call notifies the vendor when the call is cancelled.
    tells_of_cancel: ClassVar[bool] = False
    # Vendors report the progress of a followed call.
    tells_progress: ClassVar[bool] = False
    # A call can be started without waiting, found again at the vendor, and stopped: `start`, `find`, `look`,
    # `stop`.
    keeps_runs: ClassVar[bool] = False
    # The form of tools that are defined in Pegboard. No server speaks it, so nothing is enumerated or sent.
    is_own: ClassVar[bool] = False
    # How the protocol is detected at an address; None: users choose it by hand.
    recognition: ClassVar[Recognition | None] = None
    # Increase when `read` changes, so that every document is read once more. A document with a new meaning
    # becomes a version of its own (catalog/enumeration/listing.py).
    revision: ClassVar[int] = 1

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self.values = {s.name: s.default for s in self.settings} | dict(settings or {})
        self.context = Context()

    @abstractmethod
    def enumerate(self, session: Session, known_pages: KnownPages) -> Iterator[ItemPage]:
        """Yield all tools in pages, lazily. The caller stops endless lists: `paging.PageGuard`."""

    @classmethod
    def credential_url(cls, url: str, settings: Mapping[str, Any]) -> str:
        """Return the address whose origin a credential of this endpoint belongs to."""
        return url

    @classmethod
    def detected_properties(cls, memory: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
        """Return the properties of an endpoint that sessions have detected, as names and texts for users."""
        return ()

    @classmethod
    def own_path(cls, path: str) -> str:
        """Return the part of a path that distinguishes endpoints of one origin, without its last slash."""
        return path

    @abstractmethod
    def read(self, document: dict[str, Any]) -> Signature:
        """Return the normal form of an item's document. Raises `UnreadableItemError`."""

    @abstractmethod
    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        """Return the vendor's document. `losses` lists the members that differ."""

    def standard_form(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the document in the standard form of the protocol. It may have arrived in a tolerated
        variant."""
        return document

    def content_digest(self, document: dict[str, Any], read_at: datetime | None = None) -> str:
        """Return a digest of the content that a model sees or a call needs.

        Documents with equal digests are one version, regardless of their spelling and other members.
        read_at: the time of reading, to recognise defaults that the vendor takes from its clock. Raises
        `UnreadableItemError`.
        """
        return digest(self.audience_form(self._normal_form(document), read_at))

    def whole_digest(self, document: dict[str, Any]) -> str:
        """Return a digest of all content of an item. Raises `UnreadableItemError`."""
        return digest(self._normal_form(document))

    def _normal_form(self, document: dict[str, Any]) -> dict[str, Any]:
        members = self.standard_form(document).items()
        counted = {name: value for name, value in members if name not in self.outside_digest}
        form: dict[str, Any] = normalization.normalized(counted)
        return form

    def audience_form(self, document: dict[str, Any], read_at: datetime | None) -> Any:
        """Return a form that is equal for documents that do not differ for models and calls."""
        counted = self.content_members or document.keys()
        form = {name: value for name, value in document.items() if name in counted}
        for member in self.schema_members & form.keys():
            form[member] = audience.canonical_schema(
                form[member], read_at, digest, needed=self.needed_extensions
            )
        return form

    def kind_of(self, document: dict[str, Any]) -> str:
        """Return the protocol's name for the kind of this tool, for the counts in a preview."""
        return ""

    def notes(self, document: dict[str, Any], signature: Signature) -> Sequence[Note]:
        """Return deviations of a readable item, such as a description over the protocol's limit."""
        return ()

    def why_not_run(self, signature: Signature) -> Note | None:
        """Return why calls of this tool cannot be sent; None for most tools."""
        unsupported = [f"“{p.name}” ({p.unsupported_type})" for p in signature.inputs if p.unsupported_type]
        if not unsupported:
            return None
        problem = f"An input has a type that Pegboard cannot send: {printable(', '.join(unsupported), 300)}."
        return Note("UNSUPPORTED_TYPE", f"{problem} Ask the vendor for a version without it.")

    def needs(self, signature: Signature) -> Needs:
        """Return the requirements of this tool on the `Context` of a call."""
        return Needs()

    def may_ask_at(self, url: str) -> bool:
        """Return whether the state of an authorization may be requested at this address outside of the
        endpoint's origin, because an administrator allowed it."""
        return False

    def wanted_credential(self, session: Session) -> WantedCredential | None:
        """Return the credential that the vendor declares outside of its list, or None."""
        return None

    def facts(self, signature: Signature) -> Sequence[tuple[str, str]]:
        """Return labels and texts about a tool, besides its parameters, for users."""
        return ()

    @abstractmethod
    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        """Return one tool in its current version, or in the one labelled `label`."""

    @abstractmethod
    def versions(self, session: Session, tool_id: str) -> Iterator[ItemPage]:
        """Yield all versions of a tool in pages; none if the vendor does not offer them."""

    @abstractmethod
    def invoke(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome:
        """Run the version labelled `label` (None: the current one) with arguments by wire name.

        The caller has validated the arguments, and `why_not_run` returned None.
        """

    def start(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome | str:
        """Start a call without waiting. Return the vendor's id of the run, or the outcome if it has already
        ended.

        The run has the `mark` of the session. This and the next three methods need `keeps_runs`.
        """
        raise NotImplementedError

    def find(self, session: Session) -> str | None:
        """Return the id of the run with the `mark` of the session, or None."""
        raise NotImplementedError

    def look(self, session: Session, signature: Signature, run_id: str) -> Outcome | None:
        """Return the outcome of the run, or None while it runs. The vendor removes a run that has ended."""
        raise NotImplementedError

    def stop(self, session: Session, run_id: str) -> None:
        """Stop the run at the vendor."""
        raise NotImplementedError

    def may_tell_partials(self, signature: Signature) -> bool:
        """Return whether a call may report partial results."""
        return False

    def errors(self, signature: Signature) -> Sequence[CallError]:
        """Return the failures that the document of the tool declares, with the vendor's codes."""
        return ()

    def configuration(self, signature: Signature) -> Parameter | None:
        """Return the input with the configuration of a run, or None."""
        return None

    def has_threads(self, signature: Signature) -> bool:
        """Return whether runs of this tool can share a thread at the vendor. The next four methods need
        that."""
        return False

    def create_thread(self, session: Session, thread_id: str, metadata: Mapping[str, Any]) -> str:
        """Create a thread and return the vendor's id of it, which may differ from `thread_id`. Repeating
        the request creates no second thread."""
        raise NotImplementedError

    def thread_state(self, session: Session, signature: Signature, thread_id: str) -> ThreadState:
        raise NotImplementedError

    def thread_history(
        self, session: Session, signature: Signature, thread_id: str, limit: int, before: str = ""
    ) -> list[ThreadState]:
        """Return the states before the checkpoint `before`, the newest first."""
        raise NotImplementedError

    def remove_thread(self, session: Session, thread_id: str) -> None:
        raise NotImplementedError

    def resume(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        state: Mapping[str, Any],
        answers: Mapping[str, Any],
    ) -> Outcome:
        """Resume a call that asked questions. state: its `Outcome.resume`. answers: by `Ask.id`."""
        message = "This vendor's calls cannot be continued. Run the tool again."
        return Outcome("refused", error={"code": "NO_RESUME", "message": message})

    @classmethod
    def may_ask(cls) -> bool:
        """Return whether a call may stop for a question and resume with the answer."""
        return cls.resume is not Protocol.resume

    def subscribe(
        self, session: Session, addresses: Sequence[str], seconds: float
    ) -> AbstractContextManager[UpdateStream]:
        """Subscribe to updates of resources for at most so many seconds.

        Raises ProtocolError, also while the context is entered.
        """
        raise RefusedError("NO_SUBSCRIPTIONS", "Vendors of this protocol report no updates of resources.")

    def give_up(  # noqa: B027 - most vendors end the call with its question
        self, session: Session, state: Mapping[str, Any]
    ) -> None:
        """Notify a vendor that waits for an answer that the call does not resume. state: as in `resume`."""
