"""The only way out to a URL that a person typed.

A `Session` speaks to one origin: it carries that origin's credential, keeps one connection, dials
only judged addresses (addresses.py), ends every wait (connection.py) and turns whatever goes wrong into one
of three errors (errors.py). One session belongs to one thread.
"""

import copy
import json as jsonlib
import math
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from types import MappingProxyType, TracebackType
from typing import Any, Self
from typing import Protocol as Interface
from urllib.parse import quote, unquote, urlencode

from urllib3 import HTTPHeaderDict

from core.outbound.addresses import CheckedUrl, Policy, check_url
from core.outbound.challenges import wants_more_scope
from core.outbound.connection import Connection, Resolver, system_resolver
from core.outbound.connection_pool import KeptFor
from core.outbound.errors import (
    ProtocolError,
    RefusedError,
    UnavailableError,
    printable,
)
from core.outbound.exchange import Exchange, glimpse, recorded, with_rest
from core.outbound.incoming import Incoming
from core.outbound.limits import DEFAULT_LIMITS, Budget, Limits, too_much_in_all
from core.outbound.listening import Listening, Together
from core.outbound.open_reply import OpenReplies, OpenReply
from core.outbound.refusals import refusal
from core.outbound.reply import Reply
from core.outbound.request import IsEnough, Request, RequestMethods
from core.outbound.response import in_words_of, read_body
from core.outbound.rest import Line, Rest
from core.outbound.secret_echo import SecretScanner

_PASSING = {"RESET", "NO_REPLY", "BODY_TRUNCATED", "CONNECT", "PROXY", "RATE_LIMITED"}
_PATH = re.compile(r"(?:/(?!/)[!$%&'()*+,\-./0-9:;=@A-Z_a-z~]*)?")
_QUERY = re.compile(r"[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~\[\]]*")
_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
# In which an interrupted session may say goodbye.
PARTING_SECONDS = 5.0
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
# Headers that carry a credential, and every text by which it could come back.
Carried = tuple[Mapping[str, str], Sequence[str]]
# Waits, for up to so many seconds, until a request that takes up to so many may leave.
Turns = Callable[[float, float], AbstractContextManager[None]]
# Is told what a reply has brought so far.
Follower = Callable[[Mapping[str, Any]], None]
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
AGENT = "Pegboard"


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


