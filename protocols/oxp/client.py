"""The client of OXP: lists the tools of a vendor in all their versions, and runs them.

A list shows which of the two revisions a vendor speaks. The published schema of a reply refuses every reply
with a value, so replies are read by the prose."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from core import strict_json
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.outbound.reply import Reply
from protocols import members, paging
from protocols.base import (
    Item,
    KnownPages,
    Needs,
    Note,
    Outcome,
    Page,
    Protocol,
    Rejected,
    Session,
    Setting,
    UnreadableItemError,
)
from protocols.calls import outcomes
from protocols.oxp import calls as oxp_calls
from protocols.oxp import document as oxp_document
from protocols.oxp import wire
from protocols.signature import Signature

MAX_SHOWN = 10
MAX_FACT_LENGTH = 300

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BARE_ARRAY = Note("BARE_ARRAY", "The list is a bare array without “items”.")


@dataclass(frozen=True, slots=True)
class _Listing:
    """Everything on the list, several versions of one tool included."""

    items: Sequence[Item]
    rejected: Sequence[Rejected]
    body_digest: str
    notes: Sequence[Note]


class OXP(Protocol):
    name = "oxp"
    label = "OXP"
    summary = "The vendor lists versioned tools under /tools and runs them at /tools/call."
    url_hint = "The address before /tools, such as https://api.example.com/oxp."
    settings = (
        Setting(
            name="user_id",
            label="User ID",
            help="Who the tools act for where a call does not say it. It is sent only to tools that ask "
            "for it.",
        ),
        Setting(
            name="check_hosts",
            label="Hosts that tell of authorizations",
            kind="lines",
            help="Where Pegboard may ask whether a user has authorized a tool, beside the endpoint's own "
            "address: one host on a line, such as auth.example.com.",
        ),
    )
    promises = frozenset({"locked_versions"})
    content_members = frozenset(
        {"id", "name", "version", "description", "input_schema", "output_schema", "requirements"}
    )
    schema_members = frozenset({"input_schema", "output_schema"})
    lists_at_once = True
    unshown = frozenset({"developer_message"})
    takes_context = True

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        self._read: tuple[Session, _Listing] | None = None

    def enumerate(self, session: Session, known: KnownPages) -> Iterator[Page]:
        reply = _list(session)
        yield known.recall("", reply) or _current_page(_listing(session, reply))

    def read(self, document: dict[str, Any]) -> Signature:
        return oxp_document.read(document)

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        return oxp_document.write(signature, tool_id, label)

    def standard_form(self, document: dict[str, Any]) -> dict[str, Any]:
        return oxp_document.standard_form(document)

    def notes(self, document: dict[str, Any], signature: Signature) -> Sequence[Note]:
        called = f"“{printable(signature.name, 60)}”"
        if _NAME.fullmatch(signature.name):
            return ()
        return [Note("ODD_NAME", f"{called} has a name of other characters, or longer, than the protocol's.")]

    def needs(self, signature: Signature) -> Needs:
        said = (signature.rest or {}).get("requirements") or {}
        named = [each for each in said.get("authorization") or () if isinstance(each.get("id"), str)]
        is_unknown = signature.requirements.user and not self.values["user_id"]
        providers = {each["id"]: tuple(oxp_document.scopes_of(each)) for each in named}
        return Needs(providers, signature.requirements.secrets, is_unknown)

    def may_ask_at(self, url: str) -> bool:
        asked = urlsplit(url)
        known = self.values["check_hosts"] or ()
        return asked.scheme == "https" and asked.netloc.lower() in {host.strip().lower() for host in known}

    def facts(self, signature: Signature) -> Sequence[tuple[str, str]]:
        needs = (signature.rest or {}).get("requirements") or {}
        named = [each for each in needs.get("authorization") or () if each.get("id")]
        # Who gives out which scopes.
        said = [f"{each['id']}: {', '.join(oxp_document.scopes(each))}" for each in named[:MAX_SHOWN]]
        return [("Authorization", printable(text, MAX_FACT_LENGTH)) for text in said]

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        versions = [item for item in _listing(session, _list(session)).items if item.tool_id == tool_id]
        wanted = [item for item in versions if label in (None, item.label)]
        if not wanted:
            which = f"{tool_id}@{label}" if label else tool_id
            raise RefusedError("NOT_FOUND", f"The vendor does not list {printable(which)}.")
        return max(wanted, key=lambda item: item.label_key)

    def versions(self, session: Session, tool_id: str) -> Iterator[Page]:
        # All are on the one list, so that asking for the versions of many tools reads it once.
        if self._read is None or self._read[0] is not session:
            self._read = (session, _listing(session, _list(session)))
        items = [item for item in self._read[1].items if item.tool_id == tool_id]
        if items:
            yield Page(items=items)

    def invoke(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome:
        try:
            version = label or self.fetch(session, tool_id).label
        except ProtocolError as error:
            return outcomes.after(error)
        request = {
            "call_id": str(uuid4()),
            "tool_id": f"{tool_id}@{version}",
            "input": oxp_calls.input_of(signature, arguments),
        }
        return _called(session, signature, request, self._context(signature))

    def resume(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        state: Mapping[str, Any],
        answers: Mapping[str, Any],
    ) -> Outcome:
        # The same call once more, under the same id: a vendor that ran it already may answer from memory.
        request = {member: value for member, value in state["request"].items() if member != "context"}
        return _called(session, signature, request, self._context(signature, answers.get("user_id")))

    def _context(self, signature: Signature, answered: object = None) -> dict[str, Any]:
        said = self.context
        usual = self.values["user_id"] if signature.requirements.user else ""
        context = {
            "user_id": said.user or answered or usual,
            "authorization": [{"id": name, "token": token} for name, token in said.tokens.items()],
            "secrets": [{"id": name, "value": value} for name, value in said.secrets.items()],
        }
        return {member: value for member, value in context.items() if value}


def _called(
    session: Session, signature: Signature, request: dict[str, Any], context: Mapping[str, Any]
) -> Outcome:
    # The context is made anew each time that the call goes on, so that nothing of it is kept.
    try:
        outcome = oxp_calls.call(session, _path(session, wire.CALL), signature, request, context)
    except ProtocolError as failure:
        outcome = outcomes.after(failure)
    if (outcome.error or {}).get("code") in _TOLD_APART:
        outcome = _told_apart(session, outcome, request["tool_id"])
    if outcome.outcome == "unavailable" or outcome.resume is not None or outcome.can_retry:
        return replace(outcome, resume={"request": request, **(outcome.resume or {})})
    return outcome


# 400 stands for an unknown tool, for a vendor that is down, and for a credential that it does not take; a
# vendor that goes its own way answers with the others.
_TOLD_APART = ("NOT_RUN", *(f"HTTP_{status}" for status in (404, 410)))


def _told_apart(session: Session, outcome: Outcome, tool: str) -> Outcome:
    # The protocol has no codes for these: /health tells whether the vendor is there, and the list whether it
    # takes our credential and has the tool. Nothing ran, so a vendor that is away may be asked again.
    is_refused = (outcome.error or {})["code"] == "NOT_RUN"
    try:
        if is_refused and not _is_list(session) and _is_down(session):
            message = "The vendor says that it is not ready. The tool did not run."
            return replace(outcomes.failed("unavailable", "NOT_READY", message), can_retry=True)
        listing = _listing(session, _list(session))
    except UnavailableError as error:
        return replace(outcomes.after(error), can_retry=True) if is_refused else outcome
    except RefusedError as error:
        after = outcomes.after(error)
        return after if is_refused and after.outcome == "needs_authorization" else outcome
    except ProtocolError:
        return outcome
    if all(f"{item.tool_id}@{item.label}" != tool for item in listing.items):
        return outcomes.failed("refused", "NOT_FOUND", "The vendor has no such tool or version any more.")
    return outcome


def _is_down(session: Session) -> bool:
    try:
        status = session.get(wire.HEALTH, headers=wire.VERSION_HEADERS, accept=(200, 204, 503)).status
    except RefusedError:
        # It has none, or keeps it to itself.
        return False
    return status == 503


def _is_list(session: Session) -> bool:
    # People may enter the address of the list; calls lie below it.
    return urlsplit(session.root).path.rstrip("/").endswith(wire.TOOLS)


def _path(session: Session, below: str) -> str:
    return below.removeprefix(wire.TOOLS) if _is_list(session) else below


def _list(session: Session) -> Reply:
    try:
        reply = session.get(_path(session, wire.TOOLS), headers=wire.VERSION_HEADERS)
    except (RefusedError, UnavailableError) as error:
        if _is_list(session) or not (error.code == "NOT_FOUND" or error.code.startswith("HTTP_")):
            raise
        raise _diagnosed(session, error) from None
    if wire.VERSION_HEADER.lower() in reply.headers:
        session.memory["revision"] = "bare"
    return reply


def _diagnosed(session: Session, error: ProtocolError) -> ProtocolError:
    # There is no list: /health, which needs no credential, tells a server that is down from none.
    try:
        status = session.get(wire.HEALTH, headers=wire.VERSION_HEADERS, accept=(200, 204, 503)).status
    except ProtocolError:
        doubt = "" if isinstance(error, UnavailableError) else " Nothing is at /health either."
        error.message += doubt
        return error
    if status == 503:
        return UnavailableError("NOT_READY", "The vendor says that it is not ready to answer.")
    error.message += " Its /health says that it is well."
    return error


def _listing(session: Session, reply: Reply) -> _Listing:
    read = strict_json.require_list(reply)
    document = read.value
    # A list of bare items shows neither revision.
    is_marked = isinstance(document, dict) and ("$schema" in document or "items" not in document)
    if is_marked and wire.VERSION_HEADER.lower() not in reply.headers:
        session.memory["revision"] = "wrapped"
    listed = document
    if isinstance(document, dict):
        listed = next((document[m] for m in ("items", "tools") if isinstance(document.get(m), list)), None)
    if not isinstance(listed, list):
        raise ProtocolViolationError("SHAPE", "The reply has no array “items” and no array “tools”.")
    items, refused = paging.sort_entries(read, listed, _identified)
    good = {item.tool_id for item in items}
    rejected = [Rejected(_called_in(r.entry, r.number, good), r.error.code, r.error.reason) for r in refused]
    notes = [*([_BARE_ARRAY] if isinstance(document, list) else []), *oxp_calls.note_other_version(reply)]
    return _Listing(items, rejected, hashlib.sha256(reply.body).hexdigest(), notes)


def _current_page(listing: _Listing) -> Page:
    # A catalog lists a tool once: in its latest version that can be read.
    by_tool: dict[str, list[Item]] = {}
    for item in listing.items:
        by_tool.setdefault(item.tool_id, []).append(item)
    rejected = list(listing.rejected)
    items = [item for versions in by_tool.values() for item in _latest(versions, rejected)]
    shown = {item.tool_id: item.label_key for item in items}
    older = [item for item in listing.items if item.label_key < shown[item.tool_id]]
    return Page(
        items=items, rejected=rejected, notes=listing.notes, body_digest=listing.body_digest, older=older
    )


def _latest(versions: list[Item], rejected: list[Rejected]) -> list[Item]:
    left = sorted(versions, key=lambda item: item.label_key, reverse=True)
    while left[0].label_key != left[-1].label_key:
        newest = left[0]
        try:
            oxp_document.read(newest.document or {})
        except UnreadableItemError as error:
            name = f"{newest.tool_id}@{newest.label}"
            rejected.append(Rejected(name, error.code, error.reason))
            left = left[1:]
        else:
            break
    # Of one version listed twice both, as the reader has to tell the same from a contradiction.
    return [item for item in left if item.label_key == left[0].label_key]


def _called_in(entry: object, number: int, good: set[str]) -> str:
    # A refused item is called by its tool, so that a tool we know is not taken for gone, unless another
    # version of that tool can be read.
    tool_id = entry.get("id") if isinstance(entry, dict) else None
    name = oxp_document.tool_of(tool_id)
    if name is None:
        return f"#{number}"
    return f"{name}@#{number}" if name in good else name


def _identified(document: object) -> Item:
    if not isinstance(document, dict):
        raise members.wrong("item", document, "an object")
    tool_id, label = oxp_document.read_tool_id(document), oxp_document.read_version(document)
    content = members.content(document)
    return Item(
        tool_id, label, tuple(map(int, label.split("."))), hashlib.sha256(content).hexdigest(), document
    )
