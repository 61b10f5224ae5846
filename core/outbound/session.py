"""The only outbound HTTP client.

A `HttpSession` sends requests to one origin, with the credential of that origin and over one connection. It
connects only to checked addresses (addresses.py), bounds every wait (connection.py) and converts every
failure into one of three errors (errors.py). A session belongs to one thread.
"""

import copy
import json as jsonlib
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from types import MappingProxyType, TracebackType
from typing import Any, Self

from urllib3 import HTTPHeaderDict

from core.outbound.addresses import CheckedUrl, Policy, check_url
from core.outbound.challenges import wants_more_scope
from core.outbound.connection import Connection, Resolver, system_resolver
from core.outbound.connection_pool import KeptFor
from core.outbound.errors import ProtocolError, RefusedError, UnavailableError
from core.outbound.exchange import Exchange, glimpse, record_exchange, record_late_exchange
from core.outbound.limits import DEFAULT_LIMITS, Budget, Limits, too_much_in_all
from core.outbound.listening import Listening, MergedConnections
from core.outbound.open_reply import OpenReplies, OpenReply
from core.outbound.refusals import refusal
from core.outbound.reply import Reply
from core.outbound.request import (
    AppliedCredential,
    Apply,
    IsEnough,
    OutgoingRequest,
    Request,
    RequestMethods,
    SessionCredential,
    apply_headers,
    check_header,
    request_target,
)
from core.outbound.response import Incoming, read_body, with_converted_errors
from core.outbound.rest import ReplyConnection, ReplyRemainder
from core.outbound.secret_echo import SecretScanner
from core.outbound.sockets import ClientCertificate

_PASSING = {"RESET", "NO_REPLY", "BODY_TRUNCATED", "CONNECT", "PROXY", "RATE_LIMITED"}
# For the closing requests of an interrupted session.
PARTING_SECONDS = 5.0
# Waits up to the first number of seconds until a request that takes up to the second may be sent.
Turns = Callable[[float, float], AbstractContextManager[None]]
# Receives the partial results of a reply.
Follower = Callable[[Mapping[str, Any]], None]
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
AGENT = "Pegboard"


def no_turns(patience: float, longest: float) -> AbstractContextManager[None]:
    return nullcontext()


