"""Work that should be running and is not, and inconsistent data."""

from collections.abc import Iterator
from datetime import timedelta

from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Coalesce, Now
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from catalog import invariants, retention, waiting_work
from catalog.enumeration import slow_vendors
from catalog.models import Credential, Endpoint, Run
from catalog.models.runs import ACTIVE, RunStatus
from catalog.notifications.models import Notice, Subscription, Webhook
from catalog.search import meanings
from core import redis_client
from pegboard.beat import ALIVE, ALIVE_SECONDS
from pegboard.ops.doctor.frame import DoctorLimits, Fact, Trouble, check
from pegboard.process_commands import start_command
from people import api_keys
from people.audit import verify

READY = ("database", "migrations")
# Workers answer between two tasks of their pool, so a busy one is slow to.
ANSWER_WITHIN = 3.0
# Longer than a lease and two ticks: what is taken up again by itself is no finding.
UNNOTICED = timedelta(minutes=1)
# Several ticks of the scheduler.
OVERDUE = timedelta(minutes=2)
STUCK = timedelta(minutes=10)
# A vendor may be away for an evening.
LONG = timedelta(days=1)
# Those have checks of their own here.
ELSEWHERE = {"live_leases", "secret_keys"}


@check("worker", "workers answer, for each queue", after=("broker",))
def worker(limits: DoctorLimits) -> Iterator[Trouble]:
    try:
        answers = current_app.control.inspect(timeout=ANSWER_WITHIN).active_queues() or {}
    except (BrokerError, OSError):
        answers = {}
    if not answers:
        yield Trouble(
            f"No worker answered within {ANSWER_WITHIN:.0f} seconds.",
            "Vendors are not read, and calls are not made.",
            f"Start one: {start_command('worker')}. If one runs, see its log.",
        )
        return
    queues_read = {queue["name"] for queues in answers.values() for queue in queues}
    for name, process, harm in (
        (settings.CELERY_TASK_DEFAULT_QUEUE, "worker", "Vendors are not read."),
        (settings.SLOW_QUEUE, "slow", "Vendors that are slow are not read, and long lists not to their end."),
        (settings.CALLS_QUEUE, "caller", "Tools that people and runtimes call are not run."),
    ):
        if name not in queues_read:
            yield Trouble(
                f"No worker that takes from the queue “{name}” answered within {ANSWER_WITHIN:.0f} seconds.",
                harm,
                f"Start one: {start_command(process)}. If one runs, see its log.",
            )


@check("beat", "a scheduler runs", after=("broker",))
def beat(limits: DoctorLimits) -> Iterator[Trouble]:
    if not redis_client.client().exists(ALIVE):
        yield Trouble(
            f"No scheduler has been at work for {ALIVE_SECONDS} seconds.",
            "Workers start what is due all the same, but later; nothing is tidied up.",
            f"Start one: {start_command('beat')}. If one runs, see its log.",
        )


@check("scheduler", "what is due is started", after=READY)
def scheduler(limits: DoctorLimits) -> Iterator[Trouble]:
    late = Endpoint.objects.due().filter(next_due_at__lt=Now() - OVERDUE).exclude(runs__status__in=ACTIVE)
    if count := late.count():
        yield Trouble(
            f"{_count_things(count, 'endpoint')} should have been read by now, and no worker started that.",
            "Nothing is read by itself, and what died is not taken up.",
            "The scheduler and the workers do this: see whether they run, and what their logs say.",
        )


@check("orphans", "every enumeration run under way has a worker", after=READY)
def orphans(limits: DoctorLimits) -> Iterator[Trouble]:
    is_lost = Q(lease_until=None) | Q(lease_until__lt=Now() - UNNOTICED)
    rows = Run.objects.filter(is_lost, status=RunStatus.RUNNING)
    if ids := list(rows.values_list("pk", flat=True)[:5]):
        which = ", ".join(f"run {pk}" for pk in ids)
        yield Trouble(
            f"{_count_things(rows.count(), 'enumeration run')} lost its worker: {which}.",
            "Its endpoint is not read meanwhile.",
            "The scheduler takes it up within seconds: see whether one runs.",
        )


