"""`manage.py search_quality FILE`: how well this installation answers questions whose answers are known."""

import json
import time
from argparse import ArgumentParser
from dataclasses import asdict
from itertools import starmap
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError

from catalog.models import Tool
from catalog.models.tools import ToolStatus
from catalog.search import Query, quality, search
from catalog.search.quality import AskedQuestion, KnownQuestion, KnownTool
from core.errors import DomainError

HEAD = (
    f"{'set':20s}{'asked':>7}{'nDCG@10':>9}{'recall@10':>11}{'first 3':>9}{'first 10':>10}"
    f"{'refused':>9}{'p95':>9}"
)


class Command(BaseCommand):
    help = (
        "Asks the questions of FILE, one JSON object a line (docs/search.md), and prints for each set "
        "nDCG@10, recall@10, the share with an answer in the first 3 and 10, the refused share, and p95. "
        "Questions whose answers are not in this catalog are counted and left out."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, nargs="+")
        parser.add_argument("--part", choices=[quality.DEVELOPMENT, quality.TEST], help="only this part")
        parser.add_argument("--misses", action="store_true", help="print the questions without an answer")
        parser.add_argument("--json", action="store_true", help="print the figures as JSON")

    def handle(self, *, file: list[Path], part: str | None, misses: bool, **options: Any) -> None:
        questions: list[KnownQuestion] = []
        for path in file:
            try:
                questions += quality.parse(path.read_text(encoding="utf-8").splitlines())
            except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
                raise CommandError(f"{path} cannot be read as questions. {error}") from error
        questions = [question for question in questions if part in (None, question.part)]
        rows = Tool.objects.filter(status=ToolStatus.ACTIVE)
        columns = rows.values_list("id", "tool_id", "name", "endpoint__vendor__slug")
        answers = quality.resolve_answers(questions, starmap(KnownTool, columns.iterator(5_000)))
        asked_questions = [
            _ask(question, grades)
            for question, grades in zip(questions, answers, strict=True)
            if grades or not question.has_answer
        ]
        figures = quality.measure(asked_questions)
        if options["json"]:
            self.stdout.write(
                json.dumps({name: asdict(measured) for name, measured in figures.items()}, indent=2)
            )
            return
        if misses:
            self._print_misses(asked_questions)
        self.stdout.write(HEAD)
        for name, measured in figures.items():
            self.stdout.write(
                f"{name:20s}{measured.questions:7d}{measured.ndcg:9.3f}{measured.recall:11.3f}{measured.in_first_three:9.0%}"
                f"{measured.in_first_ten:10.0%}{measured.refused:9.0%}{measured.p95:6.1f} ms"
            )
        if left_out := len(questions) - len(asked_questions):
            self.stdout.write(f"{left_out} of {len(questions)} questions have no answer in this catalog.")

    def _print_misses(self, asked_questions: list[AskedQuestion]) -> None:
        for asked_question in asked_questions:
            is_found = any(tool in asked_question.grades for tool in asked_question.ranked[: quality.FIRST])
            if asked_question.is_refused == asked_question.question.has_answer or (
                asked_question.question.has_answer and not is_found
            ):
                names = Tool.objects.in_bulk(asked_question.ranked[: quality.FIRST])
                first_names = ", ".join(names[tool].name for tool in asked_question.ranked[: quality.FIRST])
                mark = "refused" if asked_question.is_refused else "answered"
                self.stdout.write(
                    f"{asked_question.question.set}: {asked_question.question.q} ({mark}) -> {first_names}"
                )


def _ask(question: KnownQuestion, grades: dict[int, int]) -> AskedQuestion:
    vendor = (question.vendor,) if question.vendor else ()
    start = time.perf_counter()
    try:
        page = search(Query(q=question.q, vendor=vendor, status=(ToolStatus.ACTIVE,), limit=50))
    except DomainError as error:
        raise CommandError(f"“{question.q}”: {error.message}") from error
    milliseconds = (time.perf_counter() - start) * 1000
    return AskedQuestion(question, grades, [row["id"] for row in page.rows], page.fits_badly, milliseconds)
