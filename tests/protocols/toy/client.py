import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from core import strict_json
from core.outbound.errors import ProtocolError, ProtocolViolationError
from core.outbound.reply import Reply
from protocols import members, paging
from protocols.base import Protocol, Session
from protocols.call_outcome import Outcome
from protocols.calls import outcomes
from protocols.list_pages import Item, ItemPage, KnownPages, RejectedItem, UnreadableItemError
from protocols.signature import Signature
from tests.protocols.toy import document as toy_document
from tests.protocols.toy import wire
from tests.protocols.toy.recognition import RECOGNITION

# The statuses that are about the call itself. The session turns all others into errors.
_ANSWERS = (200, 400, 409, wire.FAILED)


class Toy(Protocol):
    name = "toy"
    label = "Toy"
    summary = "The vendor lists tools without versions in catalog.json."
    url_hint = "The address of the folder that holds catalog.json."
    recognition = RECOGNITION

    def enumerate(self, session: Session, known: KnownPages) -> Iterator[ItemPage]:
        cursor: str | None = ""
        while cursor is not None:
            reply = session.get(wire.LIST, params={"after": cursor} if cursor else None)
            page = known.recall(cursor, reply) or _page(reply, cursor)
            yield page
            cursor = page.next

    def read(self, document: dict[str, Any]) -> Signature:
        return toy_document.read(document)

    def write(self, signature: Signature, tool_id: str, label: str) -> dict[str, Any]:
        return toy_document.write(signature, tool_id)

    def fetch(self, session: Session, tool_id: str, label: str | None = None) -> Item:
        return _item(strict_json.require_json(session.get(wire.tool_path(tool_id))))

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
        try:
            reply = session.post(wire.run_path(tool_id), json=dict(arguments), accept=_ANSWERS)
            if reply.status >= 400:
                return outcomes.complaint(reply)
            answer = strict_json.require_answer(reply)
        except ProtocolError as error:
            return outcomes.convert_error(error)
        return outcomes.ok(answer.value, signature, outcomes.notes_on(answer))


def _page(reply: Reply, cursor: str) -> ItemPage:
    document = strict_json.require_list(reply)
    items_listed = document.value.get("tools") if isinstance(document.value, dict) else None
    if not isinstance(items_listed, list):
        raise ProtocolViolationError("SHAPE", "The reply has no array “tools”.")
    items, refused = paging.sort_entries(document, items_listed, _item)
    rejected = [RejectedItem(_name(r.entry, r.number), r.error.code, r.error.reason) for r in refused]
    more = document.value.get("more")
    return ItemPage(
        items=items,
        rejected=rejected,
        next=None if more is None else paging.cursor(more, "more"),
        cursor=cursor,
        body_digest=hashlib.sha256(reply.body).hexdigest(),
    )


def _item(document: object) -> Item:
    if not isinstance(document, dict):
        raise members.wrong("tool", document, "an object")
    digest = hashlib.sha256(members.content(document)).hexdigest()
    return Item(toy_document.read_tool_id(document), "", (), digest, document)


def _name(entry: object, number: int) -> str:
    try:
        return toy_document.read_tool_id(entry) if isinstance(entry, dict) else f"#{number}"
    except UnreadableItemError:
        return f"#{number}"
