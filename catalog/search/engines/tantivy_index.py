"""tantivy in this process: an index in a directory of this host that all processes share.

Each generation of the index is a directory beside the file `current`, which names the one to read. A commit
is atomic. A document is a tool, a word of the catalog, or the one that holds the state.
"""

import fcntl
import logging
import os
import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import tantivy
from tantivy import FieldType, Occur, Query

from catalog.models.tools import ItemKind, ToolStatus
from catalog.search.engines.contract import Candidate, Document, IndexUnusableError, StemCondition
from catalog.search.scope import Scope, change_starts

logger = logging.getLogger(__name__)

# An index of another format is thrown away. Raise it when the schema or a tokenizer changes.
FORMAT = "3"
# tantivy accepts no less per thread.
HEAP_BYTES = 20_000_000
# So many more candidates are read where few tools of the index are outside of the scope.
SPARE = 100
# A term that counts more often in a tool says no more about it.
MAX_REPEATS = 12
# A stem in a parameter counts about so much beside one in the texts.
DETAIL_WEIGHT = 0.5
_USUAL = Scope()
_USUAL_LABELS = {"status": (str(_USUAL.status),), "item_kind": tuple(map(str, _USUAL.kinds))}
LABELS = ("item_kind", "tag", "status", "version", "effect", "requirement")
TOOL, WORD, STATE = "tool", "word", "state"
# Of a term with at most so many holders the exact number is read.
FEW_HOLDERS = 8
# The values of one facet that are counted; a catalog has fewer endpoints and tags.
FACET_VALUES = 65_000
# A value of a label is one term, and a term has a limited length.
MAX_LABEL_BYTES = 1_000


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("kind", tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("tool", indexed=True, fast=True)
    builder.add_unsigned_field("endpoint", indexed=True, fast=True)
    builder.add_unsigned_field("changed_since", fast=True)
    # 1 for a tool that the default scope holds, 0 for another one.
    builder.add_unsigned_field("usual", indexed=True, fast=True)
    builder.add_text_field("name_key", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("prose", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("detail", tokenizer_name="whitespace", index_option="freq")
    for label in LABELS:
        builder.add_text_field(label, tokenizer_name="raw", index_option="basic", fast=True)
    builder.add_text_field("word", tokenizer_name="raw", index_option="basic", stored=True)
    builder.add_bytes_field("vector", stored=True)
    builder.add_text_field("state", tokenizer_name="raw", index_option="basic", stored=True)
    return builder.build()


SCHEMA = _schema()


@contextmanager
def _reported(action: str) -> Iterator[None]:
    """Turn every failure of the library into IndexUnusableError."""
    try:
        yield
    except (ValueError, OSError, OverflowError) as error:
        raise IndexUnusableError(f"{action}: {error}") from error
    except BaseException as error:
        # A damaged file can make the library panic, which is no Exception and has no importable class.
        if type(error).__name__ == "PanicException":
            raise IndexUnusableError(f"{action}: {error}") from error
        raise


def _with_tokenizers(index: tantivy.Index) -> tantivy.Index:
    whitespace = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    index.register_tokenizer("whitespace", whitespace)
    return index


def _term(field: str, value: Any) -> Query:
    return Query.term_query(SCHEMA, field, value, "freq" if field in ("prose", "detail") else "basic")


def _cut(value: str) -> str:
    return value.encode()[:MAX_LABEL_BYTES].decode(errors="ignore")


class TantivyReader:
    def __init__(self, index: tantivy.Index, generation: str) -> None:
        self.generation = generation
        self._searcher = index.searcher()
        with _reported("The search index cannot be read"):
            hits = self._searcher.search(_term("kind", STATE), 1, count=False).hits
            if not hits:
                raise IndexUnusableError("The search index has no state.")
            self.state = str(self._searcher.doc(hits[0][1]).get_first("state"))

    def document_count(self) -> int:
        with _reported("Tools cannot be counted"):
            return self._searcher.doc_freq("kind", TOOL)

    def holder_counts(self, terms: Collection[str]) -> dict[str, int]:
        counts = {}
        with _reported("Words cannot be counted"):
            for term in terms:
                count = self._searcher.doc_freq("prose", term) + self._searcher.doc_freq("detail", term)
                if 0 < count <= FEW_HOLDERS:
                    # The library also counts documents that were replaced and not merged away yet. For a rare
                    # word that decides whether any tool contains it.
                    # The stubs of the library lack `count`.
                    result: Any = self._searcher.search(_any_of({term: 1.0}), 1, count=True)
                    count = int(result.count)
                counts[term] = count
        return counts

    def words_beginning(self, beginning: str, limit: int) -> list[str]:
        with _reported("Words cannot be completed"):
            word_counts = self._searcher.terms_with_prefix("word", beginning, limit=limit + 1)
        return [word for word, _ in word_counts if word != beginning][:limit]

    def words_like(self, word: str, edits: int, limit: int) -> list[str]:
        query = Query.fuzzy_term_query(SCHEMA, "word", word, edits)
        with _reported("Spellings cannot be looked up"):
            hits = self._searcher.search(query, limit, count=False).hits
            return [str(self._searcher.doc(address).get_first("word")) for _, address in hits]

    def candidates(self, weights: Mapping[str, float], scope: Scope, limit: int) -> list[Candidate]:
        if not weights:
            return []
        query = _any_of(weights)
        if _holds_most(scope):
            # The library passes over most tools that have a word, unless it has to check a condition.
            first, is_complete = self._first_candidates(query, scope, limit + SPARE)
            if is_complete or len(first) >= limit:
                return first[:limit]
        return self._search(query, scope, limit)

    def _first_candidates(self, query: Query, scope: Scope, limit: int) -> tuple[list[Candidate], bool]:
        """Return those of the first tools that the scope holds, and whether there are no more."""
        with _reported("The search index cannot be read"):
            hits = self._searcher.search(query, limit, count=False).hits
            usual = self._searcher.fast_field_values("usual", [address for _, address in hits])
        first = self._read_tools(hits)
        unusual = [tool.tool for tool, is_usual in zip(first, usual, strict=True) if not is_usual]
        outside = set(unusual).difference(self.tools_in(scope.among_only(unusual), limit) if unusual else ())
        return [candidate for candidate in first if candidate.tool not in outside], len(hits) < limit

    def named(self, name_key: str, scope: Scope, limit: int) -> list[Candidate]:
        return self._search(_term("name_key", _cut(name_key)), scope, limit)

    def names_beginning(self, name_key: str, scope: Scope, limit: int) -> list[Candidate]:
        # Names are read without the conditions of the scope first, because these take longest.
        for filters in ([], _filters(scope)):
            must = [(Occur.Must, filter_query) for filter_query in filters]
            only = Query.boolean_query(must) if must else None
            with _reported("Names cannot be completed"):
                keys = self._searcher.terms_with_prefix("name_key", _cut(name_key), only, limit + 1)
            begin = [key for key, _ in keys if key != name_key]
            query = Query.term_set_query(SCHEMA, "name_key", begin)
            beginnings = self._search(query, scope, limit) if begin else []
            if len(keys) <= limit or len(beginnings) >= limit:
                break
        return beginnings

    def vectors(self, references: Sequence[object]) -> list[bytes]:
        with _reported("The search index cannot be read"):
            return [self._searcher.doc(reference).get_first("vector") for reference in references]  # type: ignore[arg-type,misc]

    def tools_in(self, scope: Scope, limit: int) -> list[int]:
        return [candidate.tool for candidate in self._search(_term("kind", TOOL), scope, limit)]

    def facets(
        self, names: Collection[str], scope: Scope, stems: StemCondition | None = None
    ) -> dict[str, dict[str, int]]:
        # The library refuses ranges that overlap.
        starts = list(change_starts().items())
        ends = [{}, *({"to": start} for _, start in starts)]
        spans = [
            {"key": name, "from": start, **end} for (name, start), end in zip(starts, ends, strict=False)
        ]
        aggregations: dict[str, Any] = {
            name: {"range": {"field": name, "ranges": spans}}
            if name == "changed_since"
            else {"terms": {"field": name, "size": FACET_VALUES}}
            for name in names
        }
        counts: dict[str, Counter[str]] = {name: Counter() for name in names}
        with _reported("Facets cannot be counted"):
            for query, sign in _counted_queries(scope, stems):
                counted = self._searcher.aggregate(query, aggregations)
                for name in names:
                    buckets = counted[name]["buckets"]
                    counts[name].update({str(row["key"]): sign * int(row["doc_count"]) for row in buckets})
        for name in names:
            counts[name] = +counts[name]  # without zeros
        if "changed_since" in counts:
            disjoint = [counts["changed_since"][name] for name, _ in starts]
            sums = dict(zip(change_starts(), accumulate(disjoint), strict=True))
            return {**counts, "changed_since": sums}
        return dict(counts)

    def count(self, scope: Scope, stems: StemCondition) -> int:
        with _reported("Tools cannot be counted"):
            # The stubs of the library lack `count`.
            results: list[tuple[Any, int]] = [
                (self._searcher.search(query, 1, count=True), sign)
                for query, sign in _counted_queries(scope, stems)
            ]
        return sum(sign * int(result.count) for result, sign in results)

    def _search(self, query: Query, scope: Scope, limit: int) -> list[Candidate]:
        with _reported("The search index cannot be read"):
            hits = self._searcher.search(_within(query, scope), limit, count=False).hits
            return self._read_tools(hits)

    def _read_tools(self, hits: list[Any]) -> list[Candidate]:
        tools = self._searcher.fast_field_values("tool", [address for _, address in hits])
        return [
            Candidate(int(tool or 0), float(score), address)
            for tool, (score, address) in zip(tools, hits, strict=True)
        ]


def _any_of(weights: Mapping[str, float]) -> Query:
    clauses = []
    for term, weight in weights.items():
        clauses.append((Occur.Should, Query.boost_query(_term("prose", term), weight)))
        clauses.append((Occur.Should, Query.boost_query(_term("detail", term), weight * DETAIL_WEIGHT)))
    return Query.boolean_query(clauses)


def _counted_queries(scope: Scope, stems: StemCondition | None) -> list[tuple[Query, int]]:
    """Return queries whose counts, each with its sign, add up to that of the scope."""
    if stems is None:
        counted_query = _term("kind", TOOL)
    else:
        terms = [_term(field, stem) for stem in stems.stems for field in ("prose", "detail")]
        counted_query = Query.boolean_query([(Occur.Should, term) for term in terms])
        if stems.is_absent:
            counted_query = Query.boolean_query(
                [(Occur.Must, _term("kind", TOOL)), (Occur.MustNot, counted_query)]
            )
    if not _holds_most(scope):
        return [(_within(counted_query, scope), 1)]
    # To check this condition of nearly all tools takes twice as long as to find them.
    others = {
        "status": [status.value for status in ToolStatus if scope.status not in (None, status)],
        "item_kind": [kind.value for kind in ItemKind if scope.kinds and kind not in scope.kinds],
    }
    outside = [Query.term_set_query(SCHEMA, label, values) for label, values in others.items() if values]
    if not outside:
        return [(counted_query, 1)]
    outside_query = Query.boolean_query([(Occur.Should, query) for query in outside])
    return [
        (counted_query, 1),
        (Query.boolean_query([(Occur.Must, outside_query), (Occur.Must, counted_query)]), -1),
    ]


def _holds_most(scope: Scope) -> bool:
    """Return whether nearly all tools of a catalog are in the scope."""
    is_wide = scope.status in (None, _USUAL.status) and scope.kinds in ((), _USUAL.kinds)
    return is_wide and scope == replace(_USUAL, status=scope.status, kinds=scope.kinds)


def _within(query: Query, scope: Scope) -> Query:
    filters = _filters(scope)
    if not filters:
        return query
    return Query.boolean_query(
        [(Occur.Must, query), *((Occur.Must, filter_query) for filter_query in filters)]
    )


def _filters(scope: Scope) -> list[Query]:
    filters = []
    is_usual = (scope.status, scope.kinds) == (_USUAL.status, _USUAL.kinds)
    if is_usual:
        filters.append(_term("usual", 1))
    if scope.endpoints is not None:
        filters.append(Query.term_set_query(SCHEMA, "endpoint", list(scope.endpoints)))
    if scope.among is not None:
        filters.append(Query.term_set_query(SCHEMA, "tool", list(scope.among)))
    if scope.except_for:
        excluded = Query.term_set_query(SCHEMA, "tool", list(scope.except_for))
        filters.append(
            Query.boolean_query([(Occur.Must, Query.all_query()), (Occur.MustNot, excluded)]),
        )
    labels = [*(("tag", spellings) for spellings in scope.tags)]
    labels += [("effect", scope.effects), ("requirement", scope.requirements)]
    filters += [
        Query.term_set_query(SCHEMA, label, [_cut(value) for value in values])
        for label, values in labels
        if values
    ]
    if scope.status and not is_usual:
        filters.append(_term("status", scope.status.value))
    if scope.changed_since is not None:
        filters.append(
            Query.range_query(SCHEMA, "changed_since", FieldType.Unsigned, lower_bound=scope.changed_since)
        )
    if scope.kinds and not is_usual:
        filters.append(Query.term_set_query(SCHEMA, "item_kind", [kind.value for kind in scope.kinds]))
    if scope.version:
        filters.append(_term("version", _cut(scope.version)))
    # They decide, and add nothing to the score.
    return [Query.const_score_query(filter_query, 0.0) for filter_query in filters]


def _open(directory: Path) -> tantivy.Index:
    with _reported("The search index cannot be opened"):
        index = _with_tokenizers(tantivy.Index.open(str(directory)))
        index.config_reader("manual")
        index.reload()
        return index


class _Opened(NamedTuple):
    """An open index, and how the files looked when it was last loaded."""

    signature: tuple[str, int, int]
    files: tantivy.Index
    reader: TantivyReader


class TantivyEngine:
    def __init__(self, root: Path) -> None:
        self._root = root / f"tantivy-{FORMAT}"
        self._opened: _Opened | None = None
        self._lock = threading.Lock()

    def open(self) -> TantivyReader | None:
        try:
            name = (self._root / "current").read_text()
            stat = (self._root / name / "meta.json").stat()
        except OSError:
            self._opened = None
            return None
        signature = name, stat.st_mtime_ns, stat.st_ino
        opened = self._opened
        if opened and opened.signature == signature:
            return opened.reader
        with self._lock:
            return self._load(signature)

    def _load(self, signature: tuple[str, int, int]) -> TantivyReader | None:
        opened = self._opened
        try:
            if opened and opened.signature[0] == signature[0]:
                index = opened.files
                with _reported("The search index cannot be read"):
                    index.reload()
            else:
                index = _open(self._root / signature[0])
            self._opened = _Opened(signature, index, TantivyReader(index, signature[0]))
        except IndexUnusableError:
            logger.warning("The search index is damaged and is built again", exc_info=True)
            self._opened = None
            self.discard()
            return None
        return self._opened.reader

    def discard(self) -> None:
        self._opened = None
        (self._root / "current").unlink(missing_ok=True)

    @contextmanager
    def writing(self, *, waits: bool) -> Iterator["TantivyWriter | None"]:
        with _reported("The directory of the search index cannot be used"):
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            except BlockingIOError:
                yield None
                return
            writer = TantivyWriter(self, self._root)
            try:
                yield writer
            finally:
                writer.close()
        finally:
            os.close(lock)


class TantivyWriter:
    def __init__(self, engine: TantivyEngine, root: Path) -> None:
        self._engine, self._root = engine, root
        self._directory: Path | None = None
        self._index: tantivy.Index | None = None
        self._writer: tantivy.IndexWriter | None = None
        self._new_words: set[str] = set()

    def state(self) -> str | None:
        reader = self._engine.open()
        return reader.state if reader else None

    def begin(self) -> None:
        self.close()
        opened = self._engine.open()
        self._remove_generations(except_for=opened.generation if opened else "")
        directory = self._root / uuid.uuid4().hex
        with _reported("The search index cannot be started"):
            directory.mkdir(mode=0o700)
            self._index = _with_tokenizers(tantivy.Index(SCHEMA, str(directory)))
        self._directory = directory

    def write(self, documents: Collection[Document], removed: Collection[int], state: str) -> None:
        with _reported("The search index cannot be written"):
            if self._index is None:
                self._directory = self._root / (self._root / "current").read_text()
                self._index = _open(self._directory)
            if self._writer is None:
                self._writer = self._index.writer(HEAP_BYTES, 1)
            writer = self._writer
            if replaced := [*removed, *(document.tool for document in documents)]:
                # By a query, because the library deletes nothing by a term that is a number.
                writer.delete_documents_by_query(Query.term_set_query(SCHEMA, "tool", replaced))
            for document in documents:
                writer.add_document(_tool_document(document))
            words = {word for document in documents for word in document.words} - self._new_words
            count = self._index.searcher().doc_freq
            for word in sorted(word for word in words if not count("word", word)):
                self._new_words.add(word)
                writer.add_document(tantivy.Document(kind=WORD, word=word))
            writer.delete_documents_by_term("kind", STATE)
            writer.add_document(tantivy.Document(kind=STATE, state=state))
            writer.commit()

    def publish(self) -> None:
        assert self._directory is not None  # noqa: S101 - `begin` has set it
        name, pointer = self._directory.name, self._root / "current"
        with _reported("The search index cannot be published"):
            temporary = self._root / "current.new"
            temporary.write_text(name)
            temporary.replace(pointer)
        self._remove_generations(except_for=name)
        # Indexes of other releases. One that runs beside this release, or comes back, builds its own again.
        for other in self._root.parent.glob("tantivy-*"):
            if other != self._root:
                shutil.rmtree(other, ignore_errors=True)

    def _remove_generations(self, *, except_for: str) -> None:
        for directory in self._root.iterdir():
            # A process that still reads another generation has its files mapped.
            if directory.is_dir() and directory.name != except_for:
                shutil.rmtree(directory, ignore_errors=True)

    def close(self) -> None:
        """Let merges end, so that segments stay few."""
        writer, self._writer, self._index = self._writer, None, None
        self._new_words.clear()
        if writer is not None:
            with _reported("Segments cannot be merged"):
                writer.wait_merging_threads()


def _tool_document(document: Document) -> tantivy.Document:
    tool_document = tantivy.Document(kind=TOOL)
    tool_document.add_unsigned("tool", document.tool)
    tool_document.add_unsigned("endpoint", document.endpoint)
    tool_document.add_unsigned("changed_since", document.changed_at)
    tool_document.add_unsigned("usual", int(document.labels.items() >= _USUAL_LABELS.items()))
    tool_document.add_text("name_key", _cut(document.name_key))
    terms = document.prose_terms.items()
    tool_document.add_text(
        "prose", " ".join(" ".join([term] * min(count, MAX_REPEATS)) for term, count in terms)
    )
    tool_document.add_text("detail", " ".join(document.detail_terms))
    for label, values in document.labels.items():
        for value in values:
            tool_document.add_text(label, _cut(value))
    tool_document.add_bytes("vector", document.vector)
    return tool_document
