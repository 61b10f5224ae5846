"""Keeps the index of this host equal to the catalog: fills it, then follows the changes.

Nothing that matters is stored in the index: without one, or with one that is damaged or of another
database, an empty one is started and filled in the order of the tools' ids. Nothing here writes to the
database.
"""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from django.db import connection

from catalog.search import changes, ranking, searched_texts, stemming, tags, words
from catalog.search.changes import DatabaseMoment, IndexState
from catalog.search.engines import Document, IndexUnusableError, Reader, Writer, current_engine
from catalog.search.job_words import JobWords, shipped_groups
from catalog.search.searched_texts import SearchedSignature
from catalog.search.word_groups import Groups, current_groups, current_job_words
from catalog.tools import effective_texts
from catalog.translations import stored
from core.canonical_json import digest
from protocols.signature import from_json, to_json

# Tools that are written and committed together: enough to be quick, few enough that no change waits long.
BATCH = 2_000
# An index that nothing changes is written again now and then, so that it is not taken for a forgotten one.
REFRESH_SECONDS = 3_600
# Raise it when a release makes other documents of the same tools.
RECIPE = 3

# How often the engine counts a group of everyday words, by its impact in our ranking.
_GROUP_REPEATS = {searched_texts.GROUP_IN_NAME: 6, searched_texts.GROUP_IN_TEXT: 1}

T = TypeVar("T")
logger = logging.getLogger(__name__)
decode_signature = msgspec.json.Decoder(SearchedSignature).decode


@dataclass(frozen=True, slots=True)
class IndexedTool:
    """A tool of a live endpoint, with what is indexed of it."""

    tool: int
    version_label: str
    is_worded: bool
    endpoint: int
    changed_at: int
    kind: str
    status: str
    vendor_name: str
    vendor_slug: str
    signature: str
    translations: str = ""


def current_recipe() -> str:
    """Return a digest of what documents are made with, such as the everyday words of this release and those
    of this organization."""
    return _recipe_with(current_groups())


@lru_cache(maxsize=2)
def _recipe_with(custom_groups: Groups) -> str:
    """Return the digest with these everyday words of this organization."""
    groups = [(group.key, sorted(group.terms.items()), group.is_act) for group in shipped_groups()]
    shipped = digest([RECIPE, groups])
    return digest([shipped, custom_groups]) if custom_groups else shipped


def index_state() -> IndexState | None:
    """Return the state of this host's index, None if there is none to search in."""
    reader = current_engine().open()
    return changes.read_state(reader.state) if reader else None


def read(action: Callable[[Reader], T], fallback: T) -> tuple[T, IndexState | None]:
    """Return what the action reads and the state of the index; the fallback and None where it cannot be read.

    A damaged index is thrown away, and the next writer starts another.
    """
    reader = current_engine().open()
    state = changes.read_state(reader.state) if reader else None
    if reader is None or state is None:
        return fallback, None
    try:
        return action(reader), state
    except IndexUnusableError:
        logger.warning("The search index is damaged and is built again", exc_info=True)
        current_engine().discard()
        return fallback, None


def index_pending(*, ends: float = math.inf, waits: bool = True) -> int:
    """Index what changed, and return how many documents were written.

    `ends` is a time of `time.monotonic()` after which no other batch begins; the next call continues. Without
    `waits`, nothing happens while another process of this host writes. Raises IndexUnusableError.
    """
    with current_engine().writing(waits=waits) as writer:
        if writer is None:
            return 0
        moment = changes.database_moment()
        state = changes.read_state(writer.state())
        if state is None or not changes.is_usable(state, moment):
            state = _start(writer, moment)
            writer.publish()
        batches = follow_changes(lambda *batch: _write(writer, *batch), state, moment, ends)
        return sum(done.documents for done in batches)


def rebuild() -> Iterator[IndexState]:
    """Build the index again, and yield its state after each batch. Raises IndexUnusableError.

    Searches use the former index until the new one is complete.
    """
    with current_engine().writing(waits=True) as writer:
        assert writer is not None  # noqa: S101 - this waits
        moment = changes.database_moment()
        state = _start(writer, moment)
        for written_batch in follow_changes(lambda *batch: _write(writer, *batch), state, moment, math.inf):
            yield written_batch.state
        writer.publish()


class _WrittenBatch(NamedTuple):
    """The state after a batch, and how many documents it wrote."""

    state: IndexState
    documents: int


# Writes the rows of tools and removes other tools, together with the state of the index.
BatchWriter = Callable[[list[IndexedTool], Collection[int], IndexState], None]


def _start(writer: Writer, moment: DatabaseMoment) -> IndexState:
    state = changes.first_state(moment, current_recipe())
    writer.begin()
    writer.write([], [], state.dump())
    return state


