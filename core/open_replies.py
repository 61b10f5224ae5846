"""Replies that stay open while another request brings what their vendor waits for, such as a user's answer.

The process that sent the request reads on in a thread of its own and passes what comes through the broker's
server, so that any process can go on with it. What lies there is encrypted, and for as long as it is wanted:
`OPEN_SECONDS`, and anew with each question. If the process dies, so does the connection, and whoever asks for
the reply learns that it is not open any more.
"""

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import msgspec
import redis
from django.db import connection

from core import encryption, redis_client
from core.encryption import Secret, UndecryptableError
from core.errors import DomainError
from core.outbound.errors import ProtocolError, UnavailableError
from core.outbound.reply import Reply
from core.outbound.request import IsEnough
from core.outbound.rest import OPEN_SECONDS, Rest

logger = logging.getLogger(__name__)

# In one process, and of one vendor there: each is a thread and a connection.
MAX_OPEN, MAX_OPEN_OF_ONE = 32, 16
BEAT_SECONDS = 2.0
# Without a beat for so long, the process that has the connection is taken for dead.
ALIVE_SECONDS = 10
LOOK_SECONDS = 0.5
# However often it is wanted anew.
MAX_SECONDS = 6 * 3600.0
_LEFT, _WANTED = "left", "wanted"
_FIELD = "core.open_reply"


class _Head(msgspec.Struct):
    host: str
    status: int
    headers: dict[str, str]
    url: str
    facts: dict[str, Any]


class _Part(msgspec.Struct):
    """`ended` says that nothing follows, and of which kind and code what broke it off was."""

    body: str = ""
    ended: bool = False
    code: str = ""
    message: str = ""


def add(reply: Reply, host: str, facts: Mapping[str, Any], on_expiry: Callable[[], None]) -> str | None:
    """See `core.outbound.session.Session.leave_open`."""
    rest = reply.rest
    if rest is None:
        return None
    name = uuid4()
    if not _beats.take(host):
        rest.close()
        return None
    opened = _Open(name, host, rest, on_expiry)
    kept = {key: reply.headers[key] for key in ("content-type",) if key in reply.headers}
    try:
        head = _Head(host, reply.status, kept, reply.url, dict(facts))
        broker = redis_client.client()
        broker.set(_key(name, "head"), _sealed(name, msgspec.json.encode(head).decode()), ex=OPEN_SECONDS)
        broker.set(_key(name, _WANTED), _WANTED, ex=OPEN_SECONDS)
        broker.set(_key(name, "alive"), "1", ex=ALIVE_SECONDS)
        opened.tell(_Part(reply.body.decode("latin-1")))
    except (redis.RedisError, DomainError) as exc:
        logger.warning("a reply of %s could not be left open: %s", host, exc)
        rest.close()
        _beats.free(host)
        return None
    _beats.add(opened)
    threading.Thread(target=opened.run, name="open-reply", daemon=True).start()
    return str(name)


def find(name: str) -> "OpenReply | None":
    """The reply that is open under this name, which is wanted for `OPEN_SECONDS` more; None where it is not
    open any more."""
    try:
        known = UUID(name)
        broker = redis_client.client()
        head = broker.get(_key(known, "head"))
        if not head or not broker.exists(_key(known, "alive")):
            return None
        if not broker.set(_key(known, _WANTED), _WANTED, xx=True, ex=OPEN_SECONDS):
            return None
        broker.expire(_key(known, "head"), OPEN_SECONDS)
        return OpenReply(known, msgspec.json.decode(_opened(known, str(head)), type=_Head))
    except (ValueError, redis.RedisError, UndecryptableError, msgspec.DecodeError) as exc:
        logger.warning("open reply %s cannot be read: %s", name, exc)
        return None


