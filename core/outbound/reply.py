"""What came back over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply, read whole. Header names are lower case; `body` is decoded from its transfer coding."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
