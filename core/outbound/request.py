"""What is asked over HTTP: one value, and the methods that build it for whatever can send it."""

import json as jsonlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol as Interface
from urllib.parse import quote, urlencode

from core.outbound.errors import RefusedError
from core.outbound.listening import Listening
from core.outbound.reply import Reply

# Whether the bytes that have come so far are all that is wanted: streams may stay open.
IsEnough = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class Request:
    """`path` is appended to the root of the session that sends it; `query` is already escaped.

    A reply of any status in `accept` is given back, any other is an error. Only what `is_repeatable` is
    tried again on a passing failure: after a failure the outcome at the vendor is unknown. A body is read
    to its end, or until what has come `is_enough`. `shown` stands for the body wherever the exchange is
    recorded. What `is_closing` is sent even where what the session is used for was ended from outside. With
    `keeps_rest` a reply that was enough before its end stays open, and belongs to the caller. Where it is a
    stream of events, those of `beside` are read as if they were of it.
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
    beside: Listening | None = None


class RequestMethods(Interface):
    """`get`, `post`, `delete` and `request` over one `send`, which is all that a wrapper has to replace."""

    @abstractmethod
    def send(self, request: Request) -> Reply:
        """Raises `UnavailableError`, `RefusedError` or `ProtocolViolationError` for what is not accepted."""

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
        beside: Listening | None = None,
    ) -> Reply:
        content, kept = _written(json), None if shown is None else _written(shown)
        typed = {"Content-Type": "application/json", **(headers or {})}
        return self.send(
            Request(
                "POST",
                path,
                "",
                typed,
                content,
                accept,
                is_repeatable,
                is_enough,
                kept,
                is_closing=is_closing,
                keeps_rest=keeps_rest,
                beside=beside,
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
        """Any method with any body; `headers` say what `content` is."""
        return self.send(Request(method, path, query, headers or {}, content, accept, is_repeatable))


def _written(document: object) -> bytes:
    try:
        return jsonlib.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as exc:
        raise RefusedError("NUMBER", "The request holds a number that JSON cannot carry.") from exc
