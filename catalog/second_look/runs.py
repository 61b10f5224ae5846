"""Second looks: an endpoint's list is read as another client, and compared with what we are shown.

A vendor that shows people who check it a good tool and us a poisoned one is found by nothing else. Where an
administrator has turned it on, a worker reads the list about once a week, and when a user asks, without our
credential, and under another name if one was entered. Fewer tools for strangers are honest; the same version
with other bytes is a finding, with both kept.

Nothing here writes what an enumeration writes: no tool, version, known page, failure, circuit or state of a
credential. One look at a time for an endpoint: claimed by compare-and-set with a lease, and `attempt` fences
off a worker that wakes up late. docs/decisions/0021-second-look.md says why.
"""

import logging
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Greatest, Now
from django.utils import timezone
from msgspec import structs

from catalog import worker_audit
from catalog.credentials import sessions
from catalog.credentials.circuit_breaker import is_about_token
from catalog.enumeration import listing
from catalog.enumeration.lease import LostLeaseError
from catalog.models import Endpoint, Finding, OtherAnswer, Run, SecondLook, Tool, ToolVersion
from catalog.models.findings import FindingState
from catalog.models.runs import ACTIVE
from catalog.models.second_looks import LookResult, OtherClient
from catalog.notifications import outbox
from catalog.rules import diff
from catalog.second_look import cloaking
from catalog.second_look.cloaking import CODE, Sight
from core import log_context, wakes
from core.canonical_json import canonical
from core.errors import DomainError, invalid
from core.failpoints import failpoint
from core.outbound.errors import ProtocolError, RefusedError, UnavailableError
from core.outbound.session import AGENT
from people import audit
from people.models import User
from protocols import base, signature
from protocols.base import Item, NothingKnown, Page, UnreadableItemError, identity
from protocols.signature import Signature

logger = logging.getLogger(__name__)

# A vendor that tells callers apart does so for long, and a look costs as much as several enumerations.
EVERY = timedelta(days=7)
AGAIN = timedelta(days=1)
# An enumeration of the same endpoint is under way, or about to be: it comes first.
PUT_OFF = timedelta(minutes=1)
# Longer than a worker that lives may be held up between two extensions.
LEASE = timedelta(minutes=5)
EXTEND_EVERY = 10.0
MAX_TRIES = 3
AT_ONCE = 2
MAX_SECONDS = 200.0  # the task is ended after 350, and the last page of each client may take 60 more
MAX_FINDINGS = 100
TASK = "catalog.tasks.look_again"
# A header carries it: visible ASCII characters, and blanks between them.
_NAME = re.compile(r"[!-~](?:[ -~]{0,98}[!-~])?")
# Lists after the first one as another client. A vendor that alternates its answers, or two servers that
# differ, match this order only by chance: it is the Thue-Morse sequence. The first ENOUGH of them do when
# the time is over.
REPEATS = (False, False, True, False, True, True, False)  # True: as another client
ENOUGH = 3


class _PutOffError(Exception):
    """A run of the endpoint has begun meanwhile."""


@dataclass(frozen=True, slots=True)
class Found:
    """A tool of which `client` is shown something else than we are, which is `version`."""

    tool: str
    client: OtherClient
    version: ToolVersion
    item: Item
    read: Signature
    severity: str
    message: str

    @property
    def subject(self) -> str:
        return cloaking.subject(self.version.digest, self.item.digest)


def of(endpoint: Endpoint) -> SecondLook:
    """The row of an endpoint; not saved before an administrator turns the second look on."""
    known = SecondLook.objects.filter(pk=endpoint.pk).select_related("requested_by").first()
    return known or SecondLook(endpoint=endpoint, due_at=timezone.now())


