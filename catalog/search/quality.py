"""How well a ranking answers questions whose answers are known. Pure: questions and rankings come in."""

import fnmatch
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

DEPTH, FIRST = 10, 3
DEVELOPMENT, TEST = "development", "test"


class KnownQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question with the tools that answer it, as one line of JSON.

    set: the figures are printed by set.
    q: the question as a person types it.
    expected: patterns of tools, `vendor:tool` with `*` and `?`; `tool` is a name or an id at the vendor.
    tools: ids at the vendor with their grades, where some answer better than others.
    vendor: the only vendor to search at; empty for all.
    part: "test" for a question that nothing may be tuned by.
    """

    q: str
    set: str = "questions"
    expected: tuple[str, ...] = ()
    tools: dict[str, int] = {}
    vendor: str = ""
    part: str = DEVELOPMENT

    @property
    def has_answer(self) -> bool:
        return bool(self.expected or self.tools)


@dataclass(frozen=True, slots=True)
class KnownTool:
    id: int
    tool_id: str
    name: str
    vendor: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question after it was asked.

    grades: the tools that answer it, with their grades.
    ranked: the tools that were found, best first.
    is_refused: the search found nothing, or reported that nothing fits well.
    milliseconds: the time of the search.
    """

    question: KnownQuestion
    grades: Mapping[int, int]
    ranked: Sequence[int]
    is_refused: bool
    milliseconds: float

    @property
    def recall(self) -> float:
        """The share of the expected tools that are among the first `DEPTH`."""
        if not self.grades:
            return 0.0
        return len(self.grades.keys() & set(self.ranked[:DEPTH])) / len(self.grades)

    def has_answer_in(self, depth: int) -> bool:
        return any(tool in self.grades for tool in self.ranked[:depth])


@dataclass(slots=True)
class Figures:
    """The figures of one set; shares are from 0 to 1 and `p95` is in milliseconds."""

    questions: int = 0
    ndcg: float = 0.0
    recall: float = 0.0
    in_first_three: float = 0.0
    in_first_ten: float = 0.0
    refused: float = 0.0
    p95: float = 0.0


def parse(lines: Iterable[str]) -> list[KnownQuestion]:
    """Read questions, one a line. Raises msgspec.DecodeError, with the line, for one that is malformed."""
    questions = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                questions.append(msgspec.json.decode(line, type=KnownQuestion))
            except msgspec.DecodeError as error:
                raise msgspec.DecodeError(f"Line {number}: {error}") from error
    return questions


def resolve_answers(questions: Sequence[KnownQuestion], tools: Iterable[KnownTool]) -> list[dict[int, int]]:
    """Return for each question the grades of the tools that answer it, by their ids here."""
    answers: list[dict[int, int]] = [{} for _ in questions]
    by_id: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    patterns: list[tuple[int, re.Pattern[str]]] = []
    for place, question in enumerate(questions):
        for tool_id in question.tools:
            by_id[question.vendor, tool_id].append(place)
        if question.expected:
            either = "|".join(fnmatch.translate(pattern) for pattern in question.expected)
            patterns.append((place, re.compile(either, re.IGNORECASE)))
    for tool in tools:
        for vendor in {"", tool.vendor}:
            for place in by_id.get((vendor, tool.tool_id), ()):
                answers[place][tool.id] = questions[place].tools[tool.tool_id]
        names = {f"{tool.vendor}:{tool.tool_id}", f"{tool.vendor}:{tool.name}"}
        for place, pattern in patterns:
            if any(pattern.match(name) for name in names):
                answers[place][tool.id] = 1
    return answers


def measure(asked: Iterable[AskedQuestion]) -> dict[str, Figures]:
    """Return the figures by set, in the order of the sets."""
    by_set: defaultdict[str, list[AskedQuestion]] = defaultdict(list)
    for asked_question in asked:
        by_set[asked_question.question.set].append(asked_question)
    figures = {}
    for name, answers in by_set.items():
        count = len(answers)
        times = sorted(answer.milliseconds for answer in answers)
        figures[name] = Figures(
            questions=count,
            ndcg=sum(ndcg(answer.ranked, answer.grades) for answer in answers) / count,
            recall=sum(answer.recall for answer in answers) / count,
            in_first_three=sum(answer.has_answer_in(FIRST) for answer in answers) / count,
            in_first_ten=sum(answer.has_answer_in(DEPTH) for answer in answers) / count,
            refused=sum(answer.is_refused for answer in answers) / count,
            p95=times[min(int(0.95 * count), count - 1)],
        )
    return figures


def ndcg(ranked: Sequence[int], grades: Mapping[int, int]) -> float:
    """Return nDCG@10 with the gain 2^grade - 1; 0 if nothing answers."""
    gained = _gain(grades.get(tool, 0) for tool in ranked)
    ideal = _gain(sorted(grades.values(), reverse=True))
    return gained / ideal if ideal else 0.0


def _gain(grades: Iterable[int]) -> float:
    return sum((2.0**grade - 1) / math.log2(place + 2) for place, grade in enumerate(islice(grades, DEPTH)))
