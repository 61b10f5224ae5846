"""What the rehearsals of a draft came to, beside those of the release that it is compared with.

No request judges anything here: what a judge is shown and asked has a digest, under which the answers are
kept. Where there are none yet workers are asked for them, and the reader is told so.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.urls import reverse

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
from designer.rehearsals.results import Comparison, Sentence
from designer.rehearsals.shown import Shown
from designer.releases import channels, composition
from designer.releases.composition import Node
from people.models import User

# A judge over the network costs money, so it is asked when a user wants it and not by itself.
NOT_ASKED = "“{}” has not judged what would be published. Run the rehearsals, then look here again."
ASKED = "“{}” is judging what would be published. Look again in a moment."
FAILED = "“{}” could not judge what would be published: {} Run the rehearsals again."
PENDING = (
    "The rehearsals of what would be published are not judged yet, which takes a few seconds. Look again in "
    "a moment, or run them now on the page of the rehearsals."
)


@dataclass(frozen=True)
class _Question:
    """What a judge is shown and asked; `release` None for the draft. `judge` None is the built-in one."""

    agent: Agent
    judge: RehearsalJudge | None
    release: Release | None
    alone: ReleaseDocument
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
    old = release_document.decode(base.document) if base else None
    asked: dict[int, tuple[_Question, _Question | None]] = {}
    for agent in (node.agent for node in tree if node.agent.pk in rows):
        found, judge = rows[agent.pk], told[agent.pk].asks
        if now := _question(agent, draft, found, judge):
            asked[agent.pk] = (now, _question(agent, old, found, judge, base) if old else None)
    kept = _kept([each for pair in asked.values() for each in pair if each])
    return {agent: _compared(told[agent], *pair, kept) for agent, pair in asked.items()}


def run(agent: Agent, *, actor: User) -> RehearsalRun:
    """What publishing now would show, by the judge whose figure counts: the built-in one at once, another
    one in the background, with the release that it is compared with. Raises DomainError where there is
    nothing to judge."""
    judge, rows = plans.of(agent).asks, list(sentences.of([agent]))
    if judge is None:
        return runs.run_built_in(agent, actor=actor)
    if not rows:
        raise runs.nothing_to_run()
    questions = [_question(agent, composition.draft(agent), rows, judge)]
    above: Agent | None = agent
    # It is published with any agent above it.
    while above:
        if base := channels.baseline(above):
            document = release_document.decode(base.document)
            questions.append(_question(agent, document, rows, judge, base))
        above = above.parent
    # Of a draft that is as it was released, one run says both.
    wanted = {each.digest: each for each in reversed(questions) if each}
    kept = _kept(list(wanted.values()))
    first = None
    for each in wanted.values():
        made = kept.get((agent.pk, each.digest))
        # What failed is asked again; what was answered, or is being asked, is not.
        if made is None or made.status == RehearsalStatus.FAILED:
            fits = carried(each.alone, openai_chat.FORMAT.limits).fitting
            tools = json.loads(openai_chat.FORMAT.body(fits))
            made = outside.queue(
                agent,
                judge,
                tools=tools,
                asked=each.asked,
                digest=each.digest,
                asked_by=actor,
                failed=made,
                release=each.release.number if each.release else None,
            )
        first = first or made
    if first is None:
        raise runs.nothing_to_run()
    return first


def perform(agent_id: int, release_id: int) -> None:
    """In a worker: judges the sentences of now by the words of a release, unless that was done."""
    release = Release.objects.filter(pk=release_id).first()
    agent = Agent.objects.active().filter(pk=agent_id).first()
    if release is None or agent is None:
        return
    rows = list(sentences.of([agent]))
    question = _question(agent, release_document.decode(release.document), rows, None, release)
    if question and not _kept([question]):
        runs.judged(agent, question.seen, question.asked, release=release.number)


def _question(
    agent: Agent,
    document: ReleaseDocument,
    rows: Sequence[Rehearsal],
    judge: RehearsalJudge | None,
    release: Release | None = None,
) -> _Question | None:
    # In a release the agent may have had another address.
    own = next(
        (
            node
            for node in document.nodes
            if ((node.id or release.agent_id) == agent.pk if release else node.slug == agent.slug)
        ),
        None,
    )
    alone = document.at(own.slug) if own else None
    if own is None or alone is None:
        return None
    seen = shown.of_released(own)
    asked = seen.sentences(rows)
    if release:
        # A sentence for a tool that came later did not fail there.
        asked = [each for each in asked if each.expected]
    if not asked:
        return None
    identity = outside.identity(judge) if judge else built_in.NAME
    return _Question(agent, judge, release, alone, seen, asked, shown.digest(seen, asked, identity))


def _kept(questions: Sequence[_Question]) -> dict[tuple[int, str], RehearsalRun]:
    agents_, digests = {each.agent.pk for each in questions}, {each.digest for each in questions}
    rows = RehearsalRun.objects.filter(agent__in=agents_, digest__in=digests).defer("payload").order_by("pk")
    found: dict[tuple[int, str], RehearsalRun] = {}
    for run in rows:
        was = found.get((run.agent_id, run.digest))
        # What was answered once counts, whatever a later run met.
        if was is None or was.status != RehearsalStatus.SUCCEEDED or run.status == RehearsalStatus.SUCCEEDED:
            found[run.agent_id, run.digest] = run
    return found


def _compared(
    plan: RehearsalPlan,
    now: _Question,
    before: _Question | None,
    kept: dict[tuple[int, str], RehearsalRun],
) -> Comparison:
    agent = now.agent
    known = {each.digest: kept.get((agent.pk, each.digest)) for each in (now, before) if each}
    missing = [_missing(each, known[each.digest]) for each in (now, before) if each]
    told = Comparison(
        agent=agent.name,
        judge=plan.asks.name if plan.asks else built_in.NAME,
        where=reverse("rehearsals", args=[agent.slug]),
        gate=plan.gate,
        at_least=plan.at_least,
        on_flips=plan.on_flips,
        missing=next(filter(None, missing), ""),
    )
    run = known[now.digest]
    if told.missing or run is None:
        return told
    was = known[before.digest] if before else None
    return replace(
        told,
        now=runs.figure_of(run),
        before=runs.figure_of(was) if was else None,
        against=before.release.number if before and before.release else None,
        flips=tuple(results.flips(runs.answers_of(run), runs.answers_of(was))) if was else (),
    )


def _missing(question: _Question, run: RehearsalRun | None) -> str:
    """Why there is no figure; empty where there is one."""
    if run and run.status == RehearsalStatus.SUCCEEDED:
        return ""
    if question.judge is None:
        release = [question.release.pk] if question.release else []
        wakes.wake_worker(schedule.TASK, question.agent.pk, *release)
        return PENDING
    if run is None:
        return NOT_ASKED.format(question.judge)
    if run.status == RehearsalStatus.FAILED:
        return FAILED.format(question.judge, run.message)
    return ASKED.format(question.judge)
