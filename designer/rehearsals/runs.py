"""Runs of an agent's rehearsals: by the built-in judge at once, and what they are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from catalog.search import lexicon
from core.errors import DomainError
from designer.models import Agent, RehearsalPlan, RehearsalRun, RehearsalStatus
from designer.rehearsals import built_in, results, sentences, shown
from designer.rehearsals.results import Answer, Figure, Flip, Sentence
from designer.rehearsals.shown import Shown
from people.models import User

# Of one agent, of its draft and of its releases together.
KEPT = 100


@dataclass(frozen=True)
class Outcome:
    """A run of the draft, and a finished one before it by the same judge, if there is one."""

    run: RehearsalRun
    before: RehearsalRun | None

    @property
    def answers(self) -> list[Answer]:
        return answers_of(self.run)

    @property
    def flips(self) -> list[Flip]:
        is_over = self.run.status == RehearsalStatus.SUCCEEDED
        return results.flips(self.answers, answers_of(self.before)) if self.before and is_over else []


def run_built_in(agent: Agent, *, actor: User | None) -> RehearsalRun:
    """The draft of now, judged in a moment. Raises DomainError where there is nothing to judge."""
    rows = list(sentences.of([agent]))
    if not rows:
        raise nothing_to_run()
    seen = shown.of_agents([agent])[agent.pk]
    return judged(agent, seen, seen.sentences(rows), asked_by=actor)


def nothing_to_run() -> DomainError:
    message = "There is no sentence to rehearse with. Add one: what a user says, and the tool for it."
    return DomainError("no_rehearsals", message, status=409)


def never_run() -> DomainError:
    return DomainError("no_rehearsal_run", "The rehearsals have not been run yet. Run them.", status=404)


def judged(
    agent: Agent,
    seen: Shown,
    asked: Sequence[Sentence],
    *,
    asked_by: User | None = None,
    release: int | None = None,
) -> RehearsalRun:
    """Judged by the built-in judge and kept."""
    stems = lexicon.stems(built_in.words_of(seen.signatures, asked))
    answers = built_in.choose(seen.signatures, asked, stems)
    run = RehearsalRun(
        agent=agent,
        judge=built_in.NAME,
        digest=shown.digest(seen, asked, built_in.NAME),
        release=release,
        status=RehearsalStatus.SUCCEEDED,
        asked_by=asked_by,
    )
    finish(run, answers)
    return run


def finish(run: RehearsalRun, answers: Sequence[Answer]) -> None:
    found = results.figure(answers)
    run.results, run.right, run.total = msgspec.to_builtins(answers), found.right, found.total
    run.status = RehearsalStatus.SUCCEEDED
    run.finished_at = timezone.now()
    run.save()
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [run.agent_id, run.agent_id, KEPT])


# The oldest ones, which nothing is compared with any more.
_FORGET = """
DELETE FROM designer_rehearsalrun WHERE agent_id = %s AND id <= (
    SELECT id FROM designer_rehearsalrun WHERE agent_id = %s ORDER BY id DESC OFFSET %s LIMIT 1)
"""


def refreshed(agent: Agent) -> RehearsalRun | None:
    """In the background: another run where what the newest one was shown and asked is not that of now."""
    rows = list(sentences.of([agent]))
    if not rows:
        return None
    seen = shown.of_agents([agent])[agent.pk]
    asked, last = seen.sentences(rows), newest(agent, built_in.NAME)
    if last and last.digest == shown.digest(seen, asked, built_in.NAME):
        return None
    return judged(agent, seen, asked)


def newest(agent: Agent, judge: str) -> RehearsalRun | None:
    """Of the draft, finished."""
    return _finished(agent, judge).first()


def newest_outcome(plan: RehearsalPlan) -> Outcome | None:
    """The newest run of the draft by the judge whose figure counts, finished or not, beside the newest one
    before it that is."""
    rows = RehearsalRun.objects.filter(agent=plan.agent_id, judge=plan.judge, asks=plan.asks, release=None)
    run = rows.defer("payload").order_by("-pk").first()
    if run is None:
        return None
    before = rows.filter(pk__lt=run.pk, status=RehearsalStatus.SUCCEEDED).defer("payload")
    return Outcome(run, before.order_by("-pk").first())


def _finished(agent: Agent, judge: str) -> QuerySet[RehearsalRun]:
    rows = RehearsalRun.objects.filter(agent=agent, judge=judge, release=None)
    return rows.filter(status=RehearsalStatus.SUCCEEDED).order_by("-pk")


def answers_of(run: RehearsalRun) -> list[Answer]:
    return msgspec.convert(run.results, list[Answer])


def figure_of(run: RehearsalRun) -> Figure:
    return Figure(run.right, run.total)
