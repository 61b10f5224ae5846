"""The client of MCP over streamable HTTP: lists and runs the tools of a vendor, in revisions 2024-11-05 to
2026-07-28.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools

A server's prompts and resources (context.py) are read after its tools. Nothing has versions here: a tool
is its name, and the digest shows what changed.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Self

from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.schema import audience
from core.translatable import mark as _
from protocols import members, paging
from protocols.base import Protocol, Session, Setting
from protocols.call_outcome import Outcome
from protocols.list_pages import (
    Ending,
    Item,
    ItemPage,
    KnownPages,
    NoKnownPages,
    Note,
)
from protocols.mcp import calls as mcp_calls
from protocols.mcp import context, eras
from protocols.mcp import document as mcp_document
from protocols.mcp import headers as mcp_headers
from protocols.mcp.context import ContextList
from protocols.mcp.context_requests import ContextRequest
from protocols.mcp.eras import Era
from protocols.mcp.recognition import RECOGNITION
from protocols.mcp.rpc import RpcRequest, RpcResponse
from protocols.mcp.subscriptions import ResourceSubscription, subscribe
from protocols.mcp.transport import Transport
from protocols.mcp.wire import HANDSHAKE, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from protocols.paging import PageGuard
from protocols.signature import CONTEXT_KINDS, Signature

NO_TOOL_LIST = "NO_TOOL_LIST"  # the server does not know the method of a list


class MCP(Protocol):
    name = "mcp"
    label = "MCP"
    summary = _("The vendor runs an MCP server over streamable HTTP.")
    url_hint = _("The address of the MCP server itself, such as https://api.example.com/mcp.")
    recognition = RECOGNITION
    revision = 1
    # The id of a session allows to send requests in it, and some stay open until a user has answered.
    unshown = frozenset({"mcp-session-id"})
    content_members = frozenset(
        {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"}
    )
    schema_members = frozenset({"inputSchema", "outputSchema"})
    needed_extensions = frozenset({mcp_headers.MARK})
    offers_context = True
    tells_of_cancel = True
    settings = (
        Setting(
            name="era",
            label=_("Revision of MCP"),
            kind="choice",
            choices=eras.CHOICES,
            help=_(
                "Automatic: the newest that the vendor speaks, and an older one for a tool that can ask its "
                "user in that one only."
            ),
        ),
    )
    tells_progress = True

    @property
    def _fixed_era(self) -> Era:
        return next((era for era, _words in eras.CHOICES if era == self.values["era"]), "")

    @classmethod
    def detected_properties(cls, memory: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
        facts = []
        if isinstance(version := memory.get("version"), str):
            facts.append(("Revision of MCP", printable(version, 20)))
        if tools := eras.tools_asking_in_handshake(memory):
            name = f"Called in a revision up to {HANDSHAKE[0]}, in which they can ask"
            facts.append((name, printable(", ".join(tools), 300)))
        return facts

    def enumerate(self, session: Session, known_pages: KnownPages) -> Iterator[ItemPage]:
        """Yield the pages of the tools, then those of each list that the server declares beside them."""
        with Transport(session, era=self._fixed_era) as transport:
            no_tools: Exception | None = None
            try:
                yield from _list_pages(transport, known_pages, TOOLS)
            except RefusedError as error:
                if error.code != NO_TOOL_LIST:
                    raise
                no_tools = error
            try:
                capabilities = transport.server_capabilities()
            except ProtocolError as error:
                if no_tools:
                    raise no_tools from error
                # A vendor without tools is refused. If only its prompts cannot be read, the stored ones stay.
                if not isinstance(error, RpcError) or error.number != METHOD_NOT_FOUND:
                    yield _unread_page(context.LISTS, error)
                return
            declared = [
                context_list
                for context_list in context.LISTS
                if capabilities.get(context_list.capability) is not None
            ]
            if no_tools and not declared:
                raise no_tools
            for context_list in declared:
                try:
                    yield from _list_pages(transport, known_pages, _List.of_context(context_list))
                except ProtocolError as error:
                    # Some servers declare resources and have no templates.
                    if not isinstance(error, RefusedError) or error.code != NO_TOOL_LIST:
                        yield _unread_page([context_list], error)

    def read(self, document: dict[str, Any]) -> Signature:
        if context_list := context.list_of_document(document):
            return context.read_signature(context_list, document)
        return mcp_document.read_signature(document)

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        return context.write(signature) if signature.kind in CONTEXT_KINDS else mcp_document.write(signature)

    def standard_form(self, document: dict[str, Any]) -> dict[str, Any]:
        if context.list_of_document(document):
            return document
        # Older revisions have the title among the annotations.
        claims = document.get("annotations") or {}
        if not isinstance(claims, dict):
            return document
        title = document.get("title") or claims.get("title")
        other_annotations = {
            name: value for name, value in claims.items() if name != "title" or value != title
        }
        return {**document, "title": title or None, "annotations": other_annotations or None}

    def audience_form(self, document: dict[str, Any], read_at: datetime | None) -> Any:
        if context_list := context.list_of_document(document):
            return context.audience_form(context_list, document)
        form = super().audience_form(document, read_at)
        if isinstance(claims := form.get("annotations"), dict):
            form["annotations"] = {
                name: claims[name] for name in claims.keys() & {"title", *mcp_document.HINTS}
            }
        return {**form, "execution": audience.without_extensions(form.get("execution"))}

    def kind_of(self, document: dict[str, Any]) -> str:
        context_list = context.list_of_document(document)
        return context_list.kind.replace("_", " ") if context_list else ""

    def notes(self, document: dict[str, Any], signature: Signature) -> Sequence[Note]:
        if signature.kind in CONTEXT_KINDS:
            return ()
        return [Note(code, message) for code, message in mcp_document.list_oddities(document, signature.name)]

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        with Transport(session, era=self._fixed_era) as transport:
            return _find_item(transport, tool_id)

    def versions(self, session: Session, tool_id: str) -> Iterator[ItemPage]:
        return iter(())

    def why_not_run(self, signature: Signature) -> Note | None:
        # Tasks have requests of their own, which only one revision of the protocol had.
        execution = (signature.rest or {}).get("execution")
        if isinstance(execution, dict) and execution.get("taskSupport") == "required":
            return Note(
                "NEEDS_TASK",
                "The vendor runs this tool as a task only, and Pegboard starts no tasks. Agents can use it "
                "through a runtime that does; ask the vendor to let it be called directly, too.",
            )
        return super().why_not_run(signature)

    def may_tell_partials(self, signature: Signature) -> bool:
        return True

    def invoke(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        arguments: Mapping[str, Any],
    ) -> Outcome:
        if signature.kind in CONTEXT_KINDS:
            return self._context_request(session, tool_id, signature).get(arguments)
        return mcp_calls.invoke(self._called_tool(session, tool_id, signature), arguments)

    def resume(
        self,
        session: Session,
        tool_id: str,
        label: str | None,
        signature: Signature,
        state: Mapping[str, Any],
        answers: Mapping[str, Any],
    ) -> Outcome:
        if signature.kind in CONTEXT_KINDS:
            return self._context_request(session, tool_id, signature).resume(state, answers)
        return mcp_calls.resume(self._called_tool(session, tool_id, signature), state, answers)

    def _context_request(self, session: Session, item_id: str, signature: Signature) -> ContextRequest:
        return ContextRequest(session, item_id, signature, self.context.questions, self._fixed_era)

    def _called_tool(self, session: Session, tool_id: str, signature: Signature) -> mcp_calls.CalledTool:
        return mcp_calls.CalledTool(
            session=session,
            tool_id=tool_id,
            signature=signature,
            listed_schema=_listed_schema,
            questions=self.context.questions,
            era=self._fixed_era,
        )

    def subscribe(
        self, session: Session, addresses: Sequence[str], seconds: float
    ) -> AbstractContextManager[ResourceSubscription]:
        return subscribe(session, addresses, self._fixed_era, seconds)

    def give_up(self, session: Session, state: Mapping[str, Any]) -> None:
        mcp_calls.give_up(session, state)


@dataclass(frozen=True, slots=True)
class _List:
    """One of the lists of a server. cursor_key: a prefix that distinguishes its cursors from those of
    tools.
    """

    method: str
    member: str
    identify: Callable[[object], Item]
    identity: Callable[[Mapping[str, Any]], str]
    cursor_key: str = ""

    @classmethod
    def of_context(cls, context_list: ContextList) -> Self:
        return cls(
            context_list.method,
            context_list.member,
            partial(context.identify, context_list),
            partial(context.item_id, context_list),
            f"{context_list.method} ",
        )

    def request_page(self, transport: Transport, known_pages: KnownPages, cursor: str | None) -> ItemPage:
        # The first page is cached under "", so the page of an empty cursor is not cached.
        key = f"{self.cursor_key}{cursor or ''}"
        answer = transport.ask(
            RpcRequest(
                self.method,
                {} if cursor is None else {"cursor": cursor},
                recall=lambda reply: None if cursor == "" else known_pages.recall(key, reply),
            )
        )
        return answer.page or self.parse_page(answer, cursor, is_modern=transport.is_modern)

    def parse_page(self, answer: RpcResponse, cursor: str | None, *, is_modern: bool) -> ItemPage:
        result = answer.result
        answer.document.require_whole(result)
        kind = result.get("resultType", "complete")
        if kind == "input_required":
            reason = "The vendor asks questions before it lists its tools, which a catalog cannot answer."
            raise ProtocolViolationError("INPUT_REQUIRED", reason)
        entries = result.get(self.member)
        if kind != "complete" or not isinstance(entries, list):
            reason = f"The reply has no array “{self.member}”, so it is no list."
            raise ProtocolViolationError("SHAPE", reason)
        items, refused = paging.sort_entries(answer.document, entries, self.identify)
        rejected = [entry.as_rejected_item(self.identity) for entry in refused]
        # Since 2026-07-28 an empty cursor is a cursor (server/utilities/pagination). Earlier servers mean no
        # cursor.
        after = result.get("nextCursor")
        is_last = after is None or (after == "" and not is_modern)
        return ItemPage(
            items=items,
            rejected=rejected,
            next=None if is_last else f"{self.cursor_key}{paging.cursor(after, 'nextCursor')}",
            cursor=f"{self.cursor_key}{cursor or ''}",
            body_digest="" if cursor == "" else hashlib.sha256(answer.reply.body).hexdigest(),
        )


def _unread_page(lists: Sequence[ContextList], error: ProtocolError) -> ItemPage:
    names = ", ".join(context_list.method for context_list in lists)
    message = f"Not read: {names}. {error.message} What is known of it stays as it was."
    return ItemPage(
        items=(),
        notes=[Note("LIST_NOT_READ", message)],
        unread_kinds=[context_list.kind for context_list in lists],
    )


def _list_pages(transport: Transport, known_pages: KnownPages, list_: _List) -> Iterator[ItemPage]:
    # If the vendor does not know a cursor any more, the list is read once more from its start. Pages of the
    # second pass without new items are skipped, because the caller would take them for a loop. So this
    # function guards the second pass against loops itself.
    item_ids: set[str] = set()
    item_ids_of_second_pass: set[str] | None = None
    guard = PageGuard()
    cursor: str | None = None
    first: tuple[set[str], str | None] | None = None
    while True:
        try:
            page = list_.request_page(transport, known_pages, cursor)
        except RpcError as error:
            if cursor == "" and error.number == INVALID_PARAMS:
                yield ItemPage(items=(), ending=Ending.REFUSED)
                return
            if cursor is None or item_ids_of_second_pass is not None or error.number != INVALID_PARAMS:
                raise _list_error(error, transport.host) from error
            cursor, item_ids_of_second_pass, first = None, set(), None
            continue
        tools = {item.tool_id for item in page.items} | {rejected.tool for rejected in page.rejected}
        if cursor == "" and (tools, page.next) == first:
            # The vendor ignores an empty cursor, so it meant the end of the list.
            yield ItemPage(items=(), ending=Ending.REPEATED)
            return
        first = first or (tools, page.next)
        if item_ids_of_second_pass is None or not tools <= item_ids:
            yield page
        if item_ids_of_second_pass is not None:
            item_ids_of_second_pass |= tools
            guard.check(page, tool_count=len(item_ids_of_second_pass))
        item_ids |= tools
        if page.next is None:
            return
        cursor = page.next.removeprefix(list_.cursor_key)


def _list_error(error: RpcError, host: str) -> Exception:
    if error.number == METHOD_NOT_FOUND:
        return RefusedError(NO_TOOL_LIST, f"{host} speaks MCP, but offers no tools.")
    if error.number == INTERNAL_ERROR:
        return UnavailableError(error.code, error.message)
    return error


def _identify_tool(document: object) -> Item:
    if not isinstance(document, dict):
        raise members.wrong("tool", document, "an object")
    tool_id = mcp_document.read_tool_id(document)
    mcp_document.read_input_schema(document)
    content = members.content(document)
    return Item(tool_id, "", (), hashlib.sha256(content).hexdigest(), document)


TOOLS = _List("tools/list", "tools", _identify_tool, mcp_document.read_tool_id)


def _find_item(transport: Transport, tool_id: str) -> Item:
    # The protocol has no request for one tool, so it is searched in the list.
    guard = PageGuard()
    item_ids: set[str] = set()
    context_list = context.list_of_id(tool_id)
    for page in _list_pages(
        transport, NoKnownPages(), _List.of_context(context_list) if context_list else TOOLS
    ):
        for item in page.items:
            if item.tool_id == tool_id:
                return item
        for rejected in page.rejected:
            if rejected.tool == tool_id:
                reason = f"lists the tool {printable(tool_id)}, but it cannot be read: {rejected.reason}"
                raise RefusedError(rejected.code, f"{transport.host} {reason}")
        item_ids.update([item.tool_id for item in page.items])
        item_ids.update([f"{rejected.tool} on page {guard.number}" for rejected in page.rejected])
        guard.check(page, tool_count=len(item_ids))
    raise RefusedError("NOT_FOUND", f"{transport.host} lists no tool {printable(tool_id)}.")


def _listed_schema(transport: Transport, tool_id: str) -> dict[str, Any]:
    return mcp_document.read_input_schema(_find_item(transport, tool_id).document or {})
