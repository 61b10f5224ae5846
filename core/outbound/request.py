"""An HTTP request, methods that build one for anything that can send it, and the outgoing request, to which a
credential adds its headers or parameters.
"""

import json as jsonlib
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from typing import Protocol as Interface
from urllib.parse import quote, unquote, urlencode

from core.outbound.addresses import CheckedUrl
from core.outbound.errors import RefusedError, printable
from core.outbound.listening import Listening
from core.outbound.reply import Reply

# The path and the query that a request may have.
_PATH = re.compile(r"(?:/(?!/)[!$%&'()*+,\-./0-9:;=@A-Z_a-z~]*)?")
_QUERY = re.compile(r"[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]]*")
_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")

# Returns whether the bytes so far suffice, for streams that stay open.
IsEnough = Callable[[bytes], bool]
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request.

    path: appended to the root of the session. query: already escaped.
    accept: statuses that are returned; any other is an error.
    is_repeatable: may be sent again after a temporary failure, when the outcome of the first try is unknown.
    is_enough: the body is read until this is true, or to its end.
    shown: replaces the body in records.
    is_closing: is sent even after the session was interrupted.
    keeps_rest: a reply that was enough before its end stays open and belongs to the caller.
    second_stream: an event stream whose events are read together with those of the reply.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    accept: Sequence[int] = (200,)
    is_repeatable: bool = False
    is_enough: IsEnough | None = None
    shown: bytes | None = None
    is_closing: bool = False
    keeps_rest: bool = False
    second_stream: Listening | None = None


class RequestMethods(Interface):
    """`get`, `post`, `delete` and `request` on top of `send`, the only method that a wrapper has to
    replace."""

    @abstractmethod
    def send(self, request: Request) -> Reply:
        """Send a request. Raises UnavailableError, RefusedError or ProtocolViolationError."""

    def get(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        accept: Sequence[int] = (200,),
        is_enough: IsEnough | None = None,
        keeps_rest: bool = False,
    ) -> Reply:
        query = urlencode(params or {}, quote_via=quote)
        return self.send(
            Request("GET", path, query, headers or {}, None, accept, True, is_enough, keeps_rest=keeps_rest)
        )

    def post(
        self,
        path: str,
        *,
        json: object,
        headers: Mapping[str, str] | None = None,
        accept: Sequence[int] = (200,),
        is_repeatable: bool = False,
        is_enough: IsEnough | None = None,
        shown: object = None,
        is_closing: bool = False,
        keeps_rest: bool = False,
        second_stream: Listening | None = None,
    ) -> Reply:
        content, shown_content = _encode_json(json), None if shown is None else _encode_json(shown)
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        return self.send(
            Request(
                "POST",
                path,
                "",
                all_headers,
                content,
                accept,
                is_repeatable,
                is_enough,
                shown_content,
                is_closing=is_closing,
                keeps_rest=keeps_rest,
                second_stream=second_stream,
            )
        )

    def delete(
        self, path: str, *, headers: Mapping[str, str] | None = None, accept: Sequence[int] = (200, 202, 204)
    ) -> Reply:
        return self.send(Request("DELETE", path, headers=headers or {}, accept=accept))

    def request(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        accept: Sequence[int] = (200,),
        is_repeatable: bool = False,
    ) -> Reply:
        """Send a request with any method and body; `headers` declare its content type."""
        return self.send(Request(method, path, query, headers or {}, content, accept, is_repeatable))


def _encode_json(document: object) -> bytes:
    try:
        return jsonlib.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as exc:
        raise RefusedError("NUMBER", "The request contains a number that JSON cannot represent.") from exc


@dataclass(slots=True)
class OutgoingRequest:
    """A request as it is sent.

    authority: host and port, as in the Host header. target: path and query, escaped.
    secrets: texts that the credential added, which no reply may repeat.
    """

    method: str
    authority: str
    target: str
    headers: MutableMapping[str, str]
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


class AppliedCredential(NamedTuple):
    """The additions of a credential to requests now. secrets: all its texts that a reply must not contain."""

    apply: Apply
    secrets: Sequence[str]


class SessionCredential(Interface):
    """The credential of a session, which may change while the session is open."""

    def current(self) -> AppliedCredential: ...

    def answered(self, status: int, challenge: str) -> bool:
        """Report the status of a reply, or 0 for none. Return True if the vendor requires a new token and
        there is one.

        challenge: the WWW-Authenticate header of the reply.
        """
        ...


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


def request_target(root: CheckedUrl, request: Request) -> str:
    """Return the target of the request below the root. Raises RefusedError if it would leave it."""
    if request.method not in _METHODS or not _QUERY.fullmatch(request.query):
        raise RefusedError("REQUEST", "The request contains characters that HTTP does not allow there.")
    has_dots = any(unquote(segment) in {".", ".."} for segment in request.path.split("/"))
    if has_dots or not _PATH.fullmatch(request.path):
        path = printable(request.path)
        raise RefusedError("PATH", f"The path {path} would leave the endpoint's address.")
    # Parameters of the root are added, unless the request has parameters of the same name.
    names = {part.partition("=")[0] for part in request.query.split("&")}
    fixed_parts = [part for part in root.query.split("&") if part.partition("=")[0] not in names]
    query = "&".join(part for part in (*fixed_parts, request.query) if part)
    return (root.path + request.path or "/") + (f"?{query}" if query else "")
