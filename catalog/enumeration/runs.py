"""Enumeration runs. A run is one row, from the request to the recorded result.

The row is written before the message, which contains only its id and may be lost. A worker claims a run with
a lease (lease.py), which its heartbeat renews (heartbeat.py). A run with an expired lease is claimed again
(schedule.py). docs/decisions/0004-enumeration.md has the reasons.
"""

import logging
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import MappingProxyType

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from catalog import worker_audit
from catalog.credentials import circuit_breaker, sessions
from catalog.enumeration import kept_replies, last_reply, lease, listing, recognition, slow_vendors, store
from catalog.enumeration.heartbeat import Heartbeat
from catalog.enumeration.lease import LostLeaseError
from catalog.enumeration.staging import Harvest
from catalog.enumeration.store import EndpointMovedError, EndpointRemovedError
from catalog.models import Endpoint, Run
from catalog.models.runs import ACTIVE, RunStatus, Trigger
from catalog.notifications import outbox
from core import db_errors, log_context, wakes
from core.errors import DomainError
from core.failpoints import failpoint
from core.metrics import Histogram
from core.outbound.errors import ProtocolError, ProtocolViolationError, RefusedError, UnavailableError
from core.outbound.exchange import Exchange
from people import audit
from people.models import User

logger = logging.getLogger(__name__)

