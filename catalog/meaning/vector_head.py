"""The head of the vector files. It is written last, and read without the libraries of the vectors."""

from pathlib import Path

import msgspec

FORMAT = 3


class VectorHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a file of vectors. recipe: of the model. capacity, count: how many vectors have space, and
    how many places are used.
    """

    format: int = FORMAT
    recipe: str
    dimensions: int
    capacity: int
    count: int
    state: str | None


def read_head(directory: Path, recipe: str) -> VectorHead | None:
    """Return the head, None if there is none of this format and model."""
    try:
        head = msgspec.json.decode((directory / "head.json").read_bytes(), type=VectorHead)
    except (OSError, msgspec.MsgspecError):
        return None
    return head if (head.format, head.recipe) == (FORMAT, recipe) else None


def write_head(directory: Path, head: VectorHead) -> None:
    temporary = directory / "head.new"
    temporary.write_bytes(msgspec.json.encode(head))
    temporary.replace(directory / "head.json")
