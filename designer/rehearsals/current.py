"""The tests of an agent with their newest result, and whether the agent has changed since."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from designer.models import Agent, Pin, Rehearsal, RehearsalPlan
from designer.rehearsals import plans, runs, sentences, shown
from designer.rehearsals.results import Figure, Sentence, SentenceResult
from designer.rehearsals.runs import RehearsalOutcome
from designer.rehearsals.shown import ShownTools


@dataclass(frozen=True)
class AgentTests:
    """The last test run of an agent. is_current: the evaluation model would read the same tools and
    sentences as in the run.
    """

    plan: RehearsalPlan
    shown: ShownTools
    rows: list[Rehearsal]
    sentences: list[Sentence]
    outcome: RehearsalOutcome | None
    is_current: bool

    @property
    def answers(self) -> dict[int, SentenceResult]:
        return {answer.rehearsal: answer for answer in self.outcome.answers} if self.outcome else {}

    def figure_of(self, tools: Collection[int]) -> Figure:
        """Return how many of the tests that expect one of these tools went as expected, of those that ran."""
        answers = self.answers
        ran = [
            answers[row.pk]
            for row in self.rows
            if row.tool_id in tools and row.pk in answers and answers[row.pk].tries
        ]
        return Figure(sum(answer.right for answer in ran), len(ran))


def read_tests(agent: Agent, pins: Iterable[Pin] | None = None) -> AgentTests:
    """Read the tests. `pins`: the agent's rows of `pinned_signatures.read_items`, if they were read."""
    rows = sentences.read_sentences([agent])
    plan, shown_tools = plans.plan_of(agent), shown.tools_of_agents([agent], pins)[agent.pk]
    current_sentences = shown_tools.sentences(rows)
    outcome = runs.newest_outcome(plan)
    is_current = outcome is not None and outcome.run.digest == shown.digest(
        shown_tools, current_sentences, plans.identity(plan)
    )
    return AgentTests(
        plan=plan,
        shown=shown_tools,
        rows=rows,
        sentences=current_sentences,
        outcome=outcome,
        is_current=is_current,
    )
