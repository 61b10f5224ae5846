"""Questions of a runtime's request that are asked of the database in one round trip with its first one.

A runtime asks for the same all day: which release its channel leads to, and whether the version of a tool may
run. Each question comes after the answer to the one before. What the last request at a place has asked is
asked again along with the key of the next one, and an answer counts where that request then asks the very
same question, with the same values, within half a second. So nothing is decided by what was true in an
earlier request; what was expected wrongly is asked in vain.
"""

import time
from collections.abc import Hashable, Sequence

from core.prepared_statements import Rows, run_prepared, run_together

FRESH_SECONDS = 0.5
MAX_PLACES, MAX_QUESTIONS = 10_000, 4
Question = tuple[str, list[object]]
_expected: dict[Hashable, list[Question]] = {}


class ReadAhead:
    """Of one request. Its questions change nothing, so that any may be asked in vain."""

    def __init__(self, place: Hashable) -> None:
        self._place = place
        self._asked: list[Question] = []
        self._answers: dict[int, tuple[Question, Rows]] = {}
        self._read_at = 0.0

    def begin(self, sql: str, values: Sequence[object]) -> Rows:
        """The rows of the question that the request begins with."""
        expected = _expected.get(self._place, [])
        rows, *ahead = run_together((sql, values), *expected)
        self._answers = dict(enumerate(zip(expected, ahead, strict=True)))
        self._read_at = time.monotonic()
        return rows

    def rows(self, sql: str, values: Sequence[object]) -> Rows:
        question = sql, list(values)
        self._expect(question)
        if time.monotonic() - self._read_at < FRESH_SECONDS:
            for number, (known, _) in list(self._answers.items()):
                # Each answer counts once, whichever thread takes it.
                if known == question and (taken := self._answers.pop(number, None)):
                    return taken[1]
        return run_prepared(*question)

    def _expect(self, question: Question) -> None:
        if question in self._asked or len(self._asked) >= MAX_QUESTIONS:
            return
        self._asked.append(question)
        if _expected.get(self._place) != self._asked:
            if len(_expected) >= MAX_PLACES:
                _expected.clear()
            _expected[self._place] = list(self._asked)