@dataclass(frozen=True)
class OpenReply:
    """As the process finds it that goes on with it."""

    name: UUID
    head: _Head

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.head.facts

    def read(self, is_enough: IsEnough, seconds: float, is_unwanted: Callable[[], bool]) -> Reply:
        """All of it that has come, from its beginning, once that is enough or nothing follows.

        Raises ProtocolError: for what broke it off, when so many seconds have passed, and when the process
        that has the connection is gone.
        """
        ends, last, body = time.monotonic() + seconds, "0-0", b""
        while True:
            parts, last = self._after(last, min(LOOK_SECONDS, ends - time.monotonic()))
            for part in parts:
                body += part.body.encode("latin-1")
                if part.code:
                    raise UnavailableError(part.code, part.message)
            if is_enough(body) or any(part.ended for part in parts):
                return Reply(self.head.status, self.head.headers, body, self.head.url)
            if is_unwanted():
                raise UnavailableError("INTERRUPTED", f"{self.head.host}: the connection was closed.")
            if time.monotonic() >= ends:
                message = f"{self.head.host} did not finish within {seconds:.0f} s."
                raise UnavailableError("DEADLINE", message)
            if not parts and not self._is_alive():
                raise UnavailableError("RESET", f"{self.head.host}: the connection was reset.")

    def leave(self) -> None:
        """Nothing of it is wanted any more."""
        with contextlib.suppress(redis.RedisError):
            redis_client.client().set(_key(self.name, _WANTED), _LEFT, ex=OPEN_SECONDS)

    def _after(self, last: str, seconds: float) -> tuple[list[_Part], str]:
        # Zero would block without an end.
        wait = max(1, round(seconds * 1000))
        try:
            found: Any = redis_client.waiting_client().xread({_key(self.name, "parts"): last}, block=wait)
            listed = [entry for _, entries in found or () for entry in entries]
            parts = [msgspec.json.decode(_opened(self.name, told["part"]), type=_Part) for _, told in listed]
        except redis.RedisError as exc:
            logger.warning("open reply %s cannot be read: %s", self.name, exc)
            time.sleep(max(0.0, seconds))
            return [], last
        return parts, listed[-1][0] if listed else last

    def _is_alive(self) -> bool:
        try:
            return bool(redis_client.client().exists(_key(self.name, "alive")))
        except redis.RedisError:
            return True


class _Open:
    """As it is in the process that has the connection."""

    def __init__(self, name: UUID, host: str, rest: Rest, on_expiry: Callable[[], None]) -> None:
        self.name, self.host = name, host
        self._rest, self._on_expiry = rest, on_expiry
        self._is_given_up = False
        self._is_overdue = False

    def run(self) -> None:
        try:
            self.tell(self._read())
        except (redis.RedisError, DomainError) as exc:
            logger.warning("what %s went on to say could not be kept: %s", self.host, exc)
        finally:
            self._rest.close()
            _beats.remove(self)
            self._part()

    def _read(self) -> _Part:
        # How it ended.
        try:
            for piece in self._pieces():
                self.tell(_Part(piece.decode("latin-1")))
        except ProtocolError as exc:
            return _Part(ended=True, code=exc.code, message=exc.message)
        return _Part(ended=True)

    def _pieces(self) -> Iterator[bytes]:
        for piece in self._rest.read(MAX_SECONDS):
            if self._is_given_up:
                return
            yield piece

    def _part(self) -> None:
        if self._is_overdue:
            try:
                self._on_expiry()
            except Exception:
                logger.exception("%s was not told that no answer comes", self.host)
        connection.close()

    def tell(self, part: _Part) -> None:
        """Raises redis.RedisError and DomainError."""
        broker, key = redis_client.client(), _key(self.name, "parts")
        broker.xadd(key, {"part": _sealed(self.name, msgspec.json.encode(part).decode())})
        broker.expire(key, OPEN_SECONDS)
        if part.ended:
            # No process is needed any more.
            broker.set(_key(self.name, "alive"), "1", ex=OPEN_SECONDS)

    def beat(self) -> None:
        """Says that the process lives, and gives up what no one wants. Raises redis.RedisError."""
        broker = redis_client.client()
        pipeline = broker.pipeline(transaction=False)
        pipeline.set(_key(self.name, "alive"), "1", ex=ALIVE_SECONDS)
        pipeline.expire(_key(self.name, "parts"), OPEN_SECONDS)
        pipeline.get(_key(self.name, _WANTED))
        wanted = pipeline.execute()[-1]
        if wanted != _WANTED:
            self._is_overdue = wanted != _LEFT
            self._is_given_up = True
            self._rest.interrupt()


class _Beats:
    """One thread looks after all that are open in a process."""

    def __init__(self) -> None:
        self._open: set[_Open] = set()
        self._places: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def take(self, host: str) -> bool:
        with self._lock:
            is_free = self._places.total() < MAX_OPEN and self._places[host] < MAX_OPEN_OF_ONE
            if is_free:
                self._places[host] += 1
        return is_free

    def free(self, host: str) -> None:
        with self._lock:
            # Hosts that have none any more go with it.
            self._places -= Counter([host])

    def add(self, reply: _Open) -> None:
        with self._lock:
            self._open.add(reply)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat, name="open-replies", daemon=True)
                self._thread.start()

    def remove(self, reply: _Open) -> None:
        with self._lock:
            self._open.discard(reply)
        self.free(reply.host)

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
                    each.beat()
                except redis.RedisError as exc:
                    logger.warning("open reply %s could not be looked at: %s", each.name, exc)


_beats = _Beats()


def _key(name: UUID, part: str) -> str:
    return f"pegboard:open-replies:{name}:{part}"


def _sealed(name: UUID, text: str) -> str:
    return encryption.encrypt(Secret(text), row=name, field=_FIELD)


def _opened(name: UUID, text: str) -> str:
    return encryption.decrypt(text, row=name, field=_FIELD, name="an open reply").reveal()
