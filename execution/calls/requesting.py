"""Requests for calls: validated, then stored as rows, before anything is sent.

A queued call goes to a worker, in a message with only its id. A claimed call belongs to the process that
created its row. execution/calls/checks.py decides what may run, execution/calls/queue.py manages the rows,
execution/calls/continuing.py continues those that stopped to ask, and execution/calls/invocation.py executes
them.
"""

import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from datetime import timedelta
from functools import cache
from typing import Any, TypedDict, Unpack

import msgspec
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import BigIntegerField
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now
from django.utils import timezone

from catalog.models import ActivityVersion, Call, Thread, ToolVersion
from catalog.models.calls import ACTIVE_CALLS, CallStatus, Mode, caller_name
from catalog.models.findings import FindingState
from catalog.notifications import callbacks
from catalog.notifications.callbacks import Recipient
from catalog.notifications.models import SendingState
from catalog.review import holds
from catalog.rules import retries
from catalog.rules.retries import RetryTerms
from catalog.tools import effective_texts
from core.compiled_queries import PreparedInsert, PreparedQuery, named_value
from core.db_errors import LOST, outage
from core.errors import DomainError
from core.prepared_statements import run_prepared, run_together
from execution.calls import call_keys, checks, queue, results
from execution.calls.call_keys import ClientCallId
from execution.calls.checks import ArgumentsError, ConfirmationError
from execution.calls.lease import lease_of
from execution.calls.runtime import USUAL, Runtime
from execution.user_grants import end_users
from people import audit
from people.models import ApiKey, User
from protocols.call_outcome import Outcome
from protocols.calls import outcomes
from protocols.calls.arguments import with_whole_numbers
from protocols.signature import Signature

logger = logging.getLogger(__name__)

NEXT_CALL = "nextval(pg_get_serial_sequence('catalog_call', 'id'))"
DEADLINE = retries.DEFAULT.give_up_after_seconds
MAX_DEADLINE_SECONDS = retries.MAX_GIVE_UP_SECONDS
# For calls that no client waits for.
LONG_DEADLINE, MAX_LONG_DEADLINE_SECONDS = 3600, 86_400
# A user waits for the result and would not expect a call that starts much later.
QUEUE_TIMEOUT = timedelta(seconds=30)
MAX_CALLS_PER_TOOL = 500
FORGET_EVERY = 50
USERS_CALLS_AT_ONCE = 10  # without an API key
MAX_CACHED_SIGNATURES = 2_000
_cached_signatures: dict[int, Signature] = {}
# Columns that no call needs, and that may be long.
_UNUSED_COLUMNS = (
    *(
        "signature",
        "raw",
        "alarms",
        "tool__stopped__signature",
        "tool__stopped__raw",
        "tool__stopped__alarms",
    ),
    *("tool__title", "tool__description", "tool__tags"),
    *("tool__endpoint__policy", "tool__endpoint__retry", "tool__endpoint__error_message"),
)


class TooManyCallsError(DomainError):
    retry_after = 1

    def __init__(self, maximum: int, owner: str) -> None:
        message = f"{maximum} calls {owner} are running, which is the limit. Wait for one of them."
        super().__init__("too_many_calls", message, status=429)


class ThreadBusyError(DomainError):
    retry_after = 1

    def __init__(self) -> None:
        message = "A call is running on this thread. Wait until it ends, or start another thread."
        super().__init__("thread_busy", message, status=409)


class CallColumns(TypedDict, total=False):
    """The columns of a call that its requester sets.

    activity: runs instead of the tool's endpoint, chosen by the agent's `environment`.
    parent: the call whose step this is. It must be running, and its caller becomes the caller of the step.
    """

    api_key: ApiKey | None
    mode: Mode
    thread: Thread | None
    reasoning: str
    mark: str
    activity: ActivityVersion | None
    environment: str
    parent: Call | None