class Session(RequestMethods):
    """See `protocols.base.Session`. `authorization` are the headers that carry the credential.

    They go to `authorized_for` (an origin) alone; None: to the root's. So does `authorization_query`,
    which is added to every address on its way out and to none that is shown or kept. A reply that
    holds one of `secrets` is refused, so that nothing that is kept or shown can hold it. `exchanges`
    is None, or the list to which every exchange is added; `reached` likewise learns through which entry
    of the policy a private address was dialled. Each request waits for its turn. A `renewal` says before
    each request what carries the credential now. `agent` is as whom we introduce ourselves. With `kept_for`
    the connection outlives the session, for the next one of the same owner and identity. With `open_replies`
    a reply may stay open beyond it.
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
        kept_for: KeptFor | None = None,
        mark: str = "",
        follower: Follower | None = None,
        open_replies: OpenReplies | None = None,
    ) -> None:
        self.largest = limits.body
        self.memory = {} if memory is None else memory
        self.exchanges = exchanges
        self.agent = agent
        self.mark = mark
        # For whom replies are kept open: no caller takes the places of all others.
        self.holder = ""
        self.is_followed = follower is not None
        self._follower = follower
        self._open_replies = open_replies
        # True: what is asked may still leave. Asked before whatever may be sent only once.
        self.may_send: Callable[[], bool] = lambda: not self.is_interrupted
        self._interrupted = threading.Event()
        self._secrets = SecretScanner(secrets)
        self._limits = limits
        self._turns = turns
        self._began = 0.0
        self._ends: float | None = None
        self._progress = -math.inf
        self._budget: Budget | None = None
        self._check = partial(check_url, policy=policy, may_ask=True)
        self._connect = partial(
            Connection,
            policy=policy,
            resolver=resolver,
            authorities=authorities,
            reached=reached,
            kept_for=kept_for,
        )
        url = self._check(root)
        self._authorized = (authorized_for or url.origin, authorization, authorization_query, renewal)
        self._speak_to(url)

    def _speak_to(self, url: CheckedUrl) -> None:
        origin, authorization, query, renewal = self._authorized
        is_authorized = url.origin == origin
        self.root, self._url = str(url), url
        self._authorization = _checked(authorization) if is_authorized else _NO_HEADERS
        self._query = urlencode(query, quote_via=quote) if is_authorized else ""
        self._renewal = renewal if is_authorized else None
        self._connection = self._connect(url)
        self._others: list[Session] = []
        self.bytes_read = 0
        self._status, self._challenge = 0, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.leave()

    @property
    def is_interrupted(self) -> bool:
        return self._interrupted.is_set()

    def interrupt(self) -> None:
        """From another thread: the exchange that is under way ends now, as if its connection had broken.
        Only what is closing is sent afterwards, and has little time."""
        self._interrupted.set()
        self._ends = time.monotonic() + min(self._time_left(), PARTING_SECONDS)
        self._connection.interrupt()
        for other in self._others:
            other.interrupt()

    def sleep(self, seconds: float) -> None:
        """Ends at once when the session is interrupted."""
        self._interrupted.wait(seconds)

    def pass_on(self, partial: Mapping[str, Any]) -> None:
        # The whole reply is looked through when it has come; this leaves before.
        if self._secrets.holds(jsonlib.dumps(partial, ensure_ascii=False).encode(errors="replace")):
            raise self._echo()
        if self._follower:
            self._follower(partial)
        if self._limits.with_progress and not self.is_interrupted and self._has_advanced(partial):
            self._extend()

    def _has_advanced(self, partial: Mapping[str, Any]) -> bool:
        # A vendor that repeats itself, or sends log messages alone, makes no progress.
        progress = partial.get("progress")
        reached = progress.get("progress") if isinstance(progress, Mapping) else None
        if isinstance(reached, bool) or not isinstance(reached, int | float) or not reached > self._progress:
            return False
        self._progress = reached
        return True

    def _extend(self) -> None:
        now = time.monotonic()
        self._ends = min(now + self._limits.session, self._began + self._limits.with_progress)
        if self._budget:
            self._budget.extend(self._ends)

    def at(self, url: str) -> "Session":
        """A session of its own, with what is left of this one's time."""
        other = copy.copy(self)
        other._speak_to(self._check(url))
        self._others.append(other)
        return other

    def listen(self, path: str, headers: Mapping[str, str]) -> Listening:
        """Begins to read a stream of events of the same origin, over a connection of its own, until it is
        closed or this session is interrupted. It takes no turn, as it is no work for the vendor."""
        other = copy.copy(self)
        other._speak_to(self._url)
        other._interrupted, other.exchanges, other._renewal = threading.Event(), None, None
        other._authorization, other._turns = self._authorization, no_turns
        self._others.append(other)
        asked = Request(
            "GET", path, headers=headers, is_repeatable=True, is_enough=lambda body: True, keeps_rest=True
        )

        def ask() -> Reply:
            # Of a reply that goes on, the connection is no longer the session's.
            with other:
                return other.send(asked)

        return Listening(ask, other.interrupt)

    def keep_open(
        self,
        reply: Reply,
        facts: Mapping[str, Any],
        on_expiry: Callable[["Session", Mapping[str, Any]], None],
    ) -> str | None:
        """Keeps `reply` open, of which more is to come, and says under which name. None where there is no
        place, or nothing to come.

        `facts` come back with it, and are JSON. `on_expiry` has a session of its own, is told the facts as
        they are by then, and runs when no one has wanted it for `OPEN_SECONDS`.
        """
        if reply.rest is None:
            return None
        if self._open_replies is None or self.is_interrupted:
            reply.rest.abandon()
            return None
        parting = copy.copy(self)
        parting._speak_to(self._url)
        parting._interrupted, parting._ends, parting.exchanges = threading.Event(), None, None
        parting._limits = replace(self._limits, session=PARTING_SECONDS)
        # It is said when the call that the reply is of has long ended.
        parting.may_send = lambda: True

        def say_goodbye(facts: Mapping[str, Any]) -> None:
            with parting:
                on_expiry(parting, facts)

        return self._open_replies.add(
            reply,
            facts,
            origin=self._url.origin,
            holder=self.holder,
            holds_secret=self._secrets.holds,
            on_expiry=say_goodbye,
        )

    def find_open_reply(self, name: str) -> OpenReply | None:
        """None: it is not open any more, or of another origin."""
        return self._open_replies.find(name, self._url.origin) if self._open_replies else None

    def keep_facts(self, facts: Mapping[str, Any]) -> str | None:
        """Keeps what no row may hold for an hour, encrypted, and says under which name a later session with
        this origin finds it. None where it cannot be kept. `facts` are JSON."""
        return self._open_replies.keep_facts(facts, self._url.origin) if self._open_replies else None

    def find_facts(self, name: str) -> Mapping[str, Any] | None:
        """None: they are not there any more, or of another origin."""
        return self._open_replies.find_facts(name, self._url.origin) if self._open_replies else None

    def read_open_reply(self, reply: OpenReply, is_enough: IsEnough) -> Reply:
        """All that has come of it, once that is enough. What came is recorded with the last request."""
        began = time.monotonic()
        if self._renewal:
            # Of a session that has asked nothing so far, the secrets are not known yet.
            self._carry(self._renewal.current())
        whole = reply.read(
            is_enough, min(self._time_left(), self._limits.request), lambda: self.is_interrupted
        )
        self.bytes_read += len(whole.body)
        if self._secrets.holds(whole.body):
            raise self._echo()
        if self.exchanges:
            self.exchanges[-1] = with_rest(self.exchanges[-1], whole.body, began, self._secrets)
        return whole

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
            self.sleep(wait)
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
        # Asked once more, if that does no harm, when the vendor wants another token and there is one.
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
            self._refuse_unwanted(request)
            with self._turns(self._time_left(), self._limits.request):
                # It may have been long until its turn.
                self._refuse_unwanted(request)
                reply = self._ask(request, target)
        except ProtocolError as error:
            if self._secrets.holds(error.message.encode(errors="replace")):
                raise self._echo() from None
            raise
        texts = (reply.body, *(text.encode() for header in reply.headers.items() for text in header))
        if any(map(self._secrets.holds, texts)):
            if reply.rest:
                reply.rest.abandon()
            raise self._echo()
        return reply

    def _refuse_unwanted(self, request: Request) -> None:
        if request.is_closing:
            return
        if self.is_interrupted or not (request.is_repeatable or self.may_send()):
            message = "What this was to be sent for has ended, so it was not sent."
            raise UnavailableError("INTERRUPTED", message)

    def _echo(self) -> RefusedError:
        return RefusedError(
            "ECHO", f"{self._url.authority} sent our own credential back, so its reply was not taken."
        )

    def _ask(self, request: Request, target: str) -> Reply:
        sent = self._headers(request.headers)
        budget = self._budget = Budget(
            self._url.authority, self._limits, time.monotonic() + self._time_left()
        )
        is_done = False
        parts: list[bytes] = []
        rest: Rest | None = None
        line: Line = self._connection
        incoming = Incoming()
        began = time.monotonic()
        pieces = in_words_of(budget, self._answered(request, target, sent, budget, incoming, parts))
        url = self._url.origin + target
        try:
            if request.beside:
                # From before its head on: what is asked beside it may have to be answered first.
                pieces = request.beside.beside(incoming.as_events(pieces, budget), line)
                line = Together(line, request.beside)
            is_done = self._read(pieces, budget, request.is_enough, parts)
            if incoming.is_whole and not is_done:
                # Nothing of it is left, so its connection can carry another request.
                is_done = self._read(pieces, budget, None, [])
            reply = incoming.reply(b"".join(parts), url, is_beside=request.beside is not None)
            parts = [reply.body]
            if request.keeps_rest and not is_done and reply.status == HTTPStatus.OK:
                rest = Rest(line, pieces, budget, len(reply.body))
        finally:
            if not is_done:
                if rest is None:
                    line.abandon()
                self._connection = self._connect(self._url)
            if self.exchanges is not None:
                made = recorded(request, url, incoming.response, parts, began, self._secrets)
                self.exchanges.append(made)
        return replace(reply, rest=rest)

    def _answered(
        self,
        request: Request,
        target: str,
        sent: HTTPHeaderDict,
        budget: Budget,
        incoming: Incoming,
        parts: list[bytes],
    ) -> Iterator[bytes]:
        # Asks, and gives the pieces of the body, or into `parts` how that of a reply begins that is refused.
        # The key goes along on the wire and into nothing that is kept or shown.
        keyed = f"{target}{'&' if '?' in target else '?'}{self._query}" if self._query else target
        incoming.response = response = self._connection.ask(
            request.method,
            keyed,
            sent,
            request.content,
            budget,
            is_repeatable=request.is_repeatable,
            is_unwanted=lambda: self.is_interrupted and not request.is_closing,
        )
        self._status = response.status
        challenge = response.headers.get("www-authenticate", "")
        # What it asks for is kept and shown; our own credential must not come to stand there.
        self._challenge = "" if self._secrets.holds(challenge.encode(errors="replace")) else challenge
        # Whatever a protocol makes of 403: this one is about the token and not about the request.
        is_too_narrow = response.status == HTTPStatus.FORBIDDEN and wants_more_scope(self._challenge)
        if response.status not in request.accept or is_too_narrow:
            if self.exchanges is not None:
                glimpse(response, budget, parts)
            is_ours = bool(self._authorization or self._query)
            raise refusal(response, self._url, target, self._challenge, has_credential=is_ours)
        yield from read_body(response, budget)

    def _headers(self, headers: Mapping[str, str]) -> HTTPHeaderDict:
        sent = HTTPHeaderDict({"Accept": "application/json", "User-Agent": self.agent})
        for name, value in (*_checked(headers).items(), *self._authorization.items()):
            sent[name] = value
        sent["Accept-Encoding"] = "gzip"
        return sent

    def _time_left(self) -> float:
        if self._ends is None:
            self._began = time.monotonic()
            self._ends = self._began + self._limits.session
        return self._ends - time.monotonic()

    def _read(
        self, pieces: Iterator[bytes], budget: Budget, is_enough: IsEnough | None, parts: list[bytes]
    ) -> bool:
        # Whether what came, which goes into `parts`, is all that the connection had to say.
        size = 0
        for part in pieces:
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
        # Seconds, or None when trying again at once would not help.
        if error.code not in _PASSING and not error.code.startswith("HTTP_"):
            return None
        pause *= random.uniform(0.5, 1.5)  # noqa: S311 - spreads retries, protects nothing
        if error.retry_after is not None:
            pause = error.retry_after
        too_late = self._ends is not None and time.monotonic() + pause >= self._ends
        return None if too_late or pause > self._limits.patience else pause


def _checked(headers: Mapping[str, str]) -> Mapping[str, str]:
    # Refuses a header that could break out of its line, without repeating its value: it may be secret.
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise RefusedError(
                "HEADER", f"The header {printable(name)} holds a character that HTTP does not allow."
            )
    return headers
