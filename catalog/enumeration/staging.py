"""The staging table of an enumeration, and the data that is kept with it.

The table is temporary and belongs to one database session, so a killed run leaves nothing behind. Behind a
pooler, where a session lasts one transaction, the rows wait in a file for the transaction that merges
them. Ids are drawn while staging, so that a new tool and its first version, which refer to each other, are
each written once.
"""

import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar

import msgspec
import psycopg
from django.db import connection

from catalog.models import Finding, KnownPage, Rejection
from catalog.models.tools import item_kind
from catalog.pictures.addresses import image_address
from catalog.rules import policy
from catalog.token_estimate import tokens_of
from core.canonical_json import canonical, parse_document
from core.failpoints import failpoint
from core.server_session import session_of
from protocols import signature
from protocols.list_pages import Item, Note
from protocols.signature import Signature


class StagedTool(msgspec.Struct, frozen=True):
    """A decoded new or changed tool. `tool_pk`: None for a new one.

    nth: counts the staged versions of one tool from 1. same_label_before: counts those with its label before
    it.
    A list has each tool once.
    """

    tool_pk: int | None
    tool_id: str
    label: str
    label_key: list[int]
    digest: str
    name: str
    title: str
    description: str
    tags: list[str]
    tokens: int
    signature: str
    raw: str
    image: str
    nth: int = 1
    same_label_before: int = 0
    kind: str = "tool"

    def to_copy_line(self) -> str:
        """Return a row in the text format of COPY."""
        # Half the time of adapting every value by its type.
        tags = ",".join(['"' + tag.replace("\\", "\\\\").replace('"', '\\"') + '"' for tag in self.tags])
        texts = (
            *(self.tool_id, self.label, f"{{{','.join(map(str, self.label_key))}}}", self.digest),
            *(self.name, self.title, self.description, f"{{{tags}}}", str(self.tokens)),
            *(self.signature, self.raw, self.image),
        )
        counts = (str(self.nth), str(self.same_label_before))
        return "\t".join([str(self.tool_pk or r"\N"), *map(_escape_field, texts), *counts, self.kind]) + "\n"


def staged_tool(
    tool_pk: int | None, item: Item, decoded: Signature, nth: int = 1, same_label_before: int = 0
) -> StagedTool:
    return StagedTool(
        tool_pk=tool_pk,
        tool_id=item.tool_id,
        label=item.label,
        label_key=list(item.label_key),
        digest=item.digest,
        name=decoded.name,
        title=decoded.title,
        description=decoded.description,
        tags=list(decoded.tags),
        tokens=tokens_of(decoded),
        signature=signature.to_json(decoded).decode(),
        raw=canonical(item.document or {}).decode(),
        image=image_address(decoded),
        nth=nth,
        same_label_before=same_label_before,
        kind=item_kind(decoded),
    )


@dataclass(frozen=True, slots=True)
class AssessedTool:
    """A changed tool that raised an alarm or that the policy stops.

    version: the name of the version, "" without a label. alarms: as a version stores them.
    """

    stop: policy.Stop | None
    version: str
    alarms: str


@dataclass(slots=True)
class Harvest:
    """The results of one complete enumeration besides the staged tools.

    respelt: ids with another spelling. relisted: tools with changes that affect no model and no call; their
    documents are staged. as_version: tools that are listed as one of their versions again.
    images: the image addresses of the tools, "" for a tool without one.
    """

    pages: int = 0
    seen: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    was_active: int = 0
    missing: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    respelt: dict[int, str] = field(default_factory=dict)
    relisted: set[int] = field(default_factory=set)
    as_version: set[int] = field(default_factory=set)
    images: dict[int, str] = field(default_factory=dict)
    rejections: list[Rejection] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: dict[str, dict[str, object]] = field(default_factory=dict)
    known_pages: list[KnownPage] = field(default_factory=list)
    assessed: dict[int, AssessedTool] = field(default_factory=dict)
    spool: "Spool | None" = None

    def note(self, note: Note) -> None:
        """Count a deviation. Its first message stays."""
        facts = self.notes.setdefault(note.code, {"code": note.code, "message": note.message, "count": 0})
        facts["count"] = int(str(facts["count"])) + 1

    def drop_refused(self, refused_tools: Collection[int]) -> None:
        """Leave these tools as they are stored. A refused older version is still reported."""
        self.findings = [
            row for row in self.findings if row.code == "VERSION_BACK" or row.tool_id not in refused_tools
        ]
        self.respelt = {pk: tool_id for pk, tool_id in self.respelt.items() if pk not in refused_tools}
        self.relisted.difference_update(refused_tools)
        self.as_version.difference_update(refused_tools)
        self.images = {pk: image for pk, image in self.images.items() if pk not in refused_tools}


