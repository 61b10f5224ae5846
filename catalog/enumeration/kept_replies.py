"""Resumption of an enumeration: replies that were read before a failure are not requested again.

The replies of a list are in memory while it is read. If the vendor fails, they are stored (`KeptReply`), and
the next run of the same endpoint and reader uses them until it needs a request that was not sent before.
Protocols are not aware of it. docs/decisions/0022-resumed-enumeration.md has the reasons.
"""

import logging
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now
from django.utils import timezone

from catalog import bounds
from catalog.enumeration import lease
from catalog.enumeration.lease import LostLeaseError
from catalog.models import KeptReply, Run
from catalog.models.runs import ACTIVE
from core import canonical_json
from core.outbound.limits import Limits, too_much_in_all
from core.outbound.listening import Listening
from core.outbound.open_reply import OpenReply
from core.outbound.reply import Reply
from core.outbound.request import IsEnough, Request
from protocols import base

logger = logging.getLogger(__name__)

# Each row may contain megabytes, so a statement writes only a few.
AT_ONCE = 25
# The limit for one statement. Ticks run every five seconds.
DELETED_AT_ONCE = 300
# The identifying headers of a request, and the stored headers of a reply. None contains a session or a
# cookie.
ASKED_WITH = ("if-none-match", "last-event-id")
TOLD_WITH = ("content-type", "etag")
OPENS_SESSION = "mcp-session-id"
KEPT_STATUSES = (200, 304)


@dataclass(slots=True)
class _ReplyLog:
    """One enumeration: the stored replies that it used, and the replies that it received.

    newest: the request that was answered last, "" while another one is running.
    """

    reader: str
    kept: Mapping[str, KeptReply]
    given: set[str] = field(default_factory=set)
    fresh: dict[str, Reply] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    newest: str = ""
    answered: int = 0
    size: int = 0


class Replies:
    """The replies of one run, and the stored replies of earlier ones.

    The main thread reads, and another one may call `store` meanwhile. `before_asking` is called before each
    request to the vendor and may raise: the replies so far can then be stored.
    """

    def __init__(self, run: Run, before_asking: Callable[[], None] = lambda: None) -> None:
        self._run = run
        self._before_asking = before_asking
        self._heard: _ReplyLog | None = None

    @property
    def used(self) -> int:
        """Return how many stored replies replaced requests in the last enumeration."""
        return len(self._heard.given) if self._heard else 0

    @property
    def answered(self) -> int:
        """Return how many requests the vendor has answered in all enumerations of this process."""
        return self._heard.answered if self._heard else 0

    @property
    def seconds_before(self) -> float:
        """Return the seconds since the first attempt that this one continues began; 0 for a new one."""
        stored_replies = self._heard.kept.values() if self._heard else ()
        return max([(timezone.now() - reply.since).total_seconds() for reply in stored_replies], default=0.0)

    def over(self, session: base.Session, reader: str) -> base.Session:
        """Return a session that continues where the last run broke off; a second one starts anew."""
        rows = KeptReply.objects.filter(endpoint=self._run.endpoint_id, reader=reader)
        # Replies that are too old are requested again. A run that continues another one uses all, or it would
        # never reach its limit.
        if not self._run.in_parts:
            rows = rows.filter(since__gt=Now() - timedelta(minutes=self._run.endpoint.max_minutes))
        stored_replies = {row.request: row for row in rows} if self._heard is None else {}
        self._heard = _ReplyLog(reader, stored_replies, answered=self.answered)
        return _ResumedSession(
            session, self._heard, self._before_asking, bounds.limits_of(self._run.endpoint)
        )

    def store(self) -> None:
        """Store the replies for the next run, if this run still has its lease. May be called repeatedly.

        The newest reply is left out, because nobody has parsed it yet and every run might fail over it.
        """
        enumeration = self._heard
        if enumeration is None:
            return
        fresh = {
            request: reply
            for request, reply in enumeration.fresh.copy().items()
            if request != enumeration.newest and request not in enumeration.stored
        }
        try:
            self._write_rows(enumeration, fresh)
        except LostLeaseError:
            return
        except DatabaseError as exc:
            logger.warning("run %s could not keep what it has read: %s", self._run.pk, exc)
            return
        enumeration.stored |= fresh.keys()
        for request in fresh:  # what is written down need not be held as well
            del enumeration.fresh[request]

    def _write_rows(self, log: _ReplyLog, fresh: Mapping[str, Reply]) -> None:
        rows = [
            KeptReply(
                endpoint_id=self._run.endpoint_id,
                reader=log.reader,
                request=request,
                url=reply.url,
                status=reply.status,
                headers={name: reply.headers[name] for name in TOLD_WITH if name in reply.headers},
                body=zlib.compress(reply.body, 1),
            )
            for request, reply in fresh.items()
        ]
        with transaction.atomic():
            began = lease.lock(self._run)
            stored = KeptReply.objects.filter(endpoint=self._run.endpoint_id)
            if not log.stored:
                stored.exclude(pk__in=[reply.pk for reply in log.kept.values()]).delete()
            stored.filter(request__in=[log.newest, *fresh]).delete()
            for row in rows:
                row.since = min([began, *(reply.since for reply in log.kept.values())])
            KeptReply.objects.bulk_create(rows, batch_size=AT_ONCE)