class HttpSession(RequestMethods):
    """An HTTP session with one origin; see `protocols.base.Session`.

    authorization: headers with the credential, sent only to `authorized_for` (an origin; None: that of
    `root`).
    secrets: a reply that contains one of these is refused, so that nothing stored or shown contains it.
    credential: adds its headers or parameters to each request; replaces `authorization`. It may change
    meanwhile.
    certificate: proves to `authorized_for` who opens the connection.
    exchanges: a list that receives a record of every request, or None.
    reached_addresses: receives the policy entry for each private address of a connection.
    turns: makes each request wait for its turn.
    agent: the User-Agent.
    kept_for: the connection outlives the session, for the next one of the same owner and identity.
    open_replies: allows a reply to stay open beyond the session.
    """

    def __init__(
        self,
        root: str,
        *,
        policy: Policy,
        authorization: Mapping[str, str] = _NO_HEADERS,
        authorized_for: str | None = None,
        secrets: Sequence[str] = (),
        credential: SessionCredential | None = None,
        certificate: ClientCertificate | None = None,
        memory: dict[str, Any] | None = None,
        exchanges: MutableSequence[Exchange] | None = None,
        reached_addresses: dict[str, str] | None = None,
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
        # Open replies are limited for each holder, so that no caller takes all places.
        self.holder = ""
        self.is_followed = follower is not None
        self._follower = follower
        self._open_replies = open_replies
        # Checked before each request that may be sent only once.
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
            reached_addresses=reached_addresses,
            kept_for=kept_for,
        )
        url = self._check(root)
        for header in authorization.items():
            check_header(*header)
        self._authorized = (authorized_for or url.origin, authorization, credential, certificate)
        self._speak_to(url)

    def _speak_to(self, url: CheckedUrl) -> None:
        origin, authorization, credential, certificate = self._authorized
        is_authorized = url.origin == origin
        self.root, self._url = url.text, url
        self._apply: Apply | None = None
        if is_authorized and authorization:
            self._apply = partial(apply_headers, authorization)
        self._credential = credential if is_authorized else None
        self._certificate = certificate if is_authorized else None
        self._connection = self._connect(url, certificate=self._certificate)
        self._others: list[HttpSession] = []
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
        """End the current request now, as if its connection had broken. For another thread.

        Afterwards only closing requests are sent, within PARTING_SECONDS.
        """
        self._interrupted.set()
        self._ends = time.monotonic() + min(self._time_left(), PARTING_SECONDS)
        self._connection.interrupt()
        for other in self._others:
            other.interrupt()

    def sleep(self, seconds: float) -> None:
        """Wait, or return at once if the session is interrupted."""
        self._interrupted.wait(seconds)

    def pass_on(self, partial: Mapping[str, Any]) -> None:
        # The whole reply is scanned at its end; partial results are passed on earlier.
        if self._secrets.holds(jsonlib.dumps(partial, ensure_ascii=False).encode(errors="replace")):
            raise self._echo_error()
        if self._follower:
            self._follower(partial)
        if not self._limits.with_progress or self.is_interrupted:
            return
        # Repeated values and log messages are not progress.
        progress = partial.get("progress")
        value = progress.get("progress") if isinstance(progress, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and value > self._progress:
            self._progress = value
            now = time.monotonic()
            self._ends = min(now + self._limits.session, self._began + self._limits.with_progress)
            if self._budget:
                self._budget.extend(self._ends)

    def at_url(self, url: str) -> "HttpSession":
        """Return a new session for another address, with the remaining time of this one."""
        other = copy.copy(self)
        other._speak_to(self._check(url))
        self._others.append(other)
        return other

    def listen(
        self, path: str, headers: Mapping[str, str], *, json: object = None, seconds: float = 0.0
    ) -> Listening:
        """Start to read a stream of events from the same origin over a connection of its own.

        json: requests the stream with POST. seconds: it may be silent for so long, 0: as long as a request.

        It ends when it is closed or this session is interrupted. It takes no turn, because it is no work for
        the vendor.
        """
        other = copy.copy(self)
        other._speak_to(self._url)
        other._interrupted, other.exchanges, other._credential = threading.Event(), None, None
        other._apply, other._turns = self._apply, no_turns
        self._others.append(other)
        if seconds:
            other._limits = replace(self._limits, request=seconds, session=seconds, is_callers_deadline=True)

        def is_enough(body: bytes) -> bool:
            return True

        def ask() -> Reply:
            # The connection of a reply that stays open does not belong to the session any more.
            with other:
                if json is None:
                    return other.get(path, headers=headers, is_enough=is_enough, keeps_rest=True)
                return other.post(
                    path,
                    json=json,
                    headers=headers,
                    is_repeatable=True,
                    is_enough=is_enough,
                    keeps_rest=True,
                )

        return Listening(ask, other.interrupt)

    def keep_open(
        self,
        reply: Reply,
        facts: Mapping[str, Any],
        on_expiry: Callable[["HttpSession", Mapping[str, Any]], None],
    ) -> str | None:
        """Keep an unfinished reply open and return its name. None if there is no place, or it is finished.

        facts: JSON that is stored with it. on_expiry: runs with a session of its own and the facts of that
        moment when no one has read the reply for OPEN_SECONDS.
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
        # The goodbye is sent long after the call of the reply has ended.
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
        """Return the open reply, or None if it is closed or belongs to another origin."""
        return self._open_replies.find(name, self._url.origin) if self._open_replies else None

    def keep_facts(self, facts: Mapping[str, Any]) -> str | None:
        """Store facts (JSON) encrypted for an hour and return the name for later sessions with this origin.

        None if they cannot be stored.
        """
        return self._open_replies.keep_facts(facts, self._url.origin) if self._open_replies else None

    def find_facts(self, name: str) -> Mapping[str, Any] | None:
        """Return stored facts, or None if they are gone or belong to another origin."""
        return self._open_replies.find_facts(name, self._url.origin) if self._open_replies else None

    def read_open_reply(self, reply: OpenReply, is_enough: IsEnough) -> Reply:
        """Read an open reply until `is_enough`, and add its body to the record of the last request."""
        began = time.monotonic()
        if self._credential:
            # A session without a request so far does not know the secrets yet.
            self._use_credential(self._credential.current())
        full_reply = reply.read(
            is_enough, min(self._time_left(), self._limits.request), lambda: self.is_interrupted
        )
        self.bytes_read += len(full_reply.body)
        if self._secrets.holds(full_reply.body):
            raise self._echo_error()
        if self.exchanges:
            self.exchanges[-1] = record_late_exchange(
                self.exchanges[-1], full_reply.body, began, self._secrets
            )
        return full_reply

    def send(self, request: Request) -> Reply:
        target = request_target(self._url, request)
        for pause in self._limits.backoff if request.is_repeatable else ():
            try:
                return self._exchange(request, target)
            except UnavailableError as error:
                if error.code not in _PASSING and not error.code.startswith("HTTP_"):
                    raise
                wait = error.retry_after
                if wait is None:
                    wait = pause * random.uniform(0.5, 1.5)  # noqa: S311 - spreads retries, protects nothing
                is_too_late = self._ends is not None and time.monotonic() + wait >= self._ends
                if is_too_late or wait > self._limits.patience:
                    raise
            self.sleep(wait)
        return self._exchange(request, target)

    def _exchange(self, request: Request, target: str) -> Reply:
        # A repeatable request is sent again if the vendor requires another token and there is one.
        if self._credential is None:
            return self._exchange_once(request, target)
        self._use_credential(self._credential.current())
        outcome = self._try_exchange(request, target)
        if self._credential.answered(self._status, self._challenge) and request.is_repeatable:
            self._use_credential(self._credential.current())
            outcome = self._try_exchange(request, target)
            self._credential.answered(self._status, self._challenge)
        if isinstance(outcome, RefusedError):
            raise outcome
        return outcome

    def _try_exchange(self, request: Request, target: str) -> Reply | RefusedError:
        self._status, self._challenge = 0, ""
        try:
            return self._exchange_once(request, target)
        except RefusedError as error:
            return error

    def _use_credential(self, applied_credential: AppliedCredential) -> None:
        self._apply = applied_credential.apply
        self._secrets.add(applied_credential.secrets)

    def _exchange_once(self, request: Request, target: str) -> Reply:
        try:
            self._refuse_unwanted(request)
            with self._turns(self._time_left(), self._limits.request):
                # The wait for the turn may have been long.
                self._refuse_unwanted(request)
                reply = self._send_and_read(request, target)
        except ProtocolError as error:
            if self._secrets.holds(error.message.encode(errors="replace")):
                raise self._echo_error() from None
            raise
        texts = (reply.body, *(text.encode() for header in reply.headers.items() for text in header))
        if any(map(self._secrets.holds, texts)):
            if reply.rest:
                reply.rest.abandon()
            raise self._echo_error()
        return reply

    def _refuse_unwanted(self, request: Request) -> None:
        if request.is_closing:
            return
        if self.is_interrupted or not (request.is_repeatable or self.may_send()):
            message = "The call had ended before this request was sent."
            raise UnavailableError("INTERRUPTED", message)

    def _echo_error(self) -> RefusedError:
        return RefusedError(
            "ECHO", f"{self._url.authority} sent the credential back, so its reply was discarded."
        )

    def _send_and_read(self, request: Request, target: str) -> Reply:
        budget = self._budget = Budget(
            self._url.authority, self._limits, time.monotonic() + self._time_left()
        )
        is_done = False
        parts: list[bytes] = []
        reply_rest: ReplyRemainder | None = None
        connection: ReplyConnection = self._connection
        incoming = Incoming()
        headers = HTTPHeaderDict({"Accept": "application/json", "User-Agent": self.agent})
        for name, value in request.headers.items():
            check_header(name, value)
            headers[name] = value
        headers["Accept-Encoding"] = "gzip"
        outgoing = OutgoingRequest(request.method, self._url.authority, target, headers, request.content)
        began = time.monotonic()
        pieces = with_converted_errors(budget, self._receive_body(request, outgoing, budget, incoming, parts))
        url = self._url.origin + target
        try:
            if request.second_stream:
                # Before the head of the reply, because the vendor may need an answer on the other stream
                # first.
                pieces = request.second_stream.merge_events(incoming.as_events(pieces, budget), connection)
                connection = MergedConnections(connection, request.second_stream)
            is_done = self._read_reply(pieces, budget, request.is_enough, parts)
            if incoming.is_whole and not is_done:
                # The reply is complete, so the connection can be used again.
                is_done = self._read_reply(pieces, budget, None, [])
            reply = incoming.reply(b"".join(parts), url, has_second_stream=request.second_stream is not None)
            parts = [reply.body]
            if request.keeps_rest and not is_done and reply.status == HTTPStatus.OK:
                reply_rest = ReplyRemainder(connection, pieces, budget, len(reply.body))
        finally:
            if not is_done:
                if reply_rest is None:
                    connection.abandon()
                self._connection = self._connect(self._url, certificate=self._certificate)
            if self.exchanges is not None:
                exchange = record_exchange(request, url, incoming.response, parts, began, self._secrets)
                self.exchanges.append(exchange)
        return replace(reply, rest=reply_rest)

    def _receive_body(
        self,
        request: Request,
        outgoing: OutgoingRequest,
        budget: Budget,
        incoming: Incoming,
        parts: list[bytes],
    ) -> Iterator[bytes]:
        """Send the request and yield the pieces of the body. `parts` receives the start of a refused
        reply."""
        target = outgoing.target
        if self._apply:
            self._apply(outgoing)
            self._secrets.add(outgoing.secrets)
        incoming.response = response = self._connection.ask(
            outgoing.method,
            outgoing.target,
            outgoing.headers,
            outgoing.content,
            budget,
            is_repeatable=request.is_repeatable,
            is_unwanted=lambda: self.is_interrupted and not request.is_closing,
        )
        self._status = response.status
        challenge = response.headers.get("www-authenticate", "")
        # The challenge is stored and shown, so it must not contain the credential.
        self._challenge = "" if self._secrets.holds(challenge.encode(errors="replace")) else challenge
        # This 403 concerns the token and not the request, whatever the protocol accepts.
        is_too_narrow = response.status == HTTPStatus.FORBIDDEN and wants_more_scope(self._challenge)
        if response.status not in request.accept or is_too_narrow:
            if self.exchanges is not None:
                glimpse(response, budget, parts)
            has_credential = bool(self._apply or self._certificate)
            raise refusal(response, self._url, target, self._challenge, has_credential=has_credential)
        yield from read_body(response, budget)

    def _time_left(self) -> float:
        if self._ends is None:
            self._began = time.monotonic()
            self._ends = self._began + self._limits.session
        return self._ends - time.monotonic()

    def _read_reply(
        self, pieces: Iterator[bytes], budget: Budget, is_enough: IsEnough | None, parts: list[bytes]
    ) -> bool:
        """Read pieces into `parts` and return whether the reply is complete."""
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
