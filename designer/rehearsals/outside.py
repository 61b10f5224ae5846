"""Test runs by evaluation models over the network. Only workers execute them, one sentence at a time."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from core import strict_json, wakes
from core.encryption import UndecryptableError
from core.outbound.errors import ProtocolError, RefusedError, UnavailableError, printable
from core.outbound.limits import DEFAULT_LIMITS, MIB
from core.outbound.policy import AddressSource, Door, policy_for
from core.outbound.session import HttpSession
from designer.models import Agent, RehearsalJudge, RehearsalRun, RehearsalStatus
from designer.rehearsals import judges, openai_chat, results, runs
from designer.rehearsals.openai_chat import InvalidReplyError, ToolChoice
from designer.rehearsals.results import Sentence
from people.models import User

NAME = "outside"
TASK = "designer.tasks.ask_judge"
# Seconds that a worker spends on a run before it stops, less than a task may take; the lease lasts longer. A
# task begins a run within its first 60 seconds, and the last request of a portion may take 130.
PORTION_SECONDS, LEASE = 100.0, timedelta(minutes=8)
RETRY_DELAYS = (timedelta(seconds=15), timedelta(minutes=1), timedelta(minutes=4))
MAX_WAIT = timedelta(hours=1)
# After this many failures in a row the other requests would fail too.
MAX_FAILURES_IN_A_ROW = 3
NOT_REQUESTED = "Not tested yet."


def identity(judge: RehearsalJudge) -> list[object]:
    """Return the values that identify an evaluation model's answers."""
    return [str(judge.pk), judge.url, judge.model, judge.tries]


def queue(
    agent: Agent,
    judge: RehearsalJudge,
    *,
    tools: Sequence[Any],
    sentences: Sequence[Sentence],
    digest: str,
    asked_by: User | None,
    release: int | None = None,
    failed_run: RehearsalRun | None = None,
) -> RehearsalRun:
    """Queue a run. Answers that the same model gave to the same request in the run `failed` are reused."""
    earlier_choices = failed_run.payload.get("tried", {}) if failed_run else {}
    run = RehearsalRun.objects.create(
        agent=agent,
        judge=NAME,
        asks=judge,
        model=judge.model,
        digest=digest,
        release=release,
        status=RehearsalStatus.QUEUED,
        asked_by=asked_by,
        total=len(sentences),
        payload={"tools": list(tools), "sentences": msgspec.to_builtins(sentences), "tried": earlier_choices},
        due_at=timezone.now(),
    )
    wakes.wake_worker(TASK, run.pk)
    return run


def tick() -> None:
    """Wake workers for due runs and for runs whose worker died. Any process may call this, and twice."""
    wakes.send_missing(TASK, due_runs().values_list("pk", flat=True)[: wakes.MAX_WAKES])


def due_runs() -> QuerySet[RehearsalRun]:
    """Return the runs that a worker may continue now, the oldest first."""
    unfinished = RehearsalRun.objects.filter(status__in=[RehearsalStatus.QUEUED, RehearsalStatus.RUNNING])
    return unfinished.filter(due_at__lte=Now()).order_by("due_at", "pk")


def perform(run_id: int) -> None:
    """Execute a portion of the run. Workers call this."""
    if (
        not due_runs()
        .filter(pk=run_id)
        .update(
            status=RehearsalStatus.RUNNING, started_at=Now(), due_at=Now() + LEASE, attempts=F("attempts") + 1
        )
    ):
        return
    run = RehearsalRun.objects.select_related("agent", "asks").get(pk=run_id)
    run_sentences = msgspec.convert(run.payload["sentences"], list[Sentence])
    choices_by_sentence = msgspec.convert(run.payload["tried"], dict[str, list[ToolChoice]])
    judge = run.asks
    if judge is None or judge.removed_at:
        _end_run(run, run_sentences, choices_by_sentence, {}, "The evaluation model was removed.")
        return
    failures, wait = _request_answers(run, judge, run_sentences, choices_by_sentence)
    # A portion that ran out of time is not a failure.
    is_cut_off = not failures and any(
        len(choices_by_sentence.get(str(sentence.id), [])) < judge.tries for sentence in run_sentences
    )
    if wait is not None and (is_cut_off or run.attempts <= len(RETRY_DELAYS)):
        _store_results(run, run_sentences, choices_by_sentence, failures)
        RehearsalRun.objects.filter(pk=run.pk).update(
            status=RehearsalStatus.QUEUED,
            due_at=Now() + (timedelta() if is_cut_off else max(wait, RETRY_DELAYS[run.attempts - 1])),
            attempts=F("attempts") - 1 if is_cut_off else F("attempts"),
        )
        return
    message = (
        f"{len(failures)} of {len(run_sentences)} sentences have no answer: {next(iter(failures.values()))}"
        if failures
        else ""
    )
    _end_run(run, run_sentences, choices_by_sentence, failures, message)


