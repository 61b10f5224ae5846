"""The interface of an engine, and the data that passes between it and the search. Pure."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from catalog.search.scope import Scope


class IndexUnusableError(Exception):
    """The index is missing, damaged or cannot be written. The message is for administrators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One tool as an engine stores it.

    prose_terms: stems in the name and the texts, with how often each counts.
    detail_terms: stems that appear only in parameters.
    vector: the bytes that `ranking.score` reads.
    words: the words as the vendor writes them, for spelling and completion.
    changed_at: when the tool changed last, in seconds since 1970.
    labels: values by facet: `item_kind`, `tag`, `status`, `version`, `effect`, `requirement`.
    """

    tool: int
    endpoint: int
    changed_at: int
    name_key: str
    prose_terms: Mapping[str, int]
    detail_terms: Collection[str]
    vector: bytes
    words: Collection[str]
    labels: Mapping[str, Collection[str]] = field(default_factory=dict)


class Candidate(NamedTuple):
    """A tool that may fit. `reference` is the engine's own address of the document, for `Reader.vectors`."""

    tool: int
    score: float
    reference: object


class StemCondition(NamedTuple):
    """That a tool contains any of the stems; or none of them, with `is_absent`."""

    stems: frozenset[str]
    is_absent: bool = False


class Reader(Protocol):
    """The index at one moment. Every method may raise IndexUnusableError."""

    state: str

    def document_count(self) -> int:
        """Return the number of tools in the index, including some that were replaced a moment ago."""

    def holder_counts(self, terms: Collection[str]) -> dict[str, int]:
        """Return for each stem how many tools contain it."""

    def words_beginning(self, beginning: str, limit: int) -> list[str]:
        """Return words of the catalog that begin so, without the word itself."""

    def words_like(self, word: str, edits: int, limit: int) -> list[str]:
        """Return words of the catalog within so many edits of the word."""

    def candidates(self, weights: Mapping[str, float], scope: Scope, limit: int) -> list[Candidate]:
        """Return the tools of the scope that contain any of the stems, best first."""

    def named(self, name_key: str, scope: Scope, limit: int) -> list[Candidate]:
        """Return tools of the scope with exactly this name key, in any order."""

    def names_beginning(self, name_key: str, scope: Scope, limit: int) -> list[Candidate]:
        """Return tools of the scope whose name key begins so, the first in alphabetical order."""

    def vectors(self, references: Sequence[object]) -> list[bytes]:
        """Return `Document.vector` of candidates."""

    def tools_in(self, scope: Scope, limit: int) -> list[int]:
        """Return the ids of tools of the scope, in any order."""

    def facets(
        self,
        names: Collection[str],
        scope: Scope,
        stems: StemCondition | None = None,
    ) -> dict[str, dict[str, int]]:
        """Return for each facet how many tools of the scope have each value.

        Facets are those of `Document.labels`, `endpoint`, and `changed_since` with the spans of
        `change_starts`, of which a longer one includes the shorter.
        """

    def count(self, scope: Scope, stems: StemCondition) -> int:
        """Return how many tools of the scope meet the condition."""


class Writer(Protocol):
    """The only writer of this host's index, until its context ends."""

    def state(self) -> str | None:
        """Return the state that was written with the documents, None if there is no usable index."""

    def begin(self) -> None:
        """Start an empty index. Readers stay with the former one until `publish`."""

    def write(self, documents: Collection[Document], removed: Collection[int], state: str) -> None:
        """Replace these documents and remove those of other tools, together with the state, or do nothing."""

    def publish(self) -> None:
        """Let readers see the index that `begin` started, and delete all others."""


class Engine(Protocol):
    def open(self) -> Reader | None:
        """Return the index as it is now, None if there is none that can be read."""

    def writing(self, *, waits: bool) -> AbstractContextManager[Writer | None]:
        """Acquire the write lock of this host; None if another process has it and `waits` is false."""

    def discard(self) -> None:
        """Throw the index away; the next writer starts an empty one."""