def _write(writer: Writer, rows: list[IndexedTool], removed: Collection[int], state: IndexState) -> None:
    job_words = current_job_words()
    writer.write([make_document(row, job_words) for row in rows], removed, state.dump())


def follow_changes(
    write: BatchWriter, state: IndexState, moment: DatabaseMoment, ends: float, size: int | None = None
) -> Iterator[_WrittenBatch]:
    """Write batch after batch of `size` tools until nothing is left or the time `ends`.

    Changes come between the batches of a filling.
    """
    size = size or BATCH
    if moment.time - state.written_at > REFRESH_SECONDS:
        state = msgspec.structs.replace(state, written_at=moment.time)
        write([], [], state)
    while True:
        count = 0
        if state.filled_through is not None:
            rows = _read_tools(_FILLING, {"after": state.filled_through, "limit": size})
            state = msgspec.structs.replace(state, filled_through=rows[-1].tool if rows else None)
            write(rows, [], state)
            count += len(rows)
        batch = changes.read_batch(state, size)
        if batch.tools:
            rows = _read_tools(_CHANGED, {"tools": batch.tools})
            removed = set(batch.tools) - {row.tool for row in rows}
            state = msgspec.structs.replace(state, through=batch.last, own=(*state.own, *batch.own))
            write(rows, removed, state)
            count += len(rows)
        elif state.filled_through is None:
            is_done = not changes.count_changes(state, 1)
            if is_done and not state.through:
                return
            state = changes.with_next_target(state)
            if is_done:
                # Searches would compare each of these changes with two snapshots until the next one comes.
                write([], [], state)
                return
            continue
        yield _WrittenBatch(state, count)
        if time.monotonic() > ends:
            return


_TOOLS = """
    SELECT t.id, v.label, t.worded_at IS NOT NULL, t.endpoint_id,
        floor(extract(epoch FROM t.changed_at))::bigint,
        t.kind, t.status, vendor.name, vendor.slug, v.signature
    FROM catalog_tool t
    JOIN catalog_toolversion v ON v.id = t.current_id
    JOIN catalog_endpoint e ON e.id = t.endpoint_id AND e.removed_at IS NULL
    JOIN catalog_vendor vendor ON vendor.id = e.vendor_id AND vendor.removed_at IS NULL
"""
_FILLING = f"{_TOOLS} WHERE t.id > %(after)s ORDER BY t.id LIMIT %(limit)s"
_CHANGED = f"{_TOOLS} WHERE t.id = ANY(%(tools)s) ORDER BY t.id"


def _read_tools(statement: str, values: dict[str, Any]) -> list[IndexedTool]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows = [IndexedTool(*row) for row in cursor.fetchall()]
    # Translations are of the vendor's texts.
    translations = stored.searched_translations({row.tool: row.signature for row in rows}, decode_signature)
    rows = [replace(row, translations=translations.get(row.tool, "")) for row in rows]
    rewrites = effective_texts.rewrites([row.tool for row in rows if row.is_worded])
    return [
        replace(row, signature=to_json(rewrites[row.tool].reword(from_json(row.signature))).decode())
        if row.tool in rewrites
        else row
        for row in rows
    ]


def make_document(row: IndexedTool, job_words: JobWords) -> Document:
    """Return what the index holds of a tool."""
    signature = decode_signature(row.signature)
    texts = searched_texts.read_texts(signature, f"{row.vendor_name} {row.vendor_slug}", row.translations)
    frequencies: defaultdict[str, float] = defaultdict(float)
    spelled: set[str] = set()
    stops: set[str] = set()
    for weight, text in texts.prose:
        for run in words.runs(text):
            for word, stem in stemming.stem_run(run):
                frequencies[stem or word] += weight
                (spelled if stem else stops).add(word)
    prose_terms = {term: max(1, int(count)) for term, count in frequencies.items()}
    for weight, text in texts.fields:
        for word, stem in stemming.stem_text(text):
            frequencies[stem] += weight
            spelled.add(word)
    groups = searched_texts.group_impacts(signature, job_words)
    strengths = ranking.impacts(frequencies, stops) | groups
    prose_terms |= {token: _GROUP_REPEATS[impact] for token, impact in groups.items()}
    return Document(
        tool=row.tool,
        endpoint=row.endpoint,
        changed_at=row.changed_at,
        name_key=words.name_key(signature.name),
        prose_terms=prose_terms,
        detail_terms=strengths.keys() - prose_terms.keys(),
        vector=ranking.pack([stem for _, stem in stemming.stem_text(signature.name)], strengths),
        words=spelled,
        labels={
            "item_kind": (row.kind,),
            "tag": tags.distinct(signature.tags),
            "status": (row.status,),
            "version": (row.version_label,) if row.version_label else (),
            "effect": (signature.annotations.effect,),
            "requirement": signature.requirements.kinds,
        },
    )
