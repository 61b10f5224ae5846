"""The search by which an ACP server lists its agents, page by page.

There is no cursor and no total. Some servers answer only by name or version, some cap their replies, and some
heed no offset; docs/protocols.md has what is done about each.
"""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from core import strict_json
from core.outbound.errors import ProtocolViolationError, RefusedError
from protocols import members, paging
from protocols.acp import wire
from protocols.base import Ending, Session, UnreadableItemError
from protocols.calls import outcomes

MAX_ID_LENGTH = 255
_ID = re.compile(r"(?!\.\.?\Z)[^/?#\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


class AgentSearch:
    """Reads the agents of a server, reply by reply.

    `position` names the search that was sent last, and `ending` is the reason why no further one is sent.
    A search ends with an empty reply. A short reply proves nothing, as a server may cap its replies. A server
    that ignores the offset repeats a reply.
    """

    def __init__(self, session: Session, queries_by_name: Sequence[dict[str, str]], page_size: int) -> None:
        self.ending = Ending.SIGN
        self._session = session
        self._queries: list[dict[str, str]] = [{}]
        self._queries_by_name = queries_by_name
        self._page_size = page_size
        self._offset = 0
        self._seen: set[str] = set()
        self._listed: set[str] = set()  # by the query under way
        self._reply_before: list[Any] | None = None

    @property
    def position(self) -> str:
        return urlencode({**self._queries[0], "offset": self._offset}) if self._queries else ""

    def read_next(self) -> list[Any] | None:
        """Return the entries of the next reply that lists something new, or None after the last one.

        Raises ProtocolError.
        """
        self._advance()
        while self._queries:
            entries = self._search()
            distinct = _names(entries)
            ids = {name for name in distinct if not name.startswith("#")}
            is_repeated = entries == self._reply_before or (bool(ids) and ids <= self._listed)
            if entries and is_repeated:
                self.ending = Ending.REPEATED
            if not entries or is_repeated:
                self._queries.pop(0)
                self._offset, self._listed, self._reply_before = 0, set(), None
                continue
            is_new = not ids or not ids <= self._seen
            self._listed |= ids
            self._seen |= ids
            self._reply_before = entries
            if is_new:
                return entries
            self._advance()
        return None

    def _advance(self) -> None:
        if before := self._reply_before:
            # A reply that holds more than was asked for counts an agent that is in it twice as one step.
            is_within = len(before) <= self._page_size
            self._offset += len(before) if is_within else len(_names(before))

    def _search(self) -> list[Any]:
        query = self._queries[0]
        body = {**query, "limit": self._page_size, "offset": self._offset}
        reply = self._session.post(
            wire.path(wire.AGENTS, wire.SEARCH), json=body, is_repeatable=True, accept=(200, 400, 422)
        )
        if reply.status != 200:
            explanation, _ = outcomes.explanation(reply)
            if not query and "name" in explanation.lower() and "version" in explanation.lower():
                return self._search_by_name()
            reason = f": {explanation}" if explanation else f", without a word ({reply.status})."
            raise RefusedError(f"HTTP_{reply.status}", f"The vendor refused to list its agents{reason}")
        document = strict_json.require_list(reply)
        if not isinstance(document.value, list):
            raise ProtocolViolationError("SHAPE", "The reply is no array of agents.")
        return [_storable(document, entry) for entry in paging.counted(document.value)]

    def _search_by_name(self) -> list[Any]:
        if not self._queries_by_name:
            raise RefusedError(
                "NAMES_WANTED",
                "This server lists agents only by name or version. Enter them in the endpoint's settings.",
            )
        self._queries = [*self._queries_by_name]
        return self._search()


def agent_id_of(entry: object) -> str:
    """Return the id of an agent. Raises UnreadableItemError."""
    if not isinstance(entry, dict):
        raise members.wrong("agent", entry, "an object")
    agent_id = entry.get("agent_id")
    if isinstance(agent_id, str) and len(agent_id) <= MAX_ID_LENGTH and _ID.fullmatch(agent_id):
        return agent_id
    expected = f"text of 1 to {MAX_ID_LENGTH} characters without / ? # and control characters"
    raise members.wrong("agent_id", agent_id, expected, code="BAD_TOOL_ID")


def name_of_entry(entry: object, number: int) -> str:
    """Return the id of an agent, or its number where it has no id that can be read."""
    try:
        return agent_id_of(entry)
    except UnreadableItemError:
        return f"#{number}"


def _names(entries: Sequence[Any]) -> set[str]:
    return {name_of_entry(entry, number) for number, entry in enumerate(entries)}


def _storable(document: strict_json.PartialDocument, entry: Any) -> Any:
    # The entry, or of one that cannot be stored the id alone: its descriptor may be all right.
    if document.problem_in(entry) is None:
        return entry
    return {"agent_id": entry.get("agent_id")} if isinstance(entry, dict) else None