@transaction.atomic
def request(endpoint: Endpoint, *, actor: User) -> SecondLook:
    """Look as soon as a worker is free. While a look is under way, that one is the answer."""
    look = _locked(endpoint)
    if not look.is_on:
        message = "The second look at this endpoint is off. An administrator turns it on first."
        raise DomainError("second_look_off", message, status=409)
    if endpoint.last_success_at is None:
        message = "There is nothing to compare with yet. Read this endpoint first, then look again."
        raise DomainError("not_read", message, status=409)
    if not look.is_under_way:
        look.due_at, look.requested_by, look.tries = Now(), actor, 0
        look.save(update_fields=["due_at", "requested_by", "tries"])
        audit.record(actor, "ask for a second look", endpoint)
        transaction.on_commit(partial(_send, endpoint.pk), robust=True)
    return SecondLook.objects.select_related("requested_by").get(pk=endpoint.pk)


@transaction.atomic
def switch(
    endpoint: Endpoint, *, actor: User, is_on: bool | None = None, other_name: str | None = None
) -> SecondLook:
    """Turn it on or off, and say under which name it is made; what is None stays."""
    look = _locked(endpoint)
    before = _switched(look)
    look.is_on = look.is_on if is_on is None else is_on
    look.other_name = look.other_name if other_name is None else other_name.strip()
    if look.other_name and not _NAME.fullmatch(look.other_name):
        raise invalid(other_name="Enter up to 100 letters, digits and signs of ASCII.")
    if look.is_on and not endpoint.credential_id and not look.other_name:
        message = "Without a credential only another name makes Pegboard another client. Enter one."
        raise invalid(other_name=message)
    if (after := _switched(look)) != before:
        if not look.is_on:
            # The next attempt's number keeps a worker that looks at this moment from writing.
            look.attempt, look.tries, look.lease_until, look.requested_by = look.attempt + 1, 0, None, None
        elif not before["second_look"]:
            look.due_at = Now()
        look.save()
        audit.record(actor, "edit", endpoint, before=before, after=after)
        look.refresh_from_db()
    return look


def _switched(look: SecondLook) -> dict[str, Any]:
    return {"second_look": look.is_on, "second_look_name": look.other_name}


def _locked(endpoint: Endpoint) -> SecondLook:
    if not endpoint.is_live:
        message = "This endpoint was removed, so it is not read any more."
        raise DomainError("endpoint_removed", message, status=409)
    SecondLook.objects.bulk_create([SecondLook(endpoint=endpoint, due_at=Now())], ignore_conflicts=True)
    return SecondLook.objects.select_for_update(of=("self",), no_key=True).get(pk=endpoint.pk)


def tick() -> None:
    """Once a minute: send what is due, a few at a time. Safe at any time, and twice."""
    for look in _over().filter(tries__gte=MAX_TRIES).select_related("endpoint"):
        message = f"Looking ended the worker {MAX_TRIES} times, so it is given up for now. Its log says more."
        _conclude(look, LookResult.FAILED, message, EVERY)
    free = max(0, AT_ONCE - SecondLook.objects.filter(lease_until__gte=Now()).count())
    for endpoint_id in _ready().order_by("due_at").values_list("pk", flat=True)[:free]:
        if not _send(endpoint_id):
            return


def _send(endpoint_id: int) -> bool:
    return wakes.wake_worker(TASK, endpoint_id)


def _over() -> QuerySet[SecondLook]:
    # Begun, and its worker has not been heard of for the time of its lease.
    return SecondLook.objects.filter(lease_until__lt=Now())


def _ready() -> QuerySet[SecondLook]:
    # On, due, and no worker looks. Unasked only at endpoints whose runs succeed.
    active = Run.objects.filter(endpoint=OuterRef("pk"), status__in=ACTIVE)
    is_free = Q(lease_until=None) | Q(lease_until__lt=Now())
    is_well = Q(
        endpoint__is_paused=False,
        endpoint__failures=0,
        endpoint__held_run=None,
        endpoint__last_success_at__isnull=False,
    )
    is_shut = Q(endpoint__circuit__open_until__gt=Now())
    due = SecondLook.objects.filter(is_free, is_on=True, due_at__lte=Now(), tries__lt=MAX_TRIES)
    live = due.filter(endpoint__removed_at=None, endpoint__vendor__removed_at=None)
    wanted = live.filter(Q(requested_by__isnull=False) | (is_well & ~is_shut))
    return wanted.exclude(Exists(active))


