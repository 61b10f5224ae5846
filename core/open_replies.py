"""Replies that stay open while another request brings what their vendor waits for, such as a user's answer.

The process that sent the request reads on in a thread of its own and passes what comes through the broker's
server, so that any process can go on with it. What lies there is encrypted, and for as long as it is wanted:
`OPEN_SECONDS`, and anew with each question. If the process dies, so does the connection, and whoever asks for
the reply learns that it is not open any more.

Where a vendor keeps only its session open, what is needed to go on in it lies there in the same way
(`keep_facts`).
"""

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import msgspec
import redis
from django.db import connection

from core import encryption, redis_client
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError
from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, UnavailableError
from core.outbound.listening import EVENT_ENDS
from core.outbound.reply import Reply
from core.outbound.request import IsEnough
from core.outbound.rest import MAX_REST_SECONDS, OPEN_SECONDS, Rest

logger = logging.getLogger(__name__)

# In one process, of one vendor there, and for one caller of that vendor: each is a connection with its
# thread, and room at the broker's. Who does not answer leaves half of them to the others.
MAX_OPEN, MAX_OPEN_OF_ONE, MAX_OPEN_FOR_ONE = 64, 32, 16
BEAT_SECONDS = 2.0
# What is known of a reply is read once more when it is wanted no more.
HEAD_SECONDS = OPEN_SECONDS + 60
# For a user who was sent to an address, as for one who is to authorize something.
FACTS_SECONDS = 3600
# Without a beat for so long, the process that has the connection is taken for dead.
ALIVE_SECONDS = 10
LOOK_SECONDS = 0.5
# What trickles is passed on in larger pieces.
PIECE_BYTES = 64 * 1024
SECONDS_BETWEEN_PIECES = 0.02
PIECES_AT_ONCE = 256
TELL_AGAIN_AFTER = (0.5, 2.0)  # seconds
# Of what came before, so much is looked through again for a secret that was cut in two.
SEEN_AGAIN_BYTES = 16 * 1024
_DISCARDED, _WANTED = "discarded", "wanted"
_FIELD = "core.open_reply"
_ERRORS: dict[str, type[ProtocolError]] = {
    error.__name__: error for error in (UnavailableError, RefusedError, ProtocolViolationError)
}


class _Head(msgspec.Struct):
    origin: str
    status: int
    headers: dict[str, str]
    url: str
    facts: dict[str, Any]


class _Facts(msgspec.Struct):
    origin: str
    facts: dict[str, Any]


class _Piece(msgspec.Struct):
    """`ended` says that nothing follows; `error`, `code` and `message` what broke it off, if anything did."""

    body: bytes = b""
    ended: bool = False
    error: str = ""
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Lent:
    """What the session lends that had the reply."""

    origin: str
    holder: str
    holds_secret: Callable[[bytes], bool]
    on_expiry: Callable[[Mapping[str, Any]], None]


def add(
    reply: Reply,
    facts: Mapping[str, Any],
    *,
    origin: str,
    holder: str,
    holds_secret: Callable[[bytes], bool],
    on_expiry: Callable[[Mapping[str, Any]], None],
) -> str | None:
    """See `core.outbound.session.Session.keep_open`."""
    rest = reply.rest
    if rest is None:
        return None
    if not _beats.take(origin, holder):
        rest.abandon()
        return None
    name = uuid4()
    kept = {key: reply.headers[key] for key in ("content-type",) if key in reply.headers}
    head = _Head(origin, reply.status, kept, reply.url, dict(facts))
    opened = _Open(name, rest, head, _Lent(origin, holder, holds_secret, on_expiry))
    try:
        broker = redis_client.client()
        broker.set(_key(name, "head"), _sealed_head(name, head), ex=HEAD_SECONDS)
        broker.set(_key(name, _WANTED), _WANTED, ex=OPEN_SECONDS)
        broker.set(_key(name, "alive"), "1", ex=ALIVE_SECONDS)
        opened.tell(_Piece(reply.body))
        threading.Thread(target=opened.run, name="open-reply", daemon=True).start()
    # No thread can be started any more: RuntimeError.
    except (redis.RedisError, DomainError, RuntimeError) as exc:
        logger.warning("a reply of %s could not be kept open: %s", origin, exc)
        rest.abandon()
        _beats.free(origin, holder)
        return None
    _beats.add(opened)
    return str(name)


