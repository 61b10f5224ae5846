"""The vectors of the tools of a host, in files that are mapped into memory.

The signs of a vector's components are a few bytes, which a scan of all tools compares; the best of these are
compared exactly. Signs are stored in blocks of places, a row for each word of 64 signs, because a processor
counts along rows twice as fast. A state is stored with the vectors. Files that do not fit together are thrown
away.

Each place has a checksum. What is compared is checked each time, and everything else a part at a time.
"""

import math
import os
import shutil
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from catalog.meaning.vector_head import VectorHead, read_head, write_head

Vectors = npt.NDArray[np.float32]
# So many of the tools with the most equal signs are compared exactly.
RESCORED = 500
# A block has so many places; the capacity is a multiple of it.
_BLOCK = 1_024
# The scan compares so many blocks at a time, which fit into the cache of a processor.
_SCANNED = 16
# The processors share the scan of so many blocks.
_SHARED = 128
_KEY = np.dtype([("tool", "<i8"), ("endpoint", "<i8")])
# The places of tools are listed by id; a higher one in a file is damage.
_MAX_TOOL = 2**27
# The key of a place that is free.
_NO_TOOL = 0
# More signs differ than a vector has.
_EXCLUDED = 2**16 - 1
# So many places are checked at a time, within a millisecond.
_CHECKED = 2_048
# The checksum of a place while it is written. The state is older then, so it will be written again.
_UNFINISHED = 1


class DamagedVectorsError(Exception):
    """The files are no longer as they were written."""