def perform(endpoint_id: int) -> None:
    """Look once, if it is due. Does nothing when another worker has claimed it or it is done."""
    look = _claim(endpoint_id)
    if look is None:
        return
    failpoint("look-claimed")
    with log_context.about(endpoint_id=endpoint_id):
        try:
            sights, found = _Look(look).look()
            failpoint("looked")
            _record(look, sights, found)
        except LostLeaseError:
            logger.warning("the second look was taken up by another worker; nothing written")
        except _PutOffError:
            _mine(look).update(due_at=Now() + PUT_OFF, lease_until=None, tries=Greatest(F("tries") - 1, 0))
        except (ProtocolError, DomainError) as exc:
            _conclude(look, LookResult.FAILED, exc.message, AGAIN)


@transaction.atomic
def _claim(endpoint_id: int) -> SecondLook | None:
    # The lock first, then the question: an answer from before the wait may be wrong after it.
    rows = SecondLook.objects.filter(pk=endpoint_id)
    if not rows.select_for_update(skip_locked=True).values_list("pk") or not _ready().filter(pk=endpoint_id):
        return None
    rows.update(attempt=F("attempt") + 1, tries=F("tries") + 1, lease_until=Now() + LEASE)
    return rows.select_related("endpoint__vendor", "endpoint__credential", "requested_by").get()


def _mine(look: SecondLook) -> QuerySet[SecondLook]:
    return SecondLook.objects.filter(pk=look.pk, attempt=look.attempt, lease_until__isnull=False)


