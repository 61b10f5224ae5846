"""The client of ACP: searches, describes and runs the agents of a vendor.

An agent is one tool. The protocol has no list but a search. Some servers answer it only by name or version,
and some ignore its offset; docs/protocols.md describes how each is handled.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from core import strict_json
from core.outbound.errors import ProtocolError, ProtocolViolationError, UnavailableError, printable
from core.schema import spelling
from core.translatable import mark as _
from protocols import members
from protocols.acp import document as acp_document
from protocols.acp import manifest as acp_manifest
from protocols.acp import runs as acp_runs
from protocols.acp import threads as acp_threads
from protocols.acp import wire
from protocols.acp.recognition import RECOGNITION
from protocols.acp.search import AgentSearch, agent_id_of, name_of_entry
from protocols.base import Protocol, Session, Setting, ThreadState
from protocols.call_outcome import Outcome
from protocols.calls import arguments as judged
from protocols.list_pages import (
    UUID,
    Item,
    ItemPage,
    KnownPages,
    Note,
    RejectedItem,
    UnreadableItemError,
    WantedCredential,
)
from protocols.signature import Parameter, Signature

MAX_NAMES = 200
MAX_SHOWN = 10
MAX_FACT_LENGTH = 300
# After this many failures in a row the server is down, and not only a few agents are broken.
MAX_UNAVAILABLE_IN_A_ROW = 5

_SEMVER = re.compile(r"v?([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18})(?:[-+].*)?", re.DOTALL)


@dataclass(slots=True)
class _Outage:
    """The number of consecutive failures to read a descriptor, over all pages."""

    length: int = 0


class ACP(Protocol):
    name = "acp"
    label = "ACP (AGNTCY)"
    summary = _("The vendor offers agents. Each agent is one tool.")
    url_hint = _("The address before /agents, such as https://agents.example.com.")
    recognition = RECOGNITION
    fetches_alone = True
    content_members = frozenset({"metadata", "specs"})
    keeps_runs = True
    settings = (
        Setting(
            name="page_size",
            label=_("Agents per page"),
            help=_("The number of agents in one request."),
            kind="integer",
            default=100,
            minimum=1,
            maximum=1000,
        ),
        Setting(
            name="agent_names",
            label=_("Agent names"),
            help=_("For a server that lists agents only by name or version."),
            kind="lines",
        ),
        Setting(
            name="agent_versions",
            label=_("Agent versions"),
            help=_("For a server that lists agents only by name or version."),
            kind="lines",
        ),
        Setting(
            name="manifest_url",
            label=_("Manifest address"),
            help=_(
                "The address of the agent's manifest, if there is one. It states the required credential."
            ),
        ),
    )

    def wanted_credential(self, session: Session) -> WantedCredential | None:
        # The first kind that an administrator can enter.
        credentials = acp_manifest.read_manifest(session, str(self.values["manifest_url"])).credentials
        return next((credential for credential in credentials if credential.kind), None)

    def enumerate(self, session: Session, known_pages: KnownPages) -> Iterator[ItemPage]:
        # Descriptors may change while the search result does not, so no page is reused. A page is yielded
        # once it is known whether another one follows.
        manifest = acp_manifest.read_manifest(session, str(self.values["manifest_url"]))
        texts_by_member = {member: self.values[f"agent_{member}s"] or () for member in ("name", "version")}
        queries = [{member: text} for member, texts in texts_by_member.items() for text in texts]
        if not queries and manifest.name:
            queries = [{"name": manifest.name}]
        search = AgentSearch(session, queries[:MAX_NAMES], int(self.values["page_size"]))
        outage = _Outage()
        page: ItemPage | None = None
        while True:
            try:
                entries = search.read_next()
            except ProtocolError:
                if page:
                    yield replace(page, next=search.position)
                raise
            if entries is None:
                break
            if page:
                yield replace(page, next=search.position)
            items, rejected = _read_agents(session, entries, outage)
            is_first = page is None
            page = ItemPage(
                items,
                rejected,
                notes=manifest.notes if is_first else (),
                cursor="" if is_first else search.position,
            )
        yield replace(page or ItemPage((), notes=manifest.notes), ending=search.ending)

    def read(self, document: dict[str, Any]) -> Signature:
        return acp_document.read_signature(document)

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        return acp_document.write(signature, label)

    def audience_form(self, document: dict[str, Any], read_at: datetime | None) -> Any:
        return acp_document.audience_form(super().audience_form(document, read_at), read_at)

    def notes(self, document: dict[str, Any], signature: Signature) -> Sequence[Note]:
        return [Note(code, message) for code, message in acp_document.oddities(document, signature)]

    def facts(self, signature: Signature) -> Sequence[tuple[str, str]]:
        capabilities = acp_document.capabilities(signature)
        modes = capabilities.get("streaming")
        active = [mode for mode, is_on in modes.items() if is_on is True] if isinstance(modes, dict) else []
        has_callbacks = capabilities.get("callbacks") is True
        facts = [
            ("Threads", "Runs can share a thread" if capabilities.get("threads") is True else "None"),
            ("Streaming", ", ".join(active[:MAX_SHOWN]) or "None"),
            ("Callbacks", "Used as a hint that a run has ended" if has_callbacks else "None"),
        ]
        for name, interrupt in list(acp_document.interrupts(signature).items())[:MAX_SHOWN]:
            properties = spelling.properties_of(interrupt.get("resume_payload"))
            names = ", ".join(list(properties)[:MAX_SHOWN])
            facts.append(("May ask for", printable(f"{name} ({names})" if names else name, MAX_FACT_LENGTH)))
        return facts

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        item = _read_agent(session, tool_id, None)
        if label not in (None, item.label):
            raise ProtocolViolationError("WRONG_TOOL", "The vendor offers another version of this agent.")
        return item

    def versions(self, session: Session, tool_id: str) -> Iterator[ItemPage]:
        return iter(())

    def invoke(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome:
        return acp_runs.run(session, signature, _request(tool_id, signature, arguments), self._run_location)

    def start(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome | str:
        request = _request(tool_id, signature, arguments)
        if self.context.webhook and acp_document.has_capability(signature, "callbacks"):
            request["webhook"] = self.context.webhook
        return acp_runs.start(session, signature, request, self._run_location)

    def find(self, session: Session) -> str | None:
        return acp_runs.find(session, session.mark, self._run_location)

    def look(self, session: Session, signature: Signature, run_id: str) -> Outcome | None:
        return acp_runs.look(session, signature, run_id, self._run_location)

    def stop(self, session: Session, run_id: str) -> None:
        acp_runs.stop(session, run_id, self._run_location)

    def resume(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        state: Mapping[str, Any],
        answers: Mapping[str, Any],
    ) -> Outcome:
        return acp_runs.resume(session, signature, state, answers, self._run_location)

    @property
    def _run_location(self) -> acp_runs.RunLocation:
        return acp_runs.RunLocation(self.context.thread)

    def may_tell_partials(self, signature: Signature) -> bool:
        return acp_document.streams(signature)

    def configuration(self, signature: Signature) -> Parameter | None:
        return acp_document.configuration(signature)

    def has_threads(self, signature: Signature) -> bool:
        return acp_document.has_capability(signature, "threads")

    def create_thread(self, session: Session, thread_id: str, metadata: Mapping[str, Any]) -> str:
        return acp_threads.create(session, thread_id, metadata)

    def thread_state(self, session: Session, signature: Signature, thread_id: str) -> ThreadState:
        return acp_threads.state(session, signature, thread_id)

    def thread_history(
        self, session: Session, signature: Signature, thread_id: str, limit: int, before: str = ""
    ) -> list[ThreadState]:
        return acp_threads.history(session, signature, thread_id, limit, before)

    def remove_thread(self, session: Session, thread_id: str) -> None:
        acp_threads.remove(session, thread_id)


def _request(tool_id: str, signature: Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    values = judged.arguments_to_send(signature, arguments)
    request: dict[str, Any] = {"agent_id": tool_id}
    if config := acp_document.configuration(signature):
        request["config"] = {"configurable": values.pop(config.name, {})}
    inputs = acp_document.own_inputs(signature)
    request["input"] = values.get(inputs[0].name) if acp_document.is_whole(inputs) else values
    return request


def _read_agents(
    session: Session, entries: Sequence[Any], outage: _Outage
) -> tuple[list[Item], list[RejectedItem]]:
    items: list[Item] = []
    rejected: list[RejectedItem] = []
    for number, entry in enumerate(entries, start=1):
        try:
            items.append(_read_agent(session, agent_id_of(entry), entry))
            outage.length = 0
        except UnreadableItemError as error:
            rejected.append(RejectedItem(name_of_entry(entry, number), error.code, error.reason))
        except ProtocolError as error:
            outage.length += isinstance(error, UnavailableError)
            if outage.length >= MAX_UNAVAILABLE_IN_A_ROW:
                raise
            reason = f"Its descriptor cannot be read: {error.message}"
            rejected.append(RejectedItem(name_of_entry(entry, number), "NO_DESCRIPTOR", reason))
    return items, rejected


def _read_agent(session: Session, agent_id: str, entry: dict[str, Any] | None) -> Item:
    path = wire.path(wire.AGENTS, agent_id)
    document = strict_json.require_json(session.get(f"{path}/{wire.DESCRIPTOR}"))
    if not isinstance(document, dict):
        raise members.wrong("descriptor", document, "an object")
    # Some servers omit from the descriptor what their search contains, so both are merged.
    if document.get("metadata") is None:
        entry = entry or strict_json.require_json(session.get(path))
        if isinstance(entry, dict):
            document = document | {"metadata": entry.get("metadata")}
    label = acp_document.read_label(document)
    content = members.content(document, "descriptor")
    numbers = _SEMVER.fullmatch(label)
    key = tuple(map(int, numbers.groups())) if numbers else ()
    id_note = Note("NOT_A_UUID", f"The id {printable(agent_id, 60)} is not a UUID.")
    notes = () if UUID.fullmatch(agent_id) else (id_note,)
    return Item(agent_id, label, key, hashlib.sha256(content).hexdigest(), document, notes)