def request_call(
    version: ToolVersion,
    *,
    actor: User,
    arguments: Mapping[str, Any],
    deadline_seconds: int | None = None,
    is_confirmed: bool = False,
    key: uuid.UUID | None = None,
    call_id: ClientCallId | None = None,
    runtime: Runtime | None = None,
    terms: RetryTerms | None = None,
    is_claimed: bool = False,
    callback: Recipient | None = None,
    outcome: Outcome | None = None,
    has_valid_arguments: bool = False,
    **columns: Unpack[CallColumns],
) -> Call:
    """Store a call, or return the earlier call with this `key` or with the caller's `call_id`. Nothing is
    sent.

    key: derived by execution/calls/call_keys.py. call_id: the id that the client has chosen.
    callback: receives the end of the call.
    terms: by default those of the endpoint, the tuning for all agents and the vendor.
    deadline_seconds: by default as long as the policy allows.
    is_claimed: a new call is not queued; this process must execute it.
    outcome: the outcome of a call that only has to be stored.
    has_valid_arguments: the caller has validated them by the schema that it had shown to a model.
    Raises ArgumentsError, ConfirmationError, DomainError.
    """
    if callback:
        callbacks.check(callback)
    if parent := columns.get("parent"):
        runtime = runtime_of_step(parent, version)
    checks.refuse_too_large(arguments)
    review_states = _check_recipient(version, runtime, columns, has_ended=outcome is not None)
    if not has_valid_arguments and (refusal := outcomes.refusal(version.decoded(), arguments)):
        raise ArgumentsError(refusal)
    if terms is None:
        policy = retries.resolve_policy(endpoint=version.tool.endpoint.retry).policy
        terms = RetryTerms(policy=policy, effects=effective_texts.effects(version.tool, version.decoded()))
    if outcome is None and not is_confirmed:
        activity = columns.get("activity")
        if reason := checks.reason_to_confirm(version, review_states, terms.effects, activity):
            raise ConfirmationError(reason)
    call = Call(
        tool=version.tool,
        version=version,
        arguments=with_whole_numbers(dict(arguments)),
        deadline_seconds=deadline_seconds or terms.policy.give_up_after_seconds,
        retry=msgspec.to_builtins(terms),
        **columns,
    )
    call.calls_back = callback
    if outcome:
        call.status, call.finished_at, call.duration_ms = CallStatus.FINISHED, timezone.now(), 0
        outcome = results.with_argument_notes(outcome, version.decoded(), call.arguments)
        call.outcome, call.error_code, call.result = results.result_columns(outcome, []).values()
    return store_or_unknown(call, lambda: store(call, actor, runtime, key, call_id, is_claimed=is_claimed))


def store_or_unknown(call: Call, write: Callable[[], Call]) -> Call:
    """Return the result of `write`, or the call with an unknown outcome.

    The connection may have been lost after the commit, and a worker then executes the call.
    """
    try:
        return write()
    except (OperationalError, InterfaceError) as error:
        # A confirmed row exists. If the statement was sent, only the confirmation of the commit may be lost.
        is_confirmed = not call._state.adding
        was_sent = call.pk is not None and outage(error, is_write=True) is LOST
        if connection.in_atomic_block or not (is_confirmed or was_sent):
            raise
        logger.exception("the database was lost when call %s was written down", call.pk)
        return results.end_with_unknown_outcome(call)


def _check_recipient(
    version: ToolVersion, runtime: Runtime | None, columns: CallColumns, *, has_ended: bool
) -> Collection[FindingState]:
    """Check that the vendor may receive the call, and that the thread belongs to the tool.

    has_ended: nothing is sent, because the call has an outcome already.
    Return the states of the version's findings; none if the call is not for the vendor.
    """
    states: Collection[FindingState] = ()
    calls_vendor = columns.get("activity") is None and not has_ended
    if calls_vendor:
        states = checks.review_states(version)
        checks.refuse_unfit(version, states, runtime)
        if note := version.tool.endpoint.build_protocol().why_not_run(version.decoded()):
            raise ArgumentsError(outcomes.failed("refused", note.code, note.message))
    thread = columns.get("thread")
    if thread and (thread.tool_id != version.tool_id or not calls_vendor):
        raise DomainError("other_thread", "This thread belongs to another tool.", status=409)
    return states


def runtime_of_step(parent: Call, version: ToolVersion) -> Runtime | None:
    """Return the runtime of a step, which has the agent, the key and the user of its parent."""
    if parent.agent is None or parent.release is None:
        return None
    return Runtime(
        agent=parent.agent,
        release=parent.release,
        key=parent.api_key,
        why=f"A step of call {parent.pk}.",
        sub_agent=parent.sub_agent,
        tool=str(version.tool),
        site=parent.site,
        side=parent.runtime.side if parent.runtime else USUAL,
    )


