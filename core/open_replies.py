"""Replies that stay open until another request sends the data that the vendor waits for, such as a user's
answer.

The process that sent the request continues to read the reply in a thread and copies it to Redis, so any
process can continue with it. The data is encrypted and expires after `OPEN_SECONDS`, counted from the last
question. If the process dies, the connection is lost, and a reader learns that the reply is not open any
more.

If a vendor keeps only a session, the facts that a later request needs are stored in the same way
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
from core.outbound.rest import MAX_REST_SECONDS, OPEN_SECONDS, ReplyRemainder

logger = logging.getLogger(__name__)

# Limits per process, per vendor, and per caller of a vendor. Each reply needs a connection, a thread and
# memory in Redis. A caller who does not answer cannot use more than half of the limit of the vendor.
MAX_OPEN, MAX_OPEN_PER_VENDOR, MAX_OPEN_PER_CALLER = 64, 32, 16
BEAT_SECONDS = 2.0
# The head is read once more after the reply has expired.
HEAD_SECONDS = OPEN_SECONDS + 60
# As long as a user has to open an address or authorize a tool.
FACTS_SECONDS = 3600
# Without a heartbeat for this long, the process of the connection counts as dead.
ALIVE_SECONDS = 10
LOOK_SECONDS = 0.5
# Small parts are combined to larger pieces.
PIECE_BYTES = 64 * 1024
SECONDS_BETWEEN_PIECES = 0.02
PIECES_AT_ONCE = 256
RETRY_DELAYS = (0.5, 2.0)  # seconds
# Earlier bytes that are searched again, because a secret may span two pieces.
OVERLAP_BYTES = 16 * 1024
_DISCARDED, _WANTED = "discarded", "wanted"
_FIELD = "core.open_reply"
_ERRORS: dict[str, type[ProtocolError]] = {
    error.__name__: error for error in (UnavailableError, RefusedError, ProtocolViolationError)
}


class _ReplyHead(msgspec.Struct):
    origin: str
    status: int
    headers: dict[str, str]
    url: str
    facts: dict[str, Any]


class _Facts(msgspec.Struct):
    origin: str
    facts: dict[str, Any]


class _Piece(msgspec.Struct):
    """A piece of the reply. ended: nothing follows. error, code, message: the error that ended it, if any."""

    body: bytes = b""
    ended: bool = False
    error: str = ""
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Owner:
    """The owner of an open reply: the vendor's origin and the caller, with two functions of the session."""

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
    """See `core.outbound.session.HttpSession.keep_open`."""
    rest = reply.rest
    if rest is None:
        return None
    if not _beats.reserve(origin, holder):
        rest.abandon()
        return None
    name = uuid4()
    headers = {key: reply.headers[key] for key in ("content-type",) if key in reply.headers}
    head = _ReplyHead(origin, reply.status, headers, reply.url, dict(facts))
    opened = _Open(name, rest, head, _Owner(origin, holder, holds_secret, on_expiry))
    try:
        broker = redis_client.client()
        broker.set(_redis_key(name, "head"), _encrypt_head(name, head), ex=HEAD_SECONDS)
        broker.set(_redis_key(name, _WANTED), _WANTED, ex=OPEN_SECONDS)
        broker.set(_redis_key(name, "alive"), "1", ex=ALIVE_SECONDS)
        opened.send(_Piece(reply.body))
        threading.Thread(target=opened.run, name="open-reply", daemon=True).start()
    # RuntimeError: no more threads can be started.
    except (redis.RedisError, DomainError, RuntimeError) as exc:
        logger.warning("a reply of %s cannot stay open: %s", origin, exc)
        rest.abandon()
        _beats.free(origin, holder)
        return None
    _beats.add(opened)
    return str(name)