class _Look:
    """One look: the list as each client, and both lists several times more where something differs."""

    def __init__(self, look: SecondLook) -> None:
        self.row = look
        self.endpoint = look.endpoint
        self.protocol = self.endpoint.speak()
        current = listing.current_tools(self.endpoint)
        self.ours = {tool: held for tool, held in current.items() if held.is_active}
        told = Finding.objects.filter(endpoint=self.endpoint, code=CODE)
        self.told = set(told.values_list("tool_id", "subject"))
        self.seen: set[tuple[int, str]] = set()
        self.clients = [
            *([OtherClient.ANONYMOUS] if self.endpoint.credential else []),
            *([OtherClient.OTHER_PROGRAM] if look.other_name else []),
        ]
        self.ends = 0.0
        self.extended = time.monotonic()

    def look(self) -> tuple[list[Sight], list[Found]]:
        if not self.clients:
            message = "Without a credential only another name makes Pegboard another client. Enter one."
            raise DomainError("no_other_client", message)
        sights: list[Sight] = []
        every: list[Found] = []
        for client in self.clients:
            self.ends = time.monotonic() + MAX_SECONDS / len(self.clients)
            sight = Sight(client.label, of=len(self.ours))
            try:
                found = self._differing(client, sight)
            except ProtocolError as error:
                if is_about_token(error):
                    raise
                sight.error, found = error, []
            sights.append(sight)
            every += found
            self.seen |= {(each.version.tool_id, each.subject) for each in found}
        return sights, every

    def _differing(self, client: OtherClient, sight: Sight) -> list[Found]:
        shown = self._list(client)
        sight.shown = len(shown.keys() & self.ours.keys())
        differing = {tool: item for tool, item in shown.items() if self._differs(tool, item)}
        subjects = {tool: self._subject(tool, item) for tool, item in differing.items()}
        sight.known = sum(subject in self.told for subject in subjects.values())
        sight.fresh = sum(subject in self.seen for subject in subjects.values())
        told = self.told | self.seen
        fresh = {tool: item for tool, item in differing.items() if subjects[tool] not in told}
        every = list(self._compared(client, fresh, sight))
        suspects = every[:MAX_FINDINGS]
        sight.left = len(every) - len(suspects)
        steady = self._steady(client, suspects)
        sight.fresh += len(steady)
        sight.unsteady = len(suspects) - len(steady)
        return steady

    def _differs(self, tool: str, item: Item) -> bool:
        # Other content under the same label. What has another label is another version, and honest.
        held = self.ours.get(tool)
        return held is not None and item.label == held.label and item.digest != held.digest

    def _subject(self, tool: str, item: Item) -> tuple[int, str]:
        held = self.ours[tool]
        return held.pk, cloaking.subject(held.digest, item.digest)

    def _compared(self, client: OtherClient, fresh: Mapping[str, Item], sight: Sight) -> Iterator[Found]:
        # Without what is written otherwise and says the same.
        listed = [self.ours[tool] for tool in fresh]
        rows = ToolVersion.objects.filter(
            tool__in=[held.pk for held in listed], digest__in=[held.digest for held in listed]
        ).defer("raw")
        versions = {(row.tool_id, row.label, row.digest): row for row in rows}
        for tool, item in fresh.items():
            held = self.ours[tool]
            version = versions[held.pk, held.label, held.digest]
            try:
                read = self.protocol.read(item.document or {})
            except UnreadableItemError:
                sight.unreadable += 1
                continue
            mine = version.decoded()
            comparison = diff.compare(read, mine)
            if not cloaking.says_the_same(read, mine, comparison):
                verdict = cloaking.verdict(comparison, name=mine.name, label=held.label, client=client.label)
                yield Found(tool, client, version, item, read, *verdict)

    def _steady(self, client: OtherClient, suspects: Sequence[Found]) -> list[Found]:
        # Those that both sides are shown again and again as before; a list that just changes is none.
        steady = list(suspects)
        for number, is_other in enumerate(REPEATS):
            if not steady:
                break
            try:
                again = self._list(client if is_other else None)
            except UnavailableError as error:
                return steady if error.code == "DEADLINE" and number >= ENOUGH else []
            steady = [each for each in steady if self._is_as_before(each, again.get(each.tool), is_other)]
        return steady

    def _is_as_before(self, found: Found, again: Item | None, is_other: bool) -> bool:
        version = found.version
        if again is None or again.label != version.label:
            return False
        if is_other:
            return again.digest == found.item.digest
        return base.is_digest_of(version.digest, again.digest, self.protocol.revision)

    def _list(self, client: OtherClient | None) -> dict[str, Item]:
        """All that is listed, by identity, with the documents of what differs. None: as ourselves.

        A tool that is listed twice with different content is left out: an enumeration refuses it, too.
        """
        self._may_go_on()
        found: dict[str, Item] = {}
        twofold: set[str] = set()
        with sessions.open_as_other_client(
            self.endpoint,
            agent=(client and self.row.other_name) or AGENT,
            with_credential=client != OtherClient.ANONYMOUS,
        ) as session:
            for number, page in enumerate(self.protocol.enumerate(session, NothingKnown()), start=1):
                for item in page.items:
                    tool = identity(item.tool_id)
                    if tool in found and found[tool].digest != item.digest:
                        twofold.add(tool)
                    found[tool] = item if self._differs(tool, item) else structs.replace(item, document=None)
                self._end(page, number, len(found))
            if not session.bytes_read:
                raise RefusedError(
                    "BY_HAND", "The list was entered here by hand, so no vendor is asked for it."
                )
        return {tool: item for tool, item in found.items() if tool not in twofold}

    def _may_go_on(self) -> None:
        _make_way(self.endpoint)
        if time.monotonic() > self.ends:
            raise UnavailableError("DEADLINE", "The list could not be read often enough in time.")
        self._extend()

    def _end(self, page: Page, number: int, seen: int) -> None:
        if time.monotonic() - self.extended > EXTEND_EVERY:
            self._extend()
        if page.next is None:
            return
        if seen > self.endpoint.max_tools or time.monotonic() > self.ends:
            raise UnavailableError("DEADLINE", f"The list did not end in time ({number} pages were read).")

    def _extend(self) -> None:
        self.extended = time.monotonic()
        if not _mine(self.row).update(lease_until=Now() + LEASE):
            raise LostLeaseError