def store(
    call: Call,
    actor: User,
    runtime: Runtime | None,
    key: uuid.UUID | None,
    call_id: ClientCallId | None,
    *,
    is_claimed: bool,
) -> Call:
    call.requested_by, call.requested_name = actor, str(actor)
    if runtime:
        call.runtime = runtime
        call.agent, call.release, call.api_key = runtime.agent, runtime.release, runtime.key
        call.sub_agent = runtime.sub_agent
        call.requested_name = caller_name(actor, runtime.key)
        call.site = runtime.site or call.site
        if acting := runtime.on_behalf_of:
            # Tools that an activity calls may need the user.
            needs_context = call.activity or call.version.tool.endpoint.build_protocol().takes_context
            identify = end_users.remember if needs_context else end_users.digest_of
            call.on_behalf_of = identify(runtime.agent, acting.name)
            call.resumes_when_granted = acting.resumes
    if call.parent:
        call.api_key, call.site = call.parent.api_key, call.parent.site
        call.on_behalf_of = call.parent.on_behalf_of
        call.resumes_when_granted = call.parent.resumes_when_granted
    call.inherit_starter()
    earlier_key = None
    if call_id:
        key = call_keys.key_of_client_call(call_id, user=actor.pk, api_key=call.api_key_id)
        earlier_key = call_keys.earlier_key(call_id, user=actor.pk, api_key=call.api_key_id)
        call.idempotency_key = call_id.stored_text
    if key:
        call.key, call.has_id = key, True
        if earlier := call_keys.find_earlier(call, earlier_key):
            return earlier
    if is_claimed:
        call.status, call.is_ours = CallStatus.RUNNING, True
    try:
        _insert_call(call, actor, why=runtime.why if runtime else "")
    except IntegrityError:
        if earlier := call_keys.find_earlier(call, earlier_key):
            return earlier
        raise
    # The wake may have changed the row already.
    return call if is_claimed else Call.objects.get(pk=call.pk)


def _insert_call(call: Call, actor: User, *, why: str) -> None:
    first_lease = _first_lease(call)
    call.pk = vars(call.version).pop("next_call", None) or run_prepared(f"SELECT {NEXT_CALL}", [])[0][0]
    key = call.api_key
    maximum, owner = (key.calls_at_once, "with this key") if key else (USERS_CALLS_AT_ONCE, "of yours")
    is_single_statement = (
        call.is_ours and not call.calls_back and call.thread_id is None and call.pk % FORGET_EVERY
    )
    # Statements that are sent together are a transaction of their own.
    with nullcontext() if is_single_statement and not connection.in_atomic_block else transaction.atomic():
        facts = {"call": call.pk, "version": call.version.name, "ordinal": call.version.ordinal}
        if deleted_calls := _forget_old(call):
            facts["calls_forgotten"] = deleted_calls
        verb = "run" if call.continues is None else "continue"
        audit_statement = audit.statement(
            actor, verb, call.tool, after=facts, why=why, agent=call.agent, only_if=(_IS_THERE, [call.pk])
        )
        # Serializes calls of one owner, so that concurrent calls are counted.
        lock = (_LOCK_KEY, [key.pk]) if key else (_LOCK_USER, [actor.pk])
        if call.parent_id:
            # An end of the parent either finds this step or prevents its insertion.
            lock = (_LOCK_PARENT, [call.parent_id])
        conditions = [call.parent_id, call.parent_id, actor.pk, call.api_key_id, call.api_key_id, maximum]
        _, inserted, *_ = run_together(
            lock,
            _insert_statement().statement(call, [call.is_ours, first_lease, *conditions]),
            audit_statement,
            *([(_KEEP_ID, [call.key, call_keys.digest_of_request(call), call.pk])] if call.has_id else []),
        )
        if not _insert_statement().take(call, inserted):
            if call.parent_id:
                raise DomainError("ended_meanwhile", "The call ended before this step ran.", status=409)
            raise TooManyCallsError(maximum, owner)
        if call.thread_id is not None:
            # Reserve the thread. Each run continues from the state that the last one left.
            rows = Thread.objects.filter(pk=call.thread_id, removed_at=None)
            if not rows.update(used_at=Now()):
                raise DomainError("thread_removed", "This thread was removed. Start another one.", status=409)
            # The new call is one of them.
            if Call.objects.filter(thread=call.thread_id, status__in=ACTIVE_CALLS).count() > 1:
                raise ThreadBusyError
        if call.calls_back:
            callbacks.add(call, call.calls_back)
        if call.status == CallStatus.QUEUED:
            transaction.on_commit(lambda: queue.wake_worker(call.pk))


