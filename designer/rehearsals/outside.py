"""Runs by judges over the network: in workers alone, a sentence at a time, kept as they come.

A run says itself when a worker goes on with it, so that no answer is asked for twice because a worker died,
and none is lost. What a judge cannot answer now is asked again later, and after that the run says why.
"""

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
from core.outbound.session import Session
from designer.models import Agent, RehearsalJudge, RehearsalRun, RehearsalStatus
from designer.rehearsals import judges, openai_chat, results, runs
from designer.rehearsals.openai_chat import Chosen, NoAnswerError
from designer.rehearsals.results import Answer, Sentence
from people.models import User

NAME = "outside"
TASK = "designer.tasks.ask_judge"
# A worker goes on with a run for so long, which is less than a task may take; another one waits as long.
# A task begins a run within its first 60 seconds, and the last request of this portion may take 130.
AT_WORK, LEASE = 100.0, timedelta(minutes=8)
AGAIN = (timedelta(seconds=15), timedelta(minutes=1), timedelta(minutes=4))
MAX_WAIT = timedelta(hours=1)
# After so many failures in a row the others would fail too.
IN_A_ROW = 3
NOT_YET = "It was not asked yet."


def identity(judge: RehearsalJudge) -> list[object]:
    """What makes its answers those of another judge."""
    return [str(judge.pk), judge.url, judge.model, judge.tries]


def queue(
    agent: Agent,
    judge: RehearsalJudge,
    *,
    tools: Sequence[Any],
    asked: Sequence[Sentence],
    digest: str,
    asked_by: User | None,
    release: int | None = None,
    failed: RehearsalRun | None = None,
) -> RehearsalRun:
    """What the same judge was asked the same in a run that `failed`, and answered, is not asked again."""
    tried = failed.payload.get("tried", {}) if failed else {}
    run = RehearsalRun.objects.create(
        agent=agent,
        judge=NAME,
        asks=judge,
        model=judge.model,
        digest=digest,
        release=release,
        status=RehearsalStatus.QUEUED,
        asked_by=asked_by,
        total=len(asked),
        payload={"tools": list(tools), "sentences": msgspec.to_builtins(asked), "tried": tried},
        due_at=timezone.now(),
    )
    _send(run.pk)
    return run


def tick() -> None:
    """Wake workers for what is due and what a worker that died has left. It may run anywhere and twice."""
    wakes.send_missing(TASK, due_runs().values_list("pk", flat=True)[: wakes.MAX_WAKES])


def due_runs() -> QuerySet[RehearsalRun]:
    """Return the runs that a worker may continue now, the oldest first."""
    unfinished = RehearsalRun.objects.filter(status__in=[RehearsalStatus.QUEUED, RehearsalStatus.RUNNING])
    return unfinished.filter(due_at__lte=Now()).order_by("due_at", "pk")


def _send(pk: int) -> None:
    wakes.wake_worker(TASK, pk)


def perform(run_id: int) -> None:
    """In a worker."""
    if (
        not due_runs()
        .filter(pk=run_id)
        .update(
            status=RehearsalStatus.RUNNING, started_at=Now(), due_at=Now() + LEASE, attempts=F("attempts") + 1
        )
    ):
        return
    run = RehearsalRun.objects.select_related("agent", "asks").get(pk=run_id)
    asked = msgspec.convert(run.payload["sentences"], list[Sentence])
    tried = msgspec.convert(run.payload["tried"], dict[str, list[Chosen]])
    judge = run.asks
    if judge is None or judge.removed_at:
        _end(run, asked, tried, {}, "The judge was removed.")
        return
    failed, wait = _ask_all(run, judge, asked, tried)
    # A pass that the time cut off is no failure.
    is_cut_off = not failed and any(len(tried.get(str(each.id), [])) < judge.tries for each in asked)
    if wait is not None and (is_cut_off or run.attempts <= len(AGAIN)):
        _keep(run, asked, tried, failed)
        RehearsalRun.objects.filter(pk=run.pk).update(
            status=RehearsalStatus.QUEUED,
            due_at=Now() + (timedelta() if is_cut_off else max(wait, AGAIN[run.attempts - 1])),
            attempts=F("attempts") - 1 if is_cut_off else F("attempts"),
        )
        return
    _end(run, asked, tried, failed, _says_failed(failed, len(asked)))


