"""What a protocol is: the contract between one file in this folder and the rest of the catalog.

A protocol gets a `Session` to speak with (it never opens a connection itself), yields pages of
items, turns an item into a `Signature`, and runs a tool. It knows no Django, no database and no
other protocol. How to add one: docs/protocols.md.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Literal, NamedTuple
from typing import Protocol as Interface

import msgspec

from core.canonical_json import digest
from core.outbound.errors import printable
from core.outbound.listening import Listening
from core.outbound.open_reply import OpenReply
from core.outbound.reply import Reply
from core.outbound.request import IsEnough, RequestMethods
from core.schema import audience, normalization
from protocols.signature import ContextKind, Parameter, Signature

OutcomeKind = Literal[
    "ok",
    "tool_error",
    "invalid_arguments",
    "needs_authorization",
    "needs_input",
    "unavailable",
    "refused",
    "cancelled",
    "latent",
    "unknown",
]


class Session(RequestMethods, Interface):
    """Speaks to one endpoint, with its credential, its address rule, its deadlines and caps.

    `path` is appended to the endpoint's root. Every call returns the reply of any status that
    `accept` lists and raises `UnavailableError`, `RefusedError` or `ProtocolViolationError` for
    everything else. `get` is tried again on a passing failure, `post` only when it `is_repeatable`.
    A body is read to its end, or until what has come `is_enough`: streams may stay open.

    `mark` is of the call that is made, and the same whichever process makes it; "" outside of calls.

    `is_followed`: someone wants to hear of what comes before the result, by `pass_on`. `is_interrupted`: what
    it is used for was ended from outside.

    `memory` holds small facts that were found out about this endpoint, such as which revision it
    speaks. Whatever JSON a protocol puts there it finds again in later sessions. `agent` is the name under
    which Pegboard introduces itself, for protocols that also do so in their own messages: `Name` or
    `name/version`. `largest` is how many bytes one reply may hold.
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
        """What a call has come to so far: `outputs`, which replace those before, `progress` or `custom`.

        Raises RefusedError where it holds our own credential.
        """
        ...

    def listen(self, path: str, headers: Mapping[str, str]) -> Listening:
        """Begins to read a stream of events, to be read beside the reply of a `post`."""
        ...

    def keep_open(
        self,
        reply: Reply,
        facts: Mapping[str, Any],
        on_expiry: Callable[["Session", Mapping[str, Any]], None],
    ) -> str | None:
        """Keeps a reply open for a session that goes on with it, in whichever process, which finds it
        under the name that is given back. None where it cannot stay open.

        `facts` are JSON and come back with it. `on_expiry` has a session of its own, is told the facts as
        they are by then, and runs when no one has wanted the reply for `OPEN_SECONDS`.
        """
        ...

    def find_open_reply(self, name: str) -> OpenReply | None:
        """None: it is not open any more, or of another origin."""
        ...

    def keep_facts(self, facts: Mapping[str, Any]) -> str | None:
        """Keeps what no row may hold, such as a vendor's session, for a later session with this origin, which
        finds it under the name that is given back. None where it cannot be kept. `facts` are JSON."""
        ...

    def find_facts(self, name: str) -> Mapping[str, Any] | None:
        """None: they are not there any more, or of another origin."""
        ...

    def read_open_reply(self, reply: OpenReply, is_enough: IsEnough) -> Reply:
        """All that has come of it, from its beginning, once that is enough or nothing follows. Raises as
        `get` does."""
        ...

    def at(self, url: str) -> AbstractContextManager["Session"]:
        """Speaks to another address that the administrator entered, under the same rules.

        The credential goes along only to the origin that it was entered for. Raises RefusedError.
        """
        ...


@dataclass(frozen=True, slots=True)
class Note:
    """Something odd that did no harm; shown on the run page.

    A note on an input has its path in `input`, and in `proposal` the name that was probably meant.
    """

    code: str
    message: str
    input: str = ""
    proposal: str = ""