def _make_way(endpoint: Endpoint) -> None:
    if Run.objects.filter(endpoint=endpoint, status__in=ACTIVE).exists():
        raise _PutOffError


@transaction.atomic
def _record(look: SecondLook, sights: Sequence[Sight], found: Sequence[Found]) -> None:
    # The findings with what both sides are shown; nothing if another worker has taken the look up.
    if not _mine(look).select_for_update(no_key=True).values_list("pk"):
        raise LostLeaseError
    _make_way(look.endpoint)  # it locks tools, too, in an order of its own
    still = _still_listed(found)
    told = _tell(look.endpoint, still)
    failpoint("look-recorded")
    if told:
        outbox.review_waits(look.endpoint_id)
        worker_audit.tell_cloaking(look, told, cloaking.says(sights))
    _finish(look, _result(sights), cloaking.says(sights), _next_in(sights))


def _still_listed(found: Sequence[Found]) -> list[Found]:
    # Without tools that a run, a person or a removal has moved on meanwhile.
    tools = Tool.objects.filter(pk__in=[each.version.tool_id for each in found], endpoint__removed_at=None)
    rows = tools.order_by("pk").select_for_update(no_key=True, of=("self",))
    listed = {pk for each in rows.values_list("current_id", "stopped_id") for pk in each}
    return [each for each in found if each.version.pk in listed]


def _tell(endpoint: Endpoint, found: Sequence[Found]) -> int:
    # How many findings are new. The same two documents are told once, whatever was decided about them.
    rows = [
        Finding(
            endpoint=endpoint,
            tool_id=each.version.tool_id,
            version=each.version,
            code=CODE,
            severity=each.severity,
            subject=each.subject,
            message=each.message,
            state=FindingState.OPEN,
        )
        for each in found
    ]
    Finding.objects.bulk_create(rows, ignore_conflicts=True)
    about = {(each.version.tool_id, each.subject): each for each in found}
    raised = Finding.objects.filter(
        endpoint=endpoint, code=CODE, tool__in=[tool for tool, _ in about], other_answer=None
    )
    kept = [
        OtherAnswer(
            finding=row,
            client=each.client,
            digest=each.item.digest,
            signature=signature.to_json(each.read).decode(),
            raw=canonical(each.item.document or {}).decode(),
        )
        for row in raised
        if (each := about.get((row.tool_id, row.subject)))
    ]
    OtherAnswer.objects.bulk_create(kept)
    return len(kept)


def _result(sights: Sequence[Sight]) -> LookResult:
    if any(sight.others for sight in sights):
        return LookResult.OTHER
    if any(sight.unsteady or sight.unreadable for sight in sights):
        return LookResult.UNSURE
    if any(sight.shown for sight in sights):
        return LookResult.SAME
    is_failed = any(sight.error and not sight.is_refused for sight in sights)
    return LookResult.FAILED if is_failed else LookResult.NOTHING


def _next_in(sights: Sequence[Sight]) -> timedelta:
    return AGAIN if any(sight.is_open for sight in sights) else EVERY


@transaction.atomic
def _conclude(look: SecondLook, result: LookResult, says: str, pause: timedelta) -> None:
    _finish(look, result, says, pause)


def _finish(look: SecondLook, result: LookResult, says: str, pause: timedelta) -> None:
    # The last word on a look, if it is still ours.
    share = random.uniform(0.9, 1.1)  # noqa: S311 - spreads load, guards nothing
    _mine(look).update(
        due_at=Now() + pause * share,
        lease_until=None,
        tries=0,
        requested_by=None,
        looked_at=Now(),
        result=result,
        says=says,
    )
