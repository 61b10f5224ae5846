"""The client of OXP: lists the tools of a vendor in all their versions, and runs them.

The list shows which of the two revisions a vendor uses. The published schema of a reply rejects every reply
with a value, so this client follows the prose of the specification.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
from core.translatable import mark as _
from protocols import members, paging
from protocols.base import Needs, Protocol, Session, Setting
from protocols.call_outcome import Outcome
from protocols.calls import outcomes
from protocols.list_pages import Item, ItemPage, KnownPages, Note, RejectedItem, UnreadableItemError
from protocols.oxp import calls as oxp_calls
from protocols.oxp import document as oxp_document
from protocols.oxp import wire
from protocols.oxp.recognition import RECOGNITION
from protocols.signature import Signature

MAX_SHOWN = 10
MAX_FACT_LENGTH = 300

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BARE_ARRAY = Note("BARE_ARRAY", "The list is a bare array without “items”.")


@dataclass(frozen=True, slots=True)
class _Listing:
    """The whole list, which may contain several versions of one tool."""

    items: Sequence[Item]
    rejected: Sequence[RejectedItem]
    body_digest: str
    notes: Sequence[Note]

    def current_page(self) -> ItemPage:
        # The catalog lists a tool once, in its latest readable version.
        by_tool: dict[str, list[Item]] = {}
        for item in self.items:
            by_tool.setdefault(item.tool_id, []).append(item)
        items, rejected = [], list(self.rejected)
        for versions in by_tool.values():
            remaining = sorted(versions, key=lambda item: item.label_key, reverse=True)
            while remaining[0].label_key != remaining[-1].label_key:
                newest = remaining[0]
                try:
                    oxp_document.read_signature(newest.document or {})
                except UnreadableItemError as error:
                    name = f"{newest.tool_id}@{newest.label}"
                    rejected.append(RejectedItem(name, error.code, error.reason))
                    remaining = remaining[1:]
                else:
                    break
            # A version that is listed twice stays twice: the reader has to detect contradictions.
            items += [item for item in remaining if item.label_key == remaining[0].label_key]
        current = {item.tool_id: item.label_key for item in items}
        older = [item for item in self.items if item.label_key < current[item.tool_id]]
        return ItemPage(
            items=items, rejected=rejected, notes=self.notes, body_digest=self.body_digest, older=older
        )


class OXP(Protocol):
    name = "oxp"
    label = "OXP"
    summary = _("The vendor lists versioned tools under /tools and runs them at /tools/call.")
    url_hint = _("The address before /tools, such as https://api.example.com/oxp.")
    settings = (
        Setting(
            name="user_id",
            label=_("User ID"),
            help=_("The user of calls that do not name one. It is sent only to tools that require it."),
        ),
        Setting(
            name="check_hosts",
            label=_("Hosts for authorization checks"),
            kind="lines",
            help=_(
                "Hosts where Pegboard may check whether a user has authorized a tool, besides that of "
                "the endpoint. One host per line, such as auth.example.com."
            ),
        ),
    )
    promises = frozenset({"locked_versions"})
    content_members = frozenset(
        {"id", "name", "version", "description", "input_schema", "output_schema", "requirements"}
    )
    schema_members = frozenset({"input_schema", "output_schema"})
    recognition = RECOGNITION
    lists_at_once = True
    unshown = frozenset({"developer_message"})
    takes_context = True

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        self._cached_list: tuple[Session, _Listing] | None = None

    def enumerate(self, session: Session, known_pages: KnownPages) -> Iterator[ItemPage]:
        reply = _request_list(session)
        yield known_pages.recall("", reply) or _read_listing(session, reply).current_page()

    def read(self, document: dict[str, Any]) -> Signature:
        return oxp_document.read_signature(document)

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        return oxp_document.write(signature, tool_id, label)

    def standard_form(self, document: dict[str, Any]) -> dict[str, Any]:
        return oxp_document.standard_form(document)

    def notes(self, document: dict[str, Any], signature: Signature) -> Sequence[Note]:
        if _NAME.fullmatch(signature.name):
            return ()
        return [Note("ODD_NAME", f"The protocol does not allow the name “{printable(signature.name, 60)}”.")]

    def needs(self, signature: Signature) -> Needs:
        requirements = (signature.rest or {}).get("requirements") or {}
        entries = requirements.get("authorization") or ()
        needs_user = signature.requirements.user and not self.values["user_id"]
        providers = {
            entry["id"]: tuple(oxp_document.scopes_of(entry))
            for entry in entries
            if isinstance(entry.get("id"), str)
        }
        return Needs(providers, signature.requirements.secrets, needs_user)

    def may_ask_at(self, url: str) -> bool:
        parts = urlsplit(url)
        hosts = {host.strip().lower() for host in self.values["check_hosts"] or ()}
        return parts.scheme == "https" and parts.netloc.lower() in hosts

    def facts(self, signature: Signature) -> Sequence[tuple[str, str]]:
        needs = (signature.rest or {}).get("requirements") or {}
        providers = [entry for entry in needs.get("authorization") or () if entry.get("id")]
        texts = [f"{entry['id']}: {', '.join(oxp_document.scopes(entry))}" for entry in providers[:MAX_SHOWN]]
        return [("Authorization", printable(text, MAX_FACT_LENGTH)) for text in texts]

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        versions = [
            item for item in _read_listing(session, _request_list(session)).items if item.tool_id == tool_id
        ]
        matches = [item for item in versions if label in (None, item.label)]
        if not matches:
            missing = f"{tool_id}@{label}" if label else tool_id
            raise RefusedError("NOT_FOUND", f"The vendor does not list {printable(missing)}.")
        return max(matches, key=lambda item: item.label_key)

    def versions(self, session: Session, tool_id: str) -> Iterator[ItemPage]:
        # The list contains all versions, so the versions of many tools need one request.
        if self._cached_list is None or self._cached_list[0] is not session:
            self._cached_list = (session, _read_listing(session, _request_list(session)))
        items = [item for item in self._cached_list[1].items if item.tool_id == tool_id]
        if items:
            yield ItemPage(items=items)

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
            return outcomes.convert_error(error)
        request = {
            "call_id": str(uuid4()),
            "tool_id": f"{tool_id}@{version}",
            "input": oxp_calls.input_of(signature, arguments),
        }
        return _call(session, signature, request, self._build_context(signature))

    def resume(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        state: Mapping[str, Any],
        answers: Mapping[str, Any],
    ) -> Outcome:
        # Repeats the call with the same id: a vendor that has run it may return the stored result.
        request = {member: value for member, value in state["request"].items() if member != "context"}
        return _call(session, signature, request, self._build_context(signature, answers.get("user_id")))

    def _build_context(self, signature: Signature, answered_user: object = None) -> dict[str, Any]:
        default_user = self.values["user_id"] if signature.requirements.user else ""
        context = {
            "user_id": self.context.user or answered_user or default_user,
            "authorization": [{"id": name, "token": token} for name, token in self.context.tokens.items()],
            "secrets": [{"id": name, "value": value} for name, value in self.context.secrets.items()],
        }
        return {member: value for member, value in context.items() if value}


def _call(
    session: Session, signature: Signature, request: dict[str, Any], context: Mapping[str, Any]
) -> Outcome:
    # The context is built again for each attempt and never stored.
    try:
        outcome = oxp_calls.call(session, _path_below(session, wire.CALL), signature, request, context)
    except ProtocolError as failure:
        outcome = outcomes.convert_error(failure)
    if (outcome.error or {}).get("code") in _AMBIGUOUS_CODES:
        outcome = _resolve_ambiguity(session, outcome, request["tool_id"])
    if outcome.outcome == "unavailable" or outcome.resume is not None or outcome.can_retry:
        return replace(outcome, resume={"request": request, **(outcome.resume or {})})
    return outcome


# 400 means an unknown tool, a vendor that is down, or a rejected credential. Some vendors send other
# statuses.
_AMBIGUOUS_CODES = ("NOT_RUN", *(f"HTTP_{status}" for status in (404, 410)))


def _resolve_ambiguity(session: Session, outcome: Outcome, tool: str) -> Outcome:
    # The protocol has no codes for these cases. /health shows whether the vendor is up, and the list whether
    # it accepts the credential and has the tool. Nothing ran, so the call may be repeated after an outage.
    is_refused = (outcome.error or {})["code"] == "NOT_RUN"
    try:
        if is_refused and not _is_list(session):
            # A health check is optional, and may need a credential.
            with suppress(RefusedError):
                if _health_status(session) == 503:
                    message = "The vendor reports that it is not ready. The tool did not run."
                    return replace(outcomes.failed("unavailable", "NOT_READY", message), can_retry=True)
        listing = _read_listing(session, _request_list(session))
    except UnavailableError as error:
        return replace(outcomes.convert_error(error), can_retry=True) if is_refused else outcome
    except RefusedError as error:
        authorization = outcomes.convert_error(error)
        return authorization if is_refused and authorization.outcome == "needs_authorization" else outcome
    except ProtocolError:
        return outcome
    if all(f"{item.tool_id}@{item.label}" != tool for item in listing.items):
        return outcomes.failed(
            "refused", "NOT_FOUND", "The vendor does not have this tool or version any more."
        )
    return outcome


def _health_status(session: Session) -> int:
    return session.get(wire.HEALTH, headers=wire.VERSION_HEADERS, accept=(200, 204, 503)).status


def _is_list(session: Session) -> bool:
    # Users may enter the address of the list. Calls are below it.
    return urlsplit(session.root).path.rstrip("/").endswith(wire.TOOLS)


def _path_below(session: Session, path: str) -> str:
    return path.removeprefix(wire.TOOLS) if _is_list(session) else path


def _request_list(session: Session) -> Reply:
    try:
        reply = session.get(_path_below(session, wire.TOOLS), headers=wire.VERSION_HEADERS)
    except (RefusedError, UnavailableError) as error:
        if _is_list(session) or not (error.code == "NOT_FOUND" or error.code.startswith("HTTP_")):
            raise
        # Without a list, /health (which needs no credential) distinguishes a server that is down from
        # another server.
        try:
            status = _health_status(session)
        except ProtocolError:
            if isinstance(error, RefusedError):
                error.message += " There is nothing at /health, either."
            raise error from None
        if status == 503:
            raise UnavailableError("NOT_READY", "The vendor reports that it is not ready.") from None
        error.message += " Its /health reports that it is healthy."
        raise
    if wire.VERSION_HEADER.lower() in reply.headers:
        session.memory["revision"] = "bare"
    return reply


def _read_listing(session: Session, reply: Reply) -> _Listing:
    partial_document = strict_json.require_list(reply)
    document = partial_document.value
    # A list with bare items fits both revisions.
    shows_wrapped = isinstance(document, dict) and ("$schema" in document or "items" not in document)
    if shows_wrapped and wire.VERSION_HEADER.lower() not in reply.headers:
        session.memory["revision"] = "wrapped"
    entries = document
    if isinstance(document, dict):
        entries = next((document[m] for m in ("items", "tools") if isinstance(document.get(m), list)), None)
    if not isinstance(entries, list):
        raise ProtocolViolationError("SHAPE", "The reply has no array “items” and no array “tools”.")
    items, refused = paging.sort_entries(partial_document, entries, _read_item)
    readable_tools = {item.tool_id for item in items}
    rejected = []
    for row in refused:
        # A rejected item has the name of its tool, so that a known tool is not withdrawn, unless another
        # version of the tool is readable.
        tool = oxp_document.tool_of(row.entry.get("id") if isinstance(row.entry, dict) else None)
        is_readable = tool in readable_tools
        name = f"#{row.number}" if tool is None else f"{tool}@#{row.number}" if is_readable else tool
        rejected.append(RejectedItem(name, row.error.code, row.error.reason))
    notes = [*([_BARE_ARRAY] if isinstance(document, list) else []), *oxp_calls.note_other_version(reply)]
    return _Listing(items, rejected, hashlib.sha256(reply.body).hexdigest(), notes)


def _read_item(document: object) -> Item:
    if not isinstance(document, dict):
        raise members.wrong("item", document, "an object")
    tool_id, label = oxp_document.read_tool_id(document), oxp_document.read_version(document)
    content = members.content(document)
    return Item(
        tool_id, label, tuple(map(int, label.split("."))), hashlib.sha256(content).hexdigest(), document
    )
