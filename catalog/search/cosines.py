"""How close the meanings of tools are to that of a question. Pure."""

from collections.abc import Collection
from typing import NamedTuple


class Cosines(NamedTuple):
    """How close the meanings of tools are to a question as it was typed, and to the rephrased one.

    chore: how much the question reads like work done by hand; None if the model cannot tell.
    clauses: how close they are to the nearest clause of a story, None for another question.
    """

    typed: dict[int, float]
    rephrased: dict[int, float]
    chore: float | None = None
    clauses: dict[int, float] | None = None

    def find_pair(self, tool: int) -> tuple[float, float]:
        """Return both cosines of a tool, 0 for one that was not compared."""
        return self.typed.get(tool, 0.0), self.rephrased.get(tool, 0.0)

    def find_clause(self, tool: int) -> float:
        return self.clauses.get(tool, 0.0) if self.clauses else 0.0

    def among(self, tools: Collection[int]) -> "Cosines":
        typed, rephrased = ({tool: cosines[tool] for tool in tools} for cosines in self[:2])
        return Cosines(typed, rephrased, self.chore, self.clauses)

    def find_closeness(self) -> dict[int, float]:
        """Return the mean of both cosines of each tool, or its cosine with a clause where that is more."""
        means = {tool: (cosine + self.rephrased[tool]) / 2 for tool, cosine in self.typed.items()}
        return {tool: max(mean, self.find_clause(tool)) for tool, mean in means.items()}

    def find_nearest_wording(self) -> dict[int, float]:
        """Return the cosine of each tool with the rephrased question, or with a clause where that is more."""
        return {tool: max(cosine, self.find_clause(tool)) for tool, cosine in self.rephrased.items()}
