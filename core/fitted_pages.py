"""Pages of a list whose rows differ in size: each page has as many rows as fit. Pure."""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from core.numbered_pages import PAGE_SIZE, NumberedPage, Row, read_number


def fitted_page_of(
    rows: Sequence[Row],
    number: str = "",
    *,
    count_bytes: Callable[[Row], int],
    max_bytes: int,
    size: int = PAGE_SIZE,
    name: str,
) -> NumberedPage[Row]:
    """Return the page with the row of this number, which a user may have typed; else the first page.

    count_bytes: returns the bytes that a row takes on a page.
    size: the most rows of one page. A row of more than `max_bytes` has a page of its own.
    """
    starts, used_bytes = [0], 0
    for index, row in enumerate(rows):
        row_bytes = count_bytes(row)
        if index > starts[-1] and (used_bytes + row_bytes > max_bytes or index - starts[-1] >= size):
            starts.append(index)
            used_bytes = 0
        used_bytes += row_bytes
    position = bisect_right(starts, read_number(number, len(rows)) - 1) - 1
    start, end = starts[position], [*starts, len(rows)][position + 1]
    return NumberedPage(
        rows=rows[start:end],
        first=start + 1,
        total=len(rows),
        size=end - start,
        name=name,
        first_before=starts[position - 1] + 1 if position else 0,
    )