def find(name: str, origin: str) -> "OpenReply | None":
    """The reply of this origin that is open under this name, which is wanted for `OPEN_SECONDS` more; None
    where it is not open any more."""
    try:
        known = UUID(name)
        broker = redis_client.client()
        sealed = broker.get(_key(known, "head"))
        if not sealed or not broker.exists(_key(known, "alive")):
            return None
        head = _opened_head(known, str(sealed))
        if head.origin != origin or broker.get(_key(known, _WANTED)) != _WANTED:
            return None
        broker.expire(_key(known, _WANTED), OPEN_SECONDS)
        broker.expire(_key(known, "head"), HEAD_SECONDS)
        return OpenReply(known, head)
    except (ValueError, redis.RedisError, UndecryptableError, msgspec.DecodeError) as exc:
        logger.warning("open reply %s cannot be read: %s", name, exc)
        return None


def keep_facts(facts: Mapping[str, Any], origin: str) -> str | None:
    """See `core.outbound.session.Session.keep_facts`."""
    name = uuid4()
    try:
        sealed = _sealed(name, msgspec.json.encode(_Facts(origin, dict(facts))).decode())
        redis_client.client().set(_key(name, "facts"), sealed, ex=FACTS_SECONDS)
    except (redis.RedisError, DomainError) as exc:
        logger.warning("what goes on with %s could not be kept: %s", origin, exc)
        return None
    return str(name)


def find_facts(name: str, origin: str) -> Mapping[str, Any] | None:
    """What was kept of this origin under this name; None where it is not there any more."""
    try:
        known = UUID(name)
        if not (sealed := redis_client.client().get(_key(known, "facts"))):
            return None
        kept = msgspec.json.decode(_opened(known, str(sealed)), type=_Facts)
    except (ValueError, redis.RedisError, UndecryptableError, msgspec.DecodeError) as exc:
        logger.warning("what was kept as %s cannot be read: %s", name, exc)
        return None
    return kept.facts if kept.origin == origin else None


