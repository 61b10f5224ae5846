"""A loaded model together with the vectors that it made."""

import pkgutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from catalog.meaning.messages import FindNearest, Similarities, StoredState, StoreTexts, Usage
from catalog.meaning.models import Model
from catalog.meaning.vector_file import DamagedVectorsError, VectorFile, Vectors

# Of characters. Longer texts say nothing new about a tool, and cost time.
MAX_LENGTH = 1_000


class EncoderError(Exception):
    """The model cannot make vectors now. The message is for administrators."""


class Encoder(ABC):
    """It is started with a directory of its own, and used by several threads.

    trouble: why the last texts have no vectors, "" if they have.
    """

    trouble = ""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def usage(self) -> Usage:
        return Usage()

    def rate_chore(self, vector: Vectors) -> float | None:
        """Return how much a question reads like a chore: negative for one to software, None if not known."""
        return None

    def encode_tools(self, texts: Sequence[str], names: Sequence[str]) -> Vectors:
        """Return one vector of length 1 for each tool; its text contains its name. Raises EncoderError."""
        return self.encode(texts)

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 for each text. Raises EncoderError."""


class Comparison:
    """Compares questions and texts of tools by vectors. Several threads may use it at the same time."""

    def __init__(self, directory: Path, vectors: Path, model: Model) -> None:
        self.file = VectorFile(vectors, model.recipe, model.dimensions)
        self._recipe = model.recipe
        self._encoder: Encoder = pkgutil.resolve_name(model.encoder)(directory)
        self._lock = threading.Lock()

    @property
    def stored_state(self) -> StoredState:
        """The state, None once a part of the vectors is damaged: each call checks another part."""
        with self._lock, self._without_damage():
            self.file.check_next()
        return StoredState(self.file.state, self._recipe, self._encoder.usage, self._encoder.trouble)

    def find_nearest(self, request: FindNearest, read_tools: Callable[[], Sequence[int]]) -> Similarities:
        """Return cosines with the question. `read_tools` returns the other tools to compare."""
        texts = [request.text, request.rephrased] if request.rephrased else [request.text]
        vectors = self._encoder.encode([*texts, *request.clauses])
        typed, rephrased, clauses = vectors[:1], vectors[1 : len(texts)], vectors[len(texts) :]
        chore = self._encoder.rate_chore(vectors[0])
        near: set[int] = set()
        with self._lock, self._without_damage():
            # A clause of a long question has nearest tools of its own.
            near = {
                tool
                for wording in vectors[len(texts) - 1 :]
                for tool in self.file.nearest(wording, request.endpoints, request.limit)
            }
        # Others may be searched for by their words meanwhile.
        tools = read_tools()
        with self._lock, self._without_damage():
            all_tools = [*near, *tools]
            return Similarities(
                nearest=self.file.cosines(typed, list(near)),
                others=self.file.cosines(typed, tools),
                rephrased=self.file.cosines(rephrased, all_tools) if request.rephrased else {},
                chore=chore,
                clauses=self.file.cosines(clauses, all_tools) if request.clauses else {},
            )
        return Similarities({}, {})

    @contextmanager
    def _without_damage(self) -> Iterator[None]:
        """Throw damaged vectors away: they are made again, and meanwhile words answer."""
        try:
            yield
        except DamagedVectorsError:
            self.file.clear()

    def store(self, request: StoreTexts) -> None:
        vectors = self._encoder.encode_tools(request.texts, request.names)
        with self._lock:
            if request.is_start:
                self.file.clear()
            with self._without_damage():
                self.file.check_files()
            if self.file.state is None and not request.is_start:
                # Others are missing, and the state would not tell.
                raise DamagedVectorsError("The vectors have to be made from the first one.")
            self.file.write(request.tools, request.endpoints, vectors, request.removed, request.state)