def find(name: str, origin: str) -> "StoredReply | None":
    """Return the open reply with this name and origin, and extend it by `OPEN_SECONDS`; None if it is not
    open."""
    try:
        reply_id = UUID(name)
        broker = redis_client.client()
        ciphertext = broker.get(_redis_key(reply_id, "head"))
        if not ciphertext or not broker.exists(_redis_key(reply_id, "alive")):
            return None
        head = _decrypt_head(reply_id, str(ciphertext))
        if head.origin != origin or broker.get(_redis_key(reply_id, _WANTED)) != _WANTED:
            return None
        broker.expire(_redis_key(reply_id, _WANTED), OPEN_SECONDS)
        broker.expire(_redis_key(reply_id, "head"), HEAD_SECONDS)
        return StoredReply(reply_id, head)
    except (ValueError, redis.RedisError, UndecryptableError, msgspec.DecodeError) as exc:
        logger.warning("open reply %s cannot be read: %s", name, exc)
        return None


def keep_facts(facts: Mapping[str, Any], origin: str) -> str | None:
    """See `core.outbound.session.HttpSession.keep_facts`."""
    name = uuid4()
    try:
        ciphertext = _encrypt(name, msgspec.json.encode(_Facts(origin, dict(facts))).decode())
        redis_client.client().set(_redis_key(name, "facts"), ciphertext, ex=FACTS_SECONDS)
    except (redis.RedisError, DomainError) as exc:
        logger.warning("facts about %s could not be stored: %s", origin, exc)
        return None
    return str(name)


def find_facts(name: str, origin: str) -> Mapping[str, Any] | None:
    """Return the stored facts with this name and origin, or None if they do not exist any more."""
    try:
        facts_id = UUID(name)
        if not (ciphertext := redis_client.client().get(_redis_key(facts_id, "facts"))):
            return None
        stored = msgspec.json.decode(_decrypt(facts_id, str(ciphertext)), type=_Facts)
    except (ValueError, redis.RedisError, UndecryptableError, msgspec.DecodeError) as exc:
        logger.warning("the facts %s cannot be read: %s", name, exc)
        return None
    return stored.facts if stored.origin == origin else None


@dataclass(frozen=True)
class StoredReply:
    """An open reply, for the process that continues with it."""

    name: UUID
    head: _ReplyHead

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.head.facts

    def claim(self, action: str) -> bool:
        """Claim an action on the reply. Return False if another process has claimed it, or if that is
        unknown."""
        try:
            return bool(redis_client.client().set(self._claim_key(action), "1", nx=True, ex=OPEN_SECONDS))
        except redis.RedisError:
            return False

    def release(self, action: str) -> None:
        """Release the claim of an action that was certainly not performed."""
        with contextlib.suppress(redis.RedisError):
            redis_client.client().delete(self._claim_key(action))

    def set_facts(self, facts: Mapping[str, Any]) -> None:
        """Replace the facts of the reply."""
        head = msgspec.structs.replace(self.head, facts=dict(facts))
        try:
            ciphertext = _encrypt_head(self.name, head)
            redis_client.client().set(_redis_key(self.name, "head"), ciphertext, xx=True, ex=HEAD_SECONDS)
        except redis.RedisError as exc:
            logger.warning("the facts of open reply %s could not be stored: %s", self.name, exc)

    def read(self, is_enough: IsEnough, seconds: float, is_unwanted: Callable[[], bool]) -> Reply:
        """Return the reply from its beginning, once `is_enough` is True or it has ended.

        Raises ProtocolError: the error that ended the reply, after a timeout, and if the process of the
        connection has died.
        """
        ends, last, body = time.monotonic() + seconds, "0-0", bytearray()
        while True:
            pieces, last = self._read_pieces_after(last, min(LOOK_SECONDS, ends - time.monotonic()))
            for piece in pieces:
                body += piece.body
            end = next((piece for piece in pieces if piece.ended), None)
            if pieces and is_enough(bytes(body)):
                return self._build_reply(body)
            if end:
                if end.error:
                    raise _ERRORS[end.error](end.code, end.message)
                return self._build_reply(body)
            if is_unwanted():
                raise UnavailableError("RESET", f"{self.head.origin}: the connection was closed.")
            if time.monotonic() >= ends:
                message = f"{self.head.origin} did not finish within {seconds:.0f} s."
                raise UnavailableError("DEADLINE", message)
            if not pieces and not self.is_alive():
                raise UnavailableError("RESET", f"{self.head.origin}: the connection was reset.")

    def is_alive(self) -> bool:
        """Return whether the process with the connection is alive; True if Redis does not answer."""
        try:
            return bool(redis_client.client().exists(_redis_key(self.name, "alive")))
        except redis.RedisError:
            return True

    def discard(self) -> None:
        """Discard the reply and let its process close the connection."""
        with contextlib.suppress(redis.RedisError):
            redis_client.client().set(_redis_key(self.name, _WANTED), _DISCARDED, ex=OPEN_SECONDS)
            _delete_reply(self.name)

    def _build_reply(self, body: bytearray) -> Reply:
        return Reply(self.head.status, self.head.headers, bytes(body), self.head.url)

    def _claim_key(self, action: str) -> str:
        return _redis_key(self.name, f"claimed:{action}")

    def _read_pieces_after(self, last: str, seconds: float) -> tuple[list[_Piece], str]:
        # Zero would block without limit.
        wait = max(1, round(seconds * 1000))
        try:
            streams: Any = redis_client.waiting_client().xread(
                {_redis_key(self.name, "pieces"): last}, count=PIECES_AT_ONCE, block=wait
            )
            entries = [entry for _, stream_entries in streams or () for entry in stream_entries]
            pieces = [
                msgspec.json.decode(_decrypt(self.name, fields["piece"]), type=_Piece)
                for _, fields in entries
            ]
        except redis.RedisError as exc:
            logger.warning("open reply %s cannot be read: %s", self.name, exc)
            time.sleep(max(0.0, seconds))
            return [], last
        return pieces, entries[-1][0] if entries else last


