"""What an enumeration has read, on its way into the catalog: the staging table, and what is known beside it.

The table is temporary and belongs to one connection, so a killed run leaves nothing behind. Ids are drawn
while staging, so a new tool and its first version, which point at each other, are each written once.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import msgspec
import psycopg
from django.db import connection

from catalog.models import Finding, KnownPage, Rejection
from catalog.protocols import base, signature
from catalog.protocols.base import Item
from catalog.protocols.signature import Signature
from catalog.rules import policy
from catalog.token_estimate import tokens_of
from core.failpoints import failpoint


class StagedTool(msgspec.Struct, frozen=True):
    """One new or changed tool, decoded. `tool_pk` is None for a tool the catalog has not seen.

    `nth` counts the staged versions of one tool from 1, and `same_label_before` those of them with its label
    that come before it. A list shows each tool once.
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
    nth: int = 1
    same_label_before: int = 0


def staged_tool(
    tool_pk: int | None, item: Item, read: Signature, nth: int = 1, same_label_before: int = 0
) -> StagedTool:
    return StagedTool(
        tool_pk=tool_pk,
        tool_id=item.tool_id,
        label=item.label,
        label_key=list(item.label_key),
        digest=item.digest,
        name=read.name,
        title=read.title,
        description=read.description,
        tags=list(read.tags),
        tokens=tokens_of(read),
        signature=signature.to_json(read).decode(),
        raw=base.canonical(item.document or {}).decode(),
        nth=nth,
        same_label_before=same_label_before,
    )


@dataclass(frozen=True, slots=True)
class Assessed:
    """A changed tool that raised an alarm or that the policy stops.

    `version` is the name of the version, empty where the vendor numbers nothing; `alarms` are as a version
    keeps them.
    """

    stop: policy.Stop | None
    version: str
    alarms: str


@dataclass(slots=True)
class Harvest:
    """What one complete enumeration found, beside the staged tools.

    `respelt` are ids in other letters. `relisted` are tools of which only that changed which no model sees
    and no call needs: their documents are staged. `as_version` are tools listed as their versions again.
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
    rejections: list[Rejection] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: dict[str, dict[str, object]] = field(default_factory=dict)
    known_pages: list[KnownPage] = field(default_factory=list)
    assessed: dict[int, Assessed] = field(default_factory=dict)


COLUMNS = ", ".join(StagedTool.__struct_fields__)

# The sequences are looked up once, and not for each row.
SEQUENCES = """
SELECT pg_get_serial_sequence('catalog_tool', 'id'), pg_get_serial_sequence('catalog_toolversion', 'id')
"""
CREATE = """
DROP TABLE IF EXISTS pg_temp.staged_tool;
CREATE TEMP TABLE staged_tool (
    tool_pk bigint, tool_id text NOT NULL, label text NOT NULL, label_key bigint[] NOT NULL,
    digest text NOT NULL, name text NOT NULL, title text NOT NULL, description text NOT NULL,
    tags text[] NOT NULL, tokens integer NOT NULL, signature text NOT NULL, raw text NOT NULL,
    nth integer NOT NULL, same_label_before integer NOT NULL,
    new_pk bigint NOT NULL DEFAULT nextval(%s::regclass),
    version_pk bigint NOT NULL DEFAULT nextval(%s::regclass),
    is_stored boolean NOT NULL DEFAULT false,
    stop text NOT NULL DEFAULT '', severity text NOT NULL DEFAULT '', why text NOT NULL DEFAULT '',
    alarms text
)
"""
CREATE_RELISTED = """
DROP TABLE IF EXISTS pg_temp.relisted_document;
CREATE TEMP TABLE relisted_document (tool_pk bigint NOT NULL, digest text NOT NULL, raw text NOT NULL)
"""
PUT_RELISTED = """
INSERT INTO relisted_document SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[])
"""


class Stage:
    """The staging table of this connection, made for the first tools that are put there.

    Rows go into one open COPY, so that the database works on them while the next ones are decoded. Leave
    the connection alone between `put` and `settle`, and settle before the vendor is asked for more: the
    server ends a statement that waits for a slow vendor.
    """

    def __init__(self) -> None:
        self._is_made = False
        self._has_relisted = False
        self._copying = ExitStack()
        self._rows: psycopg.Copy | None = None

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
        if not self._is_made:
            with connection.cursor() as cursor:
                cursor.execute(SEQUENCES)
                cursor.execute(CREATE, cursor.fetchone())
            self._is_made = True
        with connection.wrap_database_errors:
            if self._rows is None:
                cursor = self._copying.enter_context(connection.connection.cursor())
                self._rows = self._copying.enter_context(
                    cursor.copy(f"COPY staged_tool ({COLUMNS}) FROM STDIN")
                )
            self._rows.write("".join([_copy_line(tool) for tool in tools]))
            failpoint("staging")

    def put_relisted(self, documents: Mapping[int, Item]) -> None:
        """Stage documents, by tool, that make no version. Not between `put` and `settle`."""
        if not documents:
            return
        with connection.cursor() as cursor:
            if not self._has_relisted:
                cursor.execute(CREATE_RELISTED)
                self._has_relisted = True
            items = documents.values()
            texts = [base.canonical(item.document).decode() for item in items]
            cursor.execute(PUT_RELISTED, [list(documents), [item.digest for item in items], texts])

    def settle(self) -> None:
        """Waits until everything is in the table. Raises what went wrong with it."""
        if self._rows is not None:
            self._rows = None
            with connection.wrap_database_errors:
                self._copying.close()


def _escaped(text: str) -> str:
    # Replacing is many times quicker than `str.translate`, and most texts hold nothing to be replaced.
    if "\\" in text or "\t" in text or "\n" in text or "\r" in text:
        text = text.replace("\\", r"\\").replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
    return text


def _copy_line(tool: StagedTool) -> str:
    """One row in the text format of COPY."""
    # Half the time of adapting every value by its type.
    tags = ",".join(['"' + tag.replace("\\", "\\\\").replace('"', '\\"') + '"' for tag in tool.tags])
    texts = (
        *(tool.tool_id, tool.label, f"{{{','.join(map(str, tool.label_key))}}}", tool.digest),
        *(tool.name, tool.title, tool.description, f"{{{tags}}}", str(tool.tokens), tool.signature, tool.raw),
    )
    counts = (str(tool.nth), str(tool.same_label_before))
    return "\t".join([str(tool.tool_pk or r"\N"), *map(_escaped, texts), *counts]) + "\n"


def unstage(tool_ids: Sequence[str]) -> None:
    if tool_ids:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM staged_tool WHERE tool_id = ANY(%s)", [list(tool_ids)])


def staged_documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the vendor's id and the document of each staged tool. At least one was staged."""
    with connection.chunked_cursor() as cursor:
        cursor.execute("SELECT tool_id, raw FROM staged_tool")
        while rows := cursor.fetchmany(250):
            yield from ((tool_id, base.decoded(raw)) for tool_id, raw in rows)
