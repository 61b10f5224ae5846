"""What came back over HTTP."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Whether the bytes that have come so far are all that is wanted: streams may stay open.
IsEnough = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply, read whole. Header names are lower case; `body` is decoded from its transfer coding."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