@dataclass(frozen=True)
class OpenReply:
    """As the process finds it that goes on with it."""

    name: UUID
    head: _Head

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.head.facts

    def claim(self, what: str) -> bool:
        """Whether the caller is the first that does this for it, and may. False where no one knows, too."""
        try:
            return bool(redis_client.client().set(self._claimed(what), "1", nx=True, ex=OPEN_SECONDS))
        except redis.RedisError:
            return False

    def release(self, what: str) -> None:
        """It is known not to have been done."""
        with contextlib.suppress(redis.RedisError):
            redis_client.client().delete(self._claimed(what))

    def note(self, facts: Mapping[str, Any]) -> None:
        """From now on these are its facts."""
        head = msgspec.structs.replace(self.head, facts=dict(facts))
        try:
            sealed = _sealed_head(self.name, head)
            redis_client.client().set(_key(self.name, "head"), sealed, xx=True, ex=HEAD_SECONDS)
        except redis.RedisError as exc:
            logger.warning("what is known of open reply %s could not be noted: %s", self.name, exc)

    def read(self, is_enough: IsEnough, seconds: float, is_unwanted: Callable[[], bool]) -> Reply:
        """All of it that has come, from its beginning, once that is enough or nothing follows.

        Raises ProtocolError: for what broke it off, when so many seconds have passed, and when the process
        that has the connection is gone.
        """
        ends, last, body = time.monotonic() + seconds, "0-0", bytearray()
        while True:
            pieces, last = self._after(last, min(LOOK_SECONDS, ends - time.monotonic()))
            for piece in pieces:
                body += piece.body
            end = next((piece for piece in pieces if piece.ended), None)
            if pieces and is_enough(bytes(body)):
                return self._reply(body)
            if end:
                if end.error:
                    raise _ERRORS[end.error](end.code, end.message)
                return self._reply(body)
            if is_unwanted():
                raise UnavailableError("RESET", f"{self.head.origin}: the connection was closed.")
            if time.monotonic() >= ends:
                message = f"{self.head.origin} did not finish within {seconds:.0f} s."
                raise UnavailableError("DEADLINE", message)
            if not pieces and not self._is_alive():
                raise UnavailableError("RESET", f"{self.head.origin}: the connection was reset.")

    def discard(self) -> None:
        """Nothing of it is wanted any more."""
        with contextlib.suppress(redis.RedisError):
            redis_client.client().set(_key(self.name, _WANTED), _DISCARDED, ex=OPEN_SECONDS)
            _forget(self.name)

    def _reply(self, body: bytearray) -> Reply:
        return Reply(self.head.status, self.head.headers, bytes(body), self.head.url)

    def _claimed(self, what: str) -> str:
        return _key(self.name, f"claimed:{what}")

    def _after(self, last: str, seconds: float) -> tuple[list[_Piece], str]:
        # Zero would block without an end.
        wait = max(1, round(seconds * 1000))
        try:
            found: Any = redis_client.waiting_client().xread(
                {_key(self.name, "pieces"): last}, count=PIECES_AT_ONCE, block=wait
            )
            listed = [entry for _, entries in found or () for entry in entries]
            pieces = [
                msgspec.json.decode(_opened(self.name, told["piece"]), type=_Piece) for _, told in listed
            ]
        except redis.RedisError as exc:
            logger.warning("open reply %s cannot be read: %s", self.name, exc)
            time.sleep(max(0.0, seconds))
            return [], last
        return pieces, listed[-1][0] if listed else last

    def _is_alive(self) -> bool:
        try:
            return bool(redis_client.client().exists(_key(self.name, "alive")))
        except redis.RedisError:
            return True


class _Open:
    """As it is in the process that has the connection. It has its place until no one wants it any more."""

    def __init__(self, name: UUID, rest: Rest, head: _Head, lent: _Lent) -> None:
        self.name, self.head, self.lent = name, head, lent
        self._rest = rest
        self._has_ended = self._is_over = False

    def run(self) -> None:
        try:
            try:
                end = self._read()
            finally:
                self._rest.abandon()
            self._has_ended = True
            if not self._is_over:
                self.tell(end)
        except (redis.RedisError, DomainError) as exc:
            logger.warning("what %s went on to say could not be kept: %s", self.lent.origin, exc)

    def _read(self) -> _Piece:
        # How it ended.
        gathered, seen = bytearray(), b""
        told_at = time.monotonic()
        try:
            for piece in self._rest.read(MAX_REST_SECONDS):
                gathered += piece
                if len(gathered) < PIECE_BYTES and not gathered.endswith(EVENT_ENDS):
                    continue
                time.sleep(max(0.0, told_at + SECONDS_BETWEEN_PIECES - time.monotonic()))
                seen = self._pass_on(bytes(gathered), seen)
                gathered.clear()
                told_at = time.monotonic()
            self._pass_on(bytes(gathered), seen)
        except ProtocolError as exc:
            return _Piece(ended=True, error=type(exc).__name__, code=exc.code, message=exc.message)
        return _Piece(ended=True)

    def _pass_on(self, piece: bytes, seen: bytes) -> bytes:
        if self.lent.holds_secret(seen + piece):
            why = f"{self.lent.origin} sent the credential back, so its reply was discarded."
            raise RefusedError("ECHO", why)
        self.tell(_Piece(piece))
        return (seen + piece)[-SEEN_AGAIN_BYTES:]

    def tell(self, piece: _Piece) -> None:
        """Raises redis.RedisError and DomainError."""
        sealed = _sealed(self.name, msgspec.json.encode(piece).decode())
        for pause in TELL_AGAIN_AFTER:
            try:
                return self._tell(sealed)
            except redis.RedisError:
                time.sleep(pause)
        return self._tell(sealed)

    def _tell(self, sealed: str) -> None:
        key = _key(self.name, "pieces")
        pipeline = redis_client.client().pipeline(transaction=False)
        pipeline.xadd(key, {"piece": sealed})
        pipeline.expire(key, OPEN_SECONDS)
        pipeline.execute()

    def is_over(self) -> bool:
        """Says that the process lives, and looks whether someone still wants the reply. Raises
        redis.RedisError."""
        # What has ended needs no process any more.
        lasts = OPEN_SECONDS if self._has_ended else ALIVE_SECONDS
        pipeline = redis_client.client().pipeline(transaction=False)
        pipeline.set(_key(self.name, "alive"), "1", ex=lasts)
        pipeline.expire(_key(self.name, "pieces"), OPEN_SECONDS)
        pipeline.get(_key(self.name, _WANTED))
        pipeline.get(_key(self.name, "head"))
        *_, wanted, sealed = pipeline.execute()
        if wanted == _WANTED:
            return False
        self._is_over = True
        if sealed:
            # Another process may have noted other facts.
            self.head = _opened_head(self.name, str(sealed))
        self._rest.interrupt()
        _forget(self.name)
        if wanted != _DISCARDED:
            threading.Thread(target=self._expire, name="open-reply", daemon=True).start()
        return True

    def _expire(self) -> None:
        try:
            self.lent.on_expiry(self.head.facts)
        except Exception:
            logger.exception("%s was not told that no answer comes", self.lent.origin)
        connection.close()