def _request_answers(
    run: RehearsalRun,
    judge: RehearsalJudge,
    run_sentences: Sequence[Sentence],
    choices_by_sentence: dict[str, list[ToolChoice]],
) -> tuple[dict[int, str], timedelta | None]:
    """Request the missing answers. Return the failures by sentence, and the time to wait before a retry.

    The time is None if nothing is missing, or a retry is useless.
    """
    failures: dict[int, str] = {}
    wait: timedelta | None = None
    failure_count, ends = 0, time.monotonic() + PORTION_SECONDS
    for sentence in run_sentences:
        choices = choices_by_sentence.setdefault(str(sentence.id), [])
        while len(choices) < judge.tries:
            if time.monotonic() > ends:
                return failures, wait or timedelta()
            try:
                body = openai_chat.build_request(judge.model, run.payload["tools"], sentence.says)
                choices.append(openai_chat.parse_reply(request_chat(judge, body)))
            except (RefusedError, UndecryptableError) as exc:
                # The endpoint would refuse the other requests too.
                unanswered = [
                    row
                    for row in run_sentences
                    if len(choices_by_sentence.get(str(row.id), ())) < judge.tries
                ]
                return {row.id: printable(exc.message, 1_000) for row in unanswered}, None
            except (ProtocolError, InvalidReplyError) as exc:
                failures[sentence.id] = printable(getattr(exc, "message", str(exc)), 1_000)
                retry_after = getattr(exc, "retry_after", None) or 0
                wait = max(wait or timedelta(), min(timedelta(seconds=retry_after), MAX_WAIT))
                failure_count += 1
                is_limited = isinstance(exc, UnavailableError) and exc.code == "RATE_LIMITED"
                if is_limited or failure_count >= MAX_FAILURES_IN_A_ROW:
                    return failures, wait
                break
            failure_count = 0
        _store_results(run, run_sentences, choices_by_sentence, failures)
    return failures, wait


def request_chat(judge: RehearsalJudge, body: dict[str, Any]) -> object:
    """Send one request to the evaluation model. Raises ProtocolError and UndecryptableError."""
    key = judges.key_of(judge)
    headers = {"Authorization": f"Bearer {key.reveal()}"} if key else {}
    secrets = (key.reveal(),) if key else ()
    limits = replace(
        DEFAULT_LIMITS, request=float(judge.seconds), session=float(judge.seconds) + 10, body=MIB, backoff=()
    )
    with HttpSession(
        judge.url,
        policy=policy_for(Door.EVALUATION_MODEL, AddressSource.ADMINISTRATOR),
        authorization=headers,
        authorized_for=judge.origin,
        secrets=secrets,
        limits=limits,
    ) as session:
        return strict_json.require_json(session.post(openai_chat.PATH, json=body))


def _store_results(
    run: RehearsalRun,
    run_sentences: Sequence[Sentence],
    choices_by_sentence: Mapping[str, Sequence[ToolChoice]],
    failures: Mapping[int, str],
) -> None:
    tries = run.asks.tries if run.asks else 0
    shown_names = {tool["function"]["name"] for tool in run.payload["tools"]}
    answers = []
    for sentence in run_sentences:
        made = choices_by_sentence.get(str(sentence.id), ())
        failure = failures.get(sentence.id, "" if len(made) >= tries else NOT_REQUESTED)
        answers.append(openai_chat.summarize_tries(sentence, made, shown_names, failure))
    figure = results.figure(answers)
    choices = [choice for sentence_choices in choices_by_sentence.values() for choice in sentence_choices]
    run.payload["tried"] = msgspec.to_builtins(choices_by_sentence)
    run.results, run.right, run.total = msgspec.to_builtins(answers), figure.right, figure.total
    run.input_tokens = sum(choice.input_tokens for choice in choices) or None
    run.output_tokens = sum(choice.output_tokens for choice in choices) or None
    stored_fields = ["payload", "results", "right", "total", "input_tokens", "output_tokens"]
    run.save(update_fields=stored_fields)


def _end_run(
    run: RehearsalRun,
    run_sentences: Sequence[Sentence],
    choices_by_sentence: Mapping[str, Sequence[ToolChoice]],
    failures: Mapping[int, str],
    message: str,
) -> None:
    """Store the results and end the run. message: why it failed, "" if it succeeded."""
    _store_results(run, run_sentences, choices_by_sentence, failures)
    run.payload = {"tried": run.payload["tried"]} if message else {}
    run.due_at, run.message = None, message
    runs.finish(run, runs.answers_of(run))
    if message:
        run.status = RehearsalStatus.FAILED
        run.save(update_fields=["status"])
