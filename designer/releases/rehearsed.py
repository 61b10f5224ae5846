"""The test results of a draft, compared with those of a release."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from core import wakes
from designer.exports import document as release_document
from designer.exports import openai_chat
from designer.exports.base import carried
from designer.exports.document import ReleaseDocument
from designer.models import (
    Agent,
    Rehearsal,
    RehearsalJudge,
    RehearsalPlan,
    RehearsalRun,
    RehearsalStatus,
    Release,
)
from designer.rehearsals import built_in, outside, plans, results, runs, schedule, sentences, shown
from designer.rehearsals.results import RehearsalComparison, Sentence
from designer.rehearsals.shown import ShownTools
from designer.releases import channels, composition
from designer.releases.composition import Node
from people.models import User

# A judge over the network costs money, so only a user starts it.
NOT_STARTED = gettext_noop("“{judge}” has not tested the draft. Run the tests, then reload this page.")
RUNNING = gettext_noop("“{judge}” is testing the draft. Reload this page in a moment.")
FAILED = gettext_noop("“{judge}” could not test the draft: {reason} Run the tests again.")
PENDING = gettext_noop(
    "The tests of the draft have not finished yet, which takes a few seconds. Reload this page in "
    "a moment, or run them now on the page of the tests."
)


@dataclass(frozen=True)
class _TestSet:
    """The tools and sentences for a judge. `release`: None for the draft. `judge`: None for the built-in
    one.
    """

    agent: Agent
    judge: RehearsalJudge | None
    release: Release | None
    document: ReleaseDocument
    tools: ShownTools
    test_sentences: Sequence[Sentence]
    digest: str

    def explain_missing(self, run: RehearsalRun | None) -> str:
        """Return why the run has no result; "" if it has one. Starts a worker for the built-in judge."""
        if run and run.status == RehearsalStatus.SUCCEEDED:
            return ""
        if self.judge is None:
            release = [self.release.pk] if self.release else []
            wakes.wake_worker(schedule.TASK, self.agent.pk, *release)
            return _(PENDING)
        if run is None:
            return _(NOT_STARTED).format(judge=self.judge)
        if run.status == RehearsalStatus.FAILED:
            return _(FAILED).format(judge=self.judge, reason=run.message)
        return _(RUNNING).format(judge=self.judge)


def compare_tree(
    tree: Sequence[Node], draft: ReleaseDocument, *, base: Release | None, old: ReleaseDocument | None
) -> dict[int, RehearsalComparison]:
    """Return the comparisons of the tree's agents with tests, by primary key. Starts workers for missing
    results. `old` is the document of `base`.
    """
    rows: defaultdict[int, list[Rehearsal]] = defaultdict(list)
    for row in sentences.read_sentences(node.agent for node in tree):
        rows[row.agent_id].append(row)
    if not rows:
        return {}
    plans_by_agent = plans.plans_of([node.agent for node in tree if node.agent.pk in rows])
    test_sets: dict[int, tuple[_TestSet, _TestSet | None]] = {}
    for agent in (node.agent for node in tree if node.agent.pk in rows):
        agent_rows, judge = rows[agent.pk], plans_by_agent[agent.pk].asks
        if current_set := _build_test_set(agent, draft, agent_rows, judge):
            test_sets[agent.pk] = (
                current_set,
                _build_test_set(agent, old, agent_rows, judge, base) if old else None,
            )
    stored = _stored_runs([test_set for pair in test_sets.values() for test_set in pair if test_set])
    return {agent: _compare_runs(plans_by_agent[agent], *pair, stored) for agent, pair in test_sets.items()}


def run(agent: Agent, *, actor: User) -> RehearsalRun:
    """Run the tests of the current draft with the judge that decides, and of the release that it is compared
    with.

    The built-in judge runs at once, another one in the background. Raises DomainError if there is nothing to
    run.
    """
    judge, rows = plans.plan_of(agent).asks, sentences.read_sentences([agent])
    if judge is None:
        return runs.run_built_in(agent, actor=actor)
    if not rows:
        raise runs.nothing_to_run()
    questions = [_build_test_set(agent, composition.draft(agent), rows, judge)]
    ancestor: Agent | None = agent
    # The agent is published with any agent above it.
    while ancestor:
        if base := channels.baseline(ancestor):
            document = release_document.decode(base.document)
            questions.append(_build_test_set(agent, document, rows, judge, base))
        ancestor = ancestor.parent
    # For a draft that equals its release, one run serves both.
    test_sets = {row.digest: row for row in reversed(questions) if row}
    stored = _stored_runs(list(test_sets.values()))
    first_run = None
    for row in test_sets.values():
        test_run = stored.get((agent.pk, row.digest))
        # A failed run is repeated; a finished or running one is not.
        if test_run is None or test_run.status == RehearsalStatus.FAILED:
            fits = carried(row.document, openai_chat.FORMAT.limits).fitting
            tools = json.loads(openai_chat.FORMAT.body(fits))
            test_run = outside.queue(
                agent,
                judge,
                tools=tools,
                sentences=row.test_sentences,
                digest=row.digest,
                asked_by=actor,
                failed_run=test_run,
                release=row.release.number if row.release else None,
            )
        first_run = first_run or test_run
    if first_run is None:
        raise runs.nothing_to_run()
    return first_run


def perform(agent_id: int, release_id: int) -> None:
    """Run the current sentences against a release's tools, unless that was done. Workers call this."""
    release = Release.objects.filter(pk=release_id).first()
    agent = Agent.objects.active().filter(pk=agent_id).first()
    if release is None or agent is None:
        return
    rows = sentences.read_sentences([agent])
    question = _build_test_set(agent, release_document.decode(release.document), rows, None, release)
    if question and not _stored_runs([question]):
        runs.run_and_store(agent, question.tools, question.test_sentences, release=release.number)