class WantedCredential(msgspec.Struct, frozen=True):
    """What a vendor says that calls need. `kind` is one of ours that is entered by hand, "" where there is
    none for it, and `name` that of the header or of the query parameter."""

    words: str
    kind: Literal["", "bearer", "basic", "header", "query"] = ""
    name: str = ""


class Item(msgspec.Struct, frozen=True):
    """One listed tool, identified and fingerprinted but not yet decoded.

    `label` is the vendor's own version text ("" when the protocol has none), `label_key` orders
    labels within a tool, `digest` is SHA-256 (hex) over the canonical document: another one may be
    another spelling, which `Protocol.content_digest` tells. `document` is None
    when the page is known from an earlier run: then there is nothing new to decode.
    """

    tool_id: str
    label: str
    label_key: tuple[int, ...]
    digest: str
    document: dict[str, Any] | None = None
    notes: tuple[Note, ...] = ()


MAX_USER_LENGTH = 200  # characters of the name of an agent's user
UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def identity(tool_id: str) -> str:
    """What makes an id the same one: UUIDs that differ in case alone do not differ."""
    # The vendor's spelling is kept beside it, because it goes into URLs and a server may be strict.
    return tool_id.lower() if UUID.fullmatch(tool_id) else tool_id


@dataclass(frozen=True, slots=True)
class Rejected:
    """An item that could not be read. `tool` is the vendor's id, or `#n` for the n-th item of its page."""

    tool: str
    code: str
    reason: str


class Ending(StrEnum):
    """Why a page is the last one. Only the protocol's own sign proves that nothing follows."""

    SIGN = "sign"
    REPEATED = "repeated"  # the vendor sent what it had sent before
    REFUSED = "refused"  # the vendor refused a cursor of its own


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; `next` is None on the last one, and `ending` tells why it is the last.

    `is_known` says that the last complete run read these very bytes, so every item is unchanged.
    `older` are versions behind the items, where a list shows them too; `versions` gives them again.
    `unread_kinds` are kinds of items whose list could not be read: known items of these kinds stay.
    """

    items: Sequence[Item]
    rejected: Sequence[Rejected] = ()
    next: str | None = None
    notes: Sequence[Note] = ()
    cursor: str = ""
    etag: str = ""
    body_digest: str = ""
    is_known: bool = False
    older: Sequence[Item] = ()
    ending: Ending = Ending.SIGN
    unread_kinds: Collection[ContextKind] = ()


class KnownPages(Interface):
    """Pages as the last complete run read them, so that an unchanged page need not be parsed again."""

    count: int

    def etag(self, cursor: str) -> str: ...

    def recall(self, cursor: str, reply: Reply) -> Page | None:
        """The page of an earlier run when `reply` is a 304 or byte for byte the same, else None."""
        ...


class NothingKnown:
    """For the first run, and wherever remembering does not pay."""

    count = 0

    def etag(self, cursor: str) -> str:
        return ""

    def recall(self, cursor: str, reply: Reply) -> Page | None:
        return None


@dataclass(frozen=True, slots=True)
class Ask:
    """What a call still needs from a person: an answer that fits `schema`, or a visit to `url`.

    A visit that authorizes something at a `provider` may be asked about at `check_url`. A `request` is for
    the program that calls, and not for its user: `method` and `params` as the protocol has them.
    """

    id: str
    message: str
    schema: Mapping[str, Any] | None = None
    url: str = ""
    provider: str = ""
    check_url: str = ""
    request: Mapping[str, Any] | None = None


# Kinds of questions that a tool may ask: a form to fill in, and an address to visit.
QUESTIONS = ("form", "url")
# Stands in place of an answer where the user closed the question and decided nothing; None declines it.
CLOSED: Mapping[str, Any] = {"pegboard/action": "cancel"}


def is_withheld(answer: object) -> bool:
    """Whether the user gave no answer: the question was declined or closed."""
    return answer is None or answer == CLOSED


class CallError(NamedTuple):
    """A way in which a call may fail. `is_transient`: it is expected to pass by itself; None where nothing is
    known of that. `details_schema` is of what comes beside the sentence; None where nothing is said of it."""

    code: str
    description: str
    is_transient: bool | None = False
    details_schema: Any = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one call. `outputs` maps output names to values; unknown ones are kept.

    `parsed` adds, for values that are JSON in a text, what the text says. `error` is {"code",
    "message"} and, for arguments, {"fields": {name: why}}; where the vendor has a code of its own, {"vendor":
    {"code", "description"}}. `notes` lists what was odd and tolerated.
    `whole_output` names the output that holds a structured value which is no object, where no schema declares
    one.
    `asks` says what is missing to go on, `resume` is what `Protocol.resume` wants back (JSON, as it came).

    `can_retry` says whether the same call may be sent again: the vendor's own word, or True where it is known
    that the tool did not run; None where neither is known. `retry_after` is in seconds, and `hint` is what
    the vendor wants a model to read before it tries again. `vendor_duration_ms` is how long the tool ran, as
    the vendor states it.
    """

    outcome: OutcomeKind
    outputs: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    retry_after: float | None = None
    can_retry: bool | None = None
    hint: str = ""
    notes: Sequence[Note] = ()
    parsed: Mapping[str, Any] = field(default_factory=dict)
    whole_output: str = ""
    asks: Sequence[Ask] = ()
    resume: Mapping[str, Any] | None = None
    vendor_duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """What a call of a tool needs beside its inputs: scopes by the provider where its user has to authorize
    them, secrets by name, and to know its user."""

    providers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    user: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """For whom a call is made, and with which access tokens (by provider) and secrets (by name).

    `thread` is the vendor's id of the thread that it is made on, and `webhook` an address of ours where the
    vendor may say that a run has ended. `questions` are the kinds that can be asked back. It does not show
    itself, and nothing that is kept of a call may hold it.
    """

    user: str = field(default="", repr=False)
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    thread: str = field(default="", repr=False)
    webhook: str = field(default="", repr=False)
    questions: Collection[str] = QUESTIONS