@check("queue", "enumeration runs that were asked for begin", after=(*READY, "worker", "scheduler"))
def queue(limits: DoctorLimits) -> Iterator[Trouble]:
    seconds = next(kind.may_wait for kind in waiting_work.KINDS if kind.name == "runs")
    waiting = Run.objects.filter(status=RunStatus.QUEUED, queued_at__lt=Now() - timedelta(seconds=seconds))
    # Slow runs wait for each other.
    if count := waiting.exclude(slow_vendors.IS_SLOW).count():
        yield Trouble(
            f"{_count_things(count, 'enumeration run')} has waited for more than five minutes.",
            "There are not enough workers, or they hang.",
            "Start more workers, or see in the log what the ones there are do.",
        )
    if late := _late_work("slow_runs"):
        yield Trouble(
            f"The oldest enumeration run of a slow vendor has waited for {late.waited}.",
            "Vendors that are slow are not read.",
            f"If none runs, start one: {start_command('slow')}. Otherwise start more, or see their log.",
        )


@check("calls", "calls of tools start soon", after=(*READY, "worker"))
def calls(limits: DoctorLimits) -> Iterator[Trouble]:
    if late := _late_work("calls"):
        yield Trouble(
            f"The oldest call has waited for a worker for {late.seconds:.0f} seconds.",
            "Runtimes wait for their results, and new calls are refused (429 calls_wait).",
            f"If none runs, start one: {start_command('caller')}. Otherwise start more, or see their log.",
        )


@check("grants", "vendors are asked whether users have authorized", after=(*READY, "worker"))
def grants(limits: DoctorLimits) -> Iterator[Trouble]:
    if late := _late_work("grants"):
        yield Trouble(
            f"A vendor should have been asked {late.waited} ago whether a user has authorized a call.",
            "Calls that wait for an authorization do not continue.",
            "Start more workers, or see in the log what the ones there are do.",
        )


@check("index", "search knows every tool", after=READY)
def index(limits: DoctorLimits) -> Iterator[Trouble]:
    if late := _late_work("index"):
        yield Trouble(
            f"The search index has waited for {late.waited} to read what changed.",
            "Searches find tools as they were, or not at all.",
            "The web server of this host does this every second: see in its log why it does not.",
        )


@check("meanings", "search compares meanings", after=READY)
def compared_meanings(limits: DoctorLimits) -> Iterator[Trouble | Fact]:
    stored = meanings.read_stored_state() if meanings.is_compared() else None
    if stored and stored.usage.texts:
        usage = stored.usage
        yield Fact(
            f"{usage.texts:,} texts ({usage.characters:,} characters, {usage.tokens:,} tokens) were sent to "
            "the model that compares meanings."
        )
    if stored and stored.trouble:
        yield Trouble(
            f"No vectors of tools can be made. {stored.trouble}",
            "Search finds tools by their words only.",
            "Compare the settings PEGBOARD_SEARCH_MEANING… with the address, and open its network in "
            "PEGBOARD_OUTBOUND_ALLOW if it is private.",
        )


@check("inspection", "new versions are inspected", after=READY)
def inspection(limits: DoctorLimits) -> Iterator[Trouble]:
    brought = Q(added__gt=0) | Q(changed__gt=0)
    runs = Run.objects.filter(brought, status=RunStatus.SUCCEEDED, inspected=0)
    if count := runs.filter(finished_at__lt=Now() - STUCK).count():
        yield Trouble(
            f"{_count_things(count, 'enumeration run')} ended ten minutes ago, "
            "and its tools are not inspected.",
            "Text that hides something is not found.",
            "A worker does this once a minute: see in its log why it does not.",
        )


@check("failing", "endpoints that fail are looked after", after=READY)
def failing(limits: DoctorLimits) -> Iterator[Trouble]:
    rows = Endpoint.objects.live().filter(failures__gt=0, is_paused=False).select_related("vendor")
    long = rows.alias(since=Coalesce("last_success_at", "created_at")).filter(since__lt=Now() - LONG)
    for endpoint in long[:10]:
        since = endpoint.last_success_at or endpoint.created_at
        yield Trouble(
            f"“{endpoint}” of {endpoint.vendor} has not been read since {since:%d %b %H:%M} UTC "
            f"({endpoint.error_code}).",
            "Its tools are those of that day.",
            f"Open /endpoints/{endpoint.pk}/, which says what is wrong, or pause it.",
        )


