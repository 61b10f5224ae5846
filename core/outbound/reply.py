"""What came back over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.outbound.rest import Rest


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply, read whole. Header names are lower case; `body` is decoded from its transfer coding.

    `rest` is what is still to come of a reply of which enough was read, where the request keeps it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    rest: Rest | None = field(default=None, repr=False, compare=False)
