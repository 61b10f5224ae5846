"""Pages of a list that is in memory, by the number of their first row. Pure.

`templates/_changes.html` has the links to the other pages.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")
Other = TypeVar("Other")

MAX_DIGITS = 6
PAGE_SIZE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedPage(Generic[Row]):
    """One page of numbered rows.

    first: the number of the first row of this page, from 1. total: rows of all pages.

    name: of the query parameter for the first row of a page.

    first_before: the first row of the page before, 0 if there is none; None if all pages have equal sizes.
    """

    rows: Sequence[Row]
    first: int = 1
    total: int
    size: int = PAGE_SIZE
    name: str = "changes"
    first_before: int | None = None

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def with_rows(self, rows: Sequence[Other]) -> "NumberedPage[Other]":
        """Return the same page with other rows, for instance in the form that a template needs."""
        same_page: NumberedPage[Any] = self
        return replace(same_page, rows=rows)

    @property
    def is_part(self) -> bool:
        return self.total > self.size

    @property
    def last(self) -> int:
        return min(self.first + self.size - 1, self.total)

    @property
    def previous(self) -> int:
        """Return the first row of the page before; 0 if there is none."""
        if self.first_before is not None:
            return self.first_before
        return max(self.first - self.size, 1) if self.first > 1 else 0

    @property
    def next(self) -> int:
        return self.last + 1 if self.last < self.total else 0

    @property
    def remaining(self) -> int:
        return self.total - self.last


def page_of(
    rows: Sequence[Row], number: str = "", *, size: int = PAGE_SIZE, name: str = "changes"
) -> NumberedPage[Row]:
    """Return the page with the row of this number, which a user may have typed; else the first page."""
    row = read_number(number, len(rows))
    first = row - (row - 1) % size
    return NumberedPage(
        rows=rows[first - 1 : first - 1 + size], first=first, total=len(rows), size=size, name=name
    )


def read_number(number: str, total: int) -> int:
    """Return the number of a row, which a user may have typed; 1 if it is none."""
    row = int(number) if number.isdecimal() and len(number) <= MAX_DIGITS else 1
    return max(1, min(row, total))


def rows_with_text(rows: Sequence[Row], text: str, row_text: Callable[[Row], str]) -> list[Row]:
    """Return the rows with this text, which a user may have typed, in whatever case."""
    searched = text.strip().casefold()
    return [row for row in rows if searched in row_text(row).casefold()]