def _first_lease(call: Call) -> timedelta:
    """Return how long the call may run, or wait for a worker. Raises CallsWaitError."""
    if call.status != CallStatus.QUEUED:
        return lease_of(call) if call.is_ours else QUEUE_TIMEOUT
    duration = QUEUE_TIMEOUT
    if call.mode == Mode.ASYNC:
        # No client waits for the result, so the call may wait for a worker.
        duration = max(duration, timedelta(seconds=call.deadline_seconds))
    queue.refuse_late(call, duration)
    return duration


_LOCK_KEY = "SELECT 1 FROM people_apitoken WHERE id = %s FOR NO KEY UPDATE"
_LOCK_USER = "SELECT 1 FROM people_user WHERE id = %s FOR NO KEY UPDATE"
_LOCK_PARENT = "SELECT 1 FROM catalog_call WHERE id = %s FOR SHARE"
_IS_THERE = "EXISTS (SELECT FROM catalog_call WHERE id = %s)"
_KEEP_ID = f"""
    INSERT INTO catalog_callid (key, digest) SELECT %s::uuid, %s::text WHERE {_IS_THERE}
"""


@cache
def _insert_statement() -> PreparedInsert:
    now = "statement_timestamp()"
    return PreparedInsert(
        Call,
        expressions={
            "queued_at": now,
            "started_at": f"CASE WHEN %s THEN {now} END",
            "gives_up_at": f"{now} + %s::interval",
        },
        # Steps do not count, only their parents.
        where="""WHERE CASE WHEN %s::bigint IS NOT NULL
            THEN EXISTS (SELECT FROM catalog_call WHERE id = %s::bigint AND status = 'running')
            ELSE (
                SELECT count(*) FROM catalog_call WHERE requested_by_id = %s AND parent_id IS NULL
                    AND token_id IS NOT DISTINCT FROM %s::bigint AND status IN ('queued', 'running')
            ) < coalesce((SELECT calls_at_once FROM people_apitoken WHERE id = %s::bigint), %s::int)
        END""",
        returning=["queued_at", "started_at", "gives_up_at"],
        has_key=True,
    )


def _forget_old(call: Call) -> int:
    """Delete old calls of the tool, after every FORGET_EVERY calls. Return their number."""
    if call.pk % FORGET_EVERY:
        return 0
    finished = Call.objects.filter(tool=call.tool_id, status=CallStatus.FINISHED)
    # Calls with a waiting callback stay.
    finished = finished.exclude(callback__state=SendingState.WAITING)
    oldest = (
        finished.order_by("-pk")
        .values_list("pk", flat=True)[MAX_CALLS_PER_TOOL : MAX_CALLS_PER_TOOL + 1]
        .first()
    )
    return finished.filter(pk__lte=oldest).delete()[0] if oldest else 0


def find_version(tool: int, ordinal: int) -> ToolVersion | None:
    """Return the version with all facts that decide whether and how it may be called, in one query.

    Its signature never changes, and is cached in the memory of this process.
    """
    rows = _VERSION_QUERY.rows(tool=tool, ordinal=ordinal)
    if not rows:
        return None
    (version,) = rows
    if version.pk not in _cached_signatures:
        if len(_cached_signatures) >= MAX_CACHED_SIGNATURES:
            _cached_signatures.clear()
        _cached_signatures[version.pk] = version.decoded()
    version.known = _cached_signatures.get(version.pk)
    version.read_stopping = vars(version).pop("stopping")
    version.next_call = vars(version).pop("reserved")
    return version


_VERSION_QUERY: PreparedQuery[ToolVersion] = PreparedQuery(
    lambda: (
        ToolVersion.objects.filter(tool=named_value("tool"), ordinal=named_value("ordinal"))
        .order_by()
        .select_related(
            *("tool__endpoint__vendor", "tool__endpoint__credential", "tool__endpoint__circuit"),
            *("tool__circuit", "tool__stopped"),
        )
        .defer(*_UNUSED_COLUMNS)
        .annotate(
            stopping=holds.stopping_of_tool(),
            # A call begins with this query, so the call's id is reserved in it.
            reserved=RawSQL(NEXT_CALL, [], output_field=BigIntegerField()),  # noqa: S611 - a constant text
        )
    )
)