def forget_old() -> None:
    """Delete one portion of the replies that no run continues from; the next tick deletes the next one."""
    minutes = ExpressionWrapper(F("endpoint__max_minutes") * timedelta(minutes=1), DurationField())
    under_way = Run.objects.filter(status__in=ACTIVE).values("endpoint")
    old = KeptReply.objects.filter(since__lt=Now() - minutes).exclude(endpoint__in=under_way)
    # A run may have started meanwhile, so its replies are looked up again.
    old.filter(pk__in=list(old.values_list("pk", flat=True)[:DELETED_AT_ONCE])).delete()


class _ResumedSession(base.Session):
    """A session that sends only requests without a stored reply."""

    def __init__(
        self, session: base.Session, log: _ReplyLog, before_asking: Callable[[], None], limits: Limits
    ) -> None:
        self.root = session.root
        self.largest = session.largest
        self.memory = session.memory
        self.agent = session.agent
        self.mark, self.is_followed = session.mark, False
        self._session = session
        self._heard = log
        self._before_asking = before_asking
        self._limits = limits

    @property
    def is_interrupted(self) -> bool:
        return self._session.is_interrupted

    def at_url(self, url: str) -> AbstractContextManager[base.Session]:
        return self._session.at_url(url)

    def pass_on(self, partial: Mapping[str, Any]) -> None:
        self._session.pass_on(partial)

    def listen(
        self, path: str, headers: Mapping[str, str], *, json: object = None, seconds: float = 0.0
    ) -> Listening:
        return self._session.listen(path, headers, json=json, seconds=seconds)

    def keep_open(
        self,
        reply: Reply,
        facts: Mapping[str, Any],
        on_expiry: Callable[[base.Session, Mapping[str, Any]], None],
    ) -> str | None:
        return self._session.keep_open(reply, facts, on_expiry)

    def find_open_reply(self, name: str) -> OpenReply | None:
        return self._session.find_open_reply(name)

    def keep_facts(self, facts: Mapping[str, Any]) -> str | None:
        return self._session.keep_facts(facts)

    def find_facts(self, name: str) -> Mapping[str, Any] | None:
        return self._session.find_facts(name)

    def read_open_reply(self, reply: OpenReply, is_enough: IsEnough) -> Reply:
        return self._session.read_open_reply(reply, is_enough)

    def send(self, request: Request) -> Reply:
        """Send the request unless a stored reply exists. Requests that are not repeatable are always sent."""
        if not request.is_repeatable:
            return self._session.send(request)
        headers = {name.lower(): text for name, text in request.headers.items()}
        identifying_parts = [request.method, request.path, request.query, request.content]
        identifying_headers = [headers.get(name) for name in ASKED_WITH]
        enumeration, name = self._heard, canonical_json.digest([*identifying_parts, identifying_headers])
        enumeration.newest = ""
        stored_reply = enumeration.kept.get(name)
        if stored_reply and stored_reply.status in request.accept and name not in enumeration.given:
            enumeration.newest = name
            enumeration.given.add(name)
            reply = Reply(
                stored_reply.status,
                stored_reply.headers,
                zlib.decompress(stored_reply.body),
                stored_reply.url,
            )
        else:
            self._before_asking()
            reply = self._session.send(request)
            enumeration.newest = name
            # Many vendors repeat the session id in each reply. One that was not requested opens a session.
            is_in_session = OPENS_SESSION in {header.lower() for header in request.headers}
            if reply.status in KEPT_STATUSES and (is_in_session or OPENS_SESSION not in reply.headers):
                enumeration.fresh[name] = reply
                enumeration.answered += 1
        # A list that is read in several runs may be no longer than one that is read in one.
        enumeration.size += len(reply.body)
        if enumeration.size > self._limits.session_bytes:
            raise too_much_in_all(urlsplit(self.root).netloc, self._limits)
        return reply
