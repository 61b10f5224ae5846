"""The reply to an HTTP request."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.outbound.rest import ReplyRemainder


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP reply. Header names are lower case; `body` is decoded.

    rest: the unread part, if the request keeps it and enough was read before the end.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    rest: ReplyRemainder | None = field(default=None, repr=False, compare=False)
