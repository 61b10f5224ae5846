"""The preview of an endpoint: its tools, before anything is saved."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from catalog import bounds
from catalog.credentials import sessions
from catalog.enumeration import recognition
from catalog.models import Endpoint
from catalog.token_estimate import tokens_of
from core.outbound.errors import ProtocolError, RefusedError
from core.outbound.limits import DEFAULT_LIMITS
from core.outbound.policy import AddressSource, Door, policy_for
from protocols.base import Protocol
from protocols.list_pages import ItemPage, NoKnownPages, UnreadableItemError, WantedCredential
from protocols.paging import note_on_ending

# A preview needs only a sample. The enumeration has other limits.
MAX_TOOLS = 5_000
MAX_PAGES = 100
SECONDS = 20.0
NAMES_SHOWN = 50
GROUPS_SHOWN = 100
REJECTED_SHOWN = 20

# A person waits for it.
LIMITS = replace(DEFAULT_LIMITS, session=SECONDS)


@dataclass(frozen=True, slots=True)
class ToolGroup:
    name: str
    tools: int
    tokens: int


@dataclass(frozen=True, slots=True)
class PreviewedTool:
    tool_id: str
    name: str
    title: str
    kind: str
    tokens: int


@dataclass(slots=True)
class Preview:
    """The preview. `kinds`: the tools by the protocol's word for them. `is_complete`: False if there are
    more.

    needs: the required kind of credential. error: the other members then have the results before it.
    challenge: the WWW-Authenticate header of a vendor that requires another credential.
    wanted: the credential for calls that another document of the vendor requires, if none was entered.
    spoken_protocol: the detected protocol, if it is not the requested one.
    """

    tools: int = 0
    tokens: int = 0
    is_complete: bool = True
    tags: list[ToolGroup] = field(default_factory=list)
    kinds: list[ToolGroup] = field(default_factory=list)
    first: list[PreviewedTool] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    rejected: int = 0
    rejections: list[dict[str, str]] = field(default_factory=list)
    notes: list[dict[str, str | int]] = field(default_factory=list)
    error: dict[str, str] | None = None
    challenge: str = ""
    wanted: WantedCredential | None = None
    spoken_protocol: str = ""


def preview(
    endpoint: Endpoint,
    source: AddressSource = AddressSource.ADMINISTRATOR,
    report: Callable[[int], None] | None = None,
) -> Preview:
    """Read an endpoint that may be unsaved, within limits that a user can wait for.

    `source` is the role of the user who gave its address. report: receives the number of tools after each
    page.
    """
    policy, limits = policy_for(Door.PREVIEW, source), bounds.limits_of(endpoint, LIMITS)
    gathering = _Gathering(endpoint.build_protocol())
    try:
        with sessions.open_session(endpoint, limits=limits, policy=policy) as session:
            if endpoint.credential is None:
                gathering.preview.wanted = gathering.protocol.wanted_credential(session)
            for page in gathering.limit_pages(gathering.protocol.enumerate(session, NoKnownPages())):
                gathering.take(page)
                if report:
                    report(gathering.preview.tools)
    except ProtocolError as first:
        error = recognition.explain(endpoint, first, policy)
        if isinstance(error, recognition.WrongProtocolError):
            gathering.preview.spoken_protocol = error.spoken
        gathering.preview.error = {"code": error.code, "message": error.message}
        gathering.preview.challenge = error.challenge if isinstance(error, RefusedError) else ""
    return gathering.finished_preview()


class _Gathering:
    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.preview = Preview()
        self.tags: Counter[str] = Counter()
        self.tag_tokens: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.kind_tokens: Counter[str] = Counter()
        self.needs: Counter[str] = Counter()
        self.notes: dict[str, dict[str, str | int]] = {}
        self.ends = time.monotonic() + SECONDS

    def limit_pages(self, pages: Iterator[ItemPage]) -> Iterator[ItemPage]:
        for number, page in enumerate(pages, start=1):
            yield page
            is_long = number >= MAX_PAGES or self.preview.tools >= MAX_TOOLS
            if page.next is not None and (is_long or time.monotonic() > self.ends):
                self.preview.is_complete = False
                return

    def take(self, page: ItemPage) -> None:
        ending = note_on_ending(page.ending)
        for note in [*page.notes, *([ending] if ending else [])]:
            self._add_note(note.code, note.message)
        for rejected in page.rejected:
            self._add_rejection(rejected.tool, rejected.reason)
        for item in page.items:
            document = item.document or {}
            try:
                signature = self.protocol.read(document)
                notes = self.protocol.notes(document, signature)
            except UnreadableItemError as error:
                self._add_rejection(item.tool_id, error.reason)
                continue
            tokens, kind = tokens_of(signature), self.protocol.kind_of(document)
            self.preview.tools += 1
            self.preview.tokens += tokens
            for tag in dict.fromkeys(signature.tags):
                self.tags[tag] += 1
                self.tag_tokens[tag] += tokens
            if kind:
                self.kinds[kind] += 1
                self.kind_tokens[kind] += tokens
            scopes = (f"the scope {scope}" for scope in signature.requirements.scopes)
            self.needs.update(dict.fromkeys([*signature.requirements.secrets, *scopes]).keys())
            for note in (*item.notes, *notes):
                self._add_note(note.code, note.message)
            if len(self.preview.first) < NAMES_SHOWN:
                names = (item.tool_id, signature.name, signature.title)
                self.preview.first.append(PreviewedTool(*names, kind, tokens))

    def _add_note(self, code: str, message: str) -> None:
        notes_of_code = self.notes.setdefault(code, {"code": code, "message": message, "count": 0})
        notes_of_code["count"] = int(notes_of_code["count"]) + 1

    def _add_rejection(self, tool: str, reason: str) -> None:
        self.preview.rejected += 1
        if len(self.preview.rejections) < REJECTED_SHOWN:
            self.preview.rejections.append({"tool": tool, "reason": reason})

    def finished_preview(self) -> Preview:
        self.preview.tags = _largest_groups(self.tags, self.tag_tokens)
        self.preview.kinds = _largest_groups(self.kinds, self.kind_tokens)
        self.preview.needs = [need for need, _ in self.needs.most_common(REJECTED_SHOWN)]
        self.preview.notes = list(self.notes.values())
        return self.preview


def _largest_groups(tools: Counter[str], tokens: Counter[str]) -> list[ToolGroup]:
    return [ToolGroup(name, count, tokens[name]) for name, count in tools.most_common(GROUPS_SHOWN)]
