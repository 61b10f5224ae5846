"""Enumeration: one run is one row, from the wish to read an endpoint to its recorded result.

The row comes first and the message after it carries only its id; the truth is in PostgreSQL and the
queue is a hint. A run is claimed by compare-and-set with a lease; `attempt` is the fencing token. A
heartbeat keeps the lease; a run whose lease has run out is taken up again by `tick`, which needs
neither the broker nor the worker that died. docs/decisions/0004-enumeration.md says why.
"""

import logging
import random
import threading
from collections.abc import Callable
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from celery import current_app
from django.db import IntegrityError, connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from catalog import credentials, reading, recording
from catalog.crashpoints import crashpoint
from catalog.errors import CatalogError
from catalog.models import Endpoint, Run
from catalog.models.runs import ACTIVE, RunStatus, Trigger
from catalog.protocols.errors import ProtocolError
from catalog.recording import Harvest, LostLeaseError
from people import audit
from people.models import User

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=30)
HEARTBEAT_SECONDS = 8.0
RESEND_AFTER = timedelta(seconds=20)
MAX_ATTEMPTS = 3
MAY_LOSE = 0.30
BACK_OFF = (timedelta(seconds=30), timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=1))
LONGEST_WAIT = timedelta(hours=24)
TASK = "catalog.tasks.enumerate_endpoint"

OnProgress = Callable[[int, int, int], None]


