"""The client of A2T: lists, fetches and runs the tools of a vendor.

The drafts leave much open, and their examples are not JSON. This client accepts every reasonable reading of
them; docs/protocols.md lists them.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from core import strict_json
from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, printable
from core.outbound.reply import Reply
from core.translatable import mark as _
from protocols import members, paging
from protocols.a2t import document as a2t_document
from protocols.a2t import wire
from protocols.a2t.recognition import RECOGNITION
from protocols.base import Protocol, Session, Setting
from protocols.call_outcome import Outcome
from protocols.calls import outcomes
from protocols.list_pages import (
    Item,
    ItemPage,
    KnownPages,
    NoKnownPages,
    Note,
    RejectedItem,
)
from protocols.signature import Signature

_ETAG = re.compile(r"[\x21-\x7e]{1,200}")

# Statuses about the call itself. The session handles all others.
_CALL_STATUSES = (200, 201, 202, 203, 204, *(s for s in range(400, 500) if s not in (401, 408, 425, 429)))


class A2T(Protocol):
    name = "a2t"
    label = "A2T / N-ACT"
    summary = _("The vendor lists and runs its tools under /tools, as JSON.")
    url_hint = _("The address of the list, such as https://api.example.com/tools, or the part before /tools.")
    settings = (
        Setting(
            name="page_size",
            label=_("Tools per page"),
            help=_("How many tools to ask for at a time. A vendor may send fewer."),
            kind="integer",
            default=100,
            minimum=1,
            maximum=1000,
        ),
    )
    recognition = RECOGNITION
    fetches_alone = True
    promises = frozenset(
        {"locked_versions", "growing_versions", "additive_changes", "unique_names", "stable_ids"}
    )
    outside_digest = frozenset({"currentVersion"})
    # `img` is only for people.
    content_members = a2t_document.MEMBERS - {"img"}
    revision = 1

    def enumerate(self, session: Session, known_pages: KnownPages) -> Iterator[ItemPage]:
        return self._pages(session, _tools(session), known_pages, is_listing=True)

    @classmethod
    def own_path(cls, path: str) -> str:
        return path.removesuffix(wire.TOOLS)  # see `_tools`

    def read(self, document: dict[str, Any]) -> Signature:
        return a2t_document.read_signature(document)

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        return a2t_document.write(signature, tool_id, label)

    def standard_form(self, document: dict[str, Any]) -> dict[str, Any]:
        return a2t_document.standard_form(document)

    def audience_form(self, document: dict[str, Any], read_at: datetime | None) -> Any:
        form = super().audience_form(document, read_at)
        for member in (wire.INPUTS, wire.OUTPUTS):
            form[member] = [a2t_document.audience_form(parameter, read_at) for parameter in form[member]]
        return form

    def notes(self, document: dict[str, Any], signature: Signature) -> Sequence[Note]:
        return [Note(code, message) for code, message in a2t_document.oddities(document, signature)]

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        document = strict_json.require_json(session.get(_tools(session) + wire.tool_path(tool_id, label)))
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            document = document["items"]
        if isinstance(document, list) and len(document) == 1:
            document = document[0]
        item = _identified(document, is_listing=label is None)
        if item.tool_id.lower() != tool_id.lower() or (label is not None and item.label != label):
            raise ProtocolViolationError("WRONG_TOOL", "The vendor returned another tool or version.")
        return item

    def versions(self, session: Session, tool_id: str) -> Iterator[ItemPage]:
        path = _tools(session) + wire.versions_path(tool_id)
        try:
            for page in self._pages(session, path, NoKnownPages(), is_listing=False):
                # Versions of other tools are rejected.
                strays = [item for item in page.items if item.tool_id.lower() != tool_id.lower()]
                message = "The list of versions of another tool contains it."
                rejected = [RejectedItem(item.tool_id, "WRONG_TOOL", message) for item in strays]
                items = [item for item in page.items if item not in strays]
                yield replace(page, items=items, rejected=[*page.rejected, *rejected])
        except RefusedError as error:
            # Older versions are optional.
            if error.code != "NOT_FOUND":
                raise

    def invoke(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome:
        names = [parameter.name for parameter in signature.inputs]
        inputs = {name: arguments[name] for name in names if arguments.get(name) is not None}
        body = wire.call(signature.name, inputs)
        try:
            path = _tools(session) + wire.invoke_path(tool_id, label)
            reply = session.post(path, json=body, accept=_CALL_STATUSES)
            if reply.status >= 400:
                look_up = partial(session.get, _tools(session) + wire.tool_path(tool_id, label))
                return outcomes.complaint(reply, look_up=look_up, keeps_body=True)
            if not reply.body.strip():
                note = Note("EMPTY_REPLY", "The reply of the tool was empty.")
                return outcomes.ok({}, signature, [note])
            answer = strict_json.require_answer(reply)
            document = answer.value
            entries = document.get(wire.OUTPUTS) if isinstance(document, dict) else document
            if not isinstance(entries, list):
                raise ProtocolViolationError("SHAPE", "The reply has no array “output_parameters”.")
        except ProtocolError as error:
            return outcomes.convert_error(error)
        values = [entry for entry in wire.names_and_values(entries) if entry]
        notes = [*outcomes.notes_on(answer)]
        notes += [Note("BAD_OUTPUT", "An output without a name was ignored.")] * (len(entries) - len(values))
        return outcomes.ok(dict(values), signature, notes)

    def _pages(
        self, session: Session, path: str, known_pages: KnownPages, *, is_listing: bool
    ) -> Iterator[ItemPage]:
        cursor: str | None = ""
        while cursor is not None:
            params = {wire.PAGE_LIMIT: str(self.values["page_size"])}
            etag = known_pages.etag(cursor)
            reply = session.get(
                path,
                params=params | ({wire.PAGE_CURSOR: cursor} if cursor else {}),
                headers={"If-None-Match": etag} if etag else None,
                accept=(200, 304) if etag else (200,),
            )
            page = known_pages.recall(cursor, reply) or _page_in(reply, cursor, session.root, is_listing)
            yield page
            cursor = page.next


def _tools(session: Session) -> str:
    # The drafts allow the address of the list as root. Other requests are then below it.
    return "" if urlsplit(session.root).path.rstrip("/").endswith(wire.TOOLS) else wire.TOOLS


def _page_in(reply: Reply, cursor: str, root: str, is_listing: bool) -> ItemPage:
    partial_document = strict_json.require_list(reply)
    document, notes = partial_document.value, []
    if isinstance(document, list):
        notes = [Note("BARE_ARRAY", "The list is a bare array without “items”.")]
        document = {"items": document}
    if not isinstance(document, dict) or not isinstance(document.get("items"), list):
        is_other_protocol = isinstance(document, dict) and "tools" in document
        hint = " A list under “tools” belongs to another protocol." if is_other_protocol else ""
        message = f"The reply has no array “items”, so it is not a list of A2T.{hint}"
        raise ProtocolViolationError("SHAPE", message)
    next_page = document.get("paging") or {}
    if not isinstance(next_page, dict):
        raise ProtocolViolationError("SHAPE", "“paging” is not an object, so the next page is unknown.")
    items, refused = paging.sort_entries(
        partial_document, document["items"], partial(_identified, is_listing=is_listing)
    )
    rejected = [entry.as_rejected_item(a2t_document.read_tool_id) for entry in refused]
    after = next_page.get("next")
    if after == "":
        after = None
    elif after is not None:
        cursor_or_url = paging.cursor(after, "paging.next")
        after = paging.cursor_of_url(cursor_or_url, wire.PAGE_CURSOR, root, "paging.next")
    etag = reply.headers.get("etag", "")
    return ItemPage(
        items=items,
        rejected=rejected,
        next=after,
        notes=notes,
        cursor=cursor,
        etag=etag if _ETAG.fullmatch(etag) else "",
        body_digest=hashlib.sha256(reply.body).hexdigest(),
    )


def _identified(document: object, *, is_listing: bool) -> Item:
    # This runs for every tool of every changed page, so it reads only what it needs.
    if not isinstance(document, dict):
        raise members.wrong("item", document, "an object")
    tool_id = a2t_document.read_tool_id(document)
    version = a2t_document.read_version(document)
    frozen = document.copy()
    current = frozen.pop("currentVersion", None)
    content = members.content(frozen)
    label = str(version)
    notes: tuple[Note, ...] = ()
    if is_listing and current is not None and current != version and current != label:
        message = (
            f"{printable(tool_id)} is listed as version {label}, but declares another version as current."
        )
        notes = (Note("NOT_CURRENT", message),)
    return Item(tool_id, label, (version,), hashlib.sha256(content).hexdigest(), document, notes)