class _Open:
    """An open reply in the process of its connection. It occupies a slot until it expires."""

    def __init__(self, name: UUID, remainder: ReplyRemainder, head: _ReplyHead, owner: _Owner) -> None:
        self.name, self.head, self.owner = name, head, owner
        self._rest = remainder
        self._has_ended = self._is_dropped = False

    def run(self) -> None:
        try:
            try:
                end = self._receive_pieces()
            finally:
                self._rest.abandon()
            self._has_ended = True
            if not self._is_dropped:
                self.send(end)
        except (redis.RedisError, DomainError) as exc:
            logger.warning("the rest of a reply of %s could not be stored: %s", self.owner.origin, exc)

    def _receive_pieces(self) -> _Piece:
        """Store the pieces of the reply as they arrive, and return the last one."""
        pending, overlap = bytearray(), b""
        sent_at = time.monotonic()
        try:
            for piece in self._rest.read(MAX_REST_SECONDS):
                pending += piece
                if len(pending) < PIECE_BYTES and not pending.endswith(EVENT_ENDS):
                    continue
                time.sleep(max(0.0, sent_at + SECONDS_BETWEEN_PIECES - time.monotonic()))
                overlap = self._forward_piece(bytes(pending), overlap)
                pending.clear()
                sent_at = time.monotonic()
            self._forward_piece(bytes(pending), overlap)
        except ProtocolError as exc:
            return _Piece(ended=True, error=type(exc).__name__, code=exc.code, message=exc.message)
        return _Piece(ended=True)

    def _forward_piece(self, piece: bytes, overlap: bytes) -> bytes:
        if self.owner.holds_secret(overlap + piece):
            message = f"{self.owner.origin} sent the credential back, so its reply was discarded."
            raise RefusedError("ECHO", message)
        self.send(_Piece(piece))
        return (overlap + piece)[-OVERLAP_BYTES:]

    def send(self, piece: _Piece) -> None:
        """Send a piece of the reply to its reader. Raises redis.RedisError and DomainError."""
        ciphertext = _encrypt(self.name, msgspec.json.encode(piece).decode())
        for pause in RETRY_DELAYS:
            try:
                return self._append_ciphertext(ciphertext)
            except redis.RedisError:
                time.sleep(pause)
        return self._append_ciphertext(ciphertext)

    def _append_ciphertext(self, ciphertext: str) -> None:
        key = _redis_key(self.name, "pieces")
        pipeline = redis_client.client().pipeline(transaction=False)
        pipeline.xadd(key, {"piece": ciphertext})
        pipeline.expire(key, OPEN_SECONDS)
        pipeline.execute()

    def is_over(self) -> bool:
        """Send a heartbeat, and return whether the reply has expired or was discarded. Raises
        redis.RedisError."""
        # A reply that has ended does not need this process any more.
        alive_seconds = OPEN_SECONDS if self._has_ended else ALIVE_SECONDS
        pipeline = redis_client.client().pipeline(transaction=False)
        pipeline.set(_redis_key(self.name, "alive"), "1", ex=alive_seconds)
        pipeline.expire(_redis_key(self.name, "pieces"), OPEN_SECONDS)
        pipeline.get(_redis_key(self.name, _WANTED))
        pipeline.get(_redis_key(self.name, "head"))
        *_, state, ciphertext = pipeline.execute()
        if state == _WANTED:
            return False
        self._is_dropped = True
        if ciphertext:
            # Another process may have replaced the facts.
            self.head = _decrypt_head(self.name, str(ciphertext))
        self._rest.interrupt()
        _delete_reply(self.name)
        if state != _DISCARDED:
            threading.Thread(target=self._report_expiry, name="open-reply", daemon=True).start()
        return True

    def _report_expiry(self) -> None:
        try:
            self.owner.on_expiry(self.head.facts)
        except Exception:
            logger.exception("%s could not be notified that no answer will arrive", self.owner.origin)
        connection.close()