class HeldError(Exception):
    """A complete answer that would withdraw so much that a person has to say yes."""

    def __init__(self, code: str, message: str, would_withdraw: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.would_withdraw = would_withdraw


def request_run(
    endpoint: Endpoint, *, trigger: Trigger, actor: User | None = None, may_withdraw: int | None = None
) -> Run:
    """A queued run of the endpoint, or the one that is already active. The next scheduled one moves on."""
    if not endpoint.is_live:
        raise CatalogError(
            "endpoint_removed", "This endpoint was removed, so it is not read any more.", status=409
        )
    run, is_new = _queue(endpoint, trigger, actor, may_withdraw)
    if is_new and trigger != Trigger.COMMAND:
        crashpoint("queued")
        transaction.on_commit(lambda: send(run.pk), robust=True)
    return run


def _queue(
    endpoint: Endpoint, trigger: Trigger, actor: User | None, may_withdraw: int | None
) -> tuple[Run, bool]:
    while True:
        try:
            with transaction.atomic():
                run = Run.objects.create(
                    endpoint=endpoint, trigger=trigger, requested_by=actor, may_withdraw=may_withdraw
                )
                Endpoint.objects.filter(pk=endpoint.pk).update(next_due_at=_next_due(endpoint))
                if actor:
                    audit.record(actor, "enumerate", endpoint, after={"run": run.pk})
                return run, True
        except IntegrityError:
            if active := Run.objects.filter(endpoint=endpoint, status__in=ACTIVE).first():
                return active, False


def _next_due(endpoint: Endpoint) -> object:
    """The endpoint's own interval, up to a tenth earlier or later so that vendors are not hit in step."""
    minutes = endpoint.interval_minutes * random.uniform(0.9, 1.1)  # noqa: S311 - spreads load, guards nothing
    return Now() + timedelta(minutes=minutes)


def send(run_id: int) -> None:
    """Tell a worker. A broker that is away loses nothing: the row stays queued and `tick` sends again."""
    try:
        current_app.send_task(TASK, args=[run_id])
    except (BrokerError, OSError) as exc:
        logger.warning("run %s waits for the broker: %s", run_id, exc)


def confirm_held(run: Run, *, actor: User) -> Run:
    """Read again, and withdraw up to as many tools as the held run would have withdrawn."""
    endpoint = run.endpoint
    if endpoint.held_run_id != run.pk:
        raise CatalogError("not_held", "This run does not wait for a decision any more.", status=409)
    return request_run(endpoint, trigger=Trigger.PERSON, actor=actor, may_withdraw=run.would_withdraw)


def tick() -> None:
    """Start what is due, take up what died, send what nobody picked up. Safe at any time, and twice."""
    _start_due()
    _take_up_dead()
    for run_id in _unsent():
        send(run_id)


def _start_due() -> None:
    with transaction.atomic():
        due = (
            Endpoint.objects.due().select_for_update(skip_locked=True, of=("self",)).select_related("vendor")
        )
        for endpoint in due[:100]:
            request_run(endpoint, trigger=Trigger.SCHEDULE)


def _take_up_dead() -> None:
    dead = Run.objects.filter(status=RunStatus.RUNNING, lease_until__lt=Now())
    parked = dead.filter(attempt__gte=MAX_ATTEMPTS).values_list("pk", flat=True)
    for run in Run.objects.filter(pk__in=list(parked)).select_related("endpoint"):
        _fail(
            run,
            "PARKED",
            f"Reading this endpoint ended the worker {MAX_ATTEMPTS} times, so this run is given up. "
            "The worker's log says more.",
        )
    for run_id in dead.filter(attempt__lt=MAX_ATTEMPTS).values_list("pk", flat=True):
        if dead.filter(pk=run_id).update(status=RunStatus.QUEUED, sent_at=Now()):
            send(run_id)


def _unsent() -> list[int]:
    waiting = Run.objects.filter(status=RunStatus.QUEUED, sent_at__lt=Now() - RESEND_AFTER)
    return [pk for pk in waiting.values_list("pk", flat=True) if waiting.filter(pk=pk).update(sent_at=Now())]


def perform(run_id: int, on_progress: OnProgress | None = None) -> Run:
    """Read and record one queued run. Does nothing when another worker has claimed it or it is finished."""
    if not _claim(run_id):
        return Run.objects.select_related("endpoint").get(pk=run_id)
    run = Run.objects.select_related("endpoint__vendor", "endpoint__credential").get(pk=run_id)
    crashpoint("claimed")
    with _heartbeat(run):
        try:
            recording.record(run, _read(run, on_progress))
            crashpoint("recorded")
        except LostLeaseError:
            logger.warning("run %s was taken up by another worker; nothing written", run.pk)
        except HeldError as held:
            _hold(run, held)
        except (ProtocolError, CatalogError) as exc:
            _fail(run, exc.code, exc.message, getattr(exc, "retry_after", None))
        except Exception:
            logger.exception("run %s failed", run.pk)
            _fail(
                run, "INTERNAL", "Pegboard itself failed here; its log says more. The catalog is as it was."
            )
    run.refresh_from_db()
    return run


def _claim(run_id: int) -> bool:
    free = Q(status=RunStatus.QUEUED) | Q(status=RunStatus.RUNNING, lease_until__lt=Now())
    return bool(
        Run.objects.filter(free, pk=run_id).update(
            status=RunStatus.RUNNING, attempt=F("attempt") + 1, lease_until=Now() + LEASE, started_at=Now()
        )
    )


@contextmanager
def _heartbeat(run: Run) -> "Iterator[None]":
    """Keep the lease while the main thread waits for the vendor, from a connection of its own."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            try:
                if not _extend(run):
                    break
            finally:
                connection.close()

    thread = threading.Thread(target=beat, name=f"heartbeat-{run.pk}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _extend(run: Run, **progress: int) -> bool:
    mine = Run.objects.filter(pk=run.pk, attempt=run.attempt, status=RunStatus.RUNNING)
    return bool(mine.update(lease_until=Now() + LEASE, **progress))


def _read(run: Run, on_progress: OnProgress | None) -> Harvest:
    def progress(pages: int, seen: int, rejected: int) -> None:
        if on_progress:
            on_progress(pages, seen, rejected)
        if not _extend(run, pages=pages, seen=seen, rejected=rejected):
            raise LostLeaseError

    with credentials.open_session(run.endpoint) as session:
        harvest = reading.read(run, run.endpoint.speak(), session, progress)
    _hold_if_shrunken(run, harvest)
    return harvest


def _hold_if_shrunken(run: Run, harvest: Harvest) -> None:
    """Empty after tools, or more than 30 % gone: that is more often a vendor's accident than a wish."""
    missing, before = len(harvest.missing), harvest.was_active
    if missing <= (run.may_withdraw or 0) or missing <= before * MAY_LOSE:
        return
    if missing == before:
        code, what = "EMPTY_HELD", "The vendor now lists none of the tools it listed before."
    else:
        code, what = "SHRINK_HELD", f"{missing:,} of {before:,} tools are missing from the vendor's list."
    raise HeldError(
        code,
        f"{what} Nothing was withdrawn. Confirm if these tools are really gone, or read again later.",
        missing,
    )


def _hold(run: Run, held: HeldError) -> None:
    with transaction.atomic():
        if recording.finish(
            run,
            status=RunStatus.FAILED,
            error_code=held.code,
            error_message=held.message,
            would_withdraw=held.would_withdraw,
        ):
            Endpoint.objects.filter(pk=run.endpoint_id).update(
                held_run=run, error_code=held.code, error_message=held.message
            )


def _fail(run: Run, code: str, message: str, retry_after: float | None = None) -> None:
    """The next scheduled run comes later the more often this endpoint failed in a row."""
    with transaction.atomic():
        if not recording.finish(run, status=RunStatus.FAILED, error_code=code, error_message=message):
            return
        endpoint = Endpoint.objects.select_for_update().get(pk=run.endpoint_id)
        endpoint.failures += 1
        endpoint.error_code, endpoint.error_message = code, message
        endpoint.next_due_at = timezone.now() + _wait(endpoint, retry_after)
        endpoint.save(update_fields=["failures", "error_code", "error_message", "next_due_at"])


def _wait(endpoint: Endpoint, retry_after: float | None) -> timedelta:
    back_off = BACK_OFF[min(endpoint.failures, len(BACK_OFF)) - 1] * random.uniform(0.8, 1.2)  # noqa: S311
    asked = timedelta(seconds=min(retry_after or 0, LONGEST_WAIT.total_seconds()))
    return max(back_off, asked)