# The time for an enumeration that cannot be divided.
WHOLE_SECONDS = 300.0
COMMAND_BEGINS_WITHIN = timedelta(seconds=20)
MAY_LOSE_PERCENT = 30
TASK = "catalog.tasks.enumerate_endpoint"
RUN_SECONDS = Histogram(
    "pegboard_run_seconds",
    "How long an enumeration run took.",
    ("protocol",),
    (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)

OnProgress = Callable[[int, int, int], None]


class _PartIsOverError(Exception):
    """This process has read its part of a slow run, which continues in the queue of slow runs."""


class HeldError(Exception):
    """A complete list that would withdraw so many tools that an administrator must confirm it."""

    def __init__(self, code: str, message: str, harvest: Harvest) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.harvest = harvest


def request_run(
    endpoint: Endpoint, *, trigger: Trigger, actor: User | None = None, may_withdraw: int | None = None
) -> Run:
    """Queue a run of the endpoint, or return the active one. The next scheduled run is postponed."""
    if not endpoint.is_live:
        raise DomainError(
            "endpoint_removed", "This endpoint was removed, so it is not synced any more.", status=409
        )
    run, is_new = queue(endpoint, trigger, actor, may_withdraw)
    if is_new and trigger != Trigger.COMMAND:
        failpoint("queued")
        transaction.on_commit(partial(send, run.pk), robust=True)
    return run


def queue(
    endpoint: Endpoint,
    trigger: Trigger,
    actor: User | None,
    may_withdraw: int | None,
    *,
    is_late: bool = False,
) -> tuple[Run, bool]:
    """Queue a run. It locks the endpoint first, in the order of `schedule.tick`."""
    while True:
        active = Run.objects.filter(endpoint=endpoint, status__in=ACTIVE).first()
        if active and (may_withdraw is None or _confirm_active(active, actor, may_withdraw)):
            return active, False
        try:
            with transaction.atomic():
                # Up to a tenth earlier or later, so that requests to vendors spread. After a standstill,
                # when all runs are late, they spread over a whole interval.
                share = random.uniform(0.1 if is_late else 0.9, 1.1)  # noqa: S311 - spreads load, guards nothing
                Endpoint.objects.filter(pk=endpoint.pk).update(
                    next_due_at=Now() + timedelta(minutes=endpoint.interval_minutes * share)
                )
                run = Run.objects.create(
                    endpoint=endpoint,
                    trigger=trigger,
                    requested_by=actor,
                    may_withdraw=may_withdraw,
                    # The command line executes its run itself. Workers execute it only if the command dies.
                    sent_at=Now() if trigger == Trigger.COMMAND else None,
                )
                _record_request(run, actor, may_withdraw)
                return run, True
        except IntegrityError as exc:
            if "one_active_run_per_endpoint" not in str(exc):
                raise


@transaction.atomic
def _confirm_active(run: Run, actor: User | None, may_withdraw: int) -> bool:
    # The confirmation also applies to an active run. A run that has just ended does not match.
    confirmed = Run.objects.filter(pk=run.pk, status__in=ACTIVE).update(may_withdraw=may_withdraw)
    if confirmed:
        _record_request(run, actor, may_withdraw)
    return bool(confirmed)


def _record_request(run: Run, actor: User | None, may_withdraw: int | None) -> None:
    if actor and may_withdraw is not None:
        audit.record(actor, "confirm", run.endpoint, after={"run": run.pk, "may_withdraw": may_withdraw})
    elif actor:
        audit.record(actor, "enumerate", run.endpoint, after={"run": run.pk})


def send(run_id: int) -> bool:
    """Wake a worker. If the broker is unavailable, the row stays queued and `tick` sends the message
    again."""
    queued = Run.objects.filter(pk=run_id, status=RunStatus.QUEUED)
    # Before the message, because a worker that receives it at once would find the row locked and skip it.
    queued.update(sent_at=Now())
    is_slow = queued.filter(slow_vendors.IS_SLOW).exists()
    if wakes.wake_worker(TASK, run_id, queue=queue_of_runs(is_slow=is_slow)):
        return True
    queued.update(sent_at=None)
    return False


def queue_of_runs(*, is_slow: bool) -> str:
    return settings.SLOW_QUEUE if is_slow else settings.CELERY_TASK_DEFAULT_QUEUE


def due_runs(queue: str) -> QuerySet[Run]:
    """Return the runs that workers of this queue may begin, the oldest first."""
    # The command line performs its own runs, unless it died.
    from_command = Q(trigger=Trigger.COMMAND, sent_at__gt=Now() - COMMAND_BEGINS_WITHIN)
    waiting = Run.objects.filter(status=RunStatus.QUEUED).exclude(from_command).order_by("pk")
    if queue == settings.SLOW_QUEUE:
        return waiting.filter(slow_vendors.IS_SLOW)
    return waiting.exclude(slow_vendors.IS_SLOW)


def confirm_held(run: Run, *, actor: User) -> Run:
    """Read again, and withdraw up to as many tools as the held run would have withdrawn."""
    endpoint = run.endpoint
    if endpoint.held_run_id != run.pk:
        raise DomainError(
            "not_held",
            _("This sync does not wait for a decision any more. See the endpoint's newest sync."),
            status=409,
        )
    return request_run(endpoint, trigger=Trigger.PERSON, actor=actor, may_withdraw=run.would_withdraw)


def perform(run_id: int, on_progress: OnProgress | None = None, *, is_divided: bool = True) -> Run:
    """Read and record one queued run. Does nothing if another worker has claimed it or it has ended.

    A slow run is read in parts and queued again after each, unless it must not be divided.
    """
    failpoint("received")
    run = lease.claim(run_id)
    if run is None:
        return Run.objects.select_related("endpoint").get(pk=run_id)
    began = time.monotonic()
    with log_context.log_context(run_id=run.pk, endpoint_id=run.endpoint_id):
        try:
            _read_and_record(_RunPart(run, is_last=not is_divided), on_progress)
        except EndpointMovedError as moved:
            start_over(run, moved)
        run.refresh_from_db()
        logger.info("enumeration ended: %s, %s tools seen", run.error_code or run.status, run.seen)
    RUN_SECONDS.observe(time.monotonic() - began, run.endpoint.protocol)
    return run


def _read_and_record(part: "_RunPart", on_progress: OnProgress | None) -> None:
    failpoint("claimed")
    run, heart = part.run, part.heart
    try:
        with heart:
            harvest = _read_part(part, on_progress)
        store.record(run, harvest)
        failpoint("recorded")
    except _PartIsOverError:
        part.replies.store()
        if lease.give_back(run):
            send(run.pk)
    except LostLeaseError:
        if heart.has_moved:
            raise EndpointMovedError from None
        logger.warning("run %s was taken up by another worker; nothing written", run.pk)
    except EndpointMovedError:
        raise
    except HeldError as held:
        _hold_list(run, held, heart.heard)
    except (ProtocolError, DomainError) as exc:
        _fail_with_error(part, exc)
    except Exception as exc:
        logger.exception("run %s failed", run.pk)
        if db_errors.is_database_lost(exc):
            raise  # The lease runs out, and the run is taken up again.
        failure = db_errors.outage(exc)
        code = failure.code.upper() if failure else "INTERNAL"
        message = failure.message if failure else "Pegboard failed. Its log contains the error."
        message += " The catalog was not changed."
        fail(run, code, message, progress=heart.progress, exchanges=heart.heard)


def _fail_with_error(part: "_RunPart", exc: ProtocolError | DomainError) -> None:
    run, heart = part.run, part.heart
    if not store.as_it_was_read(run).exists():
        raise EndpointMovedError from exc
    if isinstance(exc, ProtocolError):
        circuit_breaker.record_run(run.endpoint, exc)
        if run.trigger == Trigger.PERSON:  # who has just entered the address, and waits
            exc = recognition.explain(run.endpoint, exc)
        if isinstance(exc, recognition.WrongProtocolError):
            Run.objects.filter(pk=run.pk).update(spoken_protocol=exc.spoken)
    if may_resume := isinstance(exc, UnavailableError) and exc.code != "UNSTABLE":
        part.replies.store()
    wait = getattr(exc, "retry_after", None)
    fail(run, exc.code, exc.message, wait, heart.progress, heart.heard, may_resume=may_resume)


@transaction.atomic
def start_over(run: Run, moved: EndpointMovedError) -> None:
    """Forget the history of an endpoint whose address changed. While it is paused, no run starts by
    itself."""
    if not store.finish(run, status=RunStatus.FAILED, error_code=moved.code, error_message=moved.message):
        return
    endpoint = Endpoint.objects.get(pk=run.endpoint_id)
    if endpoint.is_live and not endpoint.is_paused:
        request_run(endpoint, trigger=Trigger.SCHEDULE)


class _RunPart:
    """The part of a run that one process reads.

    is_last: the run reads nothing after this part.
    """

    def __init__(self, run: Run, *, is_last: bool = False) -> None:
        self.run = run
        self.replies = kept_replies.Replies(run, self.raise_if_over)
        self.heart = Heartbeat(run, self.replies)
        self.is_last = is_last
        self.began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def raise_if_over(self) -> None:
        """Raise if the part is over. Called when all replies so far can be stored. Each part reads at
        least one reply."""
        if self.heart.is_lost:
            raise LostLeaseError
        replies = self.replies.answered
        is_over = replies > 0 and self.seconds > slow_vendors.part_seconds(self.run, replies)
        if is_over and not self.is_last:
            raise _PartIsOverError


def _read_part(part: _RunPart, on_progress: OnProgress | None) -> Harvest:
    run, heart, replies = part.run, part.heart, part.replies
    endpoint = run.endpoint
    if not endpoint.is_live:
        raise EndpointRemovedError

    def progress(pages: int, tool_count: int, rejected_count: int) -> None:
        heart.progress = {"pages": pages, "seen": tool_count, "rejected": rejected_count}
        if heart.is_lost:
            raise LostLeaseError
        if on_progress:
            on_progress(pages, tool_count, rejected_count)

    reached: dict[str, str] = {}
    open_session = partial(sessions.open_session, endpoint, heart.heard, reached_addresses=reached)
    protocol = endpoint.build_protocol()
    read_list = partial(listing.read, run, protocol, open_session, replies, progress)
    deadline = part.began + WHOLE_SECONDS
    try:
        try:
            harvest = read_list(ends=deadline if protocol.lists_at_once else math.inf)
        except (ProtocolViolationError, RefusedError):
            # The cursor may have expired, or a stored reply cannot be parsed. The list is read from its
            # beginning and in one part, because each part would start at the beginning again.
            if not replies.used or part.seconds > WHOLE_SECONDS:
                raise
            part.is_last = True
            harvest = read_list(ends=deadline)
    finally:
        if reached:
            Run.objects.filter(pk=run.pk, attempt=run.attempt).update(reached=reached)
    if run.trigger == Trigger.SCHEDULE:
        circuit_breaker.record_answer(endpoint)
    else:
        circuit_breaker.reset(endpoint)
    _hold_if_shrunken(run, harvest)
    return harvest


def _hold_if_shrunken(run: Run, harvest: Harvest) -> None:
    # An empty list, or more than 30 % missing, is more often a vendor's accident than intended.
    missing, before = len(harvest.missing), harvest.was_active
    if missing * 100 <= before * MAY_LOSE_PERCENT:
        return
    # From the current row, because an administrator may have confirmed it meanwhile.
    confirmed = Run.objects.values_list("may_withdraw", flat=True).get(pk=run.pk)
    if missing <= (confirmed or 0):
        return
    if missing == before:
        code, what = "EMPTY_HELD", "The vendor now lists none of the tools it listed before."
    else:
        code, what = "SHRINK_HELD", f"{missing:,} of {before:,} tools are missing from the vendor's list."
    raise HeldError(
        code,
        f"{what} Nothing was withdrawn. Confirm if these tools are really gone, or sync again later.",
        harvest,
    )


def _hold_list(run: Run, error: HeldError, exchanges: Sequence[Exchange]) -> None:
    columns = {"error_code": error.code, "error_message": error.message}
    with transaction.atomic():
        if store.finish(
            run,
            status=RunStatus.FAILED,
            would_withdraw=len(error.harvest.missing),
            **columns,
            **store.read_columns(error.harvest),
        ):
            store.keep_rejections(error.harvest)
            last_reply.keep(run, exchanges)
            if not store.as_it_was_read(run).update(held_run=run, **columns):
                raise EndpointMovedError
            if run.endpoint.held_run_id is None:
                outbox.report_held_run(run.endpoint)
            worker_audit.record_held_list(run, error.code, error.message, len(error.harvest.missing))


def fail(
    run: Run,
    code: str,
    message: str,
    retry_after: float | None = None,
    progress: Mapping[str, int] = MappingProxyType({}),
    exchanges: Sequence[Exchange] = (),
    *,
    may_resume: bool = False,
) -> None:
    """Record a failure. Each further failure of the endpoint delays its next scheduled run."""
    columns = {"error_code": code, "error_message": message}
    failures = run.endpoint.failures + 1
    wait = max(circuit_breaker.back_off(failures), circuit_breaker.retry_after_wait(retry_after))
    with transaction.atomic():
        if store.finish(run, may_resume, status=RunStatus.FAILED, **columns, **progress):
            last_reply.keep(run, exchanges)
            was_read = store.as_it_was_read(run)
            if not was_read.update(failures=failures, next_due_at=Now() + wait, **columns):
                raise EndpointMovedError
            if failures == 1:
                outbox.report_failure(run.endpoint)
            worker_audit.record_failure(run, code, message)