@check("sign_in", "no credential waits for a person", after=READY)
def sign_in(limits: DoctorLimits) -> Iterator[Trouble]:
    waiting = Credential.objects.filter(removed_at=None, grant__ended_at__isnull=False)
    for credential in waiting[:10]:
        yield Trouble(
            f"The credential “{credential}” needs a sign-in.",
            "Endpoints that use it cannot be read.",
            f"Open /credentials/{credential.pk}/ and sign in.",
        )


@check("api_keys", "no API key ends soon", after=READY)
def ending_keys(limits: DoctorLimits) -> Iterator[Trouble]:
    for key in api_keys.find_ending(timezone.now()).select_related("user")[:10]:
        yield Trouble(
            f"The API key “{key}” of {key.user} ends on {key.expires_at:%d %b %H:%M} UTC.",
            "Programs that use it are refused from then on.",
            "Let its owner make a new key under /keys/ and give it to these programs, then revoke this one.",
        )


@check("notices", "people are told what they asked for", after=(*READY, "scheduler"))
def notices(limits: DoctorLimits) -> Iterator[Trouble]:
    if count := Notice.objects.filter(settled_at=None, due_at__lt=Now() - STUCK).count():
        yield Trouble(
            f"{_count_things(count, 'notice')} should have gone out ten minutes ago.",
            "No one is told of what happens.",
            "The scheduler does this every five seconds: see whether one runs.",
        )
    elif late := _late_work("notifications"):
        yield Trouble(
            f"A mail or a webhook has waited to be sent for {late.waited}.",
            "Its receiver is not notified.",
            "A worker sends them: see in its log why it does not.",
        )
    for webhook in Webhook.objects.filter(removed_at=None, is_paused=True).exclude(paused_why="")[:10]:
        if webhook.failures:
            yield Trouble(
                f"The webhook “{webhook}” was paused after failures.",
                "Its receiver hears nothing.",
                f"Open /notifications/webhooks/{webhook.pk}/, send a test, and resume it.",
            )
    if not settings.MAIL_IS_SET_UP and Subscription.objects.exists():
        yield Trouble(
            "People asked for mail, and PEGBOARD_MAIL_URL is not set.",
            "They wait for mail that never comes.",
            "Set PEGBOARD_MAIL_URL, PEGBOARD_MAIL_FROM and PEGBOARD_URL.",
        )


@check("old_rows", "rows that are old are deleted", after=READY)
def old_rows(limits: DoctorLimits) -> Iterator[Trouble]:
    if tables := retention.overdue_tables(LONG):
        yield Trouble(
            f"Old {' and '.join(tables)} should have been deleted more than a day ago.",
            "The database grows, and data is stored for longer than you say.",
            "A worker deletes them once an hour: see in its log why it does not.",
        )


@check("audit_chain", "the audit trail is as it was written", after=READY)
def audit_chain(limits: DoctorLimits) -> Iterator[Trouble]:
    if broken := verify.verify().broken:
        yield Trouble(
            broken,
            "The trail was changed with access to the database.",
            "Keep a copy of the database as it is, and compare it with your backups.",
        )


@check("data", "the data agrees with itself", after=READY)
def data(limits: DoctorLimits) -> Iterator[Trouble]:
    claim_names = [claim.name for claim in invariants.claims() if claim.name not in ELSEWHERE]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
        breaches = invariants.check(only=claim_names)
    for breach in breaches:
        which = "; ".join(breach.examples)
        summary = f"It does not hold that {breach.claim.statement}: {breach.count:,}, such as {which}."
        yield Trouble(summary, "Pages and exports may show what is not so.", breach.claim.mend)


def _late_work(name: str) -> waiting_work.LateWork | None:
    late = waiting_work.find_late(waiting_work.oldest_seconds())
    return next((work for work in late if work.kind.name == name), None)


def _count_things(count: int, name: str) -> str:
    return f"1 {name}" if count == 1 else f"{count:,} {name}s"