class _Beats:
    """The open replies of this process, with one thread for their heartbeats."""

    def __init__(self) -> None:
        self._open: set[_Open] = set()
        self._slots: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def reserve(self, origin: str, holder: str) -> bool:
        with self._lock:
            vendor_count = sum(count for (vendor, _), count in self._slots.items() if vendor == origin)
            is_free = (
                self._slots.total() < MAX_OPEN
                and vendor_count < MAX_OPEN_PER_VENDOR
                and self._slots[origin, holder] < MAX_OPEN_PER_CALLER
            )
            if is_free:
                self._slots[origin, holder] += 1
        return is_free

    def free(self, origin: str, holder: str) -> None:
        with self._lock:
            # Subtraction also removes entries with a count of zero.
            self._slots -= Counter([(origin, holder)])

    def add(self, reply: _Open) -> None:
        with self._lock:
            self._open.add(reply)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._send_heartbeats, name="open-replies", daemon=True
                )
                self._thread.start()

    def _send_heartbeats(self) -> None:
        while True:
            time.sleep(BEAT_SECONDS)
            with self._lock:
                if not self._open:
                    self._thread = None
                    return
                open_replies = list(self._open)
            for reply in open_replies:
                try:
                    is_over = reply.is_over()
                except redis.RedisError as exc:
                    logger.warning("open reply %s could not be checked: %s", reply.name, exc)
                    continue
                except Exception:
                    logger.exception("open reply %s could not be checked", reply.name)
                    continue
                if is_over:
                    with self._lock:
                        self._open.discard(reply)
                    self.free(reply.owner.origin, reply.owner.holder)


_beats = _Beats()


def _delete_reply(name: UUID) -> None:
    redis_client.client().delete(
        _redis_key(name, "head"), _redis_key(name, "pieces"), _redis_key(name, "alive")
    )


def _redis_key(name: UUID, part: str) -> str:
    return f"pegboard:open-replies:{name}:{part}"


def _encrypt_head(name: UUID, head: _ReplyHead) -> str:
    return _encrypt(name, msgspec.json.encode(head).decode())


def _decrypt_head(name: UUID, ciphertext: str) -> _ReplyHead:
    return msgspec.json.decode(_decrypt(name, ciphertext), type=_ReplyHead)


def _encrypt(name: UUID, text: str) -> str:
    return encryption.encrypt(Secret(text), row=name, field=_FIELD)


def _decrypt(name: UUID, text: str) -> str:
    return encryption.decrypt(text, row=name, field=_FIELD, name="an open reply").reveal()