class _Beats:
    """One thread looks after all that are open in a process."""

    def __init__(self) -> None:
        self._open: set[_Open] = set()
        self._places: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def take(self, origin: str, holder: str) -> bool:
        with self._lock:
            of_origin = sum(count for (each, _), count in self._places.items() if each == origin)
            is_free = (
                self._places.total() < MAX_OPEN
                and of_origin < MAX_OPEN_OF_ONE
                and self._places[origin, holder] < MAX_OPEN_FOR_ONE
            )
            if is_free:
                self._places[origin, holder] += 1
        return is_free

    def free(self, origin: str, holder: str) -> None:
        with self._lock:
            # Those that have none any more go with it.
            self._places -= Counter([(origin, holder)])

    def add(self, reply: _Open) -> None:
        with self._lock:
            self._open.add(reply)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat, name="open-replies", daemon=True)
                self._thread.start()

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_SECONDS)
            with self._lock:
                if not self._open:
                    self._thread = None
                    return
                under_way = list(self._open)
            for each in under_way:
                try:
                    is_over = each.is_over()
                except redis.RedisError as exc:
                    logger.warning("open reply %s could not be looked at: %s", each.name, exc)
                    continue
                except Exception:
                    logger.exception("open reply %s could not be looked at", each.name)
                    continue
                if is_over:
                    with self._lock:
                        self._open.discard(each)
                    self.free(each.lent.origin, each.lent.holder)


_beats = _Beats()


def _forget(name: UUID) -> None:
    redis_client.client().delete(_key(name, "head"), _key(name, "pieces"), _key(name, "alive"))


def _key(name: UUID, part: str) -> str:
    return f"pegboard:open-replies:{name}:{part}"


def _sealed_head(name: UUID, head: _Head) -> str:
    return _sealed(name, msgspec.json.encode(head).decode())


def _opened_head(name: UUID, sealed: str) -> _Head:
    return msgspec.json.decode(_opened(name, sealed), type=_Head)


def _sealed(name: UUID, text: str) -> str:
    return encryption.encrypt(Secret(text), row=name, field=_FIELD)


def _opened(name: UUID, text: str) -> str:
    return encryption.decrypt(text, row=name, field=_FIELD, name="an open reply").reveal()