def _build_test_set(
    agent: Agent,
    document: ReleaseDocument,
    rows: Sequence[Rehearsal],
    judge: RehearsalJudge | None,
    release: Release | None = None,
) -> _TestSet | None:
    # In a release the agent may have had another address.
    agent_node = next(
        (
            node
            for node in document.nodes
            if ((node.id or release.agent_id) == agent.pk if release else node.slug == agent.slug)
        ),
        None,
    )
    agent_document = document.for_agent(agent_node.slug) if agent_node else None
    if agent_node is None or agent_document is None:
        return None
    tools = shown.tools_of_release(agent_node)
    test_sentences = tools.sentences(rows)
    if release:
        # A sentence for a tool that was added later did not fail there.
        test_sentences = [sentence for sentence in test_sentences if sentence.expected]
    if not test_sentences:
        return None
    identity = outside.identity(judge) if judge else built_in.NAME
    return _TestSet(
        agent,
        judge,
        release,
        agent_document,
        tools,
        test_sentences,
        shown.digest(tools, test_sentences, identity),
    )


def _stored_runs(questions: Sequence[_TestSet]) -> dict[tuple[int, str], RehearsalRun]:
    agents_, digests = {row.agent.pk for row in questions}, {row.digest for row in questions}
    rows = RehearsalRun.objects.filter(agent__in=agents_, digest__in=digests).defer("payload").order_by("pk")
    runs_by_key: dict[tuple[int, str], RehearsalRun] = {}
    for run in rows:
        earlier_run = runs_by_key.get((run.agent_id, run.digest))
        # A finished result counts, whatever happened to later runs.
        if (
            earlier_run is None
            or earlier_run.status != RehearsalStatus.SUCCEEDED
            or run.status == RehearsalStatus.SUCCEEDED
        ):
            runs_by_key[run.agent_id, run.digest] = run
    return runs_by_key


def _compare_runs(
    plan: RehearsalPlan,
    current_set: _TestSet,
    earlier_set: _TestSet | None,
    stored: dict[tuple[int, str], RehearsalRun],
) -> RehearsalComparison:
    agent = current_set.agent
    test_sets = [test_set for test_set in (current_set, earlier_set) if test_set]
    run_by_digest = {row.digest: stored.get((agent.pk, row.digest)) for row in test_sets}
    missing = [row.explain_missing(run_by_digest[row.digest]) for row in test_sets]
    comparison = RehearsalComparison(
        agent=agent.name,
        judge=plan.asks.name if plan.asks else built_in.NAME,
        where=reverse("rehearsals", args=[agent.slug]),
        gate=plan.gate,
        at_least=plan.at_least,
        on_flips=plan.on_flips,
        missing=next(filter(None, missing), ""),
    )
    run = run_by_digest[current_set.digest]
    if comparison.missing or run is None:
        return comparison
    earlier_run = run_by_digest[earlier_set.digest] if earlier_set else None
    return replace(
        comparison,
        now=runs.figure_of(run),
        before=runs.figure_of(earlier_run) if earlier_run else None,
        against=earlier_set.release.number if earlier_set and earlier_set.release else None,
        flips=tuple(results.flips(runs.answers_of(run), runs.answers_of(earlier_run))) if earlier_run else (),
    )
