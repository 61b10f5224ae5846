"""The only way out to a URL that a person typed.

A `Session` speaks to one origin: it carries that origin's credential, keeps one connection, dials
only judged addresses (addresses.py), ends every wait (connection.py) and turns whatever goes wrong into one
of three errors (errors.py). One session belongs to one thread.
"""

import random
import re
import time
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from types import MappingProxyType, TracebackType
from typing import Any, Self
from typing import Protocol as Interface
from urllib.parse import quote, unquote, urlencode, urlsplit

from urllib3 import HTTPHeaderDict
from urllib3.response import BaseHTTPResponse

from core.outbound.addresses import Policy, check_url
from core.outbound.challenges import scope_asked, wants_more_scope
from core.outbound.connection import (
    DEFAULT_LIMITS,
    Budget,
    Connection,
    Limits,
    Resolver,
    in_our_words,
    plain_headers,
    read_body,
    system_resolver,
    too_much_in_all,
)
from core.outbound.errors import (
    ProtocolError,
    ProtocolViolationError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.outbound.reply import Reply
from core.outbound.request import IsEnough, Request, RequestMethods
from core.outbound.retry_after import DAY, retry_after
from core.outbound.secret_echo import STRUCK_OUT, Echoes

_PASSING = {"RESET", "NO_REPLY", "BODY_TRUNCATED", "CONNECT", "RATE_LIMITED"}
_REDIRECTS = {300, 301, 302, 303, 305, 307, 308}
_PATH = re.compile(r"(?:/(?!/)[!$%&'()*+,\-./0-9:;=@A-Z_a-z~]*)?")
_QUERY = re.compile(r"[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]]*")
_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
# Headers that carry a credential, and every text by which it could come back.
Carried = tuple[Mapping[str, str], Sequence[str]]
# Waits, for up to so many seconds, until a request that takes up to so many may leave.
Turns = Callable[[float, float], AbstractContextManager[None]]
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
LONGEST_RECORDED = 64 * 1024
AGENT = "Pegboard"
GLIMPSE_SECONDS = 2.0
_SHORTEST_CUT = 4  # of a secret's beginning, less may stand at an end by chance


class Renewal(Interface):
    """Keeps an access token fresh while a conversation lasts."""

    def current(self) -> Carried: ...

    def answered(self, status: int, challenge: str) -> bool:
        """Told of every reply, or 0 for none. True when the vendor wants another token, and there is one.

        `challenge` is the WWW-Authenticate header of the reply.
        """
        ...


def no_turns(patience: float, longest: float) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its reply as they went over the wire, without what the credential added.

    `status` is 0 when no reply came. Bodies are cut at `LONGEST_RECORDED` bytes.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    status: int = 0
    reply_headers: Mapping[str, str] = field(default_factory=dict)
    reply: str = ""
    duration_ms: int = 0


class Session(RequestMethods):
    """See `catalog.protocols.base.Session`. `authorization` are the headers that carry the credential.

    They go to `authorized_for` (an origin) alone; None: to the root's. So does `authorization_query`,
    which is added to every address on its way out and to none that is shown or kept. A reply that
    holds one of `secrets` is refused, so that nothing that is kept or shown can hold it. `exchanges`
    is None, or the list to which every exchange is added; `reached` likewise learns through which entry
    of the policy a private address was dialled. Each request waits for its turn. A `renewal` says before
    each request what carries the credential now. `agent` is as whom we introduce ourselves.
    """

    def __init__(
        self,
        root: str,
        *,
        policy: Policy,
        authorization: Mapping[str, str] = _NO_HEADERS,
        authorization_query: Mapping[str, str] = _NO_HEADERS,
        authorized_for: str | None = None,
        secrets: Sequence[str] = (),
        renewal: Renewal | None = None,
        memory: dict[str, Any] | None = None,
        exchanges: MutableSequence[Exchange] | None = None,
        reached: dict[str, str] | None = None,
        turns: Turns = no_turns,
        limits: Limits = DEFAULT_LIMITS,
        resolver: Resolver = system_resolver,
        authorities: str = "",
        agent: str = AGENT,
    ) -> None:
        url = check_url(root, policy, may_ask=True)
        self.root = str(url)
        self.largest = limits.body
        self.bytes_read = 0
        self.memory = {} if memory is None else memory
        self.exchanges = exchanges
        self.agent = agent
        self._url = url
        self._is_authorized = authorized_for in (None, url.origin)
        self._authorization = _checked(authorization) if self._is_authorized else _NO_HEADERS
        self._query = urlencode(authorization_query, quote_via=quote) if self._is_authorized else ""
        self._secrets = Echoes(secrets)
        self._renewal = renewal if self._is_authorized else None
        self._status = 0
        self._challenge = ""
        self._limits = limits
        self._turns = turns
        self._ends: float | None = None
        self._connection = Connection(url, policy, resolver, authorities, reached)
        self._elsewhere = partial(
            Session,
            policy=policy,
            authorization=authorization,
            authorization_query=authorization_query,
            authorized_for=authorized_for or url.origin,
            secrets=secrets,
            renewal=renewal,
            memory=self.memory,
            exchanges=exchanges,
            reached=reached,
            turns=turns,
            limits=limits,
            resolver=resolver,
            authorities=authorities,
            agent=agent,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.abandon()

    def at(self, url: str) -> "Session":
        """A session of its own, with what is left of this one's time."""
        other = self._elsewhere(url)
        other._ends = self._ends
        return other

    def send(self, request: Request) -> Reply:
        if request.method not in _METHODS or not _QUERY.fullmatch(request.query):
            raise RefusedError("REQUEST", "The request holds what HTTP does not allow in that place.")
        target = self._target(request.path, request.query)
        for pause in self._limits.backoff if request.is_repeatable else ():
            try:
                return self._exchange(request, target)
            except UnavailableError as error:
                wait = self._wait_before_retry(error, pause)
                if wait is None:
                    raise
            time.sleep(wait)
        return self._exchange(request, target)

    def _target(self, path: str, query: str) -> str:
        dots = any(unquote(segment) in {".", ".."} for segment in path.split("/"))
        if dots or not _PATH.fullmatch(path):
            raise RefusedError("PATH", f"The path {printable(path)} would leave the endpoint's address.")
        # What the address itself asks goes along, unless this request asks it in its own way.
        asked = {part.partition("=")[0] for part in query.split("&")}
        own = [part for part in self._url.query.split("&") if part.partition("=")[0] not in asked]
        parts = [part for part in (*own, query) if part]
        target = self._url.path + path or "/"
        return f"{target}?{'&'.join(parts)}" if parts else target

    def _exchange(self, request: Request, target: str) -> Reply:
        """Asked once more, if that does no harm, when the vendor wants another token and there is one."""
        if self._renewal is None:
            return self._exchange_once(request, target)
        self._carry(self._renewal.current())
        outcome = self._outcome(request, target)
        if self._renewal.answered(self._status, self._challenge) and request.is_repeatable:
            self._carry(self._renewal.current())
            outcome = self._outcome(request, target)
            self._renewal.answered(self._status, self._challenge)
        if isinstance(outcome, RefusedError):
            raise outcome
        return outcome

    def _outcome(self, request: Request, target: str) -> Reply | RefusedError:
        self._status, self._challenge = 0, ""
        try:
            return self._exchange_once(request, target)
        except RefusedError as error:
            return error

    def _carry(self, carried: Carried) -> None:
        headers, secrets = carried
        self._authorization = _checked(headers)
        self._secrets.add(secrets)

    def _exchange_once(self, request: Request, target: str) -> Reply:
        try:
            with self._turns(self._time_left(), self._limits.request):
                reply = self._ask(request, target)
        except ProtocolError as error:
            if self._secrets.holds(error.message.encode(errors="replace")):
                raise self._echo() from None
            raise
        texts = (reply.body, *(value.encode() for value in reply.headers.values()))
        if any(map(self._secrets.holds, texts)):
            raise self._echo()
        return reply

    def _echo(self) -> RefusedError:
        return RefusedError(
            "ECHO", f"{self._url.authority} sent our own credential back, so its reply was not taken."
        )

    def _ask(self, request: Request, target: str) -> Reply:
        sent = self._headers(request.headers)
        budget = Budget(self._url.authority, self._limits, time.monotonic() + self._time_left())
        is_done = False
        response: BaseHTTPResponse | None = None
        parts: list[bytes] = []
        began = time.monotonic()
        try:
            with in_our_words(budget):
                # The key goes along on the wire and into nothing that is kept or shown.
                keyed = f"{target}{'&' if '?' in target else '?'}{self._query}" if self._query else target
                response = self._connection.ask(request.method, keyed, sent, request.content, budget)
                self._status = response.status
                challenge = response.headers.get("www-authenticate", "")
                # What it asks for is kept and shown; our own credential must not come to stand there.
                self._challenge = "" if self._secrets.holds(challenge.encode(errors="replace")) else challenge
                # Whatever a protocol makes of 403: this one is about the token and not about the request.
                is_too_narrow = response.status == HTTPStatus.FORBIDDEN and wants_more_scope(self._challenge)
                if response.status not in request.accept or is_too_narrow:
                    if self.exchanges is not None:
                        _glimpse(response, budget, parts)
                    raise self._refusal(response, target)
                is_done = self._read(response, budget, request.is_enough, parts)
        finally:
            if not is_done:
                self._connection.abandon()
            if self.exchanges is not None:
                self.exchanges.append(self._recorded(request, target, response, parts, began))
        return Reply(response.status, plain_headers(response), b"".join(parts), self._url.origin + target)

    def _recorded(
        self,
        request: Request,
        target: str,
        response: BaseHTTPResponse | None,
        parts: Sequence[bytes],
        began: float,
    ) -> Exchange:
        replied = plain_headers(response) if response else {}
        return Exchange(
            method=request.method,
            url=self._secrets.struck_out(self._url.origin + target),
            headers={name: self._secrets.struck_out(value) for name, value in request.headers.items()},
            body=self._start_of([request.content or b""]),
            status=response.status if response else 0,
            reply_headers={name: self._secrets.struck_out(value) for name, value in replied.items()},
            reply=self._start_of(parts),
            duration_ms=round((time.monotonic() - began) * 1000),
        )

    def _start_of(self, parts: Sequence[bytes]) -> str:
        """How a body begins. No secret is in it, none that was escaped and none that a cut went through."""
        content = b""
        for part in parts:
            content += part[: LONGEST_RECORDED + self._secrets.longest - len(content)]
        more = " …" if sum(map(len, parts)) > LONGEST_RECORDED else ""
        told = content.decode(errors="replace")
        text = self._secrets.struck_out(told)[:LONGEST_RECORDED]
        if text == told[:LONGEST_RECORDED] and self._secrets.holds(content):
            return STRUCK_OUT
        while self._secrets.begins_at_the_end_of(text, _SHORTEST_CUT):
            text = text[:-_SHORTEST_CUT]
        return text + more

    def _headers(self, headers: Mapping[str, str]) -> HTTPHeaderDict:
        sent = HTTPHeaderDict({"Accept": "application/json", "User-Agent": self.agent})
        for name, value in (*_checked(headers).items(), *self._authorization.items()):
            sent[name] = value
        sent["Accept-Encoding"] = "gzip"
        return sent

    def _time_left(self) -> float:
        if self._ends is None:
            self._ends = time.monotonic() + self._limits.session
        return self._ends - time.monotonic()

    def _read(
        self, response: BaseHTTPResponse, budget: Budget, is_enough: IsEnough | None, parts: list[bytes]
    ) -> bool:
        """Whether what came, which goes into `parts`, is all that the connection had to say."""
        size = 0
        for part in read_body(response, budget):
            parts.append(part)
            size += len(part)
            self.bytes_read += len(part)
            if size > budget.limits.body:
                raise budget.too_large()
            if self.bytes_read > self._limits.session_bytes:
                raise too_much_in_all(budget.host, self._limits)
            if is_enough and is_enough(b"".join(parts)):
                return False
        return True

    def _wait_before_retry(self, error: UnavailableError, pause: float) -> float | None:
        """Seconds, or None when trying again at once would not help."""
        if error.code not in _PASSING and not error.code.startswith("HTTP_"):
            return None
        pause *= random.uniform(0.5, 1.5)  # noqa: S311 - spreads retries, protects nothing
        if error.retry_after is not None:
            pause = error.retry_after
        too_late = self._ends is not None and time.monotonic() + pause >= self._ends
        return None if too_late or pause > self._limits.patience else pause

    def _refusal(self, response: BaseHTTPResponse, target: str) -> ProtocolError:
        """What a status that nobody asked for means."""
        status, host = response.status, self._url.authority
        answered = f"{host} answered {status} {_phrase(status)}".rstrip()
        if status in _REDIRECTS:
            where = self._destination(response.headers.get("location", ""))
            return RefusedError(
                "REDIRECT", f"{host} answered {status} to {where}; redirects are not followed."
            )
        if status in (401, 403):
            return self._unauthorized(status)
        if status in (404, 410):
            path = printable(target.partition("?")[0])
            return RefusedError("NOT_FOUND", f"{host} has nothing at {path}; is the address right?")
        if status in (408, 429) or 500 <= status < 600:
            return self._later(answered, status, response.headers.get("retry-after", ""))
        if 400 <= status < 500:
            return RefusedError(f"HTTP_{status}", f"{answered}.")
        if status in (204, 205):
            return ProtocolViolationError("EMPTY_REPLY", f"{answered}: a reply without a body.")
        return ProtocolViolationError(f"HTTP_{status}", f"{answered}, which is not expected here.")

    def _unauthorized(self, status: int) -> RefusedError:
        host, scope = self._url.authority, printable(scope_asked(self._challenge), 300)
        if status == HTTPStatus.FORBIDDEN and wants_more_scope(self._challenge):
            wanted = f"the scope “{scope}”" if scope else "more scopes, and does not say which"
            message = f"{host} wants a token with {wanted} for this (403 Forbidden)."
            return RefusedError("INSUFFICIENT_SCOPE", message, challenge=self._challenge)
        is_ours = self._authorization or self._query
        why = "rejected our credential" if is_ours else "asks for a credential"
        message = f"{host} {why} ({status} {_phrase(status)})."
        return RefusedError("AUTH", message, challenge=self._challenge)

    def _later(self, answered: str, status: int, header: str) -> UnavailableError:
        code = "RATE_LIMITED" if status == HTTPStatus.TOO_MANY_REQUESTS else f"HTTP_{status}"
        asked = retry_after(header)
        if asked is None:
            return UnavailableError(code, f"{answered}.")
        wait = min(asked, float(DAY))
        plan = f"; will try in {_duration(wait)}" if wait < asked else ""
        return UnavailableError(
            code, f"{answered} and asks to wait {_duration(asked)}{plan}.", retry_after=wait
        )

    def _destination(self, location: str) -> str:
        """Where a redirect points, without queries: they may carry secrets."""
        try:
            parts = urlsplit(location)
        except ValueError:
            return "an address that cannot be read"
        if not parts.netloc:
            return printable(f"{parts.scheme}:" if parts.scheme else parts.path) or "nowhere"
        host = parts.netloc.rpartition("@")[2]
        if parts.hostname == self._url.host:
            return printable(f"{parts.scheme or self._url.scheme}://{host}{parts.path}")
        return printable(host or "nowhere")


def _glimpse(response: BaseHTTPResponse, budget: Budget, parts: list[bytes]) -> None:
    """How a reply begins that is refused for its status, for whoever looks at the exchange."""
    budget.ends = min(budget.ends, time.monotonic() + GLIMPSE_SECONDS)
    size = 0
    with suppress(ProtocolError), in_our_words(budget):
        for part in read_body(response, budget):
            parts.append(part)
            size += len(part)
            if size >= LONGEST_RECORDED:
                break


def _checked(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Refuses a header that could break out of its line, without repeating its value: it may be secret."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise RefusedError(
                "HEADER", f"The header {printable(name)} holds a character that HTTP does not allow."
            )
    return headers


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _duration(seconds: float) -> str:
    for unit, length in (("days", DAY), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (unit == "h" and seconds >= length):
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