@dataclass(frozen=True, slots=True)
class ThreadState:
    """What a thread holds at one moment. `values` and `messages` are None where the vendor tells none,
    `status` is one of `idle`, `busy`, `interrupted` and `error`, and `checkpoint` names a past moment."""

    status: str = ""
    values: Any = None
    messages: Sequence[Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: str = ""
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that an administrator may enter for an endpoint of this protocol, drawn as a form field.

    `lines` is a list of texts. `document` is a text of up to 10 MB, uploaded or pasted, never shown whole.
    `choice` is one of `choices`, each a value and its label.
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
    """One wire protocol. Instances hold no state beyond the settings of their endpoint, and the `context` of
    the call that they make."""

    name: ClassVar[str]
    label: ClassVar[str]
    summary: ClassVar[str]
    url_hint: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]] = ()
    # Members and headers that are no one's to read here, such as what is meant for the vendor's own people:
    # nothing that is kept shows their text.
    unshown: ClassVar[frozenset[str]] = frozenset()
    # What vendors of this protocol promise about their tools; catalog/rules/promises.py says which there are.
    promises: ClassVar[frozenset[str]] = frozenset()
    # Members of an item's document that may change inside a version, and are left out of its digest.
    outside_digest: ClassVar[frozenset[str]] = frozenset()
    # The members of an item's document that a model sees or a call needs: changes of the others make no
    # version. Where none are named, all count. Those of them that are a JSON Schema, and the extension
    # members in these that calls read.
    content_members: ClassVar[frozenset[str]] = frozenset()
    schema_members: ClassVar[frozenset[str]] = frozenset()
    needed_extensions: ClassVar[frozenset[str]] = frozenset()
    # Vendors may offer prompts and resources beside tools.
    offers_context: ClassVar[bool] = False
    # Whether one reply holds the whole list, so that it cannot change while it is read.
    lists_at_once: ClassVar[bool] = False
    # Whether `fetch` asks for one tool; else it reads the list of all.
    fetches_alone: ClassVar[bool] = False
    # How an administrator reads less of a list that is too long to be decoded in one go.
    way_to_less: ClassVar[str] = ""
    # Whether calls carry a `Context`; what is in it goes to no vendor of another protocol.
    takes_context: ClassVar[bool] = False
    # Whether the vendor of a call that is ended from outside is told by the process that makes the call.
    tells_of_cancel: ClassVar[bool] = False
    # Whether vendors tell how far a call is that is followed.
    tells_progress: ClassVar[bool] = False
    # Whether a call can be started without waiting for it, found again at the vendor, and stopped there:
    # `start`, `find`, `look` and `stop`.
    keeps_runs: ClassVar[bool] = False
    # Whether it is the form of tools that are defined here: no server speaks it, so nothing is connected,
    # enumerated or sent.
    is_own: ClassVar[bool] = False
    # Raise by one when reading changes, so that every document is read again once: what now means something
    # else is a version of its own (catalog/enumeration/listing.py).
    revision: ClassVar[int] = 1

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self.values = {s.name: s.default for s in self.settings} | dict(settings or {})
        self.context = Context()

    @abstractmethod
    def enumerate(self, session: Session, known: KnownPages) -> Iterator[Page]:
        """All tools, page by page, lazily. The caller guards against endless ones: `paging.PageGuard`."""

    @classmethod
    def credential_url(cls, url: str, settings: Mapping[str, Any]) -> str:
        """The address whose origin a credential of this endpoint belongs to."""
        return url

    @classmethod
    def spoken(cls, memory: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
        """Return what was found out about how an endpoint speaks, as names and texts for users, from what its
        sessions remember."""
        return ()

    @classmethod
    def own_path(cls, path: str) -> str:
        """What of an address' path tells endpoints of one origin apart, without its last slash."""
        return path

    @abstractmethod
    def read(self, document: dict[str, Any]) -> Signature:
        """The normal form of one item's document. Raises `UnreadableItemError`."""

    @abstractmethod
    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        """The vendor's document again. Where it differs, `losses` names the member."""

    def standard_form(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document in the protocol's own words, whatever tolerated form it came in."""
        return document

    def content_digest(self, document: dict[str, Any], read_at: datetime | None = None) -> str:
        """Return a digest of what a model sees of an item and what a call needs of it.

        Equal digests are one version, however differently the two are written and whatever else they hold.
        `read_at` is when the document was read: a default that the vendor made of its clock then counts as
        such. Raises `UnreadableItemError`.
        """
        return digest(self.audience_form(self._normal_form(document), read_at))

    def whole_digest(self, document: dict[str, Any]) -> str:
        """Return a digest of all that an item states, whoever reads it. Raises `UnreadableItemError`."""
        return digest(self._normal_form(document))

    def _normal_form(self, document: dict[str, Any]) -> dict[str, Any]:
        members = self.standard_form(document).items()
        counted = {name: value for name, value in members if name not in self.outside_digest}
        form: dict[str, Any] = normalization.normalized(counted)
        return form

    def audience_form(self, document: dict[str, Any], read_at: datetime | None) -> Any:
        """Return a form that is the same for two documents that no model and no call tells apart."""
        counted = self.content_members or document.keys()
        form = {name: value for name, value in document.items() if name in counted}
        for member in self.schema_members & form.keys():
            form[member] = audience.canonical_schema(
                form[member], read_at, digest, needed=self.needed_extensions
            )
        return form

    def kind_of(self, document: dict[str, Any]) -> str:
        """The protocol's own word for what kind of tool this is, by which a preview counts them."""
        return ""

    def notes(self, document: dict[str, Any], signature: Signature) -> Sequence[Note]:
        """What is odd about a readable item, such as a description over the protocol's limit."""
        return ()

    def why_not_run(self, signature: Signature) -> Note | None:
        """Why no call of this tool is ever sent; None for most."""
        strange = [f"“{p.name}” ({p.unsupported_type})" for p in signature.inputs if p.unsupported_type]
        if not strange:
            return None
        said = f"An input has a type that Pegboard does not send: {printable(', '.join(strange), 300)}."
        return Note("UNSUPPORTED_TYPE", f"{said} Ask the vendor for a version without it.")

    def needs(self, signature: Signature) -> Needs:
        """What a `Context` has to hold for this tool."""
        return Needs()

    def may_ask_at(self, url: str) -> bool:
        """Whether an administrator lets us ask there how far an authorization is, beside the endpoint's own
        origin."""
        return False

    def wanted_credential(self, session: Session) -> WantedCredential | None:
        """What the vendor says somewhere else than in what it lists; None where it says nothing."""
        return None

    def facts(self, signature: Signature) -> Sequence[tuple[str, str]]:
        """What a person should know of a tool beside its parameters: what it is about, and what it says."""
        return ()

    @abstractmethod
    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        """One tool: its current version, or the one labelled `label`."""

    @abstractmethod
    def versions(self, session: Session, tool_id: str) -> Iterator[Page]:
        """All versions of a tool, page by page; nothing when the vendor does not offer them."""

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

        They fit the signature, and `why_not_run` has nothing against it: that was judged before.
        """

    def start(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome | str:
        """As `invoke`, without waiting: the id of the run at the vendor, or what came of it already.

        The run carries the `mark` of the session. For protocols that keep runs, as are the next three.
        """
        raise NotImplementedError

    def find(self, session: Session) -> str | None:
        """The id of the run that carries the `mark` of the session; None where the vendor has none such."""
        raise NotImplementedError

    def look(self, session: Session, signature: Signature, run_id: str) -> Outcome | None:
        """What came of the run; None while the vendor is at it. One that has ended is forgotten there."""
        raise NotImplementedError

    def stop(self, session: Session, run_id: str) -> None:
        """Tell the vendor to end the run."""
        raise NotImplementedError

    def may_tell_partials(self, signature: Signature) -> bool:
        """Whether something may be heard of a call before its end."""
        return False

    def errors(self, signature: Signature) -> Sequence[CallError]:
        """In which ways a call may fail, as the tool's own document has it, by the vendor's codes."""
        return ()

    def configuration(self, signature: Signature) -> Parameter | None:
        """The input that says how the tool is set up for a run; None where there is none."""
        return None

    def has_threads(self, signature: Signature) -> bool:
        """Whether runs of this tool can share a thread, which the vendor keeps. The next four are for tools
        that can."""
        return False

    def create_thread(self, session: Session, thread_id: str, metadata: Mapping[str, Any]) -> str:
        """The vendor's id of the thread, which may be another one than was asked for. The same thread asked
        for twice is one."""
        raise NotImplementedError

    def thread_state(self, session: Session, signature: Signature, thread_id: str) -> ThreadState:
        raise NotImplementedError

    def thread_history(
        self, session: Session, signature: Signature, thread_id: str, limit: int, before: str = ""
    ) -> list[ThreadState]:
        """Earlier states, the newest first, from before the checkpoint `before`."""
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
        """Go on with a call that asked: `state` is its `Outcome.resume`, `answers` go by `Ask.id`."""
        message = "This vendor's calls cannot be continued. Run the tool again."
        return Outcome("refused", error={"code": "NO_RESUME", "message": message})

    @classmethod
    def may_ask(cls) -> bool:
        """Whether a call may stop to ask, and go on with the answer."""
        return cls.resume is not Protocol.resume

    def give_up(  # noqa: B027 - most vendors have ended the call with its question
        self, session: Session, state: Mapping[str, Any]
    ) -> None:
        """A call that asked does not go on: where the vendor waits for the answer, it is told so. `state` is
        as for `resume`."""


class UnreadableItemError(Exception):
    """One item is outside what the catalog can hold; the others go on. Carries `code` and `reason`."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def digest_as_read(document: str, revision: int) -> str:
    """Of a version that a document with this digest was read into once more, by a reader of this revision."""
    return digest({"document": document, "revision": revision})


def is_digest_of(version: str, document: str, revision: int) -> bool:
    """Whether a version with the one digest was read out of a document with the other, by now or before."""
    later = range(2, revision + 1)
    return version == document or version in [digest_as_read(document, each) for each in later]
