"""The client of OpenAPI: splits the document of a vendor into operations, and calls them."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from core.canonical_json import digest
from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, printable
from core.outbound.reply import Reply
from core.translatable import mark as _
from protocols.base import Protocol, Session, Setting
from protocols.call_outcome import CallError, Outcome
from protocols.calls import outcomes
from protocols.list_pages import (
    Item,
    ItemPage,
    KnownPages,
    Note,
    RejectedItem,
    UnreadableItemError,
    recall_all,
)
from protocols.openapi import audience_form, contents, holes
from protocols.openapi import document as openapi_document
from protocols.openapi import request as openapi_request
from protocols.openapi import security as openapi_security
from protocols.openapi import signature as openapi_signature
from protocols.openapi.cut import cut_of, names_in
from protocols.openapi.document import LEFT_OUT, NAME, OpenApiDocument, Operation
from protocols.openapi.recognition import ACCEPT, RECOGNITION
from protocols.openapi.request import UnusableArgumentError
from protocols.signature import Signature

PAGE_SIZE = 100
MAX_NAMED = 20
DEFAULT_MAX_BYTES = 32 * 1024 * 1024
WAY_TO_MORE = (
    "An administrator can raise “Megabytes of one reply” in the endpoint's settings: twice as many allow "
    "twice as many values."
)
_ETAG = re.compile(r"(?:W/)?[\x21-\x7e]{1,200}")
_CHANGES_INSIDE_A_VERSION = frozenset({"info"})

# Statuses that are the answer of the operation. The session handles all others.
_ANSWERS = (*range(200, 207), *(s for s in range(400, 500) if s not in (401, 408, 425, 429)))
_MAY_LACK_A_SLASH = ("REDIRECT", "NOT_FOUND")
_REPEATABLE = ("GET", "HEAD", "OPTIONS", "QUERY")


class OpenApi(Protocol):
    name = "openapi"
    label = "OpenAPI"
    summary = _("The vendor describes an HTTP API in one OpenAPI 3 or Swagger 2.0 document, in JSON or YAML.")
    url_hint = _("The address of the document, such as https://api.example.com/openapi.json.")
    settings = (
        Setting(
            name="server",
            label=_("Address for calls"),
            help=_("Where calls go. Without it they go where the document says, if that is the same server."),
        ),
        Setting(
            name="document",
            label=_("The document itself"),
            help=_("If it has no address, upload or paste it. Calls then go to the endpoint's own address."),
            kind="document",
        ),
        Setting(
            name="include_tags",
            label=_("Only these tags"),
            help=_("One per line. Nothing entered: all of them."),
            kind="lines",
        ),
        Setting(
            name="include_paths",
            label=_("Only these paths"),
            help=_("One per line, such as /orders for it and all below, or /*/status."),
            kind="lines",
        ),
        Setting(
            name="include_methods",
            label=_("Only these methods"),
            help=_("One per line, such as GET."),
            kind="lines",
        ),
        Setting(name="exclude_tags", label=_("Without these tags"), help=_("One per line."), kind="lines"),
        Setting(name="exclude_paths", label=_("Without these paths"), help=_("One per line."), kind="lines"),
    )
    outside_digest = _CHANGES_INSIDE_A_VERSION
    content_members = frozenset({"openapi", "servers", "paths", "components", "security", NAME})
    recognition = RECOGNITION
    lists_at_once = True
    way_to_less = (
        "Choose what you need with “Only these tags” or “Only these paths” in the endpoint's settings."
    )
    # 2: bodies of files, and of lines of JSON. 3: parameters that carry a credential are no inputs.
    # 4: members that only come back are no inputs at any depth.
    revision = 4

    @classmethod
    def credential_url(cls, url: str, settings: Mapping[str, Any]) -> str:
        return settings.get("server") or url

    def enumerate(self, session: Session, known_pages: KnownPages) -> Iterator[ItemPage]:
        reply = self._fetch_document(session, known_pages.etag("") if known_pages.count else "")
        if remembered := recall_all(known_pages, reply):
            yield from remembered
            return
        if reply.status == 304:
            reply = self._fetch_document(session, "")
        document = _parse_reply(session, reply)
        operations = [operation for operation in document.operations if self._includes_operation(operation)]
        notes = [*document.notes, *self._note_other_servers(document, operations, session.root)]
        etag = reply.headers.get("etag", "")
        for start in range(0, max(len(operations), 1), PAGE_SIZE):
            items, rejected = [], []
            for operation in operations[start : start + PAGE_SIZE]:
                try:
                    items.append(_build_item(document, operation))
                except UnreadableItemError as error:
                    rejected.append(RejectedItem(operation.tool_id, error.code, error.reason))
            after = start + PAGE_SIZE
            yield ItemPage(
                items=items,
                rejected=rejected,
                next=str(after) if after < len(operations) else None,
                notes=notes if start == 0 else (),
                cursor=str(start) if start else "",
                etag=etag if _ETAG.fullmatch(etag) else "",
                body_digest=hashlib.sha256(reply.body).hexdigest(),
            )

    def _fetch_document(self, session: Session, etag: str) -> Reply:
        if text := self.values["document"]:
            return Reply(200, {}, str(text).encode(), session.root)
        headers = {"Accept": ACCEPT} | ({"If-None-Match": etag} if etag else {})
        accept = (200, 304) if etag else (200,)
        try:
            return session.get("", headers=headers, accept=accept)
        except RefusedError as error:
            if error.code not in _MAY_LACK_A_SLASH:
                raise
            # The address was stored without its last slash, which some servers require.
            with suppress(RefusedError):
                return session.get("/", headers=headers, accept=accept)
            raise

    def _includes_operation(self, operation: Operation) -> bool:
        tags = {tag.casefold() for tag in operation.tags}
        only, never = self._lines_of_setting("include_tags"), self._lines_of_setting("exclude_tags")
        paths, methods = self._lines_of_setting("include_paths"), self._lines_of_setting("include_methods")
        return (
            (not only or not tags.isdisjoint(map(str.casefold, only)))
            and tags.isdisjoint(map(str.casefold, never))
            and (not paths or any(_covers_path(line, operation.path) for line in paths))
            and not any(
                _covers_path(line, operation.path) for line in self._lines_of_setting("exclude_paths")
            )
            and (not methods or operation.method.upper() in map(str.upper, methods))
        )

    def _lines_of_setting(self, name: str) -> list[str]:
        lines: list[str] = self.values[name] or []
        return lines

    def read(self, document: dict[str, Any]) -> Signature:
        return openapi_signature.read_signature(document)

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        return holes.write_document(signature)

    def errors(self, signature: Signature) -> Sequence[CallError]:
        return list(openapi_signature.errors(signature))

    def kind_of(self, document: dict[str, Any]) -> str:
        return cut_of(document).method.upper()

    def audience_form(self, document: dict[str, Any], read_at: datetime | None) -> Any:
        return audience_form.audience_form(super().audience_form(document, read_at), read_at)

    def notes(self, document: dict[str, Any], signature: Signature) -> Sequence[Note]:
        cut = cut_of(document)
        tool = f"“{printable(signature.name, 60)}”"
        described = {p["name"] for p in cut.operation.get("parameters", []) if p["in"] == "path"}
        notes = []
        if cut.operation.get("deprecated") is True:
            notes.append(Note("DEPRECATED", f"The vendor calls {tool} deprecated."))
        if undescribed := [name for name in names_in(cut.path) if name not in described]:
            missing = printable(undescribed[0], 60)
            message = f"{tool} has “{missing}” in its path and does not describe it."
            notes.append(Note("PATH_PARAMETER", message))
        if not contents.can_be_sent((signature.rest or {}).get("body", {}).get("media", "*/*")):
            message = f"{tool} takes a body of a kind that cannot be sent, so it cannot be run."
            notes.append(Note("BODY_KIND", message))
        if any(isinstance(schema, dict) and LEFT_OUT in schema for schema in cut.schemas.values()):
            message = f"{tool} is described at such length that a part of it is left out."
            notes.append(Note("LARGE_SCHEMAS", message))
        for words in openapi_security.unsupported(document, cut.operation):
            message = f"{tool} needs what no credential can hold: {words}."
            notes.append(Note("CREDENTIAL_KIND", message))
        return notes

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        document = _parse_reply(session, self._fetch_document(session, ""))
        for operation in document.operations:
            if operation.tool_id == tool_id:
                return _build_item(document, operation)
        raise RefusedError("NOT_FOUND", "The document describes no such operation any more.")

    def versions(self, session: Session, tool_id: str) -> Iterator[ItemPage]:
        # A document contains no earlier versions.
        return iter(())

    def why_not_run(self, signature: Signature) -> Note | None:
        body = (signature.rest or {}).get("body") or {}
        if not contents.can_be_sent(body.get("media", "application/json")):
            kind = printable(body["media"], 60)
            return Note(
                "BODY_KIND", f"This operation takes a body of the kind {kind}, which Pegboard cannot send."
            )
        return super().why_not_run(signature)

    def invoke(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome:
        try:
            call = openapi_request.build(signature, arguments)
            with session.at_url(self._base_address(session, signature)) as server:
                reply = server.request(
                    call.method,
                    call.path,
                    query=call.query,
                    headers=call.headers,
                    content=call.content,
                    accept=_ANSWERS,
                    is_repeatable=call.method in _REPEATABLE,
                )
            if reply.status >= 400:
                # The path names a record and not the operation, so 404 means that the record is missing.
                return outcomes.complaint(reply, keeps_body=True)
            outputs, notes = openapi_request.outputs_in(reply, signature)
        except UnusableArgumentError as error:
            message = "Some inputs do not fit."
            return outcomes.failed(
                "invalid_arguments", "ARGUMENTS", message, fields={error.name: error.reason}
            )
        except ProtocolError as error:
            return outcomes.convert_error(error)
        return outcomes.ok(outputs, signature, notes)

    def _base_address(self, session: Session, signature: Signature) -> str:
        cut = cut_of((signature.rest or {})["document"])
        if openapi_request.has_own_server(cut.own_servers, cut.document, session.root):
            allowed = str(self.values["server"] or session.root)
            return openapi_request.base_of_operation(cut.own_servers, session.root, allowed)
        if server := self.values["server"]:
            return str(server)
        if self.values["document"]:
            return session.root
        return openapi_request.base_of(cut.document, session.root)

    def _note_other_servers(
        self, document: OpenApiDocument, operations: Sequence[Operation], root: str
    ) -> Iterator[Note]:
        allowed = str(self.values["server"] or root)
        elsewhere = []
        for operation in operations:
            own_servers = document.own_servers(operation)
            if openapi_request.has_own_server(own_servers, document.root, root):
                _index, server = openapi_request.server_of(own_servers, root)
                if not server or not openapi_request.has_same_origin(server, allowed):
                    elsewhere.append(operation.name)
        if elsewhere:
            names = ", ".join(f"“{printable(name, 60)}”" for name in elsewhere[:MAX_NAMED])
            more = f" and {len(elsewhere) - MAX_NAMED:,} more" if len(elsewhere) > MAX_NAMED else ""
            yield Note(
                "SERVER",
                f"The document sends calls of {names}{more} to another server, so they cannot be run here. "
                "Connect that address as an endpoint of its own.",
            )


def _parse_reply(session: Session, reply: Reply) -> OpenApiDocument:
    # A larger document may contain more values, too: some have a hundred operations per megabyte.
    try:
        return openapi_document.parse(reply.body, max(1, session.largest // DEFAULT_MAX_BYTES))
    except ProtocolViolationError as error:
        if error.code != "JSON_TOO_MANY":
            raise
        message = f"{error.message} {WAY_TO_MORE}"
        raise ProtocolViolationError(error.code, message) from error


def _build_item(document: OpenApiDocument, operation: Operation) -> Item:
    cut = document.cut(operation)
    lasting = {member: value for member, value in cut.items() if member not in _CHANGES_INSIDE_A_VERSION}
    return Item(operation.tool_id, "", (), digest(lasting), cut)


def _covers_path(line: str, path: str) -> bool:
    # Whether the path equals the line or is below it; * matches any text.
    pattern = line.rstrip("/").replace("[", "[[]").replace("?", "[?]")
    return fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}/*")