COLUMNS = ", ".join(StagedTool.__struct_fields__)

# The sequences are looked up once, not for each row.
SEQUENCES = """
SELECT pg_get_serial_sequence('catalog_tool', 'id'), pg_get_serial_sequence('catalog_toolversion', 'id')
"""
CREATE = """
DROP TABLE IF EXISTS pg_temp.staged_tool;
CREATE TEMP TABLE staged_tool (
    tool_pk bigint, tool_id text NOT NULL, label text NOT NULL, label_key bigint[] NOT NULL,
    digest text NOT NULL, name text NOT NULL, title text NOT NULL, description text NOT NULL,
    tags text[] NOT NULL, tokens integer NOT NULL, signature text NOT NULL, raw text NOT NULL,
    image text NOT NULL, nth integer NOT NULL, same_label_before integer NOT NULL, kind text NOT NULL,
    new_pk bigint NOT NULL DEFAULT nextval(%s::regclass),
    version_pk bigint NOT NULL DEFAULT nextval(%s::regclass),
    is_stored boolean NOT NULL DEFAULT false,
    stop text NOT NULL DEFAULT '', severity text NOT NULL DEFAULT '', why text NOT NULL DEFAULT '',
    alarms text
) {lifetime}
"""
CREATE_RELISTED = """
DROP TABLE IF EXISTS pg_temp.relisted_document;
CREATE TEMP TABLE relisted_document (tool_pk bigint NOT NULL, digest text NOT NULL, raw text NOT NULL)
{lifetime}
"""
PUT_RELISTED = """
INSERT INTO relisted_document SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[])
"""


IN_MEMORY = 8 << 20  # bytes in memory; more is written to a file


class Spool:
    """Staged rows in a file of this process, and how the staging tables are filled with them."""

    def __init__(self) -> None:
        self._tools = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed with this
        self._relisted = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
        self._removed: set[str] = set()
        for file in (self._tools, self._relisted):
            weakref.finalize(self, file.close)

    def put(self, tools: Iterable[StagedTool]) -> None:
        self._tools.seek(0, 2)
        self._tools.writelines(msgspec.json.encode(tool) + b"\n" for tool in tools)

    def put_relisted(self, rows: Iterable[tuple[int, str, str]]) -> None:
        self._relisted.seek(0, 2)
        self._relisted.writelines(msgspec.json.encode(row) + b"\n" for row in rows)

    def remove(self, tool_ids: Iterable[str]) -> None:
        self._removed.update(tool_ids)

    def tools(self) -> Iterator[StagedTool]:
        self._tools.seek(0)
        for line in self._tools:
            tool = msgspec.json.decode(line, type=StagedTool)
            if tool.tool_id not in self._removed:
                yield tool

    def fill_tables(self) -> None:
        """Stage the rows in tables that end with the transaction around this."""
        with Stage() as stage:
            for tools in _split_batches(self.tools()):
                stage.put(tools)
            stage.settle()
            self._relisted.seek(0)
            lines = (msgspec.json.decode(line, type=tuple[int, str, str]) for line in self._relisted)
            for rows in _split_batches(lines):
                stage.put_relisted_rows(rows)