class VectorFile:
    def __init__(self, directory: Path, recipe: str, dimensions: int) -> None:
        self._directory, self._recipe, self._dimensions = directory, recipe, dimensions
        self._count = self._checked_through = 0
        self.state: str | None = None
        self._scanners = ThreadPoolExecutor(os.cpu_count(), "scan of vectors")
        # Odd, so that no change of one number leaves the sum of its products as it is.
        count = _KEY.itemsize // 8 + -(-dimensions // 64) + -(-dimensions // 4)
        self._factors = np.random.default_rng(1).integers(0, 2**63, count, np.uint64) * 2 + 1
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        head = read_head(directory, recipe)
        try:
            if head is None or head.dimensions != dimensions or head.capacity % _BLOCK:
                raise ValueError("The vectors are of another model.")
            self._map(head.capacity, "r+")
            self._count, self.state = head.count, head.state
            if not 0 <= self._count <= len(self._keys):
                raise ValueError("The vectors are not complete.")
            tools = self._keys["tool"][: self._count]
            if tools.min(initial=0) < 0 or tools.max(initial=0) > _MAX_TOOL:
                raise ValueError("The keys are damaged.")
            self._list_places()
        except (OSError, ValueError):
            self.clear()

    def clear(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True, mode=0o700)
        self.state, self._count, self._checked_through = None, 0, 0
        self._map(_BLOCK, "w+")
        self._list_places()

    def _map(self, capacity: int, mode: str) -> None:
        self._mapped_files: dict[Path, tuple[int, int]] = {}

        def mapped(name: str, kind: Any, *shape: int) -> Any:
            path = self._directory / name
            size = math.prod(shape) * np.dtype(kind).itemsize
            if mode == "w+":
                path.touch(mode=0o600)
                _reserve_space(path, size)
            # The library would fill what is missing with zeros. A file is longer after growing was cut off.
            elif path.stat().st_size < size:
                raise ValueError(f"{path} is not complete.")
            self._mapped_files[path] = (path.stat().st_ino, size)
            return np.memmap(path, kind, "r+", shape=shape)

        blocks, words = capacity // _BLOCK, -(-self._dimensions // 64)
        self._keys = mapped("keys", _KEY, capacity)
        self._signs: npt.NDArray[np.uint64] = mapped("signs", "<u8", blocks, words, _BLOCK)
        self._vectors: npt.NDArray[np.float16] = mapped("vectors", "<f2", capacity, self._dimensions)
        self._sums: npt.NDArray[np.uint64] = mapped("sums", "<u8", capacity)

    def _list_places(self) -> None:
        """List the place of each tool by its id, -1 for a tool without a vector, and the free places."""
        tools = self._keys["tool"][: self._count]
        self._places = np.full(int(tools.max(initial=0)) + 1, -1, np.int32)
        self._places[tools] = np.arange(self._count)
        self._places[_NO_TOOL] = -1
        self._free = np.flatnonzero(tools == _NO_TOOL).tolist()

    def write(
        self,
        tools: Sequence[int],
        endpoints: Sequence[int],
        vectors: Vectors,
        removed: Collection[int],
        state: str,
    ) -> None:
        changed_places = []
        for tool in removed:
            if (place := self._place_of(tool)) >= 0:
                changed_places.append(place)
                self._sums[place] = _UNFINISHED
                self._keys[place] = (_NO_TOOL, 0)
                self._places[tool] = -1
                self._free.append(place)
        self._reserve(len(tools), max(tools, default=0))
        for tool, endpoint, vector in zip(tools, endpoints, vectors, strict=True):
            if (place := self._place_of(tool)) < 0:
                place = self._free.pop() if self._free else self._count
                self._count = max(self._count, place + 1)
                self._places[tool] = place
            changed_places.append(place)
            self._sums[place] = _UNFINISHED
            self._vectors[place] = vector
            self._signs[place // _BLOCK, :, place % _BLOCK] = _signs_of(vector)
            self._keys[place] = (tool, endpoint)
        if changed_places:
            self._sums[changed_places] = self._sum_places(np.array(changed_places))
        self.state = state
        head = VectorHead(
            recipe=self._recipe,
            dimensions=self._dimensions,
            capacity=len(self._keys),
            count=self._count,
            state=self.state,
        )
        write_head(self._directory, head)

    def _place_of(self, tool: int) -> int:
        return int(self._places[tool]) if 0 < tool < len(self._places) else -1

    def _reserve(self, added: int, last_tool: int) -> None:
        if last_tool >= len(self._places):
            grown = np.full(max(last_tool + 1, 2 * len(self._places)), -1, np.int32)
            grown[: len(self._places)] = self._places
            self._places = grown
        capacity = len(self._keys)
        if self._count + added <= capacity:
            return
        while self._count + added > capacity:
            capacity *= 2
        # The maps of the shorter files see the same pages until they are replaced.
        arrays = {"keys": self._keys, "signs": self._signs, "vectors": self._vectors, "sums": self._sums}
        for name, array in arrays.items():
            _reserve_space(self._directory / name, capacity // len(self._keys) * array.nbytes)
        self._map(capacity, "r+")

    def check_next(self) -> None:
        """Check some of the places, after those of the last time. Raises DamagedVectorsError."""
        self.check_files()
        start = self._checked_through if self._checked_through < self._count else 0
        self._checked_through = min(start + _CHECKED, self._count)
        self._check_places(np.arange(start, self._checked_through))

    def check_files(self) -> None:
        """Raise DamagedVectorsError unless the mapped files still have their names and sizes.

        An access beyond the end of a file would end the process.
        """
        for path, (number, size) in self._mapped_files.items():
            try:
                status = path.stat()
            except OSError as error:
                raise DamagedVectorsError(str(error)) from error
            if status.st_ino != number or status.st_size < size:
                raise DamagedVectorsError(f"{path} is not complete.")

    def _check_places(self, places: npt.NDArray[np.int64]) -> None:
        if not len(places):
            return
        sums = self._sums[places]
        if ((sums != self._sum_places(places)) & (sums != _UNFINISHED)).any():
            raise DamagedVectorsError("The vectors are not as they were written.")

    def _sum_places(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Return a checksum for the key, the signs and the vector of each place."""
        vectors = self._vectors[places]
        vectors = np.pad(vectors, ((0, 0), (0, -vectors.shape[1] % 4)))
        numbers = [
            np.ascontiguousarray(part).view(np.uint64).reshape(len(places), -1)
            for part in (self._keys[places], self._signs[places // _BLOCK, :, places % _BLOCK], vectors)
        ]
        sums: npt.NDArray[np.uint64] = np.hstack(numbers) @ self._factors
        return sums

    def cosines(self, wordings: Vectors, tools: Sequence[int]) -> dict[int, float]:
        """Return the cosines of those of the tools that have a vector, each with the nearest of the wordings.

        Raises DamagedVectorsError.
        """
        self.check_files()
        places = {tool: place for tool in tools if (place := self._place_of(tool)) >= 0}
        values = self._compare(wordings, np.fromiter(places.values(), np.int64, len(places)))
        return dict(zip(places, values.tolist(), strict=True))

    def nearest(
        self, vector: npt.NDArray[np.float32], endpoints: Collection[int] | None, limit: int
    ) -> dict[int, float]:
        """Return the cosines of the nearest tools, best first. Raises DamagedVectorsError."""
        self.check_files()
        keys = self._keys[: self._count]
        is_searched = keys["tool"] != _NO_TOOL
        if endpoints is not None:
            is_searched &= np.isin(keys["endpoint"], list(endpoints))
        different = self._count_different(_signs_of(vector))
        np.copyto(different, _EXCLUDED, where=~is_searched)
        places = _find_lowest(different, RESCORED)
        values = self._compare(vector[np.newaxis], places)
        best = np.argsort(-values)[:limit]
        tools = self._keys["tool"][places[best]]
        return dict(zip(tools.tolist(), values[best].tolist(), strict=True))

    def _count_different(self, signs: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
        """Return how many signs of each place differ from these."""
        blocks = -(-self._count // _BLOCK)
        different = np.empty((blocks, _BLOCK), np.uint16)

        def scan(start: int) -> None:
            scanned = slice(start, min(start + _SCANNED, blocks))
            other = self._signs[scanned] ^ signs[:, np.newaxis]
            np.bitwise_count(other).sum(1, dtype=np.uint16, out=different[scanned])

        starts = range(0, blocks, _SCANNED)
        if blocks < _SHARED:
            for start in starts:
                scan(start)
        else:
            # The library lets other threads run while it counts.
            list(self._scanners.map(scan, starts))
        return different.reshape(-1)[: self._count]

    def _compare(self, wordings: Vectors, places: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        self._check_places(places)
        cosines = self._vectors[places].astype(np.float32) @ wordings.T
        nearest: npt.NDArray[np.float32] = cosines.max(1)
        return nearest


def _find_lowest(numbers: npt.NDArray[np.uint16], limit: int) -> npt.NDArray[np.int64]:
    """Return the places of the lowest numbers, at most so many, without those that are excluded."""
    reached = np.cumsum(np.bincount(numbers, minlength=_EXCLUDED + 1)[:_EXCLUDED])
    highest = int(np.searchsorted(reached, limit))
    if highest == _EXCLUDED:
        return np.flatnonzero(numbers != _EXCLUDED)
    lower = np.flatnonzero(numbers < highest)
    return np.concatenate([lower, np.flatnonzero(numbers == highest)[: limit - len(lower)]])


def _reserve_space(path: Path, size: int) -> None:
    """Raise OSError where the disk has no room, which would end the process at a write to the map."""
    with path.open("r+b") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:  # macOS
            file.truncate(size)


def _signs_of(vector: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    packed = np.packbits(vector > 0)
    return np.pad(packed, (0, -len(packed) % 8)).view(np.uint64)