def _ask_all(
    run: RehearsalRun, judge: RehearsalJudge, asked: Sequence[Sentence], tried: dict[str, list[Chosen]]
) -> tuple[dict[int, str], timedelta | None]:
    """What failed, by sentence, and how long to wait until it is asked again; None where there is nothing
    to ask, or no use in it."""
    failed: dict[int, str] = {}
    wait: timedelta | None = None
    in_a_row, ends = 0, time.monotonic() + AT_WORK
    for sentence in asked:
        had = tried.setdefault(str(sentence.id), [])
        while len(had) < judge.tries:
            if time.monotonic() > ends:
                return failed, wait or timedelta()
            try:
                had.append(_ask(judge, run.payload["tools"], sentence.says))
            except (RefusedError, UndecryptableError) as exc:
                # It would refuse the others too.
                left = [each for each in asked if len(tried.get(str(each.id), ())) < judge.tries]
                return {each.id: printable(exc.message, 1_000) for each in left}, None
            except (ProtocolError, NoAnswerError) as exc:
                failed[sentence.id] = printable(getattr(exc, "message", str(exc)), 1_000)
                asked_wait = getattr(exc, "retry_after", None) or 0
                wait = max(wait or timedelta(), min(timedelta(seconds=asked_wait), MAX_WAIT))
                in_a_row += 1
                is_limited = isinstance(exc, UnavailableError) and exc.code == "RATE_LIMITED"
                if is_limited or in_a_row >= IN_A_ROW:
                    return failed, wait
                break
            in_a_row = 0
        _keep(run, asked, tried, failed)
    return failed, wait


def _ask(judge: RehearsalJudge, tools: Sequence[Mapping[str, Any]], says: str) -> Chosen:
    key = judges.key_of(judge)
    headers = {"Authorization": f"Bearer {key.reveal()}"} if key else {}
    secrets = (key.reveal(),) if key else ()
    limits = replace(
        DEFAULT_LIMITS, request=float(judge.seconds), session=float(judge.seconds) + 10, body=MIB, backoff=()
    )
    with Session(
        judge.url,
        policy=policy_for(Door.EVALUATION_MODEL, AddressSource.ADMINISTRATOR),
        authorization=headers,
        authorized_for=judge.origin,
        secrets=secrets,
        limits=limits,
    ) as session:
        reply = session.post(openai_chat.PATH, json=openai_chat.request(judge.model, tools, says))
        return openai_chat.read(strict_json.require_json(reply))


def _answers(
    run: RehearsalRun,
    asked: Sequence[Sentence],
    tried: Mapping[str, Sequence[Chosen]],
    failed: Mapping[int, str],
    tries: int,
) -> list[Answer]:
    known = {each["function"]["name"] for each in run.payload["tools"]}
    found = []
    for each in asked:
        had = tried.get(str(each.id), ())
        why = failed.get(each.id, "" if len(had) >= tries else NOT_YET)
        found.append(openai_chat.answer(each, had, known, why))
    return found


def _keep(
    run: RehearsalRun,
    asked: Sequence[Sentence],
    tried: Mapping[str, Sequence[Chosen]],
    failed: Mapping[int, str],
) -> None:
    judge = run.asks
    answers = _answers(run, asked, tried, failed, judge.tries if judge else 0)
    figure = results.figure(answers)
    every = [each for had in tried.values() for each in had]
    run.payload["tried"] = msgspec.to_builtins(tried)
    run.results, run.right, run.total = msgspec.to_builtins(answers), figure.right, figure.total
    run.input_tokens = sum(each.input_tokens for each in every) or None
    run.output_tokens = sum(each.output_tokens for each in every) or None
    kept = ["payload", "results", "right", "total", "input_tokens", "output_tokens"]
    run.save(update_fields=kept)


def _end(
    run: RehearsalRun,
    asked: Sequence[Sentence],
    tried: Mapping[str, Sequence[Chosen]],
    failed: Mapping[int, str],
    message: str,
) -> None:
    _keep(run, asked, tried, failed)
    run.payload = {"tried": run.payload["tried"]} if message else {}
    run.due_at, run.message = None, message
    runs.finish(run, runs.answers_of(run))
    if message:
        run.status = RehearsalStatus.FAILED
        run.save(update_fields=["status"])


def _says_failed(failed: Mapping[int, str], total: int) -> str:
    if not failed:
        return ""
    why = next(iter(failed.values()))
    return f"{len(failed)} of {total} sentences could not be judged: {why}"
