"""A vendor of the suite that speaks any of the five protocols, and misbehaves on demand.

`Shop` is a script for `HostileVendor`. It lists `tools`. `hostile` takes its place for the
requests of the list; `turn` changes single pages of it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.hostile.dialects import PAGE, Dialect, altered, encoded
from tests.hostile_vendor import Line, Request, Script, reply

# Gets the number of the page (1, 2, ...) and the page; gives another page, bytes or a whole script.
Turn = Callable[[int, Any], Any]
NOT_THERE = reply(b'{"message": "nothing here"}', status=404)


class Shop:
    def __init__(self, dialect: Dialect, tools: Sequence[Any]) -> None:
        self.dialect = dialect
        self.tools = list(tools)
        self.hostile: Script | None = None
        self.beside: Script | None = None
        self.turn: Turn | None = None
        self.describe: Callable[[Request, Sequence[Any]], Any] | None = None
        self.headers: Mapping[str, str] = {}
        self.page_size = PAGE
        self.is_to_recover = False

    def __call__(self, line: Line, request: Request) -> bool | None:
        if not self.dialect.is_list(request):
            return self._extra_reply(request)(line, request)
        if self.hostile:
            return self.hostile(line, request)
        return self._answer(request)(line, request)

    def well(self) -> None:
        """Behaves again."""
        self.hostile = self.turn = self.beside = self.describe = None
        self.headers = {}

    def _extra_reply(self, request: Request) -> Script:
        if self.beside:
            return self.beside
        reply = (self.describe or self.dialect.extra_reply)(request, altered(self.tools))
        return NOT_THERE if reply is None else self._reply(reply)

    def _answer(self, request: Request) -> Script:
        cursor = self.dialect.cursor_of(request)
        start = int(cursor) if cursor.isdigit() else 0
        end = start + self.page_size if self.dialect.is_paged else len(self.tools)
        after = str(end) if end < len(self.tools) else None
        page = self.dialect.page(self.tools[start:end], after, request)
        if self.turn:
            page = self.turn(start // self.page_size + 1, altered(page))
        return self._reply(page)

    def _reply(self, page: Any) -> Script:
        if callable(page):
            return page
        return reply(page if isinstance(page, bytes) else encoded(page), headers=self.headers)
