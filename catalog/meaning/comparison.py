"""A loaded model together with the vectors that it made."""

import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from catalog.meaning.messages import FindNearest, Similarities, StoreTexts
from catalog.meaning.models import Model
from catalog.meaning.vector_file import VectorFile, Vectors


class Encoder(Protocol):
    """It is started with a directory of its own."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 for each text."""


class Comparison:
    def __init__(self, directory: Path, vectors: Path, model: Model) -> None:
        self.file = VectorFile(vectors, model.recipe, model.dimensions)
        self._encoder: Encoder = pkgutil.resolve_name(model.encoder)(directory)

    @property
    def state(self) -> str | None:
        return self.file.state

    def find_nearest(self, request: FindNearest) -> Similarities:
        vector = self._encoder.encode([request.text])[0]
        nearest = self.file.nearest(vector, request.endpoints, request.limit)
        return Similarities(nearest, self.file.cosines(vector, request.tools))

    def store(self, request: StoreTexts) -> None:
        if request.is_start:
            self.file.clear()
        vectors = self._encoder.encode(request.texts)
        self.file.write(request.tools, request.endpoints, vectors, request.removed, request.state)
