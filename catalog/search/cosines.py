"""How close the meanings of tools are to that of a question. Pure."""

from collections.abc import Collection
from typing import NamedTuple


class Cosines(NamedTuple):
    """How close the meanings of tools are to a question as it was typed, and to the rephrased one."""

    typed: dict[int, float]
    rephrased: dict[int, float]

    def find_pair(self, tool: int) -> tuple[float, float]:
        """Return both cosines of a tool, 0 for one that was not compared."""
        return self.typed.get(tool, 0.0), self.rephrased.get(tool, 0.0)

    def among(self, tools: Collection[int]) -> "Cosines":
        return Cosines(*({tool: cosines[tool] for tool in tools} for cosines in self))

    def mean(self) -> dict[int, float]:
        return {tool: (cosine + self.rephrased[tool]) / 2 for tool, cosine in self.typed.items()}
