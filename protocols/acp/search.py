"""The search by which an ACP server lists its agents, page by page.

There is no cursor and no total. Some servers answer only by name or version, some limit their replies, and
some ignore the offset; docs/protocols.md describes how each is handled.
"""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from core import strict_json
from core.outbound.errors import ProtocolViolationError, RefusedError
from protocols import members, paging
from protocols.acp import wire
from protocols.base import Session
from protocols.calls import outcomes
from protocols.list_pages import Ending, UnreadableItemError

MAX_ID_LENGTH = 255
_ID = re.compile(r"(?!\.\.?\Z)[^/?#\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


class AgentSearch:
    """Reads the agents of a server, reply by reply.

    position: the last request. ending: the reason why no further request is sent. A search ends with an empty
    reply. A short reply proves nothing, because a server may limit its replies. A server that ignores the
    offset repeats a reply.
    """

    def __init__(self, session: Session, queries_by_name: Sequence[dict[str, str]], page_size: int) -> None:
        self.ending = Ending.SIGN
        self._session = session
        self._queries: list[dict[str, str]] = [{}]
        self._queries_by_name = queries_by_name
        self._page_size = page_size
        self._offset = 0
        self._agents: set[str] = set()
        self._agents_of_query: set[str] = set()
        self._previous_reply: list[Any] | None = None

    @property
    def position(self) -> str:
        return urlencode({**self._queries[0], "offset": self._offset}) if self._queries else ""

    def read_next(self) -> list[Any] | None:
        """Return the entries of the next reply with new agents, or None after the last one.

        Raises ProtocolError.
        """
        self._advance()
        while self._queries:
            entries = self._search()
            distinct = _names(entries)
            ids = {name for name in distinct if not name.startswith("#")}
            is_repeated = entries == self._previous_reply or (bool(ids) and ids <= self._agents_of_query)
            if entries and is_repeated:
                self.ending = Ending.REPEATED
            if not entries or is_repeated:
                self._queries.pop(0)
                self._offset, self._agents_of_query, self._previous_reply = 0, set(), None
                continue
            is_new = not ids or not ids <= self._agents
            self._agents_of_query |= ids
            self._agents |= ids
            self._previous_reply = entries
            if is_new:
                return entries
            self._advance()
        return None

    def _advance(self) -> None:
        if previous := self._previous_reply:
            # In a reply that is longer than requested, a repeated agent counts once.
            is_within = len(previous) <= self._page_size
            self._offset += len(previous) if is_within else len(_names(previous))

    def _search(self) -> list[Any]:
        query = self._queries[0]
        body = {**query, "limit": self._page_size, "offset": self._offset}
        reply = self._session.post(
            wire.path(wire.AGENTS, wire.SEARCH), json=body, is_repeatable=True, accept=(200, 400, 422)
        )
        if reply.status != 200:
            explanation, _ = outcomes.explanation(reply)
            if not query and "name" in explanation.lower() and "version" in explanation.lower():
                if not self._queries_by_name:
                    message = "This server lists agents only by name or version."
                    raise RefusedError("NAMES_WANTED", f"{message} Enter them in the endpoint's settings.")
                self._queries = [*self._queries_by_name]
                return self._search()
            reason = f": {explanation}" if explanation else f" without a reason ({reply.status})."
            raise RefusedError(f"HTTP_{reply.status}", f"The vendor refused to list its agents{reason}")
        document = strict_json.require_list(reply)
        if not isinstance(document.value, list):
            raise ProtocolViolationError("SHAPE", "The reply is not an array of agents.")
        entries = []
        for entry in paging.check_item_count(document.value):
            if document.problem_in(entry) is None:
                entries.append(entry)
            else:
                # The id remains of an entry that cannot be stored, because its descriptor may be valid.
                entries.append({"agent_id": entry.get("agent_id")} if isinstance(entry, dict) else None)
        return entries


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
    """Return the id of an agent, or its number if it has no readable id."""
    try:
        return agent_id_of(entry)
    except UnreadableItemError:
        return f"#{number}"


def _names(entries: Sequence[Any]) -> set[str]:
    return {name_of_entry(entry, number) for number, entry in enumerate(entries)}
