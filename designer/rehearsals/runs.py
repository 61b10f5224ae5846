"""Runs of an agent's tests by the built-in judge, and the runs that they are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from django.db import connection
from django.utils import timezone
from django.utils.translation import gettext as _

from catalog.search import stemming
from core.errors import DomainError
from designer.models import Agent, RehearsalPlan, RehearsalRun, RehearsalStatus
from designer.rehearsals import built_in, results, sentences, shown
from designer.rehearsals.results import Figure, Flip, Sentence, SentenceResult
from designer.rehearsals.shown import ShownTools
from people.models import User

# Per agent, for its draft and its releases together.
MAX_STORED_RUNS = 100


@dataclass(frozen=True)
class RehearsalOutcome:
    """A run of the draft, and the finished run before it by the same judge, if there is one."""

    run: RehearsalRun
    before: RehearsalRun | None

    @property
    def answers(self) -> list[SentenceResult]:
        return answers_of(self.run)

    @property
    def flips(self) -> list[Flip]:
        is_over = self.run.status == RehearsalStatus.SUCCEEDED
        return results.flips(self.answers, answers_of(self.before)) if self.before and is_over else []


def run_built_in(agent: Agent, *, actor: User | None) -> RehearsalRun:
    """Run the tests of the current draft. Raises DomainError if the agent has none."""
    rows = sentences.read_sentences([agent])
    if not rows:
        raise nothing_to_run()
    shown_tools = shown.tools_of_agents([agent])[agent.pk]
    return run_and_store(agent, shown_tools, shown_tools.sentences(rows), asked_by=actor)


def nothing_to_run() -> DomainError:
    message = _("This agent has no tests. Add one: what a user says, and the tool that you expect.")
    return DomainError("no_rehearsals", message, status=409)


def never_run() -> DomainError:
    return DomainError("no_rehearsal_run", _("The tests have not been run yet. Run them."), status=404)


def run_and_store(
    agent: Agent,
    shown_tools: ShownTools,
    run_sentences: Sequence[Sentence],
    *,
    asked_by: User | None = None,
    release: int | None = None,
) -> RehearsalRun:
    """Run the tests with the built-in judge and store the run."""
    stems = stemming.stems(built_in.words_of(shown_tools.signatures, run_sentences))
    answers = built_in.choose(shown_tools.signatures, run_sentences, stems)
    run = RehearsalRun(
        agent=agent,
        judge=built_in.NAME,
        digest=shown.digest(shown_tools, run_sentences, built_in.NAME),
        release=release,
        status=RehearsalStatus.SUCCEEDED,
        asked_by=asked_by,
    )
    finish(run, answers)
    return run


def finish(run: RehearsalRun, answers: Sequence[SentenceResult]) -> None:
    figure = results.figure(answers)
    run.results, run.right, run.total = msgspec.to_builtins(answers), figure.right, figure.total
    run.status = RehearsalStatus.SUCCEEDED
    run.finished_at = timezone.now()
    run.save()
    with connection.cursor() as cursor:
        cursor.execute(_DELETE_OLD_RUNS, [run.agent_id, run.agent_id, MAX_STORED_RUNS])


# Deletes the oldest runs, which nothing is compared with any more.
_DELETE_OLD_RUNS = """
DELETE FROM designer_rehearsalrun WHERE agent_id = %s AND id <= (
    SELECT id FROM designer_rehearsalrun WHERE agent_id = %s ORDER BY id DESC OFFSET %s LIMIT 1)
"""


def rerun_if_changed(agent: Agent) -> RehearsalRun | None:
    """Run the tests again if the tools or sentences have changed since the newest run. Called in the
    background.
    """
    rows = sentences.read_sentences([agent])
    if not rows:
        return None
    shown_tools = shown.tools_of_agents([agent])[agent.pk]
    current_sentences, newest_run = shown_tools.sentences(rows), newest(agent, built_in.NAME)
    if newest_run and newest_run.digest == shown.digest(shown_tools, current_sentences, built_in.NAME):
        return None
    return run_and_store(agent, shown_tools, current_sentences)


def newest(agent: Agent, judge: str) -> RehearsalRun | None:
    """Return the newest finished run of the draft."""
    rows = RehearsalRun.objects.filter(agent=agent, judge=judge, release=None)
    return rows.filter(status=RehearsalStatus.SUCCEEDED).order_by("-pk").first()


def newest_outcome(plan: RehearsalPlan) -> RehearsalOutcome | None:
    """Return the draft's newest run by the judge that decides, finished or not, with the finished run before
    it.
    """
    rows = RehearsalRun.objects.filter(agent=plan.agent_id, judge=plan.judge, asks=plan.asks, release=None)
    run = rows.defer("payload").order_by("-pk").first()
    if run is None:
        return None
    before = rows.filter(pk__lt=run.pk, status=RehearsalStatus.SUCCEEDED).defer("payload")
    return RehearsalOutcome(run, before.order_by("-pk").first())


def answers_of(run: RehearsalRun) -> list[SentenceResult]:
    return msgspec.convert(run.results, list[SentenceResult])


def figure_of(run: RehearsalRun) -> Figure:
    return Figure(run.right, run.total)
