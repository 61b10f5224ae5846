"""An HTTP request as it is sent, to which a credential adds what proves who sends it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

from urllib3 import HTTPHeaderDict

from core.outbound.errors import RefusedError, printable

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")


@dataclass(slots=True)
class OutgoingRequest:
    """A request as it is sent.

    authority: host and port, as in the Host header. target: path and query, escaped.
    secrets: texts that the credential added, which no reply may repeat.
    """

    method: str
    authority: str
    target: str
    headers: HTTPHeaderDict
    content: bytes | None
    secrets: list[str] = field(default_factory=list, repr=False)

    def set_header(self, name: str, value: str, *, is_secret: bool = True) -> None:
        """Set a header. Of a secret value the last word is the secret, as in `Bearer abc`."""
        check_header(name, value)
        self.headers[name] = value
        if is_secret and value:
            self.secrets.append(value.split()[-1])

    def add_parameter(self, name: str, value: str) -> None:
        """Add a secret parameter to the address on the wire. No stored address contains it."""
        separator = "&" if "?" in self.target else "?"
        self.target += f"{separator}{quote(name, safe='')}={quote(value, safe='')}"
        self.secrets += [value, quote(value, safe="")]


# Adds the proof of a credential to a request.
Apply = Callable[[OutgoingRequest], None]


class Carried(NamedTuple):
    """The additions of a credential to requests now. secrets: all its texts that a reply must not contain."""

    apply: Apply
    secrets: Sequence[str]


def apply_headers(headers: Mapping[str, str], request: OutgoingRequest) -> None:
    for name, value in headers.items():
        request.set_header(name, value, is_secret=False)


def check_header(name: str, value: str) -> None:
    """Raise RefusedError for a header that HTTP does not allow. The error does not repeat the value, which
    may be secret."""
    if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
        raise RefusedError(
            "HEADER", f"The header {printable(name)} contains a character that HTTP does not allow."
        )
