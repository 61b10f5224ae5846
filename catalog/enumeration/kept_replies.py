"""An enumeration goes on where the last one broke off: replies that were read are not asked for again.

While a list is read its replies are held in memory. If the vendor then goes away they are written down
(`KeptReply`), and the next run of the same endpoint by the same reader is answered from them until it
asks what was not asked yet. Protocols notice nothing. docs/decisions/0022-resumed-enumeration.md says why.
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

# Each row may hold a reply of megabytes, so a few go into one statement.
AT_ONCE = 25
# By one statement. Ticks come every five seconds.
DELETED_AT_ONCE = 300
# What a request says beside its address and its body, and what of a reply's headers is kept. None hands out
# a session or a cookie.
ASKED_WITH = ("if-none-match", "last-event-id")
TOLD_WITH = ("content-type", "etag")
OPENS_SESSION = "mcp-session-id"
KEPT_STATUSES = (200, 304)


@dataclass(slots=True)
class _Heard:
    """One enumeration: which kept replies it was given, and what it has heard from the vendor itself.

    `newest` is the request that was answered last, "" while another one is under way.
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
    """What one run hears from its vendor, and what the runs before it have heard.

    The main thread reads; another one may `store` meanwhile. `before_asking` is called before the vendor
    itself is asked, and may raise: whatever was read until then can be kept.
    """

    def __init__(self, run: Run, before_asking: Callable[[], None] = lambda: None) -> None:
        self._run = run
        self._before_asking = before_asking
        self._heard: _Heard | None = None

    @property
    def used(self) -> int:
        """How many kept replies stood in for a request, in the enumeration that was begun last."""
        return len(self._heard.given) if self._heard else 0

    @property
    def answered(self) -> int:
        """How many requests the vendor itself has answered, in all enumerations of this process."""
        return self._heard.answered if self._heard else 0

    @property
    def seconds_before(self) -> float:
        """How long ago the first of the tries began that this one goes on from."""
        kept = self._heard.kept.values() if self._heard else ()
        return max([(timezone.now() - each.since).total_seconds() for each in kept], default=0.0)

    def over(self, session: base.Session, reader: str) -> base.Session:
        """The vendor, from where the last run broke off. From the second time on, from the beginning."""
        kept = _kept(self._run, reader) if self._heard is None else {}
        self._heard = _Heard(reader, kept, answered=self.answered)
        return _ResumedSession(
            session, self._heard, self._before_asking, bounds.limits_of(self._run.endpoint)
        )

    def store(self) -> None:
        """For the next run to go on from, if this one is still ours. May be done again and again.

        The newest reply is left out: it is not known yet whether it can be read, and it shall not be what
        every run fails over.
        """
        heard = self._heard
        if heard is None:
            return
        fresh = {
            request: reply
            for request, reply in heard.fresh.copy().items()
            if request != heard.newest and request not in heard.stored
        }
        try:
            self._write(heard, fresh)
        except LostLeaseError:
            return
        except DatabaseError as exc:
            logger.warning("run %s could not keep what it has read: %s", self._run.pk, exc)
            return
        heard.stored |= fresh.keys()
        for request in fresh:  # what is written down need not be held as well
            del heard.fresh[request]

    def _write(self, heard: _Heard, fresh: Mapping[str, Reply]) -> None:
        rows = [self._row(heard.reader, request, reply) for request, reply in fresh.items()]
        with transaction.atomic():
            began = lease.lock(self._run)
            found = KeptReply.objects.filter(endpoint=self._run.endpoint_id)
            if not heard.stored:
                found.exclude(pk__in=[kept.pk for kept in heard.kept.values()]).delete()
            found.filter(request__in=[heard.newest, *fresh]).delete()
            for row in rows:
                row.since = min([began, *(kept.since for kept in heard.kept.values())])
            KeptReply.objects.bulk_create(rows, batch_size=AT_ONCE)

    def _row(self, reader: str, request: str, reply: Reply) -> KeptReply:
        return KeptReply(
            endpoint_id=self._run.endpoint_id,
            reader=reader,
            request=request,
            url=reply.url,
            status=reply.status,
            headers={name: reply.headers[name] for name in TOLD_WITH if name in reply.headers},
            body=zlib.compress(reply.body, 1),
        )


def forget_old() -> None:
    """Delete one portion of the replies that no run continues from; the next tick deletes the next one."""
    minutes = ExpressionWrapper(F("endpoint__max_minutes") * timedelta(minutes=1), DurationField())
    under_way = Run.objects.filter(status__in=ACTIVE).values("endpoint")
    old = KeptReply.objects.filter(since__lt=Now() - minutes).exclude(endpoint__in=under_way)
    # A run may have begun since they were found, so its replies are looked for again.
    old.filter(pk__in=list(old.values_list("pk", flat=True)[:DELETED_AT_ONCE])).delete()


def _kept(run: Run, reader: str) -> dict[str, KeptReply]:
    rows = KeptReply.objects.filter(endpoint=run.endpoint_id, reader=reader)
    # What is too old is read again. A run that goes on keeps all, or it would never come to its bound.
    if not run.in_parts:
        rows = rows.filter(since__gt=Now() - timedelta(minutes=run.endpoint.max_minutes))
    return {row.request: row for row in rows}


class _ResumedSession(base.Session):
    """Asks the vendor only for what was not kept."""

    def __init__(
        self, session: base.Session, heard: _Heard, before_asking: Callable[[], None], limits: Limits
    ) -> None:
        self.root = session.root
        self.largest = session.largest
        self.memory = session.memory
        self.agent = session.agent
        self.mark, self.is_followed = session.mark, False
        self._session = session
        self._heard = heard
        self._before_asking = before_asking
        self._limits = limits

    @property
    def is_interrupted(self) -> bool:
        return self._session.is_interrupted

    def at(self, url: str) -> AbstractContextManager[base.Session]:
        return self._session.at(url)

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
        """What is not repeatable does something at the vendor, so it is always sent."""
        if not request.is_repeatable:
            return self._session.send(request)
        heard, name = self._heard, _named(request)
        heard.newest = ""
        kept = heard.kept.get(name)
        if kept and kept.status in request.accept and name not in heard.given:
            heard.newest = name
            heard.given.add(name)
            reply = Reply(kept.status, kept.headers, zlib.decompress(kept.body), kept.url)
        else:
            self._before_asking()
            reply = self._session.send(request)
            heard.newest = name
            # Many vendors repeat the session's id in each reply. One that comes unasked opens a session.
            is_in_session = OPENS_SESSION in {header.lower() for header in request.headers}
            if reply.status in KEPT_STATUSES and (is_in_session or OPENS_SESSION not in reply.headers):
                heard.fresh[name] = reply
                heard.answered += 1
        # A list that is read in several runs may be no longer than one that is read in one.
        heard.size += len(reply.body)
        if heard.size > self._limits.session_bytes:
            raise too_much_in_all(urlsplit(self.root).netloc, self._limits)
        return reply


def _named(request: Request) -> str:
    # What tells this request from the others of an enumeration.
    headers = {name.lower(): text for name, text in request.headers.items()}
    asked = [request.method, request.path, request.query, request.content]
    return canonical_json.digest([*asked, [headers.get(name) for name in ASKED_WITH]])
