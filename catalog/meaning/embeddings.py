"""Vectors from an address that offers OpenAI's `POST /embeddings`, which `PEGBOARD_SEARCH_MEANING` names.

Each text is paid for once: its vector is stored by its digest. After a failure nothing is sent for a while.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from django.conf import settings

from catalog.meaning.comparison import MAX_LENGTH, Encoder, EncoderError
from catalog.meaning.messages import Usage
from catalog.meaning.vector_file import Vectors
from core import strict_json
from core.outbound.errors import ProtocolError
from core.outbound.limits import DEFAULT_LIMITS, MIB
from core.outbound.policy import AddressSource, Door, policy_for
from core.outbound.session import HttpSession

PATH = "/embeddings"
# A question waits for one try only; a batch of texts is repeated twice.
LIMITS = replace(DEFAULT_LIMITS, request=10.0, session=25.0, body=8 * MIB, backoff=(0.5, 2.0))
FIRST_PAUSE, MAX_PAUSE = 5.0, 600.0
MAX_NUMBER = 1e6
# How long a statement waits for another process that uses the stored vectors.
LOCK_SECONDS = 5.0
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

Result = TypeVar("Result")


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Usage(msgspec.Struct, frozen=True):
    total_tokens: int = 0


class _EmbeddingsReply(msgspec.Struct):
    data: list[_Embedding]
    usage: _Usage = _Usage()

    def vectors(self, count: int, dimensions: int) -> Vectors:
        """Return the vectors of `count` texts in their order, of length 1. Raises ValueError."""
        embeddings = sorted(self.data, key=lambda embedding: embedding.index)
        if [embedding.index for embedding in embeddings] != list(range(count)):
            raise ValueError(f"{len(embeddings)} vectors for {count} texts")
        if sizes := {len(embedding.embedding) for embedding in embeddings} - {dimensions}:
            raise ValueError(
                f"vectors of {max(sizes)} numbers; PEGBOARD_SEARCH_MEANING_DIMENSIONS is {dimensions}"
            )
        vectors = np.array([embedding.embedding for embedding in embeddings])
        if not (np.abs(vectors) <= MAX_NUMBER).all():
            raise ValueError(f"a number beyond {MAX_NUMBER:g}")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not lengths.all():
            raise ValueError("a vector without a direction")
        return np.asarray(vectors / lengths, np.float32)


class EmbeddingsEncoder(Encoder):
    """A model behind an address. `encode` raises EncoderError while the address does not answer well.

    limits: how long a request may take, and how often it is repeated.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.limits = LIMITS
        self._address, self._model = settings.SEARCH_MEANING.rstrip("/"), settings.SEARCH_MEANING_MODEL
        self._dimensions = settings.SEARCH_MEANING_DIMENSIONS
        self._pause, self._paused_until = FIRST_PAUSE, 0.0
        self._lock = threading.Lock()
        self._path = directory / "embeddings.sqlite3"
        self._store = _open_store(self._path)

    @property
    def usage(self) -> Usage:
        """The sums of everything that was sent to the address."""
        statement = "SELECT total(texts), total(characters), total(tokens) FROM request"
        sums = self._use_store(lambda store: store.execute(statement).fetchone())
        return Usage(*map(int, sums))

    def encode(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self._dimensions), np.float32)
        digests = [
            sha256(f"{self._address} {self._model} {self._dimensions} {text[:MAX_LENGTH]}".encode()).digest()
            for text in texts
        ]
        unique_digests = tuple(set(digests))
        marks = ",".join("?" * len(unique_digests))
        statement = f"SELECT digest, value FROM vector WHERE digest IN ({marks})"  # noqa: S608 - marks alone
        rows = self._use_store(lambda store: store.execute(statement, unique_digests).fetchall())
        stored = {digest: np.frombuffer(value, np.float16).astype(np.float32) for digest, value in rows}
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in stored}
        if missing:
            new_vectors = dict(zip(missing, self._request(list(missing.values())), strict=True))
            new_rows = [
                (digest, vector.astype(np.float16).tobytes()) for digest, vector in new_vectors.items()
            ]
            self._use_store(
                lambda store: store.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", new_rows)
            )
            stored |= new_vectors
        return np.stack([stored[digest] for digest in digests])

    def _use_store(self, use: Callable[[sqlite3.Connection], Result]) -> Result:
        """Return the result of `use` in a transaction. Damaged files are replaced by empty ones.

        Raises EncoderError.
        """
        with self._lock:
            try:
                with self._store:
                    return use(self._store)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise EncoderError(f"{self._path}: {error}") from error
                self._store.close()
                self._path.unlink(missing_ok=True)
                self._store = _open_store(self._path)
                with self._store:
                    return use(self._store)

    def _request(self, texts: list[str]) -> Vectors:
        """Return the vectors of texts from the address, of length 1."""
        if time.monotonic() < self._paused_until:
            raise EncoderError(self.trouble)
        inputs = [text[:MAX_LENGTH] or " " for text in texts]
        key = settings.SEARCH_MEANING_KEY
        try:
            with HttpSession(
                self._address,
                policy=policy_for(Door.EMBEDDINGS, AddressSource.DEPLOYMENT),
                authorization={"Authorization": f"Bearer {key}"} if key else {},
                secrets=(key,) if key else (),
                limits=self.limits if len(texts) > 1 else replace(self.limits, backoff=()),
            ) as session:
                document = {"model": self._model, "input": inputs}
                http_reply = session.post(PATH, json=document, is_repeatable=True)
            reply = msgspec.convert(strict_json.require_json(http_reply), _EmbeddingsReply)
            # A reply costs money even if its vectors are of no use.
            sums = (len(inputs), sum(map(len, inputs)), reply.usage.total_tokens)
            self._use_store(lambda store: store.execute("INSERT INTO request VALUES (?, ?, ?)", sums))
            vectors = reply.vectors(len(inputs), self._dimensions)
        except ProtocolError as error:
            raise self._note_failure(error.message, error.retry_after or 0.0) from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise self._note_failure(f"The reply has no vectors as OpenAI describes them: {error}") from error
        self._pause, self.trouble = FIRST_PAUSE, ""
        return vectors

    def _note_failure(self, message: str, seconds: float = 0.0) -> EncoderError:
        self._paused_until = time.monotonic() + min(max(self._pause, seconds), MAX_PAUSE)
        self._pause = min(2 * self._pause, MAX_PAUSE)
        self.trouble = f"{self._address}{PATH}: {message}"
        return EncoderError(self.trouble)


def _open_store(path: Path) -> sqlite3.Connection:
    """Open the vectors that were paid for, or empty files in place of damaged ones. Raises EncoderError."""
    store = sqlite3.connect(path, timeout=LOCK_SECONDS, check_same_thread=False)
    try:
        with store:
            store.execute("CREATE TABLE IF NOT EXISTS vector (digest BLOB PRIMARY KEY, value BLOB)")
            store.execute("CREATE TABLE IF NOT EXISTS request (texts INT, characters INT, tokens INT)")
    except sqlite3.DatabaseError as error:
        store.close()
        # A file that is locked, or on a full disk, has vectors that were paid for.
        if not _is_damage(error):
            raise EncoderError(f"{path}: {error}") from error
        path.unlink(missing_ok=True)
        return _open_store(path)
    return store


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # The lowest byte of a code is its kind. Errors of Python's library have no code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE
