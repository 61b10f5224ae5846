"""What the rehearsals of a draft came to, beside those of the release that it is compared with.

No request judges anything here: what a judge is shown and asked has a digest, under which the answers are
kept. Where there are none yet workers are asked for them, and the reader is told so.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from celery import current_app
from django.urls import reverse

from core import task_dispatch
from designer.exports import document as release_document
from designer.exports.document import ReleaseDocument, ReleasedSubAgent
from designer.models import Agent, Rehearsal, RehearsalPlan, RehearsalRun, RehearsalStatus, Release
from designer.rehearsals import built_in, plans, results, runs, schedule, sentences, shown
from designer.rehearsals.results import Comparison, Sentence
from designer.rehearsals.shown import Shown
from designer.releases.composition import Node

PENDING = (
    "The rehearsals of what would be published are not judged yet, which takes a few seconds. Look again in "
    "a moment, or run them now on the page of the rehearsals."
)


@dataclass(frozen=True)
class _Question:
    """What a judge is shown and asked; `release` None for the draft."""

    agent: Agent
    release: Release | None
    seen: Shown
    asked: Sequence[Sentence]
    digest: str


def of_tree(tree: Sequence[Node], draft: ReleaseDocument, *, base: Release | None) -> dict[int, Comparison]:
    """By primary key the agents of the tree that are rehearsed. Asks workers for what is not judged yet."""
    rows: defaultdict[int, list[Rehearsal]] = defaultdict(list)
    for row in sentences.of([node.agent for node in tree]):
        rows[row.agent_id].append(row)
    if not rows:
        return {}
    told = plans.of_several([node.agent for node in tree if node.agent.pk in rows])
    old = {node.id: node for node in release_document.decode(base.document).nodes} if base else {}
    asked: dict[int, tuple[_Question, _Question | None]] = {}
    for node, released in zip(tree, draft.nodes, strict=True):
        if found := rows[node.agent.pk]:
            was = old.get(released.id)
            asked[node.agent.pk] = (
                _question(node.agent, released, found),
                _question(node.agent, was, found, base) if was else None,
            )
    kept = _kept([each for pair in asked.values() for each in pair if each])
    return {agent: _compared(told[agent], *pair, kept) for agent, pair in asked.items()}


def perform(agent_id: int, release_id: int) -> None:
    """In a worker: judges the sentences of now by the words of a release, unless that was done."""
    release = Release.objects.filter(pk=release_id).first()
    agent = Agent.objects.active().filter(pk=agent_id).first()
    if release is None or agent is None:
        return
    nodes = release_document.decode(release.document).nodes
    node = next((each for each in nodes if (each.id or release.agent_id) == agent_id), None)
    rows = list(sentences.of([agent]))
    if node is None or not rows:
        return
    question = _question(agent, node, rows, release)
    if question.asked and not _kept([question]):
        runs.judged(agent, question.seen, question.asked, release=release.number)


def _question(
    agent: Agent, node: ReleasedSubAgent, rows: Sequence[Rehearsal], release: Release | None = None
) -> _Question:
    seen = shown.of_released(node)
    asked = seen.sentences(rows)
    if release:
        # A sentence for a tool that came later did not fail there.
        asked = [each for each in asked if each.expected]
    return _Question(agent, release, seen, asked, shown.digest(seen, asked, built_in.NAME))


def _kept(questions: Sequence[_Question]) -> dict[tuple[int, str], RehearsalRun]:
    agents, digests = {each.agent.pk for each in questions}, {each.digest for each in questions}
    found = RehearsalRun.objects.filter(
        agent__in=agents, digest__in=digests, status=RehearsalStatus.SUCCEEDED
    ).order_by("pk")
    return {(run.agent_id, run.digest): run for run in found}


def _compared(
    plan: RehearsalPlan,
    now: _Question,
    before: _Question | None,
    kept: dict[tuple[int, str], RehearsalRun],
) -> Comparison:
    agent = now.agent
    if before and not before.asked:
        before = None
    known = {each.digest: kept.get((agent.pk, each.digest)) for each in (now, before) if each}
    missing = [each for each in (now, before) if each and known[each.digest] is None]
    for each in missing:
        _ask(each)
    told = Comparison(
        agent=agent.name,
        judge=built_in.NAME,
        where=reverse("rehearsals", args=[agent.slug]),
        gate=plan.gate,
        at_least=plan.at_least,
        on_flips=plan.on_flips,
        missing=PENDING if missing else "",
    )
    run = known[now.digest]
    if missing or run is None:
        return told
    was = known[before.digest] if before else None
    return replace(
        told,
        now=runs.figure_of(run),
        before=runs.figure_of(was) if was else None,
        against=before.release.number if before and before.release else None,
        flips=tuple(results.flips(runs.answers_of(run), runs.answers_of(was))) if was else (),
    )


def _ask(question: _Question) -> None:
    release = [question.release.pk] if question.release else []
    send = partial(current_app.send_task, schedule.TASK, args=[question.agent.pk, *release])
    task_dispatch.give(send, f"the rehearsal of agent {question.agent.pk}")