BATCH = 500
Row = TypeVar("Row")


def _split_batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(islice(rows, BATCH)):
        yield batch


class Stage:
    """The staging table of this session, created for the first tools.

    Rows go into one open COPY, so that the database works while the next ones are decoded. Do not use the
    connection between `put` and `settle`, and settle before the next request to the vendor, because the
    server ends a statement that waits for long.
    spool: the rows behind a pooler, None if they are in the table.
    """

    def __init__(self) -> None:
        self.spool: Spool | None = None
        self._is_made = False
        self._has_relisted = False
        self._copying = ExitStack()
        self._rows: psycopg.Copy | None = None
        connection.ensure_connection()
        if session_of(connection.connection).is_pooled and not connection.in_atomic_block:
            self.spool = Spool()

    def __enter__(self) -> "Stage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with connection.wrap_database_errors:
            self._copying.__exit__(kind, error, trace)

    def put(self, tools: Sequence[StagedTool]) -> None:
        if not tools:
            return
        if self.spool:
            self.spool.put(tools)
            failpoint("staging")
            return
        if not self._is_made:
            with connection.cursor() as cursor:
                cursor.execute(SEQUENCES)
                cursor.execute(CREATE.format(lifetime=_table_lifetime()), cursor.fetchone())
            self._is_made = True
        with connection.wrap_database_errors:
            if self._rows is None:
                cursor = self._copying.enter_context(connection.connection.cursor())
                self._rows = self._copying.enter_context(
                    cursor.copy(f"COPY staged_tool ({COLUMNS}) FROM STDIN")
                )
            self._rows.write("".join([tool.to_copy_line() for tool in tools]))
            failpoint("staging")

    def put_relisted(self, documents: Mapping[int, Item]) -> None:
        """Stage documents, by tool, that make no version. Not between `put` and `settle`."""
        rows = [(tool, item.digest, canonical(item.document).decode()) for tool, item in documents.items()]
        if self.spool:
            self.spool.put_relisted(rows)
        else:
            self.put_relisted_rows(rows)

    def put_relisted_rows(self, rows: Sequence[tuple[int, str, str]]) -> None:
        if not rows:
            return
        with connection.cursor() as cursor:
            if not self._has_relisted:
                cursor.execute(CREATE_RELISTED.format(lifetime=_table_lifetime()))
                self._has_relisted = True
            cursor.execute(PUT_RELISTED, [list(column) for column in zip(*rows, strict=True)])

    def settle(self) -> None:
        """Wait until everything is in the table. Raises the error of the background write, if it failed."""
        if self._rows is not None:
            self._rows = None
            with connection.wrap_database_errors:
                self._copying.close()

    def remove(self, tool_ids: Sequence[str]) -> None:
        if self.spool:
            self.spool.remove(tool_ids)
        elif tool_ids:
            with connection.cursor() as cursor:
                cursor.execute("DELETE FROM staged_tool WHERE tool_id = ANY(%s)", [list(tool_ids)])

    def documents(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the vendor's id and the document of each staged tool. At least one was staged."""
        if self.spool:
            yield from ((tool.tool_id, parse_document(tool.raw)) for tool in self.spool.tools())
            return
        with connection.chunked_cursor() as cursor:
            cursor.execute("SELECT tool_id, raw FROM staged_tool")
            while rows := cursor.fetchmany(250):
                yield from ((tool_id, parse_document(raw)) for tool_id, raw in rows)


def _table_lifetime() -> str:
    # A list is read outside of transactions, and its table is dropped by the one that merges it.
    return "ON COMMIT DROP" if connection.in_atomic_block else ""


def _escape_field(text: str) -> str:
    # Replacing is much faster than `str.translate`, and most texts need no replacement.
    if "\\" in text or "\t" in text or "\n" in text or "\r" in text:
        text = text.replace("\\", r"\\").replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
    return text
